"""Rows by whole aligned vectors, whatever their length, and rows in blocks that stay with what all rows share.

A row of any length begins anywhere in an aligned vector. Whole vectors hold all of it but a few elements at both ends,
its **edges**, and each of those is a thread's own: no vector is shared with the rows beside, and nothing is tested but
where a row ends. There are more edges than there need be, so that weights, which begin aligned where rows do not, have
the two aligned vectors that hold a row's: what a thread needs of them is cut out of both without a test. What differs
from sample to sample, such as a scale, begins anywhere itself, and rows that read it have a vector more of edges.

Weights that every row reads again come from L2 as often as there are rows: with a bias, twice the bytes of the row
itself. A block that **walks** many rows reads them once, into shared memory, each thread the columns that it owns in
every row; rows whose numbers differ by a multiple of a vector's elements begin at the same place of one. Walking has
its price: a multiprocessor that is slower than others has as many rows as they. Measured on an H200, it is worth that
where rows are so long that a cluster has to share them: all of those with edges, and without where most blocks there
can be do. (Rows with edges in one block, of 1001 to 12289 elements: 0.93 to 0.94 of a copy's bandwidth, 0.83 to 0.88
where blocks walk.)

Inputs that differ from **sample** to sample, such as the scale and the shift of a modulation, are read again by each
row, too, and with the weights are several times the row itself: more than L2 gives in the time of a copy. A walker of
such rows has neighbouring ones, and keeps what their sample shares until one of another sample comes. Where rows begin
at different places of a vector, it has those of one place after each other, and of the next place after that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from itertools import product as combinations
from typing import ClassVar, Self

from fusebuild.ir.formula import MULTIPROCESSORS, Formula, evaluate, product, total
from fusebuild.ir.fusion import Task
from fusebuild.kernels.common.choice import decide
from fusebuild.kernels.common.domain import AxisDomain
from fusebuild.kernels.common.filling import running_clusters
from fusebuild.kernels.common.rows import (
    MAX_THREADS,
    PARTIAL_BYTES,
    RESERVED_BYTES,
    WARP,
    RowChoice,
    RowThreads,
    check_rows,
    fits_exchange,
    has_lambdas,
    next_power_of_two,
)
from fusebuild.kernels.common.spec import VariantSpec, formula_parameter
from fusebuild.kernels.common.sweeps import costly_values
from fusebuild.kernels.common.tickets import TicketCounters
from fusebuild.kernels.persistent.budgets import LONG_ROWS, WALKED_ROWS
from fusebuild.kernels.persistent.shares import FEW_BLOCKS, Share, best_share
from fusebuild.kernels.persistent.way import RowTask, Way, longest, stages, vectors_cross

RESIDENT_ROW_BYTES = 256 * 1024
"""Bytes of a row's inputs from which blocks stay: most rows that are shorter are faster without."""

WEIGHTED_ROW_BYTES = 128 * 1024
"""Bytes of a row's inputs from which blocks stay where the row is less than what stays and the next one is loaded
ahead."""

EDGED_COLUMNS = 512
"""Elements beyond which a row may have edges: in a shorter one they are too much of it."""

EDGED_ROWS = 16384
"""Rows up to which shorter ones have edges, too: vectors are less to do than so many elements, where few threads have
all of it to do."""

FEWEST_COLUMNS = 128
"""Elements beyond which those have."""

EDGED_RUNGS = (2048, 8192, 32768, 131072, 262144)
"""Elements of the longest rows with edges of a kernel of its own. A row of a quarter of them still has enough bytes on
their way."""

SAMPLED_RUNGS = (2048, 4096, 8192, 16384, 32768)
"""The same where inputs differ from sample to sample, which are several times a row."""

BLOCK_THREADS = (32, 64, 128, 256, 512)
"""Threads that may share what a block has of a row: of a warp alone, none waits at a barrier."""

THREAD_BYTES = 128
"""Bytes of a row that a thread keeps, at most: with more of them it has too much to do between two barriers."""

SAMPLED_THREAD_BYTES = 96
"""The same of a row whose samples' inputs stay: shared memory is short then, and threads are not."""

