"""Reductions over the innermost axes whose results are broadcast back: softmax, norms, any number of levels.

Each level is one sweep over the row; every reduction of a level shares the sweep, one shuffle pass and one barrier.
Inputs that several sweeps read are kept on chip: in registers for rows up to a capacity, for longer ones in those of a
cluster of blocks (sm_90 and later) or in shared memory; where none holds the row it is read again. Values between
inputs and outputs are recomputed in each sweep that needs them, since arithmetic is free beside memory (nvFuser's inner
persistent scheduler projects its buffers to inputs likewise); all but costly ones, such as the exponentials of a
softmax, which are kept where registers last.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

from fusebuild.formula import Formula, product
from fusebuild.ir import Task
from fusebuild.ops import Kind, op_of
from fusebuild.schedule.domain import AxisDomain
from fusebuild.schedule.kernel import (
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
from fusebuild.schedule.rows import (
    MAX_THREADS,
    WARP,
    RowThreads,
    check_outputs,
    check_reductions,
    check_running,
    kept_axes,
    levels,
    next_power_of_two,
    reduced_axes,
    row_threads,
)
from fusebuild.schedule.shifted import has_odd_rows, shifted_guards
from fusebuild.target import Target

ONE_BLOCK = 65536
"""Elements of a tensor that one block reduces and walks again sooner than two more kernels start."""

COSTLY = frozenset(
    {"exp", "exp2", "expm1", "log", "log1p", "log2", "log10", "pow", "sqrt", "rsqrt", "reciprocal", "div", "truediv",
     "tanh", "sigmoid", "silu", "erf", "erfc", "erfinv", "erfcinv", "sin", "cos", "tan", "asin", "acos", "atan",
     "atan2", "sinh", "cosh", "asinh", "acosh", "atanh", "lgamma", "remainder", "fmod", "philox_uniform"}
)  # fmt: skip
"""Ops of many instructions: a value is worth the registers that keep it."""

KEPT_BLOCK = 512
"""Threads of a block up to which costly values are kept: larger ones are alone on their multiprocessor."""

MOST_REGISTERS = 128
"""Registers of a thread beyond which too few blocks hide each other's waits."""

OTHER_REGISTERS = 16
"""What a thread takes beside what it keeps of its row."""

REGISTER_BYTES = 128
"""Bytes of inputs that one thread keeps in registers: half of its 64 at full occupancy for 4-byte registers."""


CLUSTER_ROW_BYTES = 96 * 1024
"""Bytes of a row's inputs beyond which a cluster keeps them: up to there one block does, which waits for no peers."""

CLUSTER_SHARE_BYTES = 64 * 1024
"""Bytes of a row that one block of a cluster keeps, where so many blocks may be: few enough that blocks of several rows
share a multiprocessor, and one row's reductions do not idle it."""

CLUSTER_THREAD_BYTES = 128
"""Bytes of a row that one thread of a cluster keeps, more only where its threads do not suffice."""

