"""The view of rows in blocks that stay, where what all rows share stays with them.

:mod:`fusebuild.kernels.persistent.long_rows` says why. A thread owns the same columns in every row, so what stays of
them is its own: no barrier is needed before it reads from shared memory what it has put there itself.

Where rows have any length, a thread's vectors begin at the first column that lies aligned, and hold whole rows but for
a few elements before the first vector and after the last one. Each of these is a thread's own, too.

Where blocks do not stay, what rows share is loaded **ahead** of the last sweep, which is the only one that takes it: a
thread's first vectors and its element, with the row. Few or short rows have no more; others have so many threads that
some may wait for further ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass

from fusebuild.kernels.common.dynamic_shared import arrays_of, places_in_shared
from fusebuild.kernels.common.lambdas import combined, folded
from fusebuild.kernels.common.rows import WARP, by_level
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

AHEAD_BYTES, BESIDE_BYTES = 32, 128
"""Bytes of a vector of each input, and of a thread's row, with which it has several of those vectors at once."""

AHEAD_OF_WARP, AHEAD_ALONE = 2, 4
"""Vectors of each that it has then."""


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
        parts = Sweep(
            accumulators=accumulate(body, gathered.plain).accumulators,
            results=(*accumulate(body, indices).results, *results),
            row=(LOOKED_UP,) if rows.looked_up_by(gathered) & self.overwritten else (),
            reduce=self.reduction(", ".join((accumulators(body, indices), *beside))),
        )
        only = rows.only_elements(gathered, "thread == 0")
        sweep = join(self._sweep(gathered.targets()), parts, rows.updates(gathered), only)
        walked = [index for index in indices if index not in gathered.only]
        return sweep, self.edge.reducing(walked, combined(body, walked))

    def reduction(self, arguments: str) -> str:
        """The call that combines the ``arguments`` over the threads of a row, of as many as the launch says or as the
        kernel knows."""
        if self.heuristics.most_threads:
            return f"fb::reduce_row_of_threads<kMostThreads, kCluster>(phase, threads, {arguments});"
        if self.heuristics.cluster > 1:
            return reduction_in_cluster(arguments)
        return f"fb::reduce_row<kThreadsPerRow, 1>(phase, {arguments});"

    @property
    def overwritten(self) -> frozenset[int]:
        """Inputs that outputs overwrite."""
        outputs = self.rows.body.task.fusion.outputs
        return frozenset(output.alias for output in outputs if output.alias is not None)

    def storing(self, outputs: Sequence[int]) -> tuple[Sweep, Lines]:
        """The sweep that stores ``outputs``, which change along the row."""
        vectors = [fid for fid in outputs if self.rows.body.is_vector(fid)]
        stores = self.rows.stores_of(outputs, {fid: f"fb::store(r{fid} + {VECTOR}, o{fid});" for fid in vectors})
        return join(self._sweep(outputs, self._vector_ahead), stores), self.edge.storing(outputs)

    def loads_ahead(self) -> Sweep:
        """What is loaded ahead of the last sweep: the words around a thread's first vectors, out of which they are cut
        when all have been asked for, and the element beside vectors."""
        body, load = self.rows.body, "w{0}[c] = fb::load_aligned_words<kVec>(r{0} + {1}, {2});"
        types = {fid: f"{body.c_type(fid)}, kVec" for fid in self.ahead}
        number = f"constexpr int kAhead = {self._vectors_ahead};  // vectors that the thread has before the last sweep"
        return Sweep(
            coordinates=(number,) if self.ahead else (),
            arrays=(
                *(f"fb::AlignedWords<{each}> w{fid}[kAhead];" for fid, each in types.items()),
                *(f"fb::Packed<{each}> p{fid}[kAhead];" for fid, each in types.items()),
            ),
            loads=tuple(load.format(fid, VECTOR, self._beyond(fid)) for fid in self.ahead),
            merged=tuple(f"p{fid}[c] = fb::pack(fb::cut(w{fid}[c], {self._beyond(fid)}));" for fid in self.ahead),
            accumulators=self.edge.declarations(self.ahead),
            element=tuple(f"e{fid} = r{fid}[edge];" for fid in self.ahead),
        )

    def _sweep(self, targets: Sequence[int], loads: Callable[[int], Lines] | None = None) -> Sweep:
        """One sweep over a thread's vectors that computes ``targets``."""
        return self.rows.sweep(targets, self.rows.of_rows, loads or self._vector)

    @property
    def _vectors_ahead(self) -> int:
        """The vectors of each input that a thread has ahead: one; where registers have room beside its row several, of
        a row that a warp has, or whose block is alone on its multiprocessor: nobody else loads while that waits."""
        spec, heuristics = self.rows.body.spec, self.heuristics
        held = heuristics.chunks * self._vector_bytes(heuristics.cached)
        if self._vector_bytes(self.ahead) > AHEAD_BYTES or held > BESIDE_BYTES:
            return 1
        wanted = AHEAD_ALONE if spec.min_blocks == 1 else AHEAD_OF_WARP if heuristics.threads.per_row == WARP else 1
        return min(wanted, heuristics.chunks)

    def _vector_bytes(self, fids: Sequence[int]) -> int:
        body = self.rows.body
        return body.spec.vec * sum(body.value(fid).dtype.bytes for fid in fids)

    def _beyond(self, fid: int) -> str:
        """How far beyond an aligned word each vector begins of input ``fid``, which rows share."""
        begins_anywhere = fid in shared_by_some(self.rows.body.task, self.rows.body.domain)
        return f"fb::beyond_word<kVec>(r{fid} + start)" if begins_anywhere else "edges.before"

    def _cut(self, fid: int) -> str:
        """The call that cuts a vector out of input ``fid``, which rows share."""
        return f"fb::load_cut<kVec>(r{fid} + {VECTOR}, {self._beyond(fid)})"

    def _vector_ahead(self, fid: int) -> Lines:
        if fid not in self.ahead:
            return self._vector(fid)
        return (self.rows.vector(fid, f"c < kAhead ? fb::unpack(p{fid}[c % kAhead]) : {self._cut(fid)}"),)

    def _vector(self, fid: int) -> Lines:
        source = f"fb::load<kVec>(r{fid} + {VECTOR})"
        if self.heuristics.has_edges and fid not in self.rows.body.domain.flat:
            source = self._cut(fid)
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
