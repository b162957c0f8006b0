"""The ``expect`` section of a recipe: how many segments its plan may have, and how many bytes they may move.

```
expect {segments: a number   bytes: a formula over symbols}
```

Nothing is planned otherwise because of it: no kernel and no plan depends on it. A recipe whose plan has more is not
compiled.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

from fusebuild.errors import SourceLocation, nearest
from fusebuild.ir.formula import Formula, constants, depth
from fusebuild.recipe.body import BodyText, parsing
from fusebuild.recipe.extents import ACCEPTED, MAX_EXTENT, computed
from fusebuild.recipe.fields import Fields
from fusebuild.recipe.text import Node, Problems, Scalar, Source

MAX_SEGMENTS = 1 << 20
MAX_FORMULA_DEPTH = 64
"""How many operators deep the bytes may be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """The most ``segments`` of a plan, and the ``bytes`` that these may read and write in all; None where nothing is
    said. The places are those of the two numbers."""

    segments: int | None = None
    segments_place: SourceLocation | None = None
    bytes: Formula | None = None
    bytes_place: SourceLocation | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectSection:
    """An expectation as written; the formula stays text."""

    segments: int | None = None
    segments_place: SourceLocation | None = None
    bytes: Scalar | None = None


def read_expect(fields: Fields, node: Node) -> ExpectSection:
    """The section ``node``; what is wrong with it is added to the problems of ``fields``."""
    entries = fields.entries(node, "a mapping with segments and bytes", ("segments", "bytes"))
    segments, bytes_ = entries.get("segments"), entries.get("bytes")
    return ExpectSection(
        segments=None if segments is None else fields.integer(segments, "segments", low=0, high=MAX_SEGMENTS),
        segments_place=None if segments is None else segments.location,
        bytes=None if bytes_ is None else fields.text(bytes_, "a number of bytes, such as 4*M*N"),
    )


def read_expectation(
    source: Source, section: ExpectSection, symbols: tuple[str, ...], problems: Problems
) -> Expectation:
    """``section`` with its formula read, which is made of ``symbols`` and numbers."""
    scalar = section.bytes
    return Expectation(
        segments=section.segments,
        segments_place=section.segments_place,
        bytes=None if scalar is None else _formula(source, scalar, symbols, problems),
        bytes_place=None if scalar is None else scalar.location,
    )


def _formula(source: Source, scalar: Scalar, symbols: tuple[str, ...], problems: Problems) -> Formula | None:
    """The formula in ``scalar``, or None after reporting what is wrong with it."""
    if not scalar.is_verbatim:
        problems.add(scalar.location, "the formula is folded", "write it on one line")
        return None
    text = BodyText(source, scalar)
    reader = _FormulaReader(text, symbols, problems)
    with parsing(text, "the formula", problems, "use fewer parentheses"):
        return reader.read(ast.parse(scalar.text.strip("\n"), mode="eval").body)
    return None


class _FormulaReader:
    """Reads one formula. A method that returns None has reported why."""

    def __init__(self, text: BodyText, symbols: tuple[str, ...], problems: Problems) -> None:
        self._text, self._symbols, self._problems = text, symbols, problems

    def read(self, node: ast.expr) -> Formula | None:
        match node:
            case ast.Name(id=name) if name in self._symbols:
                return name
            case ast.Constant(value=int(number)) if not isinstance(number, bool):
                return self._limited(node, number)
            case ast.BinOp(left=left, op=operator, right=right):
                return self._combined(node, operator, self.read(left), self.read(right))
            case ast.Name(id=name):
                hint = nearest(name, self._symbols) or f"symbols are {', '.join(self._symbols) or 'none'}"
                self._refuse(node, f"'{name}' is no dim of any input", hint)
            case _:
                self._refuse(node, "bytes are a formula of symbols and integers", ACCEPTED)
        return None

    def _combined(
        self, node: ast.expr, operator: ast.operator, left: Formula | None, right: Formula | None
    ) -> Formula | None:
        if left is None or right is None:
            return None
        formula = computed(operator, left, right)
        if formula is not None:
            return self._limited(node, formula)
        self._refuse(node, ACCEPTED)
        return None

    def _limited(self, node: ast.expr, formula: Formula) -> Formula | None:
        if (largest := max(map(abs, constants(formula)), default=0)) > MAX_EXTENT:
            self._refuse(node, f"the formula has a factor or a term of {largest}, more than {MAX_EXTENT}")
        elif depth(formula) > MAX_FORMULA_DEPTH:
            self._refuse(node, f"the formula is nested more than {MAX_FORMULA_DEPTH} deep")
        else:
            return formula
        return None

    def _refuse(self, node: ast.expr, message: str, hint: str = "") -> None:
        self._problems.add(self._text.place(node), message, hint)
