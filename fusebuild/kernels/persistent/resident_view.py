"""The view of rows in blocks that stay, where what all rows share stays with them.

:mod:`fusebuild.kernels.persistent.long_rows` says why. A thread owns the same columns in every row, so what stays of
them is its own: no barrier is needed before it reads from shared memory what it has put there itself.

Where rows have any length, a thread's vectors begin at the first column that lies aligned, and hold whole rows but for
a few elements before the first vector and after the last one. Each of these is a thread's own, too.

Where blocks do not stay, what rows share is loaded **ahead** of the last sweep, which is the only one that takes it: a
thread's first vector and its element with the row, each further vector while the one before it is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, replace

from fusebuild.kernels.common.dynamic_shared import arrays_of, places_in_shared
from fusebuild.kernels.common.lambdas import combined, folded
from fusebuild.kernels.common.rows import by_level
from fusebuild.kernels.common.rows_view import Rows, reduction_in_cluster, rows_by_pieces
from fusebuild.kernels.common.spec import KernelSpec, reductions
from fusebuild.kernels.common.statements import Group
from fusebuild.kernels.common.sweeps import last_sweep
from fusebuild.kernels.common.view import KernelView, Lifetime, Lines, Sweep, accumulate, accumulators, join, make_view
from fusebuild.kernels.persistent.edges import Edge
from fusebuild.kernels.persistent.long_rows import ResidentHeuristics, shared_by_some
from fusebuild.kernels.persistent.view import LOOKED_UP

VECTOR = "start + c * kStep"
"""The column of a thread's vector: what is the thread's own, and what is a number once loops are unrolled."""

NEXT_AHEAD = "load_ahead(c + 1);"
"""What the last sweep does before it takes vector ``c``, where some inputs are loaded ahead of it."""


def inner_resident(spec: KernelSpec) -> KernelView:
    heuristics = spec.heuristics
    assert isinstance(heuristics, ResidentHeuristics)
    rows, ahead = rows_by_pieces(spec), _ahead(spec, heuristics)
    edge = Edge(spec, rows, (*heuristics.cached, *heuristics.resident, *ahead))
    walk = Walk(heuristics=heuristics, rows=rows, edge=edge, staying=heuristics.resident, ahead=ahead)
    return walk.view(spec, {*walk.there}, (walk.stays(),))


def _ahead(spec: KernelSpec, heuristics: ResidentHeuristics) -> tuple[int, ...]:
    """Inputs that rows with edges share, all of them or some, where their blocks do not stay, and that the last sweep
    takes."""
    if heuristics.walkers or not heuristics.has_edges:
        return ()
    read = last_sweep(spec.task, spec.domain, heuristics.cached, ()).inputs
    return tuple(fid for fid in read if fid not in spec.domain.flat)


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """One kernel's walk over ``rows``; ``edge`` is what it does for an element beside vectors. Inputs ``staying`` are
    in shared memory."""

    heuristics: ResidentHeuristics
    rows: Rows
    edge: Edge
    staying: tuple[int, ...]
    places: str = "kThreadsPerRow"
    """Those of a vector of each thread in shared memory."""

    ahead: tuple[int, ...] = ()
    """Inputs that are loaded ahead of the last sweep."""

    def view(self, spec: KernelSpec, fetched: Set[int], lifetimes: tuple[Lifetime, ...]) -> KernelView:
        """The view of the kernel, whose rows have no base of ``fetched`` inputs."""
        rows, body = self.rows, self.rows.body
        by_levels = by_level(spec.task, reductions(spec.task))
        last = max(by_levels)
        parts = [
            self.reducing(own, rows.epilogue(folded(spec.task, own), at), self.tickets if at == last else ())
            for at, own in by_levels.items()
        ]
        parts.append(self.storing(rows.wide))
        setup, bases = rows.setup(spec.task.outputs, fetched - rows.inputs_looked_up())
        return make_view(
            body, rows.exprs,
            setup=setup, bases=bases, sweeps=self.waiting([sweep for sweep, _ in parts]),
            edges=tuple(edge for _, edge in parts),
            scalars=(*body.scalar_statements(rows.exprs), *rows.divisors),
            lifetimes=lifetimes, next_rows=self.next_row(),
            epilogue=Sweep(
                stores=rows.results(rows.narrow),
                arrays=self.arrays("c", "e{}") if self.heuristics.ahead else (),
            ),
            extents=rows.extents,
            ahead=self.loads_ahead(),
        )  # fmt: skip

    def waiting(self, sweeps: Sequence[Sweep]) -> tuple[Sweep, ...]:
        """The ``sweeps`` of a row, which wait for nothing here: what stays has come before the first row."""
        return tuple(sweeps)

    @property
    def there(self) -> tuple[int, ...]:
        """Inputs that are there when a row begins."""
        return (*self.heuristics.cached, *self.heuristics.resident)

    @property
    def tickets(self) -> tuple[str, ...]:
        """What the last reduction of a row finds for the cluster beside its results: the largest of what its threads
        have drawn, which is the ticket of the one that did."""
        return ("fb::accumulator<fb::Max>(ticket)",) if self.heuristics.walkers else ()

    def reducing(self, indices: Sequence[int], results: Lines, beside: Sequence[str]) -> tuple[Sweep, Lines]:
        """The sweep of the reductions at ``indices``, which the row's ``results`` follow from; accumulators ``beside``
        theirs are combined with them."""
        rows, body = self.rows, self.rows.body
        gathered = rows.batches(indices, is_full=True)
        arguments = ", ".join((accumulators(body, indices), *beside))
        call = f"fb::reduce_row<kThreadsPerRow, 1>(phase, {arguments});"
        if self.heuristics.cluster > 1:
            call = reduction_in_cluster(arguments)
        parts = Sweep(
            accumulators=accumulate(body, gathered.plain).accumulators,
            results=(*accumulate(body, indices).results, *results),
            row=(LOOKED_UP,) if rows.looked_up_by(gathered) & self.overwritten else (),
            reduce=call,
        )
        only = rows.only_elements(gathered, "thread == 0")
        sweep = join(self._sweep(gathered.targets()), parts, rows.updates(gathered), only)
        walked = [index for index in indices if index not in gathered.only]
        return sweep, self.edge.reducing(walked, combined(body, walked))

    @property
    def overwritten(self) -> frozenset[int]:
        """Inputs that outputs overwrite."""
        outputs = self.rows.body.task.fusion.outputs
        return frozenset(output.alias for output in outputs if output.alias is not None)

    def storing(self, outputs: Sequence[int]) -> tuple[Sweep, Lines]:
        """The sweep that stores ``outputs``, which change along the row."""
        vectors = [fid for fid in outputs if self.rows.body.is_vector(fid)]
        stores = self.rows.stores_of(outputs, {fid: f"fb::store(r{fid} + {VECTOR}, o{fid});" for fid in vectors})
        sweep = join(self._sweep(outputs, self._vector_ahead), stores)
        if self.ahead:
            sweep = replace(sweep, loads=(NEXT_AHEAD, *sweep.loads))
        return sweep, self.edge.storing(outputs)

    def loads_ahead(self) -> Sweep:
        """Loads of what is loaded ahead of the last sweep: a vector of each at a time, and the element beside them."""
        body = self.rows.body
        return Sweep(
            arrays=tuple(f"fb::Packed<{body.c_type(fid)}, kVec> p{fid}[kChunks];" for fid in self.ahead),
            loads=tuple(f"p{fid}[c] = fb::pack({self._cut(fid, f'r{fid} + col')});" for fid in self.ahead),
            accumulators=self.edge.declarations(self.ahead),
            element=tuple(f"e{fid} = r{fid}[edge];" for fid in self.ahead),
        )

    def _sweep(self, targets: Sequence[int], loads: Callable[[int], Lines] | None = None) -> Sweep:
        """One sweep over a thread's vectors that computes ``targets``."""
        return self.rows.sweep(targets, self.rows.of_rows, loads or self._vector)

    def _cut(self, fid: int, address: str) -> str:
        """The call that cuts a vector at ``address`` out of input ``fid``, which rows share."""
        begins_anywhere = fid in shared_by_some(self.rows.body.task, self.rows.body.domain)
        return (
            f"fb::load_cut_anywhere<kVec>({address})"
            if begins_anywhere
            else f"fb::load_cut<kVec>({address}, edges.before)"
        )

    def _vector_ahead(self, fid: int) -> Lines:
        return (self.rows.vector(fid, f"fb::unpack(p{fid}[c])"),) if fid in self.ahead else self._vector(fid)

    def _vector(self, fid: int) -> Lines:
        source = f"fb::load<kVec>(r{fid} + {VECTOR})"
        if self.heuristics.has_edges and fid not in self.rows.body.domain.flat:
            source = self._cut(fid, f"r{fid} + {VECTOR}")
        if fid in self.heuristics.cached:
            source = f"fb::unpack(c{fid}[c])"
        elif fid in self.staying:
            source = f"fb::unpack(h{fid}[c * {self.places}])"
        return (self.rows.vector(fid, source),)

    def stays(self) -> Lifetime:
        """What stays with a block as long as it lives."""
        fids = self.heuristics.resident
        load = f"fb::copy_async(&h{{0}}[c * {self.places}], T{{0}} + col);"
        if self.heuristics.has_edges:
            load = f"h{{0}}[c * {self.places}] = fb::pack(fb::load_cut<kVec>(T{{0}} + col, edges.before));"
        return Lifetime(
            arrays=self.shared(),
            steady=Sweep(
                loads=tuple(load.format(fid) for fid in fids),
                element=tuple(f"e{fid} = T{fid}[edge];" for fid in fids),
            ),
        )

    def shared(self) -> Lines:
        """Declarations of where inputs stay, and of their elements beside vectors."""
        arrays = arrays_of(self.rows.body, self.staying, "h", f"kChunks * {self.places}")
        places = places_in_shared(arrays, "lane" if self.heuristics.cluster > 1 else "thread")
        return (*places, *(self.edge.declarations(self.staying) if self.heuristics.has_edges else ()))

    def arrays(self, vectors: str, elements: str) -> Lines:
        """Declarations of what a thread has of a row: ``vectors`` and, beside them, ``elements``."""
        body, cached = self.rows.body, self.heuristics.cached
        declared = tuple(f"fb::Packed<{body.c_type(fid)}, kVec> {vectors}{fid}[kChunks];" for fid in cached)
        return (*declared, *(self.edge.declarations(cached, elements) if self.heuristics.has_edges else ()))

    def next_row(self) -> Sweep:
        """What loads the next row, or the only one, and makes it the row at hand where it was loaded ahead of that."""
        body, ahead, fids = self.rows.body, self.heuristics.ahead, self.heuristics.cached
        vectors, elements = ("q", "f") if ahead else ("c", "e")
        name = "next" if self.heuristics.walkers else "row"
        row = Group(name=name, axes=self.rows.row.axes, index="int64_t")
        bases = [(fid, body.base(fid, [row], self.rows.column.axes)) for fid in fids]
        return Sweep(
            arrays=self.arrays(vectors, f"{elements}{{}}"),
            row=(
                *body.coordinates(row, body.needs_coordinates(fids, row)),
                *(f"const {body.c_type(fid)}* {name}{fid} = T{fid} + {base};" for fid, base in bases),
            ),
            loads=tuple(f"{vectors}{fid}[c] = fb::load_packed<kVec>({name}{fid} + {VECTOR});" for fid in fids),
            element=tuple(f"{elements}{fid} = {name}{fid}[edge];" for fid in fids),
            accumulate=tuple(f"c{fid}[c] = q{fid}[c];" for fid in fids) if ahead else (),
            merged=tuple(f"e{fid} = f{fid};" for fid in fids) if ahead and self.heuristics.has_edges else (),
        )
