"""Elementwise tasks whose rows cannot be walked by aligned vectors all through: a thread has vectors of one row.

What index ops read, and tensors that are dense along the innermost axis alone, begin at any element of a row. Outputs
are walked by the vectors that lie where memory is aligned, up to a vector before the row; what else is a row's is cut
out of the aligned words around as many elements of it. An index is taken apart, and where each tensor has its row is
computed, once for all vectors that a thread has of it.
"""

from __future__ import annotations

from functools import partial

from fusebuild.ir.formula import MULTIPROCESSORS, Formula, product, simplified, total
from fusebuild.ir.fusion import Task
from fusebuild.kernels.common.choice import decide
from fusebuild.kernels.common.domain import Access, AxisDomain
from fusebuild.kernels.common.planner import FEW, Planner
from fusebuild.kernels.common.registers import Registers, resident_blocks
from fusebuild.kernels.common.spec import (
    KernelParameter,
    VariantSpec,
    VectorLayout,
    call_parameter,
    formula_parameter,
    kernel_parameters,
)
from fusebuild.kernels.pointwise.narrow import narrow_guard, reciprocal_of, reciprocal_parameters
from fusebuild.kernels.pointwise.thread_vectors import VectorsChoice, check_vectors

THREADS = 128
VECTORS = 8
"""Vectors that a thread has at most."""
FEWEST_LANES = 16
"""Threads along a row before they get more vectors: what they read together is lines of memory."""
FEWEST_FINDING_LANES, LONG_VECTORS = 8, 32
"""The same where it takes more to find what is read elsewhere, and the vectors of a row from which on there are as many
as elsewhere. (H100, embedding_add, 8 and 16 at least: 34681 x 21 rows of 241 elements 168 and 270 us, but 9549 x 29 of
353 197 and 163, 595 x 105 of 693 54 and 44; bshd_to_bhsd of 301 x 93 x 13 rows of 143 90 and 77.)"""
WAVES, FINDING_WAVES = 48, 24
"""Blocks for each multiprocessor before threads get more vectors, and where it takes more to find what is read: where
blocks are few, the last ones have the device alone. (H100, 8 and now: bshd_to_bhsd of 7 x 79 x 17 x 1523 28.8 and 22.9
us, embedding_add of 173 x 21 x 3145 23.4 and 19.7, with 48 there 21.0.)"""
FEWEST_COLUMNS = 32
"""Columns from which on it is faster than to take each element's index apart (H100): rows of 27 have five vectors at
times. No fewer than a vector has elements."""
FEW_POINTS, SHORT_COLUMNS = 2**18, 256
"""Of fewer elements in all, rows with fewer columns are read by elements of one column where rows are found elsewhere.
(H100, embedding_add of 515 rows of 67 elements: 3.3 us by strips, 2.5 by columns; 2060 rows 2.8, 2.6; 10300 rows 3.2,
2.9; 20600 rows 4.5, 4.4; but 132 rows of 2001 2.8, 3.6.)"""
WORD_BYTES = 4
"""A vector is no narrower, where it is cut out of registers."""
MULTIPROCESSOR_THREADS, FEWEST_THREADS = 1536, 1024
"""Threads that a multiprocessor should hold, and with fewer of which it is faster to move element by element (H100,
rope of 118039 x 5 heads of 43 elements: 521 us, and 350)."""
VECTORS_HELD = Registers(base=24, per_axis=2, per_source=3, per_cut=4)
"""Registers of a thread beside the vectors that it holds."""


def has_strips(planner: Planner, vec: int) -> bool:
    """Whether rows of several tensors have to be found, all that lies along them can be moved by vectors of ``vec``
    elements, and outputs are dense over the whole domain."""
    task, domain = planner.task, planner.domain
    points, inner, flat = domain.points(domain.every), domain.inner, {*domain.flat}
    moved = {*flat, *(access.fid for access in (*cut_tensors(domain), *cut_sources(task, domain, vec)))}
    moving = {access.fid for access in (*domain.accesses.values(), *domain.sources.values()) if inner in access.axes}
    if inner == 0 or not {*task.outputs} <= flat or not moving <= moved or (isinstance(points, int) and points <= FEW):
        return False
    choice = _propose(planner, vec)
    return choice.threads * choice.min_blocks >= min(FEWEST_THREADS, planner.target.threads_per_multiprocessor)


def cut_tensors(domain: AxisDomain) -> tuple[Access, ...]:
    """What lies along rows but begins anywhere: inputs that are not dense over the whole domain."""
    flat, inner = {*domain.flat}, domain.inner
    inputs = (access for access in domain.accesses.values() if access.fid not in flat)
    return tuple(access for access in inputs if access.strides.get(inner) == 1)


