"""The view of inner_trailing, whose blocks have parts of rows: fusebuild.kernels.persistent.trailing_rows says why.

``P5`` has the partial results of reduction 5, those of a row side by side, and after those of all rows what they are
when all are combined, one for each row.
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
    statements_in,
)
from fusebuild.kernels.persistent.edges import Edge
from fusebuild.kernels.persistent.moments import Moments
from fusebuild.kernels.persistent.trailing_rows import TrailingHeuristics


def inner_trailing(spec: KernelSpec) -> KernelView:
    rows, task, heuristics = rows_by_pieces(spec), spec.task, spec.heuristics
    assert isinstance(heuristics, TrailingHeuristics)
    body, edge = rows.body, Edge(spec, rows, ())
    levels = by_level(task, reductions(task))
    walk = _Walk(rows=rows, of_samples=heuristics.of_samples)
    reducing = [walk.reducing(own, at) for at, own in levels.items()]
    if heuristics.moments is not None:
        reducing = _around_parts(rows, heuristics.moments, reducing)
    storing = _storing(walk)
    edges = tuple(edge.reducing(own, combined(body, own)) for own in levels.values())
    setup, bases = rows.setup(task.outputs)
    return make_view(
        body, rows.exprs,
        scalars=body.scalar_statements(rows.exprs),
        setup=setup, bases=bases, sweeps=tuple(map(walk.dividing, (*reducing, storing))),
        edges=(*edges, edge.storing(rows.wide)),
        next_rows=Sweep(row=lines_named((*setup, *bases), statements_in((tuple(reducing), edges)))),
        epilogue=Sweep(stores=rows.results(rows.narrow)),
        extents=rows.extents,
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class _Walk:
    """Sweeps over the vectors of ``rows`` that a thread has in registers. What rows share is cut out of unaligned
    words; inputs ``of_samples`` begin anywhere themselves."""

    rows: Rows
    of_samples: tuple[int, ...]

    def sweep(self, targets: Sequence[int]) -> Sweep:
        """The sweep that computes ``targets``, whose ``loads`` bring all its vectors before."""
        rows, fids = self.rows, list[int]()

        def unpacked(fid: int) -> Lines:
            if fid not in rows.body.domain.flat:
                beyond = f"fb::beyond_word<kVec>(r{fid} + start)" if fid in self.of_samples else "edges.before"
                return (rows.vector(fid, f"fb::load_cut<kVec>({rows.address(fid)}, {beyond})"),)
            fids.append(fid)
            return (rows.vector(fid, f"fb::unpack(p{fid}[u])"),)

        sweep = rows.sweep(targets, rows.of_rows, unpacked)
        return replace(
            sweep,
            arrays=tuple(f"fb::Packed<{rows.c_type(fid)}, kVec> p{fid}[kVectors];" for fid in fids),
            loads=tuple(f"p{fid}[u] = {rows.from_memory(fid, packed=True)};" for fid in fids),
            vector=(*sweep.loads, *sweep.vector),
        )

    def reducing(self, indices: Sequence[int], at: int) -> Sweep:
        """The sweep of the reductions at ``indices``, which leaves partial results by ``batched``. Its lines ``row``
        combine those that are at ``place``, and ``reduce`` has what a block combines; ``joint_stores`` leave what all
        come to, and ``merged`` take that, of which ``results`` follow."""
        rows, body = self.rows, self.rows.body
        own, plain = foldings(body, indices), accumulate(body, indices)
        return join(
            self.sweep(combined(body, indices)),
            replace(plain, results=(*plain.results, *rows.epilogue(folded(body.task, indices), at))),
            Sweep(
                reduce=accumulators(body, indices),
                batched=tuple(line for folding in own for line in folding.partial_stores("number")),
                row=tuple(folding.combined_partial("place") for folding in own),
                joint_stores=tuple(line for folding in own for line in folding.partial_stores("known")),
                merged=tuple(folding.combined_partial("known") for folding in own),
            ),
        )

    def dividing(self, sweep: Sweep) -> Sweep:
        """The ``sweep`` with the divisors that it names, which take long to make: no other sweep waits for them."""
        divisors = lines_named(self.rows.divisors, (*sweep.row, *sweep.vector))
        return replace(sweep, coordinates=(*divisors, *sweep.coordinates))


def _storing(walk: _Walk) -> Sweep:
    """The sweep that stores what changes along the row. Of the runs that vectors begin in, it has what those have of
    inputs ahead, of several vectors: all loads are on their way before the first vector is stored."""
    rows, pieces = walk.rows, walk.rows.pieces
    if not pieces:
        return join(walk.sweep(rows.wide), rows.stores(rows.wide))
    coordinates, loads = rows.of_piece(pieces)
    held = replace(walk, rows=replace(rows, first="runs[u - top]", held={fid: f"f{fid}[u - top]" for fid in pieces}))
    ahead = Sweep(
        accumulators=("Index runs[kAhead];", *(f"{rows.c_type(fid)} f{fid}[kAhead];" for fid in pieces)),
        row=(
            f"const Index piece = runs[u - top] = {rows.run};",
            *coordinates,
            *(f"f{fid}[u - top] = {load};" for fid, load in loads.items()),
        ),
    )
    return join(ahead, held.sweep(rows.wide), rows.stores(rows.wide))


def _around_parts(rows: Rows, moments: Moments, sweeps: Sequence[Sweep]) -> list[Sweep]:
    """The ``sweeps`` of a sum and of squares where each part has its squares around its own mean: so is the center
    called in its ``load_coordinates``. They are combined around the row's."""
    body, (first, then) = rows.body, sweeps
    total, squares = foldings(body, reductions(body.task))
    parts = ", ".join(f"P{each.expr.outputs[0]}[place]" for each in (squares, total))
    center = body.operand(moments.center, DType.FLOAT)
    around = f"fb::squares_around({parts}, elements_of(place - row * parts), {center})"
    own = f"const float t{moments.center} = fb::share_of({total.accumulator}, elements_of(part));  // the part's own"
    return [
        first,
        replace(then, load_coordinates=(own,), row=(squares.combined(squares.accumulator, around),)),
    ]
