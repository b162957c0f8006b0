"""Rows that some of a warp's threads share, in their registers: how many do follows from a row's length.

What counts for short rows is how many bytes of them a multiprocessor has on their way. Threads that have no vector of
their row have none on theirs, so a row of a few vectors has as many threads, down to one: the next ones have the next
row. (H100, an RMS norm of 16 columns: 0.46 of a copy's bandwidth where eight threads share a row.) Up to four, each
thread has one vector, for what neighbouring threads load at a time shall lie side by side: with four of them to a
thread, 32 columns have 0.60 instead of 0.80. Of longer rows, four threads have up to five vectors each, which share
what a thread does for a row: of 64 columns, layernorm has 0.99 so, adaln_forward 0.88; 0.90 and 0.70 where eight have
one. Then eight have the row, and so on: the fewer threads have it, the fewer of them are idle in its last turn. (H200,
rows of 320 columns, of which a warp had 40 vectors in two turns and eight threads have five each: rmsnorm of 377728
rows 134 -> 122 us, adaln_forward of 73728 55 -> 36.) One kernel serves all rows, to which the number of a row's threads
is an argument.

A row of an odd number of vectors begins in the middle of a sector of memory if its number is odd. Its threads begin a
vector before it then, where the first of them has none, so that each two neighbours have a sector. (H200, softmax of
203898 rows of 120 columns 30 -> 27.6 us; but of 100915 rows of 840, where a sector is little of a row, 83.7 -> 87.1.)

Of rows of several axes, such as the pixels of a group's channels, vectors cross from one channel to the next: what
counts is whether the row is whole vectors, and not whether a channel is. (H200, groupnorm of 53120 rows of 64 channels
of 3 pixels: 40 us in tiles, 19 so.)
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from fusebuild.ir.formula import MULTIPROCESSORS, Formula, product, total
from fusebuild.kernels.common.choice import Choice, decide
from fusebuild.kernels.common.rows import WARP, RowThreads, has_lambdas, next_power_of_two
from fusebuild.kernels.common.spec import KnownSizes, VariantSpec, fits_int32, formula_parameter, kernel_parameters
from fusebuild.kernels.common.sweeps import column_inputs
from fusebuild.kernels.persistent.budgets import CROSSING, SHORT_ROWS
from fusebuild.kernels.persistent.registers import SHORT, InRegisters, WholeVectors
from fusebuild.kernels.persistent.way import PersistentHeuristics, Way
from fusebuild.ops.table import op_of

BLOCK = 128
"""Threads of a block."""

HELD, HELD_CROSSING, HELD_BY_WARP = 5, 4, 4
"""Vectors of a row that a thread has at most, where they cross from one piece of the row to the next, and where a whole
warp has the row: longer ones have blocks of their own. Where a thread would have six, twice as many have three each and
leave no more idle. (H200, rmsnorm of 18688 rows of 768 columns 17.1 us with three, 18.2 with six.)"""

HELD_ELEMENTS = 16
"""Elements of a row that a thread has at most that takes them one by one."""

SIDE_BY_SIDE = 2
"""Doublings of a row's threads up to which each has one vector. Beyond that so many have as many as they hold before
twice so many have the row, unless there are few rows."""

MANY_BESIDE = 3
"""Inputs that only the last sweep reads from which on a thread has much to do with a vector."""

FEW_ROWS = 64
"""Rows for each multiprocessor up to which there are few: with four threads for each, most that a multiprocessor can
have would be none."""

FEWEST_ROWS = 10
"""Rows for each multiprocessor up to which one that has more vectors than a warp has threads is left to a block of its
own: as many blocks of four warps run at a time, and what counts is how long one row takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShortRowsHeuristics(PersistentHeuristics):
    """A block has as many rows as its threads can: ``threads`` are those where each has one for itself."""

    vec: int
    """Elements of a vector."""

    skips: bool
    """Whether a row that begins in the middle of a sector has no vector for its first thread's first turn."""

    def steps(self, rows: Formula, columns: Formula) -> list[tuple[int, Formula]]:
        """``(doublings of a row's threads, whether so many rows of so many columns ask for them)``."""
        doublings = WARP.bit_length() - 1
        single = SIDE_BY_SIDE if self.vec > 1 else doublings
        steps: list[tuple[int, Formula]] = [(1, ("lt", self.vec << power, columns)) for power in range(single)]
        if single == doublings:
            return steps
        are_many: Formula = ("lt", product([FEW_ROWS, MULTIPROCESSORS]), rows)
        held = total([1, product([self.chunks - 1, are_many])])
        after = (self.vec << power for power in range(single, doublings))
        return [*steps, *((1, ("lt", product([least, held]), columns)) for least in after)]

    def row_shift(self, rows: Formula, columns: Formula) -> Formula:
        """The power of two that a row's threads are."""
        return total([product([more, step]) for more, step in self.steps(rows, columns)])

    def rows_of_block(self, rows: Formula, columns: Formula) -> Formula:
        """The rows of a block."""
        block, terms, shift = self.threads.block, list[Formula](), 0
        for more, step in self.steps(rows, columns):
            terms.append(product([(block >> shift + more) - (block >> shift), step]))
            shift += more
        return total([block, *terms])


