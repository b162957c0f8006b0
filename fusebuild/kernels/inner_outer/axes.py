"""Tasks that reduce along rows and down columns: which axes are rows, which columns, and what follows what.

The domain is ``rows x columns``. Reductions **along rows** run over all columns, and their results may be used by every
element of their row. Reductions **down columns** run over the innermost ones of the rows' axes and keep the others:
the gradient of a bias that one sample owns keeps the sample, that of a shared bias keeps nothing but the columns.

Sums are linear: where one sum down columns adds up ``c * e`` and another ``e``, and ``c`` stays the same for all rows
of an outer index, the first is **scaled** from the partial results of the second and needs no accumulators of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fusebuild.ir.fusion import Task
from fusebuild.kernels.common.domain import AxisDomain
from fusebuild.kernels.common.rows import (
    check_kinds,
    check_output,
    check_reduction,
    check_running,
    has_lambdas,
    levels,
    running_sums,
    walked_loops,
)
from fusebuild.kernels.common.spec import COUNTING, counts, reductions
from fusebuild.kernels.common.unfit import UnfitError
from fusebuild.ops.table import Kind, op_of

Axes = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaled:
    """A sum of ``factor`` (a fid) times what the reduction ``source`` (an index) sums up."""

    source: int
    factor: int


@dataclass(frozen=True, slots=True, kw_only=True)
class InnerOuterParts:
    """The parts of such a task. ``along`` and ``down`` are indices of reductions; ``kept`` gives for each of ``down``
    the axes of the rows that it keeps, ``finished`` gives those axes for every value that follows from one. ``scaled``
    are those of ``down`` that others' partial results give."""

    rows: Axes
    columns: Axes
    along: tuple[int, ...]
    down: tuple[int, ...]
    kept: Mapping[int, Axes]
    finished: Mapping[int, Axes]
    scaled: Mapping[int, Scaled]

    @property
    def accumulated(self) -> tuple[int, ...]:
        """The reductions down columns that have accumulators."""
        return tuple(index for index in self.down if index not in self.scaled)

    @property
    def finishes(self) -> dict[tuple[Axes, bool], list[int]]:
        """The reductions down columns by the kernel that finishes them: those that keep the same axes and are all
        scaled ones or none."""
        groups: dict[tuple[Axes, bool], list[int]] = {}
        for index in self.down:
            groups.setdefault((self.kept[index], index in self.scaled), []).append(index)
        return groups

    @property
    def outer(self) -> Axes:
        """The axes of the rows that some reduction down columns keeps: the first ones."""
        return max(self.kept.values(), key=len)

    @property
    def depth(self) -> Axes:
        """The axes of the rows that every reduction down columns runs over."""
        return self.rows[len(self.outer) :]

    def are_plain(self, task: Task, domain: AxisDomain) -> bool:
        """Whether the task reduces, reads and writes as the backward pass of a norm does: with ops that combine single
        numbers, at the places of its own domain alone, and what follows from reductions down columns overwrites
        nothing."""
        overwritten = any(output.alias is not None and output.fid in self.finished for output in task.fusion.outputs)
        has_places = domain.sources or counts(task)
        return not (has_lambdas(task) or running_sums(task) or has_places or overwritten)

    def count_columns(self, task: Task, domain: AxisDomain) -> bool:
        """Whether some element depends on which column it is of, or is read elsewhere."""
        counted = [expr.outputs[0] for expr in task.steps if expr.op in COUNTING]
        axes = [domain.axes_of(fid, task.fusion.value(fid).tensor) for fid in counted]
        return bool(domain.sources) or any(not each.isdisjoint(self.columns) for each in axes)

    def written_by_rows(self, task: Task) -> tuple[int, ...]:
        """The outputs that are known when their row is done."""
        return tuple(fid for fid in task.outputs if fid not in self.finished)

    def read_by_rows(self, task: Task) -> set[int]:
        """The values that the walk over rows needs: all but those that only epilogues read."""
        needed, accumulated = {*self.written_by_rows(task)}, {*self.accumulated}
        for index in reversed(task.exprs):
            expr = task.fusion.exprs[index]
            if index in accumulated or not needed.isdisjoint(expr.outputs):
                needed.update(expr.inputs)
        return needed


