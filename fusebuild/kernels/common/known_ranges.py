"""Operands whose range is known from how they are computed: the device header has shorter functions for them.

A softmax subtracts the largest value of a row before it takes exponentials, so these are of 0 at most; their sum counts
that of the largest value, so it is 1 at least.
"""

from __future__ import annotations

from collections.abc import Callable

from fusebuild.ir.fusion import Fusion
from fusebuild.ir.values import Expr
from fusebuild.ops.built_in_lambdas import recognized


class KnownRanges:
    """Of ``fusion``, whose values are looked through views by ``root``."""

    def __init__(self, fusion: Fusion, root: Callable[[int], int]) -> None:
        self._fusion, self._root = fusion, root

    def function(self, expr: Expr) -> str:
        """The function that computes ``expr`` for operands of their range; empty where it is the op's own."""
        if expr.op == "exp" and self._largest_above(expr.inputs[0]) is not None:
            return "fb::exp_of_negative"
        if expr.op == "reciprocal" and self._counts_the_largest(expr.inputs[0]):
            return "fb::reciprocal_of_at_least_one"
        return ""

    def _largest_above(self, fid: int) -> Expr | None:
        """The reduction that finds the largest value of a kind, or the logarithm of the sum of their exponentials,
        where ``fid`` is what one of them is above that; None where it is not. Such a ``fid`` is 0 at most, and so its
        exponential is small beside 1 where an approximation is far off."""
        difference = self._definition(fid)
        if difference is None or difference.op != "sub":
            return None
        value, largest = (self._before_widening(operand) for operand in difference.inputs)
        found = self._definition(largest)
        if found is None or found.op not in ("max", "add"):
            return None
        reduction = found if found.op == "max" else self._exponentials_of(found)
        is_of_its_kind = reduction is not None and self._before_widening(reduction.inputs[0]) == value
        return reduction if is_of_its_kind else None

    def _counts_the_largest(self, fid: int) -> bool:
        """Whether ``fid`` is a sum of exponentials below the largest value, that one's among them: 1 at least."""
        added = self._definition(self._before_widening(fid))
        if added is None or added.op != "sum":
            return False
        exponential = self._definition(self._before_widening(added.inputs[0]))
        if exponential is None or exponential.op != "exp":
            return False
        largest = self._largest_above(exponential.inputs[0])
        return largest is not None and largest.op == "max" and largest.dims == added.dims

    def _exponentials_of(self, added: Expr) -> Expr | None:
        """The reduction of which ``added`` is the logarithm of a sum of exponentials, as logsumexp decomposes into it;
        None where it is not."""
        logarithm, shift = map(self._definition, added.inputs)
        if logarithm is None or shift is None or (logarithm.op, shift.op) != ("log", "where"):
            return None
        reduction = self._definition(logarithm.inputs[0])
        if reduction is None or not reduction.combine or reduction is not self._definition(shift.inputs[2]):
            return None
        known = recognized(self._fusion.lambdas[reduction.combine])
        counts_once = self._fusion.value(reduction.inputs[1]).literal == 1
        return reduction if known is not None and known[0] == "logsumexp" and counts_once else None

    def _before_widening(self, fid: int) -> int:
        """What ``fid`` is a cast of, to a type that has all values of the first."""
        cast = self._definition(fid)
        while cast is not None and cast.op == "cast" and self._widens(cast):
            fid = cast.inputs[0]
            cast = self._definition(fid)
        return self._root(fid)

    def _widens(self, cast: Expr) -> bool:
        narrow, wide = self._fusion.value(cast.inputs[0]).dtype, self._fusion.value(cast.outputs[0]).dtype
        return narrow.is_floating and wide.is_floating and (narrow.bytes < wide.bytes or narrow is wide)

    def _definition(self, fid: int) -> Expr | None:
        return self._fusion.expr_of(self._root(fid))
