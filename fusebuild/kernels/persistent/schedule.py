"""Reductions over the innermost axes whose results are broadcast back: softmax, norms, any number of levels.

Each level is one sweep over the row; every reduction of a level shares the sweep, one shuffle pass and one barrier.
Inputs that several sweeps read are kept on chip: in registers for rows up to a capacity, for longer ones in those of a
cluster of blocks (sm_90 and later) or in shared memory; where none holds the row it is read again. Values between
inputs and outputs are recomputed in each sweep that needs them, since arithmetic is free beside memory (nvFuser's inner
persistent scheduler projects its buffers to inputs likewise); all but costly ones, such as the exponentials of a
softmax, which are kept where registers last.

Rows of lengths that are no multiple of a vector have kernels of their own: short ones lie in tiles of many
(:mod:`fusebuild.kernels.persistent.tiled`, :mod:`fusebuild.kernels.persistent.edged_tiles` where the length is known
and :mod:`fusebuild.kernels.persistent.threaded` for those of a few elements), longer ones have edges
(:mod:`fusebuild.kernels.persistent.resident`, which is also for rows so long that blocks stay to keep what all rows
share)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from fusebuild.ir.formula import Formula, product
from fusebuild.ir.fusion import Task
from fusebuild.kernels.common.choice import NOT_TUNED, Tuned, decide, decision, require, require_power_of_two
from fusebuild.kernels.common.domain import AxisDomain
from fusebuild.kernels.common.few_rows import FEW_ROWS_THREADS, FewRows, ways_of_few_rows
from fusebuild.kernels.common.rows import (
    MAX_THREADS,
    RESERVED_BYTES,
    WARP,
    RowChoice,
    RowThreads,
    blocks_wanted,
    check_outputs,
    check_reductions,
    check_rows,
    check_running,
    fits_exchange,
    has_lambdas,
    kept_axes,
    next_power_of_two,
    reduced_axes,
    row_threads,
)
from fusebuild.kernels.common.shifted import aligned_guards, has_odd_rows, shifted_guards
from fusebuild.kernels.common.spec import (
    KernelSpec,
    LaunchSpec,
    Rejection,
    VariantSpec,
    axis_product,
    fits_int32,
    hint,
    kernel_parameters,
    reductions,
    rejection,
    try_domain,
    usable,
    vector_fids,
    vector_guards,
    vector_width,
)
from fusebuild.kernels.common.sweeps import cached_inputs, column_inputs, costly_values, kept_values, last_sweep
from fusebuild.kernels.common.tickets import TicketCounters
from fusebuild.kernels.persistent.edged_tiles import EdgedTilesPlanner
from fusebuild.kernels.persistent.heuristics import (
    ClusterChoice,
    ClusterHeuristics,
    FewRowsHeuristics,
    PersistentHeuristics,
    RegisterChoice,
)
from fusebuild.kernels.persistent.resident import (
    EDGED_COLUMNS,
    RESIDENT_ROW_BYTES,
    WEIGHTED_ROW_BYTES,
    LongRows,
    ResidentHeuristics,
    decide_rows,
    shared_by_rows,
)
from fusebuild.kernels.persistent.threaded import ThreadedPlanner
from fusebuild.kernels.persistent.tiled import TiledPlanner
from fusebuild.kernels.persistent.tiles import TilesPlanner
from fusebuild.ops.table import op_of
from fusebuild.target.table import Target

ONE_BLOCK = 65536
"""Elements of a tensor that one block reduces and walks again sooner than two more kernels start."""

KEPT_BLOCK = 512
"""Threads of a block up to which costly values are kept: larger ones are alone on their multiprocessor."""

MOST_REGISTERS = 128
"""Registers of a thread beyond which too few blocks hide each other's waits."""

OTHER_REGISTERS = 16
"""What a thread takes beside what it keeps of its row."""

LAST_REGISTERS = 24
"""The same in its last sweep, where what it stores, the row's own values and its addresses are counted."""

EARLIER_REGISTERS = 8
"""What nvcc takes besides before sm_90."""

