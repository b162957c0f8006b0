"""Index ops as moves: what each does to the dims of what it reads, whatever that is.

``slice`` and ``pad`` move each dim by itself, ``reshape`` goes from one shape to another, ``take`` and
``take_along_axis`` replace the coordinate along one dim by what an index says. Each can tell what it is on an operand
that broadcasts to the value it moves, which is how a move passes through what is computed element by element.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self

from fusebuild.ir.algebra import Algebra
from fusebuild.ir.formula import Formula
from fusebuild.ir.values import Attribute, Expr, Value
from fusebuild.ops.indexing import pad_widths, reshape_groups
from fusebuild.ops.type_rules import normalize_dims
from fusebuild.passes.rewriting import Rewriter


@dataclass(frozen=True, slots=True, kw_only=True)
class DimByDim:
    """A move along each dim by itself: its numbers there, which are ``idle`` where it moves nothing."""

    dims: tuple[tuple[Formula, ...], ...]

    op: ClassVar[str]
    operands: ClassVar[tuple[Value, ...]] = ()
    idle: ClassVar[tuple[Formula, ...]]
    """What a move of a dim of size 1 that stays has as its numbers."""

    def on(self, shape: Sequence[Formula], whole: Sequence[Formula]) -> Self | None:
        """This move on an operand of ``shape`` that broadcasts to ``whole``."""
        pairs = zip(self.dims, shape, whole, strict=True)
        return self._with([self.idle if own == 1 and size != 1 else each for each, own, size in pairs])

    def permuted(self, order: Sequence[int]) -> Self:
        """This move as it is before dims are put in ``order``."""
        dims = dict(zip(order, self.dims, strict=True))
        return self._with([dims[dim] for dim in range(len(dims))])

    def with_ones(self, kept: Sequence[int], rank: int) -> Self:
        """This move on a tensor of ``rank`` dims: its dims ``kept`` are moved, and all others have size 1."""
        dims = dict(zip(kept, self.dims, strict=True))
        return self._with([dims.get(dim, self.idle) for dim in range(rank)])

    def without(self, dims: Sequence[int]) -> Self:
        """This move on a tensor that lacks ``dims``, which have size 1."""
        return self._with([each for dim, each in enumerate(self.dims) if dim not in dims])

    def before_take(self, take: Expr, source: Sequence[Formula], index: Sequence[Formula]) -> BeforeTake | None:
        """This move of the result of ``take`` as moves of what it reads, of shape ``source``, and of its ``index``."""
        (dim,) = normalize_dims(take.op, [take.attribute("dim")], len(source))
        unmoved = self.unmoved(source[dim])
        if take.op == "take":
            end = dim + len(index)
            own = self._with([*self.dims[:dim], unmoved, *self.dims[end:]])
            return BeforeTake(source=own, index=self._with(self.dims[dim:end]), dim=dim)
        result = [at if own == 1 else own for own, at in zip(source, index, strict=True)]
        along = self._with([*self.dims[:dim], unmoved, *self.dims[dim + 1 :]]).on(source, result)
        result[dim] = index[dim]
        of_index = self.on(index, result)
        return None if along is None or of_index is None else BeforeTake(source=along, index=of_index, dim=dim)

    @classmethod
    def unmoved(cls, extent: Formula) -> tuple[Formula, ...]:
        """The numbers of a dim of ``extent`` that stays as it is."""
        raise NotImplementedError

    def attributes(self) -> dict[str, Attribute]:
        """The attributes of the op that does this."""
        raise NotImplementedError

    def is_idle(self, shape: Sequence[Formula]) -> bool:
        """Whether a tensor of ``shape`` stays as it is."""
        raise NotImplementedError

    def _with(self, dims: Sequence[tuple[Formula, ...]]) -> Self:
        return replace(self, dims=tuple(dims))


@dataclass(frozen=True, slots=True, kw_only=True)
class BeforeTake:
    """A move of what a take makes, done before it: moves of what it reads and of its index, and its dim then."""

    source: DimByDim | Reshape
    index: DimByDim | Reshape
    dim: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice(DimByDim):
    """``(start, end, stride)`` for each dim."""

    op = "slice"
    idle = (0, 1, 1)

    def attributes(self) -> dict[str, Attribute]:
        starts, ends, steps = (tuple(each[position] for each in self.dims) for position in range(3))
        return {"start_indices": starts, "end_indices": ends, "strides": steps}

    @classmethod
    def unmoved(cls, extent: Formula) -> tuple[Formula, ...]:
        return (0, extent, 1)

    def is_idle(self, shape: Sequence[Formula]) -> bool:
        return all(each == (0, extent, 1) for each, extent in zip(self.dims, shape, strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class Pad(DimByDim):
    """``(before, after)`` for each dim."""

    op = "place"
    idle = (0, 0)

    def attributes(self) -> dict[str, Attribute]:
        return {"pad_widths": tuple(width for pair in reversed(self.dims) for width in pair)}

    @classmethod
    def unmoved(cls, extent: Formula) -> tuple[Formula, ...]:
        return (0, 0)

    def is_idle(self, shape: Sequence[Formula]) -> bool:
        return all(each == self.idle for each in self.dims)

    def repeats(self, shape: Sequence[Formula]) -> bool:
        """Whether dims of size 1 of a tensor of ``shape`` are padded."""
        return self.without_repeats(shape) != self

    def without_repeats(self, shape: Sequence[Formula]) -> Pad:
        """This move without dims of size 1."""
        return self._with([self.idle if extent == 1 else each for each, extent in zip(self.dims, shape, strict=True)])


@dataclass(frozen=True, slots=True, kw_only=True)
class Reshape:
    """From the shape ``old`` to ``new``."""

    old: tuple[Formula, ...]
    new: tuple[Formula, ...]
    algebra: Algebra

    op = "reshape"
    operands: ClassVar[tuple[Value, ...]] = ()

    def attributes(self) -> dict[str, Attribute]:
        return {"shape": self.new}

    def is_idle(self, shape: Sequence[Formula]) -> bool:
        return self.old == self.new

    def on(self, shape: Sequence[Formula], whole: Sequence[Formula]) -> Reshape | None:
        """None where the operand broadcasts along some dims of a run that is reshaped as one, and not along others."""
        new: list[Formula] = []
        for old_run, new_run in reshape_groups(self.old, self.new, self.algebra) or ():
            own = [shape[dim] for dim in old_run]
            if own == [self.old[dim] for dim in old_run]:
                new += [self.new[dim] for dim in new_run]
            elif all(extent == 1 for extent in own):
                new += [1 for _ in new_run]
            else:
                return None
        return replace(self, old=tuple(shape), new=tuple(new))

    def before_broadcast(self, mask: Sequence[bool]) -> tuple[Reshape, tuple[bool, ...]] | None:
        """This move of what a ``broadcast`` with ``mask`` makes, as a move of its operand and the mask after it. None
        where new dims are made of those that were added."""
        own: list[Formula] = []
        added: list[bool] = []
        for old_run, new_run in reshape_groups(self.old, self.new, self.algebra) or ():
            extents = self.new[new_run.start : new_run.stop]
            is_added = all(mask[dim] for dim in old_run)
            if is_added and any(extent != 1 for extent in extents):
                return None
            own += () if is_added else extents
            added += [is_added] * len(extents)
        old = tuple(extent for extent, is_new in zip(self.old, mask, strict=True) if not is_new)
        return replace(self, old=old, new=tuple(own)), tuple(added)

    def before_take(self, take: Expr, source: Sequence[Formula], index: Sequence[Formula]) -> BeforeTake | None:
        """As :meth:`DimByDim.before_take`; None where dims of the index are merged with others."""
        if take.op != "take":
            return None
        (dim,) = normalize_dims(take.op, [take.attribute("dim")], len(source))
        end = dim + len(index)
        groups = reshape_groups(self.old, self.new, self.algebra) or ()
        if any(not (old.stop <= dim or old.start >= end or dim <= old.start <= old.stop <= end) for old, _ in groups):
            return None
        parts: list[list[Formula]] = [[], [], []]
        for old, new in groups:
            parts[0 if old.stop <= dim else 2 if old.start >= end else 1] += self.new[new.start : new.stop]
        before, own, after = parts
        return BeforeTake(
            source=replace(self, old=tuple(source), new=(*before, source[dim], *after)),
            index=replace(self, old=tuple(index), new=tuple(own)),
            dim=len(before),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Picking:
    """A move that reads along ``dim`` what ``index`` names."""

    index: Value
    dim: int

    op: ClassVar[str]

    @property
    def operands(self) -> tuple[Value, ...]:
        return (self.index,)

    @property
    def rank(self) -> int:
        """How many dims are in the place of ``dim`` then."""
        raise NotImplementedError

    def attributes(self) -> dict[str, Attribute]:
        return {"dim": self.dim}

    def is_idle(self, shape: Sequence[Formula]) -> bool:
        return False

    def on(self, shape: Sequence[Formula], whole: Sequence[Formula]) -> Self | Spread:
        return self if self.picks(shape, whole) else Spread(dim=self.dim, rank=self.rank)

    def picks(self, shape: Sequence[Formula], whole: Sequence[Formula]) -> bool:
        """Whether an operand of ``shape`` that broadcasts to ``whole`` has more than one element to take."""
        return shape[self.dim] != 1 or whole[self.dim] == 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Take(Picking):
    """``take``: the dims of the index are in the place of ``dim`` then."""

    op = "take"

    @property
    def rank(self) -> int:
        return self.index.tensor.rank


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeAlong(Picking):
    """``take_along_axis``: the index, of as many dims, names an element for the same place."""

    op = "take_along_axis"

    @property
    def rank(self) -> int:
        return 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """What a :class:`Picking` is to an operand of size 1 along its dim: as many dims of size 1 as it has there then."""

    dim: int
    rank: int

    op = "spread"

    def is_idle(self, shape: Sequence[Formula]) -> bool:
        return self.rank == 1

    def on(self, shape: Sequence[Formula], whole: Sequence[Formula]) -> Spread:
        return self

    def shape_of(self, shape: Sequence[Formula]) -> tuple[Formula, ...]:
        """The shape of a tensor of ``shape`` after this move."""
        return (*shape[: self.dim], *(1,) * self.rank, *shape[self.dim + 1 :])


Move = DimByDim | Reshape | Picking | Spread


def move_of(rewriter: Rewriter, expr: Expr) -> Move:
    """What the index op ``expr`` does."""
    operands, named = rewriter.operands(expr), dict(expr.attributes)
    tensor = operands[0].tensor
    match expr.op:
        case "pad" | "place":
            return Pad(dims=tuple(pad_widths(tensor.rank, named)))
        case "reshape":
            new = rewriter.value(expr.outputs[0]).tensor.shape
            return Reshape(old=tensor.shape, new=new, algebra=rewriter.builder.algebra)
        case "slice":
            steps = named["strides"] or (1,) * tensor.rank
            return Slice(dims=tuple(zip(named["start_indices"], named["end_indices"], steps, strict=True)))
    (dim,) = normalize_dims(expr.op, [expr.attribute("dim")], tensor.rank)
    return Take(index=operands[1], dim=dim) if expr.op == "take" else TakeAlong(index=operands[1], dim=dim)
