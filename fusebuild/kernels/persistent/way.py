"""What a way to keep rows on chip is asked, and what each of them knows of the task."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import ClassVar, Protocol, Self, runtime_checkable

from fusebuild.ir.formula import Formula, known_value, product, symbols, total
from fusebuild.ir.fusion import Task
from fusebuild.kernels.common.domain import AxisDomain
from fusebuild.kernels.common.planner import Planner
from fusebuild.kernels.common.rows import WARP, RowChoice, RowThreads, blocks_wanted, fits_exchange, next_power_of_two
from fusebuild.kernels.common.spec import (
    KernelParameter,
    KnownSizes,
    VariantSpec,
    VectorLayout,
    counts,
    fits_int32,
    hint,
    kernel_parameters,
    reductions,
)

BLOCKS_AT_A_TIME, THREADS_AT_A_TIME = 2, 512
"""Blocks of long rows that a multiprocessor has room for, at least, and threads of those: small blocks may be more."""

STAGED_THREADS = 512
"""Threads of the blocks that have a row in their shared memory."""


class RowsHeuristics(Protocol):
    """How threads lie over rows."""

    @property
    def threads(self) -> RowThreads: ...

    def grid(self, rows: Formula) -> Formula:
        """Blocks for ``rows`` rows."""


@runtime_checkable
class InCluster(Protocol):
    """How threads of several blocks lie over a row."""

    @property
    def cluster(self) -> int: ...


@runtime_checkable
class Walked(Protocol):
    """How many clusters have all rows: none where each row has one of its own."""

    @property
    def walkers(self) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PersistentHeuristics:
    """``storage`` is registers, shared, cluster or reread; ``chunks`` the vectors of a row that a thread keeps
    (registers and cluster only); ``cached`` the inputs that are kept, ``kept`` the values that later sweeps take from
    the one that computes them, ``early`` the outputs that the first one stores."""

    threads: RowThreads
    storage: str
    chunks: int
    cached: tuple[int, ...]
    kept: tuple[int, ...] = ()
    early: tuple[int, ...] = ()

    @property
    def in_registers(self) -> bool:
        return self.storage in ("registers", "cluster")

    def grid(self, rows: Formula) -> Formula:
        """Blocks for ``rows`` rows."""
        return self.threads.grid(rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowTask(Planner):
    """A planner of a task whose rows may stay on chip."""

    columns: Formula
    """Elements of a row."""

    size: int
    """Elements that a row is assumed to have."""

    vec: int
    """Elements of a vector, which is one access to global memory."""

    cached: tuple[int, ...]
    """Inputs that several sweeps over a row read: :func:`fusebuild.kernels.common.sweeps.cached_inputs`."""

    kept: tuple[int, ...]
    """Costly values that several sweeps need: :func:`fusebuild.kernels.common.sweeps.kept_values`."""

    @property
    def rows(self) -> Formula:
        return self.domain.points(self.domain.kept)

    @property
    def partials(self) -> tuple[int, ...]:
        """The parts of each reduction's partial results: one, or as many as a lambda's state."""
        return tuple(len(self.task.fusion.exprs[index].outputs) for index in reductions(self.task))

    @property
    def is_odd(self) -> bool:
        """Whether the length of a row need be no multiple of a vector's."""
        is_run = len(self.domain.reduced) == 1 or self.crosses
        return is_run and self.has_odd_rows(self.vec, self.columns)

    @property
    def is_whole(self) -> bool:
        """Whether it is known that rows are whole vectors, wherever they lie."""
        inner = self.domain.axes[self.domain.inner].extent
        return self.task.fusion.algebra.divides(self.vec, inner)

    @property
    def crosses(self) -> bool:
        return vectors_cross(self.task, self.domain)

    @property
    def vector_guard(self) -> tuple[Formula, ...]:
        """What holds where rows are whole vectors that lie where memory is aligned."""
        return (fits_int32(self.columns), *self.vector_guards(self.domain.inner, self.vec))

    @property
    def whole_guard(self) -> tuple[Formula, ...]:
        """The same where vectors may cross from the end of the innermost axis to its next beginning."""
        whole: Formula = ("eq", ("mod", self.columns, self.vec), 0)
        return (*self.odd_guard, whole) if self.crosses else self.vector_guard

    @property
    def odd_guard(self) -> tuple[Formula, ...]:
        """What holds where rows of any length are read by aligned vectors."""
        return self.shifted_guard(self.vec, self.columns)

    @property
    def divided(self) -> int:
        """The axes of a row that an element's coordinates are found on by division."""
        return len(self.domain.reduced) - 1

    def vector_bytes(self, fids: Sequence[int]) -> int:
        """Bytes of the registers that a vector of each of ``fids`` takes: whole registers."""
        return sum(max(4, self.vec * self.bytes_of([fid])) for fid in fids)

    @property
    def named_sizes(self) -> Mapping[str, int]:
        """The sizes at hand of the symbols in a row's length, those that the recipe names."""
        values = {fact.symbol: fact.values for fact in self.task.fusion.facts}
        own = {*symbols(self.columns)}
        return {symbol: size for symbol, size in self.sizes.items() if symbol in own and size in values.get(symbol, ())}

    @property
    def known_columns(self) -> int | None:
        """The elements of a row: a number, or the size at hand where the recipe names it; None for any other."""
        return known_value(self.columns, self.named_sizes)

    def ladder(self, rungs: Iterable[int]) -> Iterator[Self]:
        """This for rows of the first case and of ``rungs``, in ascending order of the elements that they are planned
        for: each takes the rows that are too long for those before it, so that there are good kernels whatever the
        first case is. Rungs for no rows that there can be are left out."""
        if isinstance(self.columns, int):
            return iter((self,))
        least, most = self.extremes
        wanted = sorted(rung for rung in rungs if rung >= least)
        needed = next((at for at, rung in enumerate(wanted, 1) if most is not None and rung >= most), len(wanted))
        return (replace(self, size=size) for size in sorted({self.size, *wanted[:needed]}))

    def climbed(self, rungs: Iterable[int], plan: Callable[[Self], Iterable[VariantSpec]]) -> tuple[VariantSpec, ...]:
        """What ``plan`` makes of each step of the :meth:`ladder`; of two for the same rows that of the first case."""
        found: dict[tuple[Formula, ...], VariantSpec] = {}
        for rows in self.ladder(rungs):
            for variant in plan(rows):
                if variant.guard not in found or rows.size == self.size:
                    found[variant.guard] = variant
        return tuple(found.values())

    def rung_name(self, name: str, first: int) -> str:
        """The name of a step: ``name`` alone for rows of the ``first`` case."""
        return name if self.size == first else f"{name}{self.size}"

    @property
    def extremes(self) -> tuple[int, int | None]:
        """The elements of the shortest row that is not empty and of the longest one, None where facts allow any."""
        facts = {fact.symbol: fact for fact in self.task.fusion.facts}
        own = [*symbols(self.columns)]
        least = hint(self.columns, {each: max(1, facts[each].min) if each in facts else 1 for each in own})
        most = [facts[each].max if each in facts else None for each in own]
        if any(each is None for each in most):
            return least, None
        return least, hint(self.columns, {each: size for each, size in zip(own, most, strict=True) if size is not None})


