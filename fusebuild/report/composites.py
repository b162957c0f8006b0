"""Where the composites of a recipe ended up: the segments that compute each call of one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from fusebuild import __version__
from fusebuild.artifact.file import Artifact
from fusebuild.artifact.json_types import Fid
from fusebuild.ir.fusion import Fusion
from fusebuild.ir.values import Composite
from fusebuild.passes import run_passes
from fusebuild.segmentation import SegmentedFusion, segment
from fusebuild.target.table import find_target


class InspectedComposite(msgspec.Struct, frozen=True, kw_only=True):
    """A call of a composite: ``parent`` is the index of the call that it stands in, ``segments`` where it ended up."""

    name: str
    location: str
    parent: int | None
    inputs: tuple[Fid, ...]
    outputs: tuple[Fid, ...]
    segments: tuple[int, ...] | None


def composites_of(segmented: SegmentedFusion) -> tuple[InspectedComposite, ...]:
    """Every composite of which the passes left something, each after the one that it stands in."""
    if not segmented.fusion.composites:
        return ()
    holders: dict[int, list[int]] = {}
    for each in segmented.segments:
        for index in each.task.exprs:
            holders.setdefault(index, []).append(each.id)
    writers = {int(fid): each.id for each in segmented.segments for fid in each.outputs}
    fusion = segmented.fusion
    return tuple(_placed(each, _segments_of(fusion, each, holders, writers)) for each in fusion.composites)


def composites_in(artifact: Artifact, fusion: Fusion, target: str) -> tuple[InspectedComposite, ...]:
    """The composites of ``fusion``, which is the recipe's in ``artifact``.

    An artifact does not tell of composites, so the recipe is cut again. Where another fusebuild made the artifact, or
    its cuts come out elsewhere, the segments are not known.
    """
    if not fusion.composites:
        return ()
    fusion, sources = run_passes(fusion), artifact.manifest.sources
    plan = artifact.plan.target(target)
    if plan is not None and sources.get("fusebuild") == __version__:
        found = segment(fusion, find_target(target), "exact" if sources.get("segmentation") == "exact" else "heuristic")
        cuts = [{**each.fid_map} for each in found.segments]
        if cuts == [{**each.fid_map} for each in plan.segments]:
            return composites_of(found)
    return tuple(_placed(composite, None) for composite in fusion.composites)


def _placed(composite: Composite, segments: tuple[int, ...] | None) -> InspectedComposite:
    return InspectedComposite(
        name=composite.name,
        location=composite.location.short,
        parent=composite.parent,
        inputs=composite.inputs,
        outputs=composite.outputs,
        segments=segments,
    )


def _segments_of(
    fusion: Fusion, composite: Composite, holders: Mapping[int, Sequence[int]], writers: Mapping[int, int]
) -> tuple[int, ...]:
    """The segments that take part in computing the outputs of ``composite`` from its inputs.

    ``holders`` has the segments that hold each expr, ``writers`` the segment that writes each value to memory. A
    segment may hold one of the composite's exprs for another reader only: a shared size, or a view of a shared weight.
    So this walks from the exprs that compute the outputs, in every segment that holds them, to where each operand comes
    from.
    """
    given = {*composite.inputs}
    indices = [index for fid in composite.outputs if (index := fusion.definition(fid)) is not None]
    waiting = [(index, holder) for index in indices for holder in holders[index]]
    seen: set[tuple[int, int]] = set()
    while waiting:
        if (place := waiting.pop()) in seen:
            continue
        seen.add(place)
        for fid in fusion.exprs[place[0]].inputs:
            index = fusion.definition(fid)
            if index is not None and fid not in given:
                waiting.append((index, place[1] if place[1] in holders[index] else writers[fid]))
    return tuple(sorted({holder for _, holder in seen}))
