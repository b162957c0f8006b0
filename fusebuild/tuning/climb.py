"""Hill climbing: finding a better choice of knobs by measuring, from the heuristics' own one step at a time.

The heuristics' choice runs first. Whatever is one step beside the best choice so far is raced against it; a winner is
the best from then on, and its neighbours are next. A win counts only when it repeats: in each of several rounds, the
challenger is faster by more than ``LEAST_WIN`` in the median of the turns, and faster at all in most of them. A
turn times both, so that a clock that drifts, drifts for both. Where clocks only scatter, either is faster in half of
the turns; to be faster in three quarters of them, round after round, is then less likely than one in a million.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fusebuild.kernels.common.spec import VariantSpec
from fusebuild.tuning.workshop import Turns, Workshop

MOST_NEIGHBOURS = 16
"""Neighbours that are tried for one kernel, at most."""
LEAST_WIN = 0.02
"""The least share of the time that a win saves. Two runs of one kernel differ by up to this share."""
ROUNDS = 4
"""How many rounds a challenger has to win. It is out after the first round that it loses."""
MOST_TURNS = 0.75
"""A winner is faster in at least this share of the turns of a round."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The ``best`` variant, which is the heuristics' own where nothing beat it. Times are medians in milliseconds of
    one last round between that variant and the heuristics' own. ``tried`` counts the neighbours that were raced,
    ``refused`` says why others were not."""

    best: VariantSpec
    milliseconds: float
    heuristic_milliseconds: float
    tried: int
    refused: tuple[str, ...]

    @property
    def win(self) -> float:
        """The share of the heuristics' time that is saved."""
        return 1 - self.milliseconds / self.heuristic_milliseconds if self.heuristic_milliseconds else 0.0


def climb(
    origin: VariantSpec,
    neighbours: Callable[[VariantSpec], Sequence[VariantSpec]],
    track: Workshop,
    *,
    budget: int = MOST_NEIGHBOURS,
) -> Outcome:
    """The best variant that at most ``budget`` races find from ``origin`` on."""
    (first,) = track.rivals([origin])
    best, seen, tried, refused = first, [origin], 0, list[str]()
    while tried < budget:
        known = [variant.launches for variant in seen]
        fresh = [variant for variant in neighbours(best.variant) if variant.launches not in known]
        if not fresh:
            break
        for rival in track.rivals(fresh[: budget - tried]):
            seen.append(rival.variant)
            if rival.timed is None:
                refused.append(rival.refused)
                continue
            tried += 1
            if all(is_win(track.race(best, rival)) for _ in range(ROUNDS)):
                best = rival
    turns = track.race(first, best)
    heuristic_milliseconds, milliseconds = (statistics.median(times) for times in zip(*turns, strict=True))
    if best is first or not is_win(turns):
        best, milliseconds = first, heuristic_milliseconds
    return Outcome(
        best=best.variant,
        milliseconds=milliseconds,
        heuristic_milliseconds=heuristic_milliseconds,
        tried=tried,
        refused=tuple(refused),
    )


def is_win(turns: Turns) -> bool:
    """Whether the challenger won this round."""
    shares = [challenger / best if best > 0 else 1.0 for best, challenger in turns]
    faster = sum(share < 1 for share in shares)
    return statistics.median(shares) < 1 - LEAST_WIN and faster >= MOST_TURNS * len(shares)
