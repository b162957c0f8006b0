"""What a way to keep rows on chip is asked, and what each of them knows of the task."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import ClassVar, Protocol, Self

from fusebuild.ir.formula import Formula
from fusebuild.ir.fusion import Task
from fusebuild.kernels.common.choice import Tuned, decision
from fusebuild.kernels.common.domain import AxisDomain
from fusebuild.kernels.common.rows import (
    RowChoice,
    RowThreads,
    blocks_wanted,
    kept_axes,
    next_power_of_two,
    reduced_axes,
)
from fusebuild.kernels.common.shifted import has_odd_rows, shifted_guards
from fusebuild.kernels.common.spec import (
    KernelSpec,
    KnownSizes,
    LaunchSpec,
    VariantSpec,
    VectorLayout,
    axis_product,
    fits_int32,
    hint,
    kernel_parameters,
    vector_guards,
)
from fusebuild.target.table import Target


class RowsHeuristics(Protocol):
    """How threads lie over rows."""

    @property
    def threads(self) -> RowThreads: ...

    def grid(self, rows: Formula) -> Formula:
        """Blocks for ``rows`` rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowTask:
    """A task whose rows may stay on chip, on one target."""

    task: Task
    target: Target
    domain: AxisDomain

    columns: Formula
    """Elements of a row."""

    size: int
    """Elements that a row is assumed to have."""

    sizes: Mapping[str, int]
    """The sizes that symbols are assumed to have."""

    vec: int
    """Elements of a vector, which is one access to global memory."""

    cached: tuple[int, ...]
    """Inputs that several sweeps over a row read: :func:`fusebuild.kernels.common.sweeps.cached_inputs`."""

    kept: tuple[int, ...]
    """Costly values that several sweeps need: :func:`fusebuild.kernels.common.sweeps.kept_values`."""

    tuned: Tuned
    """Choices to take instead of a way's own."""

    @property
    def rows(self) -> Formula:
        return axis_product(self.domain, kept_axes(self.domain))

    @property
    def inner(self) -> int:
        """The innermost axis, along which vectors lie."""
        return len(self.domain.axes) - 1

    @property
    def is_odd(self) -> bool:
        """Whether the length of a row need be no multiple of a vector's."""
        return len(reduced_axes(self.domain)) == 1 and has_odd_rows(self.task, self.domain, self.vec, self.columns)

    @property
    def vector_guard(self) -> tuple[Formula, ...]:
        """What holds where rows are whole vectors that lie where memory is aligned."""
        return (fits_int32(self.columns), *vector_guards(self.task, self.domain, self.inner, self.vec))

    @property
    def odd_guard(self) -> tuple[Formula, ...]:
        """What holds where rows of any length are read by aligned vectors."""
        return (fits_int32(self.columns), *shifted_guards(self.task, self.domain, self.vec))

    def bytes_of(self, fids: Sequence[int]) -> int:
        """The bytes of one element of each of ``fids``."""
        return sum(self.task.fusion.value(fid).dtype.bytes for fid in fids)

    def vector_bytes(self, fids: Sequence[int]) -> int:
        """Bytes of the registers that a vector of each of ``fids`` takes: whole registers."""
        return sum(max(4, self.vec * self.bytes_of([fid])) for fid in fids)

    def long_row(self, beyond: int) -> int | None:
        """The elements of a row longer than ``beyond`` that the recipe tells of: in its first case, else the longest
        that its facts allow; None where there is none. (Sizes that facts name have variants of their own.)"""
        most = {fact.symbol: fact.max for fact in self.task.fusion.facts if fact.max}
        found = (hint(self.columns, self.sizes), hint(self.columns, {**self.sizes, **most}))
        return next((size for size in found if size > beyond), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Way(RowTask, ABC):
    """One way to keep rows on chip, planned for a task."""

    TEMPLATE: ClassVar[str] = "inner_persistent"
    """The template of its kernels; the family has the view."""

    FOR_ODD_ROWS: ClassVar[bool] = False
    """Whether it is for rows whose length is no multiple of a vector's."""

    @classmethod
    def of(cls, rows: RowTask) -> Self:
        """This way, planned for ``rows``."""
        return cls(**{field.name: getattr(rows, field.name) for field in fields(RowTask)})

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

    def variant(
        self,
        way: str,
        guard: Sequence[Formula],
        heuristics: RowsHeuristics,
        choice: RowChoice,
        *,
        name: str = "",
        index: str = "int32_t",
        shared_bytes: Formula = 0,
        vectors: VectorLayout = VectorLayout.ALIGNED,
        when_known: RowsHeuristics | None = None,
    ) -> VariantSpec:
        """The variant of one kernel that ``choice`` gives; ``name`` is that of the ``way`` if it has no other one.
        ``when_known`` are the heuristics of a kernel that knows a row's size, None where it gains nothing by that."""
        kernel = KernelSpec(
            template=self.TEMPLATE,
            task=self.task,
            domain=self.domain,
            parameters=kernel_parameters(self.task, self.domain),
            index=index,
            vec=self.vec,
            heuristics=heuristics,
            vectors=vectors,
            min_blocks=choice.min_blocks,
            sizes=KnownSizes(help=when_known is not None, heuristics=when_known),
        )
        launch = LaunchSpec(
            kernel=kernel,
            grid=(heuristics.grid(self.rows), 1, 1),
            block=(heuristics.threads.block, 1, 1),
            shared_bytes=shared_bytes,
        )
        decided = decision(way, choice, self.tuned)
        return VariantSpec(name=name or way, guard=tuple(guard), launches=(launch,), decision=decided)


def row_choice(threads: RowThreads) -> RowChoice:
    """``threads`` for each row, with the registers of as many blocks as hide each other's waits."""
    return RowChoice(threads_per_row=threads.per_row, rows_per_block=threads.rows, min_blocks=blocks_wanted(threads))


def chunks_of(size: int, vec: int, threads: RowThreads, *, most: int, tight: bool = False) -> int:
    """The vectors of a row of ``size`` that each of its threads has: ``most`` at most, and where they are not ``tight``
    a power of two, for rows that are somewhat longer."""
    chunks = -(-size // (threads.per_row * vec))
    return min(most, chunks if tight else next_power_of_two(chunks))
