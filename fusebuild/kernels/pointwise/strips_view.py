"""The view of pointwise kernels whose threads have vectors of one row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

from fusebuild.kernels.common.domain import Access
from fusebuild.kernels.common.spec import KernelSpec
from fusebuild.kernels.common.statements import Group
from fusebuild.kernels.common.view import KernelView, Lines, Sweep, make_view, with_nearest
from fusebuild.kernels.pointwise.narrow import NarrowBody
from fusebuild.kernels.pointwise.strips import cut_sources, cut_tensors
from fusebuild.kernels.pointwise.view import coordinate_lines


def pointwise_strips(spec: KernelSpec) -> KernelView:
    domain, inner = spec.domain, spec.domain.inner
    row, column = Group(name="row", axes=tuple(range(inner))), Group(name="i", axes=(inner,))
    body = NarrowBody(spec, [row, column])
    cuts = _Cuts.of(body, [row, column])
    outputs = body.task.outputs
    exprs, reads = body.closure(outputs), body.reads(outputs)
    flat = [fid for fid in reads if fid in domain.flat]
    single = [fid for fid in reads if inner not in domain.accesses[fid].axes]
    still, moving = body.split([expr for expr in exprs if expr.outputs[0] not in cuts.fids], [inner])
    nearest = [row, replace(column, name="at")]
    near = NarrowBody(spec, nearest)
    of_row = Sweep(
        loads=(
            *(body.scalar_load(fid, f"T{fid}[{body.offset(fid, [row])}]") for fid in single),
            *(body.statement(expr, body.within(row)) for expr in still),
        )
    )
    own = Sweep(
        loads=(
            *(f"const fb::Packed<{body.c_type(fid)}, kVec> p{fid} = "
              f"fb::load_packed_up_to<kVec>(T{fid} + (start + i), total - (start + i));" for fid in flat),
            *cuts.loads(),
        ),
        vector=(
            *(f"const fb::Vec<{body.c_type(fid)}, kVec> v{fid} = fb::unpack(p{fid});" for fid in flat),
            *cuts.vectors(),
            *(f"fb::Vec<{body.c_type(fid)}, kVec> v{fid};" for fid in outputs),
        ),
        element=with_nearest((
            *(f"const {body.c_type(fid)} t{fid} = v{fid}[k];" for fid in flat),
            *cuts.elements(near, nearest),
            *(near.statement(expr, near.within(*nearest)) for expr in moving),
            *(f"v{fid}[k] = {body.own_operand(fid)};" for fid in outputs),
        ), "i", "columns"),
        stores=tuple(line for fid in outputs for line in (
            f"if (has_one) joined.store(T{fid} + (start + i), v{fid});",
            f"else if (i < columns) fb::store_strip(T{fid} + (start + i), v{fid}, i, columns);",
        )),
    )  # fmt: skip
    return make_view(
        body, exprs,
        bases=coordinate_lines(body, [row], [*reads, *outputs], exprs),
        sweeps=(of_row, own),
        extents={
            "rows": body.size(row.axes), "columns": body.size([inner]), "total": body.size(domain.every),
        },
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cuts:
    """Vectors of rows that begin anywhere, each cut out of the aligned words around it."""

    body: NarrowBody
    groups: tuple[Group, ...]
    tensors: tuple[Access, ...]
    sources: tuple[Access, ...]

    @property
    def fids(self) -> tuple[int, ...]:
        return tuple(access.fid for access in (*self.tensors, *self.sources))

    @classmethod
    def of(cls, body: NarrowBody, groups: Sequence[Group]) -> Self:
        spec = body.spec
        tensors, sources = cut_tensors(spec.domain), cut_sources(spec.task, spec.domain, spec.vec)
        return cls(body=body, groups=tuple(groups), tensors=tensors, sources=sources)

    def loads(self) -> Lines:
        """Where each vector begins, and the words around it."""
        body = self.body
        tensors = (
            self._load(access, body.domain.has_no_gaps(access), body.offset(access.fid, self.groups), body.span(access))
            for access in self.tensors
        )
        sources = (
            self._load(
                access, body.domain.lies_as_the_domain(access), self._start(access), f"{access.pointer}_elements"
            )
            for access in self.sources
        )
        return tuple(line for lines in (*tensors, *sources) for line in lines)

    def _load(self, access: Access, is_near: bool, start: str, elements: str) -> Lines:
        """The lines for a vector from the place ``start`` on, of a tensor that has so many ``elements``."""
        index = "Index" if is_near else "int64_t"
        return (
            f"const {index} o{access.fid} = {start};",
            f"const fb::WordsAround<{self.body.c_type(access.fid)}, kVec> w{access.fid} = "
            f"fb::load_words_near<kVec>({access.pointer}, o{access.fid}, {index}({elements}));",
        )

    def vectors(self) -> Lines:
        return tuple(
            f"const fb::Vec<{self.body.c_type(fid)}, kVec> {name}{fid} = fb::unpack(fb::cut_around(w{fid}, o{fid}));"
            for name, accesses in (("v", self.tensors), ("x", self.sources))
            for fid in (access.fid for access in accesses)
        )

    def elements(self, near: NarrowBody, groups: Sequence[Group]) -> Lines:
        """Element ``k`` of each, at the coordinates of ``groups``, in which ``near`` writes statements."""
        coordinate = near.within(*groups)
        return (
            *(f"const {near.c_type(access.fid)} t{access.fid} = v{access.fid}[k];" for access in self.tensors),
            *(
                f"const {near.c_type(fid)} t{fid} = {near.bounded(fid, coordinate, f'x{fid}[k]', near.fill(fid))};"
                for fid in (access.fid for access in self.sources)
            ),
        )

    def _start(self, access: Access) -> str:
        """The place of the first element of a vector; one before the tensor where none of the vector is in bounds."""
        coordinate = self.body.within(*self.groups)
        last = replace(coordinate, of=lambda axis: self._last(coordinate(axis), axis))
        tests = self.body.within_bounds(access.fid, coordinate, last)
        start = " + ".join(self.body.distance(access.fid, coordinate)) or "0"
        return f"{tests} ? {start} : -2 * kVec" if tests else start

    def _last(self, coordinate: str, axis: int) -> str:
        """The coordinate on ``axis`` of the last element of a vector whose first one has ``coordinate``."""
        return f"{coordinate} + (kVec - 1)" if axis == self.body.domain.inner else coordinate
