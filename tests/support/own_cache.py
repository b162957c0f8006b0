"""Caches of a test's own."""

from __future__ import annotations

from pathlib import Path


def own_cache(folder: Path, cache: Path) -> Path:
    """A new cache in ``folder``, in which nothing is compiled yet. Which compilers work is known from ``cache``."""
    own = folder / "cache"
    own.mkdir()
    (own / "probes").symlink_to(cache / "probes")
    return own
