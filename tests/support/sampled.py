"""Many tests alike: a sample of them runs every time, all of them under ``make test-all``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

import pytest
from _pytest.mark import ParameterSet

Item = TypeVar("Item")


def sampled(items: Iterable[Item], every: int) -> list[Item | ParameterSet]:
    """``items`` for ``pytest.mark.parametrize``, of which all but each ``every``-th are marked as exhaustive.
    A tuple is the values of several parameters."""
    return [
        item
        if index % every == 0
        else pytest.param(*(item if isinstance(item, tuple) else (item,)), marks=pytest.mark.exhaustive)
        for index, item in enumerate(items)
    ]
