"""The lambdas that built-in ops combine with, and each op's identity.

All are commutative and associative up to rounding, which ``tests/ops/test_lambdas.py`` checks as it checks an author's.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

from fusebuild.ir.dtype import SCALAR_DTYPES, DType
from fusebuild.ir.fusion import Fusion
from fusebuild.ir.types import Literal
from fusebuild.ir.values import Value
from fusebuild.ops.lambdas import LambdaBuilder, lambda_form, state_dtypes


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltIn:
    """A lambda with the identity of its state."""

    body: Fusion
    identity: tuple[Literal, ...]


class _Author:
    """Writes one lambda whose state has the parts ``names``; ``left`` and ``right`` are the two operands."""

    def __init__(self, name: str, parts: dict[str, DType]) -> None:
        self._builder = LambdaBuilder(name)
        self.left, self.right = (
            [self._builder.scalar(dtype, name=f"{part}_{side}") for part, dtype in parts.items()] for side in "ab"
        )

    def __call__(self, op: str, *operands: Value | Literal, name: str = "") -> Value:
        values = [each if isinstance(each, Value) else self._builder.constant(each) for each in operands]
        return self._builder.call(op, values, names=[name])[0]

    def finish(self, results: list[Value], identity: tuple[Literal, ...]) -> BuiltIn:
        return BuiltIn(body=self._builder.finish_lambda(results), identity=identity)


def arg_extreme(op: str, dtype: DType) -> BuiltIn:
    """``argmax`` or ``argmin`` of values of ``dtype`` with their indices: NaN wins, then the first of equals; for
    ``cummax`` and ``cummin`` the last of equals."""
    write = _Author(f"builtin_{op}_{dtype.value}", {"value": dtype, "index": DType.INT64})
    (a, i), (b, j) = write.left, write.right
    is_max, is_first = op.endswith("max"), op.startswith("arg")
    beats, lowest = ("gt", dtype.lowest) if is_max else ("lt", dtype.highest)
    better, same = write(beats, a, b), write("eq", a, b)
    if dtype.is_floating:
        a_is_nan, b_is_nan = write("isnan", a), write("isnan", b)
        better = write("logical_or", better, write("logical_and", a_is_nan, write("logical_not", b_is_nan)))
        same = write("logical_or", same, write("logical_and", a_is_nan, b_is_nan))
    nearer = write("lt" if is_first else "gt", i, j)
    keep = write("logical_or", better, write("logical_and", same, nearer), name="keep")
    results = [write("where", keep, a, b, name="value"), write("where", keep, i, j, name="index")]
    worst = (-math.inf if is_max else math.inf) if dtype.is_floating else lowest
    return write.finish(results, (worst, DType.INT64.highest if is_first else DType.INT64.lowest))


def any_or_all(op: str, dtype: DType) -> BuiltIn:
    """``any`` or ``all`` of bools."""
    write = _Author(f"builtin_{op}", {"value": DType.BOOL})
    joined = write("logical_or" if op == "any" else "logical_and", write.left[0], write.right[0], name="value")
    return write.finish([joined], (op == "all",))


def exp_sum(op: str, dtype: DType) -> BuiltIn:
    """The largest value and the sum of ``exp(x - largest)``, in one pass (Milakov and Gimelshein, "Online normalizer
    calculation for softmax", 2018). An infinite maximum shifts nothing, so that no infinity meets its like."""
    write = _Author(f"builtin_exp_sum_{dtype.value}", {"max": dtype, "sum": dtype})
    (a, p), (b, q) = write.left, write.right
    largest = write("maximum", a, b, name="max")
    shift = write("where", write("isinf", largest), 0.0, largest)
    left = write("mul", p, write("exp", write("sub", a, shift)))
    right = write("mul", q, write("exp", write("sub", b, shift)))
    return write.finish([largest, write("add", left, right, name="sum")], (-math.inf, 0.0))


def mean_and_squares(op: str, dtype: DType) -> BuiltIn:
    """Mean, sum of squared deviations from it and number of elements, in one pass (Chan, Golub and LeVeque, 1979)."""
    write = _Author(f"builtin_{op}_{dtype.value}", {"mean": dtype, "m2": dtype, "n": dtype})
    (mean_a, m2_a, n_a), (mean_b, m2_b, n_b) = write.left, write.right
    n, delta = write("add", n_a, n_b, name="n"), write("sub", mean_b, mean_a)
    share = write("div", n_b, write("maximum", n, 1.0))
    mean = write("add", mean_a, write("mul", delta, share), name="mean")
    between = write("mul", write("mul", write("mul", delta, delta), n_a), share)
    return write.finish([mean, write("add", write("add", m2_a, m2_b), between, name="m2"), n], (0.0, 0.0, 0.0))


def running(op: str, dtype: DType) -> BuiltIn:
    """``cumsum`` or ``cumprod``."""
    write = _Author(f"builtin_{op}_{dtype.value}", {"value": dtype})
    joined = write("add" if op == "cumsum" else "mul", write.left[0], write.right[0], name="value")
    identity: Literal = 0 if op == "cumsum" else 1
    return write.finish([joined], (float(identity) if dtype.is_floating else identity,))


BUILT_IN: dict[str, Callable[[str, DType], BuiltIn]] = {
    "argmax": arg_extreme,
    "argmin": arg_extreme,
    "any": any_or_all,
    "all": any_or_all,
    "logsumexp": exp_sum,
    "online_softmax_statistics": exp_sum,
    "cumsum": running,
    "cumprod": running,
    "cummax": arg_extreme,
    "cummin": arg_extreme,
    "logcumsumexp": exp_sum,
}
"""For each op that is a lambda in disguise, what makes its lambda from the op's name and the dtype it computes in."""

_RECOGNIZED: dict[str, Callable[[str, DType], BuiltIn]] = {
    "argmax": arg_extreme,
    "argmin": arg_extreme,
    "logsumexp": exp_sum,
    "mean_and_squares": mean_and_squares,
}
_OF_FLOATS = ("logsumexp", "mean_and_squares")


@functools.cache
def _forms() -> dict[str, tuple[str, BuiltIn]]:
    """By its form, each lambda that kernels combine with in a way of their own, and the first name that it has."""
    made = [
        (name, make(name, dtype))
        for name, make in _RECOGNIZED.items()
        for dtype in SCALAR_DTYPES
        if dtype.is_floating or name not in _OF_FLOATS
    ]
    return {lambda_form(built_in.body): (op, built_in) for op, built_in in made}


def recognized(body: Fusion) -> tuple[str, BuiltIn] | None:
    """``argmax``, ``argmin`` or ``logsumexp``, where ``body`` computes what the lambda of that op does, or
    ``mean_and_squares``, whoever wrote it; and that lambda. None for all others."""
    return _forms().get(lambda_form(body)) if len(state_dtypes(body)) in (2, 3) else None
