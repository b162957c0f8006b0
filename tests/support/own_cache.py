"""Caches of a test's own."""

from __future__ import annotations

import shutil
from pathlib import Path


def own_cache(folder: Path, cache: Path) -> Path:
    """A new cache in ``folder``, in which no kernel is compiled yet. Which compilers work is known from ``cache``, and
    device headers that were precompiled are there."""
    own = folder / "cache"
    (own / "objects").mkdir(parents=True)
    (own / "probes").symlink_to(cache / "probes")
    (own / "objects" / "precompiled").symlink_to(cache / "objects" / "precompiled")
    return own


def copy_objects(cache: Path, store: Path) -> Path:
    """Copy the compiled kernels of a test's own ``cache`` into another one's ``store``, which it gives."""
    shutil.copytree(cache / "objects", store, dirs_exist_ok=True, ignore=shutil.ignore_patterns("precompiled"))
    return store
