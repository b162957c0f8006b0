"""Elementwise tasks whose tensors are dense along different dims: tiles in shared memory turn the others around.

One axis is the innermost of the output; **across** it, along another axis, lie the neighbours of some other tensors. A
block owns a tile of the two axes. Tensors of the first kind are accessed along rows of the tile, those of the second
kind along its columns; they meet in shared memory (nvFuser's transpose scheduler has the same two groups).

- Where both axes are whole vectors, tiles are square and both kinds are accessed by vectors. Words of shared memory are
  swizzled so that neither way of walking a tile finds two threads at one bank.
- **Shifted** tiles are for extents of any length. A tile has as many columns in each of its rows, but they begin where
  a sector of memory does, up to two vectors before those of the tile: what is dense along rows moves by aligned
  vectors, and no two blocks write to one sector. For that a tile reads two vectors of columns more from the other
  tensors, each of their vectors cut out of the aligned words around it. H100, transpose_add of odd sizes from 54 to
  279 MB: 0.58 to 0.71 of a copy with scalar squares, 0.85 to 0.96 with shifted tiles.
- Rows of **few columns** are a block's with all columns (:mod:`fusebuild.kernels.transpose.narrow`). Where a task has
  that kernel, it has none for squares with indices of 32 bits.
- What is left moves element by element: by squares, also where shifted tiles were too few, or without tiles where
  matrices are thin or tiny. Those squares have indices of 64 bits where a task has a kernel for few columns. Whatever
  along lies near then: each element is read from where it is, by neighbouring threads for neighbouring elements of the
  output (H100: 3034240 rows of 4 columns 0.97 of a copy).

A side that is shorter than a square's is filled up: the square is folded, and goes on along the other side.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import partial
from typing import Self

from fusebuild.ir.formula import Formula, ceil_div, product, simplified, total
from fusebuild.ir.fusion import Task
from fusebuild.kernels.common.choice import Choice, decide, fewer_blocks
from fusebuild.kernels.common.domain import AxisDomain
from fusebuild.kernels.common.planner import Planner, Width
from fusebuild.kernels.common.rows import MAX_THREADS, STATIC_BYTES, WARP
from fusebuild.kernels.common.spec import (
    VariantSpec,
    VectorLayout,
    any_domain,
    call_parameter,
    fits_int32,
    kernel_parameters,
)
from fusebuild.kernels.common.unfit import UnfitError
from fusebuild.kernels.pointwise import schedule as pointwise
from fusebuild.kernels.pointwise.narrow import counted_parameters
from fusebuild.kernels.transpose.narrow import has_narrow, narrow_variant
from fusebuild.target.table import Target

THREADS = 256
BLOCK_THREADS = 1536
"""Threads that a multiprocessor should hold: on an H200, 1024 wait for memory and 2048 have too few registers."""
WIDE_BLOCK_THREADS = 1024
"""The same where a thread has elements, each with an index of its own, or many: with more of them, they spilled."""
SIDE_VECTORS = 8
"""Vectors along a side of a tile: a line of a cache."""
SCALAR_SIDE = 32
"""Elements along the side of a tile that moves element by element."""
MANY = 2**18
"""Elements from which on shifted tiles are faster than more and smaller scalar ones: those of 501 x 500 bfloat16 take
3.6 us, 3.5 without tiles, and 3.1 by scalar ones (H100)."""
FEW = 2**17
"""Elements up to which nothing is faster than to read each from where it is (H100)."""


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
    """A block's tile has ``tile`` rows and columns, or as many elements as such a one; a thread has ``unroll`` vectors
    of it. ``tiled`` are the tensors that are dense along the axis ``across``."""

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
    across = _across(domain)
    assert across is not None
    vec = min(map(planner.vector_width, (domain.inner, across)))
    *vectors, (name, guard, _, index), large = planner.widths(vec, _aligned(planner, across, vec))
    sides = [domain.axes[axis].extent for axis in (across, domain.inner)]
    tiled, shifts = _tiled(domain, across), _has_shifted(planner, across, vec)
    narrow = [narrow_variant(planner, vec, tiled)] if shifts and has_narrow(planner, across, vec, tiled) else []
    shifted = [_shifted(planner, across, vec)] if shifts else []
    full = tuple(("ge", side, SCALAR_SIDE) for side in sides)
    squares = [] if narrow else [_squares(planner, across, (name, (*guard, *full), 1, index))]
    wide = _squares(planner, across, large)
    some = ("lt", domain.points(domain.every), MANY)
    small = [replace(wide, name="small_scalar_int64", guard=(some, *full))] if narrow else []
    thin = (("lt", ("min", *sides), SCALAR_SIDE),) if narrow else ()
    lanes = pointwise.flat_variant(planner, ("lanes_int32", (*guard, *thin), 1, index))
    return [
        replace(lanes, name="few_lanes_int32", guard=(("le", domain.points(domain.every), FEW),)),
        *(_squares(planner, across, way) for way in vectors),
        *narrow,
        *shifted,
        *squares,
        *small,
        lanes,
        wide,
    ]


def _aligned(planner: Planner, across: int, vec: int) -> tuple[Formula, ...]:
    """What holds where all of the domain is whole vectors along both axes, and tiles are not all but empty."""
    domain = planner.domain
    tiled = _tiled(domain, across)
    turned = [fid for fid in domain.accesses if fid not in tiled]
    guards = (
        *planner.vector_guards(domain.inner, vec, also=domain.vector_sources),
        *planner.vector_guards(across, vec, one_by_one=turned),
        _fills(domain, across, SIDE_VECTORS * vec, 8),
    )
    return tuple(dict.fromkeys(guards))


def _fills(domain: AxisDomain, across: int, side: int, part: int) -> Formula:
    """The first tile of a matrix has at least one in ``part`` of its ``side * side`` elements; others are faster
    without tiles."""
    sides = (simplified(("min", domain.axes[axis].extent, side)) for axis in (across, domain.inner))
    return ("ge", product([*sides]), side * side // part)


def _has_shifted(planner: Planner, across: int, vec: int) -> bool:
    """Whether an extent may be no multiple of ``vec``, and shifted tiles can be made: outputs are dense over the whole
    domain, and of inputs what is no vector along rows fills memory without gaps."""
    domain, tiled = planner.domain, _tiled(planner.domain, across)
    if not any(planner.has_odd_rows(vec, domain.axes[axis].extent) for axis in (across, domain.inner)):
        return False
    moving = [access for access in domain.accesses.values() if domain.inner in access.axes]
    return {*planner.task.outputs} <= {*domain.flat} and all(
        domain.fills_memory(access) if access.fid in tiled else domain.unit_stride(access, domain.inner) is not None
        for access in moving
    )


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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
    """What tiles would be like if everything fitted: elements along a ``side``, and threads ``held`` by a
    multiprocessor. In shared memory each row has room for so many elements ``beside`` its own at most."""

    side: int
    held: int
    beside: int = 0

    def tile_bytes(self, tile: int, element: int) -> int:
        """The bytes of all tiles with a side of ``tile``, which have ``element`` bytes for each element."""
        return tile * (tile + self.beside) * element


def _propose(vec: int, element: int, wanted: _Wanted) -> TransposeChoice:
    """What is ``wanted``, or what fits; an element of all tiles takes ``element`` bytes."""
    tile = wanted.side
    while wanted.tile_bytes(tile, element) > STATIC_BYTES:
        tile //= 2
    threads = min(THREADS, tile * tile // vec)
    return TransposeChoice(threads=threads, tile=tile, min_blocks=wanted.held // threads)


def _check(choice: TransposeChoice, *, target: Target, vec: int, element: int, wanted: _Wanted) -> None:
    """Raise :class:`KnobError` for tiles that shared memory or a block's threads do not fit."""
    tile, threads = choice.tile, choice.threads
    choice.require_power_of_two("tile", vec, 8 * WARP)
    size = wanted.tile_bytes(tile, element)
    choice.require(
        size <= STATIC_BYTES, "tile", f"tiles of {tile} rows take {size} bytes of shared memory, of {STATIC_BYTES}"
    )
    choice.require_power_of_two("threads", WARP, MAX_THREADS)
    vectors = tile * tile // vec
    choice.require(threads <= vectors, "threads", f"a tile of {tile} rows has {vectors} vectors for {threads} threads")
    choice.require(threads * vec >= tile, "threads", f"{threads} threads do not reach along {tile} elements")
    choice.require_blocks("min_blocks", threads, max(BLOCK_THREADS, target.threads_per_multiprocessor))


