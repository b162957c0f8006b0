"""Segments that are alike and wait for nothing of each other, as an optimizer's step over many tensors is: their
launches are one.

Alike are segments that compute the same on **flat** tensors, whatever the shapes of these are: elementwise, on tensors
that are dense and of one shape, and on tensors of one element; or to one element, by reductions of all dims that no
lambda defines. They are **members** of one group. Each is planned as the Fusion that :func:`flattened` gives, whose
tensors have one dim of :data:`ELEMENTS` elements, so that all members have the same kernels. Each takes the variant
that its own sizes and addresses ask for, as it would alone, and computes the same, bit by bit; reductions that would
take clusters alone take blocks that finish together instead, since a launch has clusters of one size. The executor
makes one launch of the launches of one kernel: the kernel is given a table of arguments, and each block finds its
member's (``templates/include/fusebuild/members.cuh``).

Tasks are as far from the beginning as the longest path to them; two that are equally far never wait for each other,
whatever is merged of others that are. So a group has members of one such **level**, and all groups are found in one
walk over the tasks. Members stand side by side in the plan, and memory that one of them needs lives while any runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from fusebuild.artifact.plan import MOST_TABLE_BYTES, table_bytes
from fusebuild.ir.fid import OriginalFid, SegmentFid
from fusebuild.ir.formula import Formula, evaluate, product, symbols
from fusebuild.ir.fusion import Fusion
from fusebuild.ir.types import TensorType, tensor_type
from fusebuild.ir.values import Expr, Value, attributes
from fusebuild.ir.verify import verify
from fusebuild.kernels.common.spec import DEFAULT_EXTENT
from fusebuild.kernels.families import family_of
from fusebuild.ops.table import Kind, op_of
from fusebuild.segmentation.acceptance import overwritten_inputs, signature
from fusebuild.segmentation.draft import Draft
from fusebuild.segmentation.groups import run_order
from fusebuild.segmentation.segmented import ELEMENTS, Extracted, Member, extract

SIZES = 2
"""Arguments that a kernel is given beside a segment's values, at most: the number of elements, and of a row of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flat:
    """A task as a Fusion of its own, whose scalars come first, with its fid map; the same with tensors of one dim; and
    how many elements these have."""

    fusion: Fusion
    fid_map: Mapping[SegmentFid, OriginalFid]
    flattened: Fusion
    elements: Formula

    def named(self, name: str) -> Extracted:
        """The task as a Fusion of that name."""
        return replace(self.fusion, name=name), self.fid_map


class Grouped(NamedTuple):
    """The tasks of a draft in run ``order``, those of a group side by side; for each of these the task as it is
    ``extracted``, and what it is as a member."""

    order: Sequence[int]
    extracted: Mapping[int, Extracted]
    members: Mapping[int, Member]


def grouped(draft: Draft, given: tuple[str, ...]) -> Grouped:
    """The groups among the tasks of ``draft``; ``given`` is that of :func:`extract`."""
    flat: dict[int, Flat] = {}
    groups = list[list[int]]()
    for names in _candidates(draft):
        alike: dict[object, list[int]] = {}
        for name in names:
            found = _flat(draft, name, given)
            if found is not None:
                flat[name] = found
                key = signature(found.flattened.whole(), overwritten_inputs(found.flattened))
                alike.setdefault(key, []).append(name)
        groups += [part for each in alike.values() for part in _parts([flat[name] for name in each], each)]
    order = _order(draft, groups)
    place = {name: position for position, name in enumerate(order)}
    members = {name: made for group in groups for name, made in _members(draft, group, flat, place).items()}
    extracted = {name: flat[name].named(f"{draft.fusion.name}_{place[name]}") for name in members}
    return Grouped(order=order, extracted=extracted, members=members)


def _candidates(draft: Draft) -> Iterator[list[int]]:
    """Tasks of one level that have the same ops, several each."""
    level, found = _levels(draft), dict[object, list[int]]()
    for name in draft.in_order():
        part, problem = draft.parts[name], draft.problem
        scheduler = problem.acceptance.scheduler(part.exprs, part.writes)
        if scheduler and family_of(scheduler).takes_members:
            ops = tuple(draft.fusion.exprs[index].op for index in sorted(part.exprs))
            found.setdefault((level[name], ops), []).append(name)
    return (names for names in found.values() if len(names) > 1)


def _levels(draft: Draft) -> dict[int, int]:
    """For each task the length of the longest path to it."""
    level = dict.fromkeys(draft.parts, 0)
    for name in draft.in_order():
        for other in draft.after(name):
            level[other] = max(level[other], level[name] + 1)
    return level


def _flat(draft: Draft, name: int, given: tuple[str, ...]) -> Flat | None:
    """The task ``name`` where it is flat."""
    part = draft.parts[name]
    task = draft.problem.acceptance.task(part.exprs, part.writes)
    fusion, fid_map = _scalars_first(*extract(task, draft.fusion.name, given))
    shape = _shape(fusion)
    made = None if shape is None else flattened(fusion, shape)
    if shape is None or made is None:
        return None
    return Flat(fusion=fusion, fid_map=fid_map, flattened=made, elements=product(shape))


def _shape(fusion: Fusion) -> tuple[Formula, ...] | None:
    """The one shape of all that is reduced or, where nothing is, of all outputs; None where there are several, or where
    callers get an output in another one."""
    reduced = [expr.inputs[0] for expr in fusion.exprs if op_of(expr).kind is Kind.REDUCTION]
    outputs = [output.fid for output in fusion.outputs]
    shapes = {fusion.value(fid).tensor.shape for fid in reduced or outputs}
    is_one = all(fusion.value(fid).tensor.numel == 1 for fid in outputs) if reduced else True
    is_given = any(output.shape is not None for output in fusion.outputs)
    return None if is_given or len(shapes) > 1 or not is_one else next(iter(shapes))


