"""Wrong kernels in great number: evaluations in the declared dtypes, with one error planted in each.

An error is one expr computed wrongly, as a mistake in a template or in an index makes it: another op, terms left out,
elements of a neighbour, an epsilon forgotten, too few bits kept. What comes out is judged by
:mod:`fusebuild.oracle.bounds` like what a kernel writes. Everything follows from the seed."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from fusebuild.ir.dtype import DType
from fusebuild.ir.fusion import Fusion
from fusebuild.ir.values import Expr
from fusebuild.oracle.reference import Evaluation, Step, torch_dtype

OTHER_OPS: Mapping[str, str] = {
    "add": "sub", "sub": "add", "mul": "add", "div": "mul", "truediv": "mul", "maximum": "minimum",
    "exp": "exp2", "tanh": "sigmoid", "sigmoid": "tanh", "rsqrt": "reciprocal", "sqrt": "rsqrt", "silu": "relu",
    "relu": "abs", "sin": "cos", "abs": "neg", "neg": "abs", "sum": "max", "max": "min", "lt": "le", "ge": "gt",
}  # fmt: skip
REDUCTIONS = ("sum", "prod", "max", "min")
LANES = 4
"""Elements in a vector, of which the last may be lost."""
THREADS = 32
"""How many partial sums an accumulator in bfloat16 is split among."""

Results = tuple[torch.Tensor, ...]
Compute = Callable[[Step], Results]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plant:
    """An error: the expr ``index`` of the primitive Fusion computed by ``spoil``, which is called ``kind``."""

    kind: str
    index: int
    spoil: Callable[[Step, Compute], Results]


def plants(fusion: Fusion) -> list[Plant]:
    """Every error that can be planted into the primitive ``fusion``."""
    return [
        Plant(kind=kind, index=index, spoil=spoil)
        for index, expr in enumerate(fusion.exprs)
        for kind, (fits, spoil) in KINDS.items()
        if fits(fusion, expr)
    ]


def evaluate_planted(fusion: Fusion, inputs: Sequence[Any], plant: Plant | None, *, exact: bool = False) -> Results:
    """The outputs of the primitive ``fusion`` in the dtypes that it declares, or in fp64 where they are floating, with
    ``plant`` in it."""
    return _Planted(fusion, inputs, _exact if exact else _typed, plant).outputs(frozenset())


def _typed(tensor: torch.Tensor, dtype: DType) -> torch.Tensor:
    return tensor.to(torch_dtype(dtype))


def _exact(tensor: torch.Tensor, dtype: DType) -> torch.Tensor:
    return tensor.double() if dtype.is_floating else tensor.to(torch_dtype(dtype))


class _Planted(Evaluation):
    def __init__(self, fusion: Fusion, inputs: Sequence[Any], convert: Any, plant: Plant | None) -> None:
        super().__init__(fusion, inputs, convert, {})
        self._plant = plant

    def run(self, step: Step) -> Results:
        if self._plant is None or step.expr is not self.fusion.exprs[self._plant.index]:
            return super().run(step)
        return self._plant.spoil(step, super().run)


def _other_op(step: Step, run: Compute) -> Results:
    return run(replace(step, expr=replace(step.expr, op=OTHER_OPS[step.expr.op])))


def _last_vector_lost(step: Step, run: Compute) -> Results:
    (x,) = step.operands
    dim = step.expr.dims[-1]
    return run(replace(step, operands=(x.narrow(dim, 0, max(x.shape[dim] - LANES, 1)),)))


def _one_term_lost(step: Step, run: Compute) -> Results:
    x = step.operands[0].contiguous().clone()
    x.view(-1)[:1] = 0
    return run(replace(step, operands=(x,)))


def _neighbour(step: Step, run: Compute) -> Results:
    return tuple(result.roll(1, -1) for result in run(step))


def _vector_not_written(step: Step, run: Compute) -> Results:
    spoilt = tuple(result.contiguous().clone() for result in run(step))
    for result in spoilt:
        result.view(-1)[-LANES:] = 0
    return spoilt


def _operand_of_another_row(step: Step, run: Compute) -> Results:
    x, *others = step.operands
    return run(replace(step, operands=(x[:1].expand_as(x), *others)))


def _constant_forgotten(step: Step, run: Compute) -> Results:
    return (run(step)[0] - step.operands[1],)


def _kept_in_bfloat16(step: Step, run: Compute) -> Results:
    return tuple(result.bfloat16().to(result.dtype) for result in run(step))


def _summed_in_bfloat16(step: Step, run: Compute) -> Results:
    (x,) = step.operands
    total = x
    for dim in sorted(step.expr.dims, reverse=True):
        terms = total.movedim(dim, 0)
        partial = torch.zeros((min(THREADS, terms.shape[0]), *terms.shape[1:]), dtype=torch.bfloat16)
        for start in range(0, terms.shape[0], THREADS):
            chunk = terms[start : start + THREADS]
            partial[: chunk.shape[0]] = (partial[: chunk.shape[0]].float() + chunk.float()).bfloat16()
        total = partial.to(x.dtype).sum(0)
    return (total,)


def _draws_of_another_seed(step: Step, run: Compute) -> Results:
    *given, seed, offset = step.operands
    return run(replace(step, operands=(*given, seed + 1, offset)))


def _floating(fusion: Fusion, expr: Expr) -> bool:
    return all(fusion.value(fid).dtype.is_floating for fid in expr.outputs)


def _reduces(fusion: Fusion, expr: Expr) -> bool:
    return expr.op in REDUCTIONS and bool(expr.dims)


def _adds_a_number(fusion: Fusion, expr: Expr) -> bool:
    return expr.op == "add" and fusion.value(expr.inputs[1]).literal is not None


def _is_wide(fusion: Fusion, expr: Expr) -> bool:
    return all(fusion.value(fid).dtype is DType.FLOAT and fusion.value(fid).is_tensor for fid in expr.outputs)


def _has_neighbours(fusion: Fusion, expr: Expr) -> bool:
    return _is_wide(fusion, expr) and all(fusion.value(fid).tensor.rank > 0 for fid in expr.outputs)


def _has_rows(fusion: Fusion, expr: Expr) -> bool:
    return bool(expr.inputs) and expr.op in OTHER_OPS and fusion.value(expr.inputs[0]).is_tensor \
        and fusion.value(expr.inputs[0]).tensor.rank > 1  # fmt: skip


KINDS: Mapping[str, tuple[Callable[[Fusion, Expr], bool], Callable[[Step, Compute], Results]]] = {
    "another op": (lambda fusion, expr: expr.op in OTHER_OPS, _other_op),
    "the last vector lost": (_reduces, _last_vector_lost),
    "one term lost": (_reduces, _one_term_lost),
    "an index off by one": (_has_neighbours, _neighbour),
    "a vector not written": (_is_wide, _vector_not_written),
    "another row": (_has_rows, _operand_of_another_row),
    "a constant forgotten": (_adds_a_number, _constant_forgotten),
    "kept in bfloat16": (_is_wide, _kept_in_bfloat16),
    "summed in bfloat16": (
        lambda fusion, expr: expr.op == "sum" and bool(expr.dims) and _floating(fusion, expr), _summed_in_bfloat16),
    "another seed": (lambda fusion, expr: expr.op in ("uniform", "rand_like", "dropout"), _draws_of_another_seed),
}  # fmt: skip


def planted(fusion: Fusion, seed: int, count: int) -> list[Plant]:
    """``count`` errors for ``fusion``, each kind as likely as any other, or fewer where there are not so many."""
    chance = random.Random(seed)
    by_kind = dict[str, list[Plant]]()
    for plant in plants(fusion):
        by_kind.setdefault(plant.kind, []).append(plant)
    found = [chance.choice(by_kind[chance.choice(sorted(by_kind))]) for _ in range(count)] if by_kind else []
    return list({(each.kind, each.index): each for each in found}.values())
