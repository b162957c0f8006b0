"""Reductions along rows and down columns in one pass over memory: the backward passes of norms and their modulations.

A block walks rows one after another. Each thread owns the same columns of every row, so what is reduced down columns
accumulates in its registers (in shared memory where rows are too long) while rows are loaded, reduced along and stored;
the next rows are loaded meanwhile. Where those wait in shared memory, they are reduced along before the rows at hand
are stored: no warp waits for partial results of another that is less than a row behind. Rows that would take a
multiprocessor for themselves are shared by the blocks of a **cluster**, each of which has a part of their columns:
there are fewer partial results, and more rows on their way (H200, layernorm's backward pass, 8192 x 16384: 217 -> 201
us). At the end every block writes its accumulators to scratch, and a finishing kernel combines them in a fixed order,
so results are bitwise equal from run to run.

Rows of each length have a kernel of their own, in steps: a **rung** of a ladder is for rows that are no longer than
what its blocks own. How many blocks there are is found at the call.

Blocks share the rows evenly. Where some reduction keeps outer indices, a block's rows follow each other, so that it has
rows of few indices, mostly of one; else neighbouring rows are those of different blocks. (nvFuser's inner outer
persistent scheduler keeps partial results of columns in registers likewise, for one set of outer dims.)
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from fusebuild.ir.fusion import Task
from fusebuild.kernels.common.planner import Planner
from fusebuild.kernels.common.spec import VariantSpec, try_domain
from fusebuild.kernels.inner_outer.axes import inner_outer_parts
from fusebuild.kernels.inner_outer.planner import planner_of
from fusebuild.kernels.inner_outer.rungs import ALONE, CLOSE, LONGER_THAN_TILED, RUNGS, SINGLE_RUNGS
from fusebuild.kernels.inner_outer.tiled import ALIGNED_COLUMNS, Tiled


def check(task: Task) -> None:
    inner_outer_parts(task, try_domain(task))


def variants(planner: Planner) -> list[VariantSpec]:
    own = planner_of(planner)
    tiles = Tiled.of(own) if own.can_be_odd else None
    is_tiled = tiles is not None and tiles.applies
    single, found, odd = replace(own, vec=1), list[VariantSpec](), dict[int, VariantSpec]()
    has_odd = own.has_odd_rows(own.vec, own.columns)
    if has_odd and own.can_walk_odd:
        longer = _longer(own.odd_rungs, LONGER_THAN_TILED if is_tiled else 0)
        odd = replace(own, vectors=own.odd_vectors).ladder(longer)
    elif own.vec == 1 or has_odd:
        odd = single.ladder(SINGLE_RUNGS)
    if own.vec > 1:
        lengths = [rung for rung in RUNGS if rung != CLOSE or len(own.reduced) == 1]
        lengths += [] if own.can_cluster else [ALONE]
        rungs = own.ladder(_longer(lengths, ALIGNED_COLUMNS if is_tiled else 0))
        longest = max(rungs, default=0)
        found += [*rungs.values(), *(own.memory(longest) if max(odd, default=0) < RUNGS[-1] else ())]
    shared = own.sharing_scratch([*found, *odd.values(), single.scratch(())])
    if tiles is None or not is_tiled:
        return shared
    return [*tiles.of_whole_vectors(), *shared[: len(found)], *tiles.of_odd_rows(), *shared[len(found) :]]


def _longer(rungs: Iterable[int], than: int) -> list[int]:
    return [rung for rung in rungs if rung > than]
