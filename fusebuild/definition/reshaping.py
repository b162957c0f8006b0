"""What a reshape tells of sizes: that both shapes have as many elements.

Dims that both shapes have are left out first. Of what remains, a size that is alone on one side is what is on the
other; else the two products are equal by a relation, which every call is checked for. A size that is left out by -1 is
what remains of one shape, or a whole part of the one symbol that remains; any other is found out at the call.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from fusebuild.ir.algebra import Algebra
from fusebuild.ir.formula import Formula, product, symbols
from fusebuild.ops.type_rules import TypeRuleError


@dataclass(frozen=True, slots=True, kw_only=True)
class Reshaping:
    """The ``shape`` without -1, what symbols are ``known`` to be from now on, and two products that have to be
    ``equal``."""

    shape: tuple[Formula, ...]
    known: Mapping[str, Formula] = field(default_factory=dict)
    equal: tuple[Formula, Formula] | None = None


def told_by_rest(algebra: Algebra, old: Sequence[Formula], new: Sequence[Formula]) -> bool:
    """Whether only a call can tell the size for which -1 stands in ``new``, by a division."""
    if list(new).count(-1) != 1:
        return False
    left, right = _without_common(algebra, old, [extent for extent in new if extent != -1])
    return _quotient(left, right, lambda: "") is None


def reshaping(
    algebra: Algebra, old: Sequence[Formula], new: Sequence[Formula], fresh_symbol: Callable[[], str]
) -> Reshaping:
    """What a reshape from ``old`` to ``new`` tells; -1 in ``new`` is the size that is not given, and ``fresh_symbol``
    gives one that no size has yet. Raises :class:`TypeRuleError` where it cannot be told."""
    given = [extent for extent in new if extent != -1]
    if len(given) < len(new) - 1:
        raise TypeRuleError("reshape: more than one size is -1")
    left, right = _without_common(algebra, old, given)
    if len(given) < len(new):
        quotient = _quotient(left, right, fresh_symbol)
        assert quotient is not None, "such a size is given by a ruler"
        size, known = quotient
        return Reshaping(shape=tuple(size if extent == -1 else extent for extent in new), known=known)
    shape = tuple(new)
    if product(left) == product(right) or not any(isinstance(each, str | tuple) for each in (*left, *right)):
        return Reshaping(shape=shape)  # the type rule says what is wrong with numbers
    for side, other in ((right, left), (left, right)):
        if len(side) == 1 and isinstance(side[0], str) and side[0] not in symbols(product(other)):
            return Reshaping(shape=shape, known={side[0]: product(other)})
    return Reshaping(shape=shape, equal=(algebra.product(left), algebra.product(right)))


def _without_common(
    algebra: Algebra, old: Sequence[Formula], new: Sequence[Formula]
) -> tuple[list[Formula], list[Formula]]:
    """The factors of both shapes without those that they share; numbers are one factor, left out where it is 1."""
    left, right = (
        [algebra.canonical(extent) for extent in shape if not isinstance(extent, int)] for shape in (old, new)
    )
    for extent in [*left]:
        if extent in right:
            left.remove(extent)
            right.remove(extent)
    a, b = (math.prod(extent for extent in shape if isinstance(extent, int)) for shape in (old, new))
    common = math.gcd(a, b) or 1
    left += [a // common] if a != common else []
    right += [b // common] if b != common else []
    return left, right


def _quotient(
    left: Sequence[Formula], right: Sequence[Formula], fresh_symbol: Callable[[], str]
) -> tuple[Formula, dict[str, Formula]] | None:
    """The size whose product with ``right`` is that of ``left``, and what a symbol is for it to be a whole number; None
    where no formula says it."""
    if not right:
        return product(left), {}
    if len(left) == len(right) == 1 and isinstance(left[0], str) and isinstance(right[0], int) and right[0] > 0:
        size = fresh_symbol()
        return size, {left[0]: product([right[0], size])}
    return None