def inner_outer_parts(task: Task, domain: AxisDomain) -> InnerOuterParts:
    """The parts of ``task``; found once for each task. Raises :class:`UnfitError` where it has none."""
    if "inner_outer_parts" not in task.analyses:
        task.analyses["inner_outer_parts"] = _parts_of(task, domain)
    found = task.analyses["inner_outer_parts"]
    assert isinstance(found, InnerOuterParts)
    return found


def _parts_of(task: Task, domain: AxisDomain) -> InnerOuterParts:
    check_kinds(task)
    check_running(task)
    indices = reductions(task)
    innermost = len(domain.domain.loops) - 1
    walked = {index: walked_loops(task, domain, task.fusion.exprs[index]) for index in indices}
    along = tuple(index for index in indices if innermost in walked[index])
    down = tuple(index for index in indices if innermost not in walked[index])
    if not down:
        raise UnfitError("no reduction runs over outer dims alone")
    last_down = max((loop for index in down for loop in walked[index]), default=-1)
    inside = walked[along[0]] if along else frozenset(range(last_down + 1, innermost + 1))
    everything = {loop for axis in domain.axes for loop in axis.loops}
    for index in indices:
        expr, wanted = task.fusion.exprs[index], inside if index in along else walked[index]
        others = "the others along rows"
        check_reduction(task, domain, expr, walked=wanted, spanned=everything, others=others)
    rows = tuple(place for place, axis in enumerate(domain.axes) if not inside & {*axis.loops})
    columns = tuple(place for place, axis in enumerate(domain.axes) if inside & {*axis.loops})
    if not columns or max(rows, default=-1) > min(columns):
        raise UnfitError("the dims that rows run along are not the innermost ones")
    kept: dict[int, Axes] = {}
    for index in down:
        axes = tuple(place for place in rows if walked[index] >= {*domain.axes[place].loops})
        if not axes or axes != rows[-len(axes) :]:
            fid = task.fusion.exprs[index].outputs[0]
            name = task.fusion.value(fid).name
            raise UnfitError(f"{name} keeps a dim inside of those that it reduces", fid)
        kept[index] = rows[: -len(axes)]
    parts = InnerOuterParts(
        rows=rows,
        columns=columns,
        along=along,
        down=down,
        kept=kept,
        finished=_finished(task, domain, kept, columns),
        scaled=_scaled_sums(task, domain, kept, columns),
    )
    _check_outputs(task, domain, parts)
    return parts


def _finished(task: Task, domain: AxisDomain, kept: Mapping[int, Axes], columns: Axes) -> dict[int, Axes]:
    """For each value that follows from reductions down columns the axes of rows that they keep. Such values are known
    when all rows are done: raises :class:`UnfitError` where a row needs one."""
    level = levels(task)
    finished: dict[int, Axes] = {}
    for index, expr in zip(task.exprs, task.steps, strict=True):
        fid = expr.outputs[0]
        name = task.fusion.value(fid).name
        sources = {finished[operand] for operand in expr.inputs if operand in finished}
        if len(sources) > 1:
            raise UnfitError(f"{name} needs columns reduced over different dims", fid)
        if index in kept:
            finished.update(dict.fromkeys(expr.outputs, kept[index]))
        if not sources:
            continue
        own = sources.pop()
        if not domain.axes_of(fid, task.fusion.value(fid).tensor) <= {*own, *columns}:
            raise UnfitError(f"{name} brings a reduced column back to the rows", fid)
        if any(level.get(operand) for operand in expr.inputs if operand not in finished):
            raise UnfitError(f"{name} needs a row's result and a column's", fid)
        finished.update(dict.fromkeys(expr.outputs, own))
    return finished


