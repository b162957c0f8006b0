"""The modules that run plans: what loads and calls an artifact."""

from __future__ import annotations

SIDE_TOWER = ("errors", "ir.formula", "ir.dtype", "artifact", "runtime")
"""What running an artifact imports, and nothing else."""


def in_side_tower(name: str) -> bool:
    """Whether the module ``name``, below ``fusebuild``, is one that running may import, or a package around one."""
    return any(f"{name}.".startswith(f"{each}.") or f"{each}.".startswith(f"{name}.") for each in SIDE_TOWER)
