"""How rows of one length are laid over threads and blocks, or clusters: the choices there are, the registers and the
shared memory that each takes, and the variant that is made of one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from fusebuild.ir.dtype import DType
from fusebuild.ir.formula import Formula, ceil_div, product, simplified, total
from fusebuild.kernels.common.choice import decide
from fusebuild.kernels.common.domain import AxisDomain
from fusebuild.kernels.common.filling import most_parts, running_clusters
from fusebuild.kernels.common.finish import FINISH_THREADS, NARROWEST, Finisher, FinishGroup, partial_parameters
from fusebuild.kernels.common.lambdas import folded
from fusebuild.kernels.common.planner import Planner
from fusebuild.kernels.common.registers import Registers
from fusebuild.kernels.common.rows import (
    FEWEST_THREADS,
    MAX_THREADS,
    PARTIAL_BYTES,
    RESERVED_BYTES,
    STATIC_BYTES,
    WARP,
    has_lambdas,
    levels,
    next_power_of_two,
    rows_beside,
)
from fusebuild.kernels.common.spec import (
    KnownSizes,
    LaunchSpec,
    VariantSpec,
    VectorLayout,
    call_parameter,
    fits_int32,
    hint,
    kernel_parameters,
)
from fusebuild.kernels.common.sweeps import costly_values
from fusebuild.kernels.inner_outer import alike, striped
from fusebuild.kernels.inner_outer.axes import InnerOuterParts, inner_outer_parts
from fusebuild.kernels.inner_outer.partials import most_partials
from fusebuild.kernels.inner_outer.rungs import LONGEST, RUNGS
from fusebuild.kernels.inner_outer.shape import InnerOuterChoice, InnerOuterHeuristics
from fusebuild.kernels.inner_outer.whole import can_be_whole, is_whole

MOST_AT_ONCE = 4
"""Rows that a thread may work on together."""
IN_BLOCK = Registers(most=224, base=48)
"""Registers beside what a thread keeps for its columns; nvcc needs some of its 255 to move values about."""
IN_CLUSTER = Registers(most=224, base=56)
"""Registers where rows are reduced along a turn before they are stored. (With a base of 48 and what adds up to 168
registers ptxas 13.0 spills.)"""
LIGHT_IN_CLUSTER = Registers(most=224, base=32)
"""Registers there if what rows do is simple: :meth:`InnerOuterPlanner._is_light`."""
EXCHANGE_BUFFERS = 4
"""Partial results of so many rows have room then: exchange.cuh's kExchangeBuffers."""
BLOCK_THREADS = (128, 256, 512)
"""Threads that may share a row of more than 128 vectors."""
CLUSTERS = (2, 4, 8)
"""Blocks that may share a row."""
ROW_THREADS = (8, 16, 32, 64, 128, 256, 512)
"""Threads that may share a row whose vectors wait in shared memory."""
STAGES = 3
"""Groups of rows on their way to shared memory, at least: with one less, loads pause between rows."""
MOST_STAGES = 4
"""Groups of rows on their way to shared memory, at most: so many where a cluster's partial results are long on their
way, and rows are simple. What is left of a multiprocessor's memory is its first cache, which rows need that begin
anywhere in a line of it. (H100, layernorm's backward pass, 6565 x 12776: 0.90 of a copy's bandwidth with 6, 0.92 with
4.)"""
LEAST_COPY = 4
"""Bytes that a thread can copy to shared memory without waiting."""
MOST_BLOCKS = 8
"""Blocks on a multiprocessor beyond which more only make more partial results."""
EXPECTED_BLOCKS = 2
"""Blocks on a multiprocessor that leave partial results, as expected."""
EXPECTED_COLUMNS = 8192
"""Elements that are expected of their rows."""
MEMORY_THREADS = 512
"""Threads on a multiprocessor where accumulators are in memory, shared or not."""
ROWS_PER_BLOCK = 4
"""Rows that a block has at least, so that writing its accumulators is cheap beside reading its rows."""


