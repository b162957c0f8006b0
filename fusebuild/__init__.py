"""fusebuild: fusion artifacts for GPUs, built ahead of time. See :mod:`fusebuild.pipeline` for the walk.

Nothing heavy is imported here: names are found on first use, so that ``import fusebuild`` stays fast.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fusebuild.runtime.loader import load as load

__version__ = "0.1.0"

_LAZY = {"load": "fusebuild.runtime.loader"}
"""Public name to the module that defines it."""

__all__ = ["__version__", "load"]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'fusebuild' has no attribute '{name}'")
    value = getattr(import_module(_LAZY[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
