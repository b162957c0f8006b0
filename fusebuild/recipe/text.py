"""YAML text as a tree of nodes that know where they stand, within bounds.

PyYAML gives events, not objects: size, depth and every construct that a recipe does not need (anchors, tags, merge
keys, several documents) are refused while the events stream by, so nothing large is ever built. Scalars stay text here.
What a text means depends on where it stands, and YAML 1.1's own guesses (``no`` is false, ``010`` is eight, ``1e-5`` is
a string) are never used.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import yaml

from fusebuild.errors import Diagnostic, LocatedError, RecipeError, SourceLocation, one_line
from fusebuild.recipe.files import MAX_BYTES

MAX_DEPTH = 32
MAX_LINE_LENGTH = 4096
MAX_NODES = 20_000
"""The most scalars, lists and mappings; PyYAML takes a second for each ten thousand. A body is one scalar."""
MAX_DIAGNOSTICS = 100
MAX_PROBLEMS = 500
"""Where reading ends: most problems come with a search for what was meant among all names, and nobody reads more."""

_LINE_BREAK = re.compile(r"\r\n|\r|\n")
_PRINTABLE = (
    range(0x20, 0x7F), range(0xA0, 0x2028), range(0x202A, 0xD800), range(0xE000, 0xFEFF), range(0xFF00, 0xFFFE),
    range(0x10000, 0x110000),
)  # fmt: skip
"""Code points; a regular expression of them takes longer to compile than the texts take to read."""
_USUAL = frozenset(map(chr, range(0x20, 0x7F))) | {"\t", "\n", "\r"}


@dataclass(frozen=True, slots=True)
class Source:
    """The text of one recipe and the name under which messages show it."""

    path: str
    text: str
    lines: tuple[str, ...]

    def at(self, line: int, column: int, width: int = 1) -> SourceLocation:
        """The place at ``line`` and ``column``, both counted from 0."""
        text = self.lines[line] if line < len(self.lines) else ""
        return SourceLocation(
            path=self.path, line=line + 1, column=column + 1, text=text, width=max(1, min(width, len(text) - column))
        )


@dataclass(slots=True)
class Problems:
    """Diagnostics of one stage, raised together."""

    found: list[Diagnostic] = field(default_factory=list)

    def add(self, location: SourceLocation, message: str, hint: str = "") -> None:
        """Note a problem; raises a :class:`RecipeError` when there are more than any author works through."""
        self.found.append(Diagnostic(location=location, message=one_line(message), hint=one_line(hint)))
        if len(self.found) == MAX_PROBLEMS:
            self.raise_if_any()

    def raise_if_any(self) -> None:
        """Raise a :class:`RecipeError` with everything found so far, each once; with the first hundred when there are
        more."""
        if not self.found:
            return
        shown = sorted(dict.fromkeys(self.found), key=lambda d: (d.location.line, d.location.column))
        if hidden := shown[MAX_DIAGNOSTICS:]:
            rest = Diagnostic(location=hidden[0].location, message=f"too many errors: {len(hidden)} are not shown")
            shown = [*shown[:MAX_DIAGNOSTICS], rest]
        raise RecipeError(shown)


@dataclass(frozen=True, slots=True)
class Scalar:
    """A text. ``style`` is empty for plain text, else the character that introduces it: ``'``, ``"``, ``|``, ``>``."""

    text: str
    style: str
    location: SourceLocation
    last_line: int

    @property
    def is_plain(self) -> bool:
        return not self.style

    @property
    def is_null(self) -> bool:
        """Whether the YAML says nothing here: an empty value, ``~`` or ``null``."""
        return self.is_plain and self.text in ("", "~", "null", "Null", "NULL")

    @property
    def is_verbatim(self) -> bool:
        """Whether the lines of the text are those of the file."""
        if self.style in ("'", '"') and not self.location.text[self.location.column :].startswith(self.text):
            return False
        return self.style == "|" or (self.last_line == self.location.line and self.style != ">")

    def part(self, offset: int, width: int) -> SourceLocation:
        """The place of ``width`` characters at ``offset`` of the text; of the whole where the two do not line up."""
        column = self.location.column + (1 if self.style in ("'", '"') else 0)
        is_verbatim = self.location.text[column - 1 :].startswith(self.text)
        if self.style in ("|", ">") or not is_verbatim:
            return self.location
        return replace(self.location, column=column + offset, width=max(width, 1))


@dataclass(frozen=True, slots=True)
class Sequence:
    items: tuple[Node, ...]
    location: SourceLocation


