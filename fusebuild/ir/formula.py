"""Formulas over extents: the small prefix lists that Python and the native executor both evaluate.

A formula is an int, a symbol (the name of an extent), or a tuple ``(operator, operand, ...)``: for example
``("ceil_div", "M", 8)``. In JSON the tuples are lists. Shapes, byte counts, grids, guards and workspace sizes are all
formulas, so a plan holds no code. All arithmetic is on 64-bit signed integers; divisions are of non-negative numbers.

One symbol is no extent: :data:`MULTIPROCESSORS`, whose size is that of the device at hand. Grids, arguments of
kernels and scratch may depend on it; guards and shapes never do, so that a plan takes the same variants everywhere.

``("aligned", fid, bytes)`` is 1 when the tensor ``fid`` starts at a multiple of ``bytes`` and each step along a dim
whose stride is known only at run time is one; it is evaluated only by the executor, which knows pointers and strides,
and by tests that pass ``aligned=``.
"""

from __future__ import annotations

import math
import operator as python
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from typing import Any, TypeAlias

Formula: TypeAlias = "int | str | tuple[int | str | tuple[object, ...], ...]"

INT64_MAX = 2**63 - 1

MULTIPROCESSORS = "gpu.multiprocessors"
"""The multiprocessors of the device that a call runs on, as a symbol. No recipe can have an extent of this name."""


