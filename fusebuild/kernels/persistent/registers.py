"""The row in the registers of its threads, which is the fastest way for all rows that fit them.

A thread keeps up to :data:`REGISTER_BYTES` of the inputs that several sweeps read, and where registers last the costly
values of the row, such as the exponentials of a softmax. Rows of any length take the same kernel with vectors that are
``shifted`` to where memory is aligned (:mod:`fusebuild.kernels.common.rows_view`), or elements one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Self

from fusebuild.ir.formula import Formula
from fusebuild.kernels.common.choice import decide
from fusebuild.kernels.common.planner import Planner
from fusebuild.kernels.common.rows import (
    MAX_THREADS,
    RowChoice,
    RowThreads,
    blocks_wanted,
    check_rows,
    has_lambdas,
    row_threads,
)
from fusebuild.kernels.common.spec import VariantSpec, VectorLayout, fits_int32
from fusebuild.kernels.common.sweeps import column_inputs, early_outputs, kept_values
from fusebuild.kernels.persistent.budgets import ALL_AT_ONCE, IN_REGISTERS
from fusebuild.kernels.persistent.long_rows import Edged, has_edged
from fusebuild.kernels.persistent.way import PersistentHeuristics, Way, chunks_of, row_choice
from fusebuild.ops.table import op_of

KEPT_BLOCK = 512
"""Threads of a block up to which costly values are kept: larger blocks are alone on their multiprocessor."""

BUSY_THREADS = 768
"""Threads of a multiprocessor that hide memory latency with four vectors each."""

SHORT_ROW_THREADS = 1280
"""Threads of a multiprocessor that do so where a block has several rows, whose warps wait by themselves. (H200, sizes
known: layernorm of 128 columns 273 -> 265 us in 40 registers to a thread, of 256 columns 265 -> 289 in 64.)"""

REGISTER_BYTES = 128
"""Bytes of inputs that one thread keeps in registers: half of its 64 at full occupancy for 4-byte registers."""

SHORT = 1024
"""Elements of the longest rows that a part of a warp may share: :mod:`fusebuild.kernels.persistent.short_rows`."""

BETWEEN = 8192
"""Elements of the longest rows of a kernel of its own where the last sweep reads more than the row."""

RUNGS = (4096, BETWEEN, 16384)
"""Elements of the longest rows of a kernel of its own, beyond those."""

ODD_RUNGS = (8192, 32768)
"""The same for rows by shifted vectors, which may begin a vector before them."""

BEFORE_EDGES = 4096
"""Elements of the longest rows of whole vectors that have kernels of their own where others take rows with edges: those
are as fast for longer ones without."""

MANY_VECTORS = 8
"""Vectors of a row that a thread has where the row is longer: fewer threads meet at each barrier, and more rows are on
their way."""

LONGEST_BYTES = 96 * 1024
"""Bytes of a row's inputs up to which one block keeps them, which waits for no peers, where a cluster could do so."""

