"""Every op, one :class:`OpDef` each: signature, type rule, CUDA text and torch reference.

Adding a pointwise op means adding one line to :data:`OPS`. The CUDA text is a format string over operand texts; plain C
operators where they say it all, else a function of the device header (``templates/include/fusebuild/math.cuh``). The
reference takes the torch module as its first argument, so that importing this file does not import torch; the oracle
calls it, and so does the torch module that ``bench`` measures, except where torch has a faster spelling. What the op
means for numbers, which constants and lambdas need, is a function of ``scalars.py``, or ``scalar=``, or what the
reference gives for numbers where that is plain arithmetic.

Names and semantics are nvFuser's direct frontend's.
"""

from __future__ import annotations

import enum
import operator
from collections.abc import Callable, Sequence
from typing import Any

from fusebuild.ir.dtype import DType
from fusebuild.ir.fusion import Fusion
from fusebuild.ir.types import ScalarType, TensorType, ValueType, tensor_type
from fusebuild.ir.values import Expr
from fusebuild.ops import scalars
from fusebuild.ops.generalized import GENERALIZED
from fusebuild.ops.indexing import INDEXING
from fusebuild.ops.op_def import OPERANDS, REQUIRED, Attributes, Kind, OpDef, Parameter, Types, define, dims_of
from fusebuild.ops.ordering import ORDERING
from fusebuild.ops.random import RANDOM
from fusebuild.ops.reductions import REDUCTIONS
from fusebuild.ops.scattering import SCATTERING
from fusebuild.ops.type_rules import (
    TypeRuleError,
    broadcast_in_dim_type,
    broadcast_type,
    expand_type,
    linear_type,
    matmul_type,
    pointwise_type,
    promote,
    require_tensor,
    squeeze_type,
)
from fusebuild.system.named import by_name

__all__ = ["OPERANDS", "OPS", "REQUIRED", "Attributes", "Kind", "OpDef", "Parameter", "Rule", "op_of"]


class Rule(enum.Enum):
    """In which dtype a pointwise op computes and what it yields."""

    ARITHMETIC = "arithmetic"  # promoted dtype in and out; not for bool
    FLOATING = "floating"  # integers and bools become float
    COMPARE = "compare"  # promoted dtype in, bool out
    LOGICAL = "logical"  # bool in and out
    INTEGRAL = "integral"  # integers only
    BITWISE = "bitwise"  # integers and bool
    FLOAT_TEST = "float_test"  # floating in (integers become float), bool out
    ANY = "any"  # promoted dtype in and out, bool too
    SELECT = "select"  # bool first operand, the rest promoted
    COPY = "copy"  # one operand of any dtype, kept: a copy of half is half


def _compute_dtype(rule: Rule, name: str, types: Sequence[ValueType]) -> DType:
    """The dtype in which a pointwise op of ``rule`` meets its operands."""
    if rule is Rule.COPY:
        return types[0].dtype
    dtype = promote(types[1:] if rule is Rule.SELECT else types)
    if rule is Rule.LOGICAL:
        return DType.BOOL
    if rule in (Rule.FLOATING, Rule.FLOAT_TEST):
        return dtype if dtype.is_floating else DType.FLOAT
    if rule is Rule.ARITHMETIC and dtype is DType.BOOL:
        raise TypeRuleError(f"{name} is not defined for bool", hint="use a logical op, or cast first", operand=0)
    if rule is Rule.INTEGRAL and not dtype.is_integer:
        raise TypeRuleError(f"{name} takes integers, not {dtype.value}", operand=0)
    if rule is Rule.BITWISE and dtype.is_floating:
        raise TypeRuleError(f"{name} takes integers or bool, not {dtype.value}", operand=0)
    return dtype


