"""Whether a lambda may be combined as kernels combine it, found out by trying.

A kernel combines elements in a tree: the lambda must be associative, ``init`` must change nothing, and unless the
recipe says ``ordered`` the two sides may be swapped. None of this can be read off arithmetic, so each use of a lambda
is probed: random elements (the same on every run) are made the way the recipe makes them, from constants and the
elementwise ops above the reduction, since a lambda may rely on what its components are (a count of Welford's is never
negative). States are what a few elements combine to. Python's floats do the arithmetic, rounded as the dtypes round.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from fusebuild.errors import SourceLocation
from fusebuild.ir.dtype import DType
from fusebuild.ir.fusion import Fusion
from fusebuild.ir.types import Literal
from fusebuild.ir.values import Expr
from fusebuild.ops.lambdas import state_dtypes
from fusebuild.ops.scalar_math import compute, convert, has_scalar_meaning
from fusebuild.ops.scalars import MeaningError
from fusebuild.ops.table import Kind, op_of, operand_dtypes

State: TypeAlias = "tuple[Literal, ...]"
Report: TypeAlias = "Callable[[SourceLocation, str, str], None]"
Computation: TypeAlias = "Callable[[Sequence[Literal]], Literal]"

PROBES = 48
REDRAWS = 16
STEPS = 100_000
"""About how many ops all probes of a fusion compute. Only lambdas, or exprs above them, of hundreds of ops get fewer
probes or redraws because of it; each gets one."""
TOLERANCE = 1e-4
"""How far two results may differ, relative to the largest part of the states: some hundred roundings of float."""
LOOSE_TOLERANCE = 1e-2
"""How far two results may differ where associativity is tried: errors of two steps add up, and cancellation shows."""


def check_lambdas(fusion: Fusion, places: Mapping[str, SourceLocation], report: Report) -> None:
    """Probe every ``reduce`` and ``scan`` of ``fusion``; ``report(place, message, hint)`` takes what is wrong.

    The place is where the recipe defines the lambda, ``places``, or the use where ``init`` is no constant.
    """
    reported: set[str] = set()
    generalized = [expr for expr in fusion.exprs if op_of(expr).is_generalized]
    for expr in generalized:
        if expr.combine not in reported and (found := _problem(fusion, expr, places, STEPS // len(generalized))):
            report(*found)
            reported.add(expr.combine)


def _problem(
    fusion: Fusion, expr: Expr, places: Mapping[str, SourceLocation], steps: int
) -> tuple[SourceLocation, str, str] | None:
    """``(place, message, hint)`` where something is wrong with the lambda that ``expr`` combines with."""
    name, body = expr.combine, fusion.lambdas[expr.combine]
    count = len(body.outputs)
    if any(not fusion.value(fid).is_constant for fid in expr.inputs[count:]):
        return expr.location, f"{expr.op}: init must be known now", "it is the identity of the lambda, not a start"
    if unknown := _without_meaning(body, body.exprs):
        message = f"lambda '{name}' calls {unknown}, which has no meaning for single numbers"
        return places[name], message, _GIVE_MEANING
    if unknown := _without_meaning(fusion, _exprs_above(fusion, expr.inputs[:count])):
        message = f"lambda '{name}' cannot be tried here: {unknown}, which makes what it combines,"
        return expr.location, f"{message} has no meaning for single numbers", _GIVE_MEANING
    if problem := _Probe(fusion, expr, body, steps).problem():
        return places[name], f"lambda '{name}' {problem[0]}", problem[1]
    return None


_GIVE_MEANING = "a lambda is tried on numbers: give the op a reference of plain arithmetic, or its own 'scalar'"


def _without_meaning(fusion: Fusion, exprs: Sequence[Expr]) -> str:
    """The first op among ``exprs`` that cannot be computed on numbers of its dtypes, or an empty string."""
    computed = (expr for expr in exprs if _is_computed(expr))
    return next((expr.op for expr in computed if not has_scalar_meaning(expr.op, operand_dtypes(fusion, expr))), "")


def _is_computed(expr: Expr) -> bool:
    """Whether the result follows from the operands: not from where an element stands, nor from chance."""
    return op_of(expr).kind is Kind.POINTWISE and not op_of(expr).is_random


def _exprs_above(fusion: Fusion, fids: Sequence[int]) -> tuple[Expr, ...]:
    """The exprs that compute one element of ``fids`` from elements, in order."""
    wanted, exprs = set(fids), []
    for expr in reversed(fusion.exprs):
        if expr.outputs[0] in wanted and op_of(expr).kind in (Kind.POINTWISE, Kind.VIEW, Kind.CREATION):
            exprs.append(expr)
            wanted.update(expr.inputs)
    return tuple(reversed(exprs))


def _computation(fusion: Fusion, expr: Expr) -> Computation:
    """The pointwise op ``expr``, as a function of elements."""
    op, dtypes, result = expr.op, operand_dtypes(fusion, expr), fusion.value(expr.outputs[0]).dtype

    def computed(operands: Sequence[Literal]) -> Literal:
        try:
            literal = compute(op, operands, dtypes, result)
        except MeaningError as error:
            raise MeaningError(f"{op}({', '.join(map(_text, operands))}) fails: {error}") from error
        if literal is not None:
            return literal
        return math.nan if result.is_floating else 0  # devices differ, so any integer will do

    return computed


class ScalarLambda:
    """A lambda, as a function of two states."""

    def __init__(self, body: Fusion) -> None:
        self._inputs, self._outputs = body.inputs, body.output_fids
        self._literals: dict[int, Literal] = {
            fid: value.literal
            for fid, value in body.values.items()
            if value.literal is not None and not isinstance(value.literal, tuple)
        }
        self.computations = [(expr.inputs, expr.outputs[0], _computation(body, expr)) for expr in body.exprs]

    def __call__(self, left: State, right: State) -> State:
        known: dict[int, Literal] = dict(zip(self._inputs, (*left, *right), strict=True))
        known |= self._literals
        for inputs, output, computation in self.computations:
            known[output] = computation([known[fid] for fid in inputs])
        return tuple(known[fid] for fid in self._outputs)


class _Probe:
    """One use of a lambda, tried on elements as the use makes them."""

    def __init__(self, fusion: Fusion, expr: Expr, body: Fusion, steps: int) -> None:
        self._fusion, self._body, self._ordered = fusion, body, expr.is_ordered
        self._apply, self._steps_left = ScalarLambda(body), steps
        self._components = expr.inputs[: len(body.outputs)]
        self._random = random.Random(20190622)
        self._cone = _exprs_above(fusion, self._components)
        self._computed = {each.outputs[0]: _computation(fusion, each) for each in self._cone if _is_computed(each)}
        self._dtypes = state_dtypes(body)
        identity = [fusion.value(fid).literal for fid in expr.inputs[len(body.outputs) :]]
        self._identity = tuple(map(_as_literal, identity, self._dtypes))  # type: ignore[arg-type]

    def problem(self) -> tuple[str, str] | None:
        """``(what is wrong, hint)`` of the lambda, or None."""
        try:
            return self._found()
        except MeaningError as error:
            return f"cannot be tried: {error}", "correct what the op means for numbers: its 'scalar' or its reference"

    def _found(self) -> tuple[str, str] | None:
        for probe in range(PROBES):
            if probe and self._steps_left <= 0:
                break
            a, b, c = (self._state() for _ in range(3))
            if any(part != part for part in (*a, *b, *c)):
                continue
            both = self._combine(a, b)
            swapped = self._combine(b, a)
            if not self._ordered and (part := self._differing(both, swapped, [a, b], TOLERANCE)) is not None:
                name, got, other = self._shown(part, both, swapped)
                message = f"is not commutative: combine(a, b) gives {got} for '{name}', and combine(b, a) {other}"
                return message, "say ordered: true, to combine in the order of indices"
            if (wrong := self._identity_problem(a)) is not None:
                return wrong
            left, right = self._combine(both, c), self._combine(a, self._combine(b, c))
            if (part := self._differing(left, right, [a, b, c, both], LOOSE_TOLERANCE)) is not None:
                name, got, other = self._shown(part, left, right)
                message = f"is not associative: '{name}' is {got} or {other}, depending on what is combined first"
                return message, "parts of a row are combined before they meet: no other order can be had"
        return None

    def _identity_problem(self, state: State) -> tuple[str, str] | None:
        for call, result in (
            ("combine(init, b)", self._combine(self._identity, state)),
            ("combine(b, init)", self._combine(state, self._identity)),
        ):
            if (part := self._differing(result, state, [state], TOLERANCE)) is not None:
                name, got, wanted = self._shown(part, result, state)
                message = f"has no identity in init: {call} gives {got} for '{name}', where b has {wanted}"
                return message, "init must change nothing, like 0 in a sum"
        return None

    def _combine(self, left: State, right: State) -> State:
        self._steps_left -= len(self._apply.computations)
        return self._apply(left, right)

    def _differing(self, got: State, wanted: State, inputs: Sequence[State], tolerance: float) -> int | None:
        """The first part in which two states differ by more than rounding explains."""
        for part, (a, b) in enumerate(zip(got, wanted, strict=True)):
            if a == b or (a != a and b != b):
                continue
            if not self._dtypes[part].is_floating or not (math.isfinite(a) and math.isfinite(b)):
                return part
            numbers = [abs(float(number)) for state in (*inputs, got, wanted) for number in state]
            scale = max([1.0, *(number for number in numbers if math.isfinite(number))])
            if abs(a - b) > tolerance * scale:
                return part
        return None

    def _shown(self, part: int, first: State, second: State) -> tuple[str, str, str]:
        """The name of a part and its two values, as text."""
        return self._body.outputs[part].name, _text(first[part]), _text(second[part])

    def _state(self) -> State:
        """What one to four elements, made one after another, combine to."""
        state = self._element()
        for _ in range(self._random.choice((0, 0, 1, 3))):
            state = self._combine(state, self._element())
        return state

    def _element(self) -> State:
        """A random element. One with NaN in it, as the root of a random number often is, shows nothing of a lambda."""
        element: State = ()
        for _ in range(REDRAWS):
            element = self._drawn()
            if self._steps_left <= 0 or not any(part != part for part in element):
                break
        return element

    def _drawn(self) -> State:
        known: dict[int, Literal] = {}
        self._steps_left -= len(self._cone)
        for expr in self._cone:
            known[expr.outputs[0]] = self._element_of(expr, known)
        return tuple(
            _as_literal(self._read(fid, known), dtype)
            for fid, dtype in zip(self._components, self._dtypes, strict=True)
        )

    def _element_of(self, expr: Expr, known: dict[int, Literal]) -> Literal:
        operands = [self._read(fid, known) for fid in expr.inputs]
        result = self._fusion.value(expr.outputs[0])
        if expr.outputs[0] in self._computed:
            return self._computed[expr.outputs[0]](operands)
        if op_of(expr).is_random:
            return self._random.random()
        if expr.op == "iota":
            return _as_literal(operands[0] + operands[1] * self._random.randrange(8), result.dtype)
        if expr.op == "linear_index":
            return self._random.randrange(64)
        return self._random.randrange(1, 64) if expr.op == "size" else _as_literal(operands[0], result.dtype)

    def _read(self, fid: int, known: dict[int, Literal]) -> Literal:
        if fid not in known:
            value = self._fusion.value(fid)
            assert not isinstance(value.literal, tuple)
            known[fid] = self._any(value.dtype) if value.literal is None else value.literal
        return known[fid]

    def _any(self, dtype: DType) -> Literal:
        """A number of ``dtype``, now and then equal to another one."""
        if dtype is DType.BOOL:
            return self._random.random() < 0.5
        if dtype.is_integer or self._random.random() < 0.3:
            return _as_literal(self._random.randint(-3, 3), dtype)
        return _as_literal(self._random.uniform(-2.0, 2.0), dtype)


def _text(literal: Literal) -> str:
    return f"{literal:.6g}" if isinstance(literal, float) else str(literal)


def _as_literal(literal: Literal, dtype: DType) -> Literal:
    converted = convert(literal, dtype)
    return 0 if converted is None else converted
