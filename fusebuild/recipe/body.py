"""The body of a recipe: a small expression language with Python's grammar.

A body is a list of assignments. Their right sides are calls of ops, names, numbers, True and False, arithmetic and
comparisons; everything else that Python can say is refused with a hint. Python's own parser reads the text, nothing of
it is ever run. Each statement is checked even when an earlier one is wrong: a name whose statement failed is known but
has no value, and whatever reads it stays silent.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from fusebuild.errors import SourceLocation, nearest
from fusebuild.ir.values import Value
from fusebuild.ops.builder import FusionBuilder
from fusebuild.ops.table import OPS
from fusebuild.recipe.calls import NAMED_NUMBERS, Calls, KnownComposite, KnownLambda, name_numbers, signature
from fusebuild.recipe.names import name_problem
from fusebuild.recipe.text import Problems, Scalar, Source

DISCARD = "_"
"""The name for a result that nobody needs, as in ``_, mean = var_mean(x)``."""

_STATEMENTS = {
    ast.Expr: ("an expression without a name", "give it a name: 'name = …'"),
    ast.AugAssign: ("an update in place", "names are assigned once: give the result a name of its own"),
    ast.AnnAssign: ("an annotated assignment", "dtypes are inferred: write 'name = …'"),
    ast.For: ("a loop", "ops work on whole tensors"),
    ast.While: ("a loop", "ops work on whole tensors"),
    ast.If: ("an if", "use where(condition, x, y)"),
    ast.Import: ("an import", "every op is known by its name"),
    ast.ImportFrom: ("an import", "every op is known by its name"),
    ast.FunctionDef: ("a function", "write its statements out"),
}


class BodyText:
    """The text of a body as it stands in its file: finds the place of a syntax node."""

    def __init__(self, source: Source, scalar: Scalar) -> None:
        self._source = source
        self.text = scalar.text
        self._lines = scalar.text.split("\n")
        if scalar.style == "|":
            self._first_line, self._indent = scalar.location.line, self._block_indent(scalar.location.line)
        else:
            self._first_line = scalar.location.line - 1
            self._indent = scalar.location.column - 1 + (1 if scalar.style else 0)

    def _block_indent(self, first_line: int) -> int:
        for line, text in zip(self._source.lines[first_line:], self._lines, strict=False):
            if text:
                return len(line) - len(text)
        return 0

    def at(self, line: int, column: int, width: int = 1) -> SourceLocation:
        """The place at ``line`` (from 1) and ``column`` (from 0) of the body, in the file."""
        return self._source.at(self._first_line + line - 1, self._indent + column, width)

    def place(self, node: ast.AST) -> SourceLocation:
        """Where ``node`` stands, with its width when it is on one line."""
        line, end_line = node.lineno, node.end_lineno  # type: ignore[attr-defined]
        start, end = node.col_offset, node.end_col_offset  # type: ignore[attr-defined]
        text = self._lines[line - 1].encode()
        column = len(text[:start].decode())
        stop = len(text[:end].decode()) if end_line == line else len(text.decode())
        return self.at(line, column, stop - column)

    def spelled(self, node: ast.Name) -> str:
        """The name as it stands in the file; Python's parser folds look-alike letters into one."""
        line = self._lines[node.lineno - 1].encode()
        return line[node.col_offset : node.end_col_offset].decode()


