"""The view of reduction_finish, which combines partial results: a :class:`Finish` for each group of reductions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from fusebuild.ir.values import Expr
from fusebuild.kernels.common.finish import FinishGroup, FinishHeuristics, FinishPart
from fusebuild.kernels.common.lambdas import Folding, folded, foldings
from fusebuild.kernels.common.spec import KernelSpec
from fusebuild.kernels.common.statements import Body, Group
from fusebuild.kernels.common.view import KernelView, Lines, Sweep, accumulate, accumulators, join, make_view


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish:
    """What some of the blocks do, for ``results``: the ``sweep`` combines their partial results, what is known before
    it is loaded by ``loads``, at the coordinates that ``setup`` finds, and the ``stores`` come after it. It walks the
    partial results of the values ``walked``: ``q5`` is where the thread's next one of value 5 is.

    Where it goes over ``outers``, the sweep combines those of one index of them, which meet in the accumulators
    ``inside``; its lines ``row`` are what is loaded before that and ``merged`` what follows. A thread's partial
    results begin at ``start``, ``stride`` results apart. ``names`` are the outputs that it writes, ``sizes`` the
    expressions that the template names.
    """

    part: FinishPart
    names: str
    walked: tuple[int, ...]
    sizes: dict[str, str]
    start: str
    stride: str
    sweep: Sweep
    setup: Lines
    loads: Lines
    stores: Lines
    exprs: tuple[Expr, ...]
    inside: str


def reduction_finish(spec: KernelSpec) -> KernelView:
    heuristics = spec.heuristics
    assert isinstance(heuristics, FinishHeuristics)
    body = Body(spec)
    finishes = tuple(_nested(body, part) if part.source else _alone(body, part) for part in heuristics.parts)
    exprs = [expr for finish in finishes for expr in finish.exprs]
    return make_view(body, exprs, finishes=finishes)


def _alone(body: Body, part: FinishPart) -> Finish:
    """A group whose results are combined from what is in scratch."""
    group = part.group
    kept = Group(name="kept", axes=group.kept)
    scaled = {index for index, _, _ in group.scaled}
    own = foldings(body, [index for index in group.reductions if index not in scaled])
    totals = accumulate(body, group.reductions)
    sweep = join(
        Sweep(accumulators=totals.accumulators, results=totals.results),
        _loaded(own),
        _scaled(body, group, kept),
        _across(body, group),
    )
    walked = [*folded(body.task, [each.index for each in own]), *(source for _, source, _ in group.scaled)]
    return _finish(body, part, [kept], replace(sweep, reduce=accumulators(body, group.reductions)), walked)


def _loaded(own: Sequence[Folding]) -> Sweep:
    """The loads of partial results, and what combines them, where there are some."""
    arrays, loads, updates = list[str](), list[str](), list[str]()
    for each in own:
        partial, parts = f"p{each.expr.outputs[0]}", [f"*q{fid}" for fid in each.expr.outputs]
        arrays.append(f"{each.c_type} {partial}[kAhead];")
        value = f"{{{', '.join(parts)}}}" if each.has_state else parts[0]
        loads.append(f"{partial}[u] = {value};")
        identity = each.identity if each.is_running or not each.has_state else f"{each.c_type}{each.identity}"
        updates.append(each.combined(each.accumulator, f"is_there ? {partial}[u] : {identity}"))
    return Sweep(arrays=tuple(arrays), loads=tuple(loads), accumulate=tuple(updates))


def _nested(body: Body, part: FinishPart) -> Finish:
    """A group of scaled sums, which are made from the results of its source, one outer index after another."""
    group, source = part.group, part.source
    assert source is not None
    groups = [Group(name="outer", axes=source.outer, index="int64_t"), Group(name="kept", axes=group.kept)]
    outer, kept = groups
    start = f"({body.step('first', outer.axes)} + outer) * results + kept"
    inside, totals = accumulate(body, source.reductions), accumulate(body, group.reductions)
    results, outputs = folded(body.task, source.reductions), outputs_of(body, source)
    factors = [factor for _, _, factor in group.scaled]
    targets = [*outputs, *factors]
    setup, loads, statements = known_after(body, groups, targets, results, outputs, condition="is_first")
    updates = [
        f"a{fid} = fb::Sum::combine(a{fid}, {body.operand(factor, body.value(fid).dtype)} * a{value});"
        for index, value, factor in group.scaled
        for fid in body.fusion.exprs[index].outputs
    ]
    loaded = _loaded(foldings(body, source.reductions))
    return _finish(
        body, part, [kept],
        replace(
            loaded,
            accumulators=totals.accumulators,
            coordinates=setup,
            row=(*loads, *inside.accumulators),
            merged=(*inside.results, *statements, *stores_of(body, groups, outputs), *updates),
            reduce=accumulators(body, group.reductions),
            results=totals.results,
        ),
        results, body.closure(targets, results), start, accumulators(body, source.reductions),
    )  # fmt: skip


def _finish(
    body: Body,
    part: FinishPart,
    groups: Sequence[Group],
    sweep: Sweep,
    walked: Sequence[int],
    exprs: Iterable[Expr] = (),
    start: str = "first * results + kept",
    inside: str = "",
) -> Finish:
    """The :class:`Finish` of ``part``, whose ``sweep`` leaves the results of its group from partial ones of the values
    ``walked``; ``exprs`` are what it computes meanwhile. What is needed beside them is loaded before, by the threads
    that store."""
    group = part.group
    results, outputs = folded(body.task, group.reductions), outputs_of(body, group)
    setup, loads, statements = known_after(body, groups, outputs, results, outputs, condition="writes")
    everything = (
        *exprs,
        *body.closure(factor for _, _, factor in group.scaled),
        *body.closure(outputs, results),
    )
    names = {output.fid: output.name for output in body.fusion.outputs}
    stored = [*(outputs_of(body, part.source) if part.source else ()), *outputs]
    return Finish(
        part=part,
        names=", ".join(names.get(fid, body.value(fid).name) for fid in stored),
        sizes={
            "kept": body.size(group.kept),
            "across": body.size(group.across),
            "outers": body.size(group.outer),
            "depth": body.size(group.depth),
        },
        walked=tuple(dict.fromkeys(walked)),
        start=start,
        stride=body.step("height", group.outer) if part.source else "kBlockY" if part.block_x else "height",
        sweep=sweep,
        setup=setup,
        loads=loads,
        stores=(*sweep.results, *statements, *stores_of(body, groups, outputs)),
        exprs=everything,
        inside=inside,
    )


def outputs_of(body: Body, group: FinishGroup) -> list[int]:
    """What the group's reductions are written as."""
    results, places = folded(body.task, group.reductions), {*group.kept}
    if not group.is_last:
        return [fid for fid in body.task.outputs if body.depends_on(fid, results)]
    return [fid for fid in body.task.outputs if places.issuperset(body.domain.accesses[fid].axes)]


