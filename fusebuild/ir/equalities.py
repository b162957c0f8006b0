"""Products of sizes that are equal in every call: what relations such as ``n*m == M*N`` do to polynomials.

Each such relation is a rule: the greater of its two products is written as the other one wherever it is a factor.
Reshapes to sizes that only a call knows are recorded with one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from fusebuild.ir.formula import Formula

Monomial: TypeAlias = "tuple[Formula, ...]"
"""A product of atoms, in order, each as often as it is a factor; the empty one is 1."""
Polynomial: TypeAlias = "Mapping[Monomial, int]"
"""The coefficient of each monomial; none is 0."""
Rule: TypeAlias = "tuple[Monomial, Polynomial]"
"""A product of two atoms or more, and what is written in its place."""

_MOST_STEPS = 64
"""How often the terms of one polynomial are written anew before the rest is left as it is."""


def rules(
    relations: Iterable[Formula],
    polynomial: Callable[[Formula], Polynomial],
    rank: Callable[[Formula], tuple[int, int, str]],
) -> tuple[Rule, ...]:
    """The rules of those ``relations`` that equate a product with something smaller: of fewer factors, or of as many
    that come earlier."""
    found = []
    for relation in relations:
        assert isinstance(relation, tuple), "a relation compares two sizes"
        if relation[0] != "eq":
            continue
        sides = [polynomial(side) for side in relation[1:]]  # type: ignore[arg-type]
        for side, other in (sides, reversed(sides)):
            ((product, count), *more) = side.items() or [((), 0)]
            is_greater = all(_place(each, rank) < _place(product, rank) for each in other)
            if not more and count == 1 and len(product) > 1 and is_greater:
                found.append((product, other))
                break
    return tuple(found)


def _place(monomial: Monomial, rank: Callable[[Formula], tuple[int, int, str]]) -> tuple[object, ...]:
    return (len(monomial), [rank(atom) for atom in monomial])


def rewritten(
    polynomial: Polynomial,
    known: Iterable[Rule],
    times: Callable[[Polynomial, Polynomial], Polynomial],
) -> Polynomial:
    """``polynomial`` with what the ``known`` rules say in the place of their products; ``times`` multiplies."""
    rules_now = tuple(known)
    for _ in range(_MOST_STEPS):
        found = next(
            ((term, rest, other) for term in polynomial for product, other in rules_now
             if (rest := without(term, product)) is not None), None
        )  # fmt: skip
        if found is None:
            break
        term, rest, other = found
        left = {monomial: count for monomial, count in polynomial.items() if monomial != term}
        for monomial, count in times({rest: polynomial[term]}, other).items():
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