def _decided(
    planner: Planner, across: int, width: Width, wanted: _Wanted
) -> tuple[TransposeChoice, TransposeHeuristics]:
    """What is chosen for a way to access the domain, and what a kernel has to know of it."""
    name, _, vec, _ = width
    tiled = _tiled(planner.domain, across)
    element = planner.bytes_of(tiled)
    own_check = partial(_check, target=planner.target, vec=vec, element=element, wanted=wanted)
    choice = decide(name, _propose(vec, element, wanted), planner.tuned, own_check)
    heuristics = TransposeHeuristics(
        threads=choice.threads,
        tile=choice.tile,
        unroll=choice.tile * choice.tile // (choice.threads * vec),
        min_blocks=choice.min_blocks,
        across=across,
        tiled=tiled,
    )
    return choice, heuristics


def _squares(planner: Planner, across: int, width: Width) -> VariantSpec:
    name, guard, vec, index = width
    domain = planner.domain
    side = SIDE_VECTORS * vec if vec > 1 else SCALAR_SIDE
    held = BLOCK_THREADS if vec > 1 else WIDE_BLOCK_THREADS
    choice, heuristics = _decided(planner, across, width, _Wanted(side=side, held=held))
    rows, columns = (domain.axes[axis].extent for axis in (across, domain.inner))
    spans = ((columns, _span(rows, vec, choice.tile)), (rows, _span(columns, vec, choice.tile)))
    tiles = [simplified(("ceil_div", extent, span)) for extent, span in spans]
    counts = zip(("column_tiles", "row_tiles"), tiles[: domain.inner], strict=False)  # one matrix needs the first
    parameters = (
        *kernel_parameters(planner.task, domain),
        call_parameter("row_bits", _bits(rows, vec, choice.tile), "of the rows of a tile"),
        call_parameter("column_bits", _bits(columns, vec, choice.tile), "of its columns"),
        *(parameter for name, count in counts for parameter in counted_parameters(name, count)),
    )
    kernel = planner.kernel("transpose", heuristics, vec=vec, index=index, parameters=parameters)
    grid = product([*tiles, _matrices(domain, across)])
    return planner.variant(name, choice, guard, kernel, grid, (choice.threads, 1, 1))


