"""The lambdas of a recipe: their section, and their bodies recorded as Fusions of scalars.

```
lambdas {name: {left {part: dtype}, right {part: dtype}, body (a literal block), results [name], ordered: false}}
```
"""

from __future__ import annotations

from dataclasses import dataclass

from fusebuild.errors import SourceLocation, counted
from fusebuild.ir.dtype import SCALAR_DTYPES, DType
from fusebuild.ir.values import Value
from fusebuild.ops.lambdas import MAX_STATE_BYTES, LambdaBuilder, state_bytes
from fusebuild.recipe.body import BodyReader, Scope, read_statements
from fusebuild.recipe.calls import KnownLambda
from fusebuild.recipe.fields import Fields
from fusebuild.recipe.text import Node, Problems, Scalar, Source


@dataclass(frozen=True, slots=True, kw_only=True)
class StatePart:
    """One part of a state as written."""

    name: str
    place: SourceLocation
    dtype: DType


@dataclass(frozen=True, slots=True, kw_only=True)
class LambdaSection:
    """A lambda as written. ``left`` is the accumulated state, ``right`` what is combined into it."""

    name: str
    place: SourceLocation
    left: tuple[StatePart, ...]
    right: tuple[StatePart, ...]
    body: Scalar
    results: tuple[Scalar, ...]
    ordered: bool = False


def read_lambda(fields: Fields, name: str, place: SourceLocation, node: Node) -> LambdaSection | None:
    """The lambda under ``node``, or None after reporting what is wrong with it."""
    before = len(fields.problems.found)
    entries = fields.parts(node, "lambda", name, place, ("left", "right", "body", "results"), "ordered")
    left = _parts(fields, entries["left"]) if "left" in entries else ()
    right = _parts(fields, entries["right"]) if "right" in entries else ()
    body = fields.text(entries["body"], "statements") if "body" in entries else None
    results = _names(fields, entries["results"]) if "results" in entries else ()
    ordered = fields.flag(entries["ordered"], "ordered") if "ordered" in entries else False
    if body is None or len(fields.problems.found) > before:
        return None
    section = LambdaSection(
        name=name, place=place, left=left, right=right, body=body, results=results, ordered=bool(ordered)
    )
    return section if _fits(fields.problems, section) else None


def _parts(fields: Fields, node: Node) -> tuple[StatePart, ...]:
    parts = []
    for key, value in fields.mapping(node, "a mapping of names to dtypes"):
        name, dtype = fields.name(key, "a name"), fields.dtype(value)
        if name and dtype and dtype not in SCALAR_DTYPES:
            hint = f"states are {', '.join(known.value for known in SCALAR_DTYPES)}"
            fields.problems.add(value.location, f"a state cannot be {dtype.value}", hint)
        elif name and dtype:
            parts.append(StatePart(name=name, place=key.location, dtype=dtype))
    return tuple(parts)


def _names(fields: Fields, node: Node) -> tuple[Scalar, ...]:
    read = [fields.text(item, "a name") for item in fields.items(node, "a list of names") or ()]
    return tuple(name for name in read if name is not None)


def _fits(problems: Problems, section: LambdaSection) -> bool:
    """Whether both sides and the results are the same state."""
    name, place = section.name, section.place
    left, right = ([part.dtype for part in side] for side in (section.left, section.right))
    shown = [", ".join(dtype.value for dtype in side) or "nothing" for side in (left, right)]
    own = {part.name for part in section.left}
    twice = next((part for part in section.right if part.name in own), None)
    if not left or left != right:
        hint = "a lambda combines two states of one kind"
        problems.add(place, f"lambda '{name}' takes {shown[0]} on the left and {shown[1]} on the right", hint)
    elif twice is not None:
        problems.add(twice.place, f"'{twice.name}' is already an input of the lambda", "one name means one thing")
    elif len(section.results) != len(left):
        results = counted(len(section.results), "result")
        problems.add(place, f"lambda '{name}' gives {results} for a state of {len(left)}")
    elif state_bytes(left) > MAX_STATE_BYTES:
        problems.add(place, f"the state of '{name}' has {state_bytes(left)} bytes; {MAX_STATE_BYTES} are the limit")
    else:
        return True
    return False


def record_lambda(source: Source, section: LambdaSection, problems: Problems) -> KnownLambda | None:
    """``section`` as a Fusion of scalars, or None after reporting what is wrong with its body."""
    before = len(problems.found)
    builder, scope = LambdaBuilder(section.name), Scope()
    for part in (*section.left, *section.right):
        scope.owners[part.name] = "an input of the lambda"
        scope.values[part.name] = builder.scalar(part.dtype, name=part.name, location=part.place)
    read = read_statements(source, section.body, problems)
    if read is None:
        return None
    text, statements = read
    reader = BodyReader(text, builder, scope, problems)
    reader.read(statements)
    reader.report_unused({result.text for result in section.results}, "results")
    results = [
        _result(problems, scope, result, part) for result, part in zip(section.results, section.left, strict=True)
    ]
    known = [result for result in results if result is not None]
    if len(problems.found) > before or len(known) < len(results):
        return None
    body = builder.finish_lambda(known, [result.text for result in section.results])
    return KnownLambda(body=body, ordered=section.ordered, place=section.place)


def _result(problems: Problems, scope: Scope, result: Scalar, part: StatePart) -> Value | None:
    if scope.lacks(result.text, "result", result.location, problems):
        return None
    value = scope.values[result.text]
    if value is not None and value.dtype is not part.dtype:
        message = f"result '{result.text}' is {value.dtype.value}, but '{part.name}' is {part.dtype.value}"
        problems.add(result.location, message, f"write cast({result.text}, {part.dtype.value})")
        return None
    return value
