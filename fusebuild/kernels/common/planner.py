"""What families of kernels plan with: a task on one target, and how its kernels and variants are made."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Self

from fusebuild.ir.formula import Formula, magnitude
from fusebuild.ir.fusion import Task
from fusebuild.kernels.common.choice import Choice, Tuned, decision
from fusebuild.kernels.common.domain import Access, AxisDomain
from fusebuild.kernels.common.spec import (
    KernelParameter,
    KernelSpec,
    KnownSizes,
    LaunchSpec,
    VariantSpec,
    VectorLayout,
    any_domain,
    fits_int32,
    hint,
    kernel_parameters,
)
from fusebuild.target.table import Target

Width = tuple[str, tuple[Formula, ...], int, str]
"""The name of a variant, its guard, its elements per access and the C type of its indices."""


FEW = 65536
"""Elements of a domain of known size that move in the time of a launch, whatever the accesses: two kernels would be one
too many."""

GAINS_FROM_SIZES = KnownSizes()
"""A kernel that is better where it knows the sizes that the recipe names, with the same heuristics."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Planner:
    """A task on one target, for which a family makes variants."""

    task: Task
    target: Target

    sizes: Mapping[str, int]
    """The sizes that symbols are assumed to have, ``MULTIPROCESSORS`` among them."""

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
        aligned = self.aligned((access.tensor for access in accesses), vec)
        return tuple(dict.fromkeys([*multiples, *aligned]))

    def aligned(self, fids: Iterable[int], vec: int) -> tuple[Formula, ...]:
        """Tensors ``fids`` begin where a vector may."""
        values = map(self.task.fusion.value, fids)
        return tuple(("aligned", value.memory, min(16, vec * value.dtype.bytes)) for value in values)

    def shifted_guard(self, vec: int, elements: Formula) -> tuple[Formula, ...]:
        """What holds where rows of any length are read by vectors that lie where memory is aligned: flat tensors begin
        where one may, nothing else has to be aligned, and there are few enough ``elements`` for 32-bit indices."""
        return (fits_int32(elements), *self.aligned(self.domain.flat, vec))

    def has_odd_rows(self, vec: int, extent: Formula) -> bool:
        """Whether there are flat tensors to access by vectors of ``vec``, more than ``FEW`` elements or a number not
        known now, and ``extent`` need be no multiple of ``vec``. Index ops read where a row's own elements say, not
        those beside it."""
        domain, total = self.domain, self.domain.points(self.domain.every)
        if vec == 1 or not domain.flat or domain.sources or (isinstance(total, int) and total <= FEW):
            return False
        if isinstance(extent, int):
            return extent % vec != 0
        factors = extent[1:] if isinstance(extent, tuple) and extent[0] == "mul" else (extent,)
        known = {fact.symbol: fact.multiple_of for fact in self.task.fusion.facts}
        return all((factor if isinstance(factor, int) else known.get(str(factor), 1)) % vec for factor in factors)

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
