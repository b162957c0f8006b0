"""Tables of rows that declare their own names."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeVar


class Named(Protocol):
    @property
    def name(self) -> str: ...


Row = TypeVar("Row", bound=Named)


def by_name(rows: Iterable[Row]) -> dict[str, Row]:
    """``rows`` by their names, in their order. Raises :class:`ValueError` where two have one name: the second would
    replace the first without a word."""
    table: dict[str, Row] = {}
    for row in rows:
        if row.name in table:
            raise ValueError(f"'{row.name}' is declared twice")
        table[row.name] = row
    return table