@dataclass(frozen=True, slots=True, kw_only=True)
class ShortRowsChoice(Choice):
    """A thread has up to ``held`` vectors of a row; a multiprocessor shall have the registers of ``min_blocks`` blocks
    of so many ``threads``."""

    FEWER = ("held", "threads")

    threads: int
    held: int
    min_blocks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ShortRows(InRegisters):
    """Rows of whole vectors that a warp holds, at most, whose length is not known now."""

    def applies(self, earlier: Collection[type[Way]]) -> bool:
        return self.vec > 1 and not isinstance(self.columns, int)

    def variants(self) -> tuple[VariantSpec, ...]:
        """One for rows of any length, and before that one for rows about as long as those of the first case where a
        kernel gains by knowing how long they are: shorter ones, of at most the power of two before, are left to the
        other. Raises :class:`KnobError` for a choice that no kernel can be made with."""
        longer: Formula = ("lt", next_power_of_two(self.size) // 2, self.columns)
        own = WholeVectors.of(self).named("registers", (*self.vector_guard, longer)) if self.size <= SHORT else None
        gains = own is not None and own.launches[0].kernel.sizes.help
        return (*((own,) if own and gains else ()), self.of_any_length())

    def of_any_length(self) -> VariantSpec:
        way = f"short_vec{self.vec}_int32"
        choice = decide(way, self._propose(), self.tuned, self._check)
        heuristics = ShortRowsHeuristics(
            threads=RowThreads(per_row=1, rows=choice.threads),
            storage="registers",
            chunks=choice.held,
            cached=self.cached,
            kept=self._kept(choice.held),
            early=self.early,
            vec=self.vec,
            skips=self._skips,
        )
        shift = formula_parameter(
            "row_shift", heuristics.row_shift(self.rows, self.columns), "2 to it threads share a row"
        )
        parameters = (*kernel_parameters(self.task, self.domain), shift)
        kernel = self.kernel(
            self.TEMPLATE,
            heuristics,
            vec=self.vec,
            parameters=parameters,
            min_blocks=choice.min_blocks,
            sizes=KnownSizes(help=False),
        )
        longest = WARP * (min(choice.held, HELD_BY_WARP) if self.vec > 1 else choice.held) * self.vec
        fits: Formula = ("le", self.columns, longest)
        grid: Formula = ("ceil_div", self.rows, heuristics.rows_of_block(self.rows, self.columns))
        small = self.whole_guard if self.vec > 1 else (fits_int32(self.columns),)
        are_fewest: Formula = ("le", self.rows, FEWEST_ROWS * self.target.multiprocessors)
        share: Formula = ("le", product([are_fewest, self.columns]), WARP * self.vec)
        beside = (share,) if self.vec > 1 else ()
        return self.variant(way, choice, (*small, fits, *beside), kernel, grid, (choice.threads, 1, 1))

    def _kept(self, held: int) -> tuple[int, ...]:
        lasts = self.lasts(RowThreads(per_row=1, rows=BLOCK), held * self.vec)
        return self.kept if self.kept and lasts else ()

    def _propose(self) -> ShortRowsChoice:
        wanted = (HELD_CROSSING if self.crosses else HELD) if self.vec > 1 else HELD_ELEMENTS
        held = min(wanted, WholeVectors.of(self).most_chunks)
        while held > 1 and self.kept and not self._kept(held):
            held -= min(2, held // 2)
        return ShortRowsChoice(threads=BLOCK, held=held, min_blocks=self._blocks(held))

    def _blocks(self, held: int) -> int:
        """Two, or as many as registers last for, or a compiler takes more of them than rows of few vectors or the
        shortest pieces need. (H200, groupnorm of 32768 rows of 16 channels of 16 pixels: 11.5 us where vectors do not
        cross, 12.6 with 72 registers; rmsnorm of 2000003 rows of 24 columns 64, 77 and 86 us with 40, 52 and 60.)"""
        words = held * (self.vector_bytes(self.cached) // 4 + self.vec * len(self._kept(held)))
        if self.vec > 1 and self.crosses and self._pieces:
            words += CROSSING.base + CROSSING.per_tensor * len(self._pieces)
        elif self.vec > 1 and not self.crosses and self._is_plain:
            words += SHORT_ROWS.base + SHORT_ROWS.per_tensor * len(self._beside)
        else:
            return 2
        most = self.target.threads_per_multiprocessor // BLOCK
        return max(2, min(most, self.target.registers // (BLOCK * words)))

    @property
    def _beside(self) -> set[int]:
        """The inputs that only the last sweep reads along the row."""
        return {*column_inputs(self.task, self.domain)} - {*self.cached}

    @property
    def _draws(self) -> bool:
        return any(op_of(expr).is_random for expr in self.task.steps)

    @property
    def _skips(self) -> bool:
        """Where vectors cross or a thread computes much, the test costs more than whole sectors save. (H200,
        adaln_forward of 440576 rows of 256 columns 131 us without, 137 with.)"""
        return self.vec > 1 and not self.crosses and len(self._beside) < MANY_BESIDE and not self._draws

    @property
    def _is_plain(self) -> bool:
        """Whether a thread's registers are those of its vectors, pointers and a few results: it computes nothing wide,
        keeps no costly values and draws no random numbers."""
        is_narrow = all(self.bytes_of([fid]) <= 4 for fid in self.cached)
        return is_narrow and not self.kept and not self._draws and not has_lambdas(self.task)

    @property
    def _pieces(self) -> tuple[int, ...]:
        """Inputs that change along the row, but not along its innermost axis."""
        reduced, accesses = {*self.domain.reduced}, self.domain.accesses
        along = [fid for fid in self.task.inputs if fid in accesses and reduced & {*accesses[fid].axes}]
        return tuple(fid for fid in along if self.domain.inner not in accesses[fid].axes)

    def _check(self, choice: ShortRowsChoice) -> None:
        choice.require_power_of_two("threads", WARP, 1024)
        most = WholeVectors.of(self).most_chunks
        choice.require_at_most("held", most, f"a thread has registers for {most} vectors of a row")
        choice.require_blocks("min_blocks", choice.threads, self.target.threads_per_multiprocessor)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShortElements(ShortRows):
    """The same element by element, for rows that are often no whole vectors and that nothing else takes by vectors."""

    def applies(self, earlier: Collection[type[Way]]) -> bool:
        return super(ShortElements, self).applies(earlier) and not self.is_odd and not self.is_whole

    def variants(self) -> tuple[VariantSpec, ...]:
        return (replace(self, vec=1).of_any_length(),)
