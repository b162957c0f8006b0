"""Products of sizes that are equal in every call: what relations such as ``n*m == M*N`` do to polynomials.

Each such relation is a rule: one of its products is written as the other side wherever it is a factor.
Reshapes to sizes that only a call knows are recorded with one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from fusebuild.ir.formula import Formula

Monomial: TypeAlias = "tuple[Formula, ...]"
"""A product of atoms, in order, each as often as it is a factor; the empty one is 1."""
Polynomial: TypeAlias = "Mapping[Monomial, int]"
"""The coefficient of each monomial; none is 0."""
Rule: TypeAlias = "tuple[Monomial, int, Polynomial]"
"""A product of two atoms or more, how often it is taken, and what is written in the place of so many."""

_MOST_STEPS = 64
"""How often the terms of one polynomial are written anew before the rest is left as it is."""


def rules(
    relations: Iterable[Formula],
    polynomial: Callable[[Formula], Polynomial],
    rank: Callable[[Formula], tuple[int, int, str]],
) -> tuple[Rule, ...]:
    """The rules of those ``relations`` that equate a product with something else: of fewer factors, or of as many that
    come earlier, where one of the two is so. A product that is not is written as the other side where that has no such
    product itself."""
    found: list[Rule] = []
    for relation in relations:
        assert isinstance(relation, tuple), "a relation compares two sizes"
        if relation[0] != "eq":
            continue
        sides = [polynomial(side) for side in relation[1:]]  # type: ignore[arg-type]
        common = math.gcd(*(count for side in sides for count in side.values())) or 1
        left, right = ({each: count // common for each, count in side.items()} for side in sides)
        possible = [
            (product, count, other)
            for side, other in ((left, right), (right, left))
            for product, count in side.items()
            if len(side) == 1 < len(product) and count > 0 and all(without(each, product) is None for each in other)
        ]
        possible.sort(key=lambda rule: (rule[1], not _is_greater(rule[0], rule[2], rank)))
        found += possible[:1]
    return tuple(found)


def _is_greater(product: Monomial, others: Iterable[Monomial], rank: Callable[[Formula], tuple[int, int, str]]) -> bool:
    """Whether ``product`` has more factors than each of ``others``, or as many that come later."""
    return all(_place(each, rank) < _place(product, rank) for each in others)


def _place(monomial: Monomial, rank: Callable[[Formula], tuple[int, int, str]]) -> tuple[object, ...]:
    return (len(monomial), [rank(atom) for atom in monomial])


def rewritten(
    polynomial: Polynomial,
    known: Iterable[Rule],
    times: Callable[[Polynomial, Polynomial], Polynomial],
) -> Polynomial:
    """``polynomial`` with what the ``known`` rules say in the place of their products; ``times`` multiplies without
    them."""
    rules_now = tuple(known)
    for _ in range(_MOST_STEPS):
        found = next(
            ((term, rest, often, other) for term in polynomial for product, often, other in rules_now
             if polynomial[term] % often == 0 and (rest := without(term, product)) is not None), None
        )  # fmt: skip
        if found is None:
            break
        term, rest, often, other = found
        left = {monomial: count for monomial, count in polynomial.items() if monomial != term}
        for monomial, count in times({rest: polynomial[term] // often}, other).items():
            left[monomial] = left.get(monomial, 0) + count
        polynomial = {monomial: count for monomial, count in left.items() if count}
    return polynomial


def without(monomial: Monomial, part: Monomial) -> Monomial | None:
    """``monomial`` divided by ``part``; None where that is no monomial."""
    left = list(monomial)
    for atom in part:
        if atom not in left:
            return None
        left.remove(atom)
    return tuple(left)
