"""Reading one YAML node as what a recipe expects at its place: a name, a number, a flag, a tensor type.

Every function adds what is wrong to ``problems`` and then returns None (or what could be read), so that a reader goes
on and one run reports every mistake.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence as Many
from dataclasses import dataclass

from fusebuild.errors import SourceLocation, nearest
from fusebuild.ir.dtype import DType
from fusebuild.ir.formula import Formula
from fusebuild.ir.types import Literal
from fusebuild.recipe.extents import MAX_EXTENT, ExtentText
from fusebuild.recipe.names import name_problem
from fusebuild.recipe.text import Mapping, Node, Problems, Scalar, Sequence

_YAML_11_WORDS = frozenset(["yes", "no", "on", "off", "true", "false", "null", "~"])
_INTEGER = re.compile(r"[+-]?(0|[1-9][0-9]*)")
_ARITHMETIC = re.compile(r"[-+*/()]")
_FLOAT = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_NOT_FINITE = {".inf": math.inf, "+.inf": math.inf, "-.inf": -math.inf, ".nan": math.nan}
_OTHER_SPELLINGS = {spelling: dtype.value for dtype in DType for spelling in dtype.row.spellings}


def describe(node: Node) -> str:
    """What ``node`` is, for ``expected …, not …``."""
    if isinstance(node, Mapping):
        return "a mapping"
    if isinstance(node, Sequence):
        return "a list"
    return "nothing" if node.is_null else f"'{_shortened(node.text)}'"


def _shortened(text: str) -> str:
    line = text.split("\n", 1)[0]
    return line if line == text and len(line) <= 60 else f"{line[:60]}…"


def dtype_named(text: str) -> DType | None:
    """The dtype that recipes call ``text``."""
    return next((dtype for dtype in DType if dtype.value == text), None)


def dtype_hint(text: str) -> str:
    """A hint for a dtype that does not exist: the same thing as recipes spell it, the nearest, or all of them."""
    if text in _OTHER_SPELLINGS:
        return f"did you mean '{_OTHER_SPELLINGS[text]}'?"
    names = [dtype.value for dtype in DType]
    return nearest(text, names) or f"dtypes are {', '.join(names)}"


@dataclass(frozen=True, slots=True)
class TensorSpelling:
    """``bfloat16[M, 2*N, 8]`` taken apart, with the place of each dim."""

    dtype: DType
    shape: tuple[Formula, ...]
    places: tuple[SourceLocation, ...]


class Fields:
    """Readers that share one list of problems."""

    def __init__(self, problems: Problems) -> None:
        self.problems = problems

    def expected(self, node: Node, what: str, hint: str = "") -> None:
        """Report that ``node`` is not ``what``."""
        self.problems.add(node.location, f"expected {what}, not {describe(node)}", hint)

    def entries(self, node: Node, what: str, known: Many[str]) -> dict[str, Node]:
        """The values of ``node`` under the keys ``known``; other keys are errors."""
        found = {key.text: (key, value) for key, value in self.mapping(node, what)}
        for text, (key, _) in found.items():
            if text not in known:
                hint = nearest(text, known) or f"keys here are {', '.join(known)}"
                self.problems.add(key.location, f"unknown key '{_shortened(text)}'", hint)
        return {text: value for text, (_, value) in found.items() if text in known}

    def mapping(self, node: Node, what: str) -> tuple[tuple[Scalar, Node], ...]:
        """The keys and values of ``node``."""
        if isinstance(node, Mapping):
            return node.entries
        self.expected(node, what)
        return ()

    def parts(
        self, node: Node, what: str, name: str, place: SourceLocation, required: Many[str], *optional: str
    ) -> dict[str, Node]:
        """The entries of ``node``, which is ``what`` is called ``name`` at ``place``: none ``required`` is missing."""
        found = self.entries(node, f"a {what}", [*required, *optional])
        for key in required if isinstance(node, Mapping) else ():
            if key not in found:
                self.problems.add(place, f"{what} '{name}' has no '{key}'")
        return found

    def text(self, node: Node, what: str) -> Scalar | None:
        """``node`` as a text that is there."""
        if isinstance(node, Scalar) and not node.is_null:
            return node
        self.expected(node, what)
        return None

    def name(self, node: Node, what: str) -> str | None:
        """``node`` as a name that is safe in every language it reaches."""
        scalar = self.text(node, what)
        if scalar is None:
            return None
        if scalar.is_plain and scalar.text.lower() in _YAML_11_WORDS:
            hint = f"quote it ('{scalar.text}') or choose another name"
            self.problems.add(node.location, f"'{scalar.text}' has a meaning of its own in YAML", hint)
            return None
        message, hint = name_problem(scalar.text)
        if message:
            self.problems.add(node.location, message, hint)
            return None
        return scalar.text

    def integer(self, node: Node, what: str, *, low: int, high: int) -> int | None:
        """``node`` as a whole number from ``low`` to ``high``."""
        scalar = self.text(node, what)
        if scalar is None:
            return None
        if not scalar.is_plain or not _INTEGER.fullmatch(scalar.text):
            self.expected(node, f"a whole number for {what}")
            return None
        return self._within(scalar.text, what, low, high, node.location)

    def _within(self, text: str, what: str, low: int, high: int, place: SourceLocation) -> int | None:
        # Twenty digits are beyond every limit; Python refuses to convert thousands.
        value = int(text) if len(text) <= 20 else None
        if value is not None and low <= value <= high:
            return value
        too_small = text.startswith("-") if value is None else value < low
        problem = f"less than {low}" if too_small else f"more than {high}"
        self.problems.add(place, f"{what} is {_shortened(text)}, {problem}")
        return None

    def flag(self, node: Node, what: str) -> bool | None:
        """``node`` as true or false, spelled so."""
        scalar = node if isinstance(node, Scalar) and node.is_plain else None
        if scalar is not None and scalar.text in ("true", "false"):
            return scalar.text == "true"
        if scalar is not None and scalar.text.lower() in _YAML_11_WORDS and not scalar.is_null:
            self.problems.add(node.location, f"{what} is '{scalar.text}'", "write true or false")
        else:
            self.expected(node, f"true or false for {what}")
        return None

    def dtype(self, node: Node) -> DType | None:
        """``node`` as a dtype."""
        scalar = self.text(node, "a dtype")
        if scalar is None:
            return None
        dtype = dtype_named(scalar.text)
        if dtype is None:
            self.problems.add(node.location, f"unknown dtype '{_shortened(scalar.text)}'", dtype_hint(scalar.text))
        return dtype

    def items(self, node: Node, what: str) -> tuple[Node, ...] | None:
        """The items of ``node``, a list."""
        if isinstance(node, Sequence):
            return node.items
        self.expected(node, what)
        return None

    def literal(self, node: Node, dtype: DType) -> Literal | None:
        """``node`` as a constant of ``dtype``."""
        if dtype is DType.BOOL:
            return self.flag(node, "the value")
        if dtype.is_integer:
            return self.integer(node, "the value", low=dtype.lowest, high=dtype.highest)
        scalar = self.text(node, "a number")
        if scalar is None:
            return None
        if scalar.is_plain and scalar.text in _NOT_FINITE:
            return _NOT_FINITE[scalar.text]
        if not scalar.is_plain or not _FLOAT.fullmatch(scalar.text):
            self.expected(node, "a number", nearest(scalar.text.lower().replace("infinity", "inf"), _NOT_FINITE))
            return None
        value = float(scalar.text)
        if math.isinf(value):
            self.problems.add(node.location, f"{_shortened(scalar.text)} is too large for a double", "infinity is .inf")
            return None
        return value

    def number(self, node: Node) -> Literal | None:
        """``node`` as a constant of the dtype that it is written in: bool, int64 or double."""
        text = node.text if isinstance(node, Scalar) and node.is_plain else ""
        is_flag, is_whole = text in ("true", "false"), _INTEGER.fullmatch(text) is not None
        return self.literal(node, DType.BOOL if is_flag else DType.INT64 if is_whole else DType.DOUBLE)

    def tensor(self, node: Node) -> TensorSpelling | None:
        """``node`` as a tensor type such as ``bfloat16[M, N]``."""
        scalar = self.text(node, "a tensor type")
        if scalar is None:
            return None
        hint = "write it as bfloat16[M, N], or bfloat16[] for a tensor without dims"
        match = re.fullmatch(r"\s*([^\[\]\s]*)\s*\[([^\[\]]*)\]\s*", scalar.text)
        if not match:
            self.problems.add(node.location, f"'{_shortened(scalar.text)}' is not a tensor type", hint)
            return None
        dtype = dtype_named(match[1])
        if dtype is None:
            place = scalar.part(match.start(1), len(match[1]))
            self.problems.add(place, f"unknown dtype '{match[1]}'", dtype_hint(match[1]))
        dims = self._dims(scalar, match.start(2), match[2])
        if dtype is None or dims is None:
            return None
        return TensorSpelling(dtype, tuple(dim for dim, _ in dims), tuple(place for _, place in dims))

    def _dims(self, scalar: Scalar, offset: int, text: str) -> list[tuple[Formula, SourceLocation]] | None:
        if not text.strip():
            return []
        dims: list[tuple[Formula, SourceLocation]] = []
        pieces = text.split(",")
        for piece in pieces:
            word = piece.strip()
            place = scalar.part(offset + len(piece) - len(piece.lstrip()), len(word))
            is_sum = _ARITHMETIC.search(word) is not None and not _INTEGER.fullmatch(word)
            dim = ExtentText(scalar, offset, piece, self.problems).extent() if is_sum else self._dim(word, place)
            offset += len(piece) + 1
            if dim is not None:
                dims.append((dim, place))
        return dims if len(dims) == len(pieces) else None

    def _dim(self, word: str, place: SourceLocation) -> Formula | None:
        if _INTEGER.fullmatch(word):
            return self._within(word, "the extent", 0, MAX_EXTENT, place)
        message, hint = name_problem(word) if word else ("a dim is missing here", "write a symbol or a size")
        if message:
            self.problems.add(place, message, hint)
            return None
        return word