@dataclass(frozen=True, slots=True)
class Mapping:
    entries: tuple[tuple[Scalar, Node], ...]
    location: SourceLocation


Node: TypeAlias = "Scalar | Sequence | Mapping"


def decoded(data: bytes, name: str, what: str) -> str:
    """The text in the bytes of the file ``name``, which is ``what``: a recipe or a library. Raises :class:`RecipeError`
    for bytes that are none."""
    start = SourceLocation(path=name, line=1, column=1)
    if len(data) > MAX_BYTES:
        raise RecipeError.at(start, f"the {what} has more than {MAX_BYTES} bytes, which are the limit")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        before = text_lines(data[: error.start].decode("utf-8"))
        place = SourceLocation(path=name, line=len(before), column=len(before[-1]) + 1)
        message = f"the {what} is not UTF-8: byte {error.start} is 0x{data[error.start]:02x}"
        raise RecipeError.at(place, message) from None


def text_lines(text: str) -> tuple[str, ...]:
    """The lines of ``text``, as messages count them."""
    return tuple(_LINE_BREAK.split(text.removeprefix("\ufeff")))


def read_source(text: str, path: str) -> Source:
    """``text`` as a :class:`Source`; raises :class:`RecipeError` when it is too large or holds control characters."""
    lines = text_lines(text)
    source = Source(path=path, text=text, lines=lines)
    size = len(text.encode("utf-8", errors="surrogatepass"))
    start = SourceLocation(path=path, line=1, column=1)
    if size > MAX_BYTES:
        raise RecipeError.at(start, f"the recipe has {size} bytes; {MAX_BYTES} are the limit")
    refused = {character for character in {*text} - _USUAL if not _is_accepted(character)}
    for number, line in enumerate(lines):
        if len(line) > MAX_LINE_LENGTH:
            place = replace(start, line=number + 1, column=len(line))
            raise RecipeError.at(place, f"the line has {len(line)} characters; {MAX_LINE_LENGTH} are the limit")
        if not refused.isdisjoint(line):
            column = next(column for column, character in enumerate(line) if character in refused)
            place = replace(start, line=number + 1, column=column + 1)
            raise RecipeError.at(place, f"character U+{ord(line[column]):04X} is not accepted in a recipe")
    return source


def _is_accepted(character: str) -> bool:
    return character in _USUAL or any(ord(character) in points for points in _PRINTABLE)


def parse_yaml(source: Source, problems: Problems) -> Node:
    """The one document in ``source`` as a tree. Raises :class:`RecipeError` for what is not YAML, and for what is not
    accepted and leaves a hole in the tree; what else is not accepted is added to ``problems``."""
    builder = _TreeBuilder(source, problems)
    loader = yaml.SafeLoader("\n".join(source.lines))
    try:
        while loader.check_event():
            builder.take(loader.get_event())  # type: ignore[no-untyped-call]
    except yaml.MarkedYAMLError as error:
        raise _syntax_error(source, error) from None
    except (OverflowError, ValueError):  # chr() of what a \U escape says; PyYAML stands behind the U
        mark = loader.get_mark()
        place = source.at(mark.line, mark.column - 2, len("\\U0010FFFF"))
        raise RecipeError.at(place, "not valid YAML: the escape is no character") from None
    if builder.root is None or (isinstance(builder.root, Scalar) and builder.root.is_null):
        problems.add(source.at(0, 0), "the recipe is empty", "a recipe starts with 'fusion: NAME'")
        builder.has_holes = True
    if builder.has_holes:
        problems.raise_if_any()
    assert builder.root is not None
    return builder.root


def _syntax_error(source: Source, error: yaml.MarkedYAMLError) -> LocatedError:
    mark = error.problem_mark or error.context_mark
    line, column = (mark.line, mark.column) if mark else (0, 0)
    problem = error.problem or error.context or "the text ends too early"
    at_tab = line < len(source.lines) and source.lines[line][column : column + 1] == "\t"
    hint = "indent with spaces; YAML does not accept tabs" if at_tab else ""
    if not hint and problem.startswith("mapping values are not allowed"):
        hint = "quote a text that holds ': ', or check the indentation"
    return RecipeError.at(source.at(line, column), f"not valid YAML: {problem}", hint)


@dataclass(slots=True)
class _Open:
    """A mapping or sequence whose end has not come yet."""

    location: SourceLocation
    is_mapping: bool
    children: list[Node] = field(default_factory=list)


