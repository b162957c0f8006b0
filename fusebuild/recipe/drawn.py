"""Sizes that nobody chose: cases of a recipe, drawn at random within what its facts and ops allow.

The bytes that a case moves are drawn first, log-uniform: every other case is large (:data:`LARGE`), the others small
(:data:`SMALL`). Then the innermost dim of the widest input, log-uniform up to :data:`LONGEST_ROW` or what the bytes
allow; then the other symbols in random order, log-uniform too, but for the last, which is what makes the bytes come
out. Of both kinds half of the cases are aligned (each size above 64 is a multiple of 64), half have odd sizes.

Where no tensor may have more than so many elements, the elements of the largest tensor take the place of the bytes:
log-uniform from a 64th of what is allowed (:data:`BREADTH`).
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random

from fusebuild.ir.formula import Formula, evaluate, symbols
from fusebuild.ir.fusion import Fusion
from fusebuild.ir.values import ExtentFact
from fusebuild.ops.least_sizes import kept_facts
from fusebuild.recipe.extents import MAX_EXTENT
from fusebuild.recipe.recipe import Recipe
from fusebuild.recipe.sections import broken_fact, broken_relation
from fusebuild.recipe.sizes import least_bytes_formula, numels_of, symbols_of

SMALL = (10**5, 32 * 10**6)
LARGE = (32 * 10**6, 600 * 10**6)
"""The fewest and the most bytes of a small and of a large case."""
BREADTH = 64
"""Of cases with a limit of elements, the largest tensor has at least the limit divided by this."""
MOST_ELEMENTS = LARGE[1] // 4
"""The highest limit of elements: a tensor of floats that moves as many bytes as the largest case."""
LONGEST_ROW = 131072
ALIGNMENT = 64
ATTEMPTS = 64
CLOSE = math.log(1.125)
"""Sizes are taken at once where their amount is no further than this from the one that was drawn, as a logarithm."""

Case = Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What sizes are drawn for: the ``goal`` in bytes, or in elements of the largest tensor, which lies in ``bounds``;
    aligned sizes or odd ones."""

    bounds: tuple[int, int]
    goal: int
    aligned: bool