def planner_of(planner: Planner) -> InnerOuterPlanner:
    """A planner, with what each of the choices that it tries asks for."""
    task, domain = planner.task, planner.domain
    parts, level = inner_outer_parts(task, domain), levels(task)
    read, moving = parts.read_by_rows(task).intersection(task.inputs), {*parts.depth}
    axes = {fid: domain.accesses[fid].axes for fid in domain.dense_along(domain.inner) if fid in read}
    return InnerOuterPlanner.of(
        planner,
        parts=parts,
        elements=LONGEST,
        vec=planner.vector_width(domain.inner),
        fetched=tuple(fid for fid, own in axes.items() if own == domain.every and _is_fetched(domain, parts, fid)),
        resident=tuple(fid for fid, own in axes.items() if moving.isdisjoint(own)),
        levels=max((level[task.fusion.exprs[index].outputs[0]] for index in parts.along), default=0),
        finishes=can_be_whole(planner, parts),
        has_costly_ops=has_lambdas(task) or bool(costly_values(task, domain, parts.columns)),
    )


def _is_fetched(domain: AxisDomain, parts: InnerOuterParts, fid: int) -> bool:
    """Whether the number of a row and of a column are all that it takes to load the input ``fid`` a turn ahead: a
    tensor with strides of its own needs a coordinate for each axis."""
    return domain.is_contiguous(domain.accesses[fid]) or len(parts.rows) == len(parts.columns) == 1


