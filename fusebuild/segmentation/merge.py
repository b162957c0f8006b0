"""Merging: neighbours become one task, the best pair first, until no pair saves time.

A pair is two tasks of which one reads from the other, or siblings that read the same tensor. Each merge saves a launch,
the inputs they share, and what no longer crosses between them. Which pair is best is a choice, since one merge can rule
out another: by what it saves, or by where it stands in the program. :data:`RANKS` holds the choices.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable

from fusebuild.segmentation.draft import LEAST_SAVING, Draft, Proposal

Rank = Callable[[Proposal, int, int], tuple[float, ...]]


RANKS: tuple[Rank, ...] = (
    lambda proposal, a, b: (round(proposal.seconds / LEAST_SAVING), a, b),
    lambda proposal, a, b: (a, b),
    lambda proposal, a, b: (-b, -a),
)
"""The most saving pair first, the earliest among equals; the earliest; the latest."""


def merge(draft: Draft, rank: Rank = RANKS[0]) -> None:
    """Merge tasks of ``draft`` while some pair saves time."""
    version = dict.fromkeys(draft.parts, 0)
    queue: list[tuple[tuple[float, ...], int, int, int, int]] = []

    def consider(a: int, b: int) -> None:
        first, second = sorted((a, b))
        proposal = weigh_merge(draft, first, second)
        if proposal is not None:
            entry = (rank(proposal, first, second), first, second, version[first], version[second])
            heapq.heappush(queue, entry)

    for name in sorted(draft.parts):
        for other in sorted(draft.neighbours(name)):
            if name < other:
                consider(name, other)
    while queue:
        _, first, second, of_first, of_second = heapq.heappop(queue)
        if version.get(first) != of_first or version.get(second) != of_second:
            continue
        proposal = weigh_merge(draft, first, second)
        if proposal is None:
            continue
        draft.commit(proposal)
        for name, part in proposal.parts.items():
            if part is None:
                del version[name]
            else:
                version[name] += 1
        for other in sorted(draft.neighbours(first)) if first in draft.parts else ():
            consider(first, other)


def weigh_merge(draft: Draft, a: int, b: int) -> Proposal | None:
    """What making ``b`` a part of ``a`` saves; None when it cannot be or saves nothing."""
    union = draft.parts[a].exprs | draft.parts[b].exprs
    homes = {index: a for index in draft.parts[b].exprs if draft.home[index] == b}
    return draft.weigh({a: union, b: frozenset()}, homes)
