"""What families of kernels have in common: how one says which tasks it takes, and how it makes their variants."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Self

from fusebuild.ir.formula import Formula, magnitude
from fusebuild.ir.fusion import Task
from fusebuild.kernels.common.choice import NOT_TUNED, Choice, Tuned, decision
from fusebuild.kernels.common.domain import Access, AxisDomain
from fusebuild.kernels.common.spec import (
    KernelParameter,
    KernelSpec,
    KnownSizes,
    LaunchSpec,
    Rejection,
    VariantSpec,
    VectorLayout,
    any_domain,
    fits_int32,
    hint,
    kernel_parameters,
    usable,
)
from fusebuild.kernels.common.unfit import UnfitError
from fusebuild.target.table import Target

Width = tuple[str, tuple[Formula, ...], int, str]
"""The name of a variant, its guard, its elements per access and the C type of its indices."""


GAINS_FROM_SIZES = KnownSizes()
"""A kernel that is better where it knows the sizes that the recipe names, with the same heuristics."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Planner:
    """A task on one target, for which a family makes variants."""

    task: Task
    target: Target

    sizes: Mapping[str, int]
    """The sizes that symbols are assumed to have."""

    tuned: Tuned
    """Choices to take instead of the family's own."""

    @classmethod
    def of(cls, planner: Planner, **more: object) -> Self:
        """``planner`` as one of this class: the fields that both have, and ``more``."""
        common = {each.name for each in fields(cls)} & {each.name for each in fields(planner)}
        return cls(**{name: getattr(planner, name) for name in common}, **more)  # type: ignore[arg-type]

    @property
    def domain(self) -> AxisDomain:
        """The iteration domain of the task, which has one."""
        return any_domain(self.task)

    def bytes_of(self, fids: Iterable[int]) -> int:
        """The bytes of one element of each of ``fids``."""
        return sum(self.task.fusion.value(fid).dtype.bytes for fid in fids)

    def expected(self, axes: Iterable[int]) -> int:
        """The number of points that ``axes`` are assumed to have."""
        return hint(self.domain.points(axes), self.sizes)

    def vector_width(self, axis: int) -> int:
        """Elements per access along ``axis`` so that the narrowest tensor moves 16 bytes, at most 8; 1 where nothing is
        dense."""
        sizes = [self.bytes_of([fid]) for fid in self.domain.dense_along(axis)]
        return min(8, 16 // min(sizes)) if sizes else 1

    def vector_guards(
        self, axis: int, vec: int, one_by_one: Collection[int] = (), also: Sequence[Access] = ()
    ) -> tuple[Formula, ...]:
        """The extent of ``axis`` is a multiple of ``vec`` and every vector access is aligned, ``also`` those to
        sources; tensors ``one_by_one`` are accessed so."""
        if vec == 1:
            return ()
        domain = self.domain
        accesses = [*(domain.accesses[fid] for fid in domain.dense_along(axis) if fid not in one_by_one), *also]
        distances = [distance for access in accesses for distance in domain.unit_stride(access, axis) or ()]
        sizes = [domain.axes[axis].extent, *map(magnitude, distances)]
        multiples: list[Formula] = [("eq", ("mod", each, vec), 0) for each in sizes]
        aligned: list[Formula] = [
            ("aligned", access.tensor, min(16, vec * self.bytes_of([access.fid]))) for access in accesses
        ]
        return tuple(dict.fromkeys([*multiples, *aligned]))

    def widths(self, vec: int, guard: Iterable[Formula]) -> list[Width]:
        """The ways to access the whole of the domain, the fastest first, for families that have no other choice to
        make; vectors of ``vec`` elements need ``guard``."""
        small = fits_int32(self.domain.points(self.domain.every))
        wide: list[Width] = [(f"vec{vec}_int32", (small, *guard), vec, "int32_t")] if vec > 1 else []
        return [*wide, ("scalar_int32", (small,), 1, "int32_t"), ("scalar_int64", (), 1, "int64_t")]

    def kernel(
        self,
        template: str,
        heuristics: object,
        *,
        vec: int,
        index: str = "int32_t",
        parameters: tuple[KernelParameter, ...] | None = None,
        vectors: VectorLayout = VectorLayout.ALIGNED,
        min_blocks: int = 2,
        sizes: KnownSizes = GAINS_FROM_SIZES,
    ) -> KernelSpec:
        """A kernel of the task; its ``parameters`` are all that it may read or write if none are given."""
        return KernelSpec(
            template=template,
            task=self.task,
            domain=self.domain,
            parameters=kernel_parameters(self.task, self.domain) if parameters is None else parameters,
            index=index,
            vec=vec,
            heuristics=heuristics,
            vectors=vectors,
            min_blocks=min_blocks,
            sizes=sizes,
        )

    def variant(
        self,
        way: str,
        choice: Choice,
        guard: Iterable[Formula],
        kernel: KernelSpec,
        grid: Formula,
        block: tuple[int, int, int],
        *,
        name: str = "",
        shared_bytes: Formula = 0,
    ) -> VariantSpec:
        """The variant of one ``kernel`` that ``choice`` gives; ``name`` is that of the ``way`` if it has no other one.
        ``grid`` counts blocks along x."""
        launch = LaunchSpec(kernel=kernel, grid=(grid, 1, 1), block=block, shared_bytes=shared_bytes)
        decided = decision(way, choice, self.tuned)
        return VariantSpec(name=name or way, guard=tuple(guard), launches=(launch,), decision=decided)


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelScheduler(ABC):
    """The base of every :class:`fusebuild.kernels.common.spec.Scheduler` of a family."""

    name: str

    @abstractmethod
    def check(self, task: Task) -> None:
        """Raises :class:`UnfitError` for a task that the family does not take."""

    @abstractmethod
    def variants(self, planner: Planner) -> Sequence[VariantSpec]:
        """Variants of a task that the family takes, in order of preference, the last one unguarded. Raises
        :class:`KnobError` for a tuned choice that no kernel can be made with."""

    def accepts(self, task: Task, target: Target) -> Rejection | None:
        try:
            self.check(task)
        except UnfitError as unfit:
            return Rejection.of(self.name, task, unfit)
        return None

    def schedule(
        self, task: Task, target: Target, sizes: Mapping[str, int], tuned: Tuned = NOT_TUNED
    ) -> tuple[VariantSpec, ...]:
        return usable(self.variants(Planner(task=task, target=target, sizes=sizes, tuned=tuned)))
