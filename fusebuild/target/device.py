"""Which target a CUDA device runs."""

from __future__ import annotations

from fusebuild.artifact.architecture import architecture_of
from fusebuild.errors import UsageError
from fusebuild.runtime.loader import best_target
from fusebuild.target.table import TARGETS, Target, find_target


def target_of(capability: int) -> Target:
    """The target for a device of ``capability`` (90 for 9.0): a plain architecture, or where none runs there one whose
    name ends in ``f`` or ``a``, whose code fewer devices run. Raises :class:`UsageError` where there is neither."""
    plain = [name for name in TARGETS if (found := architecture_of(name)) and not found.features]
    name = best_target(plain, capability) or best_target(list(TARGETS), capability)
    if name is None:
        raise UsageError(f"no target runs on a device of compute capability {capability // 10}.{capability % 10}")
    return find_target(name)