def cut_sources(task: Task, domain: AxisDomain, vec: int) -> tuple[Access, ...]:
    """The same of what index ops read, where ``vec`` elements fill a register at least, and lie where nothing says that
    changes along the row."""
    value, inner = task.fusion.value, domain.inner
    wide = (access for access in domain.vector_sources if vec * value(access.tensor).dtype.bytes >= WORD_BYTES)
    return tuple(
        access
        for access in wide
        if access.position is None
        or inner not in domain.axes_of(access.position.index, value(access.position.index).tensor)
    )


def strips_variant(planner: Planner, vec: int) -> VariantSpec:
    """The variant for vectors of ``vec`` elements.

    Raises :class:`KnobError` for a tuned choice that no kernel can be made with.
    """
    domain, way = planner.domain, f"strips_vec{vec}_int32"
    columns, rows = domain.axes[domain.inner].extent, domain.points(range(domain.inner))
    cut = (*cut_tensors(domain), *cut_sources(planner.task, domain, vec))
    choice = decide(way, _propose(planner, vec), planner.tuned, partial(check_vectors, target=planner.target))
    lanes = _lanes(domain, vec, choice)
    parameters = (
        *kernel_parameters(planner.task, domain),
        *reciprocal_parameters(domain),
        *(_elements(planner, access) for access in cut_sources(planner.task, domain, vec)),
        call_parameter("lanes", lanes, "threads along a row"),
        call_parameter("lanes_reciprocal", simplified(reciprocal_of(lanes)), "reciprocal of lanes"),
    )
    kernel = planner.kernel("pointwise_strips", choice, vec=vec, parameters=parameters, vectors=VectorLayout.SHIFTED)
    aligned = planner.aligned(dict.fromkeys([*domain.flat, *(access.tensor for access in cut)]), vec)
    guard = (*narrow_guard(planner.task, domain), *aligned, ("ge", columns, FEWEST_COLUMNS), *_pays(domain))
    grid = simplified(("ceil_div", product([rows, lanes]), choice.threads))
    return planner.variant(way, choice, guard, kernel, grid, (choice.threads, 1, 1))


def _pays(domain: AxisDomain) -> tuple[Formula, ...]:
    """What holds where strips are faster than elements of one column, the kernel of fusions that read elsewhere."""
    if not domain.sources:
        return ()
    many = ("floor_div", domain.points(domain.every), FEW_POINTS)
    long = ("floor_div", domain.axes[domain.inner].extent, SHORT_COLUMNS)
    return (simplified(("ge", ("max", many, long), 1)),)


def _elements(planner: Planner, access: Access) -> KernelParameter:
    """How many elements may be read of the tensor of ``access``."""
    tensor = planner.task.fusion.value(access.tensor).tensor
    return formula_parameter(f"{access.pointer}_elements", product(tensor.stored_shape))


def _lanes(domain: AxisDomain, vec: int, choice: VectorsChoice) -> Formula:
    """The threads along a row."""
    vectors, points = _vectors(domain.axes[domain.inner].extent, vec), domain.points(domain.every)
    share = product([choice.threads * vec * (FINDING_WAVES if domain.sources else WAVES), MULTIPROCESSORS])
    fewest: Formula = FEWEST_LANES
    if domain.sources:
        more = FEWEST_LANES - FEWEST_FINDING_LANES
        fewest = total([FEWEST_FINDING_LANES, product([more, ("ge", vectors, LONG_VECTORS)])])
    each = ("min", choice.vectors, ("floor_div", vectors, fewest), ("floor_div", points, share))
    return simplified(("ceil_div", vectors, ("max", 1, each)))


def _vectors(columns: Formula, vec: int) -> Formula:
    """The most aligned vectors that a row of ``columns`` has elements in: it begins in a vector at a multiple of what
    ``columns`` and ``vec`` have in common."""
    steps = [product([-(1 << bit), ("eq", ("mod", columns, 2 << bit), 0)]) for bit in range(vec.bit_length() - 1)]
    return simplified(("ceil_div", total([columns, *steps, vec - 1]), vec))


def _propose(planner: Planner, vec: int) -> VectorsChoice:
    domain, target = planner.domain, planner.target
    cut = [*(access.tensor for access in (*cut_tensors(domain), *cut_sources(planner.task, domain, vec)))]
    vectors = [*domain.flat, *cut]
    held = sum(-(-vec * planner.bytes_of([fid]) // WORD_BYTES) for fid in vectors)
    registers = VECTORS_HELD.base + held + VECTORS_HELD.per_axis * domain.inner
    registers += VECTORS_HELD.per_source * len(domain.sources) + VECTORS_HELD.per_cut * len(cut)
    blocks = resident_blocks(target, THREADS, registers, MULTIPROCESSOR_THREADS // THREADS)
    return VectorsChoice(threads=THREADS, vectors=VECTORS, min_blocks=blocks)
