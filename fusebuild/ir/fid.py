"""Fids, the numbers of values, in two spaces that a type checker tells apart.

What a recipe computes is numbered once, and each segment that is cut from it has numbers of its own; a ``fid_map``
leads from these to those. Kernels are written in a segment's fids, and what runs is told the original ones.
"""

from __future__ import annotations

from typing import NewType, TypeVar

OriginalFid = NewType("OriginalFid", int)
"""A fid in the index space of the whole Fusion."""

SegmentFid = NewType("SegmentFid", int)
"""A fid in the index space of one extracted segment."""

Fid = TypeVar("Fid", bound=int)
"""Either of them, for what is said in both."""

OtherFid = TypeVar("OtherFid", bound=int)
"""The one that a :data:`Fid` is exchanged for."""
