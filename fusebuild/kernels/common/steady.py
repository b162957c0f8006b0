"""Values of columns that stay the same for many rows, computed once and kept in registers.

An input that does not change along rows is loaded once; what follows from such inputs alone is computed once too, and
only what the rows need of it is kept: a cast costs every row an instruction, a rounding to bfloat16 several.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from fusebuild.ir.values import Expr
from fusebuild.kernels.common.statements import Body, Group
from fusebuild.kernels.common.view import Lines, Sweep
from fusebuild.ops.table import Kind, op_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Steady:
    """``lifetime`` says for every steady value how long it stays the same; ``kept`` are those that outlive the loop
    which computes them: the ones that rows read, and that values of a shorter lifetime follow from."""

    inputs: tuple[int, ...]
    exprs: tuple[Expr, ...]
    lifetime: Mapping[int, int]
    kept: tuple[int, ...]

    def reads(self, lifetime: int) -> list[int]:
        """The inputs that stay for ``lifetime``."""
        return [fid for fid in self.inputs if self.lifetime[fid] == lifetime]

    def arrays(self, body: Body, lifetime: int) -> Lines:
        """Declarations of what is kept for ``lifetime``."""
        return tuple(f"fb::Vec<{body.c_type(fid)}, kVec> h{fid}[kChunks];" for fid in self._kept_for(lifetime))

    def _kept_for(self, lifetime: int) -> list[int]:
        return [fid for fid in self.kept if self.lifetime[fid] == lifetime]

    def sweep(self, body: Body, lifetime: int, outer: Group, column: Group) -> Sweep:
        """The walk over columns that computes the values of ``lifetime``, at one index of ``outer``."""
        reads = self.reads(lifetime)
        exprs = [expr for expr in self.exprs if self.lifetime[expr.outputs[0]] == lifetime]
        kept = self._kept_for(lifetime)
        earlier = body.roots(exprs, ()) & {*self.kept} - {*kept}
        return Sweep(
            coordinates=body.coordinates(column, body.needs_coordinates(reads, column)),
            loads=tuple(body.vector_load(fid, [outer, column]) for fid in reads),
            element=(
                *(f"const {body.c_type(fid)} t{fid} = h{fid}[c][k];" for fid in sorted(earlier)),
                *(f"const {body.c_type(fid)} t{fid} = v{fid}[k];" for fid in reads),
                *(body.statement(expr) for expr in exprs),
                *(f"h{fid}[c][k] = t{fid};" for fid in kept),
            ),
        )

    def taken(self, body: Body, targets: Iterable[int]) -> Lines:
        """The kept values that computing ``targets`` needs, one element each."""
        needed = body.roots(body.closure(targets, self.kept), targets)
        return tuple(f"const {body.c_type(fid)} t{fid} = h{fid}[c][k];" for fid in self.kept if fid in needed)


def steady_of(body: Body, exprs: Sequence[Expr], resident: Mapping[int, int], targets: Iterable[int]) -> Steady:
    """What of ``exprs`` follows from the inputs ``resident`` (input to lifetime, longer ones smaller) and scalars
    alone. ``targets`` are needed for every row."""
    lifetime = dict(resident)
    steady: list[Expr] = []
    for expr in exprs:
        fid = expr.outputs[0]
        if body.is_scalar(fid) or body.root(fid) != fid or op_of(expr).kind is not Kind.POINTWISE:
            continue
        sources = [body.root(operand) for operand in expr.inputs if not body.is_scalar(operand)]
        if sources and all(source in lifetime for source in sources):
            lifetime[fid] = max(lifetime[source] for source in sources)
            steady.append(expr)
    made = {expr.outputs[0] for expr in steady}
    needed = {body.root(fid) for fid in targets}
    for expr in exprs:
        if body.root(expr.outputs[0]) == expr.outputs[0]:
            own = lifetime[expr.outputs[0]] if expr.outputs[0] in made else None
            roots = (body.root(operand) for operand in expr.inputs)
            needed |= {root for root in roots if lifetime.get(root) != own}
    return Steady(
        inputs=tuple(resident),
        exprs=tuple(steady),
        lifetime=lifetime,
        kept=tuple(fid for fid in sorted(lifetime) if fid in needed),
    )