def _pointwise(
    signature: str, rule: Rule, cuda: str, reference: Callable[..., Any], *, integer: str = "", **more: Any
) -> OpDef:
    """``scalar`` may be left out of ``more`` where ``scalars.py`` has a function of that name, or where the reference
    is plain arithmetic."""
    name, operands = signature.split("(")

    def operand_dtypes(types: Types, attributes: Attributes) -> tuple[DType, ...]:
        dtype = _compute_dtype(rule, name, types)
        return tuple(DType.BOOL if rule is Rule.SELECT and index == 0 else dtype for index in range(len(types)))

    def infer(types: Types, attributes: Attributes) -> ValueType:
        dtype = _compute_dtype(rule, name, types)
        return pointwise_type(DType.BOOL if rule in (Rule.COMPARE, Rule.FLOAT_TEST) else dtype, types)

    meaning = more.pop("scalar", None) or scalars.named(name)
    return define(
        signature,
        Kind.POINTWISE,
        infer,
        reference,
        operand_dtypes=operand_dtypes,
        cuda=cuda,
        cuda_integer=integer,
        scalar=meaning or scalars.of_reference(reference, operands.count(",") + 1),
        **more,
    )


def _unary(name: str, rule: Rule = Rule.FLOATING, cuda: str = "", **more: Any) -> OpDef:
    reference = more.pop("reference", lambda torch, x: getattr(torch, name)(x))
    return _pointwise(f"{name}(x)", rule, cuda or f"fb::{name}({{0}})", reference, **more)


def _binary(name: str, rule: Rule = Rule.ARITHMETIC, cuda: str = "", **more: Any) -> OpDef:
    reference = more.pop("reference", lambda torch, a, b: getattr(torch, name)(a, b))
    return _pointwise(f"{name}(lhs, rhs)", rule, cuda or f"fb::{name}({{0}}, {{1}})", reference, **more)


def _function(name: str, **more: Any) -> OpDef:
    """A function of one float that takes many instructions."""
    return _unary(name, is_costly=True, **more)


def _operator(name: str, symbol: str, rule: Rule = Rule.ARITHMETIC, **more: Any) -> OpDef:
    """What C and Python say by one operator."""
    function = getattr(operator, name)
    cuda = f"{{0}} {symbol} {{1}}"
    return _binary(name, rule, cuda, reference=lambda torch, a, b: function(a, b), numbers=(0, 1), **more)


def _copy(name: str, rule: Rule = Rule.COPY, **more: Any) -> OpDef:
    return _unary(name, rule, "{0}", reference=_as_it_is, numbers=(0,), **more)


def _as_it_is(torch: Any, x: Any) -> Any:
    return x


def _imag_infer(types: Types, attributes: Attributes) -> ValueType:
    raise TypeRuleError("imag takes complex numbers, and fusebuild has no complex dtypes", operand=0)


def _trapless(torch: Any, divisor: Any) -> Any:
    """``divisor``, and one in the place of 0 and -1: a CPU traps where it divides by zero, and where the most negative
    integer is divided by -1. The remainder is zero for all three."""
    return torch.where((divisor == 0) | (divisor == -1), 1, divisor)


def _trunc_divide(torch: Any, a: Any, b: Any) -> Any:
    if a.is_floating_point():
        return torch.true_divide(a, b)
    quotient = torch.div(a, _trapless(torch, b), rounding_mode="trunc")
    return torch.where(b == 0, torch.zeros_like(a), torch.where(b == -1, -a, quotient))


def _trunc_modulo(torch: Any, a: Any, b: Any) -> Any:
    if a.is_floating_point():
        return torch.fmod(a, b)
    return torch.fmod(a, _trapless(torch, b))


def _floor_modulo(torch: Any, a: Any, b: Any) -> Any:
    if a.is_floating_point():
        return torch.remainder(a, b)
    return torch.remainder(a, _trapless(torch, b))


def _logical_right_shift(torch: Any, a: Any, b: Any) -> Any:
    bits = a.element_size() * 8
    amount = b.clamp(0, bits - 1)
    mask = torch.where(amount == 0, torch.full_like(a, -1), ~(torch.full_like(a, -1) << (bits - amount)))
    return torch.where((b < 0) | (b >= bits), torch.zeros_like(a), (a >> amount) & mask)


