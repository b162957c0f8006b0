"""The normal form of formulas, and what follows from the facts about extents.

A formula is brought to a polynomial with integer coefficients. Its variables, *atoms*, are symbols and what no
polynomial says: quotients, remainders by a size, the least and the greatest of normal forms. A symbol ``D`` that is a
multiple of 128 is 128 times an atom, ``D // 128``, so that ``D // 64`` is twice that atom and ``(D // 128) * 128`` is
``D``. Equal polynomials are written as equal formulas: where shapes are canonical, ``==`` decides whether they are
equal.

Signs and orders are proved from what is known: no size is negative, ``min`` and ``max`` of facts, relations between
extents, and what holds of every quotient and every least or greatest. A proof adds multiples of what is known until
nothing negative is left. What is not found within a few steps counts as unknown.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import islice

from fusebuild.ir.equalities import Monomial, Polynomial, Rule, rewritten, rules, without
from fusebuild.ir.formula import OPERATORS, Formula, constants, evaluate, has_extremes, symbols
from fusebuild.ir.values import ExtentFact

MAX_TERMS = 256
"""The most terms that a product is multiplied out to; one with more is an atom."""
_MAX_STEPS = (100, 25, 0)
"""How many sums a proof looks at before it gives up, a proof within that one, and one within that. The last sees only
what has no negative term."""
_MAX_DEPTH = 4
"""How many known facts a proof adds at most; fewer are tried first."""
_INNERMOST = len(_MAX_STEPS) - 1
_MAX_PROVED = 24
"""The most terms of what a proof looks at."""
_ONE: Monomial = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Algebra:
    """What is known of the sizes of one Fusion. ``order`` are its symbols as sums and products list them, others come
    behind; ``relations`` are comparisons such as ``("le", a, b)`` that hold in every call."""

    order: tuple[str, ...] = ()
    facts: tuple[ExtentFact, ...] = ()
    relations: tuple[Formula, ...] = ()
    _known: dict[str, ExtentFact] = field(init=False, repr=False, compare=False)
    _ranks: dict[str, int] = field(init=False, repr=False, compare=False)
    _polynomials: dict[Formula, Polynomial] = field(init=False, repr=False, compare=False, default_factory=dict)
    _formulas: dict[Formula, Formula] = field(init=False, repr=False, compare=False, default_factory=dict)
    _signs: dict[tuple[frozenset[tuple[Monomial, int]], int], bool] = field(
        init=False, repr=False, compare=False, default_factory=dict
    )

    _margins_known: list[Polynomial] = field(init=False, repr=False, compare=False, default_factory=list)
    _rules: tuple[Rule, ...] = field(init=False, repr=False, compare=False, default=())

    def __post_init__(self) -> None:
        object.__setattr__(self, "_known", {fact.symbol: fact for fact in self.facts})
        object.__setattr__(self, "_ranks", {symbol: rank for rank, symbol in enumerate(self.order)})
        if any(isinstance(relation, tuple) and relation[0] == "eq" for relation in self.relations):
            plain = algebra_of(self.order, self.facts)
            object.__setattr__(self, "_rules", rules(self.relations, plain._polynomial, self._rank))

    def canonical(self, formula: Formula) -> Formula:
        """The one formula that all formulas equal to ``formula`` have, as far as the normal form tells."""
        if not isinstance(formula, tuple):
            return formula
        if formula not in self._formulas:
            self._formulas[formula] = self._formula(self._polynomial(formula))
        return self._formulas[formula]

    def equal(self, a: Formula, b: Formula) -> bool:
        """Whether ``a`` and ``b`` are surely the same number in every call."""
        return a == b or self._polynomial(a) == self._polynomial(b)

    def at_most(self, a: Formula, b: Formula) -> bool:
        """Whether ``a <= b`` surely holds in every call."""
        return self._is_nonnegative(_sum(self._polynomial(b), _scaled(self._polynomial(a), -1)))

    def is_nonnegative(self, formula: Formula) -> bool:
        """Whether ``formula`` is surely 0 or more."""
        return self._is_nonnegative(self._polynomial(formula))

    def product(self, factors: Iterable[Formula]) -> Formula:
        """The canonical product of ``factors``."""
        return self.canonical(("mul", 1, *factors))

    def total(self, terms: Iterable[Formula]) -> Formula:
        """The canonical sum of ``terms``."""
        return self.canonical(("add", 0, *terms))

    def divides(self, divisor: int, formula: Formula) -> bool:
        """Whether ``formula`` is surely a multiple of ``divisor``."""
        return all(count % divisor == 0 for count in self._polynomial(formula).values())

    def difference(self, a: Formula, b: Formula) -> Formula:
        """``a - b``, canonical."""
        return self.canonical(("sub", a, b))

    def at_least_zero(self, formula: Formula) -> Formula:
        """``formula``, or 0 where it is negative; canonical."""
        return self.canonical(("max", formula, 0))

    def line(self, formula: Formula, symbol: str) -> tuple[Formula, Formula, int] | None:
        """``(factor, offset, divisor)`` where ``divisor * formula`` is ``factor * symbol + offset``, and neither
        names ``symbol``; None where ``formula`` is not linear in it."""
        ((own, multiple),) = self._polynomial(symbol).items()
        slope: dict[Monomial, int] = {}
        rest: dict[Monomial, int] = {}
        for monomial, count in self._polynomial(formula).items():
            others = without(monomial, own)
            into, left = (rest, monomial) if others is None else (slope, others)
            if any(symbol in symbols(atom) for atom in left):
                return None
            into[left] = count
        if not slope:
            return None
        divisor = multiple // math.gcd(multiple, *slope.values())
        factor = {monomial: count * divisor // multiple for monomial, count in slope.items()}
        return self._formula(factor), self._formula(_scaled(rest, divisor)), divisor

    def contradicts(self, relation: Formula) -> bool:
        """Whether ``relation`` surely holds in no call."""
        opposites = {"le": "gt", "ge": "lt", "lt": "ge", "gt": "le"}
        operator, left, right = _comparison(relation)
        if operator == "eq":
            return any(self.contradicts((each, left, right)) for each in ("le", "ge"))
        return all(map(self._is_nonnegative, self._margins((opposites[operator], left, right))))

    def _margins(self, relation: Formula) -> Iterator[Polynomial]:
        """What is 0 or more where ``relation`` holds."""
        operator, *sides = _comparison(relation)
        left, right = map(self._polynomial, sides)
        strict: Polynomial = {_ONE: -1} if operator in ("lt", "gt") else {}
        if operator in ("le", "lt", "eq"):
            yield _sum(right, _scaled(left, -1), strict)
        if operator in ("ge", "gt", "eq"):
            yield _sum(left, _scaled(right, -1), strict)

    def promising(self, symbol: str, *, multiple_of: int = 1, least: int = 0) -> Algebra:
        """This algebra where ``symbol`` is a multiple of ``multiple_of`` and at least ``least``, too."""
        fact = self._known.get(symbol, ExtentFact(symbol=symbol))
        promised = replace(fact, multiple_of=math.lcm(fact.multiple_of, multiple_of), min=max(fact.min, least))
        others = (each for each in self.facts if each.symbol != symbol)
        return replace(self, facts=(*others, promised))

    # Polynomials of formulas.

    def _multiple(self, symbol: str) -> int:
        fact = self._known.get(symbol)
        return 1 if fact is None else fact.multiple_of

    def _polynomial(self, formula: Formula) -> Polynomial:
        if isinstance(formula, int):
            return {_ONE: formula} if formula else {}
        if isinstance(formula, str):
            multiple = self._multiple(formula)
            return {(formula,): 1} if multiple == 1 else {(("floor_div", formula, multiple),): multiple}
        if formula not in self._polynomials:
            self._polynomials[formula] = self._polynomial_of_call(*formula)  # type: ignore[arg-type]
        return self._polynomials[formula]

    def _polynomial_of_call(self, operator: str, *operands: Formula) -> Polynomial:
        if operator == "aligned":
            return {((operator, *operands),): 1}
        if operator == "add":
            return _sum(*map(self._polynomial, operands))
        if operator == "sub":
            first, *others = map(self._polynomial, operands)
            return _sum(first, *(_scaled(other, -1) for other in others))
        if operator == "mul":
            return self._multiplied(operands)
        if operator in ("min", "max"):
            return self._extreme(operator, operands)
        divisor = operands[1]
        if operator in ("floor_div", "ceil_div", "mod") and isinstance(divisor, int) and divisor > 0:
            return self._divided(operator, self._polynomial(operands[0]), divisor)
        made: Formula = (operator, *map(self.canonical, operands))
        if operator in OPERATORS and all(isinstance(operand, int) for operand in made[1:]):  # type: ignore[index]
            return self._polynomial(evaluate(made, {})) if divisor != 0 else {(made,): 1}
        return {(made,): 1}

    def _multiplied(self, operands: Sequence[Formula]) -> Polynomial:
        """The product of ``operands``, multiplied out unless that takes too many terms: then each sum is an atom."""
        flat: list[Formula] = []
        for operand in operands:
            flat += operand[1:] if isinstance(operand, tuple) and operand[0] == "mul" else [operand]  # type: ignore[arg-type]
        factors = [self._polynomial(operand) for operand in flat]
        if math.prod(map(len, factors)) > MAX_TERMS:
            factors = [each if len(each) < 2 else {(self._formula(each),): 1} for each in factors]
        found: Polynomial = {_ONE: 1}
        for factor in factors:
            found = self._product(found, factor)
        return found

    def _product(self, a: Polynomial, b: Polynomial) -> Polynomial:
        product = self._multiplied_out(a, b)
        return rewritten(product, self._rules, self._multiplied_out) if self._rules else product

    def _multiplied_out(self, a: Polynomial, b: Polynomial) -> Polynomial:
        """``a`` times ``b``, whatever the relations say of products."""
        found: dict[Monomial, int] = {}
        for left, left_count in a.items():
            for right, right_count in b.items():
                monomial = tuple(sorted((*left, *right), key=self._rank))
                found[monomial] = found.get(monomial, 0) + left_count * right_count
        return {monomial: count for monomial, count in found.items() if count}

    def _divided(self, operator: str, dividend: Polynomial, divisor: int) -> Polynomial:
        if operator == "ceil_div":
            return self._quotient(_sum(dividend, {_ONE: divisor - 1}), divisor)
        quotient = self._quotient(dividend, divisor)
        return quotient if operator == "floor_div" else _sum(dividend, _scaled(quotient, -divisor))

    def _quotient(self, dividend: Polynomial, divisor: int) -> Polynomial:
        """``dividend // divisor``, rounded down: what divides leaves the quotient, common factors are cancelled, and
        quotients of quotients are one."""
        exact = {monomial: count // divisor for monomial, count in dividend.items() if count % divisor == 0}
        if self._is_remainder({each: count for each, count in dividend.items() if each not in exact}, divisor):
            return exact
        whole: Polynomial = {monomial: count // divisor for monomial, count in dividend.items() if count // divisor}
        rest = {monomial: count % divisor for monomial, count in dividend.items() if count % divisor}
        constant = rest.pop(_ONE, 0)
        common = math.gcd(divisor, *rest.values())
        rest = {monomial: count // common for monomial, count in rest.items()}
        divisor, constant = divisor // common, constant // common
        if not rest or divisor == 1:
            return _sum(whole, rest, {_ONE: constant // divisor} if constant // divisor else {})
        inner = self._quotient_alone(rest)
        if inner is not None:
            dividend_of_inner, divisor_of_inner = inner
            shifted = _sum(dividend_of_inner, {_ONE: constant * divisor_of_inner} if constant else {})
            return _sum(whole, self._quotient(shifted, divisor * divisor_of_inner))
        whole, left = self._with_differences(whole, rest, divisor)
        if constant == divisor - 1:
            return _sum(whole, {(("ceil_div", self._formula(left), divisor),): 1})
        above = _sum(left, {_ONE: constant} if constant else {})
        return _sum(whole, {(("floor_div", self._formula(above), divisor),): 1})

    def _is_remainder(self, rest: Polynomial, divisor: int) -> bool:
        """Whether ``rest`` is surely from 0 to below ``divisor``. Only what has a part that is computed, such as the
        smaller of two sizes, is looked at: symbols alone have no bounds that divisions are made of."""
        is_computed = any(isinstance(atom, tuple) and not self._symbol_of(atom) for each in rest for atom in each)
        if not is_computed or not self._is_nonnegative(rest):
            return False
        return self._is_nonnegative(_sum({_ONE: divisor - 1}, _scaled(rest, -1)))

    def _with_differences(self, whole: Polynomial, rest: Polynomial, divisor: int) -> tuple[Polynomial, Polynomial]:
        """``N - N // 2`` in the place of ``N + N // 2`` as what is left of a division by 2, where it is surely no less
        than 0: dividends are never negative. Only what is no product of symbols is subtracted."""
        for monomial in sorted(rest, key=lambda each: [self._rank(atom) for atom in each]):
            is_computed = any(isinstance(atom, tuple) and not self._symbol_of(atom) for atom in monomial)
            less = _sum(rest, {monomial: -divisor})
            if is_computed and 2 * rest[monomial] >= divisor and self._is_nonnegative(less):
                whole, rest = _sum(whole, {monomial: 1}), less
        return whole, rest

    def _quotient_alone(self, polynomial: Polynomial) -> tuple[Polynomial, int] | None:
        """Dividend and divisor where ``polynomial`` is a quotient rounded down, and nothing beside it."""
        if len(polynomial) != 1:
            return None
        ((monomial, count),) = polynomial.items()
        if count != 1 or len(monomial) != 1 or self._symbol_of(monomial[0]):
            return None
        return self._parts(monomial[0])

    def _parts(self, atom: Formula) -> tuple[Polynomial, int] | None:
        """Dividend and divisor of an ``atom`` that is a quotient by a number, as if it were rounded down."""
        if not isinstance(atom, tuple) or atom[0] not in ("floor_div", "ceil_div") or not isinstance(atom[2], int):
            return None
        dividend: Polynomial = self._polynomial(atom[1])  # type: ignore[arg-type]
        return (dividend if atom[0] == "floor_div" else _sum(dividend, {_ONE: atom[2] - 1})), atom[2]

    def _extreme(self, operator: str, operands: Sequence[Formula]) -> Polynomial:
        found: list[Formula] = []
        for operand in map(self.canonical, operands):
            found += operand[1:] if isinstance(operand, tuple) and operand[0] == operator else [operand]  # type: ignore[arg-type]
        kept: list[Formula] = []
        for operand in dict.fromkeys(found):
            if any(self._is_beyond(operator, operand, other) for other in kept):
                continue
            kept = [other for other in kept if not self._is_beyond(operator, other, operand)]
            kept.append(operand)
        if len(kept) == 1:
            return self._polynomial(kept[0])
        constant_first = operator == "min"
        kept.sort(key=lambda each: (isinstance(each, int) is not constant_first, self._rank(each)))
        return {((operator, *kept),): 1}

    def _is_beyond(self, operator: str, operand: Formula, other: Formula) -> bool:
        """Whether ``operand`` never decides beside ``other``."""
        return self.at_most(other, operand) if operator == "min" else self.at_most(operand, other)

    # Formulas of polynomials.

    def _rank(self, atom: Formula) -> tuple[int, int, str]:
        """The place of ``atom`` among others: symbols in their order, then all else by its first symbol and its
        text."""
        if isinstance(atom, str):
            return (0, self._ranks.get(atom, len(self._ranks)), atom)
        ranks = (self._ranks.get(symbol, len(self._ranks)) for symbol in symbols(atom))
        return (1, min(ranks, default=-1), repr(atom))

    def _symbol_of(self, atom: Formula) -> str:
        """The symbol of whose multiple ``atom`` is the quotient; empty for every other atom."""
        if isinstance(atom, tuple) and atom[0] == "floor_div" and isinstance(atom[1], str):
            return atom[1] if atom[2] == self._multiple(atom[1]) != 1 else ""
        return ""

    def _formula(self, polynomial: Polynomial) -> Formula:
        terms = [self._term(monomial, count) for monomial, count in polynomial.items() if monomial]
        terms.sort(key=lambda term: (term[0] < 0, [self._rank(factor) for factor in term[1]]))
        written: list[Formula] = [_written(*term) for term in terms]
        if constant := polynomial.get(_ONE, 0):
            written.append(constant)
        if not written:
            return 0
        return written[0] if len(written) == 1 else ("add", *written)

    def _term(self, monomial: Monomial, count: int) -> tuple[int, list[Formula]]:
        """Coefficient and factors as they are written: as much of a multiple as there is goes back into its symbol."""
        factors: list[Formula] = []
        for atom in monomial:
            symbol = self._symbol_of(atom)
            if not symbol:
                factors.append(atom)
                continue
            multiple = self._multiple(symbol)
            common = math.gcd(count, multiple)
            count //= common
            factors.append(symbol if common == multiple else ("floor_div", symbol, multiple // common))
        return count, sorted(factors, key=self._rank)

    # Proofs.

    def _is_nonnegative(self, polynomial: Polynomial, level: int = 0) -> bool:
        """Whether a proof within ``level`` others shows it. What one finds depends on nothing that was asked before."""
        key = frozenset(polynomial.items()), level
        if key not in self._signs:
            self._signs[key] = _Proof(self, level).shows(polynomial)
        return self._signs[key]

    def is_nonnegative_atom(self, atom: Formula, level: int) -> bool:
        """Whether a proof within ``level`` others shows that ``atom`` is 0 or more."""
        if isinstance(atom, str) or self._symbol_of(atom):
            return True
        if isinstance(atom, int):
            return atom >= 0
        operator, *operands = atom
        if operator in ("max", "min"):
            decides = any if operator == "max" else all
            return decides(self._is_nonnegative(each, level) for each in map(self._polynomial, operands))  # type: ignore[arg-type]
        if operator in ("floor_div", "ceil_div", "mod", "mul"):
            return all(self._is_nonnegative(each, level) for each in map(self._polynomial, operands))  # type: ignore[arg-type]
        return operator in OPERATORS and operator not in ("add", "sub")

    def known_of(self, atoms: Iterable[Formula]) -> Iterator[Polynomial]:
        """Polynomials that are 0 or more in every call: relations, and what is known of ``atoms``."""
        yield from self._promised()
        quotients: list[tuple[Formula, Polynomial, int]] = []
        for atom in atoms:
            yield from self._bounds(atom)
            if (parts := self._parts(atom)) is not None and not self._symbol_of(atom):
                quotients.append((atom, *parts))
        for atom, dividend, divisor in quotients:
            yield _sum(dividend, {(atom,): -divisor})
            yield _sum({(atom,): divisor, _ONE: divisor - 1}, _scaled(dividend, -1))
            for other, other_dividend, other_divisor in quotients:
                is_more = other != atom and divisor <= other_divisor
                if is_more and self._is_nonnegative(_sum(dividend, _scaled(other_dividend, -1)), _INNERMOST):
                    step = other_divisor // divisor if other_divisor % divisor == 0 else 1
                    yield {(atom,): 1, (other,): -step}

    def _promised(self) -> tuple[Polynomial, ...]:
        """What the relations say is 0 or more. Their own sizes are written as they are without relations: else a proof
        would have to write a relation that it needs first. Those of a least or a greatest, whose order is proved while
        it is written, are left out for that reason."""
        if self.relations and not self._margins_known:
            plain = algebra_of(self.order, self.facts)
            plainly = (relation for relation in self.relations if not has_extremes(relation))
            self._margins_known.extend(margin for relation in plainly for margin in plain._margins(relation))
        return tuple(self._margins_known)

    def _bounds(self, atom: Formula) -> Iterator[Polynomial]:
        symbol = self._symbol_of(atom) or (atom if isinstance(atom, str) else "")
        if symbol in self._known:
            fact = self._known[symbol]
            if least := -(-fact.min // fact.multiple_of):
                yield {(atom,): 1, _ONE: -least}
            if fact.max is not None:
                most = fact.max // fact.multiple_of
                yield {(atom,): -1, _ONE: most} if most else {(atom,): -1}
        if isinstance(atom, tuple) and atom[0] in ("min", "max"):
            sign = 1 if atom[0] == "min" else -1
            for operand in atom[1:]:
                yield _scaled(_sum(self._polynomial(operand), {(atom,): -1}), sign)  # type: ignore[arg-type]
        if isinstance(atom, tuple) and atom[0] == "mod":
            yield _sum(self._polynomial(atom[2]), {(atom,): -1, _ONE: -1})  # type: ignore[arg-type]


NO_FACTS = Algebra()
"""What is known of sizes where nothing is said: they are not negative."""


class _Proof:
    """The search for a sum of known facts that shows one polynomial to be 0 or more."""

    def __init__(self, algebra: Algebra, level: int) -> None:
        self._algebra, self._inner = algebra, min(level + 1, _INNERMOST)
        self._left = _MAX_STEPS[level]
        self._facts: dict[frozenset[Formula], list[Polynomial]] = {}

    def shows(self, polynomial: Polynomial) -> bool:
        """Whether ``polynomial`` is 0 or more, as far as it is found out."""
        return any(self._finds(polynomial, depth) for depth in range(_MAX_DEPTH + 1))

    def _finds(self, polynomial: Polynomial, depth: int) -> bool:
        """Whether ``depth`` known facts show it."""
        polynomial = _tightened(polynomial)
        negative = next((each for each, count in polynomial.items() if count < 0 and each), None)
        if negative is None and polynomial.get(_ONE, 0) < 0:
            negative = _ONE
        if unsure := [each for each in polynomial if not self._is_nonnegative(each)]:
            negative = unsure[0]
            if polynomial[negative] > 0 and len(negative) > 1:
                return False
        if negative is None:
            return True
        self._left -= 1
        if self._left < 0 or depth == 0 or len(polynomial) > _MAX_PROVED:
            return False
        if any(self._finds(less, depth - 1) for less in self._less(polynomial, negative)):
            return True
        return any(
            all(self._finds(case, depth - 1) for case in self._cases(polynomial, atom, atom[1:]))  # type: ignore[arg-type]
            for atom in dict.fromkeys(atom for monomial in polynomial for atom in monomial)
            if isinstance(atom, tuple) and atom[0] in ("min", "max")
        )

    def _cases(self, polynomial: Polynomial, atom: Formula, operands: Iterable[Formula]) -> Iterator[Polynomial]:
        """``polynomial`` with each of the ``operands`` of ``atom``, a least or a greatest, in its place."""
        having = {monomial: count for monomial, count in polynomial.items() if atom in monomial}
        others = {monomial: count for monomial, count in polynomial.items() if atom not in monomial}
        for operand in map(self._algebra._polynomial, operands):
            terms = ({without(monomial, (atom,)) or _ONE: count} for monomial, count in having.items())
            yield _sum(others, *(self._algebra._product(term, operand) for term in terms))

    def _is_nonnegative(self, monomial: Monomial) -> bool:
        return all(self._algebra.is_nonnegative_atom(atom, self._inner) for atom in monomial)

    def _less(self, polynomial: Polynomial, monomial: Monomial) -> Iterator[Polynomial]:
        """``polynomial`` times a number, less what is known to be 0 or more, without ``monomial``."""
        count = polynomial[monomial]
        for fact in self._known(polynomial):
            for part, own in fact.items():
                others = without(monomial, part)
                if others is None or own * count <= 0 or not self._is_nonnegative(others):
                    continue
                common = math.gcd(own, count)
                times = {others: -abs(count) // common}
                yield _sum(_scaled(polynomial, abs(own) // common), self._algebra._product(fact, times))

    def _known(self, polynomial: Polynomial) -> list[Polynomial]:
        atoms = frozenset(atom for monomial in polynomial for atom in monomial)
        if atoms not in self._facts:
            ordered = sorted(atoms, key=self._algebra._rank)
            self._facts[atoms] = list(self._algebra.known_of(ordered))
        return self._facts[atoms]


@lru_cache(maxsize=256)
def algebra_of(
    order: tuple[str, ...], facts: tuple[ExtentFact, ...] = (), relations: tuple[Formula, ...] = ()
) -> Algebra:
    """The algebra of these facts, the same object each time: it remembers what it has found out."""
    return Algebra(order=order, facts=facts, relations=relations)


def algebra_given(
    shapes: Iterable[Iterable[Formula]],
    order: tuple[str, ...],
    facts: tuple[ExtentFact, ...],
    relations: tuple[Formula, ...],
) -> Algebra:
    """The algebra of these facts where tensors of ``shapes`` are given, too: no dim has less than no elements."""
    computed = dict.fromkeys(extent for shape in shapes for extent in shape if isinstance(extent, tuple))
    return algebra_of(order, facts, (*relations, *(("ge", extent, 0) for extent in computed)))


_MOST_MINIMA = 12
"""How many least sizes are tried, to say which one is missing."""


def missing_facts(algebra: Algebra, formulas: Sequence[Formula], holds: Callable[[Algebra], bool]) -> str:
    """How to state the facts under which ``holds`` is true, where ``algebra`` lacks nothing but multiples of symbols
    that ``formulas`` divide, or the least size of one that they compare with a number; empty where there are none."""
    multiples = _missing_multiples(algebra, formulas, holds)
    if multiples:
        return multiples
    minima = dict.fromkeys(each for formula in formulas for each in _compared(formula))
    for symbol, least in islice(minima, _MOST_MINIMA):
        if holds(algebra.promising(symbol, least=least)):
            return f"state '{symbol}: {{min: {least}}}' under extents"
    return ""


def _compared(formula: Formula) -> Iterator[tuple[str, int]]:
    """Each symbol that ``formula`` compares with a number, alone or in a sum, and the magnitude of the number."""
    if not isinstance(formula, tuple) or formula[0] == "aligned":
        return
    if formula[0] in ("min", "max"):
        numbers = dict.fromkeys(abs(number) for number in constants(formula) if number)
        yield from ((symbol, number) for symbol in symbols(formula) for number in numbers)
    for operand in formula[1:]:
        yield from _compared(operand)  # type: ignore[arg-type]


def _missing_multiples(algebra: Algebra, formulas: Sequence[Formula], holds: Callable[[Algebra], bool]) -> str:
    wanted: dict[str, int] = {}
    for formula in formulas:
        for symbol, divisor in _divisions(formula):
            wanted[symbol] = math.lcm(wanted.get(symbol, algebra._multiple(symbol)), divisor)
    tries: list[dict[str, int]] = [{symbol: multiple} for symbol, multiple in wanted.items()]
    for promises in (*tries, *([wanted] if len(wanted) > 1 else [])):
        promised = algebra
        for symbol, multiple in promises.items():
            promised = promised.promising(symbol, multiple_of=multiple)
        if holds(promised):
            stated = " and ".join(f"'{symbol}: {{multiple_of: {multiple}}}'" for symbol, multiple in promises.items())
            return f"state {stated} under extents"
    return ""


def _comparison(relation: Formula) -> tuple[str, Formula, Formula]:
    """The operator of ``relation`` and what it compares."""
    assert isinstance(relation, tuple), "a relation compares two sizes"
    operator, left, right = relation
    return str(operator), left, right  # type: ignore[return-value]


def _divisions(formula: Formula) -> Iterator[tuple[str, int]]:
    """Each symbol in ``formula`` that is divided by a number, and the number."""
    if not isinstance(formula, tuple) or formula[0] == "aligned":
        return
    if formula[0] in ("floor_div", "ceil_div", "mod") and isinstance(formula[2], int):
        yield from ((symbol, formula[2]) for symbol in symbols(formula[1]))  # type: ignore[arg-type]
    for operand in formula[1:]:
        yield from _divisions(operand)  # type: ignore[arg-type]


def _sum(*polynomials: Polynomial) -> Polynomial:
    found: dict[Monomial, int] = {}
    for polynomial in polynomials:
        for monomial, count in polynomial.items():
            found[monomial] = found.get(monomial, 0) + count
    return {monomial: count for monomial, count in found.items() if count}


def _scaled(polynomial: Polynomial, factor: int) -> Polynomial:
    return {monomial: count * factor for monomial, count in polynomial.items()}


def _tightened(polynomial: Polynomial) -> Polynomial:
    """A polynomial that is 0 or more exactly where ``polynomial`` is: what is a multiple of a number is at least the
    next multiple."""
    common = math.gcd(*(count for monomial, count in polynomial.items() if monomial))
    if common <= 1:
        return polynomial
    lower = {monomial: count // common for monomial, count in polynomial.items()}
    return {monomial: count for monomial, count in lower.items() if count}


def _written(count: int, factors: Sequence[Formula]) -> Formula:
    """The product of a number and ``factors``."""
    operands = [*factors] if count == 1 else [count, *factors]
    return operands[0] if len(operands) == 1 else ("mul", *operands)