AHEAD_REGISTERS = 28
"""The same where it loads all that it reads of its row before it uses the first."""

BUSY_THREADS = 768
"""Threads of a multiprocessor that hide memory latency with four vectors each."""

SHORT_ROW_THREADS = 1280
"""The same of blocks that have several rows, whose warps wait by themselves. (H200, sizes known: layernorm of 128
columns 273 -> 265 us in 40 registers to a thread, of 256 columns 265 -> 289 in 64.)"""

REGISTER_BYTES = 128
"""Bytes of inputs that one thread keeps in registers: half of its 64 at full occupancy for 4-byte registers."""

CLUSTER_ROW_BYTES = 96 * 1024
"""Bytes of a row's inputs beyond which a cluster keeps them: up to there one block does, which waits for no peers."""

CLUSTER_SHARE_BYTES = 64 * 1024
"""Bytes of a row that one block of a cluster keeps, where so many blocks may be: few enough that blocks of several rows
share a multiprocessor, and one row's reductions do not idle it."""

CLUSTER_THREAD_BYTES = 128
"""Bytes of a row that one thread of a cluster keeps, at most."""

FEWER_THREADS_BYTES = 256
"""The same where its last sweep reads something else ahead: what threads take besides is taken by half as many."""

Tiles = TypeVar("Tiles", bound=TilesPlanner)

