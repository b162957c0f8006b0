"""The view of inner_split, whose blocks have parts of rows: fusebuild.kernels.persistent.split_rows says why.

``P5`` has the partial results of reduction 5, those of a row side by side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fusebuild.kernels.common.lambdas import Folding, combined, folded, foldings
from fusebuild.kernels.common.rows import by_level
from fusebuild.kernels.common.rows_view import Rows, crossing_rows
from fusebuild.kernels.common.spec import KernelSpec, reductions
from fusebuild.kernels.common.view import KernelView, Lines, Sweep, accumulate, accumulators, join, make_view
from fusebuild.kernels.persistent.edges import Edge


def inner_split(spec: KernelSpec) -> KernelView:
    rows, task = crossing_rows(spec), spec.task
    body, edge = rows.body, Edge(spec, rows, ())
    levels = by_level(task, reductions(task))
    setup, bases = rows.setup(task.outputs)
    reducing = [_reducing(rows, own, at) for at, own in levels.items()]
    edges = [edge.reducing(own, combined(body, own)) for own in levels.values()]
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


def _combining(folding: Folding) -> Lines:
    """The statement that combines a partial result at ``place``."""
    parts = [f"P{fid}[place]" for fid in folding.expr.outputs]
    value = f"{folding.c_type}{{{', '.join(parts)}}}" if folding.has_state else parts[0]
    return (folding.combined(folding.accumulator, value),)
