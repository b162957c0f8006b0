"""What rounding alone can do to the outputs of a Fusion: how far they move when every rounding falls at random.

This is Monte Carlo arithmetic (Parker, "Monte Carlo Arithmetic", UCLA CSD-970002, 1997), as CESTAC (Vignes, 1993) did
it before: the Fusion is evaluated several times, and each time every value is moved by a few units in the last place at
random and rounded to the dtype that it is declared with, as kernels round: to a narrow one it falls to either side
where it is nearly a tie. An output whose value hangs on those roundings moves, the others stay. That measures the
conditioning of each element (Higham, "Accuracy and Stability of Numerical Algorithms", 1.13) with no derivative,
through decisions too: a comparison, a maximum or a rounding to whole numbers that is nearly a tie goes either way in
some of the evaluations, and in none where it is no tie.

What is evaluated is the Fusion after the passes, which is what kernels compute: a mean is a sum there and a division.
How far an evaluation has moved is measured from the exact value of the same ops, so that a pass that changes what is
computed widens nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from fusebuild.ir.dtype import DType
from fusebuild.ir.fusion import Fusion
from fusebuild.ops.table import Kind, op_of
from fusebuild.oracle.reference import Argument, Evaluation, Step, evaluate_fp64, rounded_last, torch_dtype
from fusebuild.passes import run_passes

if TYPE_CHECKING:
    from torch import Generator, Tensor

SAMPLES = 16
"""How often a Fusion is evaluated. Once in 2,000,000 times, all of these evaluations move an element by less than 0.4
of the farthest that rounding can move it."""

ULPS = 4.0
"""How far a float or a double is moved, at most, in units in the last place: device functions err by one or two, and
kernels combine partial sums in their own order."""

TIES = 32.0
"""A value that is rounded to a narrow dtype falls to either side at random, equally often, where it is nearer to a tie
than this, in units in the last place of a float. Kernels err by less, so where one of them rounds to the other side,
some evaluation does, too."""

POLE_SCATTER = 4.0
"""Where rounding may move an element across a pole, the largest and the smallest size that the evaluations give it
differ by more than this factor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """How far rounding moves each element of an output.

    ``furthest`` is the greatest distance between the exact element and a finite one that rounding makes of it.
    ``is_unsettled`` says where rounding makes an infinite or undefined number of a finite one, or the other way round.
    ``near_pole`` is, for an element near a pole, the least size that it had in any evaluation, and it may be of any
    greater size; it is NaN for every other element.
    """

    furthest: Tensor
    is_unsettled: Tensor
    near_pole: Tensor


class _Samples:
    """One output in all evaluations so far, of which the exact one is the first."""

    def __init__(self, exact: Tensor) -> None:
        import torch

        self._exact = exact
        self._furthest = torch.zeros_like(exact, dtype=torch.float64)
        self._is_unsettled = torch.zeros_like(exact, dtype=torch.bool)
        size = _logarithm(exact)
        self._least, self._greatest, self._total, self._count = size, size, size, 1

    def add(self, moved: Tensor) -> None:
        import torch

        distances, size = distance(moved, self._exact), _logarithm(moved)
        apart = distances.isinf()
        self._furthest = torch.maximum(self._furthest, torch.where(apart, 0.0, distances))
        self._is_unsettled = self._is_unsettled | apart
        self._least, self._greatest = torch.minimum(self._least, size), torch.maximum(self._greatest, size)
        self._total, self._count = self._total + size, self._count + 1

    def reach(self) -> Reach:
        return Reach(furthest=self._furthest, is_unsettled=self._is_unsettled, near_pole=self._near_pole())

    def _near_pole(self) -> Tensor:
        """Near a pole the reciprocals of an element scatter around zero. So its sizes are far apart, and the greatest
        is farther from their geometric mean than the least. Where the element itself scatters around zero, the least
        size is the one that is farther from the mean."""
        import torch

        is_far_apart = self._greatest - self._least > math.log(POLE_SCATTER)
        is_near = is_far_apart & (self._greatest + self._least > 2 * self._total / self._count)
        return torch.where(is_near, self._least.exp(), torch.nan)


def _logarithm(tensor: Tensor) -> Tensor:
    """The logarithm of each element's size, which is first clamped to the finite numbers above zero; NaN counts as
    zero."""
    import torch

    limits = torch.finfo(torch.float64)
    return tensor.double().abs().nan_to_num(nan=0.0).clamp(min=limits.tiny, max=limits.max).log()


def reaches(fusion: Fusion, inputs: Sequence[Argument], *, given: Mapping[str, int] | None = None) -> tuple[Reach, ...]:
    """The reach of each output, by :data:`SAMPLES` evaluations. ``given`` has the sizes of ``fusion.given``, for a
    segment."""
    primitive = run_passes(fusion)
    found = [_Samples(each) for each in evaluate_fp64(primitive, inputs, given=given)]
    ties = _ties_of(primitive)
    for seed in range(SAMPLES):
        rounded = RandomlyRounded(primitive, inputs, RandomRounding(seed, ties), given or {})
        for samples, moved in zip(found, rounded.outputs(rounded_last(primitive)), strict=True):
            samples.add(moved)
    return tuple(samples.reach() for samples in found)


