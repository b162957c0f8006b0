"""How exact results are: the distance of each output from the fp64 oracle, by the same norms for everybody.

The oracle rounds only where the recipe does and leaves out the last rounding of an output. Two norms, both relative.
``largest`` is that of :func:`fusebuild.oracle.reference.compare`, which has bounds: it finds the one wrong element. It
does not tell two right results apart, because the unluckiest last rounding of millions decides: 2^-8 of a bfloat16 for
everybody. ``rms``, the root mean square of the error over that of the result, counts every element. Over n elements it
varies by chance by about ``1 / sqrt(2n)`` of itself, so what is said of exactness, who is worse than whom, is said of
it. A last rounding to bfloat16 is most of the error of any right result, and belongs to it: users get the rounded one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from fusebuild.errors import VerificationError, counted
from fusebuild.ir.fusion import Fusion
from fusebuild.ops.table import OPS
from fusebuild.oracle.bounds import bound_for, compare
from fusebuild.oracle.reference import torch_dtype
from fusebuild.oracle.verification import Trial, TrialOutcome

LENIENCE = 16
"""How far a contender's results may be from the oracle's, in bounds of its comparison: it must compute the same thing,
but may round every intermediate."""
MARGIN = 1.05
"""How many times eager's RMS error an output may have and be no worse: chance of the inputs, and of roundings."""
ROUNDINGS = {"double": 2.0**-53}
"""What an RMS error may be beyond that: one rounding of the dtype that everybody computes in, which is float but for
outputs of double. Results that near to each other differ by the order of their sums."""
DEVIATIONS = 6.0
"""By how many standard deviations the means of two samples of one distribution may differ: chance exceeds that once in
a billion times."""
SLICE = 2**26
"""Elements whose errors are taken at a time: half a gigabyte in fp64."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deviation:
    """How far one output is from the oracle's, by both norms of this module."""

    rms: float
    largest: float


class OutputErrors(msgspec.Struct, frozen=True, kw_only=True):
    """The errors of one output by both norms: ours, eager's and those of torch.compile; None where they do not give it,
    or draw random numbers for it."""

    output: str
    dtype: str
    elements: int
    rms: float
    largest: float
    eager_rms: float | None = None
    eager_largest: float | None = None
    compile_rms: float | None = None
    compile_largest: float | None = None

    @property
    def ratio(self) -> float | None:
        """Our RMS error over eager's."""
        if self.eager_rms is None:
            return None
        if self.eager_rms == 0.0:
            return math.inf if self.rms else 1.0
        return self.rms / self.eager_rms

    @property
    def is_worse(self) -> bool:
        """Whether our RMS error exceeds eager's by more than :data:`MARGIN` and :data:`ROUNDINGS` allow."""
        rounding = ROUNDINGS.get(self.dtype, 2.0**-24)
        return self.eager_rms is not None and self.rms > MARGIN * self.eager_rms + rounding


def our_deviations(trial: Trial, outcome: TrialOutcome) -> list[Deviation]:
    """The deviation of each output of ``trial`` in ``outcome``, which was compared already."""
    return [
        Deviation(rms=rms_error(got, want), largest=comparison.error)
        for got, want, comparison in zip(outcome.results, trial.wanted, outcome.comparisons, strict=True)
    ]


def torch_deviations(function: Callable[..., Any], trial: Trial) -> list[Deviation | None]:
    """The deviation of each result of ``function``, which are the first outputs of ``trial``, in order; None for what
    follows from random numbers, which torch draws itself.

    Raises :class:`VerificationError` where it computes something else; what follows from random numbers need only be
    distributed alike.
    """
    fusion, drawn = trial.fusion, random_fids(trial.fusion)
    results = as_results(function(*trial.arguments()))
    if len(results) > len(trial.wanted):
        raise VerificationError(
            f"the reference has {counted(len(results), 'result')}, the fusion {counted(len(trial.wanted), 'output')}"
        )
    found = list[Deviation | None]()
    for index, (output, want, given) in enumerate(zip(fusion.outputs, trial.wanted, results, strict=False)):
        dtype = fusion.value(output.fid).dtype
        if given.dtype != torch_dtype(dtype):
            raise VerificationError(f"the reference gives {given.dtype} for {output.name}, which is {dtype.value}")
        if given.numel() != want.numel():
            shapes = f"{tuple(given.shape)} for {output.name}, which is {tuple(want.shape)}"
            raise VerificationError(f"the reference gives {shapes}")
        got = given.reshape(want.shape)
        if output.fid in drawn:
            if not same_distribution(got, want):
                raise VerificationError(f"the reference is another {output.name}: it is distributed otherwise")
            found.append(None)
            continue
        bound = LENIENCE * bound_for(fusion, output.fid)
        verdict = compare(got, want, dtype, bound=bound, reach=partial(trial.reach, index))
        if not verdict.ok:
            raise VerificationError(f"the reference is another {output.name}: error {verdict.error:.1e}")
        found.append(Deviation(rms=rms_error(got, want), largest=verdict.error))
    return found


def random_fids(fusion: Fusion) -> frozenset[int]:
    """The values of ``fusion`` that follow from random numbers."""
    found: set[int] = set()
    for expr in fusion.exprs:
        if OPS[expr.op].is_random or not found.isdisjoint(expr.inputs):
            found.update(expr.outputs)
    return frozenset(found)


def same_distribution(a: Any, b: Any) -> bool:
    """Whether two tensors of one shape may be samples of one distribution: no more is asked than that their means
    agree, and those of their squares, as well as so many elements tell."""
    for first, second in ((a.double(), b.double()), (a.double().square(), b.double().square())):
        spread = (first.var(correction=0) + second.var(correction=0)) / first.numel()
        if not bool((first.mean() - second.mean()).abs() <= DEVIATIONS * spread.sqrt() + 1e-6 * first.abs().mean()):
            return False
    return True


def rms_error(got: Any, want: Any) -> float:
    """``rms(got - want) / rms(want)`` over the elements that are finite in ``want``, of the same shape: 0.0 where they
    are equal, or none; inf where they differ and ``want`` is zero everywhere."""
    import torch

    wrong, size = 0.0, 0.0
    for given, exact in zip(_slices(got), _slices(want), strict=True):
        expected = exact.double()
        finite = expected.isfinite()
        wrong += float(torch.where(finite, given.double() - expected, 0.0).square().sum())
        size += float(torch.where(finite, expected, 0.0).square().sum())
    return math.sqrt(wrong / size) if size else math.inf if wrong else 0.0


def _slices(tensor: Any) -> Sequence[Any]:
    slices: Sequence[Any] = tensor.reshape(-1).split(SLICE)
    return slices


def as_results(made: Any) -> tuple[Any, ...]:
    """The tensors in what a call gave: one, or several, nested or not."""
    if isinstance(made, tuple | list):
        return tuple(result for item in made for result in as_results(item))
    return (made,)
