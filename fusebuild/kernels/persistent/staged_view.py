"""The view of inner_staged, whose threads have vectors of rows in places of shared memory that are their own.

Of input 3 the places of a thread begin at ``h3``, ``kThreads`` apart, ``e3`` is its element beside vectors, and
``next3`` is the next row. :mod:`fusebuild.kernels.persistent.staged_rows` says more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from fusebuild.kernels.common.dynamic_shared import arrays_of, places_in_shared
from fusebuild.kernels.common.lambdas import combined, folded
from fusebuild.kernels.common.rows import by_level
from fusebuild.kernels.common.rows_view import Rows, rows_by_pieces
from fusebuild.kernels.common.spec import KernelSpec, reductions
from fusebuild.kernels.common.statements import Group
from fusebuild.kernels.common.view import KernelView, Lines, Sweep, accumulate, accumulators, join, make_view
from fusebuild.kernels.persistent.edges import Edge
from fusebuild.kernels.persistent.moments_view import in_one_sweep
from fusebuild.kernels.persistent.staged_rows import StagedHeuristics

REDUCE = "fb::reduce_row_in_cluster<kThreads, kCluster>(phase, {});"


def inner_staged(spec: KernelSpec) -> KernelView:
    heuristics, rows = spec.heuristics, rows_by_pieces(spec)
    assert isinstance(heuristics, StagedHeuristics)
    walk = _Walk(heuristics=heuristics, rows=rows, edge=Edge(spec, rows, heuristics.cached))
    body, levels = rows.body, by_level(spec.task, reductions(spec.task))
    parts = [walk.reducing(own, at) for at, own in levels.items()]
    if heuristics.moments is not None:
        parts = [in_one_sweep(rows, walk.edge, heuristics.moments, walk.sweep, REDUCE)]
    parts.append(walk.storing())
    setup, bases = rows.setup(spec.task.outputs, heuristics.cached)
    return make_view(
        body, rows.exprs,
        scalars=(*body.scalar_statements(rows.exprs), *rows.divisors),
        setup=setup, bases=bases, sweeps=tuple(sweep for sweep, _ in parts), edges=tuple(edge for _, edge in parts),
        next_rows=walk.next_row(),
        epilogue=Sweep(stores=rows.results(rows.narrow)),
        extents=rows.extents,
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class _Walk:
    """Sweeps over ``rows``, each with what an ``edge`` element takes beside them."""

    heuristics: StagedHeuristics
    rows: Rows
    edge: Edge

    def reducing(self, indices: Sequence[int], at: int) -> tuple[Sweep, Lines]:
        """The sweep of the reductions at ``indices``, which are those of level ``at``."""
        body = self.rows.body
        sums = accumulate(body, indices)
        epilogue = self.rows.epilogue(folded(body.task, indices), at)
        sweep = join(
            self.sweep(combined(body, indices)),
            replace(sums, results=(*sums.results, *epilogue)),
            Sweep(reduce=REDUCE.format(accumulators(body, indices))),
        )
        return sweep, self.edge.reducing(indices, combined(body, indices))

    def storing(self) -> tuple[Sweep, Lines]:
        """The sweep that stores what changes along the row."""
        wide = self.rows.wide
        return join(self.sweep(wide), self.rows.stores(wide)), self.edge.storing(wide)

    def sweep(self, targets: Sequence[int]) -> Sweep:
        return self.rows.sweep(targets, self.rows.of_rows, self._vector)

    def _vector(self, fid: int) -> Lines:
        is_staged = fid in self.heuristics.cached
        source = f"fb::unpack(h{fid}[c * kThreads])" if is_staged else self.rows.from_memory(fid)
        return (self.rows.vector(fid, source),)

    def next_row(self) -> Sweep:
        """What copies vectors of the next row and loads the element beside them."""
        body, fids = self.rows.body, self.heuristics.cached
        row = Group(name="next", axes=self.rows.row.axes, index="int64_t")
        bases = ((fid, body.base(fid, [row], self.rows.column.axes)) for fid in fids)
        arrays = arrays_of(body, fids, "h", "chunks * kThreads")
        return Sweep(
            arrays=(*places_in_shared(arrays, "lane"), *self.edge.declarations(fids)),
            row=(
                *body.coordinates(row, body.needs_coordinates(fids, row)),
                *(f"const {body.c_type(fid)}* next{fid} = T{fid} + {base};" for fid, base in bases),
            ),
            loads=tuple(f"fb::copy_async(&h{fid}[c * kThreads], next{fid} + later.start + c * kStep);" for fid in fids),
            element=tuple(f"e{fid} = next{fid}[later.edge];" for fid in fids),
        )
