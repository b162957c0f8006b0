"""How the sizes of a call tell the symbols that no dim of an input is alone.

A dim ``2*I`` of size 14 tells that ``I`` is 7. Symbols that a dim is alone come first. Then every dim with one symbol
that is still unknown, and in which it is linear, tells that symbol; ``D // 128`` does where ``D`` is a multiple of 128.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fusebuild.ir.algebra import Algebra
from fusebuild.ir.formula import Formula, symbols
from fusebuild.ir.values import ExtentBinding


@dataclass(frozen=True, slots=True, kw_only=True)
class Solution:
    """``symbol`` from the size of dim ``dim`` of tensor input ``input``: it is the number for which
    ``factor * symbol + offset`` is ``divisor`` times that size. Factor and offset are of symbols that are known."""

    symbol: str
    input: int
    dim: int
    divisor: int
    factor: Formula
    offset: Formula


@dataclass(frozen=True, slots=True, kw_only=True)
class Solved:
    """``solutions`` in the order in which they can be found, and the symbols that nothing tells."""

    solutions: tuple[Solution, ...]
    unknown: tuple[str, ...]


def solve(bindings: Sequence[ExtentBinding], algebra: Algebra) -> Solved:
    """How the dims ``bindings`` tell the symbols in them. Dims that say a multiple of a symbol come before those where
    the factor is itself a size, which may be 0."""
    known: set[Formula] = {binding.extent for binding in bindings if isinstance(binding.extent, str)}
    named = list(dict.fromkeys(symbol for binding in bindings for symbol in symbols(binding.extent)))
    formulas = [binding for binding in bindings if isinstance(binding.extent, tuple)]
    found: list[Solution] = []
    while solutions := _solutions(formulas, known, algebra):
        first = min(solutions, key=lambda solution: not isinstance(solution.factor, int))
        found.append(first)
        known.add(first.symbol)
    return Solved(solutions=tuple(found), unknown=tuple(symbol for symbol in named if symbol not in known))


def _solutions(bindings: Iterable[ExtentBinding], known: set[Formula], algebra: Algebra) -> list[Solution]:
    """What each dim with one unknown symbol tells now."""
    found = []
    for binding in bindings:
        unknown = {symbol for symbol in symbols(binding.extent) if symbol not in known}
        if len(unknown) != 1:
            continue
        (symbol,) = unknown
        if (line := algebra.line(binding.extent, symbol)) is not None:
            factor, offset, divisor = line
            found.append(Solution(symbol=symbol, input=binding.input, dim=binding.dim,
                                  divisor=divisor, factor=factor, offset=offset))  # fmt: skip
    return found


def divided(extents: Iterable[Formula], symbol: str) -> int:
    """The number of which ``symbol`` would have to be a multiple for all ``extents`` that divide it to tell it; 1 where
    none does."""
    divisors = [1]
    waiting = [*extents]
    while waiting:
        formula = waiting.pop()
        if not isinstance(formula, tuple):
            continue
        if formula[0] in ("floor_div", "ceil_div") and formula[1] == symbol and isinstance(formula[2], int):
            divisors.append(formula[2])
        waiting += formula[1:]  # type: ignore[arg-type]
    return math.lcm(*divisors)
