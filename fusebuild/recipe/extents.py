"""Sizes and relations between sizes as a recipe writes them: symbols and numbers with ``+``, ``-``, ``*`` and ``//``.

A size stands in the shape of an input, in the list of relations and in a body. Python's own parser reads the text;
nothing of it is ever run.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from fusebuild.errors import SourceLocation
from fusebuild.ir.formula import Formula, constants, depth, difference, product, total
from fusebuild.recipe.names import name_problem
from fusebuild.recipe.text import Problems, Scalar

MAX_EXTENT = 1 << 40
MAX_EXTENT_DEPTH = 16
"""How deep the arithmetic of an extent may be: plans hold formulas of extents, and bound how deep those are."""
_MAX_NODES = 200
"""How many names, numbers and operators a size of an input or a relation may have."""
ACCEPTED = "extents are made with +, -, * and // by a number above 0"
_ALLOWED = "sizes are made of symbols and numbers with +, -, * and // by a number above 0"
_COMPARISONS = {ast.LtE: "le", ast.GtE: "ge", ast.Lt: "lt", ast.Gt: "gt", ast.Eq: "eq"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """A comparison of two sizes that holds in every call, ``("le", "S", "P")``, and where it stands."""

    place: SourceLocation
    formula: tuple[str, Formula, Formula]


def computed(operator: ast.operator, left: Formula, right: Formula) -> Formula | None:
    """The sum, the difference, the product or the quotient (rounded down) of two sizes; None for other operators, and
    for quotients by what is no number above 0."""
    match operator:
        case ast.Add():
            return total([left, right])
        case ast.Sub():
            return difference(left, right)
        case ast.Mult():
            return product([left, right])
        case ast.FloorDiv() if isinstance(right, int) and right > 0:
            return left // right if isinstance(left, int) else ("floor_div", left, right)
    return None


def combined(operator: ast.operator, left: Formula, right: Formula) -> tuple[Formula | None, str]:
    """What ``operator`` makes of two extents, or None and why they have no such result."""
    result = computed(operator, left, right)
    if result is None:
        return None, ACCEPTED
    if isinstance(result, int) and result < 0:
        return None, f"the extent is {result}, less than 0"
    if (largest := max(map(abs, constants(result)), default=0)) > MAX_EXTENT:
        return None, f"the extent has a factor or a term of {largest}, more than {MAX_EXTENT}"
    if depth(result) > MAX_EXTENT_DEPTH:
        return None, f"the extent is nested more than {MAX_EXTENT_DEPTH} deep"
    return result, ""


class ExtentText:
    """Reads the sizes in ``text``, which begins at ``offset`` of ``scalar``."""

    def __init__(self, scalar: Scalar, offset: int, text: str, problems: Problems) -> None:
        self._scalar, self._offset, self._text, self._problems = scalar, offset, text, problems

    def extent(self) -> Formula | None:
        """The text as one size; None after reporting why it is none."""
        node = self._parsed()
        return None if node is None else self._extent(node)

    def relations(self) -> list[Relation]:
        """The text as comparisons of neighbours; those that could be read."""
        node = self._parsed()
        if node is None:
            return []
        if not isinstance(node, ast.Compare):
            self._problem(node, f"'{self._text}' compares nothing", "write a relation of sizes, such as S <= P")
            return []
        return list(self._pairs(node))

    def _pairs(self, node: ast.Compare) -> Iterator[Relation]:
        sides = [self._extent(side) for side in (node.left, *node.comparators)]
        for (left, right), operator in zip(pairwise(sides), node.ops, strict=True):
            name = _COMPARISONS.get(type(operator))
            if name is None:
                self._problem(node, "sizes are compared with <=, >=, <, > and ==")
            elif left is not None and right is not None:
                yield Relation(place=self._place(node), formula=(name, left, right))

    def _parsed(self) -> ast.expr | None:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                node = ast.parse(self._text.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            self._problems.add(self._whole, f"'{self._shortened}' is no size", _ALLOWED)
            return None
        if sum(1 for _ in ast.walk(node)) > _MAX_NODES:
            self._problems.add(self._whole, f"the size '{self._shortened}' is too long", "give parts of it names")
            return None
        return node

    @property
    def _whole(self) -> SourceLocation:
        leading = len(self._text) - len(self._text.lstrip())
        return self._scalar.part(self._offset + leading, len(self._text.strip()))

    @property
    def _shortened(self) -> str:
        text = self._text.strip()
        return text if len(text) <= 60 else f"{text[:60]}…"

    def _place(self, node: ast.expr) -> SourceLocation:
        leading = len(self._text) - len(self._text.lstrip())
        start, end = node.col_offset, node.end_col_offset or node.col_offset + 1
        text = self._text.strip()
        first, last = (len(text.encode()[:at].decode(errors="ignore")) for at in (start, end))
        return self._scalar.part(self._offset + leading + first, last - first)

    def _problem(self, node: ast.expr, message: str, hint: str = "") -> None:
        self._problems.add(self._place(node), message, hint)

    def _extent(self, node: ast.expr) -> Formula | None:
        if isinstance(node, ast.Name):
            message, hint = name_problem(node.id)
            if message:
                self._problem(node, message, hint)
            return None if message else node.id
        if isinstance(node, ast.Constant) and type(node.value) is int:
            if node.value <= MAX_EXTENT:
                return node.value
            self._problem(node, f"the extent is {node.value}, more than {MAX_EXTENT}")
            return None
        if not isinstance(node, ast.BinOp):
            self._problem(node, f"'{self._shortened}' is no size", _ALLOWED)
            return None
        left, right = self._extent(node.left), self._extent(node.right)
        if left is None or right is None:
            return None
        result, problem = combined(node.op, left, right)
        if problem:
            self._problem(node, problem)
        return result
