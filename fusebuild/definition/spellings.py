"""Where nvFuser's ops are called otherwise than those of :data:`fusebuild.ops.table.OPS`.

Positional arguments may come in another order, an op may go by another name, and an op may have arguments that say
nothing here, or that say what two ops say: those are recorded one after the other, each with a fid of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fusebuild.definition.padding import cropped, unpadded
from fusebuild.definition.values import DataType, Tensor
from fusebuild.ir.formula import show
from fusebuild.ops.type_rules import TypeRuleError, common_dtype, normalize_dims

if TYPE_CHECKING:
    from fusebuild.definition.ops import Ops

Bound = dict[str, Any]
"""The arguments of a call by the names of the op's parameters."""
Meaning = Callable[["Ops", Bound, Any], None]
"""What an argument that only nvFuser has does to the others; given the argument."""


def _as_given(ops: Ops, bound: Bound) -> None:
    """The arguments are taken as they are."""


def _as_made(ops: Ops, said: Bound, result: Any) -> Any:
    """The result is what the op gives."""
    return result


@dataclass(frozen=True, slots=True, kw_only=True)
class Spelling:
    """How nvFuser calls an op.

    ``op`` is its name in ``OPS`` where that is another; ``order`` the positional parameters where they come otherwise;
    ``names`` what other keywords mean; ``defaults`` what parameters are that only nvFuser lets callers leave out;
    ``more`` the arguments that ``OPS`` has not, after the others in order. ``prepare`` changes the arguments before the
    op is recorded; ``finish`` makes the result of what the op gives, from the arguments as they were said.
    """

    op: str = ""
    order: tuple[str, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)
    defaults: Mapping[str, object] = field(default_factory=dict)
    more: Mapping[str, Meaning] = field(default_factory=dict)
    prepare: Callable[[Ops, Bound], None] = _as_given
    finish: Callable[[Ops, Bound, Any], Any] = _as_made


AS_IN_OPS = Spelling()
"""The spelling of every op that is called as ``OPS`` has it."""


def is_absent(argument: object) -> bool:
    """Whether an argument leaves the choice to the op."""
    return argument is None or argument is DataType.Null


def _flag(what: str, given: object) -> bool:
    """``given`` as a bool; scripts that nvFuser prints say 0 and 1."""
    if not isinstance(given, bool | int) or given not in (0, 1):
        raise TypeRuleError(f"{what} must be True or False, not {given!r}")
    return bool(given)


def _in_dtype(ops: Ops, bound: Bound, given: Any) -> None:
    """The operand is cast before it is reduced."""
    if not isinstance(given, DataType):
        raise TypeRuleError(f"the dtype of a reduction must be a DataType, not {given!r}")
    if isinstance(bound["x"], Tensor) and bound["x"].dtype is not given:
        bound["x"] = ops.cast(bound["x"], given)


def _in_narrow_dtype(ops: Ops, said: Bound, result: Tensor) -> Tensor:
    """Extremes of narrow dtypes are computed in float, of numbers that the narrow dtype has."""
    dtype = said.get("dtype")
    cast: Tensor = result if is_absent(dtype) or result.dtype is dtype else ops.cast(result, dtype)
    return cast


def _chosen(ops: Ops, said: Bound, result: Any) -> Any:
    """What is chosen among halves, or halves and numbers, is a half: nothing is computed with it."""
    recorder = result._recorder
    dtype = DataType(common_dtype([recorder.type_of(said[name]) for name in ("x", "y")]))
    return result if dtype is result.dtype else recorder.finished(result, ops.cast(result, dtype))


def _normalized(ops: Ops, bound: Bound, given: Any) -> None:
    """The bounds of a slice are brought into the tensor whether or not they lie there already."""
    _flag("slice: manual_normalization", given)


def _narrowed(ops: Ops, bound: Bound, given: Any) -> None:
    """Dims that were expanded are sliced to one element, then dropped."""
    x, dims = bound["x"], bound["dims"]
    if not _flag("squeeze: squeeze_expanded", given) or not isinstance(x, Tensor) or not isinstance(dims, Sequence):
        return
    type_ = x._recorder.own(x).tensor
    wide = [dim for dim in normalize_dims("squeeze", dims, type_.rank) if type_.shape[dim] != 1]
    for dim in wide:
        if type_.contiguity[dim] is not None:
            raise TypeRuleError(
                f"squeeze: dim {dim} has size {show(type_.shape[dim])} and is not expanded",
                hint="squeeze drops dims of size 1, and with squeeze_expanded=True dims made by expand from size 1",
            )
    if wide:
        ends = [1 if dim in wide else extent if isinstance(extent, int) else x.size(dim)
                for dim, extent in enumerate(type_.shape)]  # fmt: skip
        bound["x"] = ops.slice(x, [0] * type_.rank, ends)


def _says_nothing(ops: Ops, bound: Bound, given: Any) -> None:
    """An argument about gradients, which a forward pass does not compute, about the result, or an order that results
    have anyway."""


def _renormed(ops: Ops, said: Bound, rows: Tensor) -> Tensor:
    """The rows that were read, those with a norm above ``max_norm`` scaled down to it as torch scales them. The table
    itself stays as it is."""
    most, power = said.get("max_norm"), said.get("norm_type")
    if is_absent(most):
        return rows
    power = 2.0 if is_absent(power) else power
    if not isinstance(power, int | float) or not power > 0:
        raise TypeRuleError(f"embedding_fwd: norm_type must be a number above 0, not {power!r}")
    size = ops.abs(rows)
    if power == math.inf:
        norm = ops.max(size, [-1], True)
    else:
        norm = ops.pow(ops.sum(ops.pow(size, float(power)), [-1], True), 1.0 / power)
    scale = ops.where(ops.gt(norm, most), ops.truediv(most, ops.add(norm, 1e-7)), 1.0)
    scaled: Tensor = ops.mul(rows, scale)
    result: Tensor = scaled if scaled.dtype is rows.dtype else ops.cast(scaled, rows.dtype)
    return result


_STATISTICS = Spelling(order=("x", "dims", "correction", "keepdim"))

SPELLINGS: dict[str, Spelling] = {
    "var": _STATISTICS,
    "var_mean": _STATISTICS,
    "where": Spelling(finish=_chosen),
    "max": Spelling(more={"dtype": _in_dtype}, finish=_in_narrow_dtype),
    "min": Spelling(more={"dtype": _in_dtype}, finish=_in_narrow_dtype),
    "pad": Spelling(prepare=cropped),
    "squeeze": Spelling(more={"squeeze_expanded": _narrowed}),
    "slice": Spelling(more={"manual_normalization": _normalized}),
    "cat": Spelling(defaults={"dim": 0}, more={"manual_padding": unpadded}),
    "uniform": Spelling(order=("minval", "maxval", "shape", "dtype", "rng_seed", "rng_offset")),
    "index_put_accumulate": Spelling(names={"acc": "x", "value": "src"}),
    "normal": Spelling(order=("mean", "std", "shape", "dtype", "rng_seed", "rng_offset")),
    "topk": Spelling(more={"sorted": _says_nothing}),
    "embedding_fwd": Spelling(
        op="embedding",
        order=("ids", "table"),
        names={"input": "ids", "weight": "table"},
        more={
            "padding_idx": _says_nothing,
            "max_norm": _says_nothing,
            "norm_type": _says_nothing,
            "scale_grad_by_freq": _says_nothing,
            "sparse": _says_nothing,
        },
        finish=_renormed,
    ),
}
"""By nvFuser's name."""
