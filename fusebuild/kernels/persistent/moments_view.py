"""The sweep of moments, whose threads all have the row's afterwards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from fusebuild.ir.dtype import DType
from fusebuild.kernels.common.lambdas import folded, foldings
from fusebuild.kernels.common.rows import by_level
from fusebuild.kernels.common.rows_view import Rows
from fusebuild.kernels.common.spec import reductions
from fusebuild.kernels.common.view import Lines, Sweep
from fusebuild.kernels.persistent.edges import Edge
from fusebuild.kernels.persistent.moments import Moments


def in_one_sweep(
    rows: Rows, edge: Edge, moments: Moments, sweep: Callable[[Sequence[int]], Sweep], reduction: str
) -> tuple[Sweep, Lines]:
    """The sweep of a row's ``moments``, and what an ``edge`` element takes in it. ``sweep`` gives that which computes
    values; ``reduction`` is the call that combines its arguments over the threads of a row, a format of them."""
    body = rows.body
    (first, (one,)), (then, (other,)) = by_level(body.task, reductions(body.task)).items()
    (total, squares), sum_of_all = foldings(body, (one, other)), "float(state.v0 * state.v2)"
    element, center = (body.operand(fid, DType.FLOAT) for fid in (moments.element, moments.center))
    around = f"fb::squares_around(state.v1, {sum_of_all}, state.v2, {center})"
    reading = sweep([moments.element])
    reading = replace(
        reading,
        accumulators=("fb::BatchMoments<float, Index> moments;",),
        vector=(*reading.vector, "fb::Vec<float, kVec> own_values;"),
        accumulate=(f"own_values[k] = {element};",),
        batched=("moments.add(own_values);",),
        merged=("auto state = moments.state(fb::Welford<float>::identity());",),
        reduce=reduction.format("fb::accumulator<fb::Welford<float>>(state)"),
        results=(
            *total.results(sum_of_all), *rows.epilogue(folded(body.task, [one]), first),
            *squares.results(around), *rows.epilogue(folded(body.task, [other]), then),
        ),
    )  # fmt: skip
    return reading, (*edge.computing([moments.element]), f"moments.add(fb::Vec<float, 1>{{{element}}});")
