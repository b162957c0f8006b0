"""The view of reduction_inner, whose threads walk rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fusebuild.kernels.common.lambdas import folded, foldings
from fusebuild.kernels.common.rows_view import Rows, rows_of
from fusebuild.kernels.common.spec import KernelSpec, reductions
from fusebuild.kernels.common.view import (
    KernelView,
    Lines,
    Sweep,
    accumulate,
    accumulators,
    join,
    make_view,
    read_rows_once,
)
from fusebuild.kernels.reduction.schedule import InnerHeuristics


def reduction_inner(spec: KernelSpec) -> KernelView:
    heuristics = spec.heuristics
    assert isinstance(heuristics, InnerHeuristics)
    indices = reductions(spec.task)
    results = folded(spec.task, indices)
    is_split = heuristics.splits > 1
    outputs = () if is_split else spec.task.outputs
    rows = rows_of(spec, [*results, *outputs])
    body = rows.body
    setup, bases = rows.setup(outputs)
    known = rows.of_rows
    gathered = rows.batches(indices, is_long=True)
    targets = gathered.targets()
    sweep = _loaded_ahead(rows, targets, known) if spec.is_shifted else rows.sweep(targets, known, rows.global_load)
    running = read_rows_once(body, gathered.plain, "(kSplits * kThreadsPerRow)" if is_split else "kThreadsPerRow")
    reduce = f"fb::reduce_row<kThreadsPerRow, kRowsPerBlock>({accumulators(body, indices)});"
    if is_split:
        position = f"{body.step('split', rows.row.axes)} + row" if rows.row.axes else "split"
        epilogue = Sweep(
            stores=tuple(line for folding in foldings(body, indices) for line in folding.partial_stores(position))
        )
    else:
        lines = (*accumulate(body, indices).results, *rows.epilogue(results, 1))
        epilogue = replace(rows.result_stores(outputs, heuristics.threads), results=lines)
    reader = "split == 0 && lane == 0" if is_split else "lane == 0"
    only = rows.only_elements(gathered, reader)
    sweep = join(running, sweep, rows.updates(gathered, "is_first && k == 0"), only, Sweep(reduce=reduce))
    return make_view(
        body, rows.exprs, setup=setup, bases=bases, sweeps=(sweep,), epilogue=epilogue, extents=rows.extents,
    )  # fmt: skip


def _loaded_ahead(rows: Rows, targets: Sequence[int], known: Sequence[int]) -> Sweep:
    """The sweep that computes ``targets``. Flat tensors are loaded into arrays by ``loads``, several vectors before the
    first is used: what a vector may touch is tested first, and no compiler moves loads past tests."""
    body, ahead = rows.body, dict[int, str]()

    def take(fid: int) -> Lines:
        if fid not in body.domain.flat:
            return rows.global_load(fid)
        ahead[fid] = f"p{fid}[u] = {rows.from_memory(fid, packed=True)};"
        return (rows.vector(fid, f"fb::unpack(p{fid}[u])"),)

    sweep = rows.sweep(targets, known, take)
    return replace(
        sweep,
        arrays=tuple(f"fb::Packed<{body.c_type(fid)}, kVec> p{fid}[kUnroll];" for fid in ahead),
        loads=tuple(ahead.values()),
        vector=(*sweep.loads, *sweep.vector),
    )
