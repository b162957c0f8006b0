"""Elementwise tasks whose rows are of any length: a thread has **runs** of neighbouring elements of outputs, aligned
vectors of them, whatever rows they are of.

What lies as the domain does moves by such vectors. All else is read by elements, or by pairs of them where rows are
even. Runs of a thread are whole points of the first axis apart, so that all of them are of the same rows within that:
where each element lies is found once, and what does not change along the first axis is loaded once. Where the first
axis is short, a thread has one run. Elements beside the whole runs have a thread each.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from fusebuild.artifact.plan import FormulaArg
from fusebuild.ir.formula import MULTIPROCESSORS, Formula, product, simplified, total
from fusebuild.kernels.common.choice import Choice, decide
from fusebuild.kernels.common.domain import AxisDomain
from fusebuild.kernels.common.planner import Planner, Width
from fusebuild.kernels.common.registers import Registers, resident_blocks
from fusebuild.kernels.common.rows import MAX_THREADS, WARP
from fusebuild.kernels.common.spec import VariantSpec, call_parameter, formula_parameter, kernel_parameters
from fusebuild.kernels.pointwise.narrow import finds_rows, narrow_guard, reciprocal_parameters
from fusebuild.target.table import Target

THREADS = 128
RUN = 8
"""Elements of a run."""
RUNS, MOST_RUNS = 8, 64
"""Runs of a thread at most: where elements lie is an eighth of what it computes then. And how many it may have."""
WAVES = 4
"""Blocks for each multiprocessor before threads get more than one run."""
STARTS = "starts"
"""How kernels call the number of threads that have runs; others have an element each."""
MULTIPROCESSOR_THREADS = 1024
ELEMENTS = Registers(base=24, per_axis=2, per_source=4)
"""Registers of a thread beside what it holds of a run's elements."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunsChoice(Choice):
    """Blocks of ``threads``, each of which has so many ``runs`` at most, of ``unroll`` accesses each."""

    FEWER = ("unroll", "threads")

    threads: int
    unroll: int
    runs: int
    min_blocks: int


def writes_runs(planner: Planner) -> bool:
    """Whether outputs may be written by runs: they lie as the domain does, which may have more elements than the device
    has threads."""
    domain = planner.domain
    points = domain.points(domain.every)
    is_few = isinstance(points, int) and points <= _threads(planner)
    return domain.inner > 0 and {*planner.task.outputs} <= {*domain.flat} and not is_few


def _threads(planner: Planner) -> int:
    """The threads of the device."""
    return planner.target.multiprocessors * planner.target.threads_per_multiprocessor


def runs_variant(planner: Planner, width: Width) -> VariantSpec:
    """The variant for accesses as ``width`` has them to what is no run in memory.

    Raises :class:`KnobError` for a tuned choice that no kernel can be made with.
    """
    way, guard, vec, index = width
    task, domain = planner.task, planner.domain
    choice = decide(way, _propose(planner, vec), planner.tuned, partial(check_runs, target=planner.target))
    run, points = vec * choice.unroll, domain.points(domain.every)
    batches = _batches(domain, run, choice)
    step = simplified(("min", points, product([batches, domain.points(domain.every[1:])])))
    starts: Formula = ("floor_div", step, run)
    parameters = (
        *kernel_parameters(task, domain),
        *reciprocal_parameters(domain),
        formula_parameter(STARTS, starts, "threads that have runs"),
        call_parameter("batches", batches, "points of the first axis from a run to the next one"),
        call_parameter("step", step, "elements of them, or all there are"),
    )
    kernel = planner.kernel("pointwise_runs", choice, vec=vec, index=index, parameters=parameters)
    two_rows: tuple[Formula, ...] = (("ge", domain.axes[domain.inner].extent, run),) if finds_rows(domain) else ()
    many: Formula = ("gt", points, _threads(planner))
    aligned = planner.aligned(domain.flat, run)
    guard = tuple(dict.fromkeys([*guard, *narrow_guard(task, domain), *aligned, *two_rows, many]))
    threads = total([starts, ("floor_div", ("mod", points, run), vec)])
    grid = simplified(("ceil_div", threads, choice.threads))
    return planner.variant(way, choice, guard, kernel, grid, (choice.threads, 1, 1))


def lone_variant(planner: Planner, width: Width, runs: VariantSpec) -> VariantSpec:
    """The variant by the kernel of ``runs`` where no thread has any: all have an element, which may be anywhere in
    memory."""
    name, guard, vec, _ = width
    (launch,) = runs.launches
    zero: FormulaArg = FormulaArg(formula=0)
    parameters = (replace(each, arg=zero) if each.name == STARTS else each for each in launch.kernel.parameters)
    kernel = replace(launch.kernel, parameters=tuple(parameters))
    points = planner.domain.points(planner.domain.every)
    grid = simplified(("ceil_div", points, vec * launch.block[0]))
    guard = tuple(dict.fromkeys([*guard, *narrow_guard(planner.task, planner.domain)]))
    return replace(runs, name=name, guard=guard, launches=(replace(launch, kernel=kernel, grid=(grid, 1, 1)),))


def _batches(domain: AxisDomain, run: int, choice: RunsChoice) -> Formula:
    """The points of the first axis from a run of a thread to its next one: so many that both begin at a multiple of
    a run, and that threads have no more than their share."""
    extent, points, within = domain.axes[0].extent, domain.points(domain.every), domain.points(domain.every[1:])
    parts = (1 << bit for bit in range(run.bit_length() - 1))
    least = total([1, *(product([part, ("gt", ("mod", within, run // part), 0)]) for part in parts)])
    share = product([choice.threads * run * WAVES, MULTIPROCESSORS])
    each: Formula = ("max", 1, ("min", choice.runs, ("floor_div", points, share)))
    return simplified(product([least, ("ceil_div", extent, product([least, each]))]))


def _propose(planner: Planner, vec: int) -> RunsChoice:
    """As many blocks as the registers of their threads allow: for vectors of what lies as the domain does, and for what
    is kept of each other element: a value, or where it is."""
    domain, target = planner.domain, planner.target
    others = [fid for fid in domain.accesses if fid not in domain.flat]
    kept = sum(max(4, planner.bytes_of([fid])) for fid in others) + 8 * len(domain.sources)
    registers = ELEMENTS.base + RUN * (kept + planner.bytes_of(domain.flat)) // 4
    registers += ELEMENTS.per_axis * domain.inner + ELEMENTS.per_source * len(domain.sources)
    most = min(MULTIPROCESSOR_THREADS, target.threads_per_multiprocessor)
    blocks = resident_blocks(target, THREADS, registers, most // THREADS)
    return RunsChoice(threads=THREADS, unroll=RUN // vec, runs=RUNS, min_blocks=blocks)


def check_runs(choice: RunsChoice, target: Target) -> None:
    """Raise :class:`KnobError` for blocks that cannot be."""
    choice.require_power_of_two("threads", WARP, MAX_THREADS)
    choice.require_power_of_two("unroll", 1, RUN)
    choice.require_power_of_two("runs", 1, MOST_RUNS)
    choice.require_blocks("min_blocks", choice.threads, target.threads_per_multiprocessor)
