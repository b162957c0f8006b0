"""Tables of rows by name."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from fusebuild.system.named import by_name

FIRST, SECOND = SimpleNamespace(name="first"), SimpleNamespace(name="second")


def test_rows_are_found_by_name_in_their_order() -> None:
    assert list(by_name([SECOND, FIRST]).items()) == [("second", SECOND), ("first", FIRST)]


def test_no_row_replaces_another() -> None:
    with pytest.raises(ValueError, match=r"^'first' is declared twice$"):
        by_name([FIRST, SECOND, SimpleNamespace(name="first")])