@contextmanager
def parsing(text: BodyText, what: str, problems: Problems, hint: str = "") -> Iterator[None]:
    """Reports where Python's parser does not accept ``text``, which is ``what``; with a ``hint`` where that is nested
    too deeply."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except SyntaxError as error:
        count = text.text.count("\n") + 1
        line, column = min(error.lineno or 1, count), max((error.offset or 1) - 1, 0)
        problems.add(text.at(line, column), f"{what} cannot be read: {error.msg}")
    except (RecursionError, MemoryError):
        problems.add(text.at(1, 0), f"{what} is nested too deeply to be read", hint)


def read_statements(source: Source, scalar: Scalar, problems: Problems) -> tuple[BodyText, list[ast.stmt]] | None:
    """The text of ``scalar`` and its statements, or None after reporting why it is no body."""
    if not scalar.is_verbatim:
        problems.add(scalar.location, "the body is not a literal block", "write 'body: |' and indent the lines")
        return None
    if not scalar.text.strip():
        problems.add(scalar.location, "the body is empty", "write at least one statement: 'y = …'")
        return None
    text = BodyText(source, scalar)
    with parsing(text, "the body", problems, "give parts of the expression names"):
        return text, ast.parse(text.text).body
    return None


@dataclass(slots=True)
class Scope:
    """What the names of a recipe stand for while its body is read."""

    values: dict[str, Value | None] = field(default_factory=dict)  # None: its statement has an error
    owners: MutableMapping[str, str] = field(default_factory=dict)  # what a name that the body did not assign is
    symbols: tuple[str, ...] = ()
    lambdas: dict[str, KnownLambda | None] = field(default_factory=dict)  # None: it has an error
    composites: dict[str, KnownComposite | None] = field(default_factory=dict)  # None: it has an error
    outside: Mapping[str, str] = field(default_factory=dict)  # what a name is that this body does not see
    used: set[str] = field(default_factory=set)
    suggested: set[str] = field(default_factory=set)  # offered as what the author meant, so perhaps used

    def lacks(
        self, name: str, what: str, place: SourceLocation, problems: Problems, *, but: Collection[str] = ()
    ) -> bool:
        """Whether the body assigns no ``name``, which is reported; names in ``but`` are not what was meant."""
        if name in self.values:
            return False
        known = [each for each in self.values if each not in but]
        hint = nearest(name, known)
        self.suggested |= {each for each in known if f"'{each}'" in hint}
        problems.add(place, f"{what} '{name}' is not assigned in the body", hint)
        return True


@dataclass(frozen=True, slots=True)
class _Assignment:
    """Where a name gets its value, and what its statement reads."""

    line: int
    reads: frozenset[str]


class BodyReader:
    """Reads statements in order into ``builder``. ``naming`` makes what a value is called from the name that the body
    assigns it to."""

    def __init__(
        self,
        text: BodyText,
        builder: FusionBuilder,
        scope: Scope,
        problems: Problems,
        naming: Callable[[str], str] = str,
    ) -> None:
        self._text, self._scope, self._problems, self._naming = text, scope, problems, naming
        self._calls = Calls(text.place, builder, problems, self._lookup, scope.symbols, scope.lambdas, scope.composites)
        self._assignments: dict[str, _Assignment] = {}
        self._targets: dict[str, SourceLocation] = {}
        self._refused: set[str] = set()
        self._current: tuple[str, ...] = ()

    def read(self, statements: list[ast.stmt]) -> None:
        """Record every statement; afterwards ``scope.values`` holds every name."""
        for statement in statements:
            self._foresee(statement)
        own = self._own_names()
        for statement in statements:
            name_numbers(statement, own)
            if isinstance(statement, ast.Assign):
                self._assign(statement)
            else:
                what, hint = _STATEMENTS.get(type(statement), ("this statement", "a body holds assignments only"))
                self._problems.add(self._text.place(statement), f"{what} has no place in a body", hint)
                self._poison(statement)

    def _own_names(self) -> set[str]:
        """Every name that means something in this body."""
        scope = self._scope
        kinds: tuple[Iterable[str], ...] = (scope.values, scope.owners, scope.symbols, scope.lambdas, scope.composites)
        return set().union(*kinds, scope.outside, self._assignments)

    def _foresee(self, statement: ast.stmt) -> None:
        """Note what ``statement`` reads and assigns, so that a use above its assignment can be told from a typo."""
        reads = frozenset(name.id for name in _read_names(statement))
        self._scope.used |= reads
        if isinstance(statement, ast.Assign):
            line = self._text.place(statement).line
            for target in _target_names(statement):
                if target.id != DISCARD:
                    self._assignments.setdefault(target.id, _Assignment(line, reads))

    def _poison(self, statement: ast.stmt) -> None:
        """Make the names that a refused statement would assign known, without values."""
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                self._scope.values.setdefault(node.id, None)

    def report_unused(self, outputs: set[str], section: str) -> None:
        """Report names that the body assigns and nothing reads, but for those of refused statements; ``outputs``, which
        ``section`` lists, are read by who asks for them."""
        read = self._scope.used | self._scope.suggested | outputs
        for name, place in self._targets.items():
            if name not in read and name not in self._refused:
                self._problems.add(place, f"'{name}' is never used", f"remove it, or list it under {section}")

    def _assign(self, statement: ast.Assign) -> None:
        targets = self._targets_of(statement)
        if targets is None:
            self._poison(statement)
            return
        self._current = tuple(target.id for target in targets)
        names = [target.id if self._accepts(target) else "" for target in targets]
        is_pack = isinstance(statement.targets[0], ast.Tuple | ast.List)
        shown = [name and self._naming(name) for name in names]
        before = len(self._problems.found)
        results = self._calls.results(statement.value, shown, is_pack=is_pack)
        for index, name in enumerate(names):
            if name:
                self._scope.values[name] = None if results is None else results[index]
        if len(self._problems.found) > before:
            self._refused.update(names)

    def _targets_of(self, statement: ast.Assign) -> list[ast.Name] | None:
        """The names on the left, or None when the left side is something else."""
        if len(statement.targets) > 1:
            self._problems.add(self._text.place(statement), "two assignments in one line", "write one on each line")
            return None
        target = statement.targets[0]
        names = list(_target_names(statement))
        elements = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
        if len(names) == len(elements) > 0:
            return names
        self._problems.add(self._text.place(target), "only names can be assigned", "write 'name = …' or 'a, b = …'")
        return None

    def _accepts(self, target: ast.Name) -> bool:
        """Whether ``target`` is a name that is free; reports it when not."""
        name, place = target.id, self._text.place(target)
        message, hint = name_problem(self._text.spelled(target))
        if not message and name == DISCARD:
            return False
        if not message and name in self._targets:
            line = self._targets[name].line
            message, hint = f"'{name}' is assigned twice", f"line {line} assigns it first; use another name"
        elif not message and name in self._scope.owners:
            message, hint = f"'{name}' is {self._scope.owners[name]} and cannot be assigned", "use another name"
        if message:
            self._problems.add(place, message, hint)
            self._scope.values.setdefault(name, None)
            return False
        self._targets[name] = place
        return True

    def _lookup(self, node: ast.Name) -> Value | None:
        """The value that ``node`` names, or None after reporting why there is none."""
        name = node.id
        if name in self._scope.values:
            return self._scope.values[name]
        place = self._text.place(node)
        message, hint = name_problem(self._text.spelled(node))
        if not message and name in self._assignments:
            self._report_early_use(name, place)
        elif name in ("true", "false"):
            self._problems.add(place, f"undefined name '{name}'", f"did you mean '{name.title()}'?")
        elif message:
            self._problems.add(place, message, hint)
        elif name in self._scope.symbols:
            self._problems.add(place, f"'{name}' is an extent, not a value", f"write size({name})")
        elif name in self._scope.lambdas:
            self._problems.add(place, f"'{name}' is a lambda, not a value", f"write combine={name} in a reduce or scan")
        elif name in self._scope.composites:
            known = self._scope.composites[name]
            hint = f"call it: {signature(known)}" if known else ""
            self._problems.add(place, f"'{name}' is a composite, not a value", hint)
        elif name in OPS:
            self._problems.add(place, f"'{name}' is an op, not a value", f"call it: {signature(OPS[name])}")
        elif name in self._scope.outside:
            message = f"'{name}' is {self._scope.outside[name]}, which a composite does not see"
            self._problems.add(place, message, f"pass it: add '{name}' to the inputs and to every call")
        else:
            self._report_undefined(name, place)
        return None

    def _report_undefined(self, name: str, place: SourceLocation) -> None:
        known = [*self._scope.values, *self._assignments]
        number = {"infinity": "inf"}.get(name.lower(), name.lower())
        hint = f"did you mean '{number}'?" if number in NAMED_NUMBERS else nearest(name, known)
        if match := re.search(r"'(.*)'", hint):
            self._scope.suggested.add(match[1])
        self._problems.add(place, f"undefined name '{name}'", hint)

    def _report_early_use(self, name: str, place: SourceLocation) -> None:
        line = self._assignments[name].line
        message = f"'{name}' is used before it is assigned on line {line}"
        if name in self._current:
            message, hint = f"'{name}' is defined by itself", "a fusion has no loops"
        elif self._depends(name, set(self._current)):
            hint = f"line {line} needs '{self._current[0]}' in turn: a fusion has no loops"
        else:
            hint = f"move line {line} above this one"
        self._problems.add(place, message, hint)

    def _depends(self, name: str, wanted: set[str]) -> bool:
        """Whether the statement that assigns ``name`` reads one of ``wanted``, directly or through others."""
        seen, waiting = {name}, [name]
        while waiting:
            for read in self._assignments[waiting.pop()].reads:
                if read in wanted:
                    return True
                if read in self._assignments and read not in seen:
                    seen.add(read)
                    waiting.append(read)
        return False


def _target_names(statement: ast.Assign) -> Iterator[ast.Name]:
    for target in statement.targets:
        elements = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
        yield from (element for element in elements if isinstance(element, ast.Name))


def assigned_names(statements: Iterable[ast.stmt]) -> list[str]:
    """The names that ``statements`` assign, those of refused statements left out."""
    assignments = [statement for statement in statements if isinstance(statement, ast.Assign)]
    return [target.id for statement in assignments for target in _target_names(statement)]


def _read_names(statement: ast.stmt) -> Iterator[ast.Name]:
    """The names that ``statement`` reads as values: the names of called ops are not among them."""
    called = {id(node.func) for node in ast.walk(statement) if isinstance(node, ast.Call)}
    for node in ast.walk(statement):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and id(node) not in called:
            yield node