def _pow(torch: Any, a: Any, b: Any) -> Any:
    if a.is_floating_point():
        return torch.pow(a, b)
    whole = torch.pow(a, b.clamp(min=0))
    inverse = torch.where(a == 1, 1, torch.where(a == -1, 1 - 2 * (b & 1).abs(), 0)).to(a.dtype)
    return torch.where(b < 0, inverse, whole)


_UNARY = (
    _unary("abs", Rule.ARITHMETIC),
    *map(_function, ["acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "erf", "erfc", "erfinv", "exp",
                     "exp2", "expm1"]),
    _function("erfcinv", reference=lambda torch, x: torch.erfinv(1 - x)),
    *map(_function, ["lgamma", "log", "log10", "log1p", "log2", "reciprocal", "rsqrt", "sigmoid", "sin", "sinh", "sqrt",
                     "tan", "tanh"]),
    _unary("ceil", Rule.ARITHMETIC, integer="{0}"),
    _unary("floor", Rule.ARITHMETIC, integer="{0}"),
    _unary("round", Rule.ARITHMETIC, integer="{0}"),
    _unary("trunc", Rule.ARITHMETIC, integer="{0}"),
    _unary("frac", Rule.FLOATING),
    _unary("neg", Rule.ARITHMETIC, "-{0}", integer="fb::neg({0})", reference=lambda torch, x: -x, numbers=(0,),
           is_involution=True),
    _unary("relu", Rule.ARITHMETIC),
    _unary("sign", Rule.ARITHMETIC),
    _function("silu", reference=lambda torch, x: torch.nn.functional.silu(x)),
    _unary("signbit", Rule.FLOAT_TEST),
    _unary("logical_not", Rule.LOGICAL, "!{0}", is_involution=True),
    _unary("bitwise_not", Rule.BITWISE, is_involution=True),
    *(_unary(name, Rule.FLOAT_TEST) for name in ["isfinite", "isinf", "isnan", "isneginf", "isposinf"]),
    _unary("isreal", Rule.FLOAT_TEST, "fb::isreal({0})"),
    _copy("real", Rule.ANY),
    _copy("set", copies=True, is_alias=True),
    _copy("segment_set", copies=True, is_alias=True, is_boundary=True, of_elements=False),
)  # fmt: skip

_BINARY = (
    _operator("add", "+", integer="fb::add({0}, {1})", is_commutative=True),
    _operator("sub", "-", integer="fb::sub({0}, {1})"),
    _operator("mul", "*", integer="fb::mul({0}, {1})", is_commutative=True),
    _binary("div", cuda="{0} / {1}", integer="fb::div({0}, {1})", reference=_trunc_divide, is_costly=True),
    _operator("truediv", "/", Rule.FLOATING, is_costly=True),
    _binary("atan2", Rule.FLOATING, is_costly=True),
    _binary("fmod", reference=_trunc_modulo, is_costly=True),
    _binary("mod", reference=_trunc_modulo),
    _binary("remainder", reference=_floor_modulo, is_costly=True),
    _binary("pow", reference=_pow, is_costly=True),
    _binary("nextafter", Rule.FLOATING),
    _binary("maximum", Rule.ANY, is_commutative=True),
    _binary("minimum", Rule.ANY, is_commutative=True),
    _operator("eq", "==", Rule.COMPARE, is_commutative=True),
    _operator("ne", "!=", Rule.COMPARE, is_commutative=True),
    _operator("lt", "<", Rule.COMPARE),
    _operator("le", "<=", Rule.COMPARE),
    _operator("gt", ">", Rule.COMPARE, mirror="lt"),
    _operator("ge", ">=", Rule.COMPARE, mirror="le"),
    _binary("logical_and", Rule.LOGICAL, "{0} && {1}", is_commutative=True),
    _binary("logical_or", Rule.LOGICAL, "{0} || {1}", is_commutative=True),
    _binary("bitwise_and", Rule.BITWISE, is_commutative=True),
    _binary("bitwise_or", Rule.BITWISE, is_commutative=True),
    _binary("bitwise_xor", Rule.BITWISE, is_commutative=True),
    _binary("bitwise_left_shift", Rule.INTEGRAL),
    _binary("bitwise_right_shift", Rule.INTEGRAL),
    _binary("logical_right_shift", Rule.INTEGRAL, reference=_logical_right_shift),
    _binary("gcd", Rule.INTEGRAL),
)