LEAST_WALKERS = 0.75
"""The least part of the clusters that run at a time which walk rows."""

MOST_THREAD_BYTES = 256
"""Bytes of a row that a thread keeps of rows beyond the last step but one of the ladder, where no cluster would hold
them with less: they are read once all the same."""

LEAST_THREAD_BYTES = 48
"""Bytes that a thread has of a row without edges, at least: with less of them exchanges are too much of its work."""

MOST_BLOCKS = 24
"""Blocks on a multiprocessor beyond which more do not hide more waits, and some devices do not have them."""

QUARTERS = 4
"""Parts of a multiprocessor, each of which has registers of its own for whole warps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResidentHeuristics:
    """A row is in the registers of a block of ``threads``, or of a ``cluster`` of several neighbouring ones: ``chunks``
    vectors of inputs ``cached`` to a thread and, where rows have edges, an element beside them. So many ``walkers``
    share the rows on the device that is planned for, and as many more or less on another one as that has more or less
    multiprocessors; each row has blocks of its own where there are none. The walkers of each of the ``places`` in a
    vector that rows may begin at are as many as those of another. Inputs ``resident`` are the same for all
    rows and stay in shared memory with walkers. A walker's next row is loaded ``ahead`` of the one at hand, or while
    that is stored. Where rows have edges, those have ``room`` for so many vectors after the row's last one. Where a
    launch says how many threads a block has, the kernel may have blocks of ``most_threads``; else this is 0."""

    threads: RowThreads
    cluster: int
    chunks: int
    walkers: int
    multiprocessors: int
    places: int
    cached: tuple[int, ...]
    resident: tuple[int, ...]
    ahead: bool
    has_edges: bool
    room: int
    most_threads: int

    @property
    def is_alone(self) -> bool:
        """Whether each row has a block of its own, which waits for no others."""
        return not self.walkers and self.cluster == 1

    def grid(self, rows: Formula) -> Formula:
        """Blocks for ``rows`` rows."""
        return product([self.cluster, ("min", rows, self.walkers_of_device) if self.walkers else rows])

    @property
    def walkers_of_device(self) -> Formula:
        """The walkers on the device of a call."""
        alike = product([self.walkers // self.places, MULTIPROCESSORS])
        return product([self.places, ("max", 1, ("floor_div", alike, self.multiprocessors))])


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledHeuristics(ResidentHeuristics):
    """Each walker has neighbouring rows, those that begin at the same place of a vector after each other; inputs
    ``of_samples`` stay beside those of all rows until a row is of another sample."""

    of_samples: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgedChoice(RowChoice):
    """How a row lies over its ``cluster`` of blocks, or over its only one."""

    MORE: ClassVar[tuple[str, ...]] = ("cluster", "threads_per_row")

    cluster: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ResidentChoice(EdgedChoice):
    """How a row lies over the blocks of one of the ``walkers``, which share the rows; the next row of each is loaded
    ``ahead``, that is before the row at hand is reduced, or while that row is stored."""

    FEWER: ClassVar[tuple[str, ...]] = ("ahead", "threads_per_row")

    walkers: int
    ahead: bool

    def stepped(self, knob: str, value: int) -> Self:
        """There stay as many walkers for each one that runs at a time, and as many as vectors ask for."""
        changed = super(ResidentChoice, self).stepped(knob, value)
        if knob == "walkers":
            return changed
        blocks = self.walkers * self.cluster * changed.min_blocks // self.min_blocks
        multiple = self.walkers & -self.walkers
        return replace(changed, walkers=max(1, blocks // changed.cluster // multiple) * multiple)


def shared_by_rows(task: Task, domain: AxisDomain, *, has_edges: bool) -> tuple[int, ...] | None:
    """Inputs that all rows read, by vectors; None where rows cannot be walked so."""
    inner, kept = domain.inner, {*domain.kept}
    outputs = [fid for fid in task.outputs if inner in domain.accesses[fid].axes]
    is_run = domain.reduced == (inner,) or (has_edges and vectors_cross(task, domain))
    if not is_run or not kept or not outputs or domain.sources or (has_lambdas(task) and not has_edges):
        return None
    vectors = domain.dense_along(inner)
    shared = tuple(fid for fid in vectors if fid in task.inputs and not kept & {*domain.accesses[fid].axes})
    others = {*shared, *domain.flat, *shared_by_some(task, domain)}
    return shared if not has_edges or {*vectors} == others else None


def shared_by_some(task: Task, domain: AxisDomain) -> tuple[int, ...]:
    """Inputs that some rows share and others do not, which have them by vectors."""
    kept, vectors = {*domain.kept}, domain.dense_along(domain.inner)
    axes = {fid: domain.accesses[fid].axes for fid in vectors if fid in task.inputs}
    return tuple(fid for fid, own in axes.items() if own != domain.every and kept & {*own})


@dataclass(frozen=True, slots=True, kw_only=True)
class LongRowsWay(Way):
    """What both ways for long rows have in common: one variant, or none where rows share nothing, where the recipe
    tells of no such rows, or where a multiprocessor has no room for their blocks. Costly values are not kept."""

    TEMPLATE: ClassVar[str] = "inner_resident"
    SAMPLED_TEMPLATE: ClassVar[str] = "inner_sampled"
    """That of rows whose samples' inputs stay."""

    resident: tuple[int, ...] = ()
    """Inputs that all rows read, which stay with blocks that walk rows."""

    of_samples: tuple[int, ...] = ()
    """Inputs of rows with edges that some of them share and others do not."""

    tensor_bytes: int = 0
    """Bytes of the registers that a vector of each tensor takes."""

    costly: bool = False
    """Whether ops are."""

    thread_bytes: int = THREAD_BYTES
    """Bytes of a row that a thread may keep."""

    walks: bool = True
    """Whether blocks may stay."""

    @property
    def has_edges(self) -> bool:
        return self.FOR_ODD_ROWS

    def sharing(self, shared: tuple[int, ...] | None) -> Self | None:
        """This way for rows that read the inputs ``shared``; None where there is nothing to share, or where nothing of
        rows is worth keeping by vectors."""
        domain = self.domain
        if shared is None or not self.cached or self.vec == 1:
            return None
        tensor_bytes = self.vector_bytes(domain.dense_along(domain.inner))
        costly = bool(costly_values(self.task, domain, domain.reduced))
        of_samples = shared_by_some(self.task, domain) if self.has_edges else ()
        return replace(self, resident=shared, of_samples=of_samples, tensor_bytes=tensor_bytes, costly=costly)

    @property
    def room(self) -> int:
        """Vectors that the edges of a row have room for after its last one."""
        return 2 if self.of_samples else 1

    @property
    def longest_edges(self) -> int:
        """The elements that a row has at most beside its vectors."""
        return (self.room + 1) * self.vec - 1 if self.has_edges else 0

    @property
    def places(self) -> int:
        """Places of a vector that rows may begin at, where a walker's rows all begin at the same one."""
        return self.vec if self.has_edges and not self.of_samples else 1

    def stays(self, cluster: int) -> bool:
        """Whether blocks walk rows, and what rows share stays with them: it is all that they read beside rows. Where it
        differs from sample to sample it is much more than the row, and blocks on their own do, too, but for rows that a
        warp has."""
        if self.of_samples:
            are_words = all(4 <= self.vec * self.bytes_of([fid]) <= 16 for fid in self.staying)
            return self.walks and self.has_edges and are_words and self.size > EDGED_RUNGS[0]
        return self.walks and bool(self.resident) and cluster > 1

    @property
    def staying(self) -> tuple[int, ...]:
        """What rows share, all of them or some."""
        return (*self.resident, *self.of_samples)

    @property
    def rows_of_sample(self) -> Formula:
        """The rows that follow each other and read the same of all inputs that differ from sample to sample."""
        told = {axis for fid in self.of_samples for axis in self.domain.accesses[fid].axes}
        kept = self.domain.kept
        last = next((at for at, axis in reversed([*enumerate(kept, 1)]) if axis in told), 0)
        return self.domain.points(kept[last:])

    def chunks(self, per_row: int, cluster: int) -> int:
        """Vectors of a row that each thread has."""
        vectors = self.size // self.vec - self.room if self.has_edges else -(-self.size // self.vec)
        return max(1, -(-vectors // (cluster * per_row)))

    def held(self, per_row: int, cluster: int) -> int:
        """Elements of the longest row that all threads hold together."""
        return cluster * per_row * self.chunks(per_row, cluster) * self.vec + self.longest_edges

    def shared_bytes(self, per_row: int, cluster: int) -> int:
        """What stays in shared memory."""
        places = per_row + bool(self.of_samples)  # words around vectors are one more than those
        return places * self.chunks(per_row, cluster) * self.vec * self.bytes_of(self.staying)

    def reserved_bytes(self, per_row: int, cluster: int) -> int:
        """Shared memory for other things: reductions take turns with two buffers, whose sizes are powers of two."""
        slots = cluster * -(-per_row // WARP)
        exchanged = sum(self.partials) + self.stays(cluster)  # a ticket, too
        return RESERVED_BYTES + 2 * exchanged * next_power_of_two(PARTIAL_BYTES * slots)

    def registers(self, per_row: int, cluster: int, *, ahead: bool) -> int:
        """Registers of a thread that has its part of the next row beside that of the one at hand, or only that."""
        words = self.chunks(per_row, cluster) * self.vector_bytes(self.cached) // 4
        words = 2 * words if ahead else words
        cut = len(self.of_samples if self.stays(cluster) else self.staying)
        lambdas = sum(bool(expr.combine) for expr in self.task.steps)
        more = LONG_ROWS.per_cut * cut + LONG_ROWS.per_lambda * lambdas
        if not self.stays(cluster):
            divided = LONG_ROWS.per_axis * self.divided
            return words + LONG_ROWS.on(self.target, at_hand=2 * self.tensor_bytes // 4 + divided) + more
        moving = 2 * (self.tensor_bytes - self.vec * self.bytes_of(self.staying)) // 4
        return words + WALKED_ROWS.on(self.target, at_hand=moving) + (WALKED_ROWS.costly if self.costly else 0) + more

    def blocks(self, per_row: int, cluster: int, *, ahead: bool) -> int:
        """Blocks that a multiprocessor has room for; 0 where a thread would keep too much."""
        is_sampled = self.stays(cluster) and bool(self.of_samples)
        most = SAMPLED_THREAD_BYTES if is_sampled else self.thread_bytes
        if self.chunks(per_row, cluster) * self.vector_bytes(self.cached) > most:
            return 0
        registers = -(-self.registers(per_row, cluster, ahead=ahead) // 8) * 8
        if registers > LONG_ROWS.most and self.thread_bytes > THREAD_BYTES:
            return 0
        shared = self.reserved_bytes(per_row, cluster)
        shared += self.shared_bytes(per_row, cluster) if self.stays(cluster) else 0
        by_threads = min(MOST_BLOCKS, self.target.threads_per_multiprocessor // per_row)
        warps = QUARTERS * (self.target.registers // (QUARTERS * WARP * registers))
        return min(warps * WARP // per_row, by_threads, self.target.shared_bytes // shared)

    def exchanges(self, per_row: int, cluster: int) -> bool:
        """Whether the warps of a cluster, if there is one, can exchange the partial results of each reduction."""
        return cluster == 1 or fits_exchange(cluster * per_row // WARP, max(self.partials))

    def shares(self) -> Iterator[Share]:
        """What blocks may have: of rows without edges, which are very long, two or one of the largest on a
        multiprocessor."""
        clusters = [1 << power for power in range(self.target.cluster.bit_length())]
        threads = BLOCK_THREADS if self.has_edges else BLOCK_THREADS[-1:]
        for cluster, per_row, ahead in combinations(clusters, threads, (False, True)):
            blocks = self.blocks(per_row, cluster, ahead=ahead) if self._may_load(cluster, ahead=ahead) else 0
            if blocks and self.exchanges(per_row, cluster):
                blocks = blocks if self.has_edges else min(blocks, FEW_BLOCKS)
                share = Share(
                    cluster=cluster,
                    per_row=per_row,
                    bytes=per_row * self.chunks(per_row, cluster) * self.vector_bytes(self.cached),
                    blocks=blocks,
                    walkers=self.walkers(cluster, blocks),
                    ahead=ahead,
                )
                if self._is_worth(share):
                    yield share

    def _may_load(self, cluster: int, *, ahead: bool) -> bool:
        """Whether rows are loaded ahead, or are not: those of samples are, since the next one may begin elsewhere."""
        return self.stays(cluster) if ahead else not (self.stays(cluster) and self.of_samples)

    def _is_worth(self, share: Share) -> bool:
        """Whether other kernels are slower: most often, but for rows that are not so long without edges, and where as
        many walkers for each place as for another would leave much of the device idle."""
        if self.has_edges:
            running = self._fitting(share.cluster, share.blocks)
            return not share.walkers or share.walkers >= LEAST_WALKERS * running
        if self.size * self.vector_bytes(self.cached) >= RESIDENT_ROW_BYTES * self.vec:
            return True
        return share.ahead and share.blocks >= FEW_BLOCKS and share.bytes >= LEAST_THREAD_BYTES * share.per_row

    def walkers(self, cluster: int, blocks: int) -> int:
        """How many clusters share the rows where a multiprocessor has so many ``blocks``: as many as run at a time, an
        equal number for each place that rows may begin at; 0 where nothing stays."""
        if not self.stays(cluster):
            return 0
        return max(1, self._fitting(cluster, blocks) // self.places) * self.places

    def _fitting(self, cluster: int, blocks: int) -> int:
        """The clusters that run at a time."""
        return evaluate(running_clusters(cluster, blocks), {MULTIPROCESSORS: self.target.multiprocessors})

    def by(self, name: str, guard: tuple[Formula, ...]) -> tuple[VariantSpec, ...]:
        """The variant for rows of ``size`` elements whose name begins with ``name``; none where blocks have no room for
        them. Raises :class:`KnobError` for a tuned choice that no kernel can be made with."""
        for rows in (self, *self._otherwise):
            if share := best_share([*rows.shares()]):
                return rows._shared(share, name, guard)
        return ()

    @property
    def _otherwise(self) -> tuple[Self, ...]:
        """How rows with edges have blocks all the same: some that do not stay, and keep more of the longest rows."""
        if not self.has_edges:
            return ()
        stayless = replace(self, walks=False)
        fuller = replace(stayless, thread_bytes=MOST_THREAD_BYTES)
        return (stayless, fuller) if self.size > EDGED_RUNGS[-2] else (stayless,)

    def _shared(self, share: Share, name: str, guard: tuple[Formula, ...]) -> tuple[VariantSpec, ...]:
        """The variant for rows that blocks ``share`` so."""
        proposal = EdgedChoice(
            threads_per_row=share.per_row, rows_per_block=1, min_blocks=share.blocks, cluster=share.cluster
        )
        if share.walkers:
            proposal = ResidentChoice(**proposal.knobs, walkers=share.walkers, ahead=share.ahead)
        way = f"{name}_vec{self.vec}_int32"
        choice = decide(way, proposal, self.tuned, self._check)
        per_row, cluster = choice.threads_per_row, choice.cluster
        walks = isinstance(choice, ResidentChoice)
        is_walked_by_samples = walks and bool(self.of_samples)
        kind: Callable[..., ResidentHeuristics] = ResidentHeuristics
        if is_walked_by_samples:
            kind = partial(SampledHeuristics, of_samples=self.of_samples)
        heuristics = kind(
            threads=choice.threads,
            cluster=cluster,
            chunks=self.chunks(per_row, cluster),
            walkers=choice.walkers if isinstance(choice, ResidentChoice) else 0,
            multiprocessors=self.target.multiprocessors,
            places=self.places,
            cached=self.cached,
            resident=self.resident if walks else (),
            ahead=isinstance(choice, ResidentChoice) and choice.ahead,
            has_edges=self.has_edges,
            room=self.room,
            most_threads=self._most_threads(choice),
        )
        fits: Formula = ("le", self.columns, self.held(per_row, cluster))
        aligned = self.aligned((*self.resident, *self.of_samples), self.vec) if self.has_edges else ()
        walkers = formula_parameter("walkers", heuristics.walkers_of_device, "clusters that share the rows")
        run = formula_parameter("run", self.rows_of_sample, "rows that follow each other in a sample")
        variant = self.rows_variant(
            way,
            (*guard, *aligned, fits),
            heuristics,
            choice,
            name=way if name[-1].isdigit() else f"{name}{cluster}_vec{self.vec}_int32",
            shared_bytes=self.shared_bytes(per_row, cluster) if heuristics.walkers else 0,
            when_known=heuristics if heuristics.is_alone else None,
            more=((walkers, run) if is_walked_by_samples else (walkers,)) if walks else (),
            template=self.SAMPLED_TEMPLATE if is_walked_by_samples else "",
        )
        return (TicketCounters().serving(variant) if walks and not is_walked_by_samples else variant,)

    def _most_threads(self, choice: EdgedChoice) -> int:
        """The threads of the largest blocks of a kernel whose launches say how many they have; 0 of one that knows."""
        return 0

    def _check_threads(self, choice: EdgedChoice) -> None:
        choice.require_power_of_two("threads_per_row", WARP, MAX_THREADS)
        check_rows(choice, self.target, most_rows=1)

    def _check(self, choice: EdgedChoice) -> None:
        self._check_threads(choice)
        per_row, cluster = choice.threads_per_row, choice.cluster
        choice.require_power_of_two("cluster", 1, self.target.cluster)
        message = "the partial results of so many warps do not fit"
        choice.require(self.exchanges(per_row, cluster), "cluster", message)
        walks = isinstance(choice, ResidentChoice)
        message = f"it is {cluster}, but {'clusters' if walks else 'blocks on their own'} take these rows"
        choice.require(self.stays(cluster) == walks, "cluster", message)
        ahead = isinstance(choice, ResidentChoice) and choice.ahead
        registers = self.registers(per_row, cluster, ahead=ahead)
        message = f"a thread would keep {self.chunks(per_row, cluster)} vectors of a row in {registers} registers"
        most = min(LONG_ROWS.most, self.target.registers // per_row)
        choice.require(registers <= most, "threads_per_row", message)
        if not isinstance(choice, ResidentChoice):
            return
        needed = self.shared_bytes(per_row, cluster) + self.reserved_bytes(per_row, cluster)
        message = f"what stays takes {needed} bytes of shared memory of each of {cluster} blocks"
        choice.require(needed <= self.target.shared_bytes, "cluster", message)
        message = "the next row of a sample is loaded ahead"
        choice.require(ahead or not self.of_samples, "ahead", message)
        message = f"it is {choice.walkers}, but rows {self.vec} apart begin at the same place of a vector"
        choice.require(choice.walkers % self.places == 0, "walkers", message)


@dataclass(frozen=True, slots=True, kw_only=True)
class Resident(LongRowsWay):
    """Very long rows of whole vectors, in blocks that stay with what all rows share."""

    def variants(self) -> tuple[VariantSpec, ...]:
        shared = shared_by_rows(self.task, self.domain, has_edges=self.has_edges)
        if not shared or self.kept:
            return ()
        bytes_of_column = self.bytes_of(self.cached)
        row_bytes = WEIGHTED_ROW_BYTES if self.bytes_of(shared) > bytes_of_column else RESIDENT_ROW_BYTES
        rows = self.sharing(shared)
        if rows is None or bytes_of_column * self.size < row_bytes:
            return ()
        least: Formula = ("le", row_bytes, product([bytes_of_column, self.columns]))
        return rows.by("resident", (*self.vector_guard, least))


@dataclass(frozen=True, slots=True, kw_only=True)
class Edged(LongRowsWay):
    """Odd rows of more than ``EDGED_COLUMNS`` elements, by whole aligned vectors and their edges."""

    FOR_ODD_ROWS: ClassVar[bool] = True

    def variants(self) -> tuple[VariantSpec, ...]:
        """A ladder; where the first case's rows are not odd, those that are are others, but for the longest."""
        rows = self.sharing(shared_by_rows(self.task, self.domain, has_edges=self.has_edges))
        if rows is None or (isinstance(self.columns, int) and self.columns <= EDGED_COLUMNS):
            return ()
        has_own = self.size > (EDGED_COLUMNS if self.size % self.vec else EDGED_RUNGS[-1])
        has_own = has_own and not (stages(self) and self.size > self.edged_rungs[-1])
        own = rows if has_own else replace(rows, size=EDGED_RUNGS[0])
        guard = (*self.odd_guard, self.longer_than_tiles)
        found = own.climbed(rows.edged_rungs, lambda each: each._step(each.rung_name("edged", own.size), guard))
        walked = [at for at, each in enumerate(found, 1) if is_sampled(each)]
        some = found[: max(walked, default=len(found))]  # what stays is worth more than the threads of the next step
        return (*self.but_for_few(some), *found[len(some) :])

    def _step(self, name: str, guard: tuple[Formula, ...]) -> tuple[VariantSpec, ...]:
        """The variant for rows of ``size`` elements. Where a launch says how many threads its blocks have, the same
        kernel takes rows of half as many with half of the threads: a multiprocessor has twice the blocks then, and
        all of those have as much on its way."""
        found = self.by(name, guard)
        return tuple(chain.from_iterable((*self._halved(variant), variant) for variant in found))

    def _halved(self, variant: VariantSpec) -> tuple[VariantSpec, ...]:
        *before, launch = variant.launches
        heuristics = launch.kernel.heuristics
        assert isinstance(heuristics, ResidentHeuristics)
        if not heuristics.most_threads:
            return ()
        size, threads = self.size // 2, heuristics.threads.per_row // 2
        held = heuristics.cluster * threads * heuristics.chunks * self.vec + self.longest_edges
        fits: Formula = ("le", self.columns, held)
        smaller = replace(launch, block=(threads, 1, 1))
        name = f"edged{size}_vec{self.vec}_int32"
        launches, guard = (*before, smaller), (*variant.guard[:-1], fits)
        return (replace(variant, name=name, guard=guard, launches=launches, decision=None),)

    def _most_threads(self, choice: EdgedChoice) -> int:
        """Those of the step that is more than twice the one before it, where half as many are enough to exchange
        partial results: a warp of them for each lane."""
        walks = isinstance(choice, ResidentChoice)
        warps = choice.cluster * choice.threads_per_row // WARP
        is_wide = self.size == EDGED_RUNGS[-2] and choice.cluster > 1 and warps >= 2 * WARP
        return choice.threads_per_row if is_wide and not walks and not isinstance(self.columns, int) else 0

    @property
    def edged_rungs(self) -> tuple[int, ...]:
        """The ladder. The last step is none where shared memory has such rows."""
        rungs = SAMPLED_RUNGS if self.of_samples else EDGED_RUNGS
        return rungs[:-1] if stages(self) else rungs

    @property
    def longer_than_tiles(self) -> Formula:
        """Whether rows are so long that they have edges, or less long and few."""
        are_few: Formula = ("le", self.rows, EDGED_ROWS)
        return ("lt", EDGED_COLUMNS, total([self.columns, product([EDGED_COLUMNS - FEWEST_COLUMNS, are_few])]))


def has_edged(rows: RowTask) -> bool:
    """Whether ``rows`` longer than ``EDGED_COLUMNS`` are taken by kernels for rows with edges, with or without."""
    return bool(edged_lengths(rows)) and not shared_by_some(rows.task, rows.domain)


def edged_lengths(rows: RowTask) -> tuple[int, ...]:
    """The elements of the longest rows of each kernel for rows with edges that takes rows without. Where what differs
    from sample to sample is cut out of unaligned words for each row, whole vectors are faster. (H100, adaln_forward of
    2816 rows of 16384: 134 us with edges, 88 without.)"""
    edged = Edged.of(replace(rows, tuned={}))
    if not edged.applies(()):
        return ()
    takes_all = not shared_by_some(rows.task, rows.domain)
    variants = (each for each in edged.variants() if takes_all or is_sampled(each))
    return tuple(map(longest, variants))


def is_sampled(variant: VariantSpec) -> bool:
    """Whether what differs from sample to sample stays with the blocks of a ``variant``."""
    return isinstance(variant.launches[-1].kernel.heuristics, SampledHeuristics)
