"""How far a result may be from what was wanted, and why. The one place that says what a bound is.

An element is right when ``|got - want|`` is at most ``bound * max(|want|, rms(want), least normal number)``, or at most
its *reach* and the last rounding to a narrow dtype.

*bound* belongs to the dtype (:data:`BOUNDS`, :func:`bound_for`) and is all that most results need. It is measured
against the typical magnitude where an element is far below it, because sums that cancel cannot be more exact than their
terms. *reach* is how far that element moves when every rounding of the Fusion falls at random (:mod:`rounding`): much
where the Fusion is ill-conditioned, as a quotient with a divisor near zero is, and nothing where nothing was rounded.
So a whole number may differ only where what it was rounded from is nearly a tie, a bool only where what was compared is
nearly equal, the place of a maximum only where another candidate is as large but for rounding; and a number may be
infinite or undefined, and need not be, where one of the evaluations differs in that from the exact one. Near a pole,
as of a quotient whose divisor is nothing but rounding errors, it may be infinite or of any size.

The reach takes several evaluations. It is asked for only by results that are beyond the bound alone, so that nearly all
cost nothing more.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fusebuild.ir.dtype import DType
from fusebuild.ir.fusion import Fusion
from fusebuild.ir.values import Expr
from fusebuild.ops.table import OPS, Kind
from fusebuild.oracle.reference import torch_dtype
from fusebuild.oracle.rounding import Reach, distance

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """How far a result is from what was wanted, at the element that is nearest to failing. ``error`` is inf where the
    shape is another, or NaN or Inf stand elsewhere. ``problem`` says of the element that is furthest beyond its bound
    where it is, what came and what was expected; it is empty where all are within."""

    error: float
    bound: float
    problem: str = ""

    @property
    def ok(self) -> bool:
        return self.error <= self.bound


BOUNDS = {dtype: dtype.row.bound for dtype in DType}
"""The largest error that :func:`compare` accepts for each dtype."""
UNITS = {dtype: dtype.unit_in_last_place for dtype in DType if dtype.is_reduced_precision}
"""The largest relative unit in the last place of each narrow dtype."""


def bound_for(fusion: Fusion, fid: int) -> float:
    """The bound for output ``fid``: that of its dtype, and again for each library product on the longest path to it.

    A product rounds its long sums to the storage dtype in an order of its own, so a result one rounding off is as right
    as the oracle's, and what follows starts from there. So it is with casts to a narrow dtype before the last one: each
    may fall to the other side, a whole unit in the last place (2^-7 of a bfloat16 that is just above a power of two),
    and the last rounding adds half of one.
    """
    products = _longest_paths(fusion, lambda expr: OPS[expr.op].kind is Kind.LIBRARY)
    casts = _longest_paths(fusion, lambda expr: expr.op == "cast" and fusion.value(expr.outputs[0]).dtype in UNITS)
    dtype = fusion.value(fid).dtype
    last = fusion.expr_of(fid)
    before = max((casts.get(operand, 0) for operand in last.inputs), default=0) if last is not None else 0
    return BOUNDS[dtype] * products.get(fid, 0) + max(BOUNDS[dtype], UNITS.get(dtype, 0.0) * (0.5 + before))


def _longest_paths(fusion: Fusion, counts: Callable[[Expr], bool]) -> dict[int, int]:
    """How many exprs that count are on the longest path to each value, its own included."""
    found: dict[int, int] = {}
    for expr in fusion.exprs:
        own = max((found.get(operand, 0) for operand in expr.inputs), default=0) + counts(expr)
        found.update((result, own) for result in expr.outputs)
    return found


def compare(
    got: Tensor, want: Tensor, dtype: DType, *, bound: float | None = None, reach: Callable[[], Reach] | None = None
) -> Comparison:
    """Judge ``got``, an output of ``dtype``, by ``want``, which may be wider.

    Errors are relative to ``max(|want|, rms(want), least normal number)``, those of integers and bools are not. Bounds:
    float 1e-5, some 80 roundings of 2^-24 each, room for sums over long rows and for approximate functions; double the
    same in proportion; half 2^-9 and bfloat16 2^-7, a last rounding (2^-11, 2^-8) and one before it that fell to the
    other side; integers and bools are exact. ``bound`` replaces the bound for a case that has a reason of its own;
    ``reach`` gives for each element how far rounding moves it, and is called only when the bound alone does not
    suffice.
    """
    import torch

    limit = BOUNDS[dtype] if bound is None else bound
    if got.shape != want.shape:
        problem = f": got sizes {list(got.shape)}, expected {list(want.shape)}"
        return Comparison(error=math.inf, bound=limit, problem=problem)
    if not want.numel():
        return Comparison(error=0.0, bound=limit)
    want, got = _held(want, dtype), got.to(want.device)
    scale = _scale(want, dtype)
    error = distance(got, want) / scale
    largest = float(error.max())
    if largest <= limit:
        return Comparison(error=largest, bound=limit)
    allowed = torch.full_like(error, limit)
    if reach is not None:
        found = reach()
        error = torch.where(_is_excused(got, want, found), 0.0, error)
        allowed = _allowed(found.furthest.to(want.device) / scale, dtype, limit)
    worst = int(_excess(error, allowed).argmax())
    off, bound = float(error.flatten()[worst]), float(allowed.flatten()[worst])
    return Comparison(error=off, bound=bound, problem="" if off <= bound else _problem(got, want, dtype, worst))


def _is_excused(got: Tensor, want: Tensor, found: Reach) -> Tensor:
    """Elements that may have any value: those where rounding decides between a finite number and an infinite or
    undefined one, and those near a pole that are at least as large as the least that was found there."""
    special = ~(got.isfinite() & want.isfinite())
    least = LEAST_PART * found.near_pole.to(want.device)
    return (found.is_unsettled.to(want.device) & special) | (got.double().abs() >= least)


def _allowed(moved: Tensor, dtype: DType, limit: float) -> Tensor:
    """The bound of each element that rounding moves as far as ``moved``, both relative to its size."""
    import torch

    if dtype.is_floating:
        moved = torch.where(moved > CHAOTIC, moved / LEAST_PART, moved)
    return (moved + UNITS.get(dtype, 0.0) / 2).clamp(min=limit)


def _problem(got: Tensor, want: Tensor, dtype: DType, place: int) -> str:
    """What is wrong with the element ``place``, counted in row-major order: ``[3, 17]: got 1.5, expected 2``."""
    import torch

    index = [int(along) for along in torch.unravel_index(torch.tensor(place), want.shape)]
    came, expected = (_shown(each.flatten()[place].item(), dtype) for each in (got, want))
    return f"{index or ''}: got {came}, expected {expected}"


def _shown(number: float, dtype: DType) -> str:
    """``number`` with as many digits as tell it from all others of ``dtype``."""
    if not isinstance(number, float):
        return str(number)
    digits = math.ceil(1 + (dtype.row.mantissa_bits + 1) * math.log10(2))
    return f"{number:.{digits}g}"


CHAOTIC = 0.25
"""An element that rounding moves by more than this share of its size has no digit that is certain, as the sine of a
large number. It may then lie beyond all places that the evaluations have found, which are at least :data:`LEAST_PART`
of the way from the exact element to the farthest one."""

LEAST_PART = 0.4
"""The evaluations find at least this share of how far rounding can move an element: see :data:`rounding.SAMPLES`."""

_SMALLEST = 1e-200
"""The least magnitude that errors are relative to. Where only zeros are wanted, every other number is far off."""


def _held(want: Tensor, dtype: DType) -> Tensor:
    """``want``, infinite where ``dtype`` has no number as large."""
    import torch

    if not want.is_floating_point():
        return want
    held = want.to(torch_dtype(dtype)).to(want.dtype)
    return torch.where(held.isinf(), held, want)


def _scale(want: Tensor, dtype: DType) -> Tensor:
    """The magnitude that the error of each element of ``dtype`` is relative to: that of the element or the RMS of all,
    whichever is greater; 1 for integers and bools. Subnormal numbers are as far apart as the least normal ones."""
    import torch

    if not want.is_floating_point():
        return torch.ones_like(want, dtype=torch.float64)
    least_normal = max(_SMALLEST, torch.finfo(torch_dtype(dtype)).smallest_normal)
    size = torch.where(want.isfinite(), want.double().abs(), 0.0)
    largest = size.max().clamp(min=_SMALLEST)  # whose square may be too large for a double
    typical = largest * ((size / largest).square().sum() / want.isfinite().sum().clamp(min=1)).sqrt()
    return torch.maximum(size, typical).clamp(min=least_normal)


def _excess(error: Tensor, allowed: Tensor) -> Tensor:
    """The error of each element over what is allowed: it fails above 1."""
    import torch

    return torch.where(error == 0, 0.0, error / allowed)
