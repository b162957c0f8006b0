"""Widths of ``pad`` that take elements away, and tensors that were padded before ``cat`` joins them.

nvFuser resizes a dim by widths of either sign. Here a slice takes away, and a pad adds to what it leaves. A width that
only the call knows may be either: its two parts, ``max(width, 0)`` and ``max(-width, 0)``, are scalars of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fusebuild.definition.values import Scalar, Tensor, Vector
from fusebuild.ir.formula import Formula, show, total
from fusebuild.ir.values import Value
from fusebuild.ops.indexing import pad_widths
from fusebuild.ops.type_rules import TypeRuleError, normalize_dims

if TYPE_CHECKING:
    from fusebuild.definition.ops import Ops
    from fusebuild.definition.recorder import DefinitionRecorder


def cropped(ops: Ops, bound: dict[str, Any]) -> None:
    """Record what ``pad_widths`` take away from the tensor to be padded, and leave what they add."""
    x, given = bound["x"], _items(bound["pad_widths"])
    if not isinstance(x, Tensor) or given is None or len(given) % 2 or len(given) > 2 * x.ndim:
        return  # the type rules say what is wrong
    parts = [_parts(ops, x._recorder, width) for width in given]
    taken = [less for _, less in parts]
    if any(map(_is_something, taken)):
        bound["x"] = _cropped(ops, x, taken)
    bound["pad_widths"] = [more for more, _ in parts]


def _items(widths: object) -> list[Any] | None:
    """The widths of a list or a vector; None for what is neither, and for the sizes of a tensor, which add."""
    if isinstance(widths, Vector):
        literal = widths._recorder.own(widths).literal
        return [Scalar(widths._recorder, fid) for fid in literal] if isinstance(literal, tuple) else None
    return list(widths) if isinstance(widths, Sequence) and not isinstance(widths, str) else None


def _parts(ops: Ops, recorder: DefinitionRecorder, width: Any) -> tuple[Any, Any]:
    """What ``width`` adds and what it takes away: numbers, or scalars."""
    literal = recorder.own(width).literal if isinstance(width, Scalar) else width
    if isinstance(literal, int) and not isinstance(literal, bool):
        return (width, 0) if literal >= 0 else (0, -literal)
    if not isinstance(width, Scalar) or recorder.is_size(recorder.own(width)):
        return width, 0
    return ops.maximum(width, 0), ops.maximum(ops.neg(width), 0)


def _is_something(width: Any) -> bool:
    return isinstance(width, Scalar) or width != 0


def _cropped(ops: Ops, x: Tensor, taken: Sequence[Any]) -> Tensor:
    """``x`` without as many elements as ``taken`` says: two numbers for each dim, the last dim first."""
    recorder, shape = x._recorder, x.extents
    pairs = [*[(0, 0)] * (x.ndim - len(taken) // 2), *reversed(list(zip(taken[::2], taken[1::2], strict=True)))]
    sizes = [extent if isinstance(extent, int) else x.size(dim) for dim, extent in enumerate(shape)]
    ends = [size - after if _is_something(after) else size for size, (_, after) in zip(sizes, pairs, strict=True)]
    for dim, (extent, pair) in enumerate(zip(shape, pairs, strict=True)):
        lost = sum(each for each in pair if isinstance(each, int))
        if isinstance(extent, int) and lost > extent:
            raise TypeRuleError(f"pad: dim {dim} has {extent} elements, and widths take {lost} away")
    result: Tensor = ops.slice(x, [before for before, _ in pairs], ends)
    for extent, pair in zip(shape, pairs, strict=True):
        if any(map(_is_something, pair)):
            recorder.builder.relate(("ge", extent, total([recorder.extent_of("pad", each) for each in pair])))
    return result


def unpadded(ops: Ops, bound: dict[str, Any], given: Any) -> None:
    """Give ``cat`` the tensors before they were padded to where each of them lies in the result."""
    if given not in (0, 1):
        raise TypeRuleError(f"cat: manual_padding must be True or False, not {given!r}")
    tensors = bound["tensors"]
    if not given or not isinstance(tensors, Sequence) or not all(isinstance(each, Tensor) for each in tensors):
        return
    recorder = tensors[0]._recorder
    found = [_before_padding(ops, recorder, recorder.own(each), bound["dim"]) for each in tensors]
    for position, (_, before, after) in enumerate(found):
        sizes = [source.tensor.shape[dim] for source, dim in _sources(recorder, found, bound["dim"])]
        for what, width, others in (("before", before, sizes[:position]), ("after", after, sizes[position + 1 :])):
            recorder.unify(width, total(others))
            if not recorder.builder.algebra.equal(recorder.now(width), recorder.now(total(others))):
                raise TypeRuleError(
                    f"cat: operand {position} is padded by {show(width)} {what} it, where {show(total(others))} "
                    "elements of others lie"
                )
    bound["tensors"] = [source for source, _, _ in found]


def _sources(
    recorder: DefinitionRecorder, found: Sequence[tuple[Tensor, Formula, Formula]], dim: int
) -> list[tuple[Value, int]]:
    values = [recorder.own(source) for source, _, _ in found]
    return [(value, normalize_dims("cat", [dim], value.tensor.rank)[0]) for value in values]


def _before_padding(ops: Ops, recorder: DefinitionRecorder, padded: Value, dim: int) -> tuple[Tensor, Formula, Formula]:
    """What ``padded`` was before it was padded along ``dim``, and by how much."""
    expr = next((expr for expr in recorder.builder.exprs if padded.fid in expr.outputs), None)
    if expr is None or expr.op != "pad":
        raise TypeRuleError(
            f"cat: {padded.name} is not made by pad, and manual_padding=True says so",
            hint="pad each operand to where it lies in the result, or leave manual_padding out",
        )
    rank = padded.tensor.rank
    (at,) = normalize_dims("cat", [dim], rank)
    widths = pad_widths(rank, dict(expr.attributes))
    source: Tensor = recorder.handle(recorder.value(expr.inputs[0]))
    others = [(0, 0) if each == at else pair for each, pair in enumerate(widths)]
    if any(pair != (0, 0) for pair in others):
        operands = [recorder.value(fid) for fid in expr.inputs]
        flat = tuple(width for pair in reversed(others) for width in pair)
        source = recorder.handle(recorder.call("pad", operands, {"pad_widths": flat})[0])
    return source, *widths[at]
