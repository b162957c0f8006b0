"""Elementwise tasks whose tensors are dense along different dims: tiles in shared memory turn the others around.

One axis is the innermost of the output; **across** it, along another axis, lie the neighbours of some other tensors. A
block owns a square tile of the two axes. Tensors of the first kind are accessed by vectors along rows of the tile,
those of the second kind along its columns; they meet in shared memory, whose words are swizzled so that neither way of
walking a tile finds two threads at one bank (nvFuser's transpose scheduler has the same two groups).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import partial
from typing import Self

from fusebuild.ir.formula import ceil_div, product
from fusebuild.ir.fusion import Task
from fusebuild.kernels.common.choice import Choice, decide, fewer_blocks
from fusebuild.kernels.common.domain import AxisDomain
from fusebuild.kernels.common.planner import Planner, Width
from fusebuild.kernels.common.rows import MAX_THREADS, WARP
from fusebuild.kernels.common.spec import VariantSpec, any_domain
from fusebuild.kernels.common.unfit import UnfitError
from fusebuild.kernels.pointwise import schedule as pointwise
from fusebuild.target.table import Target

THREADS = 256
BLOCK_THREADS = 1536
"""Threads that a multiprocessor should hold: on an H200, 1024 wait for memory and 2048 have too few registers."""
WIDE_BLOCK_THREADS = 1024
"""Threads that a multiprocessor should hold where indices take two registers each: with more of them, they spilled."""
TILE_BYTES = 48 * 1024
"""Static shared memory that the tiles of a block may take together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransposeChoice(Choice):
    """Blocks of ``threads`` own tiles of ``tile`` rows and columns; a multiprocessor shall have the registers of
    ``min_blocks``."""

    FEWER = ("tile",)
    MORE = ("threads",)

    threads: int
    tile: int
    min_blocks: int

    def stepped(self, knob: str, value: int) -> Self:
        """Threads that have more of a tile need more registers, so that fewer blocks fit."""
        changed = replace(self, **{knob: value})
        if knob == "threads":
            return replace(changed, min_blocks=fewer_blocks(self.min_blocks, self.threads, value))
        if knob == "tile" and value > self.tile:
            return replace(changed, min_blocks=max(1, self.min_blocks // 2))
        return changed


@dataclass(frozen=True, slots=True, kw_only=True)
class TransposeHeuristics:
    """A block's tile has ``tile`` rows and columns; a thread has ``unroll`` vectors of it. ``tiled`` are the tensors
    that are dense along the axis ``across``."""

    threads: int
    tile: int
    unroll: int
    min_blocks: int
    across: int
    tiled: tuple[int, ...]


def check(task: Task) -> None:
    pointwise.check(task)
    if _across(any_domain(task)) is None:
        raise UnfitError("all tensors are dense along one dim")


def variants(planner: Planner) -> list[VariantSpec]:
    domain = planner.domain
    across, inner = _across(domain), domain.inner
    assert across is not None
    vec, tiled = min(map(planner.vector_width, (inner, across))), _tiled(domain, across)
    turned = [fid for fid in domain.accesses if fid not in tiled]
    guards = (
        *planner.vector_guards(inner, vec, also=domain.vector_sources),
        *planner.vector_guards(across, vec, one_by_one=turned),
    )
    return [_variant(planner, across, way) for way in planner.widths(vec, dict.fromkeys(guards))]


def _across(domain: AxisDomain) -> int | None:
    """The axis along which most tensors are dense that are not dense along the innermost one, though they change along
    it; None where there are none."""
    inner = domain.inner
    found = Counter(
        axis
        for access in domain.accesses.values()
        if inner in access.axes and domain.unit_stride(access, inner) is None
        for axis in range(inner)
        if domain.unit_stride(access, axis) is not None
    )
    return max(found, key=lambda axis: (found[axis], axis)) if found else None


def _tiled(domain: AxisDomain, across: int) -> tuple[int, ...]:
    """The tensors that are read or written along ``across``."""
    inner = domain.inner
    return tuple(
        fid
        for fid, access in domain.accesses.items()
        if inner in access.axes and domain.unit_stride(access, across) is not None
        and domain.unit_stride(access, inner) is None
    )  # fmt: skip


def _propose(vec: int, element: int, index: str) -> TransposeChoice:
    """The largest tiles whose rows are lines of a cache, or what fits; an element of all of them takes ``element``
    bytes."""
    tile = 8 * vec if vec > 1 else 32
    while tile * tile * element > TILE_BYTES:
        tile //= 2
    threads = min(THREADS, tile * tile // vec)
    held = BLOCK_THREADS if index == "int32_t" else WIDE_BLOCK_THREADS
    return TransposeChoice(threads=threads, tile=tile, min_blocks=held // threads)


def _check(choice: TransposeChoice, *, target: Target, vec: int, element: int) -> None:
    """Raise :class:`KnobError` for tiles that shared memory or a block's threads do not fit."""
    tile, threads = choice.tile, choice.threads
    choice.require_power_of_two("tile", vec, 8 * WARP)
    size = tile * tile * element
    choice.require(
        size <= TILE_BYTES, "tile", f"tiles of {tile} rows take {size} bytes of shared memory, of {TILE_BYTES}"
    )
    choice.require_power_of_two("threads", WARP, MAX_THREADS)
    vectors = tile * tile // vec
    choice.require(threads <= vectors, "threads", f"a tile of {tile} rows has {vectors} vectors for {threads} threads")
    choice.require(threads * vec >= tile, "threads", f"{threads} threads do not reach along {tile} elements")
    choice.require_blocks("min_blocks", threads, max(BLOCK_THREADS, target.threads_per_multiprocessor))


def _variant(planner: Planner, across: int, width: Width) -> VariantSpec:
    name, guard, vec, index = width
    domain, tiled = planner.domain, _tiled(planner.domain, across)
    element = planner.bytes_of(tiled)
    own_check = partial(_check, target=planner.target, vec=vec, element=element)
    choice = decide(name, _propose(vec, element, index), planner.tuned, own_check)
    tile, threads = choice.tile, choice.threads
    heuristics = TransposeHeuristics(
        threads=threads,
        tile=tile,
        unroll=tile * tile // (threads * vec),
        min_blocks=choice.min_blocks,
        across=across,
        tiled=tiled,
    )
    kernel = planner.kernel("transpose", heuristics, vec=vec, index=index)
    others = domain.points(axis for axis in range(domain.inner) if axis != across)
    tiles = (ceil_div(domain.axes[axis].extent, tile) for axis in (domain.inner, across))
    return planner.variant(name, choice, guard, kernel, product([*tiles, others]), (threads, 1, 1))
