"""Random numbers: ``philox_uniform`` with ``uniform``, ``rand_like`` and ``dropout``, which a pass writes with it, and
``philox_normal`` with ``normal`` and ``randn_like``.

Nothing here has a state. A draw is a function of three integers, so that it is the same whatever kernel makes it, and
whichever of its threads: Philox4x32-10 of J. Salmon, M. Moraes, R. Dror and D. Shaw, "Parallel random numbers: as easy
as 1, 2, 3", SC 2011, a bijection of counters of 128 bits under a key of 64. The key is the seed, its low half first.
Element ``i`` takes word ``i % 4`` of what becomes of the counter with ``i // 4`` as its low half and the offset as its
high half; ``i`` is the element's place in the row-major order of the op's own result. All three count as unsigned
integers of 64 bits.

A word becomes a float in [0, 1): its upper 24 bits over 2^24, which is exact. A half is made of the upper 11 bits and a
bfloat16 of the upper 8 likewise, as in torch, since rounding to them would reach 1; a double is the float. ``uniform``
stretches that number to its bounds with one fused multiply-add in float, which may round to ``maxval`` itself.

``dropout`` keeps the elements whose float is not below ``p``, and divides them by ``1 - p``; the others are 0, whatever
they were.

A normal number is made of two words: G. Box and M. Muller, "A note on the generation of random normal deviates", 1958.
Elements ``4 g`` and ``4 g + 1`` take words 0 and 1 of their counter, the other two words 2 and 3. The first word of a
pair, rounded to a float, is the radius ``sqrt(-2 log(word / 2^32 + 2^-33))``, whose argument is rounded to a float as
well and never 0, so that no number is larger than 6.77. The upper 24 bits of the second word over 2^24 are the angle,
in turns. The first element of the pair is the radius times the cosine of the angle, the other one times its sine. What
is rounded from there on depends on the functions of a target; the bits before do not. ``normal`` multiplies by ``std``
and adds ``mean`` with one fused multiply-add in float.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from fusebuild.ir.dtype import DType
from fusebuild.ir.types import Literal, ScalarType, TensorType, ValueType, tensor_type
from fusebuild.ops.op_def import Attributes, Infer, Kind, Types, define
from fusebuild.ops.type_rules import TypeRuleError, pointwise_type, promote, require_tensor

DRAW_BITS = {dtype: min(24, dtype.row.mantissa_bits + 1) for dtype in DType if dtype.is_floating}
"""How many bits of a word make a random number of each dtype: as many as its numbers tell apart, of a float at most."""

_ROUNDS = 10
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
_WORD = 0xFFFFFFFF


def philox4x32_10(counter: Sequence[Any], key: Sequence[Any]) -> tuple[Any, Any, Any, Any]:
    """Philox4x32-10 of a counter of four words under a key of two, the low words first; words are integers below 2^32,
    or int64 tensors of them, which broadcast."""
    a, b, c, d = counter
    low, high = key
    for _ in range(_ROUNDS):
        first, second = a * _MULTIPLIERS[0], c * _MULTIPLIERS[1]  # int64 wraps; the bits are those of the product
        a, b = (second >> 32 & _WORD) ^ b ^ low, second & _WORD
        c, d = (first >> 32 & _WORD) ^ d ^ high, first & _WORD
        low, high = low + _KEY_STEPS[0] & _WORD, high + _KEY_STEPS[1] & _WORD
    return a, b, c, d


def _halves(number: Any) -> tuple[Any, Any]:
    return number & _WORD, number >> 32 & _WORD


def _words(index: Any, seed: Any, offset: Any) -> tuple[Any, Any, Any, Any]:
    """The four words of the counter of each element, of which it takes its own."""
    group = index >> 2 & (1 << 62) - 1
    return philox4x32_10((*_halves(group), *_halves(offset)), _halves(seed))


def draws(torch: Any, index: Any, seed: Any, offset: Any, dtype: DType = DType.FLOAT) -> Any:
    """A float in [0, 1), of as many bits as a ``dtype`` has, for each element of the int64 tensor ``index``; ``seed``
    and ``offset`` are int64 too, and have no dims."""
    words, place = _words(index, seed, offset), index & 3
    word = torch.where(place == 0, words[0], torch.where(place == 1, words[1], torch.where(place == 2, *words[2:])))
    bits = DRAW_BITS[dtype]
    return (word >> 32 - bits).to(torch.float32) * 2.0**-bits


def stretched(torch: Any, draw: Any, low: Any, high: Any) -> Any:
    """``draw * (high - low) + low``, all float: the product is exact in double, and the sum is rounded to float."""
    low = low.float()
    return (draw.double() * (high.float() - low).double() + low.double()).float()


def normals(torch: Any, index: Any, seed: Any, offset: Any, dtype: DType = DType.FLOAT) -> Any:
    """A normal number of mean 0 and deviation 1, in double, for each element of the int64 tensor ``index``; operands
    as of :func:`draws`. What has another ``dtype`` is rounded from it."""
    words, is_second_pair = _words(index, seed, offset), index & 2 != 0
    first, second = (torch.where(is_second_pair, words[2 + part], words[part]) for part in (0, 1))
    share = (first.float().double() * 2.0**-32 + 2.0**-33).float().double()
    turns = (second >> 8).double() * 2.0**-24
    angle, radius = 2 * math.pi * turns, (-2.0 * share.log()).sqrt()
    return radius * torch.where(index & 1 != 0, angle.sin(), angle.cos())


def scaled(torch: Any, draw: Any, mean: Any, std: Any) -> Any:
    """``draw * std + mean``, all float, with one rounding."""
    return (draw.double() * std.float().double() + mean.float().double()).float()


def _linear(torch: Any, shape: Sequence[int]) -> Any:
    return torch.arange(math.prod(shape)).reshape(tuple(shape))


def _drawn(torch: Any, shape: Sequence[int], seed: Any, offset: Any, dtype: DType) -> Any:
    return draws(torch, _linear(torch, shape), seed.long(), offset.long(), dtype)


def _uniform_numbers(
    torch: Any, low: Any, high: Any, seed: Any, offset: Any, shape: Sequence[int], dtype: DType
) -> Any:
    return stretched(torch, _drawn(torch, shape, seed, offset, dtype), low, high)


def _normal_numbers(torch: Any, mean: Any, std: Any, seed: Any, offset: Any, shape: Sequence[int], dtype: DType) -> Any:
    return scaled(torch, normals(torch, _linear(torch, shape), seed.long(), offset.long()), mean, std)


def _dropped(torch: Any, x: Any, p: Any, seed: Any, offset: Any, dtype: DType) -> tuple[Any, Any]:
    kept, scale = _drawn(torch, x.shape, seed, offset, DType.FLOAT) >= p.float(), 1.0 / (1.0 - p)
    return torch.where(kept, x * (scale if dtype is DType.DOUBLE else scale.float()), 0.0), kept


def _require_scalar(op: str, name: str, types: Types, operand: int, *, integer: bool) -> None:
    type_ = types[operand]
    if not isinstance(type_, ScalarType) or type_.dtype is DType.BOOL or (integer and not type_.dtype.is_integer):
        got = "a tensor" if isinstance(type_, TensorType) else type_.dtype.value
        what = "an integer scalar" if integer else "a number"
        raise TypeRuleError(f"{op} takes {what} as {name}, not {got}", operand=operand)


def _require_seeds(op: str, types: Types, first: int) -> None:
    for operand, name in enumerate(("rng_seed", "rng_offset"), first):
        _require_scalar(op, name, types, operand, integer=True)


def _require_numbers(op: str, types: Types, first: int, *names: str) -> None:
    for operand, name in enumerate(names, first):
        _require_scalar(op, name, types, operand, integer=False)


def _floating(op: str, dtype: DType, operand: int | None = None) -> DType:
    if not dtype.is_floating:
        verb = "yields" if operand is None else "takes"
        raise TypeRuleError(f"{op} {verb} floating numbers, not {dtype.value}", operand=operand)
    return dtype


def _by_index(op: str) -> Infer:
    """The type of what draws by an index of the author."""

    def infer(types: Types, attributes: Attributes) -> ValueType:
        index = require_tensor(op, types[0])
        if not index.dtype.is_integer:
            raise TypeRuleError(f"{op} takes a tensor of integers, not {index.dtype.value}", operand=0)
        _require_seeds(op, types, 1)
        return pointwise_type(DType.FLOAT, types)

    return infer


def _of_draw(op: str, *numbers: str) -> Infer:
    """The type of what two ``numbers`` make of a draw."""

    def infer(types: Types, attributes: Attributes) -> ValueType:
        draw = require_tensor(op, types[0])
        if draw.dtype is not DType.FLOAT:
            raise TypeRuleError(f"{op} takes a tensor of float, not {draw.dtype.value}", operand=0)
        _require_numbers(op, types, 1, *numbers)
        return pointwise_type(DType.FLOAT, types)

    return infer


def _of_shape(op: str, *numbers: str) -> Infer:
    """The type of what two ``numbers`` and a seed make for each place of a shape."""

    def infer(types: Types, attributes: Attributes) -> ValueType:
        _require_numbers(op, types, 0, *numbers)
        _require_seeds(op, types, 2)
        return tensor_type(_floating(op, attributes["dtype"] or DType.FLOAT), attributes["shape"])

    return infer


def _like(op: str) -> Infer:
    """The type of what a seed makes for each element of a tensor."""

    def infer(types: Types, attributes: Attributes) -> ValueType:
        like = require_tensor(op, types[0])
        _require_seeds(op, types, 1)
        return tensor_type(_floating(op, like.dtype, 0), like.shape)

    return infer


def _dropout(types: Types, attributes: Attributes) -> tuple[ValueType, ...]:
    x = require_tensor("dropout", types[0])
    _require_numbers("dropout", types, 1, "p")
    _require_seeds("dropout", types, 2)
    dtype = _floating("dropout", promote([x]) if x.dtype.is_floating else x.dtype, 0)
    return tensor_type(dtype, x.shape), tensor_type(DType.BOOL, x.shape)


def _check_probability(literals: Sequence[Literal | tuple[int, ...] | None]) -> None:
    p = literals[1]
    if isinstance(p, int | float) and not 0 <= p < 1:
        raise TypeRuleError(f"dropout: p is {p:g}, not in [0, 1)", "p is the part that becomes 0", operand=1)


def _check_deviation(literals: Sequence[Literal | tuple[int, ...] | None]) -> None:
    std = literals[1]
    if isinstance(std, int | float) and not std >= 0:
        raise TypeRuleError(f"normal: std is {std:g}, which is no deviation", "std is 0 or more", operand=1)


def _dropout_dtypes(types: Types, attributes: Attributes) -> tuple[DType, ...]:
    return _dropout(types, attributes)[0].dtype, *(type_.dtype for type_ in types[1:])


def _all(dtype: DType) -> Callable[[Types, Attributes], tuple[DType, ...]]:
    """An op that meets all its operands in ``dtype``."""
    return lambda types, attributes: (dtype,) * len(types)


_SEEDS = "rng_seed, rng_offset = 0"

RANDOM = (
    define("linear_index(shape: shape)", Kind.CREATION, lambda types, named: tensor_type(DType.INT64, named["shape"]),
           _linear, example="x: T[M, N] * linear_index([M, N])"),
    define(f"philox_uniform(index, {_SEEDS})", Kind.POINTWISE, _by_index("philox_uniform"), draws,
           operand_dtypes=_all(DType.INT64), cuda="fb::philox_uniform({0}, {1}, {2})", is_random=True, is_costly=True,
           of_elements=False, example="philox_uniform(index: T[M], rng_seed=7)"),
    define(f"philox_normal(index, {_SEEDS})", Kind.POINTWISE, _by_index("philox_normal"), normals,
           operand_dtypes=_all(DType.INT64), cuda="fb::philox_normal({0}, {1}, {2})", is_random=True, is_costly=True,
           of_elements=False, example="philox_normal(index: T[M], rng_seed=7)"),
    define("uniform_between(draw, minval, maxval)", Kind.POINTWISE, _of_draw("uniform_between", "minval", "maxval"),
           stretched,
           operand_dtypes=_all(DType.FLOAT), cuda="fb::uniform_between({0}, {1}, {2})",
           scalar=lambda dtype, draw, low, high: low + draw * (high - low),
           example="uniform_between(draw: T[M], -1.0, 1.0)"),
    define("normal_around(draw, mean, std)", Kind.POINTWISE, _of_draw("normal_around", "mean", "std"), scaled,
           operand_dtypes=_all(DType.FLOAT), cuda="fb::normal_around({0}, {1}, {2})",
           scalar=lambda dtype, draw, mean, std: draw * std + mean,
           example="normal_around(draw: T[M], 1.0, 0.5)"),
    define(f"uniform(minval, maxval, shape: shape, {_SEEDS}, dtype: dtype = None)", Kind.COMPOSITE,
           _of_shape("uniform", "minval", "maxval"), _uniform_numbers, is_random=True,
           example="x: T[M, N] * uniform(-1.0, 1.0, [N], rng_seed=7)"),
    define(f"normal(mean, std, shape: shape, {_SEEDS}, dtype: dtype = None)", Kind.COMPOSITE,
           _of_shape("normal", "mean", "std"), _normal_numbers, is_random=True, check=_check_deviation,
           example="x: T[M, N] + normal(0.0, 0.02, [N], rng_seed=7)"),
    define(f"rand_like(x, {_SEEDS})", Kind.COMPOSITE, _like("rand_like"),
           lambda torch, x, seed, offset, dtype: _drawn(torch, x.shape, seed, offset, dtype),
           is_random=True, example="rand_like(x: T[M, N], rng_seed=7)"),
    define(f"randn_like(x, {_SEEDS})", Kind.COMPOSITE, _like("randn_like"),
           lambda torch, x, seed, offset, dtype: normals(torch, _linear(torch, x.shape), seed.long(), offset.long()),
           is_random=True, example="randn_like(x: T[M, N], rng_seed=7)"),
    define(f"dropout(x, p, {_SEEDS})", Kind.COMPOSITE, _dropout, _dropped, results=2,
           operand_dtypes=_dropout_dtypes, is_random=True, check=_check_probability,
           example="dropout(x: T[M, N], 0.1, rng_seed=7)"),
)  # fmt: skip
"""The ops of this module, for :data:`fusebuild.ops.table.OPS`."""