def _ties_of(fusion: Fusion) -> float:
    """The distance from a tie that counts as near in ``fusion``. Every distance does where there are products of a
    library, since how far those err is not known."""
    return math.inf if any(op_of(expr).kind is Kind.LIBRARY for expr in fusion.exprs) else TIES


def distance(got: Tensor, want: Tensor) -> Tensor:
    """``|got - want|`` element by element, as doubles: inf where only one of them is NaN or infinite, or they are
    infinite on both sides of zero; at least 1 between different integers, however large."""
    import torch

    if not want.is_floating_point():
        apart = (got.double() - want.double()).abs().clamp(min=1.0)
        return torch.where(got == want, 0.0, apart)
    actual, expected = got.double(), want.double()
    same = (actual == expected) | (actual.isnan() & expected.isnan())
    return torch.where(same, 0.0, (actual - expected).abs().nan_to_num(nan=torch.inf, posinf=torch.inf))


class RandomRounding:
    """Rounds values to the dtypes that they are declared with, at random, to a narrow one where it is at most ``ties``
    from a tie. What a dtype holds exactly stays as it is, as it does in every kernel: copies, selections, small whole
    numbers and zeros."""

    def __init__(self, seed: int, ties: float = TIES) -> None:
        self._seed, self._ties = seed, ties
        self._generators: dict[str, Generator] = {}

    def __call__(self, tensor: Tensor, dtype: DType) -> Tensor:
        """``tensor`` as a value of ``dtype``; every floating one is held in float64."""
        if not dtype.is_floating:
            return tensor.to(torch_dtype(dtype))
        if dtype.is_reduced_precision:
            return self._rounded_to_narrow(tensor, dtype)
        exact = tensor.double()
        return self.moved(exact, exact, exact, dtype)

    def moved(self, exact: Tensor, size: Tensor, whole: Tensor, dtype: DType) -> Tensor:
        """``exact`` as a value of the wide ``dtype``, moved by at most :data:`ULPS` last places of ``size`` unless
        ``dtype`` holds it, and the ``whole``, exactly. It is not known which doubles are exact, as all evaluations are
        in double: they move unless they are infinite."""
        import torch

        held = torch_dtype(dtype)
        as_held = (exact == exact.to(held)) & (whole == whole.to(held))
        is_exact = as_held if dtype is DType.FLOAT else ~exact.isfinite()
        if bool(is_exact.all()):
            return exact
        noise = self._uniform(exact).sub_(0.5).mul_(2.0 * ULPS * dtype.unit_in_last_place)
        return torch.where(is_exact, exact, (exact + noise * size).to(held).double())

    def _rounded_to_narrow(self, tensor: Tensor, dtype: DType) -> Tensor:
        """The nearest neighbour in ``dtype``, and either one near a tie: random bits are added below the last one that
        is kept. Where all of a unit counts as near, that is stochastic rounding: the nearer one more often."""
        import torch

        number = self(tensor, DType.FLOAT).float()
        step = 1 << DType.FLOAT.row.mantissa_bits - dtype.row.mantissa_bits
        below = step / 2 + (self._uniform(number) - 0.5) * min(2 * self._ties, step)
        bits = (number.contiguous().view(torch.int32) + below.to(torch.int32)) & -step
        rounded = torch.where(number.isfinite(), bits.view(torch.float32), number)
        return rounded.to(torch_dtype(dtype)).double()

    def _uniform(self, like: Tensor) -> Tensor:
        """Numbers from 0 to below 1, others at each call."""
        import torch

        device = str(like.device)
        if device not in self._generators:
            self._generators[device] = torch.Generator(device=device).manual_seed(self._seed)
        return torch.rand(like.shape, generator=self._generators[device], device=device)


class RandomlyRounded(Evaluation):
    """An evaluation whose long sums err, too: each term by a rounding of its own, so by a rounding of the square root
    of the sum of their squares (Higham and Mary, "A new approach to probabilistic rounding error analysis", 2019).
    Nothing is rounded where the sum of their sizes is held exactly, as that of small whole numbers is. The sum itself
    tells nothing: terms that cancel leave few digits of sums on the way that had too many."""

    convert: RandomRounding

    def run(self, step: Step) -> tuple[Tensor, ...]:
        results = super().run(step)
        dtype = self.fusion.value(step.expr.outputs[0]).dtype
        op = op_of(step.expr)
        adds_terms = op.kind is Kind.LIBRARY or op.functor == "Sum"  # in an order of the kernel's or the library's own
        if not adds_terms or not dtype.is_floating:
            return results
        sizes = [operand.double().abs() for operand in step.operands]
        squares = super().run(replace(step, operands=tuple(each.square() for each in sizes)))[0]
        whole = super().run(replace(step, operands=tuple(sizes)))[0].double()
        held = DType.FLOAT if dtype.is_reduced_precision else dtype
        return (self.convert.moved(results[0].double(), squares.double().sqrt(), whole, held),)