ChunksOf = Callable[[RowThreads], int]
"""The vectors of a row that each of its threads has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterChoice(RowChoice):
    """How a row lies in registers: ``keeps`` costly values beside inputs or computes them again."""

    FEWER: ClassVar[tuple[str, ...]] = ("keeps", "threads_per_row")

    keeps: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class InRegisters(Way):
    """What all kernels have in common that keep a row in the registers of one block."""

    early: tuple[int, ...] = ()
    """Outputs that the first sweep stores: :func:`fusebuild.kernels.common.sweeps.early_outputs`."""

    @classmethod
    def of(cls, planner: Planner, **more: object) -> Self:
        found, early = super(InRegisters, cls).of(planner, **more), early_outputs(planner.task, planner.domain)
        return replace(found, early=early, kept=tuple(kept_values(planner.task, planner.domain, early)))

    @property
    def in_one_block(self) -> Self:
        """This for rows of the first case, or where a cluster shares those for the longest ones of a block."""
        is_shared = self.target.cluster > 1 and self.size * self.bytes_of(self.cached) > LONGEST_BYTES
        return replace(self, size=max(RUNGS)) if is_shared else self

    def known_size(self, heuristics: PersistentHeuristics, min_blocks: int) -> PersistentHeuristics | None:
        """The heuristics of a kernel that knows the row's size, None where that is no gain: a compiler that does moves
        what later sweeps read ahead of the reductions, and takes inputs for floats once; both must fit the registers.

        Rows that end in a warp load even what only the last sweep reads before the first reduction, since no other warp
        of theirs loads while they wait for it (H200: rmsnorm of 128 columns 259.8 -> 256.0 us). Where their size is not
        known that takes the registers of all elements that a thread might have, and costs more than it gains (of 256
        columns 283 -> 312)."""
        if self.vec == 1:
            return None
        threads, kept = heuristics.threads, max(self.words_read, self.vec * len(self.cached))
        words = IN_REGISTERS.on(self.target) + heuristics.chunks * kept
        words += IN_REGISTERS.base if heuristics.chunks >= MANY_VECTORS else 0  # which ptxas takes besides
        if threads.rows == 1:
            return heuristics if words <= self.target.registers // (threads.block * min_blocks) else None
        ahead = column_inputs(self.task, self.domain)
        gains = {*ahead} > {*heuristics.cached} and words <= self.target.registers // SHORT_ROW_THREADS
        return replace(heuristics, cached=ahead) if gains else None

    @property
    def words_read(self) -> int:
        """Registers of a vector of each input that changes along the row."""
        return self.vector_bytes(column_inputs(self.task, self.domain)) // 4

    def lasts(self, threads: RowThreads, columns: int) -> bool:
        """Whether two blocks have the registers to keep costly values, too, for ``columns`` to a thread."""
        kept = self.vector_bytes(self.kept) // self.vec
        words = columns * (self.bytes_of(self.cached) + kept) // 4
        most = min(IN_REGISTERS.most, self.target.registers // (2 * threads.block))
        return threads.block <= KEPT_BLOCK and IN_REGISTERS.base + words <= most


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeVectors(InRegisters):
    """Rows of whole vectors: a ladder of kernels."""

    def variants(self) -> tuple[VariantSpec, ...]:
        own, rungs = self.in_one_block, self._rungs
        own = own if own is self or not rungs else replace(own, size=max(rungs))
        is_short = self.vec > 1 and self.size <= SHORT and not isinstance(self.columns, int)
        named = self.size if is_short else own.size
        own = replace(self, size=RUNGS[0]) if is_short else own
        return own.climbed(rungs, lambda rows: (rows.named(rows.rung_name("registers", named), self.vector_guard),))

    @property
    def _rungs(self) -> list[int]:
        if self.vec == 1:
            return []
        if has_edged(self):
            return [rung for rung in RUNGS if rung <= BEFORE_EDGES]
        return [rung for rung in RUNGS if rung != BETWEEN or self._reads_more]

    @property
    def _reads_more(self) -> bool:
        """Whether the last sweep reads more than a thread keeps of its row."""
        return self.words_read > 2 * self.vector_bytes(self.cached) // 4

    @property
    def _has_many(self) -> bool:
        """Whether threads have ``MANY_VECTORS`` of rows that others do not take with edges: of the longest, or where
        the last sweep reads more, of those in between. (H100: rmsnorm of 277 rows of 11032 elements 8.5 -> 7.8 us;
        adaln_forward of 5824 columns 80.6 -> 61.8, but of 9536 59.4 -> 61.3.)"""
        is_between = BEFORE_EDGES < self.size <= BETWEEN
        is_asked = is_between if self._reads_more else self.size > BETWEEN
        return is_asked and self.most_chunks >= MANY_VECTORS and not self.kept and not has_edged(self)

    def named(self, name: str, guard: tuple[Formula, ...], vectors: VectorLayout = VectorLayout.ALIGNED) -> VariantSpec:
        """The variant of that ``name``. Shifted vectors begin up to ``vec - 1`` columns before the row; a row that
        needs them is odd, and then no thread has registers for more."""
        vec = self.vec
        way = f"{name}_vec{vec}_int32"
        is_shifted = vectors is VectorLayout.SHIFTED
        before = vec - 1 if is_shifted else 0
        most = self.most_chunks
        lay = partial(chunks_of, self.size + before, vec, most=most, tight=is_shifted and self.size % vec != 0)
        check = partial(self._check, before=before, lay=lay)
        choice = decide(way, self._propose(before, most, lay), self.tuned, check)
        threads, chunks = choice.threads, lay(choice.threads)
        heuristics = PersistentHeuristics(
            threads=threads,
            storage="registers",
            chunks=chunks,
            cached=self.cached,
            kept=self.kept if choice.keeps else (),
            early=self.early,
        )
        fits: Formula = ("le", self.columns, threads.per_row * chunks * vec - before)
        known = self.known_size(heuristics, choice.min_blocks)
        return self.rows_variant(way, (*guard, fits), heuristics, choice, vectors=vectors, when_known=known)

    @property
    def most_chunks(self) -> int:
        """Vectors of a row that a thread may have registers for."""
        if not self.cached:
            return max(1, 16 // self.vec)
        available = REGISTER_BYTES // 2 if has_lambdas(self.task) else REGISTER_BYTES
        return max(1, available // self.vector_bytes(self.cached))

    def _propose(self, before: int, most: int, lay: ChunksOf) -> RegisterChoice:
        held = MANY_VECTORS if not before and self._has_many else 4
        vec, size, wanted = self.vec, self.size + before, min(held if self.vec > 1 else 16, most)
        threads, kept = row_threads(size, vec, wanted), bool(self.kept)
        if before and threads.block == MAX_THREADS and not self._loads_fit(threads, lay(threads)):
            alone = row_threads(size, vec, 2 * wanted)
            return RegisterChoice(**{**row_choice(alone).knobs, "min_blocks": 1}, keeps=False)
        if kept and not self.lasts(threads, lay(threads) * vec):
            fewer = row_threads(size, vec, -(-wanted // 2))
            if kept := self.lasts(fewer, lay(fewer) * vec):
                threads = fewer
        blocks = max(blocks_wanted(threads), self._blocks_of_loads(threads, lay(threads), kept))
        return RegisterChoice(**{**row_choice(threads).knobs, "min_blocks": blocks}, keeps=kept)

    def _loads_fit(self, threads: RowThreads, chunks: int) -> bool:
        """Whether the threads of one block have registers for all that they read of a row at once."""
        return ALL_AT_ONCE.base + chunks * self.words_read <= self.target.registers // threads.block

    def _blocks_of_loads(self, threads: RowThreads, chunks: int, keeps: bool) -> int:
        """The blocks of ``BUSY_THREADS``, fewer where registers are too few for all that a thread reads of its row: a
        compiler that moves all loads ahead may not take the registers of other blocks for them."""
        if self.vec == 1 or threads.rows > 1 or any(op_of(expr).is_random for expr in self.task.steps):
            return 1
        many = chunks > MANY_VECTORS // 2  # of which compilers move those of the row alone ahead
        words = chunks * self.vector_bytes(self.cached) // 4 + self.words_read if many else chunks * self.words_read
        words += chunks * self.vec * len(self.kept) if keeps else 0
        fitting = self.target.registers // (threads.block * (ALL_AT_ONCE.base + words))
        return min(BUSY_THREADS // threads.block, fitting)

    def _check(self, choice: RegisterChoice, *, before: int, lay: ChunksOf) -> None:
        """Raise :class:`KnobError` where threads hold fewer elements than a row has, or nothing is there to keep."""
        check_rows(choice, self.target)
        held = choice.threads_per_row * lay(choice.threads) * self.vec - before
        message = f"{choice.threads_per_row} threads hold {held} elements of a row of {self.size}"
        choice.require(held >= self.size, "threads_per_row", message)
        choice.require(bool(self.kept) or not choice.keeps, "keeps", "no value is costly")


@dataclass(frozen=True, slots=True, kw_only=True)
class ShiftedVectors(WholeVectors):
    """Odd rows by vectors that begin before them: those too long for tiles, where no other kernel is for long ones."""

    FOR_ODD_ROWS: ClassVar[bool] = True

    def applies(self, earlier: Collection[type[Way]]) -> bool:
        return super(ShiftedVectors, self).applies(earlier) and Edged not in earlier

    def variants(self) -> tuple[VariantSpec, ...]:
        own, before = self.in_one_block, self.vec - 1
        rungs = [rung - before for rung in ODD_RUNGS]
        own = replace(own, size=rungs[0]) if own.size <= SHORT and not isinstance(self.columns, int) else own
        return own.climbed(
            rungs,
            lambda rows: (rows.named(rows.rung_name("shifted", own.size), self.odd_guard, VectorLayout.SHIFTED),),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Elements(WholeVectors):
    """Rows that may be no whole vectors, element by element."""

    def applies(self, earlier: Collection[type[Way]]) -> bool:
        return self.vec > 1 and not self.is_odd and not self.is_whole

    def variants(self) -> tuple[VariantSpec, ...]:
        return (replace(self.in_one_block, vec=1).named("registers", (fits_int32(self.columns),)),)
