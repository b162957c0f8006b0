"""The composites of a recipe: sub-bodies that are written once, called like ops, and recorded in place.

```
composites {name: {inputs [name, or name: the number that it is where a call gives none], body (a literal block),
                   results [name]}}
```

What does not depend on a call is checked once, by reading the body with inputs that have no values yet; types are those
of each call. Every call is kept as a :class:`~fusebuild.ir.values.Composite`, so that it can be seen as a task later
on."""

from __future__ import annotations

import ast
from collections import ChainMap, deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from graphlib import CycleError, TopologicalSorter

from fusebuild.errors import SourceLocation
from fusebuild.ir.types import Literal
from fusebuild.ir.values import Value
from fusebuild.ops.builder import FusionBuilder
from fusebuild.ops.op_def import REQUIRED, Parameter
from fusebuild.recipe.body import BodyReader, BodyText, Scope, read_statements
from fusebuild.recipe.calls import MAX_OPS, KnownComposite, called_composite, nesting
from fusebuild.recipe.fields import Fields
from fusebuild.recipe.names import MAX_NAME_LENGTH, name_problem
from fusebuild.recipe.text import Mapping as YamlMapping
from fusebuild.recipe.text import Node, Problems, Scalar, Source


@dataclass(frozen=True, slots=True, kw_only=True)
class CompositeSection:
    """A composite as written. ``defaults`` has the numbers that its last inputs are where a call gives none."""

    name: str
    place: SourceLocation
    inputs: tuple[Scalar, ...]
    defaults: Mapping[str, Literal]
    body: Scalar
    results: tuple[Scalar, ...]


def read_composite(fields: Fields, name: str, place: SourceLocation, node: Node) -> CompositeSection | None:
    """The composite under ``node``, or None after reporting what is wrong with it."""
    before = len(fields.problems.found)
    entries = fields.parts(node, "composite", name, place, ("inputs", "body", "results"))
    inputs, defaults = _inputs(fields, entries["inputs"]) if "inputs" in entries else ((), {})
    body = fields.text(entries["body"], "statements") if "body" in entries else None
    named = fields.items(entries["results"], "a list of names") if "results" in entries else ()
    results = _names(fields, named or (), "result")
    if "results" in entries and not results and len(fields.problems.found) == before:
        fields.problems.add(entries["results"].location, f"composite '{name}' has no result")
    if body is None or len(fields.problems.found) > before:
        return None
    return CompositeSection(name=name, place=place, inputs=inputs, defaults=defaults, body=body, results=results)


def _inputs(fields: Fields, node: Node) -> tuple[tuple[Scalar, ...], dict[str, Literal]]:
    """The names of the inputs, and the numbers that the last ones are where a call gives none."""
    items: list[Node] = []
    defaults: dict[str, Literal] = {}
    for item in fields.items(node, "a list of names") or ():
        if isinstance(item, YamlMapping) and len(item.entries) == 1:
            ((name, value),) = item.entries
            default = fields.number(value)
            if default is not None:
                defaults[name.text] = default
            items.append(name)
            continue
        if isinstance(item, Scalar) and defaults:
            message = f"input '{item.text}' has no default, and '{next(iter(defaults))}' before it has one"
            fields.problems.add(item.location, message, "inputs that a call may leave out come last")
        items.append(item)
    return _names(fields, items, "input"), defaults