def _scaled_sums(task: Task, domain: AxisDomain, kept: Mapping[int, Axes], columns: Axes) -> dict[int, Scaled]:
    """The sums down columns that are scaled ones of others, which keep all outer axes."""
    exprs, outer, level = task.fusion.exprs, max(kept.values(), key=len), levels(task)
    sums = {index: _root(task, exprs[index].inputs[0]) for index in kept if exprs[index].op == "sum"}
    made = {fid: expr for expr in task.steps for fid in expr.outputs}
    found: dict[int, Scaled] = {}
    for index, summed in sums.items():
        product = made.get(summed)
        if product is None or product.op != "mul" or kept[index] not in ((), outer):
            continue
        left, right = (_root(task, fid) for fid in product.inputs)
        for factor, element in ((left, right), (right, left)):
            source = next((i for i, each in sums.items() if each == element and kept[i] == outer and i != index), None)
            value = task.fusion.value(factor)
            if source is None or source in found or not value.is_tensor or level.get(factor):
                continue
            same = [task.fusion.value(fid).dtype for fid in (*exprs[index].outputs, *exprs[source].outputs, summed)]
            if len({*same}) == 1 and domain.axes_of(factor, value.tensor) <= {*outer, *columns}:
                found[index] = Scaled(source=source, factor=factor)
                break
    for sources in _sources(task, kept).values():
        if not sources <= found.keys():  # one value needs others, too, and one kernel finishes all that it needs
            found = {index: scaled for index, scaled in found.items() if index not in sources}
    return found


def _sources(task: Task, kept: Mapping[int, Axes]) -> dict[int, frozenset[int]]:
    """The reductions down columns that each value follows from."""
    found: dict[int, frozenset[int]] = {}
    for index, expr in zip(task.exprs, task.steps, strict=True):
        own = frozenset([index]) if index in kept else frozenset[int]().union(*(found.get(f, ()) for f in expr.inputs))
        found.update(dict.fromkeys(expr.outputs, own))
    return found


def _root(task: Task, fid: int) -> int:
    """The value that ``fid`` is a view of, as far as ``task`` computes it."""
    while (expr := task.step_of(fid)) is not None and op_of(expr).is_alias:
        fid = expr.inputs[0]
    return fid


def _check_outputs(task: Task, domain: AxisDomain, parts: InnerOuterParts) -> None:
    """Raise :class:`UnfitError` unless every output is one of elements, of rows, or of what a reduction down columns
    keeps. One thread writes what belongs to a row, at a time when others may still have to read the row's inputs."""
    overwritten = {output.fid: output.alias for output in task.fusion.outputs if output.alias in task.inputs}
    for fid in task.outputs:
        shapes: tuple[Axes, ...] = (parts.rows, (*parts.rows, *parts.columns))
        if fid in parts.finished:
            shapes = ((*parts.finished[fid], *parts.columns),)
        check_output(task, domain, fid, *shapes)
        if fid in overwritten and domain.accesses[fid].axes == parts.rows:
            name, target = (task.fusion.value(each).name for each in (fid, overwritten[fid]))
            raise UnfitError(f"{name} overwrites {target}, which all threads of a row read", fid)
    _check_finishes(task, parts, overwritten)


def _check_finishes(task: Task, parts: InnerOuterParts, overwritten: Mapping[int, int]) -> None:
    """Raise :class:`UnfitError` where one finishing kernel overwrites what another reads."""
    sources = _sources(task, parts.kept)
    for fid in {*overwritten} & {*parts.finished}:
        for group in parts.finishes.values():
            own = {*group}
            others = [each for each in parts.finished if sources[each] <= own and not sources[fid] <= own]
            factors = [parts.scaled[index].factor for index in group if index in parts.scaled] if others else []
            if overwritten[fid] in read_after(task, [*others, *factors]):
                name, target = (task.fusion.value(each).name for each in (fid, overwritten[fid]))
                raise UnfitError(f"{name} overwrites {target}, which another finishing kernel reads", fid)


def read_after(task: Task, fids: Iterable[int]) -> set[int]:
    """What has to be read to compute ``fids`` from the results of reductions."""
    found, open_fids = set[int](), [*fids]
    while open_fids:
        fid = open_fids.pop()
        if fid in found:
            continue
        found.add(fid)
        expr = task.step_of(fid)
        if expr is not None and op_of(expr).kind is not Kind.REDUCTION:
            open_fids += expr.inputs
    return found
