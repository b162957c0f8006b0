"""Functions of Python that are written for a plan, of its numbers alone: an artifact cannot have a name that is run."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import CodeType, FunctionType
from typing import Any


def written(text: str, names: Mapping[str, Any]) -> FunctionType:
    """The one function that ``text`` defines; ``names`` has what it uses."""
    found, known = dict[str, Any](), dict(names)
    exec(_code(text), known, found)
    (function,) = found.values()
    assert isinstance(function, FunctionType)
    return function


@cache
def _code(text: str) -> CodeType:
    """The code of ``text``, which many plans share."""
    return compile(text, "<a plan's call>", "exec")
