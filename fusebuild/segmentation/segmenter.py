"""Cutting a Fusion into segments: the cut with the least predicted time, never merely the fewest segments.

1. **Presegment**: merge across everything that nothing forbids to merge, and try each group whole.
2. **Merge** the exprs of each rejected group, the best pair first, by several ideas of what is best.
3. **Rematerialize**: a consumer recomputes what is cheaper to compute than to read.
4. **Refine**: move exprs between neighbours while the predicted time falls; keep the best of the attempts.

Then the groups meet: tasks of different groups merge and rematerialize in the same way. Equal groups (the layers of a
network) are searched once. All orders are fixed, so the same Fusion always gives the same cut.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from fusebuild.ir.fusion import Fusion
from fusebuild.segmentation.canonical import canonical_order, reordered
from fusebuild.segmentation.draft import Draft, Problem
from fusebuild.segmentation.exact import exact_draft
from fusebuild.segmentation.merge import RANKS, merge
from fusebuild.segmentation.presegment import presegment
from fusebuild.segmentation.reasons import segmented_fusion
from fusebuild.segmentation.refine import refine
from fusebuild.segmentation.rematerialize import rematerialize
from fusebuild.segmentation.segmented import SegmentedFusion, dense_outputs
from fusebuild.segmentation.strangers import small_parts
from fusebuild.target.table import Target

MOST_RANKED = 40
"""Exprs of a group that is merged by every rank; a larger one is merged by the first."""

MOST_REFINED = 160
"""Exprs of a group that is refined; a larger one is rematerialized once."""

Search: TypeAlias = Literal["heuristic", "exact"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCut:
    """A group of exprs in tasks: ``held`` names each task's exprs, ``home`` the task that writes each expr's value.

    Both speak in positions within the group, so that equal groups share one cut.
    """

    held: dict[int, frozenset[int]]
    home: dict[int, int]


def segment(fusion: Fusion, target: Target, search: Search = "heuristic") -> SegmentedFusion:
    """The segments of ``fusion``, whose exprs must be primitive, for ``target``.

    Raises :class:`ScheduleError` with every scheduler's reason for each expr that none takes even alone, and
    :class:`UsageError` where the exact search is asked to cut a Fusion that is too large for it.
    """
    fusion = dense_outputs(fusion)
    order = canonical_order(fusion)
    found = SEARCHES[search](Problem.of(reordered(fusion, order), target))
    return segmented_fusion(_translated(found, fusion, order, target))


def _translated(found: Draft, fusion: Fusion, order: Sequence[int], target: Target) -> Draft:
    """``found``, whose expr ``i`` is expr ``order[i]`` of ``fusion``, on ``fusion`` itself."""
    problem = Problem.of(fusion, target)
    marked = frozenset((order[mark], order[reader]) for mark, reader in found.problem.dependencies.marked)
    problem = replace(problem, dependencies=replace(problem.dependencies, marked=marked))
    held = {order[name]: frozenset(order[index] for index in part.exprs) for name, part in found.parts.items()}
    return Draft(problem, held, {order[index]: order[name] for index, name in found.home.items()})


def search(problem: Problem) -> Draft:
    """The best cut found of the Fusion of ``problem``."""
    groups, dependencies = presegment(problem.dependencies)
    problem = replace(problem, dependencies=dependencies)
    if not dependencies.marked and not dependencies.calls:
        groups = _together(problem, groups)
    return _draft(problem, [part for group in groups for part in _parts(problem, group)])


def _together(problem: Problem, groups: Sequence[tuple[int, ...]]) -> tuple[tuple[int, ...], ...]:
    """All ``groups`` as one where a scheduler takes that, fewer where it only has too many tensors, else as
    they are."""
    exprs = tuple(sorted(index for group in groups for index in group))
    if len(groups) < 2 or problem.strangers.are_in(exprs):
        return tuple(groups)
    if problem.acceptance.scheduler(exprs):
        return (exprs,)
    if not problem.acceptance.has_too_many_parameters(exprs):
        return tuple(groups)
    middle = len(groups) // 2
    return (*_together(problem, groups[:middle]), *_together(problem, groups[middle:]))


def _parts(problem: Problem, group: tuple[int, ...]) -> list[tuple[int, ...]]:
    """``group`` in as few pieces, each in run order, as have not too many tensors for a kernel that could take them."""
    if len(group) < 2 or not problem.acceptance.has_too_many_parameters(group):
        return [group]
    middle = len(group) // 2
    return [*_parts(problem, group[:middle]), *_parts(problem, group[middle:])]


def _draft(problem: Problem, groups: Sequence[tuple[int, ...]]) -> Draft:
    """Every group cut on its own, then improved where groups meet."""
    cuts: dict[object, GroupCut] = {}
    held: dict[int, frozenset[int]] = {}
    home: dict[int, int] = {}
    for group in groups:
        signature = problem.acceptance.signature(problem.acceptance.task(group))
        if signature not in cuts:
            cuts[signature] = _cut(problem, group)
        cut = cuts[signature]
        held |= {group[name]: frozenset(group[place] for place in places) for name, places in cut.held.items()}
        home |= {group[place]: group[name] for place, name in cut.home.items()}
    draft = Draft(problem, held, home)
    if len(groups) > 1:
        merge(draft)
        draft = _improved(draft)
    return draft


def _improved(draft: Draft) -> Draft:
    if len(draft.home) <= MOST_REFINED:
        return refine(draft)
    rematerialize(draft)
    return draft


def _cut(problem: Problem, group: tuple[int, ...]) -> GroupCut:
    """One group, whole where a scheduler takes it, else in the best of the cuts that the ranks lead to."""
    has_strangers = problem.strangers.are_in(group)
    if not has_strangers and problem.acceptance.scheduler(group):
        return GroupCut(held={0: frozenset(range(len(group)))}, home=dict.fromkeys(range(len(group)), 0))
    drafts = []
    apart = small_parts(problem.fusion, group) if has_strangers else [(index,) for index in group]
    for rank in RANKS if len(group) <= MOST_RANKED else RANKS[:1]:
        draft = Draft.of_parts(problem, apart)
        merge(draft, rank)
        drafts.append(_improved(draft))
    best = min(drafts, key=lambda draft: draft.seconds)
    place = {index: position for position, index in enumerate(group)}
    return GroupCut(
        held={place[name]: frozenset(place[index] for index in part.exprs) for name, part in best.parts.items()},
        home={place[index]: place[name] for index, name in best.home.items()},
    )


SEARCHES: Mapping[Search, Callable[[Problem], Draft]] = {"heuristic": search, "exact": exact_draft}
"""How a cut is searched for: well and near-linearly, or to the best there is, for small Fusions."""