def _names(fields: Fields, items: Iterable[Node], what: str) -> tuple[Scalar, ...]:
    found: dict[str, Scalar] = {}
    for item in items:
        name = fields.name(item, "a name")
        if name is None or not isinstance(item, Scalar):
            continue
        if name in found:
            fields.problems.add(item.location, f"{what} '{name}' is listed twice")
        found[name] = item
    return tuple(found.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parsed:
    """A composite whose body was parsed. ``calls`` has its first call of each composite."""

    section: CompositeSection
    text: BodyText
    statements: list[ast.stmt]
    calls: Mapping[str, ast.Call]


class _Names:
    """Names for the values inside of calls, each given once."""

    def __init__(self, taken: Iterable[str]) -> None:
        self._taken = set(taken)
        self._last: dict[str, int] = {}

    def new(self, prefix: str, name: str) -> str:
        """``prefix_name``, or just ``name`` where that is too long or a word with a meaning; numbered when taken."""
        longest = MAX_NAME_LENGTH - len(f"_{MAX_OPS}")
        wanted = f"{prefix}_{name}" if prefix else name
        if len(wanted) > longest or name_problem(wanted)[0]:
            wanted = name[:longest]
        found = wanted
        while found in self._taken:
            self._last[wanted] = self._last.get(wanted, 1) + 1
            found = f"{wanted}_{self._last[wanted]}"
        self._taken.add(found)
        return found


class Composites:
    """The composites of one recipe, and of what it includes, recorded into ``builder``. ``sources`` has the text of
    each of these files by its path.

    ``scope`` is that of the recipe's body: its symbols and lambdas are seen in composites too, and it learns what can
    be called. ``outside`` says what the other names of the recipe are, which composites do not see; ``taken`` are all
    its names. ``called`` are the composites that composites call; ``all_parsed`` says whether every body was seen.
    """

    def __init__(
        self,
        sources: Mapping[str, Source],
        sections: Sequence[CompositeSection],
        builder: FusionBuilder,
        scope: Scope,
        problems: Problems,
        *,
        outside: Mapping[str, str],
        taken: Iterable[str],
    ) -> None:
        self._builder, self._scope, self._problems = builder, scope, problems
        self._outside, self._names = outside, _Names(taken)
        self._open: list[str] = []  # what inner names start with, for each call that is being recorded
        scope.composites |= {section.name: None for section in sections}
        scope.owners.update({section.name: "a composite" for section in sections})
        self._owners = dict.fromkeys(scope.symbols, "an extent") | dict.fromkeys(scope.lambdas, "a lambda")
        self._owners |= dict.fromkeys(scope.composites, "a composite")
        self._unrecorded = dict(scope.composites)
        read = {section.name: _parse(sources[section.place.path], section, scope, problems) for section in sections}
        parsed = {name: each for name, each in read.items() if each is not None}
        self.all_parsed = len(parsed) == len(read)
        ordered = _callees_first(parsed)
        _report_recursion({name: each for name, each in parsed.items() if name not in ordered}, problems)
        for name in dict.fromkeys([*ordered, *parsed]):
            known = self._checked(parsed[name])
            if known is not None and all(scope.composites[callee] is not None for callee in parsed[name].calls):
                scope.composites[name] = known
                self._unrecorded[name] = replace(known, record=_records_nothing)
        self.called = {callee for name, each in parsed.items() for callee in each.calls if callee != name}

    def _checked(self, parsed: _Parsed) -> KnownComposite | None:
        """``parsed`` as calls need it, or None after reporting what is wrong with it whoever calls it."""
        section, before = parsed.section, len(self._problems.found)
        scope = self._inner_scope(section, dict.fromkeys(given.text for given in section.inputs))
        scope.composites = self._unrecorded
        reader = BodyReader(parsed.text, FusionBuilder(section.name), scope, self._problems)
        reader.read(parsed.statements)
        self._scope.used |= scope.used & self._scope.lambdas.keys()
        results = {result.text for result in section.results}
        for result in section.results:
            scope.lacks(result.text, "result", result.location, self._problems)
        reader.report_unused(results, "results")
        for given in section.inputs:
            if given.text not in scope.used | scope.suggested | results:
                self._problems.add(given.location, f"input '{given.text}' is never used", "remove it")
        if len(self._problems.found) > before:
            return None
        depths = [nesting(each.value, self._unrecorded) for each in parsed.statements if isinstance(each, ast.Assign)]
        return KnownComposite(
            name=section.name,
            parameters=tuple(
                Parameter(name=given.text, default=section.defaults.get(given.text, REQUIRED))
                for given in section.inputs
            ),
            results=len(section.results),
            nesting=max(depths),
            ops=min(sum(_ops(each, self._unrecorded) for each in parsed.statements), MAX_OPS + 1),
            record=partial(self._record, parsed),
        )

    def _inner_scope(self, section: CompositeSection, values: Mapping[str, Value | None]) -> Scope:
        own = {given.text: "an input of the composite" for given in section.inputs}
        return Scope(
            values=dict(values),
            owners=ChainMap(own, self._owners),
            symbols=self._scope.symbols,
            lambdas=self._scope.lambdas,
            composites=self._scope.composites,
            outside=self._outside,
        )

    def _record(
        self,
        parsed: _Parsed,
        operands: Sequence[Value],
        names: Sequence[str],
        place: SourceLocation,
        problems: Problems,
    ) -> tuple[Value, ...] | None:
        """Record the body once more. ``problems`` gets what is wrong with it for these operands. Inner names start with
        that of the first result; of several results, those without a name are thrown away."""
        section, builder = parsed.section, self._builder
        results = [result.text for result in section.results]
        outer = self._open[-1] if self._open else ""
        prefix = next((name for name in names if name), "") or self._names.new(outer, section.name)
        shown = {result: name for result, name in zip(results, names, strict=True) if name}
        builder.open_composite(section.name, operands, place)
        self._open.append(prefix)
        scope = self._inner_scope(section, dict(zip((own.text for own in section.inputs), operands, strict=True)))
        inside = Problems()
        reader = BodyReader(
            parsed.text, builder, scope, inside, lambda name: shown.get(name) or self._names.new(prefix, name)
        )
        reader.read(parsed.statements)
        self._open.pop()
        for problem in inside.found:
            elsewhere = "" if place.path == section.place.path else f" of {place.path}"
            message = f"{problem.message}, in the call of {section.name} on line {place.line}{elsewhere}"
            problems.add(problem.location, message, problem.hint)
        values = [value for result in results if (value := scope.values.get(result)) is not None]
        if len(values) < len(results):
            builder.close_composite()
            return None
        builder.close_composite(value for value, name in zip(values, names, strict=True) if name or len(results) == 1)
        return tuple(values)


def _records_nothing(
    operands: Sequence[Value], names: Sequence[str], place: SourceLocation, problems: Problems
) -> None:
    """What a call of a composite gives while the body that it stands in is only checked."""


def _parse(source: Source, section: CompositeSection, scope: Scope, problems: Problems) -> _Parsed | None:
    read = read_statements(source, section.body, problems)
    if read is None:
        return None
    text, statements = read
    calls: dict[str, ast.Call] = {}
    for node in called(statements):
        if (name := _callee(node)) in scope.composites:
            calls.setdefault(name, node)
    return _Parsed(section=section, text=text, statements=statements, calls=calls)


def called(statements: Iterable[ast.stmt]) -> list[ast.Call]:
    """Every call in ``statements``."""
    return [node for statement in statements for node in ast.walk(statement) if isinstance(node, ast.Call)]


def _callee(node: ast.Call) -> str:
    return node.func.id if isinstance(node.func, ast.Name) else ""


def _ops(statement: ast.stmt, composites: Mapping[str, KnownComposite | None]) -> int:
    """How many ops ``statement`` records at most, a call of a composite counted as one more."""
    nodes = list(ast.walk(statement))
    own = sum(isinstance(node, ast.Call | ast.BinOp | ast.UnaryOp | ast.Compare) for node in nodes)
    return own + sum(known.ops for node in nodes if (known := called_composite(node, composites)) is not None)


def _callees_first(parsed: Mapping[str, _Parsed]) -> list[str]:
    """The names of ``parsed``, each after all that it calls; those that lead to a recursion are left out."""
    sorter = TopologicalSorter({name: parsed.keys() & each.calls.keys() for name, each in parsed.items()})
    with suppress(CycleError):  # what leads to a cycle never gets ready
        sorter.prepare()
    order: list[str] = []
    while ready := sorter.get_ready():
        order += sorted(ready)
        sorter.done(*ready)
    return order


def _report_recursion(parsed: Mapping[str, _Parsed], problems: Problems) -> None:
    reported: set[str] = set()
    for name, each in parsed.items():
        way = () if name in reported else _way_back(parsed, name)
        if way:
            reported |= {*way}
            others = ", ".join([f"'{other}'" for other in way[1:4]] + [f"{len(way) - 4} more"] * (len(way) > 4))
            message = f"composite '{name}' calls itself{' through ' if others else ''}{others}"
            next_called = [*way, name][1]
            problems.add(each.text.place(each.calls[next_called]), message, "a fusion has no loops")


def _way_back(parsed: Mapping[str, _Parsed], start: str) -> tuple[str, ...]:
    """The shortest way of calls that leads from ``start`` back to it, which begins it; empty when there is none."""
    callers: dict[str, str] = {}
    waiting = deque([start])
    while waiting and start not in callers:
        name = waiting.popleft()
        for callee in parsed[name].calls:
            if callee in parsed and callee not in callers:
                callers[callee] = name
                waiting.append(callee)
    if start not in callers:
        return ()
    way = [callers[start]]
    while way[-1] != start:
        way.append(callers[way[-1]])
    return tuple(reversed(way))