_TERNARY = (
    _pointwise("where(condition, x, y)", Rule.SELECT, "fb::where({0}, {1}, {2})",
               lambda torch, c, a, b: torch.where(c, a, b), numbers=(1, 2),
               example="where(condition: bool[M, N], x: T[M, N], y: T[M, N])"),
    _pointwise("lerp(start, end, weight)", Rule.FLOATING, "fb::lerp({0}, {1}, {2})",
               lambda torch, a, b, w: torch.lerp(a, b, w), numbers=(2,),
               example="lerp(start: T[M, N], end: T[M, N], 0.25)"),
    _pointwise("clamp(x, min, max)", Rule.ARITHMETIC, "fb::clamp({0}, {1}, {2})",
               lambda torch, x, low, high: torch.clamp(x, low, high), numbers=(1, 2),
               example="clamp(x: T[M, N], min=0, max=6)"),
    _pointwise("threshold(x, threshold, value)", Rule.ARITHMETIC, "fb::threshold({0}, {1}, {2})",
               lambda torch, x, limit, value: torch.where(x <= limit, value, x), numbers=(1, 2),
               example="threshold(x: T[M, N], threshold=1, value=0)"),
    _pointwise("addcmul(x, a, b, value)", Rule.ARITHMETIC, "fb::addcmul({0}, {1}, {2}, {3})",
               lambda torch, x, a, b, value: x + value * a * b, numbers=(1, 2, 3),
               example="addcmul(x: T[M, N], a: T[M, N], b: T[N], value=2)"),
)  # fmt: skip


def _cast_infer(types: Types, attributes: Attributes) -> ValueType:
    if isinstance(types[0], TensorType):
        return pointwise_type(attributes["dtype"], types)
    return ScalarType(dtype=attributes["dtype"])


def _view(
    signature: str, infer: Callable[[TensorType, Attributes], TensorType], reference: Callable[..., Any], example: str
) -> OpDef:
    name = signature.partition("(")[0]
    return define(
        signature, Kind.VIEW, lambda types, attributes: infer(require_tensor(name, types[0]), attributes), reference,
        copies=True, is_alias=True, example=example,
    )  # fmt: skip


def _with_dims(x: Any, is_new: Sequence[bool]) -> Any:
    """``x`` with dims of size 1 where ``is_new``."""
    for position, new in enumerate(is_new):
        x = x.unsqueeze(position) if new else x
    return x


def _broadcast_in_dim(torch: Any, x: Any, shape: Sequence[int], broadcast_dims: Sequence[int]) -> Any:
    return _with_dims(x, [position not in broadcast_dims for position in range(len(shape))]).expand(shape)


_VIEWS = (
    _view("broadcast(x, is_broadcast_dim: mask)", lambda t, a: broadcast_type(t, a["is_broadcast_dim"]),
          lambda torch, x, is_broadcast_dim: _with_dims(x, is_broadcast_dim),
          "broadcast(x: T[N], is_broadcast_dim=[True, False])"),
    _view("broadcast_in_dim(x, shape: shape, broadcast_dims: dims)",
          lambda t, a: broadcast_in_dim_type(t, a["shape"], a["broadcast_dims"]), _broadcast_in_dim,
          "broadcast_in_dim(x: T[N], shape=[4, N], broadcast_dims=[1])"),
    _view("expand(x, shape: shape)", lambda t, a: expand_type(t, a["shape"]), lambda torch, x, shape: x.expand(shape),
          "expand(x: T[M, 1], shape=[M, 8])"),
    _view("squeeze(x, dims: dims)", lambda t, a: squeeze_type(t, dims_of("squeeze", t, a)),
          lambda torch, x, dims: x.squeeze(dims) if dims else x, "squeeze(x: T[M, 1], dims=[1])"),
)  # fmt: skip


