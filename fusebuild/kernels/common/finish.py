"""Kernels that combine partial results: one launch for all that the kernel before it left.

Blocks that share a reduction leave partial results in scratch; here they are combined in a fixed order, so that results
are bitwise equal from run to run. Such a kernel is so short that to begin it, and to wait for memory once, is most of
its time. So there is one of them: **groups** of reductions that keep other axes share out its blocks, those whose
results have the most partial ones first, as they take longest. It begins while the kernel before it ends, by
which time it knows where its partial results are, and a thread loads all of them before it combines the first.

A sum that is scaled from the partial results of another one (:mod:`fusebuild.kernels.inner_outer.axes`) reads them all
again. Where one thread can finish an outer index of the other, it is made **from** its results instead: a block owns
columns, its threads finish their outer indices, and what they find is summed over the block. How many columns that are,
and how many threads share an index, follows from the sizes of a call. (H100, adaln's backward pass, where eight columns
had a block whatever there was to do: 7 samples of 13 x 63395 92 -> 43 us, 1 of 60 x 120001 188 -> 54.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fusebuild.ir.dtype import DType
from fusebuild.ir.formula import MULTIPROCESSORS, Formula, ceil_div, product, simplified, total
from fusebuild.ir.fusion import Task
from fusebuild.kernels.common.filling import most_parts
from fusebuild.kernels.common.lambdas import folded
from fusebuild.kernels.common.planner import Planner
from fusebuild.kernels.common.rows import next_power_of_two
from fusebuild.kernels.common.spec import (
    KernelParameter,
    KnownSizes,
    LaunchSpec,
    call_parameter,
    kernel_parameters,
    tensor_parameters,
    workspace_parameter,
)
from fusebuild.ops.table import op_of

FINISH_THREADS = 256
MANY_THREADS = 512
"""Threads of a block where some result has more partial ones than its part of FINISH_THREADS can load at once."""
REGISTERS_AHEAD = 32
"""Registers that a thread fills with partial results before it combines the first, at most."""
MOST_AHEAD = 20
"""Partial results that a thread loads before it combines the first, at most, where only a call knows their number."""
NARROWEST = 8
"""Results of a block at least: neighbours that share a sector of 32 bytes."""
OF_INDEX = 8
"""Partial results of an outer index that a thread loads at once, at least, where it finishes several."""
LEAST_HEIGHT = 4
"""Threads of a column at least where a block finishes several indices of it: it waits for memory less often."""
AT_A_TIME = 2
"""Blocks that finish outer indices which run on a multiprocessor at a time. (H100, November 2026, adaln's backward
pass, 5 samples of 192 x 4736: 21.6 -> 19.3 us where two of 198 run there and find their addresses before they wait.)"""


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishGroup:
    """Reductions that keep the same axes, and how many results they are expected to have.

    It finishes the ``reductions`` (indices of exprs), whose results change along the axes ``kept``. Each result has as
    many partial ones as there are splits for every point of the axes ``across``. ``scaled`` are ``(reduction, fid,
    factor)``: the partial results are those of ``fid`` times the value ``factor``. Where there are axes ``outer``, the
    splits share all their rows, as many for each index as the axes ``depth`` have, and each index has as many partial
    results as partition.cuh says. It writes the outputs that follow from its reductions, and where ``is_last`` also
    those that follow from none. ``results`` with ``partials`` each are expected; both are 0 where a call lays them out.
    """

    reductions: tuple[int, ...]
    kept: tuple[int, ...]
    partials: int = 0
    results: int = 0
    across: tuple[int, ...] = ()
    scaled: tuple[tuple[int, int, int], ...] = ()
    outer: tuple[int, ...] = ()
    depth: tuple[int, ...] = ()
    is_last: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CallGroup:
    """A ``group`` that is finished where it is ``needed``, whose results have as many partial ones as ``splits``; a
    block has a multiple of ``narrowest`` of them."""

    group: FinishGroup
    splits: Formula
    narrowest: Formula
    needed: Formula = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishPart:
    """What some of the blocks do: each combines the partial results of ``block_x`` results of a group, with as many
    threads to each as share the others, which load ``ahead`` of them before they combine the first. Where only a call
    knows how many results a block has, ``block_x`` is 0.

    Where there is a group ``source``, it finishes that one's results for all outer indices, a thread or a few each, and
    scales those. Where there are several parts that only a call lays out, names of their parameters have a ``suffix``.
    """

    block_x: int
    ahead: int
    group: FinishGroup
    source: FinishGroup | None = None
    suffix: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishHeuristics:
    """Blocks of ``threads`` do the first of the ``parts`` until it is done, then the next."""

    threads: int
    parts: tuple[FinishPart, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finisher(Planner):
    """Lays groups of reductions out over blocks; ``reduced`` are the values that have a scratch array each, in the
    order of their slots, ``splits`` the blocks that left partial results there, and ``index`` is the C type of results'
    numbers."""

    reduced: Sequence[int]
    splits: Formula
    index: str

    def launch(self, groups: Sequence[FinishGroup]) -> LaunchSpec:
        """The launch that finishes ``groups``."""
        pairs = self._pairs(groups)
        alone = [group for group in groups if not any(group in pair for pair in pairs)]
        wanted = [*map(self._threads_of, groups), *(_outers(*pair) for pair in pairs)]
        threads = MANY_THREADS if max(wanted) > FINISH_THREADS // NARROWEST else FINISH_THREADS
        parts = [self._part(group, None, threads) for group in alone]
        parts += [self._part(group, source, threads) for group, source in pairs]
        parts.sort(key=lambda part: -part.group.partials)
        nested = self._nested_width(*pairs[0], threads) if pairs else 0  # all keep columns
        blocks: list[Formula] = [
            ("ceil_div", self.domain.points(part.group.kept), part.block_x or nested) for part in parts
        ]
        heuristics = FinishHeuristics(threads=threads, parts=tuple(parts))
        number = call_parameter("parts", self.splits, "blocks that left partial results")
        told = [
            call_parameter("block_width", nested, "results per block"),
            call_parameter("block_height", ("floor_div", threads, nested), "threads of each, at most"),
        ] if pairs else []  # fmt: skip
        parameters = (*self._parameters(groups), number, *told)
        kernel = self.kernel(
            "reduction_finish", heuristics, vec=1, index=self.index, parameters=parameters,
            min_blocks=AT_A_TIME if pairs else 1, sizes=KnownSizes(help=False),
        )  # fmt: skip
        grid = (simplified(total(blocks)), 1, 1)
        return LaunchSpec(kernel=kernel, grid=grid, block=(threads, 1, 1), starts_early=True)

    def launch_at_call(self, group: FinishGroup, narrowest: Formula, *, needed: Formula = 1) -> LaunchSpec:
        """The launch that finishes ``group`` where it is ``needed``, laid out by the number of splits at a call. Blocks
        that left partial results are no more than some on each multiprocessor, so that where results are many each has
        few partial ones: a block has a multiple of ``narrowest`` results, as many as fill the GPU."""
        return self.launch_together([CallGroup(group=group, splits=self.splits, narrowest=narrowest, needed=needed)])

    def launch_together(self, groups: Sequence[CallGroup]) -> LaunchSpec:
        """The same for several; all but the last are always needed."""
        suffixes = [f"_{number}" for number in range(len(groups))] if len(groups) > 1 else [""]
        parts, told, blocks = list[FinishPart](), list[KernelParameter](), list[Formula]()
        for each, suffix in zip(groups, suffixes, strict=True):
            width = self._width(each, FINISH_THREADS)
            parts.append(FinishPart(block_x=0, ahead=self.ahead(each.group), group=each.group, suffix=suffix))
            told += [
                call_parameter(f"splits{suffix}", each.splits, "partial results of each, combined in a fixed order"),
                call_parameter(f"block_width{suffix}", width, "results per block"),
            ]
            blocks.append(product([each.needed, ("ceil_div", self.domain.points(each.group.kept), width)]))
        heuristics = FinishHeuristics(threads=FINISH_THREADS, parts=tuple(parts))
        parameters = (*self._parameters([each.group for each in groups]), *told)
        kernel = self.kernel(
            "reduction_finish", heuristics, vec=1, index=self.index, parameters=parameters, min_blocks=1,
            sizes=KnownSizes(help=False),
        )  # fmt: skip
        grid = (simplified(total(blocks)), 1, 1)
        return LaunchSpec(kernel=kernel, grid=grid, block=(FINISH_THREADS, 1, 1), starts_early=True)

    def _width(self, group: CallGroup, most: int) -> Formula:
        """Results of a block: a multiple of what is narrowest, ``most`` at most, where there are enough with as many
        blocks as fill the GPU; fewer where a thread could not load its partial results at once, while blocks are so few
        that they run at a time."""
        results = self.domain.points(group.group.kept)
        at_once: Formula = ("floor_div", most, ("max", 1, ceil_div(group.splits, self.ahead(group.group))))
        wanted: Formula = ("max", _shares(results, AT_A_TIME), ("floor_div", at_once, group.narrowest))
        width = product([group.narrowest, ("min", _shares(results, 1), wanted)])
        return simplified(("max", 1, ("min", results, width, most)))

    def _nested_width(self, group: FinishGroup, source: FinishGroup, threads: int) -> Formula:
        """The same of a block that walks outer indices: few columns, so that it has all of their indices at once, with
        threads that load the partial results of each at once, too, while blocks are so few that they run at a time."""
        results, outers = (self.domain.points(axes) for axes in (group.kept, group.across))
        of_index = ceil_div(most_parts(self.splits, outers), max(OF_INDEX, source.partials))
        wanted: Formula = ("floor_div", threads // NARROWEST, ("max", 1, product([outers, of_index])))
        running: Formula = ("ceil_div", results, ("mul", NARROWEST * AT_A_TIME, MULTIPROCESSORS))
        width = product([NARROWEST, ("max", running, ("min", _shares(results, 1), wanted))])
        return simplified(("max", 1, ("min", results, width, threads // LEAST_HEIGHT)))

    def ahead(self, group: FinishGroup) -> int:
        """The partial results of ``group`` that a thread loads before it combines the first where only a call knows how
        many there are."""
        return max(1, min(MOST_AHEAD, REGISTERS_AHEAD // self._registers(group)))

    def _pairs(self, groups: Sequence[FinishGroup]) -> list[tuple[FinishGroup, FinishGroup]]:
        """Groups of scaled sums, each with the group that it is made from where one thread can finish an outer index of
        that, and the threads of a block all of them in two turns at most."""
        pairs = []
        for scaled in groups:
            sources = [
                each for each in groups
                if scaled.scaled and not each.scaled and each.outer == scaled.across == scaled.outer
                and {fid for _, fid, _ in scaled.scaled} <= {*folded(self.task, each.reductions)}
            ]  # fmt: skip
            for source in sources:
                is_short = source.partials * self._registers(source) <= REGISTERS_AHEAD
                if is_short and _outers(scaled, source) <= 2 * MANY_THREADS // NARROWEST:
                    pairs.append((scaled, source))
        return pairs

    def _part(self, group: FinishGroup, source: FinishGroup | None, threads: int) -> FinishPart:
        if source is None:
            block_x = self._results_of_block(group, threads)
            of_thread = -(-group.partials * block_x // threads)
            ahead = _evenly(of_thread, max(1, REGISTERS_AHEAD // self._registers(group)))
            return FinishPart(block_x=block_x, ahead=ahead, group=group)
        return FinishPart(block_x=0, ahead=max(OF_INDEX, source.partials), group=group, source=source)

    def _threads_of(self, group: FinishGroup) -> int:
        """Threads that share a result, so that each has all of its partial ones on their way at once."""
        return next_power_of_two(-(-group.partials * self._registers(group) // REGISTERS_AHEAD))

    def _results_of_block(self, group: FinishGroup, threads: int) -> int:
        """As many as leave each its threads, where blocks are enough to fill the GPU."""
        wide = max(NARROWEST, next_power_of_two(group.results // self.target.multiprocessors + 1) // 2)
        most = threads // min(threads // NARROWEST, self._threads_of(group))
        return min(most, wide, next_power_of_two(group.results))

    def _registers(self, group: FinishGroup) -> int:
        """What one partial result of all of the group's reductions takes."""
        return sum(-(-partial_dtype(self.task, fid).bytes // 4) for fid in folded(self.task, group.reductions))

    def _parameters(self, groups: Sequence[FinishGroup]) -> tuple[KernelParameter, ...]:
        axes = {access.pointer: {*access.axes} for access in self.domain.accesses.values()}
        places = [{*group.kept, *group.across} for group in groups]
        own = tensor_parameters(self.task, self.domain)
        tensors = [each for each in own if any(axes[each.name] <= place for place in places)]
        arrays = partial_parameters(self.task, self.reduced, const=True)
        return kernel_parameters(self.task, self.domain, arrays, tensors)


def _shares(results: Formula, blocks: int) -> Formula:
    """How many times NARROWEST of the ``results`` each of so many ``blocks`` on a multiprocessor has, at least 1."""
    return ("max", 1, ("floor_div", results, ("mul", NARROWEST * blocks, MULTIPROCESSORS)))


def _outers(scaled: FinishGroup, source: FinishGroup) -> int:
    """The outer indices that the results of ``source`` are kept for, which ``scaled`` ones are summed over."""
    return scaled.partials // source.partials


def _evenly(count: int, most: int) -> int:
    """``count`` in the fewest turns of ``most`` at most, each as long as the others."""
    turns = -(-count // most)
    return -(-count // turns)


def partial_parameters(task: Task, reduced: Sequence[int], *, const: bool) -> list[KernelParameter]:
    """One scratch array ``[partial results, kept]`` for each of the values ``reduced``."""
    return [
        workspace_parameter(
            f"P{fid}",
            partial_dtype(task, fid),
            slot,
            const=const,
            comment=f"partial results of {task.fusion.value(fid).name}",
        )
        for slot, fid in enumerate(reduced)
    ]


def partial_dtype(task: Task, fid: int) -> DType:
    """The dtype of the partial results of ``fid``: its own, but for a ``welford``, whose means are merged by their
    differences, as doubles, and whose counts are weights."""
    expr = task.fusion.expr_of(fid)
    assert expr is not None
    if not op_of(expr).running:
        return task.fusion.value(fid).dtype
    mean, m2, _ = expr.outputs
    return DType.DOUBLE if fid == mean else task.fusion.value(m2).dtype