def _bits(extent: Formula, vec: int, tile: int) -> Formula:
    """The power of two of the elements along a side of a tile: as few as hold ``extent``, at most ``tile``."""
    least, most = vec.bit_length() - 1, tile.bit_length() - 1
    return simplified(total([least, *(("gt", extent, 1 << bits) for bits in range(least, most))]))


def _span(beside: Formula, vec: int, tile: int) -> Formula:
    """The elements that a tile reaches along a side: more than its own where fewer are ``beside`` them."""
    least, most = vec.bit_length() - 1, tile.bit_length() - 1
    folds = (("mul", tile * tile >> bits, ("le", beside, 1 << bits)) for bits in range(least, most))
    return simplified(("max", tile, *folds))


def _shifted(planner: Planner, across: int, vec: int) -> VariantSpec:
    domain = planner.domain
    rows, columns = (domain.axes[axis].extent for axis in (across, domain.inner))
    guard = (
        fits_int32(domain.points(domain.every)),
        ("ge", domain.points(domain.every), MANY),
        _fills(domain, across, SIDE_VECTORS * vec, 2),
        *planner.aligned(dict.fromkeys([*domain.flat, *_tiled(domain, across)]), vec),
    )
    width = (f"shifted_vec{vec}_int32", guard, vec, "int32_t")
    wanted = _Wanted(side=SIDE_VECTORS * vec, held=WIDE_BLOCK_THREADS, beside=2 * vec)
    choice, heuristics = _decided(planner, across, width, wanted)
    reached = total([columns, 2 * vec - 1])
    tiles = (ceil_div(reached, choice.tile), ceil_div(rows, choice.tile))
    below = call_parameter("row_tiles", tiles[1], "below each other")
    parameters = (
        *kernel_parameters(planner.task, domain),
        *counted_parameters("column_tiles", tiles[0]),
        *((below,) if domain.inner == 1 else counted_parameters("row_tiles", tiles[1])),
    )
    kernel = planner.kernel(
        "transpose_shifted", heuristics, vec=vec, vectors=VectorLayout.SHIFTED, parameters=parameters
    )
    grid = product([*tiles, _matrices(domain, across)])
    return planner.variant(width[0], choice, guard, kernel, grid, (choice.threads, 1, 1))


def _matrices(domain: AxisDomain, across: int) -> Formula:
    """How many matrices the domain has of the two axes."""
    return domain.points(axis for axis in range(domain.inner) if axis != across)