@dataclass(frozen=True, slots=True, kw_only=True)
class InnerOuterPlanner(Planner):
    """A planner that knows the ``parts`` of the task, whose rows have so many ``elements`` at most, for vectors of
    ``vec``. ``fetched`` are its dense inputs of the whole domain, ``resident`` those of columns that change
    from one outer index to the next at most. Rows have ``levels`` of reductions, each of which needs the one before.
    ``finishes`` says whether a block may finish the outer indices of which it has all rows, ``has_costly_ops`` whether
    what rows do takes ops of many instructions."""

    parts: InnerOuterParts
    elements: int
    vec: int
    fetched: tuple[int, ...]
    resident: tuple[int, ...]
    levels: int
    finishes: bool
    has_costly_ops: bool
    vectors: VectorLayout = VectorLayout.ALIGNED

    @property
    def can_cluster(self) -> bool:
        """Whether blocks may share rows."""
        return self.target.cluster > 1 and self.levels == 1

    @property
    def odd_vectors(self) -> VectorLayout:
        """How rows that are no multiples of a vector are read: those that begin alike together, unless rows have to
        follow each other, since some reduction keeps an outer index."""
        return VectorLayout.ANYWHERE if self.parts.outer else VectorLayout.SHIFTED

    @property
    def odd_rungs(self) -> Sequence[int]:
        """The elements of their longest rows."""
        if self.parts.outer:
            return striped.RUNGS
        return alike.RUNGS if self.can_cluster else sorted((*alike.RUNGS, *alike.RUNGS_ALONE))

    @property
    def _is_striped(self) -> bool:
        return self.vectors is VectorLayout.ANYWHERE

    @property
    def _is_shifted(self) -> bool:
        return self.vectors is VectorLayout.SHIFTED

    @property
    def can_be_odd(self) -> bool:
        """Whether blocks can have rows that begin anywhere: all that changes along them is theirs alone or stays, and
        what is theirs has no gaps."""
        domain, (*others, inner) = self.domain, self.parts.columns
        wide = {fid for fid, access in domain.accesses.items() if inner in access.axes}
        read = wide.intersection(self.parts.read_by_rows(self.task), self.task.inputs)
        whole = {*self.fetched, *wide.intersection(self.parts.written_by_rows(self.task))}
        is_theirs = read <= {*self.fetched, *self.resident} and whole <= {*domain.flat}
        return is_theirs and bool(self.fetched) and not others

    @property
    def can_walk_odd(self) -> bool:
        """Whether there are kernels for them beside those of short ones. Where a thread's elements lie apart, they wait
        in shared memory, and nothing counts columns; what lies there beside a row is no bool."""
        has_bools = any(self.task.fusion.value(fid).dtype is DType.BOOL for fid in self.fetched)
        can_stripe = self._can_stage and not has_bools and not self.parts.count_columns(self.task, self.domain)
        return self.can_be_odd and (can_stripe or not self.parts.outer)

    @property
    def columns(self) -> Formula:
        return self.domain.points(self.parts.columns)

    @property
    def reduced(self) -> tuple[int, ...]:
        """What accumulates down columns; a generalized reduction has several results."""
        return tuple(folded(self.task, self.parts.accumulated))

    def _register_bytes(self, fids: Iterable[int], elements: int = 1) -> int:
        """Bytes of the registers that so many elements of each of ``fids`` take: whole registers."""
        return sum(max(4, elements * self.bytes_of([fid])) for fid in fids)

    def ladder(self, rungs: Sequence[int]) -> dict[int, VariantSpec]:
        """Accumulators in registers: a kernel for rows of each of so many elements; by how many elements it can own,
        the fewest first."""
        found: dict[int, VariantSpec] = {}
        for elements in rungs:
            whole = dict(replace(self, elements=elements).rung())
            half = {} if whole else dict(replace(self, elements=elements // 2).rung())
            found = half | found | whole
        return dict(sorted(found.items()))

    def rung(self) -> Iterator[tuple[int, VariantSpec]]:
        """Accumulators in registers, for rows of so many elements at most as stand before the variant; none where
        blocks cannot own rows of ``elements``."""
        choices = [*self._choices()]
        if not choices:
            return
        layout = {VectorLayout.ANYWHERE: "striped", VectorLayout.SHIFTED: "shifted"}.get(self.vectors, "registers")
        way = f"{layout}{self.elements}_vec{self.vec}_int32"
        proposal = min(choices, key=self._preference)
        choice = decide(way, proposal, self.tuned, self._check_registers)
        chunks = self._chunks(choice)
        staged = f"staged{choice.cluster}_{self.elements}_vec{self.vec}_int32"
        resident, packed = (self.resident, ()) if choice.unpacks else ((), self.resident)
        heuristics = InnerOuterHeuristics.of(
            choice, storage="registers", chunks=chunks, fetched=self.fetched, resident=resident, packed=packed,
            finishes=self.finishes, copied=self.vec, in_place=self._in_place if self._is_striped else (),
        )  # fmt: skip
        is_staged = choice.stages > 1 and self.vectors is VectorLayout.ALIGNED
        name, shared_bytes = staged if is_staged else way, self._staged_bytes(choice)
        before = self.vec - 1 if self._is_shifted else 0  # columns of earlier rows in the first vector
        most = choice.cluster * heuristics.columns(self._together) - before
        guard = (*self._guard, *self._not_few(choice), ("le", self.columns, most))
        yield most, self._variant(way, guard, "int32_t", heuristics, choice, shared_bytes, name=name)

    def _not_few(self, choice: InnerOuterChoice) -> tuple[Formula, ...]:
        """Leaves rows to a longer rung that are so few that all its clusters run at a time, where rows twice as long
        have clusters: one block has much to do for a row then. (H100, layernorm's backward pass: 17 x 7296 8.7 us by a
        block for each row, 7.5 by two; 17 x 7303 11.9, 10.1.)"""
        can_grow = choice.cluster == 1 and self.can_cluster and self._vectors > BLOCK_THREADS[-1]
        longer = replace(self, elements=2 * self.elements)
        shared = min(longer._choices(), key=longer._preference, default=choice).cluster if can_grow else 1
        if shared == 1:
            return ()
        return (("gt", self.domain.points(self.parts.rows), self.target.multiprocessors // shared),)

    @property
    def _guard(self) -> tuple[Formula, ...]:
        """What holds where rows are vectors, or begin anywhere, and 32-bit indices enough for them. Then tensors of all
        rows begin where a vector may, so that each vector which a number of elements lies before is aligned."""
        outers, depth = (self.domain.points(axes) for axes in (self.parts.outer, self.parts.depth))
        places = product([outers, ("max", 1, depth)]) if self.parts.outer else depth  # as partition.cuh counts them
        shared = [places] if self._is_shifted or self.parts.outer else []
        return (*map(fits_int32, (self.columns, *shared)), *self._alignment)

    @property
    def _alignment(self) -> tuple[Formula, ...]:
        if self.vectors is not VectorLayout.ALIGNED:
            return self.aligned(self.domain.flat, self.vec)
        return self.vector_guards(self.domain.inner, self.vec, self.parts.finished)

    def _staged_bytes(self, choice: InnerOuterChoice) -> int:
        """Bytes of shared memory for the rows that a block has on their way: none where they go to registers."""
        if choice.stages == 1:
            return 0
        elements, tensors = choice.threads.per_row * self._chunks(choice) * self._together, self.fetched
        if self._is_striped:
            elements += self.vec
            tensors = (*self.fetched, *{*self._written} - {fid for fid, _ in self._in_place})
        return choice.stages * choice.threads.rows * choice.at_once * elements * self.bytes_of(tensors)

    @property
    def _written(self) -> tuple[int, ...]:
        """The outputs that rows have elements of."""
        inner = self.parts.columns[-1]
        written = self.parts.written_by_rows(self.task)
        return tuple(fid for fid in written if inner in self.domain.accesses[fid].axes)

    @property
    def _in_place(self) -> tuple[tuple[int, int], ...]:
        return tuple(striped.places_of_outputs(self._written, self.fetched, self.bytes_of))

    @property
    def _together(self) -> int:
        """Elements that a thread works on together: those of a vector, unless they lie apart."""
        return striped.together(self.elements) if self._is_striped else self.vec

    @property
    def _vectors(self) -> int:
        """As many of the longest row."""
        return -(-self.elements // self._together)

    def _preference(self, choice: InnerOuterChoice) -> tuple[int, ...]:
        if self._is_striped:
            return striped.preference(choice)
        return choice.preference(self._chunks(choice), self._vectors)

    def _chunks(self, choice: InnerOuterChoice) -> int:
        """Vectors of such a row that each of its threads has."""
        return -(-self._vectors // (choice.threads_per_row * choice.cluster))

    def _check_registers(self, choice: InnerOuterChoice) -> None:
        self._check(choice)
        most = MOST_AT_ONCE if self.fetched else 1
        choice.require_at_most("at_once", most, f"a thread works on {most} rows at most")
        taken = self._registers(choice)
        message = f"a thread would keep {self._chunks(choice)} vectors of {choice.at_once} rows in {taken} registers"
        choice.require(taken <= IN_BLOCK.most, "threads_per_row", message)
        choice.require(choice.stages == 1 or self._can_stage, "stages", "nothing is wide enough to be copied")
        self._check_striped(choice)
        message = "blocks share rows that are staged, with one level of reductions, which more than a warp each have"
        choice.require(choice.cluster == 1 or self._can_share(choice), "cluster", message)
        is_whole = self.vectors is VectorLayout.ALIGNED or choice.threads_per_row >= WARP
        choice.require(is_whole, "threads_per_row", "rows that begin anywhere share no warp")
        staged, reserved = self._staged_bytes(choice), self._reserved_bytes(choice)
        fits = staged + reserved <= self.target.shared_bytes
        choice.require(fits, "stages", f"{choice.stages} stages take {staged} bytes of shared memory")
        choice.require(reserved <= STATIC_BYTES, "cluster", f"partial results take {reserved} of {STATIC_BYTES} bytes")

    def _check_striped(self, choice: InnerOuterChoice) -> None:
        """Rows that are copied as they lie have their places in shared memory, and are unpacked there."""
        if self.vectors is not VectorLayout.ANYWHERE:
            return
        choice.require(choice.stages > 1, "stages", "rows that begin anywhere wait in shared memory")

    def _check_memory(self, choice: InnerOuterChoice) -> None:
        self._check(choice)
        for knob in ("rows_per_block", "at_once"):
            choice.require_at_most(knob, 1, "accumulators in memory are those of one row")
        choice.require_at_most("cluster", 1, "accumulators in memory are those of one block")
        choice.require_at_most("stages", 1, "shared memory is for accumulators")

    def _check(self, choice: InnerOuterChoice) -> None:
        """Raise :class:`KnobError` for blocks that cannot be, or that would have nothing to do."""
        choice.require_power_of_two("threads_per_row", FEWEST_THREADS, MAX_THREADS)
        choice.require_power_of_two("cluster", 1, self.target.cluster)
        choice.require_power_of_two("rows_per_block", 1, MAX_THREADS)
        block = choice.threads.block
        most_rows = rows_beside(choice.threads_per_row, FINISH_THREADS)
        rows = f"rows of {choice.threads_per_row} threads share a block with {most_rows - 1} others at most"
        choice.require_at_most("rows_per_block", most_rows, rows)
        choice.require_block("threads_per_row", block)
        choice.require_blocks("min_blocks", block, self.target.threads_per_multiprocessor)

    def _choices(self) -> Iterator[InnerOuterChoice]:
        """Those that own rows of ``elements`` and whose registers a multiprocessor has."""
        vectors = self._vectors
        if self._is_striped:
            yield from self._striped_choices()
            return
        fewest = WARP if self._is_shifted else FEWEST_THREADS  # warps store together what begins anywhere
        whole = max(fewest, next_power_of_two(vectors))
        staged = [each for each in ROW_THREADS if fewest <= each <= whole] if self._can_stage else []
        prefetched = [whole] if vectors <= BLOCK_THREADS[0] else BLOCK_THREADS
        clusters = [cluster for cluster in CLUSTERS if cluster <= self.target.cluster]
        most_stages = MOST_STAGES if self._is_light else STAGES
        ways = [
            *((each, 1, 1, STAGES, unpacks) for each in staged for unpacks in (True, False)),
            *((each, 1, at_once, 1, True) for each in prefetched for at_once in ((1, 2) if self.fetched else (1,))),
            *((each, cluster, 1, stages, unpacks) for each in staged for cluster in clusters
              for stages in range(STAGES, most_stages + 1) for unpacks in (True, False) if unpacks or self._is_shifted),
        ]  # fmt: skip
        for each, cluster, at_once, stages, unpacks in ways:
            choice = InnerOuterChoice(
                threads_per_row=each, cluster=cluster, rows_per_block=rows_beside(each, BLOCK_THREADS[0]),
                at_once=at_once, stages=stages, unpacks=unpacks, min_blocks=1,
            )  # fmt: skip
            room = self._room(choice) if cluster == 1 or self._can_share(choice) else 0
            if room:
                yield replace(choice, min_blocks=room)

    def _striped_choices(self) -> Iterator[InnerOuterChoice]:
        """The same where a thread's elements lie apart."""
        clusters = [1, *(cluster for cluster in CLUSTERS if cluster <= self.target.cluster)]
        for choice in striped.choices(clusters, STAGES):
            room = self._room(choice) if choice.cluster == 1 or self._can_share(choice) else 0
            if room:
                yield replace(choice, min_blocks=min(room, striped.most_blocks(choice)))

    def _can_share(self, choice: InnerOuterChoice) -> bool:
        """Whether blocks of a cluster can share rows: staged ones with one level of reductions. (Of rows that a warp
        could have for itself there are enough without.)"""
        return choice.stages > 1 and self.levels == 1 and not choice.threads.in_one_warp

    def _room(self, choice: InnerOuterChoice) -> int:
        """The blocks that a multiprocessor has registers and shared memory for; 0 where it has too few of either."""
        registers, reserved = self._registers(choice), self._reserved_bytes(choice)
        if registers > IN_BLOCK.most or reserved > STATIC_BYTES:
            return 0
        blocks = self.target.registers // (-(-registers // 8) * 8 * choice.threads.block)
        return min(MOST_BLOCKS, blocks, self.target.shared_bytes // (self._staged_bytes(choice) + reserved))

    def _reserved_bytes(self, choice: InnerOuterChoice) -> int:
        """Bytes of shared memory for partial results of rows: a place is as large as the largest of them."""
        sizes = [len(self.task.fusion.exprs[index].outputs) for index in self.parts.along]
        warps = choice.cluster * choice.threads.block // WARP
        parts = len(sizes) * max(sizes, default=0) * choice.at_once * warps
        buffers = EXCHANGE_BUFFERS if choice.cluster > 1 else 2
        widest = max(map(self.bytes_of, ([fid] for fid in self.reduced)), default=0)
        meeting = choice.threads_per_row * self.vec * widest if self._is_shifted else 0  # store_by_warps
        return max(RESERVED_BYTES, RESERVED_BYTES // 2 + buffers * parts * PARTIAL_BYTES) + meeting

    @property
    def _can_stage(self) -> bool:
        """Whether threads can copy all that they fetch to shared memory, words of 4 bytes at least, and use it as it
        is."""
        copied = all(self.vec * self.bytes_of([fid]) >= LEAST_COPY for fid in self.fetched)
        return bool(self.fetched) and copied

    def _registers(self, choice: InnerOuterChoice) -> int:
        """What a thread takes: what it keeps for its columns, and what it works with. It keeps accumulators, steady
        values and, unless they wait in shared memory, each input of the rows that it works on and of the next ones.
        Values narrower than a register share one in a vector only. Of steady inputs it keeps most often their product,
        but where registers are counted closely each of them."""
        in_cluster, steady = choice.cluster > 1, self._register_bytes(self.reduced)
        resident = [self._register_bytes([fid]) for fid in self.resident]
        unpacked = sum(resident) if in_cluster and not self._is_striped else max(resident, default=0)
        steady += unpacked if choice.unpacks else self.bytes_of(self.resident)
        ahead = 2 * self._register_bytes(self.fetched, self.vec) if choice.stages == 1 else 0
        kept = -(-self._chunks(choice) * (self._together * steady + choice.at_once * ahead) // 4)
        if self._is_striped:
            return striped.STRIPED.base + kept
        if not in_cluster:
            return IN_BLOCK.base + kept
        beside = alike.BESIDE if self._is_shifted else 0
        return (LIGHT_IN_CLUSTER if self._is_light else IN_CLUSTER).base + beside + kept

    @property
    def _is_light(self) -> bool:
        """Whether rows are walked with few registers: there are no outer indices, two inputs at most, and no ops of
        many instructions."""
        return not self.parts.outer and len(self.fetched) <= 2 and not self.has_costly_ops

    def memory(self, beyond: int) -> Iterator[VariantSpec]:
        """Accumulators in shared memory or, where that is too small, in scratch: rows of more elements than ``beyond``,
        which registers cannot own. The next row still waits in registers where it is twice as long at most. None where
        the vectors that an update takes are too many, or rows are so long that nobody has them."""
        most = self.target.registers // MEMORY_THREADS - IN_BLOCK.base
        updates = self.vec * self._register_bytes(self.reduced) // 4
        if updates > most or beyond >= RUNGS[-1]:
            return
        if self.bytes_of(self.reduced) * beyond < self.target.shared_bytes - RESERVED_BYTES:
            twice = replace(self, elements=2 * beyond)
            rows = 2 * twice._chunks(self._propose_memory()) * self._register_bytes(self.fetched, self.vec) // 4
            if self.fetched and rows + updates <= most:
                yield twice.shared(f"shared{2 * beyond}", self.fetched)
            yield self.shared("shared", ())
        yield self.scratch(self._alignment)

    def shared(self, name: str, fetched: tuple[int, ...]) -> VariantSpec:
        """Accumulators in shared memory. The next row waits in registers where inputs are ``fetched``."""
        way = f"{name}_vec{self.vec}_int32"
        choice = decide(way, self._propose_memory(), self.tuned, self._check_memory)
        heuristics = InnerOuterHeuristics.of(
            choice, storage="shared", chunks=self._chunks(choice) if fetched else 0, fetched=fetched
        )
        shared_bytes = product([self.bytes_of(self.reduced), self.columns])
        fits: list[Formula] = [("le", shared_bytes, self.target.shared_bytes - RESERVED_BYTES)]
        if fetched:
            fits.append(("le", self.columns, heuristics.columns(self.vec)))
        return self._variant(way, (*self._guard, *fits), "int32_t", heuristics, choice, shared_bytes)

    def scratch(self, guard: tuple[Formula, ...]) -> VariantSpec:
        """Accumulators in memory; every sweep reads its inputs again. The fallback for everything."""
        way = f"scratch_{f'vec{self.vec}' if self.vec > 1 else 'scalar'}_int64"
        choice = decide(way, self._propose_memory(), self.tuned, self._check_memory)
        heuristics = InnerOuterHeuristics.of(choice, storage="scratch", chunks=0)
        return self._variant(way, guard, "int64_t", heuristics, choice)

    def _blocks(self, choice: InnerOuterChoice) -> Formula:
        """Blocks, or clusters, that fill the GPU of the call once: each with a few rows at least, or with one where
        rows are so few that some multiprocessors would have none."""
        rows = self.domain.points(self.parts.rows)
        some = ceil_div(rows, choice.rows_per_block)
        several: Formula = ("floor_div", rows, ROWS_PER_BLOCK * choice.rows_per_block)
        wanted: Formula = ("max", 1, several, ("min", some, running_clusters(choice.cluster, 1)))
        running = running_clusters(choice.cluster, choice.min_blocks)
        if self._is_shifted and choice.cluster > 1:
            running = alike.of_few_kinds(running, self.vec, rows)
        blocks: Formula = ("min", running, wanted)
        return alike.of_one_kind(blocks, self.vec, rows) if self._is_shifted and choice.cluster == 1 else blocks

    def _propose_memory(self) -> InnerOuterChoice:
        """A block for each multiprocessor, with one row at a time, whose accumulators are in memory."""
        return InnerOuterChoice(
            threads_per_row=MEMORY_THREADS, cluster=1, rows_per_block=1, at_once=1, stages=1, unpacks=True, min_blocks=1
        )

    def _variant(
        self,
        way: str,
        guard: tuple[Formula, ...],
        index: str,
        heuristics: InnerOuterHeuristics,
        choice: InnerOuterChoice,
        shared_bytes: Formula = 0,
        name: str = "",
    ) -> VariantSpec:
        blocks = simplified(self._blocks(choice))
        whole = is_whole(self, self.parts, blocks) if heuristics.finishes else 0
        partials = partial_parameters(self.task, [*self._leaving], const=False)
        told = call_parameter("whole", whole, "1: blocks have whole outer indices, and finish them")
        parameters = (*kernel_parameters(self.task, self.domain, partials), *([told] if heuristics.finishes else []))
        kernel = self.kernel(
            "inner_outer_persistent", heuristics, vec=self._together, index=index, parameters=parameters,
            vectors=self.vectors,
        )  # fmt: skip
        grid, block = product([heuristics.cluster, blocks]), (heuristics.threads.per_row, heuristics.threads.rows, 1)
        variant = self.variant(way, choice, guard, kernel, grid, block, name=name, shared_bytes=shared_bytes)
        known = KnownSizes(help=bool(self.parts.outer))
        walking = variant.with_kernels(partial(replace, sizes=known))
        return replace(walking, launches=(*walking.launches, *self._finishes(choice, blocks, whole)))

    @property
    def _leaving(self) -> dict[int, int]:
        """The values that have partial results, each with the reduction that it is of: where blocks may have whole
        outer indices, all that are reduced down columns."""
        indices = self.parts.down if self.finishes else self.parts.accumulated
        return {fid: index for index in indices for fid in self.task.fusion.exprs[index].outputs}

    def _finishes(self, choice: InnerOuterChoice, blocks: Formula, whole: Formula) -> Iterator[LaunchSpec]:
        """The launches that combine the partial results of so many ``blocks``. Of rows that are shifted, some have
        several where those are more than run at a time with one each."""
        rows = self.domain.points(self.parts.rows)
        has_several: Formula = ("gt", rows, running_clusters(choice.cluster, 1) if choice.rows_per_block == 1 else 1)
        parts = alike.parts_of(blocks, self.columns, self.vec, has_several) if self._is_shifted else blocks
        finisher = Finisher.of(self, reduced=[*self._leaving], index="int64_t", splits=simplified(parts))
        if not self.parts.outer:
            yield finisher.launch_at_call(FinishGroup(reductions=self.parts.down, kept=self.parts.columns), NARROWEST)
            return
        if whole != 0 and self.parts.scaled:
            splits: Formula = ("min", blocks, self.domain.points(self.parts.outer))
            group = FinishGroup(reductions=tuple(self.parts.scaled), kept=self.parts.columns)
            yield replace(finisher, splits=splits).launch_at_call(group, NARROWEST, needed=whole)
        launch = finisher.launch([self._group(own) for own in self.parts.finishes.values()])
        yield replace(launch, grid=(simplified(product([total([1, product([-1, whole])]), launch.grid[0]])), 1, 1))

    def sharing_scratch(self, variants: Sequence[VariantSpec]) -> list[VariantSpec]:
        """``variants`` with scratch for their partial results: as much as any of them needs."""
        rows, outer = (self.domain.points(axes) for axes in (self.parts.rows, self.parts.outer))
        most = most_partials([variant.launches[0].kernel for variant in variants], rows, self.columns)
        of_outer = total([most, product([2, outer, self.columns])])  # each index may have two more
        scratch = tuple(
            product([self.bytes_of([fid]), of_outer if self.parts.kept[index] else most])
            for fid, index in self._leaving.items()
        )
        return [replace(variant, scratch=scratch) for variant in variants]

    def _group(self, indices: Sequence[int]) -> FinishGroup:
        """How the partial results of the reductions ``indices`` are combined, which keep the same axes and are all
        scaled ones or none. What is expected of them is the same for rows of all lengths, whose variants share a
        kernel."""
        blocks = self.target.multiprocessors * EXPECTED_BLOCKS
        kept = self.parts.kept[indices[0]]
        scaled = [(index, self.parts.scaled[index]) for index in indices if index in self.parts.scaled]
        by_block = not kept and not scaled
        outer = () if by_block else self.parts.outer
        across = tuple(axis for axis in outer if axis not in kept)
        parts = most_parts(blocks, self.domain.points(outer)) if outer else blocks
        return FinishGroup(
            reductions=tuple(indices),
            kept=(*kept, *self.parts.columns),
            partials=hint(product([parts, self.domain.points(across)]), self.sizes),
            results=EXPECTED_COLUMNS * self.expected(kept),
            across=across,
            outer=outer,
            depth=self.parts.depth if outer else (),
            scaled=tuple((index, self._result(each.source), each.factor) for index, each in scaled),
        )

    def _result(self, index: int) -> int:
        return self.task.fusion.exprs[index].outputs[0]
