"""The view of inner_split, whose blocks have parts of rows: fusebuild.kernels.persistent.split_rows says why.

``P5`` has the partial results of reduction 5, those of a row side by side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from fusebuild.ir.dtype import DType
from fusebuild.kernels.common.lambdas import combined, folded, foldings
from fusebuild.kernels.common.rows import by_level
from fusebuild.kernels.common.rows_view import Rows, rows_by_pieces
from fusebuild.kernels.common.spec import KernelSpec, reductions
from fusebuild.kernels.common.view import (
    KernelView,
    Lines,
    Sweep,
    accumulate,
    accumulators,
    join,
    lines_named,
    make_view,
)
from fusebuild.kernels.persistent.edges import Edge
from fusebuild.kernels.persistent.moments import Moments
from fusebuild.kernels.persistent.split_rows import SplitHeuristics
from fusebuild.ops.table import op_of

MOST_AT_A_TIME = 4
"""Vectors of each input that a thread loads before it takes the first, at most."""

BATCH_REGISTERS = 48
"""Registers that they may fill, where no random numbers take others."""


def inner_split(spec: KernelSpec) -> KernelView:
    rows, task = rows_by_pieces(spec), spec.task
    body, edge = rows.body, Edge(spec, rows, ())
    levels = by_level(task, reductions(task))
    setup, bases = rows.setup(task.outputs)
    heuristics = spec.heuristics
    assert isinstance(heuristics, SplitHeuristics)
    walk = _Walk(rows=rows, aligned=heuristics.anywhere)
    reducing = [_reducing(walk, own, at) for at, own in levels.items()]
    edges = [edge.reducing(own, combined(body, own)) for own in levels.values()]
    if heuristics.moments is not None:
        reducing = _in_one_sweep(walk, heuristics.moments, reducing)
        element = body.operand(heuristics.moments.element, DType.FLOAT)
        edges[0] = (*edge.computing([heuristics.moments.element]), f"moments.add(fb::Vec<float, 1>{{{element}}});")
    storing = join(walk.sweep(rows.wide), walk.stores())
    return make_view(
        body, rows.exprs,
        scalars=body.scalar_statements(rows.exprs),
        setup=setup, bases=bases, sweeps=tuple(map(walk.dividing, (*reducing, storing))),
        edges=(*edges, edge.storing(rows.wide)),
        epilogue=Sweep(stores=rows.results(rows.narrow)),
        extents=rows.extents,
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class _Walk:
    """Sweeps over ``rows``, whose vectors are ``aligned`` in that tensor alone."""

    rows: Rows
    aligned: int

    def sweep(self, targets: Sequence[int]) -> Sweep:
        """The sweep that computes ``targets``, whose ``loads`` bring a batch of vectors before the first is taken."""
        rows, fids = self.rows, list[int]()

        def unpacked(fid: int) -> Lines:
            fids.append(fid)
            return (rows.vector(fid, f"fb::unpack(p{fid}[u])"),)

        sweep = rows.sweep(targets, rows.of_rows, unpacked)
        registers = sum(max(1, rows.body.spec.vec * rows.dtype_of(fid).bytes // 4) for fid in fids)
        registers *= 2  # the aligned words around them
        draws = any(op_of(expr).is_random for expr in rows.body.task.steps)
        batch = 1 if draws else max(1, min(MOST_AT_A_TIME, BATCH_REGISTERS // max(1, registers)))
        arrays = (f"fb::Packed<{rows.c_type(fid)}, kVec> p{fid}[kBatch];" for fid in fids)
        return replace(
            sweep,
            arrays=(f"constexpr int kBatch = {batch};  // vectors that a thread loads at a time", *arrays),
            loads=tuple(f"p{fid}[u] = fb::pack(fb::load_cut_anywhere<kVec>({self._address(fid)}));" for fid in fids),
            vector=(*sweep.loads, *sweep.vector),
        )

    def dividing(self, sweep: Sweep) -> Sweep:
        """The ``sweep`` with the divisors that it names, which take long to make: no other sweep waits for them."""
        return replace(sweep, arrays=(*lines_named(self.rows.divisors, sweep.vector), *sweep.arrays))

    def _address(self, fid: int) -> str:
        return f"r{fid} + {self.rows.body.offset(fid, [self.rows.column])}"

    def stores(self) -> Sweep:
        """Stores of what changes along the row."""
        rows, aligned = self.rows, self.aligned
        vectors = {
            fid: "store" if fid == aligned else "store_anywhere" for fid in rows.wide if rows.body.is_vector(fid)
        }
        calls = {fid: f"fb::{call}({self._address(fid)}, o{fid});" for fid, call in vectors.items()}
        return rows.stores_of(rows.wide, calls)


def _reducing(walk: _Walk, indices: Sequence[int], at: int) -> Sweep:
    """The sweep of the reductions at ``indices``, which leaves its partial results by ``stores``; its lines ``row``
    combine those that were left at ``place``, and ``reduce`` has what the threads of the row combine."""
    rows, body = walk.rows, walk.rows.body
    own, plain = foldings(body, indices), accumulate(body, indices)
    return join(
        walk.sweep(combined(body, indices)),
        replace(plain, results=(*plain.results, *rows.epilogue(folded(body.task, indices), at))),
        Sweep(
            reduce=accumulators(body, indices),
            stores=tuple(line for folding in own for line in folding.partial_stores("number")),
            row=tuple(folding.combined_partial("place") for folding in own),
        ),
    )


def _in_one_sweep(walk: _Walk, moments: Moments, sweeps: Sequence[Sweep]) -> list[Sweep]:
    """The ``sweeps`` of a sum and of squares, of which the first finds the ``moments`` of the block's part for both."""
    body, (first, then) = walk.rows.body, sweeps
    total, squares = foldings(body, reductions(body.task))
    element, center = (body.operand(fid, DType.FLOAT) for fid in (moments.element, moments.center))
    reading = replace(
        walk.sweep([moments.element]),
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
