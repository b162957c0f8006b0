"""From a finished draft to a SegmentedFusion that says of every cut why it is there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fusebuild.errors import ScheduleError
from fusebuild.ir.fid import OriginalFid
from fusebuild.kernels.families import runs_nothing
from fusebuild.segmentation.draft import REJECTED, Draft
from fusebuild.segmentation.segmented import Extracted, Member, Segment, SegmentedFusion, bound_symbols, extract


def segmented_fusion(draft: Draft) -> SegmentedFusion:
    """The tasks of ``draft`` as segments in run order.

    Raises :class:`ScheduleError` with every scheduler's reason for each task that none takes.
    """
    fusion, acceptance = draft.fusion, draft.problem.acceptance
    rejected = [part for _, part in sorted(draft.parts.items()) if part.seconds >= REJECTED]
    if rejected:
        raise ScheduleError([acceptance.refusal(part.exprs, part.writes) for part in rejected])
    given = bound_symbols(fusion)
    order: Sequence[int] = draft.in_order()
    flat: Mapping[int, Extracted] = {}
    members: Mapping[int, Member] = {}
    if len(order) > 1:
        from fusebuild.segmentation.members import grouped  # only several tasks are members of groups

        order, flat, members = grouped(draft, given)
    place = {name: position for position, name in enumerate(order)}
    segments = []
    for name, position in place.items():
        part = draft.parts[name]
        task = acceptance.task(part.exprs, part.writes)
        extracted, fid_map = flat[name] if name in flat else extract(task, f"{fusion.name}_{position}", given)
        segments.append(
            Segment(
                id=position,
                scheduler=acceptance.scheduler(part.exprs, part.writes),
                task=task,
                fusion=extracted,
                fid_map=fid_map,
                rematerialized=_rematerialized(draft, name),
                why=_reasons(draft, place, name, members),
                member=members.get(name),
            )
        )
    return SegmentedFusion(fusion=fusion, segments=tuple(segments))


def _rematerialized(draft: Draft, name: int) -> tuple[OriginalFid, ...]:
    """Values that the task ``name`` recomputes, though another task makes them too, for exprs that are its own."""
    fusion, part = draft.fusion, draft.parts[name]
    own = [index for index in part.exprs if draft.home[index] == name]
    read = {fid for index in own for fid in fusion.exprs[index].inputs}
    copied = [index for index in part.exprs if draft.home[index] != name]
    return tuple(sorted(OriginalFid(fid) for index in copied for fid in fusion.exprs[index].outputs if fid in read))


def _reasons(draft: Draft, place: Mapping[int, int], name: int, members: Mapping[int, Member]) -> tuple[str, ...]:
    """Why ``name`` is cut from each task that it reads from, or computes the same values as, and runs after; those of
    its group, of which there may be ``members``, run together with it."""
    owners = {owner for fid in draft.parts[name].reads if (owner := draft.owner(fid)) is not None}
    same = {other for index in draft.parts[name].exprs for other in draft.holders[index]}
    owners |= {other for other in same if place[other] < place[name] and not _are_together(members, other, name)}
    return tuple(
        f"cut from segment {place[owner]}: {_reason(draft, place, owner, name)}"
        for owner in sorted(owners, key=place.__getitem__)
    )


def _are_together(members: Mapping[int, Member], a: int, b: int) -> bool:
    return a in members and b in members and members[a].group == members[b].group


def _reason(draft: Draft, place: Mapping[int, int], producer: int, reader: int) -> str:
    dependencies = draft.problem.dependencies
    a, b = draft.parts[producer], draft.parts[reader]
    union = a.exprs | b.exprs
    if dependencies.holds_both_ends(union):
        return "segment_set"
    writes = frozenset(
        fid for fid in a.writes | b.writes if draft.is_wanted(fid) or draft.readers(fid) - {producer, reader}
    )
    rejections = draft.problem.acceptance.rejections(union, writes)
    if not rejections:
        return "another segment lies between them"
    return "; ".join(str(rejected) for rejected in rejections if not runs_nothing(rejected.scheduler))