class _TreeBuilder:
    """Builds the tree from events, with a stack of its own instead of recursion."""

    def __init__(self, source: Source, problems: Problems) -> None:
        self._source, self._problems = source, problems
        self._stack: list[_Open] = []
        self._documents = self._nodes = 0
        self._anchored: dict[str, Scalar] = {}
        self.root: Node | None = None
        self.has_holes = False  # something was left out that the tree does not show

    def take(self, event: yaml.Event) -> None:
        match event:
            case yaml.DocumentStartEvent():
                self._start_document(event)
            case yaml.AliasEvent():
                self._put_alias(event)
            case yaml.ScalarEvent():
                self._refuse_properties(event)
                self._refuse_escapes(event)
                assert event.end_mark is not None
                node = Scalar(event.value, event.style or "", self._location(event), event.end_mark.line + 1)
                if event.anchor is not None and node.last_line == node.location.line:
                    self._anchored[event.anchor] = node
                self._put(node)
            case yaml.MappingStartEvent() | yaml.SequenceStartEvent():
                self._open(event)
            case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                self._close()

    def _start_document(self, event: yaml.DocumentStartEvent) -> None:
        self._documents += 1
        place = self._location(event)
        if self._documents > 1:
            raise RecipeError.at(place, "a second document starts here", "a file holds one recipe; remove the '---'")
        if event.version or event.tags:
            raise RecipeError.at(place, "YAML directives are not accepted", "remove the lines that start with %")

    def _open(self, event: yaml.MappingStartEvent | yaml.SequenceStartEvent) -> None:
        self._refuse_properties(event)
        place = self._location(event)
        if len(self._stack) == MAX_DEPTH:
            raise RecipeError.at(place, f"the YAML is nested more than {MAX_DEPTH} levels deep")
        self._stack.append(_Open(place, isinstance(event, yaml.MappingStartEvent)))

    def _close(self) -> None:
        done = self._stack.pop()
        if done.is_mapping:
            self._put(Mapping(tuple(self._entries(done.children)), done.location))
        else:
            self._put(Sequence(tuple(done.children), done.location))

    def _put(self, node: Node) -> None:
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise RecipeError.at(node.location, f"the YAML has more than {MAX_NODES} values")
        if self._stack:
            self._stack[-1].children.append(node)
        else:
            self.root = node

    def _put_alias(self, event: yaml.AliasEvent) -> None:
        """What one line stands for is known, so that reading goes on; anything larger leaves a hole."""
        place = self._location(event)
        self._problems.add(place, f"alias '*{event.anchor}' is not accepted", "write the value out")
        known = self._anchored.get(event.anchor or "")
        self.has_holes |= known is None
        self._put(replace(known or Scalar("", "", place, place.line), location=place, last_line=place.line))

    def _entries(self, children: list[Node]) -> Iterator[tuple[Scalar, Node]]:
        seen: dict[str, int] = {}
        for key, value in zip(children[::2], children[1::2], strict=True):
            if not isinstance(key, Scalar):
                self._problems.add(key.location, "a key must be a name, not a list or a mapping")
                self.has_holes = True
            elif key.is_plain and key.text == "<<":
                self._problems.add(key.location, "merge keys are not accepted", "write the entries out")
                self.has_holes = True
            elif key.text in seen:
                message = f"duplicate key '{key.text}'"
                self._problems.add(key.location, message, f"it is first given on line {seen[key.text]}")
                self.has_holes = True
            else:
                seen[key.text] = key.location.line
                yield key, value

    def _refuse_properties(self, event: yaml.ScalarEvent | yaml.CollectionStartEvent) -> None:
        if event.anchor is not None:
            message = f"anchor '&{event.anchor}' is not accepted"
            self._problems.add(self._location(event), message, "write the value out")
        if event.tag is not None:
            self._problems.add(self._location(event), "YAML tags are not accepted", "remove the tag")

    def _refuse_escapes(self, event: yaml.ScalarEvent) -> None:
        """Escapes stand for no character that the text itself may not hold."""
        written = event.value if event.style == '"' else ""
        if refused := next((character for character in written if not _is_accepted(character)), ""):
            message = f"character U+{ord(refused):04X} is not accepted in a recipe"
            self._problems.add(self._location(event), message, "remove the escape")
            self.has_holes = True

    def _location(self, event: yaml.Event) -> SourceLocation:
        start, end = event.start_mark, event.end_mark
        assert start is not None
        assert end is not None
        is_scalar = isinstance(event, yaml.ScalarEvent) and event.style not in ("|", ">")
        width = end.column - start.column if is_scalar and end.line == start.line else 1
        return self._source.at(start.line, start.column, width)