def drawn_cases(
    recipe: Recipe, count: int, seed: int, *, max_elements: int | None = None
) -> tuple[dict[str, int], ...]:
    """``count`` distinct cases of ``recipe``, the same for the same ``seed``; fewer where its facts or ``max_elements``
    allow fewer, none where no size is free.

    No tensor anywhere in the fusion has more elements than the case moves bytes, or than ``max_elements``. Where no
    sizes make the drawn bytes or elements, the nearest that were found are taken.
    """
    space, random = _Space(recipe, max_elements), Random(f"{recipe.fusion.name} {seed}")
    found: list[dict[str, int]] = []
    for index in range(count if space.free else 0):
        bounds = space.bounds(index)
        wish = Wish(bounds=bounds, goal=_log_uniform(random, *bounds), aligned=index // 2 % 2 == 0)
        case = space.draw(random, wish, found)
        if case is None:
            break
        found.append(case)
    return tuple(found)


def _log_uniform(random: Random, low: int, high: int) -> int:
    """An integer from ``low`` to ``high``, both positive; each octave is as likely as any other."""
    drawn = math.exp(random.uniform(math.log(low), math.log(max(low, high))))
    return min(max(int(drawn), low), max(low, high))


class _Range:
    """The sizes that ``fact`` allows a symbol; 0 only where it allows no other."""

    def __init__(self, fact: ExtentFact) -> None:
        self._step = fact.multiple_of
        most = MAX_EXTENT if fact.max is None else fact.max
        self.high = most // self._step * self._step
        least = -(-max(fact.min, 1) // self._step) * self._step
        self.low = least if least <= self.high else 0

    @property
    def is_free(self) -> bool:
        return 0 < self.low < self.high

    def rounded(self, size: int, *, aligned: bool) -> int:
        """The largest allowed size up to ``size`` that is as wished; where there is none, one that is allowed."""
        size, step = min(size, self.high), self._step
        shared = math.lcm(step, ALIGNMENT)
        odd = ((size // step - 1) // 2 * 2 + 1) * step
        as_wished = (size // shared * shared, min(size, ALIGNMENT) // step * step) if aligned else (odd,)
        return next((each for each in (*as_wished, size // step * step) if each >= self.low), self.low)


class _Space:
    """What can be drawn for ``recipe``: the ``free`` symbols have more than one size, the one that rows run along
    comes first. Where a symbol can only be 0 there is nothing to move, and none is free.

    The *amount* of a case is its bytes; where there is a limit of elements, those of its largest tensor."""

    def __init__(self, recipe: Recipe, max_elements: int | None) -> None:
        fusion = recipe.fusion
        self._facts, self._relations = kept_facts(fusion), fusion.relations
        facts = {fact.symbol: fact for fact in self._facts}
        self._dims = {binding.extent for binding in fusion.extents if isinstance(binding.extent, tuple)}
        self._ranges = {symbol: _Range(facts.get(symbol, ExtentFact(symbol=symbol))) for symbol in symbols_of(fusion)}
        self._least = {symbol: each.low for symbol, each in self._ranges.items()}
        is_empty = 0 in self._least.values()
        self.free = [] if is_empty else [each for each in _rows_first(fusion) if self._ranges[each].is_free]
        self._max_elements = max_elements
        numels = numels_of(fusion)
        self._amounts = {least_bytes_formula(fusion)} if max_elements is None else numels
        self._bounded = self._amounts | numels
        self._integers = [*recipe.ranges.values()]

    def bounds(self, index: int) -> tuple[int, int]:
        """The least and the greatest amount of the case number ``index``."""
        if self._max_elements is None:
            return SMALL if index % 2 else LARGE
        most = max(min(self._max_elements, MOST_ELEMENTS), 1)
        return max(most // BREADTH, 1), most

    def draw(self, random: Random, wish: Wish, taken: Sequence[Case]) -> dict[str, int] | None:
        """A case that is not ``taken`` yet and as ``wish`` says; else one of a lesser amount, aligned or not; else any
        within the wish's bounds."""
        asked = (self._attempt(random, wish) for _ in range(ATTEMPTS))
        less, any_amount = (self._others(random, wish, most) for most in (wish.goal, wish.bounds[1]))
        found = (self._nearest(cases, wish, taken) for cases in (asked, less, any_amount))
        return next((case for case in found if case is not None), None)

    def _others(self, random: Random, wish: Wish, most: int) -> Iterator[dict[str, int]]:
        """Cases of any amount up to ``most``, aligned or not."""
        highest = {symbol: each.high for symbol, each in self._ranges.items()}
        least, goal = max(self._amount_of(self._least), 1), min(most, self._amount_of(highest))
        for _ in range(ATTEMPTS):
            other = replace(wish, goal=_log_uniform(random, least, goal), aligned=random.random() < 0.5)
            yield self._attempt(random, other)

    def _nearest(self, cases: Iterable[dict[str, int]], wish: Wish, taken: Sequence[Case]) -> dict[str, int] | None:
        """The first of ``cases`` whose amount is close to the goal; where none is, the one that is nearest."""
        low, high = wish.bounds
        nearest, least_miss = None, math.inf
        for case in cases:
            if case in taken or not self._allows(case):
                continue
            amount = max(self._amount_of(case), 1)
            miss = abs(math.log(amount / wish.goal))
            if miss <= CLOSE and low <= amount <= high:
                return case
            if miss < least_miss:
                nearest, least_miss = case, miss
        return nearest

    def _attempt(self, random: Random, wish: Wish) -> dict[str, int]:
        """Sizes for all symbols; the last that is drawn makes the amount come out, as far as it can."""
        row, *others = self.free
        *drawn, solved = [row, *random.sample(others, len(others))]
        sizes = dict(self._least)
        for symbol in drawn:
            most = self._most(symbol, sizes, wish)
            most = min(most, LONGEST_ROW) if symbol == row else most
            size = _log_uniform(random, sizes[symbol], most)
            sizes[symbol] = self._ranges[symbol].rounded(size, aligned=wish.aligned)
        sizes[solved] = self._ranges[solved].rounded(self._most(solved, sizes, wish), aligned=wish.aligned)
        return sizes

    def _most(self, symbol: str, sizes: Case, wish: Wish) -> int:
        """The largest size of ``symbol`` beside the other ``sizes`` that exceeds the goal neither in its amount nor in
        elements of a tensor; its least where every size does."""
        limits = self._ranges[symbol]

        def exceeds(size: int) -> bool:
            case = {**sizes, symbol: limits.rounded(size, aligned=wish.aligned)}
            return any(evaluate(amount, case) > wish.goal for amount in self._bounded)

        return limits.low + max(0, bisect_left(range(limits.low, limits.high + 1), True, key=exceeds) - 1)

    def _amount_of(self, case: Case) -> int:
        return max(evaluate(amount, case) for amount in self._amounts)

    def _allows(self, case: Case) -> bool:
        """Whether ``case`` keeps all facts and the limit of elements, and each input has integers to be drawn from."""
        if any(broken_fact(fact, case[fact.symbol]) for fact in self._facts):
            return False
        if any(broken_relation(relation, case) for relation in self._relations):
            return False
        if any(evaluate(dim, case) < 1 for dim in self._dims):
            return False
        if self._max_elements is not None and self._amount_of(case) > self._max_elements:
            return False
        return all(evaluate(low, case) < evaluate(high, case) for low, high in self._integers)


def _rows_first(fusion: Fusion) -> list[str]:
    """The symbols of ``fusion``, the innermost dim of the input of most dims before all others."""
    widest = sorted(fusion.tensor_inputs, key=lambda value: -value.tensor.rank)
    innermost: list[Formula] = [
        value.tensor.shape[value.tensor.stride_order.index(0)] for value in widest if value.tensor.rank
    ]
    rows = [symbol for extent in innermost for symbol in symbols(extent)]
    return list(dict.fromkeys([*rows[:1], *symbols_of(fusion)]))
