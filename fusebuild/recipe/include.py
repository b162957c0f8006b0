"""The libraries that a recipe includes: files of composites and lambdas, which no recipe has to repeat.

```
include [path]      in the recipe: from its own folder, never out of it
composites, lambdas     in the library, as in a recipe; doc
```

A library includes nothing itself. An artifact holds the texts of what its recipe includes beside the recipe.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from fusebuild.errors import RecipeError, SourceLocation, one_line
from fusebuild.recipe.fields import Fields
from fusebuild.recipe.files import ReadIncluded, UnreadableError
from fusebuild.recipe.text import Node, Problems, Scalar, Source, decoded, read_source, text_lines

MAX_INCLUDES = 64
_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Included:
    """A library that a recipe includes: the path as the recipe has it, and where; the text of the file."""

    path: str
    place: SourceLocation
    source: Source


def among(texts: Mapping[str, str]) -> ReadIncluded:
    """Reads from ``texts``, by path."""

    def read(path: str) -> bytes:
        if path not in texts:
            raise UnreadableError("it is not there")
        return texts[path].encode()

    return read


def read_include(fields: Fields, node: Node) -> tuple[Scalar, ...]:
    """The paths under ``node``, each once; what is wrong with one is reported."""
    items = fields.items(node, "a list of files, such as [activations.yaml]") or ()
    if len(items) > MAX_INCLUDES:
        fields.problems.add(node.location, f"{len(items)} files are included; {MAX_INCLUDES} are the limit")
        return ()
    found: dict[str, Scalar] = {}
    for item in items:
        scalar = fields.text(item, "a path")
        if scalar is None:
            continue
        message, hint = path_problem(scalar.text)
        if not message and scalar.text in found:
            message, hint = f"'{scalar.text}' is included twice", ""
        if message:
            fields.problems.add(item.location, message, hint)
        else:
            found[scalar.text] = scalar
    return tuple(found.values())


def path_problem(path: str) -> tuple[str, str]:
    """``(message, hint)`` saying why ``path`` names no library; two empty strings when it may."""
    shown = f"'{path[:60]}{'…' if len(path) > 60 else ''}'"
    parts = path.split("/")
    if path.startswith(("/", "~")) or path[1:2] == ":":
        return f"{shown} is an absolute path", "a path leads from the recipe's folder to a file in it"
    if ".." in parts:
        return f"{shown} leads out of the recipe's folder", "put what recipes share into a folder beside them"
    if len(path) > 200 or len(parts) > 8 or not all(map(_PART.fullmatch, parts)):
        return f"{shown} is no path of a library", "for example common/activations.yaml: letters, digits, '_', '-', '.'"
    if not path.endswith(".yaml"):
        return f"{shown} is no *.yaml file", ""
    return "", ""


def read_included(source: Source, path: Scalar, read: ReadIncluded | None, problems: Problems) -> Included | None:
    """The library at ``path`` of the recipe ``source``, or None after reporting why it cannot be read."""
    if read is None:
        problems.add(
            path.location, f"cannot read '{path.text}': the recipe is in no file", "write what it needs itself"
        )
        return None
    try:
        data = read(path.text)
    except UnreadableError as error:
        hint = "a path leads from the recipe's folder to a file in it"
        problems.add(path.location, f"cannot read '{one_line(path.text)}': {error}", hint)
        return None
    folder, _, _ = source.path.rpartition("/")
    name = f"{folder}/{path.text}" if folder else path.text
    return Included(path=path.text, place=path.location, source=_library(data, name))


def _library(data: bytes, name: str) -> Source:
    """The library in the bytes of a file; raises :class:`RecipeError` for bytes that are none."""
    text = decoded(data, name, "library")
    if all(not line.strip() or line.lstrip().startswith("#") for line in text_lines(text)):
        start = SourceLocation(path=name, line=1, column=1)
        raise RecipeError.at(start, "the library is empty", "a library has composites or lambdas")
    return read_source(text, name)
