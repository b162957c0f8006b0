"""The row in the registers of a cluster of blocks: for rows too long for one block to keep well."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

from fusebuild.ir.formula import Formula, product
from fusebuild.kernels.common.choice import decide
from fusebuild.kernels.common.rows import (
    MAX_THREADS,
    WARP,
    blocks_wanted,
    check_rows,
    fits_exchange,
    next_power_of_two,
    row_threads,
)
from fusebuild.kernels.common.spec import VariantSpec, reductions
from fusebuild.kernels.common.sweeps import inputs_after, last_sweep
from fusebuild.kernels.persistent.budgets import IN_REGISTERS, LAST_SWEEP
from fusebuild.kernels.persistent.long_rows import edged_lengths
from fusebuild.kernels.persistent.registers import RUNGS as BLOCK_RUNGS
from fusebuild.kernels.persistent.registers import InRegisters, RegisterChoice
from fusebuild.kernels.persistent.way import PersistentHeuristics, chunks_of, row_choice
from fusebuild.ops.table import op_of

RUNGS = (65536, 131072)
"""Elements of the longest rows of a kernel of its own, beside those of the longest that facts allow."""

LONGEST = 262144
"""Elements that the last of them has where a cluster keeps as many."""

CLUSTER_SHARE_BYTES = 64 * 1024
"""Bytes of a row that one block of a cluster keeps, where so many blocks may be: few enough that blocks of several rows
share a multiprocessor, and one row's reductions do not idle it."""

CLUSTER_THREAD_BYTES = 128
"""Bytes of a row that one thread of a cluster keeps, at most."""

