"""Elementwise tasks whose rows are of any length: a thread has **runs** of neighbouring elements of outputs, aligned
vectors of them, whatever rows they are of.

What lies as the domain does moves by such vectors, all else is read by elements. Runs of a thread are whole points of
the first axis apart, so that all of them are of the same rows within that: where each element lies is found once, and
what does not change along the first axis is loaded once. Where the first axis is short, a thread has one run. Elements
beside the whole runs have a thread each; so have all where no vector may begin.
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
from fusebuild.kernels.pointwise.rows import FEWEST_ROWS
from fusebuild.kernels.pointwise.strips import SHORT_COLUMNS
from fusebuild.kernels.pointwise.walks import FEWEST_COLUMNS
from fusebuild.target.table import Target

THREADS = 128
RUN = 8
"""Elements of a run."""
RUNS, MOST_RUNS = 8, 64
"""Runs of a thread at most where something does not change along the first axis: where elements lie, and that, is an
eighth of what it finds and loads then. Else one. And how many it may have. (H200, one and eight: rope of 256 x 2880 x
14 heads of 11 173 and 139 us, embedding_add of 20480 x 256 x 27 214 and 137; but bshd_to_bhsd of 3520 x 1088 x 2 x 2
21.5 and 22.0.)"""
WAVES = 4
"""Blocks for each multiprocessor before threads get more than one run."""
STARTS = "starts"
"""How kernels call the number of threads that have runs; others have an element each."""
FINDING_ELEMENTS = 32
"""Elements for each thread of the device from which on runs are faster where an index says which rows to read: a run
waits for that, too. (H200, embedding_add with 2900 x 50 rows of 19: 7.6 us, 6.9 by elements; 1003 x 501 of 45: 30.7,
36.0, by strips 37.7; 20480 x 256 of 27: 114, 204.)"""
FEWEST_BATCHES = 16
"""Points of the first axis from which on runs are faster than walks along heads. (H200, rope with 75 heads of 3023: 119
tokens 40.6 us, 46.2 by walks.)"""
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
    is_few = isinstance(points, int) and points <= planner.target.threads
    return domain.inner > 0 and {*planner.task.outputs} <= {*domain.flat} and not is_few


def _pays(planner: Planner, walked: int | None) -> tuple[Formula, ...]:
    """What holds where there are enough elements for runs, and no kernel of long rows is faster."""
    domain, threads = planner.domain, planner.target.threads
    points, columns = domain.points(domain.every), domain.axes[domain.inner].extent
    if finds_rows(domain):
        return (("gt", points, FINDING_ELEMENTS * threads), ("ge", columns, RUN), ("lt", columns, SHORT_COLUMNS))
    many: Formula = ("gt", points, threads)
    if walked is None:
        return (many,)
    is_short: Formula = ("lt", domain.points(domain.every[walked + 1 :]), FEWEST_COLUMNS)
    has_few: Formula = ("lt", domain.axes[walked].extent, FEWEST_ROWS)
    return (many, ("ge", ("max", ("floor_div", domain.axes[0].extent, FEWEST_BATCHES), is_short, has_few), 1))


def runs_variant(planner: Planner, width: Width, walked: int | None) -> VariantSpec:
    """The variant for accesses as ``width`` has them to what is no run in memory. Where there is one, another variant
    walks long rows along the axis ``walked``.

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
    aligned = planner.aligned(domain.flat, run)
    guard = tuple(dict.fromkeys([*guard, *narrow_guard(task, domain), *aligned, *_pays(planner, walked)]))
    threads = total([starts, ("floor_div", ("mod", points, run), vec)])
    grid = simplified(("ceil_div", threads, choice.threads))
    return planner.variant(way, choice, guard, kernel, grid, (choice.threads, 1, 1))


def lone_variant(planner: Planner, width: Width, runs: VariantSpec) -> VariantSpec:
    """The variant by the kernel of ``runs`` where no thread has any: all have elements, which may be anywhere in
    memory, in turns. (H200, one after another: rope of 2000 x 32 x 1001, which no vector may be read of, 433 us.)"""
    name, guard, vec, _ = width
    (launch,) = runs.launches
    zero: FormulaArg = FormulaArg(formula=0)
    parameters = (replace(each, arg=zero) if each.name == STARTS else each for each in launch.kernel.parameters)
    kernel = replace(launch.kernel, parameters=tuple(parameters))
    points = planner.domain.points(planner.domain.every)
    threads, choice = launch.block[0], launch.kernel.heuristics
    assert isinstance(choice, RunsChoice)
    places = product([MULTIPROCESSOR_THREADS * vec, MULTIPROCESSORS])
    turns: Formula = ("max", 1, ("min", choice.unroll, ("floor_div", points, places)))
    grid = simplified(("ceil_div", points, product([vec * threads, turns])))
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
    is_steady = any(0 not in domain.accesses[fid].axes for fid in others)
    return RunsChoice(threads=THREADS, unroll=RUN // vec, runs=RUNS if is_steady else 1, min_blocks=blocks)


def check_runs(choice: RunsChoice, target: Target) -> None:
    """Raise :class:`KnobError` for blocks that cannot be."""
    choice.require_power_of_two("threads", WARP, MAX_THREADS)
    choice.require_power_of_two("unroll", 1, RUN)
    choice.require_power_of_two("runs", 1, MOST_RUNS)
    choice.require_blocks("min_blocks", choice.threads, target.threads_per_multiprocessor)