def known_after(
    body: Body,
    groups: Sequence[Group],
    targets: Sequence[int],
    results: Sequence[int],
    stored: Sequence[int],
    condition: str = "",
) -> tuple[Lines, Lines, Lines]:
    """How ``targets`` follow from ``results`` at the current coordinates of ``groups``: the lines that find these, that
    load what is needed, where the ``condition`` holds, and that compute; ``stored`` are those that go to memory."""
    reads, exprs = body.reads(targets, results), body.closure(targets, results)
    setup = tuple(
        line
        for group in groups
        for line in body.coordinates(
            group,
            body.needs_coordinates([*reads, *stored], group) | (body.coordinate_axes(exprs) & {*group.axes}),
        )
    )
    elements = {fid: body.element(fid, groups) for fid in reads}
    if condition:
        elements = {fid: f"{condition} ? {element} : {body.c_type(fid)}{{}}" for fid, element in elements.items()}
    coordinate = body.within(*groups)
    return (
        setup,
        tuple(body.scalar_load(fid, element) for fid, element in elements.items()),
        tuple(body.statement(expr, coordinate) for expr in exprs if not body.is_scalar(expr.outputs[0])),
    )


def stores_of(body: Body, groups: Sequence[Group], outputs: Sequence[int]) -> Lines:
    return tuple(f"T{fid}[{body.offset(fid, groups)}] = {body.own_operand(fid)};" for fid in outputs)


def _scaled(body: Body, group: FinishGroup, kept: Group) -> Sweep:
    """The loads of partial results of scaled sums and of what their factors are made of, and what adds them times their
    factors: those of their column, and of their outer index. Where there is none nothing is added: a factor may be
    infinite."""
    if not group.scaled:
        return Sweep()
    factors = [factor for _, _, factor in group.scaled]
    groups = [Group(name="outer", axes=group.across, index="int64_t"), kept]
    setup, _, statements = known_after(body, groups, factors, (), ())
    needs_outer = not body.coordinate_axes(body.closure(factors)).isdisjoint(group.across)
    arrays, loads, first, updates = list[str](), list[str](), list[str](), list[str]()
    for index, source, factor in group.scaled:
        for fid in body.fusion.exprs[index].outputs:
            c_type, times = body.c_type(fid), body.operand(factor, body.value(fid).dtype)
            arrays.append(f"{c_type} p{fid}[kAhead];")
            loads.append(f"p{fid}[u] = *q{source};")
            updates.append(f"a{fid} = fb::Sum::combine(a{fid}, is_there ? {times} * p{fid}[u] : {c_type}(0));")
    for fid in body.reads(factors):
        arrays.append(f"{body.c_type(fid)} c{fid}[kAhead];")
        loads.append(f"c{fid}[u] = {body.element(fid, groups)};")
        first.append(body.scalar_load(fid, f"c{fid}[u]"))
    if needs_outer:
        arrays.append("int64_t outers[kAhead];")
        loads.append("outers[u] = outer;")
        first = ["const int64_t outer = outers[u];", *setup, *first]
    return Sweep(
        arrays=tuple(arrays), load_coordinates=setup, loads=tuple(loads), accumulate=(*first, *statements, *updates)
    )


def _across(body: Body, group: FinishGroup) -> Sweep:
    """How the outer index follows the partial results where factors of scaled sums depend on it: a division for each of
    them would take longer than to load it."""
    if not (group.scaled and group.across):
        return Sweep()
    size = body.size(group.across)
    divisor = f"({size})" if " " in size else size
    return Sweep(
        row=(
            f"int64_t outer = {size} > 0 ? y % {divisor} : 0;  // of the partial result number split",
            f"const int64_t step = {size} > 0 ? kBlockY % {divisor} : 0;",
        ),
        loads=(f"outer += outer + step < {size} ? step : step - {divisor};",),
    )
