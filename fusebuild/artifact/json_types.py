"""What the reports of several verbs share: the types of their fields, and how a report becomes JSON.

A report is one frozen :class:`msgspec.Struct`. What a verb prints with ``--json`` and the schema that ``fusebuild
schema`` prints both follow from its fields. Fields have no defaults, so that the schema promises every one of them; a
field that only some reports have is ``UNSET`` in the others, and is then left out.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

FormulaText = Annotated[str, Meta(description="arithmetic on sizes, such as 4*M*N")]
Bytes = Annotated[int | None, Meta(description="bytes at the sizes of the case; null where it does not give them all")]
Fid = Annotated[int, Meta(description="a value's number in the plan")]
Sizes = Annotated[dict[str, int], Meta(description="a size for each symbol")]
Milliseconds = Annotated[float, Meta(description="milliseconds on the device, the median")]


def json_value(report: object) -> Any:
    """``report`` as the dicts, lists, strings and numbers that :mod:`json` writes, in the order of its fields."""
    return msgspec.to_builtins(report, enc_hook=_path_text)


def _path_text(value: object) -> str:
    if isinstance(value, Path):
        return str(value)
    raise NotImplementedError(f"no report has a {type(value).__name__}")


def path_schema(kind: type) -> dict[str, str]:
    """The schema of a field of the type ``kind``, which :mod:`msgspec` does not know: a path."""
    if kind is Path:
        return {"type": "string"}
    raise NotImplementedError(f"no report has a {kind.__name__}")
