"""What tests of definitions share: a definition that a function records."""

from __future__ import annotations

from collections.abc import Callable

from fusebuild.definition import FusionDefinition

Record = Callable[[FusionDefinition], None]


def recorded(record: Record) -> FusionDefinition:
    """The definition that ``record`` writes."""
    with FusionDefinition() as fd:
        record(fd)
    return fd