SHORT_ROWS = {"brief": 256, "short": 1024}
"""Elements of rows that a quarter of a warp walks, and a warp: where rows are longer as a rule, too many threads would
share one as short (H200: layernorm of 128 columns 660 us by warps, 308 by quarters, of 64 1277 and 430)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InnerPersistentScheduler:
    name: str = "inner_persistent"

    def accepts(self, task: Task, target: Target) -> Rejection | None:
        domain = try_domain(self.name, task)
        if isinstance(domain, Rejection):
            return domain
        if rejected := check_reductions(self.name, task, domain) or check_running(self.name, task):
            return rejected
        kept, reduced = kept_axes(domain), reduced_axes(domain)
        if kept and reduced and max(kept) > min(reduced):
            return rejection(self.name, task, "the reduced dims are not the innermost ones")
        if not kept and not _fits_one_block(axis_product(domain, reduced)):
            return rejection(self.name, task, "every dim is reduced, and one block would walk the whole tensor")
        return check_outputs(self.name, task, domain, kept, (*kept, *reduced))

    def schedule(
        self, task: Task, target: Target, sizes: Mapping[str, int], tuned: Tuned = NOT_TUNED
    ) -> tuple[VariantSpec, ...]:
        domain = try_domain(self.name, task)
        assert isinstance(domain, AxisDomain)
        columns = axis_product(domain, reduced_axes(domain))
        inner = len(domain.axes) - 1
        vec = vector_width(task, domain, inner)
        small = fits_int32(columns)
        vector = (small, *vector_guards(task, domain, inner, vec))
        planner = _Planner(
            task=task, target=target, domain=domain, columns=columns, size=hint(columns, sizes),
            cached=cached_inputs(task, domain), kept=tuple(kept_values(task, domain)), sizes=sizes, tuned=tuned,
        )  # fmt: skip
        resident, cluster = planner.resident(vec, vector), planner.cluster(vec, vector)
        variants = [*planner.few_rows(vec, vector), *resident, *cluster]
        shorter = {name: size for name, size in SHORT_ROWS.items() if vec > 1 and size < planner.size}
        variants += [replace(planner, size=size).registers(vec, vector, name=name) for name, size in shorter.items()]
        variants += [planner.registers(vec, vector), planner.shared(vec, vector)]
        if len(reduced_axes(domain)) == 1 and has_odd_rows(task, domain, vec, columns):
            guard = (small, *shifted_guards(task, domain, vec))
            variants += planner.odd_rows(vec, guard)
        elif vec > 1:
            variants.append(planner.registers(1, (small,)))
        if vec > 1 and not cluster and not planner.fits_shared():
            variants.append(planner.reread(vec, "int32_t", vector))
        variants.append(planner.reread(1, "int64_t", ()))
        return usable(variants)


def _fits_one_block(elements: Formula) -> bool:
    """False for sizes not known now: a tensor reduced as a whole is as large as a tensor can be."""
    return isinstance(elements, int) and elements <= ONE_BLOCK


@dataclass(frozen=True, slots=True, kw_only=True)
class _Planner:
    """One task on one target, for which variants are made; ``columns`` are the elements of a row, assumed to be
    ``size``, ``cached`` and ``kept`` what :func:`cached_inputs` and :func:`kept_values` find."""

    task: Task
    target: Target
    domain: AxisDomain
    columns: Formula
    size: int
    cached: tuple[int, ...]
    kept: tuple[int, ...]
    sizes: Mapping[str, int]
    tuned: Tuned

    @property
    def rows(self) -> Formula:
        return axis_product(self.domain, kept_axes(self.domain))

    def registers(
        self, vec: int, guard: tuple[Formula, ...], *, name: str = "registers", shifted: bool = False
    ) -> VariantSpec:
        """The row in registers: at most ``REGISTER_BYTES`` of cached inputs per thread. ``shifted`` vectors begin up to
        ``vec - 1`` columns before the row; a row that needs them is odd, and then no thread has registers for more."""
        way = f"{name}_vec{vec}_int32"
        before = vec - 1 if shifted else 0
        most = self._most_chunks(vec)
        lay = partial(_chunks, self.size + before, vec, most=most, tight=shifted and self.size % vec != 0)
        check = partial(self._check_registers, vec=vec, before=before, chunks_of=lay)
        choice = decide(way, self._propose_registers(vec, before, most, lay), self.tuned, check)
        threads, chunks = choice.threads, lay(choice.threads)
        heuristics = PersistentHeuristics(
            threads=threads,
            storage="registers",
            chunks=chunks,
            cached=self.cached,
            kept=self.kept if choice.keeps else (),
        )
        fits: Formula = ("le", self.columns, threads.per_row * chunks * vec - before)
        return self._variant(way, way, (*guard, fits), vec, "int32_t", heuristics, choice, shifted=shifted)

    def few_rows(self, vec: int, guard: tuple[Formula, ...]) -> tuple[VariantSpec, ...]:
        """A row for each multiprocessor at most (:mod:`fusebuild.kernels.common.few_rows`): all that it needs is loaded
        before the first reduction. There are no such variants where that is done anyway."""
        ahead, rows = column_inputs(self.task, self.domain), self.rows
        if vec == 1 or {*ahead} == {*self.cached} or rows == 1:
            return ()
        few: Formula = ("le", rows, self.target.multiprocessors)
        ways = ways_of_few_rows(_vector_bytes(self.task, ahead, vec))
        return tuple(self._by_few_rows(way, ahead, vec, (*guard, few)) for way in ways)

    def _by_few_rows(self, way: FewRows, ahead: tuple[int, ...], vec: int, guard: tuple[Formula, ...]) -> VariantSpec:
        name = f"{way.name}_vec{vec}_int32"
        proposal = RowChoice(threads_per_row=FEW_ROWS_THREADS, rows_per_block=1, min_blocks=1)
        choice = decide(name, proposal, self.tuned, partial(check_rows, target=self.target, most_rows=1))
        heuristics = FewRowsHeuristics(
            threads=choice.threads, storage="registers", chunks=way.chunks, cached=ahead, clamped=way.clamped
        )
        has_last: tuple[Formula, ...] = (("lt", 0, self.columns),) if way.clamped else ()
        fits: Formula = ("le", self.columns, choice.threads_per_row * way.chunks * vec)
        variant = self._variant(name, name, (*guard, *has_last, fits), vec, "int32_t", heuristics, choice)
        return replace(variant, for_few_rows=True)

    def _most_chunks(self, vec: int) -> int:
        """Vectors of a row that a thread may have registers for."""
        if not self.cached:
            return max(1, 16 // vec)
        available = REGISTER_BYTES // 2 if has_lambdas(self.task) else REGISTER_BYTES
        return max(1, available // _vector_bytes(self.task, self.cached, vec))

    def _propose_registers(
        self, vec: int, before: int, most: int, chunks_of: Callable[[RowThreads], int]
    ) -> RegisterChoice:
        size, wanted = self.size + before, min(4 if vec > 1 else 16, most)
        threads, kept = row_threads(size, vec, wanted), bool(self.kept)
        if kept and not self._lasts(threads, chunks_of(threads) * vec):
            fewer = row_threads(size, vec, -(-wanted // 2))
            if kept := self._lasts(fewer, chunks_of(fewer) * vec):
                threads = fewer
        blocks = max(blocks_wanted(threads), self._blocks_of_loads(threads, vec, chunks_of(threads), kept))
        return RegisterChoice(**{**_row_choice(threads).knobs, "min_blocks": blocks}, keeps=kept)

    def _words_read(self, vec: int) -> int:
        """Registers of a vector of each input that changes along the row."""
        return _vector_bytes(self.task, column_inputs(self.task, self.domain), vec) // 4

    def _blocks_of_loads(self, threads: RowThreads, vec: int, chunks: int, keeps: bool) -> int:
        """The blocks of ``BUSY_THREADS``, fewer where registers are too few for all that a thread reads of its row: a
        compiler that moves all loads ahead may not take the registers of other blocks for them."""
        task = self.task
        if vec == 1 or threads.rows > 1 or any(op_of(task.fusion.exprs[i]).is_random for i in task.exprs):
            return 1
        words = chunks * self._words_read(vec)
        words += chunks * vec * len(self.kept) if keeps else 0
        fitting = self.target.registers // (threads.block * (AHEAD_REGISTERS + words))
        return min(BUSY_THREADS // threads.block, fitting)

    def _when_known(
        self, heuristics: PersistentHeuristics | ResidentHeuristics, vec: int, min_blocks: int
    ) -> PersistentHeuristics | ResidentHeuristics | None:
        """The heuristics of a kernel that knows the row's size, None where that is no gain: a compiler that does moves
        what later sweeps read ahead of the reductions, and takes inputs for floats once; both must fit the registers,
        which a cluster's row fills.

        Rows that end in a warp load even what only the last sweep reads before the first reduction, since no other warp
        of theirs loads while they wait for it (H200: rmsnorm of 128 columns 259.8 -> 256.0 us). Where their size is not
        known that takes the registers of all elements that a thread might have, and costs more than it gains (of 256
        columns 283 -> 312)."""
        threads = heuristics.threads
        if isinstance(heuristics, ResidentHeuristics):
            return heuristics if heuristics.is_alone else None
        if vec == 1 or heuristics.storage != "registers":
            return None
        others = OTHER_REGISTERS if self.target.cluster > 1 else OTHER_REGISTERS + EARLIER_REGISTERS
        words = others + heuristics.chunks * max(self._words_read(vec), vec * len(self.cached))
        if threads.rows == 1:
            return heuristics if words <= self.target.registers // (threads.block * min_blocks) else None
        ahead = column_inputs(self.task, self.domain)
        gains = {*ahead} > {*heuristics.cached} and words <= self.target.registers // SHORT_ROW_THREADS
        return replace(heuristics, cached=ahead) if gains else None

    def _check_registers(
        self, choice: RegisterChoice, *, vec: int, before: int, chunks_of: Callable[[RowThreads], int]
    ) -> None:
        check_rows(choice, self.target)
        held = choice.threads_per_row * chunks_of(choice.threads) * vec - before
        self._check_kept(choice, held)

    def _check_kept(self, choice: RegisterChoice, held: int) -> None:
        """Raise :class:`KnobError` where threads hold fewer elements than a row has, or nothing is there to keep."""
        message = f"{choice.threads_per_row} threads hold {held} elements of a row of {self.size}"
        require(held >= self.size, "threads_per_row", message)
        require(bool(self.kept) or not choice.keeps, "keeps", "no value is costly")

    def cluster(self, vec: int, guard: tuple[Formula, ...]) -> tuple[VariantSpec, ...]:
        """The row in the registers of a cluster of blocks: one variant, for rows too long for one block to keep well.

        There is none where the recipe tells of no such rows, since to compile it is not for free; where no cluster
        keeps the longest row that it tells of; and where partial results are too large to exchange. It is made for that
        longest row, and shorter ones down to ``CLUSTER_ROW_BYTES`` take it too: no thread then has more vectors, and
        all blocks have the same share but for one vector a thread.
        """
        vector_bytes = _vector_bytes(self.task, self.cached, vec)
        size = _long_row(self.task, self.columns, self.sizes, CLUSTER_ROW_BYTES * vec // max(1, vector_bytes))
        if self.target.cluster == 1 or not vector_bytes or size is None:
            return ()
        way = f"cluster_vec{vec}_int32"
        proposal = self._propose_cluster(size, vec, vector_bytes)
        if not self._holds(proposal, size, vec):
            return ()
        choice = decide(way, proposal, self.tuned, partial(self._check_cluster, size=size, vec=vec))
        chunks = self._cluster_chunks(choice, size, vec)
        heuristics = ClusterHeuristics(
            threads=choice.threads,
            storage="cluster",
            chunks=chunks,
            cached=self.cached,
            kept=self.kept if choice.keeps else (),
            cluster=choice.cluster,
            ahead=self._ahead(choice, vec, chunks),
        )
        above: Formula = ("lt", CLUSTER_ROW_BYTES, product([vector_bytes // vec, self.columns]))
        fits: Formula = ("le", self.columns, heuristics.capacity * vec)
        name = f"cluster{choice.cluster}_vec{vec}_int32"
        return (self._variant(way, name, (*guard, above, fits), vec, "int32_t", heuristics, choice),)

    def _propose_cluster(self, size: int, vec: int, vector_bytes: int) -> ClusterChoice:
        row_bytes, most = -(-size // vec) * vector_bytes, self._cluster_thread_bytes
        cluster = min(self.target.cluster, max(2, next_power_of_two(-(-row_bytes // CLUSTER_SHARE_BYTES))))
        threads = row_threads(-(-size // cluster), vec, max(1, most // vector_bytes))
        blocks = max(1, min(blocks_wanted(threads), 2 * self.target.registers // (threads.block * most)))
        knobs = {**_row_choice(threads).knobs, "min_blocks": blocks}
        choice = ClusterChoice(**knobs, keeps=False, cluster=cluster)
        keeps = bool(self.kept) and self._lasts(threads, self._cluster_chunks(choice, size, vec) * vec)
        return replace(choice, keeps=keeps)

    @property
    def _cluster_thread_bytes(self) -> int:
        reads_more = bool(last_sweep(self.task, self.domain, self.cached, ()).inputs)
        return FEWER_THREADS_BYTES if reads_more else CLUSTER_THREAD_BYTES

    def _cluster_chunks(self, choice: ClusterChoice, size: int, vec: int) -> int:
        """Vectors of a row of ``size`` that each thread has: half of its registers at most."""
        registers = self.target.registers // (choice.threads_per_row * choice.min_blocks)
        most = min(self._cluster_thread_bytes, 2 * registers) // _vector_bytes(self.task, self.cached, vec)
        return _chunks(-(-size // choice.cluster), vec, choice.threads, most=max(1, most))

    def _ahead(self, choice: ClusterChoice, vec: int, chunks: int) -> int:
        """Vectors of what the last sweep alone takes from memory that registers hold beside ``chunks`` of the row."""
        task, kept = self.task, self.kept if choice.keeps else ()
        sweep = last_sweep(task, self.domain, self.cached, kept)
        words = _vector_bytes(task, sweep.inputs, vec) // 4
        if not words or any(op_of(task.fusion.exprs[index]).is_random for index in task.exprs):
            return 0
        held = chunks * (_vector_bytes(task, self.cached, vec) // 4 + vec * len(kept))
        held += (_vector_bytes(task, sweep.outputs, vec) + _vector_bytes(task, sweep.of_rows, 1)) // 4
        axes = (self.domain.accesses[fid].axes for fid in sweep.inputs + sweep.outputs)
        held += sum(2 for own in axes if {*own} & {*kept_axes(self.domain)})  # addresses
        registers = min(MOST_REGISTERS, self.target.registers // (choice.threads.block * choice.min_blocks))
        return max(0, min(chunks, (registers - LAST_REGISTERS - held) // words))

    def _holds(self, choice: ClusterChoice, size: int, vec: int) -> bool:
        """Whether a cluster keeps a row of ``size`` and exchanges its partial results."""
        warps = choice.cluster * choice.threads_per_row // WARP
        held = choice.cluster * choice.threads_per_row * self._cluster_chunks(choice, size, vec) * vec
        return held >= size and fits_exchange(warps, _most_parts(self.task))

    def _check_cluster(self, choice: ClusterChoice, *, size: int, vec: int) -> None:
        check_rows(choice, self.target, most_rows=1)
        require_power_of_two(choice, "threads_per_row", WARP, MAX_THREADS)
        require_power_of_two(choice, "cluster", 2, self.target.cluster)
        require(bool(self.kept) or not choice.keeps, "keeps", "no value is costly")
        blocks = f"{choice.cluster} blocks of {choice.threads_per_row} threads"
        message = f"{blocks} do not hold a row of {size} elements, or their partial results do not fit"
        require(self._holds(choice, size, vec), "cluster", message)

    def resident(self, vec: int, guard: tuple[Formula, ...]) -> tuple[VariantSpec, ...]:
        """Very long rows in blocks that stay with what all rows share: one variant, or none where they share nothing,
        where the recipe tells of no such rows, or where there is no room for them. Costly values are kept elsewhere."""
        shared = shared_by_rows(self.task, self.domain, has_edges=False)
        if not shared or self.kept:
            return ()
        is_weighted = self._element_bytes(shared) > self._bytes_per_element
        row_bytes = WEIGHTED_ROW_BYTES if is_weighted else RESIDENT_ROW_BYTES
        beyond = (row_bytes - 1) // max(1, self._bytes_per_element)
        rows = self._long_rows(vec, shared, beyond, has_edges=False)
        if rows is None:
            return ()
        least: Formula = ("le", row_bytes, product([self._bytes_per_element, self.columns]))
        return self._by_rows("resident", rows, (*guard, least))

    def edged(self, vec: int, guard: tuple[Formula, ...]) -> tuple[VariantSpec, ...]:
        """Rows of any length by whole aligned vectors and elements beside them: one variant, or none as above. Where
        the first case's rows are not odd, those that are are others, and may be longer."""
        shared = shared_by_rows(self.task, self.domain, has_edges=True)
        rows = None if shared is None else self._long_rows(vec, shared, EDGED_COLUMNS, has_edges=True)
        if rows is None:
            return ()
        guard = (*guard, ("lt", EDGED_COLUMNS, self.columns))
        longer = self._by_rows("edged", replace(rows, size=2 * rows.size), guard) if rows.size % vec == 0 else ()
        return longer or self._by_rows("edged", rows, guard)

    def _long_rows(self, vec: int, shared: tuple[int, ...], beyond: int, *, has_edges: bool) -> LongRows | None:
        """Rows of more elements than so many ``beyond`` which the recipe tells of, that read the inputs ``shared``;
        None where it tells of none, or where nothing of them is worth keeping by vectors."""
        vector_bytes = _vector_bytes(self.task, self.cached, vec)
        size = _long_row(self.task, self.columns, self.sizes, beyond)
        if not vector_bytes or vec == 1 or size is None:
            return None
        return LongRows(
            target=self.target,
            size=size,
            has_edges=has_edges,
            vec=vec,
            cached=self.cached,
            resident=shared,
            vector_bytes=vector_bytes,
            resident_bytes=vec * self._element_bytes(shared),
            tensor_bytes=_vector_bytes(self.task, vector_fids(self.domain, len(self.domain.axes) - 1), vec),
            reductions=len(reductions(self.task)),
            costly=bool(costly_values(self.task, self.domain, reduced_axes(self.domain))),
        )

    def _by_rows(self, name: str, rows: LongRows, guard: tuple[Formula, ...]) -> tuple[VariantSpec, ...]:
        way = f"{name}_vec{rows.vec}_int32"
        decided = decide_rows(way, rows, self.tuned)
        if decided is None:
            return ()
        heuristics, choice = decided
        per_row, cluster = choice.threads_per_row, choice.cluster
        fits: Formula = ("le", self.columns, rows.held(per_row, cluster))
        full_name = f"{name}{cluster}_vec{rows.vec}_int32"
        shared_bytes = rows.shared_bytes(per_row, cluster) if heuristics.walkers else 0
        if rows.has_edges:
            guard = (*guard, *aligned_guards(self.task, rows.resident, rows.vec))
        variant = self._variant(way, full_name, (*guard, fits), rows.vec, "int32_t", heuristics, choice, shared_bytes)
        if heuristics.walkers:
            variant = TicketCounters().serving(variant)
        return (variant,)

    def _lasts(self, threads: RowThreads, columns: int) -> bool:
        """Whether two blocks have the registers to keep costly values, too, for ``columns`` to a thread."""
        size = {fid: self.task.fusion.value(fid).dtype.bytes for fid in (*self.cached, *self.kept)}
        kept = sum(max(4, size[fid]) for fid in self.kept)
        words = columns * (sum(size[fid] for fid in self.cached) + kept) // 4
        most = min(MOST_REGISTERS, self.target.registers // (2 * threads.block))
        return threads.block <= KEPT_BLOCK and OTHER_REGISTERS + words <= most

    def shared(self, vec: int, guard: tuple[Formula, ...]) -> VariantSpec:
        """The row in shared memory: rows beyond the registers, up to what one block may use."""
        way = f"shared_vec{vec}_int32"
        wanted = row_threads(max(self.size, 2048 * vec), vec, 8).per_row
        proposal = _row_choice(RowThreads(per_row=min(MAX_THREADS, wanted), rows=1))
        choice = decide(way, proposal, self.tuned, partial(check_rows, target=self.target, most_rows=1))
        heuristics = PersistentHeuristics(threads=choice.threads, storage="shared", chunks=0, cached=self.cached)
        shared_bytes = product([self._bytes_per_element, self.columns])
        fits: Formula = ("le", shared_bytes, self.target.shared_bytes - RESERVED_BYTES)
        return self._variant(way, way, (*guard, fits), vec, "int32_t", heuristics, choice, shared_bytes)

    def odd_rows(self, vec: int, guard: tuple[Formula, ...]) -> list[VariantSpec]:
        """Rows of any length by aligned vectors, the fastest way first: longer ones as they lie, short ones in tiles.
        Where the length is known it has one."""
        edged, tiled = self.edged(vec, guard), self.tiles(TiledPlanner, vec)
        if edged and isinstance(self.columns, int):
            return [*edged]
        known = [*self.tiles(ThreadedPlanner, vec).variants(), *self.tiles(EdgedTilesPlanner, vec).variants()]
        if known and isinstance(self.columns, int):
            return known[:1]
        found = [*edged, *known, *tiled.variants()]
        if not (edged or tiled.takes_all):
            found.append(self.registers(vec, guard, name="shifted", shifted=True))
        return found

    def tiles(self, planner: type[Tiles], vec: int) -> Tiles:
        """Several short rows in the shared memory of a block."""
        return planner(
            task=self.task, target=self.target, domain=self.domain, columns=self.columns, sizes=self.sizes, vec=vec,
            cached=self.cached, kept=self.kept, tuned=self.tuned,
        )  # fmt: skip

    @property
    def _bytes_per_element(self) -> int:
        return self._element_bytes(self.cached)

    def _element_bytes(self, fids: Sequence[int]) -> int:
        """Bytes of one element of each of ``fids``."""
        return sum(self.task.fusion.value(fid).dtype.bytes for fid in fids)

    def fits_shared(self) -> bool:
        """Whether shared memory holds a row."""
        return self._bytes_per_element * self.size <= self.target.shared_bytes - RESERVED_BYTES

    def reread(self, vec: int, index: str, guard: tuple[Formula, ...]) -> VariantSpec:
        """Each sweep reads its inputs again: by vectors where the rows at hand are too long for anything else, and the
        fallback for everything, one element at a time, with 64-bit indices."""
        way = "reread_scalar_int64" if vec == 1 else f"reread_vec{vec}_int32"
        proposal = _row_choice(row_threads(self.size, vec, 8))
        choice = decide(way, proposal, self.tuned, partial(check_rows, target=self.target))
        heuristics = PersistentHeuristics(threads=choice.threads, storage="reread", chunks=0, cached=())
        return self._variant(way, way, guard, vec, index, heuristics, choice)

    def _variant(
        self,
        way: str,
        name: str,
        guard: Sequence[Formula],
        vec: int,
        index: str,
        heuristics: PersistentHeuristics | ResidentHeuristics,
        choice: RowChoice,
        shared_bytes: Formula = 0,
        *,
        shifted: bool = False,
    ) -> VariantSpec:
        known = self._when_known(heuristics, vec, choice.min_blocks)
        kernel = KernelSpec(
            template="inner_resident" if isinstance(heuristics, ResidentHeuristics) else "inner_persistent",
            task=self.task,
            domain=self.domain,
            parameters=kernel_parameters(self.task, self.domain),
            index=index,
            vec=vec,
            heuristics=heuristics,
            shifted=shifted,
            min_blocks=choice.min_blocks,
            sizes_help=known is not None,
            when_known=known,
        )
        launch = LaunchSpec(
            kernel=kernel,
            grid=(heuristics.grid(self.rows), 1, 1),
            block=(heuristics.threads.block, 1, 1),
            shared_bytes=shared_bytes,
        )
        decided = decision(way, choice, self.tuned)
        return VariantSpec(name=name, guard=tuple(guard), launches=(launch,), decision=decided)


def _row_choice(threads: RowThreads) -> RowChoice:
    return RowChoice(threads_per_row=threads.per_row, rows_per_block=threads.rows, min_blocks=blocks_wanted(threads))


def _vector_bytes(task: Task, fids: Sequence[int], vec: int) -> int:
    """Bytes of registers that a vector of each of ``fids`` takes: whole registers."""
    return sum(max(4, vec * task.fusion.value(fid).dtype.bytes) for fid in fids)


def _long_row(task: Task, columns: Formula, sizes: Mapping[str, int], beyond: int) -> int | None:
    """The elements of a row longer than ``beyond`` that the recipe tells of: in its first case, else the longest that
    its facts allow. (Sizes that facts name have variants of their own.)"""
    facts = {fact.symbol: fact.max for fact in task.fusion.facts}
    found = (hint(columns, sizes), hint(columns, {**sizes, **{symbol: most for symbol, most in facts.items() if most}}))
    return next((size for size in found if size > beyond), None)


def _most_parts(task: Task) -> int:
    """The most parts that a partial result has: as many as a lambda's state."""
    exprs = [task.fusion.exprs[index] for index in reductions(task)]
    return max(len(expr.outputs) if expr.combine else 1 for expr in exprs)


def _chunks(size: int, vec: int, threads: RowThreads, *, most: int, tight: bool = False) -> int:
    """The vectors of a row of ``size`` that each of its threads has: ``most`` at most, and where they are not ``tight``
    a power of two, for rows that are somewhat longer."""
    chunks = -(-size // (threads.per_row * vec))
    return min(most, chunks if tight else next_power_of_two(chunks))