CLUSTER_BUFFER_BYTES = 8 * 1024
"""What partial results of one reduction may take, one of each warp of a cluster: cluster.cuh's kClusterBufferBytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PersistentHeuristics:
    """``storage`` is registers, shared, cluster or reread; ``chunks`` the vectors of a row that a thread keeps
    (registers and cluster only); ``cached`` the inputs that are kept, ``kept`` the values that later sweeps take from
    the one that computes them."""

    threads: RowThreads
    storage: str
    chunks: int
    cached: tuple[int, ...]
    kept: tuple[int, ...] = ()

    @property
    def in_registers(self) -> bool:
        return self.storage in ("registers", "cluster")

    def grid(self, rows: Formula) -> Formula:
        """Blocks for ``rows`` rows."""
        return self.threads.grid(rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterHeuristics(PersistentHeuristics):
    """``cluster`` neighbouring blocks walk a row together, their vectors in turn."""

    cluster: int

    def grid(self, rows: Formula) -> Formula:
        return product([self.cluster, rows])

    @property
    def capacity(self) -> int:
        """Vectors of the longest row that the cluster keeps."""
        return self.cluster * self.threads.per_row * self.chunks


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

    def schedule(self, task: Task, target: Target, sizes: Mapping[str, int]) -> tuple[VariantSpec, ...]:
        domain = try_domain(self.name, task)
        assert isinstance(domain, AxisDomain)
        columns = axis_product(domain, reduced_axes(domain))
        inner = len(domain.axes) - 1
        vec = vector_width(task, domain, inner)
        vector = vector_guards(task, domain, inner, vec)
        small = fits_int32(columns)
        cluster = _cluster(task, target, domain, columns, vec, (small, *vector), sizes)
        variants = [
            *cluster,
            _registers(task, target, domain, columns, vec, (small, *vector), sizes),
            _shared(task, target, domain, columns, vec, (small, *vector), sizes),
        ]
        if len(reduced_axes(domain)) == 1 and has_odd_rows(task, domain, vec, columns):
            guard = (small, *shifted_guards(task, domain, vec))
            variants.append(_registers(task, target, domain, columns, vec, guard, sizes, shifted=True))
        elif vec > 1:
            variants.append(_registers(task, target, domain, columns, 1, (small,), sizes))
        if vec > 1 and not cluster and not _fits_shared(task, target, domain, hint(columns, sizes)):
            variants.append(_reread(task, domain, columns, vec, "int32_t", (small, *vector), sizes))
        variants.append(_reread(task, domain, columns, 1, "int64_t", (), sizes))
        return usable(variants)


def _fits_one_block(elements: Formula) -> bool:
    """False for sizes not known now: a tensor reduced as a whole is as large as a tensor can be."""
    return isinstance(elements, int) and elements <= ONE_BLOCK


def cached_inputs(task: Task, domain: AxisDomain) -> tuple[int, ...]:
    """Inputs worth keeping: dense ones of the whole domain that more than one sweep reads."""
    everything = tuple(range(len(domain.axes)))
    sweeps = input_sweeps(task)
    return tuple(
        fid
        for fid in vector_fids(domain, everything[-1])
        if fid in task.inputs and domain.accesses[fid].axes == everything and len(sweeps.get(fid, ())) > 1
    )


def input_sweeps(task: Task) -> dict[int, set[int]]:
    """For each input, the sweeps (0 for the first level's reductions, one more for the final stores) that read it."""
    needed, _ = _needs(task, ())
    return {fid: sweeps for fid, sweeps in needed.items() if fid in task.inputs}


def _needs(task: Task, costly: Container[int]) -> tuple[dict[int, set[int]], dict[int, int]]:
    """For each value the sweeps that need it; and for each of the ``costly`` that several do, the first, which computes
    it for all."""
    kept: dict[int, int] = {}
    level = levels(task)
    last = max(level.values())
    needed: dict[int, set[int]] = {fid: {last} for fid in task.outputs}
    for index in reversed(task.exprs):
        expr = task.fusion.exprs[index]
        sweeps = set().union(*(needed.get(fid, set()) for fid in expr.outputs))
        if op_of(expr).kind is Kind.REDUCTION:
            sweeps = {level[expr.outputs[0]] - 1}
        elif expr.outputs[0] in costly and len(sweeps) > 1:
            kept[expr.outputs[0]] = min(sweeps)
            sweeps = {min(sweeps)}
        for fid in expr.inputs:
            needed.setdefault(fid, set()).update(sweeps)
    return needed, kept


def kept_values(task: Task, domain: AxisDomain) -> dict[int, int]:
    """Costly values of the row that several sweeps need, the last one of a chain, and the sweep that computes each."""
    columns = {*reduced_axes(domain)}
    exprs = [expr for index in task.exprs if (expr := task.fusion.exprs[index]).op in COSTLY]
    values = [value for expr in exprs if (value := task.fusion.value(expr.outputs[0])).is_tensor]
    _, kept = _needs(task, {value.fid for value in values if domain.axes_of(value.fid, value.tensor) & columns})
    return kept


def _registers(
    task: Task,
    target: Target,
    domain: AxisDomain,
    columns: Formula,
    vec: int,
    guard: tuple[Formula, ...],
    sizes: Mapping[str, int],
    *,
    shifted: bool = False,
) -> VariantSpec:
    """The row in registers: at most ``REGISTER_BYTES`` of cached inputs per thread. ``shifted`` vectors begin up to
    ``vec - 1`` columns before the row; a row that needs them is odd, and then no thread has registers for more."""
    cached = cached_inputs(task, domain)
    vector_bytes = _vector_bytes(task, cached, vec)
    # What combines with a lambda has more than one number to keep, and temporaries.
    available = REGISTER_BYTES // 2 if any(task.fusion.exprs[index].combine for index in task.exprs) else REGISTER_BYTES
    most = max(1, available // vector_bytes) if cached else max(1, 16 // vec)
    before = vec - 1 if shifted else 0
    size = hint(columns, sizes) + before
    tight = shifted and hint(columns, sizes) % vec != 0
    wanted = min(4 if vec > 1 else 16, most)
    threads, chunks = _layout(size, vec, wanted, most, tight=tight)
    kept = tuple(kept_values(task, domain))
    if kept and not _lasts(task, target, threads, chunks * vec, cached, kept):
        fewer = _layout(size, vec, -(-wanted // 2), most, tight=tight)
        if _lasts(task, target, fewer[0], fewer[1] * vec, cached, kept):
            threads, chunks = fewer
        else:
            kept = ()
    heuristics = PersistentHeuristics(threads=threads, storage="registers", chunks=chunks, cached=cached, kept=kept)
    fits: Formula = ("le", columns, threads.per_row * chunks * vec - before)
    name = f"{'shifted' if shifted else 'registers'}_vec{vec}_int32"
    return _variant(task, domain, name, (*guard, fits), vec, "int32_t", heuristics, shifted=shifted)


def _cluster(
    task: Task,
    target: Target,
    domain: AxisDomain,
    columns: Formula,
    vec: int,
    guard: tuple[Formula, ...],
    sizes: Mapping[str, int],
) -> tuple[VariantSpec, ...]:
    """The row in the registers of a cluster of blocks: one variant, for rows too long for one block to keep well.

    There is none where the recipe tells of no such rows, since to compile it is not for free; where no cluster keeps
    the longest row that it tells of; and where partial results are too large to exchange. It is made for that longest
    row, and shorter ones down to ``CLUSTER_ROW_BYTES`` take it too: no thread then has more vectors, and all blocks
    have the same share but for one vector a thread.
    """
    cached = cached_inputs(task, domain)
    vector_bytes = _vector_bytes(task, cached, vec)
    size = _long_row(task, columns, sizes, CLUSTER_ROW_BYTES * vec // max(1, vector_bytes))
    if target.cluster == 1 or not vector_bytes or size is None:
        return ()
    row_bytes = -(-size // vec) * vector_bytes
    cluster = min(target.cluster, max(2, next_power_of_two(-(-row_bytes // CLUSTER_SHARE_BYTES))))
    most, wanted = (max(1, most // vector_bytes) for most in (REGISTER_BYTES, CLUSTER_THREAD_BYTES))
    threads, chunks = _layout(-(-size // cluster), vec, wanted, most)
    kept = tuple(kept_values(task, domain))
    if not _lasts(task, target, threads, chunks * vec, cached, kept):
        kept = ()
    heuristics = ClusterHeuristics(
        threads=threads, storage="cluster", chunks=chunks, cached=cached, kept=kept, cluster=cluster
    )
    if heuristics.capacity * vec < size or not _exchanges(task, cluster * threads.per_row // WARP):
        return ()
    above: Formula = ("lt", CLUSTER_ROW_BYTES, product([vector_bytes // vec, columns]))
    fits: Formula = ("le", columns, heuristics.capacity * vec)
    name = f"cluster{cluster}_vec{vec}_int32"
    return (_variant(task, domain, name, (*guard, above, fits), vec, "int32_t", heuristics),)


def _vector_bytes(task: Task, fids: Sequence[int], vec: int) -> int:
    """Bytes of registers that a vector of each of ``fids`` takes: whole registers."""
    return sum(max(4, vec * task.fusion.value(fid).dtype.bytes) for fid in fids)


def _long_row(task: Task, columns: Formula, sizes: Mapping[str, int], beyond: int) -> int | None:
    """The elements of a row longer than ``beyond`` that the recipe tells of: in its first case, else the longest that
    its facts allow. (Sizes that facts name have variants of their own.)"""
    facts = {fact.symbol: fact.max for fact in task.fusion.facts}
    found = (hint(columns, sizes), hint(columns, {**sizes, **{symbol: most for symbol, most in facts.items() if most}}))
    return next((size for size in found if size > beyond), None)


def _exchanges(task: Task, warps: int) -> bool:
    """Whether the partial results of each reduction, one of each of a cluster's warps, have room where they meet. A
    value takes 8 bytes at most, as does each part of a lambda's state."""
    parts = [len(expr.outputs) if expr.combine else 1 for expr in map(task.fusion.exprs.__getitem__, reductions(task))]
    return 8 * max(parts) * warps <= CLUSTER_BUFFER_BYTES


def _layout(size: int, vec: int, vectors: int, most: int, *, tight: bool = False) -> tuple[RowThreads, int]:
    """Threads with about ``vectors`` vectors each of a row of ``size``, and how many they have: ``most`` at most, and
    where they are not ``tight`` a power of two, for rows that are somewhat longer."""
    threads = row_threads(size, vec, vectors)
    chunks = -(-size // (threads.per_row * vec))
    return threads, min(most, chunks if tight else next_power_of_two(chunks))


def _lasts(
    task: Task, target: Target, threads: RowThreads, columns: int, cached: Sequence[int], kept: Sequence[int]
) -> bool:
    """Whether two blocks have the registers to keep so much for ``columns`` to a thread."""
    size = {fid: task.fusion.value(fid).dtype.bytes for fid in (*cached, *kept)}
    words = columns * (sum(size[fid] for fid in cached) + sum(max(4, size[fid]) for fid in kept)) // 4
    most = min(MOST_REGISTERS, target.registers // (2 * threads.block))
    return threads.block <= KEPT_BLOCK and OTHER_REGISTERS + words <= most


def _shared(
    task: Task,
    target: Target,
    domain: AxisDomain,
    columns: Formula,
    vec: int,
    guard: tuple[Formula, ...],
    sizes: Mapping[str, int],
) -> VariantSpec:
    """The row in shared memory: rows beyond the registers, up to what one block may use."""
    cached = cached_inputs(task, domain)
    per_element = sum(task.fusion.value(fid).dtype.bytes for fid in cached)
    size = hint(columns, sizes)
    wanted = row_threads(max(size, 2048 * vec), vec, 8).per_row
    heuristics = PersistentHeuristics(
        threads=RowThreads(per_row=min(MAX_THREADS, wanted), rows=1), storage="shared", chunks=0, cached=cached
    )
    shared_bytes = product([per_element, columns])
    fits: Formula = ("le", shared_bytes, target.shared_bytes - 2048)
    name = f"shared_vec{vec}_int32"
    return _variant(task, domain, name, (*guard, fits), vec, "int32_t", heuristics, shared_bytes)


def _fits_shared(task: Task, target: Target, domain: AxisDomain, columns: int) -> bool:
    """Whether shared memory holds a row of ``columns`` elements."""
    per_element = sum(task.fusion.value(fid).dtype.bytes for fid in cached_inputs(task, domain))
    return per_element * columns <= target.shared_bytes - 2048


def _reread(
    task: Task,
    domain: AxisDomain,
    columns: Formula,
    vec: int,
    index: str,
    guard: tuple[Formula, ...],
    sizes: Mapping[str, int],
) -> VariantSpec:
    """Each sweep reads its inputs again: by vectors where the rows at hand are too long for anything else, and the
    fallback for everything, one element at a time, with 64-bit indices."""
    threads = row_threads(hint(columns, sizes), vec, 8)
    heuristics = PersistentHeuristics(threads=threads, storage="reread", chunks=0, cached=())
    name = "reread_scalar_int64" if vec == 1 else f"reread_vec{vec}_int32"
    return _variant(task, domain, name, guard, vec, index, heuristics)


def _variant(
    task: Task,
    domain: AxisDomain,
    name: str,
    guard: Sequence[Formula],
    vec: int,
    index: str,
    heuristics: PersistentHeuristics,
    shared_bytes: Formula = 0,
    *,
    shifted: bool = False,
) -> VariantSpec:
    kernel = KernelSpec(
        template="inner_persistent",
        task=task,
        domain=domain,
        parameters=kernel_parameters(task, domain),
        index=index,
        vec=vec,
        heuristics=heuristics,
        shifted=shifted,
    )
    rows = axis_product(domain, kept_axes(domain))
    launch = LaunchSpec(
        kernel=kernel,
        grid=(heuristics.grid(rows), 1, 1),
        block=(heuristics.threads.block, 1, 1),
        shared_bytes=shared_bytes,
    )
    return VariantSpec(name=name, guard=tuple(guard), launches=(launch,))