@dataclass(frozen=True, slots=True, kw_only=True)
class Way(RowTask, ABC):
    """One way to keep rows on chip, planned for a task."""

    TEMPLATE: ClassVar[str] = "inner_persistent"
    """The template of its kernels; the family has the view."""

    FOR_ODD_ROWS: ClassVar[bool] = False
    """Whether it is for rows whose length is no multiple of a vector's."""

    def applies(self, earlier: Collection[type[Way]]) -> bool:
        """Whether it is asked for variants where ``earlier`` ways have made some. Odd rows of a length that is known
        now are all taken by the first way that has some."""
        if not self.FOR_ODD_ROWS:
            return True
        is_taken = isinstance(self.columns, int) and any(way.FOR_ODD_ROWS for way in earlier)
        return self.is_odd and not is_taken

    @abstractmethod
    def variants(self) -> tuple[VariantSpec, ...]:
        """Its variants in order of preference; none where rows do not lie well so. Raises :class:`KnobError` for a
        choice that no kernel can be made with."""

    def but_for_few(self, variants: Sequence[VariantSpec]) -> tuple[VariantSpec, ...]:
        """Steps of a ladder, each of which ends its guard with the longest row that it holds, and leaves those that are
        more than half as long to the next one where rows are so few that all blocks of that run at a time, and those
        that are more than a quarter as long where rows are half as many. Steps whose blocks walk leave as few rows as
        run at a time to the next one whose blocks do not: there is no second row for what stays. The step for rows of
        a size that the recipe names takes all of those."""
        known = self.known_columns
        is_taken = known is not None and not (self.FOR_ODD_ROWS and known % self.vec == 0)
        holding = [each for each in variants if is_taken and longest(each) >= (known or 0)]
        steps = (
            (variant, rows_at_a_time(longer, self.target.multiprocessors)) for variant, longer in pairwise(variants)
        )
        left = [step[0] if step[0] in holding[:1] else self._but_for_few(*step) for step in steps]
        return self._walked_by_many((*left, *variants[-1:]))

    def _walked_by_many(self, variants: Sequence[VariantSpec]) -> tuple[VariantSpec, ...]:
        """The steps, of which those that walk take more rows than the one after all of them has at a time."""
        walked = [at for at, variant in enumerate(variants) if _walks(variant)]
        if not walked or walked[-1] + 1 == len(variants):
            return tuple(variants)
        after = variants[walked[-1] + 1]
        many: Formula = ("lt", rows_at_a_time(after, self.target.multiprocessors), self.rows)
        return tuple(
            replace(each, guard=(*each.guard[:-1], many, each.guard[-1])) if at in walked else each
            for at, each in enumerate(variants)
        )

    def _but_for_few(self, variant: VariantSpec, few: int) -> VariantSpec:
        times = total([1, ("le", self.rows, few), product([2, ("le", self.rows, few // 2)])])
        fits: Formula = ("le", product([times, self.columns]), longest(variant))
        return replace(variant, guard=(*variant.guard[:-1], fits))

    def rows_variant(
        self,
        way: str,
        guard: Iterable[Formula],
        heuristics: RowsHeuristics,
        choice: RowChoice,
        *,
        name: str = "",
        index: str = "int32_t",
        shared_bytes: Formula = 0,
        vectors: VectorLayout = VectorLayout.ALIGNED,
        when_known: RowsHeuristics | None = None,
        more: tuple[KernelParameter, ...] = (),
        template: str = "",
    ) -> VariantSpec:
        """The variant of one kernel that ``choice`` gives; ``name`` is that of the ``way`` if it has no other one.
        ``when_known`` are the heuristics of a kernel that knows a row's size, None where it gains nothing by that;
        ``more`` parameters come after those of every kernel; ``template`` is another one than that of the way."""
        kernel = self.kernel(
            template or self.TEMPLATE,
            heuristics,
            vec=self.vec,
            index=index,
            parameters=(*kernel_parameters(self.task, self.domain), *more),
            vectors=vectors,
            min_blocks=choice.min_blocks,
            sizes=KnownSizes(help=when_known is not None, heuristics=when_known),
        )
        grid, block = heuristics.grid(self.rows), (heuristics.threads.block, 1, 1)
        return self.variant(way, choice, guard, kernel, grid, block, name=name, shared_bytes=shared_bytes)


def longest(variant: VariantSpec) -> int:
    """The elements of the longest row of a step of a ladder, with which its guard ends."""
    fits = variant.guard[-1]
    assert isinstance(fits, tuple)
    return int(str(fits[2]))


def _walks(variant: VariantSpec) -> bool:
    heuristics = variant.launches[-1].kernel.heuristics
    return isinstance(heuristics, Walked) and heuristics.walkers > 0


def rows_at_a_time(variant: VariantSpec, multiprocessors: int) -> int:
    """The rows of a step of a ladder whose blocks all run at a time: no more of them on a multiprocessor than have
    their registers there."""
    launch = variant.launches[-1]
    (threads, _, _), heuristics = launch.block, launch.kernel.heuristics
    assert isinstance(threads, int)
    assert isinstance(heuristics, InCluster)
    blocks = min(launch.kernel.min_blocks, max(BLOCKS_AT_A_TIME, THREADS_AT_A_TIME // threads))
    few = blocks * multiprocessors // heuristics.cluster
    return min(few, heuristics.walkers) if isinstance(heuristics, Walked) and heuristics.walkers else few


def vectors_cross(task: Task, domain: AxisDomain) -> bool:
    """Whether a row has several axes, and vectors of it may cross from the end of the innermost one to its next
    beginning: what changes along that is flat, and nothing asks where on it an element is."""
    along = {fid for fid, access in domain.accesses.items() if domain.inner in access.axes}
    return len(domain.reduced) > 1 and along == {*domain.flat} and not counts(task)


def stages(rows: RowTask) -> bool:
    """Whether the shared memory of clusters has ``rows`` that vectors cross: something of them is kept, of which a
    vector is copied by words, and partial results are small enough to be exchanged."""
    are_words = all(rows.vec * rows.bytes_of([fid]) >= 4 for fid in rows.cached)
    fits = fits_exchange(rows.target.cluster * STAGED_THREADS // WARP, max(rows.partials))
    has_room = rows.target.cluster > 1 and rows.vec > 1 and bool(rows.cached)
    return rows.crosses and has_room and are_words and fits


def row_choice(threads: RowThreads) -> RowChoice:
    """``threads`` for each row, with the registers of as many blocks as hide each other's waits."""
    return RowChoice(threads_per_row=threads.per_row, rows_per_block=threads.rows, min_blocks=blocks_wanted(threads))


def chunks_of(size: int, vec: int, threads: RowThreads, *, most: int, tight: bool = False) -> int:
    """The vectors of a row of ``size`` that each of its threads has: ``most`` at most, and where they are not ``tight``
    a power of two, for rows that are somewhat longer."""
    chunks = -(-size // (threads.per_row * vec))
    return min(most, chunks if tight else next_power_of_two(chunks))
