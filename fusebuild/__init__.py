"""fusebuild: fusion artifacts for GPUs, built ahead of time. See :mod:`fusebuild.pipeline` for the walk.

Nothing heavy is imported here: names are found on first use, so that ``import fusebuild`` stays fast.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fusebuild.api import Boundary as Boundary
    from fusebuild.api import boundaries as boundaries
    from fusebuild.api import compile as compile
    from fusebuild.definition import DataType as DataType
    from fusebuild.definition import FusionDefinition as FusionDefinition
    from fusebuild.errors import ArtifactError as ArtifactError
    from fusebuild.errors import CompileError as CompileError
    from fusebuild.errors import ForkError as ForkError
    from fusebuild.errors import FusebuildError as FusebuildError
    from fusebuild.errors import RecipeError as RecipeError
    from fusebuild.errors import ScheduleError as ScheduleError
    from fusebuild.errors import ToolchainError as ToolchainError
    from fusebuild.runtime.loader import load as load

__version__ = "0.1.0"

_LAZY = {
    "Boundary": "fusebuild.api",
    "boundaries": "fusebuild.api",
    "compile": "fusebuild.api",
    "load": "fusebuild.runtime.loader",
    "DataType": "fusebuild.definition",
    "FusionDefinition": "fusebuild.definition",
    "ArtifactError": "fusebuild.errors",
    "CompileError": "fusebuild.errors",
    "ForkError": "fusebuild.errors",
    "FusebuildError": "fusebuild.errors",
    "RecipeError": "fusebuild.errors",
    "ScheduleError": "fusebuild.errors",
    "ToolchainError": "fusebuild.errors",
}
"""Public name to the module that defines it."""

__all__ = [
    "ArtifactError",
    "Boundary",
    "CompileError",
    "DataType",
    "ForkError",
    "FusebuildError",
    "FusionDefinition",
    "RecipeError",
    "ScheduleError",
    "ToolchainError",
    "__version__",
    "boundaries",
    "compile",
    "load",
]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'fusebuild' has no attribute '{name}'")
    value = getattr(import_module(_LAZY[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
