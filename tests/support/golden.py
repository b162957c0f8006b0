"""The type of the fixture ``golden``, which compares a text with its golden file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

Golden = Callable[[Path, str], None]
