"""The view of inner_split, whose blocks have parts of rows: fusebuild.kernels.persistent.split_rows says why.

``P5`` has the partial results of reduction 5, those of a row side by side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fusebuild.ir.dtype import DType
from fusebuild.kernels.common.lambdas import Folding, combined, folded, foldings
from fusebuild.kernels.common.rows import by_level
from fusebuild.kernels.common.rows_view import Rows, crossing_rows
from fusebuild.kernels.common.spec import KernelSpec, reductions
from fusebuild.kernels.common.view import KernelView, Lines, Sweep, accumulate, accumulators, join, make_view
from fusebuild.kernels.persistent.edges import Edge
from fusebuild.kernels.persistent.split_rows import Moments, SplitHeuristics


def inner_split(spec: KernelSpec) -> KernelView:
    rows, task = crossing_rows(spec), spec.task
    body, edge = rows.body, Edge(spec, rows, ())
    levels = by_level(task, reductions(task))
    setup, bases = rows.setup(task.outputs)
    heuristics = spec.heuristics
    assert isinstance(heuristics, SplitHeuristics)
    reducing = [_reducing(rows, own, at) for at, own in levels.items()]
    edges = [edge.reducing(own, combined(body, own)) for own in levels.values()]
    if heuristics.moments is not None:
        reducing = _in_one_sweep(rows, heuristics.moments, reducing)
        element = body.operand(heuristics.moments.element, DType.FLOAT)
        edges[0] = (*edge.computing([heuristics.moments.element]), f"moments.add(fb::Vec<float, 1>{{{element}}});")
    storing = join(rows.sweep(rows.wide, rows.of_rows, rows.global_load), rows.stores(rows.wide))
    return make_view(
        body, rows.exprs,
        scalars=(*body.scalar_statements(rows.exprs), *rows.divisors),
        setup=setup, bases=bases, sweeps=(*reducing, storing), edges=(*edges, edge.storing(rows.wide)),
        epilogue=Sweep(stores=rows.results(rows.narrow)),
        extents=rows.extents,
    )  # fmt: skip


def _reducing(rows: Rows, indices: Sequence[int], at: int) -> Sweep:
    """The sweep of the reductions at ``indices``, which leaves its partial results by ``stores``; its lines ``row``
    combine those that were left at ``place``."""
    body = rows.body
    own, plain = foldings(body, indices), accumulate(body, indices)
    return join(
        rows.sweep(combined(body, indices), rows.of_rows, rows.global_load),
        replace(plain, results=(*plain.results, *rows.epilogue(folded(body.task, indices), at))),
        Sweep(
            reduce=f"fb::reduce_row<kThreads, 1>(phase, {accumulators(body, indices)});",
            stores=tuple(line for folding in own for line in folding.partial_stores("number")),
            row=tuple(line for folding in own for line in _combining(folding)),
        ),
    )


def _in_one_sweep(rows: Rows, moments: Moments, sweeps: Sequence[Sweep]) -> list[Sweep]:
    """The ``sweeps`` of a sum and of squares, of which the first finds the ``moments`` of the block's part for both."""
    body, (first, then) = rows.body, sweeps
    total, squares = (folding for own in by_level(body.task, reductions(body.task)).values()
                      for folding in foldings(body, own))  # fmt: skip
    element, center = (body.operand(fid, DType.FLOAT) for fid in (moments.element, moments.center))
    reading = replace(
        rows.sweep([moments.element], rows.of_rows, rows.global_load),
        arrays=("fb::BatchMoments<float, Index> moments;",),
        accumulate=(f"own[k] = {element};",),
        batched=("moments.add(own);",),
        joint_stores=(
            f"P{total.expr.outputs[0]}[number] = float(state.v0 * state.v2);",
            f"P{squares.expr.outputs[0]}[number] = state.v1;",
        ),
    )
    reading = replace(reading, vector=(*reading.vector, "fb::Vec<float, kVec> own;"))
    parts = ", ".join(f"P{each.expr.outputs[0]}[place]" for each in (squares, total))
    around = f"fb::squares_around({parts}, elements_of(place - row * parts), {center})"
    combined_squares = squares.combined(squares.accumulator, around)
    first = join(
        reading, Sweep(accumulators=first.accumulators, row=first.row, results=first.results, reduce=first.reduce)
    )
    return [
        first,
        Sweep(accumulators=then.accumulators, row=(combined_squares,), results=then.results, reduce=then.reduce),
    ]


def _combining(folding: Folding) -> Lines:
    """The statement that combines a partial result at ``place``."""
    parts = [f"P{fid}[place]" for fid in folding.expr.outputs]
    value = f"{folding.c_type}{{{', '.join(parts)}}}" if folding.has_state else parts[0]
    return (folding.combined(folding.accumulator, value),)