FEWER_THREADS_BYTES = 256
"""The most bytes that one thread keeps where the last sweep reads something else ahead: what threads take besides is
taken by half as many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterHeuristics(PersistentHeuristics):
    """``cluster`` neighbouring blocks walk a row together, their vectors in turn. So many vectors ``ahead`` of the one
    at hand the last sweep loads what is not kept, the first ones before the last exchange."""

    cluster: int
    ahead: int

    def grid(self, rows: Formula) -> Formula:
        return product([self.cluster, rows])

    @property
    def capacity(self) -> int:
        """Vectors of the longest row that the cluster keeps."""
        return self.cluster * self.threads.per_row * self.chunks


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterChoice(RegisterChoice):
    """How a row lies in the registers of ``cluster`` neighbouring blocks."""

    MORE: ClassVar[tuple[str, ...]] = ("cluster", "threads_per_row")

    cluster: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster(InRegisters):
    """A ladder of kernels for rows that one block does not keep. Shorter rows than those that a kernel is planned for
    take it too: no thread then has more vectors, and all blocks have the same share but for one vector a thread."""

    def variants(self) -> tuple[VariantSpec, ...]:
        """None where there are no clusters, where nothing is kept, and for rows that no cluster keeps or whose partial
        results are too large to exchange."""
        if self.target.cluster == 1 or not self.cached or self.vec == 1:
            return ()
        is_long, rungs = self.in_one_block is not self, self._rungs
        if not is_long and not rungs:
            return ()
        own, edged = self if is_long else replace(self, size=rungs[0]), edged_lengths(self)
        found = own.climbed(rungs, lambda rows: rows.keeping(rows.rung_name("cluster", own.size), edged))
        return self.but_for_few(found)

    @property
    def _rungs(self) -> tuple[int, ...]:
        """Those that rows can be as long as: none where others take rows that facts tell nothing of, and none that are
        shorter than rows that others take."""
        _, most = self.extremes
        if isinstance(self.columns, int) or (most is not None and most <= max(BLOCK_RUNGS)):
            return ()
        longest = (most,) if most is not None and most > RUNGS[-1] else ()
        held = () if edged_lengths(self) else self._held_rungs
        return (*held, *longest)

    @property
    def _held_rungs(self) -> tuple[int, ...]:
        """The ladder, whose last step is twice as long where a cluster keeps as much."""
        is_held = self._holds(self._propose(LONGEST, self.vector_bytes(self.cached)), LONGEST)
        return (*RUNGS[:-1], LONGEST) if is_held else RUNGS

    def keeping(self, name: str, edged: Sequence[int]) -> tuple[VariantSpec, ...]:
        """The variant for rows of up to ``size`` elements, whose way is called ``name``; those of up to so many are
        ``edged``."""
        vec, size, vector_bytes = self.vec, self.size, self.vector_bytes(self.cached)
        way = f"{name}_vec{vec}_int32"
        proposal = self._propose(size, vector_bytes)
        if not self._holds(proposal, size):
            return ()
        choice = decide(way, proposal, self.tuned, partial(self._check, row=size))
        chunks = self._chunks(choice, size)
        heuristics = ClusterHeuristics(
            threads=choice.threads,
            storage="cluster",
            chunks=chunks,
            cached=self.cached,
            kept=self.kept if choice.keeps else (),
            early=self.early,
            cluster=choice.cluster,
            ahead=self._ahead(choice, chunks),
        )
        fits: Formula = ("le", self.columns, heuristics.capacity * vec)
        own_name = f"cluster{choice.cluster}_vec{vec}_int32" if name == "cluster" else way
        # Threads beyond the row take its last vector again: it has one.
        shorter: Formula = ("lt", max((each for each in edged if each < size), default=0), self.columns)
        guard = (*self.vector_guard, shorter, fits)
        return (self.rows_variant(way, guard, heuristics, choice, name=own_name),)

    def _propose(self, row: int, vector_bytes: int) -> ClusterChoice:
        row_bytes, most = -(-row // self.vec) * vector_bytes, self._thread_bytes
        cluster = min(self.target.cluster, max(2, next_power_of_two(-(-row_bytes // CLUSTER_SHARE_BYTES))))
        threads = row_threads(-(-row // cluster), self.vec, max(1, most // vector_bytes))
        blocks = max(1, min(blocks_wanted(threads), 2 * self.target.registers // (threads.block * most)))
        knobs = {**row_choice(threads).knobs, "min_blocks": blocks}
        choice = ClusterChoice(**knobs, keeps=False, cluster=cluster)
        return replace(choice, keeps=bool(self.kept) and self._has_room(choice, self._chunks(choice, row)))

    def _has_room(self, choice: ClusterChoice, chunks: int) -> bool:
        """Whether registers hold costly values, too: those take the place of inputs that no later sweep reads."""
        vector = max(self.vector_bytes(self.cached), self.vector_bytes((*self._later, *self.kept)))
        most = min(IN_REGISTERS.most, self.target.registers // (choice.threads.block * choice.min_blocks))
        return IN_REGISTERS.base + chunks * vector // 4 <= most

    @property
    def _later(self) -> tuple[int, ...]:
        """Inputs that are read when costly values have been computed."""
        still = inputs_after(self.task, self.kept, self.early)
        return tuple(fid for fid in self.cached if fid in still)

    @property
    def _thread_bytes(self) -> int:
        reads_more = bool(last_sweep(self.task, self.domain, self.cached, ()).inputs)
        return FEWER_THREADS_BYTES if reads_more else CLUSTER_THREAD_BYTES

    def _chunks(self, choice: ClusterChoice, row: int) -> int:
        """Vectors of a row of so many elements that each thread has: half of its registers at most."""
        registers = self.target.registers // (choice.threads_per_row * choice.min_blocks)
        most = min(self._thread_bytes, 2 * registers) // self.vector_bytes(self.cached)
        return chunks_of(-(-row // choice.cluster), self.vec, choice.threads, most=max(1, most))

    def _ahead(self, choice: ClusterChoice, chunks: int) -> int:
        """Vectors of what the last sweep alone takes from memory that registers hold beside ``chunks`` of the row."""
        task, kept = self.task, self.kept if choice.keeps else ()
        sweep = last_sweep(task, self.domain, self.cached, kept)
        words = self.vector_bytes(sweep.inputs) // 4
        if not words or any(op_of(expr).is_random for expr in task.steps):
            return 0
        of_rows = sum(max(4, self.bytes_of([fid])) for fid in sweep.of_rows)
        held = chunks * (self.vector_bytes(self._later if kept else self.cached) // 4 + self.vec * len(kept))
        held += (self.vector_bytes(sweep.outputs) + of_rows) // 4
        axes = (self.domain.accesses[fid].axes for fid in sweep.inputs + sweep.outputs)
        held += sum(2 for own in axes if {*own} & {*self.domain.kept})  # addresses
        registers = min(LAST_SWEEP.most, self.target.registers // (choice.threads.block * choice.min_blocks))
        return max(0, min(chunks, (registers - LAST_SWEEP.base - held) // words))

    def _holds(self, choice: ClusterChoice, row: int) -> bool:
        """Whether a cluster keeps a row of so many elements and exchanges its partial results."""
        warps = choice.cluster * choice.threads_per_row // WARP
        held = choice.cluster * choice.threads_per_row * self._chunks(choice, row) * self.vec
        return held >= row and fits_exchange(warps, self._most_parts)

    @property
    def _most_parts(self) -> int:
        """The most parts that a partial result has: as many as a lambda's state."""
        exprs = [self.task.fusion.exprs[index] for index in reductions(self.task)]
        return max(len(expr.outputs) if expr.combine else 1 for expr in exprs)

    def _check(self, choice: ClusterChoice, *, row: int) -> None:
        check_rows(choice, self.target, most_rows=1)
        choice.require_power_of_two("threads_per_row", WARP, MAX_THREADS)
        choice.require_power_of_two("cluster", 2, self.target.cluster)
        choice.require(bool(self.kept) or not choice.keeps, "keeps", "no value is costly")
        blocks = f"{choice.cluster} blocks of {choice.threads_per_row} threads"
        message = f"{blocks} do not hold a row of {row} elements, or their partial results do not fit"
        choice.require(self._holds(choice, row), "cluster", message)
