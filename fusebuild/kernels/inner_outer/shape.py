"""How the rows of :mod:`fusebuild.kernels.inner_outer.schedule` lie over threads: its choices, which of them are
faster, and its heuristics."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from fusebuild.kernels.common.choice import Choice, fewer_blocks
from fusebuild.kernels.common.rows import RowThreads, rows_beside

ENOUGH_THREADS = 384
"""Threads on a multiprocessor whose warps hide each other's waits."""
FEW_CHUNKS = 3
"""Vectors of a row beyond which a thread has too much to do between two barriers."""
PLENTY = 2
"""Vectors of a row beyond which the threads of a cluster had better be more. (H100, layernorm's backward pass, 2560 x
32768 and 3283 x 25552: 2 x 512 threads with 4 vectors each have 0.83 of a copy's bandwidth, 4 x 512 with 2 0.89.)"""
MOST_PLACES = 1.25
"""Places that the threads of a cluster have for each vector of a row beyond which too many of them are idle. (H200,
layernorm's backward pass, 10922 x 12288: 2 x 512 threads with 2 places each take 248 us, 2 x 256 with 3 take 208.)"""


@dataclass(frozen=True, slots=True, kw_only=True)
class InnerOuterChoice(Choice):
    """How rows are laid over threads of a block, or of ``cluster`` neighbouring ones; a multiprocessor shall have the
    registers of ``min_blocks``, and so many fill it. ``unpacks`` what is the same for many rows once, or for each of
    them."""

    FEWER = ("at_once", "unpacks", "stages", "threads_per_row")
    MORE = ("cluster", "threads_per_row")

    threads_per_row: int
    cluster: int
    rows_per_block: int
    at_once: int
    stages: int
    unpacks: bool
    min_blocks: int

    @property
    def threads(self) -> RowThreads:
        return RowThreads(per_row=self.threads_per_row, rows=self.rows_per_block)

    def preference(self, chunks: int, vectors: int) -> tuple[int, ...]:
        """Less for choices that are faster for rows of so many ``vectors``, of which a thread has ``chunks``, as
        measured on the backward passes of norms with 128 to 32768 columns: the next rows in registers, few chunks, then
        blocks of a multiprocessor that do not all wait at once, then many threads with a row each on its way. Where the
        next rows wait in shared memory warps enough to hide each other's waits; then clusters rather than single blocks
        that have a multiprocessor each, small ones of wide blocks whose threads all have something to do, and not too
        much; and else few threads that have to meet."""
        blocks, per_row = self.min_blocks, self.threads_per_row
        if self.stages == 1:
            return (0, chunks > FEW_CHUNKS, blocks == 1, -blocks * self.at_once * per_row, -self.at_once, chunks)
        is_thin = blocks * self.threads.block < ENOUGH_THREADS
        if self.cluster == 1:
            return (1, is_thin, not self.unpacks, blocks == 1, False, 1, per_row)
        is_idle = self.cluster * per_row * chunks > MOST_PLACES * vectors
        return (1, is_thin, not self.unpacks, False, is_idle, chunks > PLENTY, self.cluster, -per_row, -self.stages)

    def stepped(self, knob: str, value: int) -> Self:
        """Threads that have more to do at once need more registers, so that there are fewer blocks."""
        changed = super(InnerOuterChoice, self).stepped(knob, value)
        if knob == "threads_per_row":
            changed = replace(changed, rows_per_block=rows_beside(value, self.threads.block))
        if knob in ("threads_per_row", "rows_per_block"):
            blocks = fewer_blocks(self.min_blocks, self.threads.block, changed.threads.block)
            changed = replace(changed, min_blocks=blocks)
        if knob == "at_once" and value > self.at_once:
            changed = replace(changed, min_blocks=max(1, self.min_blocks // 2))
        return changed


@dataclass(frozen=True, slots=True, kw_only=True)
class InnerOuterHeuristics:
    """A row is a block's, or that of ``cluster`` neighbouring ones with so many ``threads`` each; the grid says how
    many such clusters share the rows. ``storage`` of the accumulators is registers, shared or scratch; ``chunks`` are
    the vectors of a row that a thread owns, 0 where it walks the row in a loop. A thread works on ``at_once`` rows
    together, so that their waits overlap, while inputs ``fetched`` of the next ones are loaded: into registers or,
    where there are several ``stages``, so many times as many rows into shared memory, each thread's own vectors. Inputs
    ``resident`` are the same for all rows of an outer index: what follows from them alone stays in registers, or those
    ``packed`` themselves, in fewer. A block ``finishes`` the outer indices of which it has all rows. Rows that are
    striped are ``copied`` by so many elements at a time, and outputs lie ``in_place`` of inputs, ``(output, input)``.
    """

    threads: RowThreads
    cluster: int
    storage: str
    chunks: int
    at_once: int
    stages: int
    fetched: tuple[int, ...]
    resident: tuple[int, ...]
    packed: tuple[int, ...]
    min_blocks: int
    finishes: bool
    copied: int
    in_place: tuple[tuple[int, int], ...]

    @classmethod
    def of(
        cls,
        choice: InnerOuterChoice,
        *,
        storage: str,
        chunks: int,
        fetched: tuple[int, ...] = (),
        resident: tuple[int, ...] = (),
        packed: tuple[int, ...] = (),
        finishes: bool = False,
        copied: int = 0,
        in_place: tuple[tuple[int, int], ...] = (),
    ) -> Self:
        """What ``choice`` says, and the rest."""
        return cls(
            threads=choice.threads, cluster=choice.cluster, storage=storage, chunks=chunks, at_once=choice.at_once,
            stages=choice.stages, fetched=fetched, resident=resident, packed=packed, min_blocks=choice.min_blocks,
            finishes=finishes, copied=copied, in_place=in_place,
        )  # fmt: skip

    def columns(self, vec: int) -> int:
        """The columns that a block can own, by vectors of so many elements."""
        return self.threads.per_row * self.chunks * vec

    @property
    def in_cluster(self) -> bool:
        """Whether blocks share rows, which are reduced along a turn before they are stored then."""
        return self.cluster > 1
