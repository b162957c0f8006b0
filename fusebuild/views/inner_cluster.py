"""The view of inner_cluster, whose clusters of blocks walk several rows in turn, each a row at a time."""

from __future__ import annotations

from fusebuild.body import Group
from fusebuild.schedule.inner_persistent import ClusterHeuristics
from fusebuild.schedule.kernel import KernelSpec, reductions
from fusebuild.schedule.rows import levels
from fusebuild.views.inner import Kept, Loader, Rows, persistent_sweeps, row_results, row_setup, rows_of
from fusebuild.views.kernel_view import KernelView, Lifetime, Lines, Sweep, make_view
from fusebuild.views.lambdas import folded

PLACE = "(c * kThreadsPerRow + lane) * kVec"
"""Where a thread has its vector ``c`` among those of its block."""


def inner_cluster(spec: KernelSpec) -> KernelView:
    heuristics = spec.heuristics
    assert isinstance(heuristics, ClusterHeuristics)
    outputs = spec.task.outputs
    rows = rows_of(spec, folded(spec.task, reductions(spec.task)), outputs)
    body = rows.body
    setup, bases = row_setup(rows, outputs, levels(spec.task), (*heuristics.cached, *heuristics.resident))
    loader = ClusterLoader(rows, heuristics)
    kept = Kept(body, heuristics.kept)
    return make_view(
        spec, body, rows.exprs,
        setup=setup, bases=(*bases, *kept.arrays()),
        sweeps=persistent_sweeps(rows, loader, kept, "fb::reduce_row_in_cluster<kThreadsPerRow, kCluster>(phase, {})"),
        epilogue=Sweep(
            stores=row_results(rows, [fid for fid in outputs if not rows.has_columns(fid)]),
            arrays=loader.arrays(),
            loads=loader.of_row("first", "c"),
        ),
        lifetimes=(loader.residents(),),
        next_rows=Sweep(
            arrays=loader.in_registers("q", "{}"),
            loads=loader.of_row("next", "q"),
            accumulate=tuple(f"c{fid}[c] = q{fid}[c];" for fid in heuristics.cached),
        ),
        extents={"rows": body.size(rows.row.axes), "columns": body.size(rows.column.axes)},
    )  # fmt: skip


class ClusterLoader(Loader):
    """How a cluster's sweeps fetch vectors: what several of them read is in registers, loaded a row ahead; what all
    rows share is in shared memory, where each thread finds what it put there itself; the rest is in global memory."""

    def __init__(self, rows: Rows, heuristics: ClusterHeuristics) -> None:
        super().__init__(rows, heuristics)
        self._resident = heuristics.resident

    def arrays(self) -> Lines:
        return self.in_registers("c")

    def of_row(self, row: str, name: str) -> Lines:
        """The loads of one vector of each kept input, of the row whose number is the variable ``row``, into arrays that
        are called ``name`` and the input's fid."""
        body, column = self.rows_of.body, self.rows_of.column
        groups = [Group(name=row, axes=self.rows_of.row.axes, index="int64_t"), column]
        return tuple(
            f"{name}{fid}[c] = fb::load_packed<kVec>(T{fid} + {body.offset(fid, groups)});" for fid in self.cached
        )

    def residents(self) -> Lifetime:
        """Where the inputs that all rows share are kept, the widest first so that each is aligned, and how they get
        there."""
        body, arrays, end = self.rows_of.body, list[str](), ""
        for fid in sorted(self._resident, key=lambda fid: -body.value(fid).dtype.bytes):
            c_type = body.c_type(fid)
            start = f"reinterpret_cast<{c_type}*>({end})" if end else f"fb::dynamic_shared<{c_type}>()"
            arrays.append(f"{c_type}* w{fid} = {start};")
            end = f"w{fid} + kChunks * kThreadsPerRow * kVec"
        stores = tuple(
            f"fb::store_shared(w{fid} + {PLACE}, fb::load<kVec>(T{fid} + {body.offset(fid, [self.rows_of.column])}));"
            for fid in self._resident
        )
        return Lifetime(arrays=tuple(arrays), steady=Sweep(loads=stores))

    def lines(self, fid: int) -> Lines:
        declaration = f"const fb::Vec<{self.rows_of.body.c_type(fid)}, kVec> v{fid}"
        if fid in self.cached:
            return (f"{declaration} = fb::unpack(c{fid}[c]);",)
        if fid in self._resident:
            return (f"{declaration} = fb::load_shared<kVec>(w{fid} + {PLACE});",)
        return (f"{declaration} = {self.from_memory(fid)};",)
