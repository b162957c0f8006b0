"""Coordinates and offsets of kernels that take an index apart at every element: all in 32 bits, without a division.

A GPU divides in some twenty instructions, as many as all else that an element takes. Kernels are given the
**reciprocal** of each extent, with which a quotient and what is left are two multiplications.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from fusebuild.ir.formula import Formula, product, simplified
from fusebuild.ir.fusion import Task
from fusebuild.ir.values import Expr
from fusebuild.kernels.common.domain import Access, AxisDomain
from fusebuild.kernels.common.planner import Planner
from fusebuild.kernels.common.spec import KernelParameter, KernelSpec, call_parameter, fits_int32, formula_parameter
from fusebuild.kernels.common.statements import Body, Group, in_brackets

RECIPROCAL_OF_ONE = 2**32 - 1
"""What reciprocals are parts of (``divide.cuh``)."""
RECIPROCAL = "n{}_reciprocal"
"""How kernels call the reciprocal of an axis's extent."""


def tensors_read(planner: Planner) -> int:
    """How many loads an element takes."""
    return len(planner.domain.accesses) - len(planner.task.outputs) + len(planner.domain.sources)


def finds_rows(domain: AxisDomain) -> bool:
    """Whether an index says which rows are read, so that a load waits for another one."""
    return any(access.position is not None for access in domain.vector_sources)


def reciprocal_parameters(domain: AxisDomain) -> tuple[KernelParameter, ...]:
    """The reciprocal of each extent that is not a constant, rounded down."""
    return tuple(
        formula_parameter(RECIPROCAL.format(axis), reciprocal_of(merged.extent), f"reciprocal of n{axis}")
        for axis, merged in enumerate(domain.axes)
        if not isinstance(merged.extent, int)
    )


def reciprocal_of(extent: Formula) -> Formula:
    """What the kernel is given to divide by ``extent``."""
    return ("floor_div", RECIPROCAL_OF_ONE, ("max", extent, 1))


def counted_parameters(name: str, count: Formula) -> tuple[KernelParameter, ...]:
    """How many of something there are that kernels divide by, and the reciprocal."""
    return (
        call_parameter(name, count, "beside each other"),
        call_parameter(f"{name}_reciprocal", simplified(reciprocal_of(count)), f"reciprocal of {name}"),
    )


def narrow_guard(task: Task, domain: AxisDomain) -> tuple[Formula, ...]:
    """What holds where 32 bits are enough: for the domain, for what is read beside its own place, and for the number of
    what an index names."""
    sources = domain.sources.values()
    beside = [access.tensor for access in sources if domain.lies_as_the_domain(access)]
    sizes = [product([*task.fusion.value(fid).tensor.shape]) for fid in beside]
    named = [access.position.size for access in sources if access.position is not None]
    return tuple(fits_int32(size) for size in dict.fromkeys([domain.points(domain.every), *sizes, *named]))


class NarrowBody(Body):
    """Statements of a kernel whose ``groups`` are all axes in order, of so few points that 32 bits do for them."""

    def __init__(self, spec: KernelSpec, groups: Sequence[Group]) -> None:
        super().__init__(spec)
        self.extents = tuple(name if name.isdigit() else f"Index({name})" for name in self.extents)
        self.place = ""
        for group in groups:
            outer = f"{in_brackets(self.place)} * {self.size(group.axes)} + " if self.place else ""
            self.place = outer + group.name

    def coordinate_axes(self, exprs: Iterable[Expr]) -> set[int]:
        """As in :class:`Body`, but for what lies as the domain does: that is read at the place itself."""
        found = set[int]()
        for expr in exprs:
            access = self.domain.sources.get(expr.outputs[0])
            if access is None or not self.domain.lies_as_the_domain(access):
                found |= super().coordinate_axes([expr])
            else:
                found |= {axis for axis, _, _ in access.bounds}
        return found

    def offset(self, fid: int, groups: Sequence[Group]) -> str:
        """As in :class:`Body`, but summed up before it is added to an address."""
        return in_brackets(super().offset(fid, groups))

    def span(self, access: Access) -> str:
        """How many elements memory has from the first one of a tensor to its last."""
        terms = (self._term(access, axis, f"({self.extents[axis]} - 1)") for axis in access.axes)
        return " + ".join([*terms, "1"])

    def _divided(self, index: str, axis: int, group: Group) -> tuple[str, str]:
        extent = self.extents[axis]
        if extent.isdigit():
            return super()._divided(index, axis, group)
        both = f"fb::divided({index}, {extent}, {RECIPROCAL.format(axis)})"
        return f"{both}.quotient", f"{both}.remainder"

    def _bound(self, name: str, access: Access) -> str:
        return f"Index({name})" if self.domain.lies_as_the_domain(access) else f"fb::nearest_index({name})"

    def _horner(self, group: Group, axes: Sequence[int]) -> str:
        """As in :class:`Body`; the outermost axes together are what is left when those within have been taken off."""
        is_outer = 1 < len(axes) < len(group.axes) and tuple(axes) == group.axes[: len(axes)]
        return f"{group.name}_over_{len(axes)}" if is_outer else super()._horner(group, axes)

    def distance(self, fid: int, coordinate: Callable[[int], str]) -> tuple[str, ...]:
        """As in :class:`Body`; what lies as the domain does is read so many elements beside the place itself."""
        access = self.domain.sources[fid]
        if not self.domain.lies_as_the_domain(access):
            return super().distance(fid, coordinate)
        return (f"({self.beside(fid, coordinate)} + {in_brackets(self.place)})",)

    def goes_on(self, fid: int) -> int | None:
        """As in :class:`Body`: two that lie as the domain does, where anything will do outside of their bounds. They
        are of one load, which is as far beside the place as the one is whose bounds it is within."""
        sources = self.domain.sources
        return next((other for other in sources if _reads_on(self.domain, sources[fid], sources[other])), None)

    @staticmethod
    def _inside(index: str, size: str) -> str:
        return f"fb::near_inside({index}, Index({size}))"

    def beside(self, fid: int, coordinate: Callable[[int], str]) -> str:
        """How many elements beside the place itself lies what is read as the domain lies."""
        own, later = _offset(self.domain.sources[fid]), self.goes_on(fid)
        if later is None:
            return own
        is_own = self.within_bounds(fid, coordinate, coordinate)
        return f"({is_own} ? {own} : {_offset(self.domain.sources[later])})"

    def _term(self, access: Access, axis: int, coordinate: str) -> str:
        is_near = isinstance(access.strides[axis], str | tuple) and self.domain.has_no_gaps(access)
        if not is_near or self.domain.is_contiguous(access):
            return super()._term(access, axis, coordinate)
        return f"{coordinate} * Index({access.pointer}_stride{axis})"


def _offset(access: Access) -> str:
    return f"Index({access.pointer}_offset)" if isinstance(access.offset, str | tuple) else str(access.offset)


def _reads_on(domain: AxisDomain, earlier: Access, later: Access) -> bool:
    """Whether both read a tensor as the domain lies, between them all points of the innermost axis, the ``later`` from
    where the other ends."""
    if len(earlier.bounds) != 1 or len(later.bounds) != 1 or (earlier.fill, later.fill) != (None, None):
        return False
    (axis, first, middle), (other, begin, end) = *earlier.bounds, *later.bounds
    is_whole = (axis, other, first, middle, end) == (domain.inner, axis, 0, begin, domain.axes[axis].extent)
    return is_whole and earlier.tensor == later.tensor and all(map(domain.lies_as_the_domain, (earlier, later)))
