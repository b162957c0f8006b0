"""Which target a CUDA device runs."""

from __future__ import annotations

from fusebuild.errors import UsageError
from fusebuild.runtime.loader import best_target
from fusebuild.target.table import TARGETS, Target, find_target


def target_of(capability: int) -> Target:
    """The target for a device of ``capability`` (90 for 9.0). Raises :class:`UsageError` where none runs there."""
    name = best_target(list(TARGETS), capability)
    if name is None:
        raise UsageError(f"no target runs on a device of compute capability {capability // 10}.{capability % 10}")
    return find_target(name)