def _ceil_div(a: int, b: int) -> int:
    return -(-a // b)


OPERATORS: dict[str, Callable[[int, int], int]] = {
    "add": python.add,
    "sub": python.sub,
    "mul": python.mul,
    "floor_div": python.floordiv,
    "ceil_div": _ceil_div,
    "mod": python.mod,
    "min": min,
    "max": max,
    "eq": lambda a, b: int(a == b),
    "ne": lambda a, b: int(a != b),
    "lt": lambda a, b: int(a < b),
    "le": lambda a, b: int(a <= b),
    "gt": lambda a, b: int(a > b),
    "ge": lambda a, b: int(a >= b),
}
"""Binary operators; ``add``, ``mul``, ``min`` and ``max`` take two or more operands and fold from the left."""

_VARIADIC = frozenset({"add", "mul", "min", "max"})
_INFIX = {"add": "+", "sub": "-", "mul": "*", "floor_div": "//", "mod": "%"} | {
    "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="
}  # fmt: skip


def evaluate(formula: Formula, extents: Mapping[str, int], aligned: Callable[[int, int], bool] | None = None) -> int:
    """The value of ``formula`` where each symbol has its size in ``extents``.

    Raises ``KeyError`` for a symbol without a size and ``ValueError`` for a malformed formula.
    """
    if isinstance(formula, int):
        return formula
    if isinstance(formula, str):
        return extents[formula]
    if formula[0] == "aligned":
        if aligned is None:
            raise ValueError("an alignment guard can only be evaluated with tensors")
        _, fid, size = formula
        if not isinstance(fid, int) or not isinstance(size, int):
            raise ValueError(f"malformed formula {formula!r}")
        return int(aligned(fid, size))
    apply = _function(formula)
    return reduce(apply, [evaluate(operand, extents, aligned) for operand in formula[1:]])  # type: ignore[arg-type]


def prepared(formula: Formula) -> Callable[[Mapping[str, Any]], Any]:
    """What evaluates ``formula``, where nothing in it is ``aligned``, at one set of sizes after another: in a fourth
    of the time that :func:`evaluate` takes, which looks at the formula each time. Sizes may be torch's symbols, too.

    Raises ``ValueError`` for a malformed formula; what it returns raises ``KeyError`` for a symbol without a size.
    """
    if isinstance(formula, int):
        return lambda extents: formula
    if isinstance(formula, str):
        return python.itemgetter(formula)
    apply, operands = _function(formula), [prepared(operand) for operand in formula[1:]]  # type: ignore[arg-type]
    if len(operands) > 2:
        return lambda extents: reduce(apply, [operand(extents) for operand in operands])
    first, second = operands
    return lambda extents: apply(first(extents), second(extents))


def _function(formula: tuple[Any, ...]) -> Callable[[int, int], int]:
    """What the operator of ``formula`` does to two of its operands."""
    operator, *operands = formula
    if not isinstance(operator, str) or operator not in OPERATORS or len(operands) < 2:
        raise ValueError(f"malformed formula {formula!r}")
    if len(operands) > 2 and operator not in _VARIADIC:
        raise ValueError(f"'{operator}' takes two operands: {formula!r}")
    return OPERATORS[operator]


def known_value(formula: Formula, sizes: Mapping[str, int]) -> int | None:
    """The value of ``formula`` at ``sizes``; None where it has a symbol that they do not give."""
    return evaluate(formula, sizes) if {*symbols(formula)} <= {*sizes} else None


def product(factors: Sequence[Formula]) -> Formula:
    """The product of ``factors``: nested products flattened, constants folded into one leading factor; 1 for none."""
    flat: list[Formula] = []
    for factor in factors:
        flat += factor[1:] if isinstance(factor, tuple) and factor[0] == "mul" else [factor]  # type: ignore[arg-type]
    constant = math.prod(factor for factor in flat if isinstance(factor, int))
    symbolic = [factor for factor in flat if not isinstance(factor, int)]
    if not symbolic or constant == 0:
        return constant
    operands = symbolic if constant == 1 else [constant, *symbolic]
    return operands[0] if len(operands) == 1 else ("mul", *operands)


def total(terms: Sequence[Formula]) -> Formula:
    """The sum of ``terms``: nested sums flattened, equal symbolic terms gathered under one factor, the constant last;
    0 for none."""
    flat: list[Formula] = []
    for term in terms:
        flat += term[1:] if isinstance(term, tuple) and term[0] == "add" else [term]  # type: ignore[arg-type]
    counts: dict[Formula, int] = {}
    constant = 0
    for term in flat:
        if isinstance(term, int):
            constant += term
            continue
        has_factor = isinstance(term, tuple) and term[0] == "mul" and isinstance(term[1], int)
        factor: int = term[1] if has_factor else 1  # type: ignore[assignment]
        rest = product(term[2:]) if has_factor else term  # type: ignore[arg-type]
        counts[rest] = counts.get(rest, 0) + factor
    operands = [product([count, rest]) for rest, count in counts.items() if count]
    if constant or not operands:
        operands.append(constant)
    return operands[0] if len(operands) == 1 else ("add", *operands)


def difference(a: Formula, b: Formula) -> Formula:
    """``a - b``, gathered as :func:`total` gathers sums."""
    terms = b[1:] if isinstance(b, tuple) and b[0] == "add" else (b,)
    return total([a, *(product([-1, term]) for term in terms)])  # type: ignore[list-item]


def is_nonnegative(formula: Formula) -> bool:
    """Whether ``formula`` is surely 0 or more, whatever the sizes are; False says nothing."""
    if isinstance(formula, int):
        return formula >= 0
    if isinstance(formula, str):
        return True
    operator, *operands = formula
    if operator == "sub":
        return False
    decides = any if operator == "max" else all
    return decides(is_nonnegative(operand) for operand in operands)  # type: ignore[arg-type]


def at_least_zero(formula: Formula) -> Formula:
    """``formula``, or 0 where it is negative."""
    if isinstance(formula, int):
        return max(formula, 0)
    return formula if is_nonnegative(formula) else ("max", formula, 0)


def magnitude(formula: Formula) -> Formula:
    """``formula`` without its sign."""
    if isinstance(formula, int):
        return abs(formula)
    return formula if is_nonnegative(formula) else ("max", formula, product([-1, formula]))


def ceil_div(a: Formula, b: int) -> Formula:
    """``a / b`` rounded up, folded when ``a`` is a constant."""
    if isinstance(a, int):
        return _ceil_div(a, b)
    return a if b == 1 else ("ceil_div", a, b)


def symbols(formula: Formula) -> Iterator[str]:
    """Every symbol in ``formula``, in order, repeats included."""
    return (leaf for leaf in _leaves(formula) if isinstance(leaf, str))


def constants(formula: Formula) -> Iterator[int]:
    """Every number in ``formula``, in order, repeats included."""
    return (leaf for leaf in _leaves(formula) if isinstance(leaf, int))


def _leaves(formula: Formula) -> Iterator[int | str]:
    if not isinstance(formula, tuple):
        yield formula
    elif formula[0] != "aligned":
        for operand in formula[1:]:
            yield from _leaves(operand)  # type: ignore[arg-type]


def has_extremes(formula: Formula) -> bool:
    """Whether ``formula`` has a least or a greatest of others in it."""
    if not isinstance(formula, tuple):
        return False
    return formula[0] in ("min", "max") or any(map(has_extremes, formula[1:]))  # type: ignore[arg-type]


def depth(formula: Formula) -> int:
    """How many operators deep ``formula`` is; 0 for a number or a symbol."""
    return 1 + max(map(depth, formula[1:])) if isinstance(formula, tuple) else 0  # type: ignore[arg-type]


def substitute(formula: Formula, sizes: Mapping[str, int] | Mapping[str, Formula]) -> Formula:
    """``formula`` with the symbols in ``sizes`` replaced by what they are, and folded as far as that allows."""
    if isinstance(formula, str):
        return sizes.get(formula, formula)
    if isinstance(formula, int) or formula[0] == "aligned":
        return formula
    operator, *operands = formula
    folded = [substitute(operand, sizes) for operand in operands]  # type: ignore[arg-type]
    if operator == "mul":
        return product(folded)
    if operator == "add":
        return total(folded)
    rebuilt: Formula = (operator, *folded)
    return evaluate(rebuilt, {}) if all(isinstance(operand, int) for operand in folded) else rebuilt


def simplified(formula: Formula) -> Formula:
    """``formula``, folded as far as the numbers in it allow."""
    return substitute(formula, dict[str, int]())


def show(formula: Formula, known: dict[Formula, str] | None = None) -> str:
    """``formula`` as a person writes it: ``("mul", 2, "M", "N")`` as ``2*M*N``. What is ``known`` is not written again,
    and what is written is known then: where many are shown, their parts are often the same."""
    if not isinstance(formula, tuple):
        return str(formula)
    if known is None:
        known = {}
    if formula not in known:
        known[formula] = _show_call(formula, known)  # type: ignore[arg-type]
    return known[formula]


def _show_call(formula: tuple[Formula, ...], known: dict[Formula, str]) -> str:
    operator, *operands = formula
    if operator == "add":
        return _show_sum(operands, known)
    texts = [_show_operand(operand, known, divides=operator in ("floor_div", "mod")) for operand in operands]
    if operator in _INFIX:
        separator = _INFIX[str(operator)]
        return (separator if operator == "mul" else f" {separator} ").join(texts)
    return f"{operator}({', '.join(show(operand, known) for operand in operands)})"


def _show_sum(terms: Sequence[Formula], known: dict[Formula, str]) -> str:
    """``terms`` joined by their signs."""
    text = ""
    for term in terms:
        sign = " + "
        if isinstance(term, tuple) and term[0] == "mul" and isinstance(term[1], int) and term[1] < 0:
            sign, term = " - ", product([-term[1], *term[2:]])  # type: ignore[list-item]
        elif isinstance(term, int) and term < 0:
            sign, term = " - ", -term
        shown = _show_operand(term, known, divides=False)
        text += f"{sign}{shown}" if text else f"-{shown}" if sign == " - " else shown
    return text


def _show_operand(operand: Formula, known: dict[Formula, str], *, divides: bool) -> str:
    """``operand`` in parentheses where it needs them: products bind as tightly as divisions do, and tighter than all
    else."""
    text = show(operand, known)
    needs_parentheses = isinstance(operand, tuple) and operand[0] in _INFIX and (divides or operand[0] != "mul")
    return f"({text})" if needs_parentheses else text