def _full_infer(types: Types, attributes: Attributes) -> TensorType:
    shape, (fill,) = attributes["shape"], types
    if not isinstance(fill, ScalarType):
        raise TypeRuleError("full takes a scalar fill value", operand=0)
    return tensor_type(attributes["dtype"] or fill.dtype, shape, range(len(shape)))


def _iota_infer(types: Types, attributes: Attributes) -> TensorType:
    if not all(isinstance(t, ScalarType) and t.dtype.is_integer for t in types):
        raise TypeRuleError("iota takes integer scalars for start and step", operand=0)
    dtype = attributes["dtype"] or DType.INT64
    if not dtype.is_integer:
        raise TypeRuleError(f"iota yields integers, not {dtype.value}")
    return tensor_type(dtype, (attributes["length"],))


_CREATION = (
    define("full(shape: shape, fill_value, dtype: dtype = None)", Kind.CREATION, _full_infer,
           lambda torch, fill, shape, dtype: fill.expand(shape), example="x: T[M, N] * full([N], 0.5)"),
    define("iota(length: extent, start = 0, step = 1, dtype: dtype = None)", Kind.CREATION, _iota_infer,
           lambda torch, start, step, length, dtype: torch.arange(length) * step + start,
           example="x: T[M, N] + iota(N, start=1)"),
    define("size(extent: extent)", Kind.CREATION, lambda types, attributes: ScalarType(dtype=DType.INT64),
           lambda torch, extent: torch.tensor(extent), example="x: T[M, N] * size(N)"),
)  # fmt: skip


def _product(torch: Any, function: Callable[..., Any], *operands: Any) -> Any:
    """``function`` of a library, of what is narrower than float in float."""
    is_narrow = operands[0].dtype in (torch.float16, torch.bfloat16)
    return function(*(operand.float() if is_narrow else operand for operand in operands))


_LIBRARY = (
    define("matmul(a, b)", Kind.LIBRARY, lambda types, attributes: matmul_type(*types),
           lambda torch, *operands: _product(torch, torch.matmul, *operands),
           example="matmul(a: T[M, K], b: T[K, N])"),
    define("linear(x, weight, bias = None)", Kind.LIBRARY, lambda types, attributes: linear_type(*types),
           lambda torch, *operands: _product(torch, torch.nn.functional.linear, *operands),
           example="linear(x: T[M, K], weight: T[N, K], bias: T[N])"),
)  # fmt: skip

_IMAG = define("imag(x)", Kind.POINTWISE, _imag_infer, lambda torch, x: torch.imag(x), of_elements=False)
_CAST = define("cast(x, dtype: dtype)", Kind.POINTWISE, _cast_infer,
               lambda torch, x, dtype=None: x,  # every result is converted to its dtype
               scalar=lambda dtype, x: x, example="cast(x: T[M, N], bfloat16)")  # fmt: skip

OPS: dict[str, OpDef] = by_name(
    (*_UNARY, _IMAG, *_BINARY, *_TERNARY, _CAST, *_VIEWS, *INDEXING, *SCATTERING, *REDUCTIONS, *GENERALIZED, *ORDERING,
     *_CREATION, *RANDOM, *_LIBRARY)
)  # fmt: skip
"""Every op by name, in the order in which the documentation lists them."""


def op_of(expr: Expr) -> OpDef:
    """The definition of ``expr``'s op."""
    return OPS[expr.op]


def operand_dtypes(fusion: Fusion, expr: Expr) -> tuple[DType, ...]:
    """The dtypes in which ``expr``, one of ``fusion``, takes its operands."""
    return op_of(expr).operand_dtypes([fusion.value(fid).type for fid in expr.inputs], dict(expr.attributes))