def _scalars_first(
    fusion: Fusion, fid_map: Mapping[SegmentFid, OriginalFid]
) -> tuple[Fusion, Mapping[SegmentFid, OriginalFid]]:
    """``fusion`` with scalars computed before anything else, and its fid map: what several tasks compute stands in
    each where the first of them needs it."""
    exprs = sorted(fusion.exprs, key=lambda expr: fusion.value(expr.outputs[0]).is_tensor)
    number = {fid: fid for fid in fusion.inputs}
    for expr in exprs:
        for fid in (*expr.inputs, *expr.outputs):
            number.setdefault(fid, len(number))
    made = replace(
        fusion,
        values={new: replace(fusion.value(old), fid=new) for old, new in number.items()},
        exprs=tuple(expr.renumbered(number) for expr in exprs),
        outputs=tuple(output.renumbered(number) for output in fusion.outputs),
    )
    return made, {SegmentFid(number[fid]): original for fid, original in fid_map.items()}


def flattened(fusion: Fusion, shape: tuple[Formula, ...]) -> Fusion | None:
    """``fusion`` on tensors of one dim, those of ``shape`` with as many as :data:`ELEMENTS` says; None where it has
    other tensors, but for ones of one element, or does more than compute element by element and reduce all of them."""
    values = dict[int, Value]()
    for fid, value in fusion.values.items():
        if isinstance(value.type, TensorType) and not value.type.cpu:
            flat = _flattened(value, value.type, shape)
            if flat is None:
                return None
            values[fid] = flat
        else:
            values[fid] = value
    exprs = [_on_one_dim(expr, fusion) for expr in fusion.exprs]
    if any(expr is None for expr in exprs):
        return None
    made = replace(
        fusion, name=f"{fusion.name}_members", values=values, exprs=tuple(expr for expr in exprs if expr is not None),
        facts=(), relations=(), cases=(), given=(),
    )  # fmt: skip
    return verify(made)


def _flattened(value: Value, type_: TensorType, shape: tuple[Formula, ...]) -> Value | None:
    if value.window is not None or not type_.is_plain:
        return None
    if type_.shape == shape:
        return replace(value, type=tensor_type(type_.dtype, (ELEMENTS,)))
    is_one = all(extent == 1 for extent in type_.shape)
    return replace(value, type=tensor_type(type_.dtype, (1,) if type_.rank else ())) if is_one else None


def _on_one_dim(expr: Expr, fusion: Fusion) -> Expr | None:
    """``expr`` on tensors of one dim; None where that is something else."""
    operand = fusion.value(expr.inputs[0]) if expr.inputs else None
    rank = operand.tensor.rank if operand is not None and operand.is_tensor else 0
    if expr.op == "broadcast" and not rank:
        return replace(expr, attributes=attributes(is_broadcast_dim=(True,)))
    if op_of(expr).kind is Kind.REDUCTION and rank and len(expr.dims) == rank and not expr.combine:
        return replace(expr, attributes=attributes(**{**dict(expr.attributes), "dims": (0,)}))
    is_elementwise = op_of(expr).kind is Kind.POINTWISE and not any(
        isinstance(each, tuple) for _, each in expr.attributes
    )
    return expr if is_elementwise and expr.op != "size" else None


def _parts(flat: Sequence[Flat], names: Sequence[int]) -> Iterator[list[int]]:
    """``names`` of alike tasks in as few groups as tables have room for, each of several."""
    values = len(flat[0].fusion.inputs) + len(flat[0].fusion.outputs) + SIZES
    most = MOST_TABLE_BYTES // table_bytes(1, values)
    parts = -(-len(names) // max(most, 1))
    size = -(-len(names) // parts)
    groups = (list(names[begin : begin + size]) for begin in range(0, len(names), size))
    return (group for group in groups if 1 < len(group) <= most)


def _members(
    draft: Draft, group: Sequence[int], flat: Mapping[int, Flat], place: Mapping[int, int]
) -> dict[int, Member]:
    """What each task of ``group`` is. The heuristics of all see the sum of their sizes, since they run together."""
    sizes = dict(draft.fusion.cases[0]) if draft.fusion.cases else {}
    known = [
        evaluate(each, {symbol: sizes.get(symbol, DEFAULT_EXTENT) for symbol in symbols(each)})
        for each in (flat[name].elements for name in group)
    ]
    case, first = {ELEMENTS: max(1, sum(known))}, min(place[name] for name in group)
    return {
        name: Member(
            group=first,
            count=len(group),
            fusion=replace(flat[name].flattened, cases=(case,)),
            elements=flat[name].elements,
        )
        for name in group
    }


def _order(draft: Draft, groups: Sequence[Sequence[int]]) -> list[int]:
    """The tasks of ``draft`` in run order, those of each group side by side."""
    if not groups:
        return draft.in_order()
    first = {name: min(group) for group in groups for name in group}
    along = {min(group): list(group) for group in groups}
    after: dict[int, set[int]] = {}
    for name in draft.parts:
        own = after.setdefault(first.get(name, name), set())
        own |= {first.get(other, other) for other in draft.after(name)}
    keys = draft.keys()
    least = {name: min(keys[each] for each in along.get(name, [name])) for name in after}
    order = run_order(least, after)
    assert len(order) == len(after), "tasks wait for each other"
    return [each for name in order for each in sorted(along.get(name, [name]), key=keys.__getitem__)]
