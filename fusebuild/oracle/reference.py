"""The oracle: a Fusion evaluated by torch, op by op, with no cleverness: each op is what its entry names as reference.

:func:`evaluate` computes every value in the dtype that it is typed with. :func:`evaluate_fp64` holds every floating
value in float64 and rounds only where the Fusion itself rounds (half, bfloat16), so that what remains when a kernel is
compared with it is the kernel's own error. Both take un-decomposed Fusions (``mean``, ``var``, ``keepdim``) as well as
what the passes leave, so a Fusion can be compared with itself before and after any stage.

:func:`random_inputs` makes fresh inputs with the layout that the Fusion declares.
Torch is imported inside functions only: ``fusebuild compile`` never needs it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from fusebuild.errors import UsageError, counted
from fusebuild.ir.dtype import DType
from fusebuild.ir.formula import Formula, show
from fusebuild.ir.formula import evaluate as evaluate_formula
from fusebuild.ir.fusion import Fusion
from fusebuild.ir.types import ScalarType, TensorType
from fusebuild.ir.values import Expr, Output, Value
from fusebuild.ops.table import op_of, operand_dtypes
from fusebuild.oracle.distinct import distinct_dims, draw_distinct

if TYPE_CHECKING:
    from torch import Tensor

Argument: TypeAlias = "Tensor | bool | int | float"


def torch_dtype(dtype: DType) -> Any:
    """The ``torch.dtype`` that ``dtype`` names."""
    import torch

    return getattr(torch, dtype.row.torch)


def evaluate(
    fusion: Fusion, inputs: Sequence[Argument], *, given: Mapping[str, int] | None = None
) -> tuple[Tensor, ...]:
    """The outputs of ``fusion``, each value computed in its own dtype, as fresh contiguous tensors.

    ``inputs`` follow ``fusion.inputs``: numbers for scalars, tensors on one device (``cpu`` inputs may lie elsewhere).
    Inputs that outputs alias are left as they are. ``given`` has the sizes of ``fusion.given``, for a segment. Raises
    :class:`UsageError` when inputs do not fit the Fusion.
    """
    return Evaluation(fusion, inputs, _convert_as_typed, given or {}).outputs(frozenset())


def evaluate_fp64(
    fusion: Fusion, inputs: Sequence[Argument], *, given: Mapping[str, int] | None = None
) -> tuple[Tensor, ...]:
    """The outputs of ``fusion``, every floating value held in float64; floating outputs are float64.

    Values typed half or bfloat16 are rounded to that dtype, because the author asked for the rounding, and a double
    scalar that meets floats is rounded to float, so that comparisons with it agree. An output typed half or bfloat16 is
    given as it was before its last rounding. Values that leave float's range stay finite here.
    """
    return Evaluation(fusion, inputs, held_in_fp64, given or {}).outputs(rounded_last(fusion))


def bind_extents(fusion: Fusion, inputs: Sequence[Argument], given: Mapping[str, int] | None = None) -> dict[str, int]:
    """The size of every symbol: those ``given``, the others read from the shapes of ``inputs``.

    Raises :class:`UsageError` naming the input when a rank, a constant extent or a repeated symbol does not agree.
    """
    if len(inputs) != len(fusion.inputs):
        raise UsageError(f"fusion {fusion.name} takes {counted(len(fusion.inputs), 'input')}, not {len(inputs)}")
    extents = dict(given or {})
    sized: list[tuple[Value, int, Formula, int]] = []
    for fid, argument in zip(fusion.inputs, inputs, strict=True):
        value = fusion.value(fid)
        if not value.is_tensor:
            continue
        shape = tuple(getattr(argument, "shape", ()))
        if len(shape) != value.tensor.rank:
            raise UsageError(f"input {value.name} has {counted(value.tensor.rank, 'dim')}, got {len(shape)}")
        for dim, (extent, size) in enumerate(zip(value.tensor.shape, shape, strict=True)):
            sized.append((value, dim, extent, size))
            if isinstance(extent, str):
                extents.setdefault(extent, size)
    for solution in fusion.solved.solutions:
        if solution.symbol not in extents:
            size = next(size for value, dim, _, size in sized if (value.fid, dim) == (solution.input, solution.dim))
            factor, offset = (evaluate_formula(each, extents) for each in (solution.factor, solution.offset))
            extents[solution.symbol] = (solution.divisor * size - offset) // factor if factor else 0
    for value, dim, extent, size in sized:
        if (expected := evaluate_formula(extent, extents)) != size:
            raise UsageError(f"dim {dim} of input {value.name} is {show(extent)} = {expected}, got {size}")
    return extents


Conversion: TypeAlias = "Callable[[Tensor, DType], Tensor]"


def _convert_as_typed(tensor: Tensor, dtype: DType) -> Tensor:
    return tensor.to(torch_dtype(dtype))


def held_in_fp64(tensor: Tensor, dtype: DType) -> Tensor:
    """``tensor`` as a value of ``dtype`` that is held in float64 where it is floating."""
    import torch

    if dtype.is_reduced_precision:
        return tensor.to(torch_dtype(dtype)).to(torch.float64)
    return tensor.to(torch.float64 if dtype.is_floating else torch_dtype(dtype))


def rounded_last(fusion: Fusion) -> frozenset[int]:
    """The outputs typed half or bfloat16, and the values that they are copies of."""
    found: set[int] = set()
    for output in fusion.outputs:
        fid = output.fid
        while fid not in found and fusion.value(fid).dtype.is_reduced_precision:
            found.add(fid)
            expr = fusion.expr_of(fid)
            if expr is None or not op_of(expr).copies:
                break
            fid = expr.inputs[0]
    return frozenset(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One expr with its operands, already converted to the dtypes in which the op meets them."""

    expr: Expr
    operands: tuple[Tensor, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Combination:
    """A lambda as a function of two states, element by element; ``convert`` holds its values."""

    body: Fusion
    convert: Conversion

    def __call__(self, left: tuple[Tensor, ...], right: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        import torch

        live = dict(zip(self.body.inputs, (*left, *right), strict=True))
        for value in self.body.values.values():
            if value.literal is not None:
                live[value.fid] = self.convert(torch.as_tensor(value.literal, device=left[0].device), value.dtype)
        for expr in self.body.exprs:
            taken = zip(expr.inputs, operand_dtypes(self.body, expr), strict=True)
            operands = [self.convert(live[fid], dtype) for fid, dtype in taken]
            (result,) = expr.outputs
            live[result] = self.convert(op_of(expr).reference(torch, *operands), self.body.value(result).dtype)
        return tuple(live[fid].expand(left[0].shape) for fid in self.body.output_fids)


class Evaluation:
    """One run: the live tensors by fid, dropped after their last use so that large cases fit in memory. ``convert``
    decides in which precision values are held."""

    def __init__(
        self, fusion: Fusion, inputs: Sequence[Argument], convert: Conversion, given: Mapping[str, int]
    ) -> None:
        self.fusion, self.convert = fusion, convert
        self.extents = bind_extents(fusion, inputs, given)
        self.device = _common_device(inputs)
        self.live: dict[int, Tensor] = {}
        self.wide: dict[int, Tensor] = {}
        for fid, argument in zip(fusion.inputs, inputs, strict=True):
            self.live[fid] = self._hold(fusion.value(fid), argument)

    def _hold(self, value: Value, argument: Argument) -> Tensor:
        """``argument`` as a tensor on the device, in the dtype in which values are held."""
        import torch

        expected = torch_dtype(value.dtype)
        if isinstance(value.type, TensorType):
            if not isinstance(argument, torch.Tensor) or argument.dtype != expected:
                got = argument.dtype if isinstance(argument, torch.Tensor) else type(argument).__name__
                raise UsageError(f"input {value.name} is {expected}, got {got}")
            return self.convert(argument.to(self.device), value.dtype)
        return self.convert(torch.as_tensor(argument, dtype=expected, device=self.device), value.dtype)

    def outputs(self, unrounded: frozenset[int]) -> tuple[Tensor, ...]:
        """Run every expr. Outputs among ``unrounded`` are given in float64, as they were before their last rounding."""
        import torch

        kept = set(self.fusion.output_fids)
        last_use = {fid: self.fusion.uses(fid)[-1] for fid in self.fusion.values if self.fusion.uses(fid)}
        for index, expr in enumerate(self.fusion.exprs):
            step = Step(expr=expr, operands=tuple(map(self._operand, expr.inputs, operand_dtypes(self.fusion, expr))))
            for fid, result in zip(expr.outputs, self.run(step), strict=True):
                self.live[fid] = self.convert(result, self.fusion.value(fid).dtype)
                if fid in unrounded:
                    self.wide[fid] = self._before_rounding(step, result)
            for fid in (*expr.inputs, *expr.outputs):
                if last_use.get(fid, -1) <= index and fid not in kept:
                    self.live.pop(fid, None)
                    self.wide.pop(fid, None)
        results = [self.wide[fid] if fid in self.wide else self._read(fid) for fid in self.fusion.output_fids]
        contiguous = [result.clone(memory_format=torch.contiguous_format) for result in results]
        return tuple(map(self._as_the_caller_sees_it, self.fusion.outputs, contiguous))

    def _as_the_caller_sees_it(self, output: Output, result: Tensor) -> Tensor:
        if output.shape is None:
            return result
        return result.reshape([evaluate_formula(extent, self.extents) for extent in output.shape])

    def run(self, step: Step) -> tuple[Tensor, ...]:
        """The results of one expr, before they are converted to the dtypes of its outputs."""
        import torch

        expr, op = step.expr, op_of(step.expr)
        named = op.named(dict(expr.attributes), lambda extent: evaluate_formula(extent, self.extents))
        if op.is_generalized:
            named["combine"] = Combination(body=self.fusion.lambdas[expr.combine], convert=self.convert)
        if op.is_random:
            named["dtype"] = self.fusion.value(expr.outputs[0]).dtype
        with self.device:  # for what the reference creates
            results = op.reference(torch, *step.operands, **named)
        return results if isinstance(results, tuple) else (results,)

    def _before_rounding(self, step: Step, result: Tensor) -> Tensor:
        """What ``result`` is without the rounding to its own dtype; for a copy, without that of its operand."""
        source = step.expr.inputs[0] if op_of(step.expr).copies else None
        if source in self.wide:
            return Evaluation.run(self, replace(step, operands=(self.wide[source],)))[0]
        return result.double()

    def _operand(self, fid: int, dtype: DType) -> Tensor:
        value, tensor = self.fusion.value(fid), self._read(fid)
        if value.dtype is dtype:
            return tensor
        if isinstance(value.type, ScalarType) and value.dtype is DType.DOUBLE and dtype is DType.FLOAT:
            tensor = tensor.float()
        return self.convert(tensor, dtype)

    def _read(self, fid: int) -> Tensor:
        if fid not in self.live:
            literal = self.fusion.value(fid).literal
            assert literal is not None, f"fid {fid} is read after its last use"
            assert not isinstance(literal, tuple), f"fid {fid} is a vector, which no op reads"
            self.live[fid] = self._hold(self.fusion.value(fid), literal)
        return self.live[fid]


def _common_device(inputs: Sequence[Argument]) -> Any:
    """The accelerator that holds an input, else the CPU; every value is computed there."""
    import torch

    devices = [argument.device for argument in inputs if isinstance(argument, torch.Tensor)]
    return next((device for device in devices if device.type != "cpu"), torch.device("cpu"))


def random_inputs(
    fusion: Fusion,
    extents: Mapping[str, int],
    *,
    seed: int,
    device: str = "cpu",
    ranges: Mapping[int, tuple[Formula, Formula]] | None = None,
) -> list[Tensor | bool | int | float]:
    """Fresh inputs for ``fusion`` in the layouts that it declares, the same for the same ``seed`` and ``device``.

    Floats are normal, integers lie in -8 to 8 or, for a fid in ``ranges``, from its first to below its second bound,
    distinct where the fusion promises that; scalars are positive. A dim whose contiguity is False gets a stride one
    larger than contiguous or, for every other ``seed``, the next but one that vectors may take, and the gaps hold NaN
    (or an extreme integer), so that a kernel reading them is found out; an expanded dim has stride 0. ``cpu`` inputs
    stay on the host. Raises ``KeyError`` for a symbol without a size.
    """
    import torch

    generators = {name: torch.Generator(device=name) for name in {device, "cpu"}}
    for generator in generators.values():
        generator.manual_seed(seed)
    inputs: list[Any] = []
    distinct = distinct_dims(fusion)
    for fid in fusion.inputs:
        type_ = fusion.value(fid).type
        if isinstance(type_, TensorType):
            low, high = (evaluate_formula(bound, extents) for bound in (ranges or {}).get(fid, _INTEGERS))
            generator = generators["cpu" if type_.cpu else device]
            inputs.append(_random_tensor(type_, extents, generator, low, high, STRIDED[seed % 2]))
            if fid in distinct:
                draw_distinct(inputs[-1], distinct[fid], low, high, generator)
        else:
            inputs.append(_random_scalar(type_.dtype, generators["cpu"]))
    return inputs


STRIDED = (1, 8)
"""What strides that are not contiguous are multiples of: those that no vectors may take, and those that they may."""

_INTEGERS = (-8, 9)
"""The integers that are drawn where nothing else is asked for: the first, and the one after the last."""


def _random_scalar(dtype: DType, generator: Any) -> bool | int | float:
    import torch

    if dtype.is_floating:
        return float(torch.rand((), generator=generator, dtype=torch.float64)) + 0.5
    number = int(torch.randint(1, 5, (), generator=generator))
    return number > 2 if dtype is DType.BOOL else number


def _random_tensor(
    type_: TensorType, extents: Mapping[str, int], generator: Any, low: int, high: int, multiple: int
) -> Tensor:
    """Numbers from ``low`` to below ``high`` where they are integers, in strides that are each a ``multiple``, if they
    are not contiguous."""
    import torch

    shape = [evaluate_formula(extent, extents) for extent in type_.shape]
    stored = [1 if flag is None else size for flag, size in zip(type_.contiguity, shape, strict=True)]
    device, dtype = generator.device, torch_dtype(type_.dtype)
    if type_.dtype.is_floating:
        poison: float | int | bool = math.nan
        wide = torch.float64 if type_.dtype is DType.DOUBLE else torch.float32
        numbers = torch.randn(stored, generator=generator, device=device, dtype=wide)
    elif type_.dtype is DType.BOOL:
        poison = True
        numbers = torch.randint(0, 2, stored, generator=generator, device=device)
    else:
        poison = torch.iinfo(dtype).max
        numbers = torch.randint(low, max(high, low + 1), stored, generator=generator, device=device)
    strides, length = _strides(type_, stored, multiple)
    buffer = torch.full((length,), poison, dtype=dtype, device=device)
    tensor = buffer.as_strided(stored, strides)
    tensor.copy_(numbers.to(dtype))
    return tensor.expand(shape)


def _strides(type_: TensorType, stored: Sequence[int], multiple: int) -> tuple[list[int], int]:
    """``(strides, buffer length)`` in elements, for the sizes ``stored`` (expanded dims at 1). The strides that are not
    contiguous are larger than that, and each a ``multiple``."""
    strides = [0] * type_.rank
    running, length = 1, 1
    for dim in sorted(range(type_.rank), key=lambda d: type_.stride_order[d]):
        if type_.contiguity[dim] is None:
            continue
        strides[dim] = running if type_.contiguity[dim] else (running // multiple + 1) * multiple
        length += max(stored[dim] - 1, 0) * strides[dim]
        running = strides[dim] * max(stored[dim], 1)
    return strides, length
