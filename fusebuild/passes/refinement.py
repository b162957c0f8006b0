"""The finest dims that two shapes of the same elements have in common."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from fusebuild.ir.algebra import Algebra
from fusebuild.ir.formula import Formula, product
from fusebuild.ops.indexing import reshape_groups


def common_refinement(old: Sequence[Formula], new: Sequence[Formula], algebra: Algebra) -> tuple[Formula, ...] | None:
    """The dims that both ``old`` and ``new`` are made of when neighbours are merged: ``[2, 3, P, 2]`` for ``[6, P, 2]``
    and ``[2, 3*P*2]``. None where there are none, as for ``[6, 4]`` and ``[8, 3]``."""
    found: list[Formula] = []
    for old_run, new_run in reshape_groups(old, new, algebra) or ():
        parts = _refined([old[dim] for dim in old_run], [new[dim] for dim in new_run])
        if parts is None:
            return None
        found += parts
    return tuple(found)


def _refined(old: Sequence[Formula], new: Sequence[Formula]) -> list[Formula] | None:
    """The same for runs of dims that have as many elements."""
    if len(old) < 2 or len(new) < 2:
        return [*(old if len(new) < 2 else new)]
    found: list[Formula] = []
    left, right = [*reversed(old)], [*reversed(new)]
    while left and right:
        a, b = left.pop(), right.pop()
        if (rest := _quotient(b, a)) is not None:
            found.append(a)
            right += [] if rest == 1 else [rest]
        elif (rest := _quotient(a, b)) is not None:
            found.append(b)
            left.append(rest)
        else:
            return None
    return None if any(extent != 1 for extent in (*left, *right)) else found


def _quotient(whole: Formula, part: Formula) -> Formula | None:
    """``whole`` without the factors of ``part``; None where it does not have them all."""
    (number, factors), (divisor, own) = _factors(whole), _factors(part)
    if divisor == 0 or number % divisor or own - factors:
        return None
    return product([number // divisor, *(factors - own).elements()])


def _factors(extent: Formula) -> tuple[int, Counter[Formula]]:
    """The number that ``extent`` is a multiple of, and its other factors."""
    flat: Sequence[Formula] = extent[1:] if isinstance(extent, tuple) and extent[0] == "mul" else (extent,)  # type: ignore[assignment]
    numbers = [factor for factor in flat if isinstance(factor, int)]
    return math.prod(numbers), Counter(factor for factor in flat if not isinstance(factor, int))
