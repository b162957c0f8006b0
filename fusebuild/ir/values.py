"""What a Fusion is made of: values and exprs, outputs, facts about extents, and the composites that authors named.

Every value of a Fusion has a **fid**, an index into one insertion-ordered space shared by inputs, constants, vectors
and results. Extents have negative fids: walking the tensor inputs in order and their dims in order gives -1, -2, ….
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from fusebuild.errors import NOWHERE, SourceLocation
from fusebuild.ir.dtype import DType
from fusebuild.ir.formula import Formula, substitute
from fusebuild.ir.types import Literal, TensorType, ValueType

Attribute: TypeAlias = Any
"""A number, a flag, a text, a dtype, a formula, a tuple of these, or None: an op knows which of them its own are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A part of the memory of ``tensor``, which begins at the element ``offset``; ``strides`` are in elements."""

    tensor: int
    offset: Formula
    strides: tuple[Formula, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """One node of data. ``literal`` is set for constants only (a tuple of fids for a vector), ``window`` for inputs
    that are parts of others, which schedulers make of slices."""

    fid: int
    name: str
    type: ValueType
    location: SourceLocation = NOWHERE
    literal: Literal | tuple[int, ...] | None = None
    window: Window | None = None

    @property
    def is_tensor(self) -> bool:
        return isinstance(self.type, TensorType)

    @property
    def is_constant(self) -> bool:
        return self.literal is not None

    @property
    def tensor(self) -> TensorType:
        """The type, for a value known to be a tensor."""
        assert isinstance(self.type, TensorType), f"fid {self.fid} is not a tensor"
        return self.type

    @property
    def dtype(self) -> DType:
        return self.type.dtype

    @property
    def memory(self) -> int:
        """The tensor in whose memory the value lies: itself, unless it is a part of another one."""
        return self.fid if self.window is None else self.window.tensor

    def substituted(self, sizes: Mapping[str, Formula]) -> Value:
        """This value with each symbol in its shape replaced by what ``sizes`` has for it."""
        if not isinstance(self.type, TensorType):
            return self
        shape = tuple(substitute(extent, sizes) for extent in self.type.shape)
        return self if shape == self.type.shape else replace(self, type=replace(self.type, shape=shape))


@dataclass(frozen=True, slots=True, kw_only=True)
class Expr:
    """One op applied to values. ``attributes`` are sorted by name and never hold fids."""

    op: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    attributes: tuple[tuple[str, Attribute], ...] = ()
    location: SourceLocation = NOWHERE

    def attribute(self, name: str) -> Attribute:
        """The attribute ``name``; raises ``KeyError`` where the op has none."""
        return dict(self.attributes)[name]

    def renumbered(self, numbers: Mapping[int, int]) -> Expr:
        """This expr with other fids: ``numbers`` has the new one of each."""
        inputs, outputs = (tuple(numbers[fid] for fid in fids) for fids in (self.inputs, self.outputs))
        return replace(self, inputs=inputs, outputs=outputs)

    def substituted(self, sizes: Mapping[str, Formula]) -> Expr:
        """This expr with each symbol in its attributes replaced by what ``sizes`` has for it."""
        return replace(self, attributes=tuple((name, in_sizes(each, sizes)) for name, each in self.attributes))

    @property
    def dims(self) -> tuple[int, ...]:
        """The ``dims`` attribute of reductions, squeeze and broadcast_in_dim."""
        dims: tuple[int, ...] = self.attribute("dims")
        return dims

    @property
    def combine(self) -> str:
        """The name of the lambda that a generalized reduction or scan combines with; empty for every other op."""
        return str(dict(self.attributes).get("combine", ""))

    @property
    def is_ordered(self) -> bool:
        """True for a generalized reduction that combines strictly in index order, and for every scan."""
        return bool(dict(self.attributes).get("ordered", False))


def in_sizes(attribute: Attribute, sizes: Mapping[str, Formula]) -> Attribute:
    """``attribute`` with each symbol in it replaced by what ``sizes`` has for it. Extents and shapes, which are tuples
    of extents, hold symbols; no other attribute and no operator of a formula is called like one."""
    if isinstance(attribute, str):
        return sizes.get(attribute, attribute)
    if not isinstance(attribute, tuple):
        return attribute
    return tuple(substitute(each, sizes) if isinstance(each, str | tuple) else each for each in attribute)


def attributes(**named: Attribute) -> tuple[tuple[str, Attribute], ...]:
    """Attributes in canonical order."""
    return tuple(sorted(named.items()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """A result that the user gets: its fid, the name the user gave it, and the input it overwrites, if any.

    ``shape`` is that in which the user gets it, where it is not that of the value: both have the same elements in
    row-major order, and so the same memory."""

    fid: int
    name: str
    alias: int | None = None
    shape: tuple[Formula, ...] | None = None
    location: SourceLocation = NOWHERE

    def renumbered(self, numbers: Mapping[int, int]) -> Output:
        """This output with other fids: ``numbers`` has the new one of each."""
        return replace(self, fid=numbers[self.fid], alias=None if self.alias is None else numbers[self.alias])


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtentFact:
    """What a recipe promises about a symbol; checked at run time."""

    symbol: str
    multiple_of: int = 1
    min: int = 0
    max: int | None = None
    values: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtentBinding:
    """A negative fid: dim ``dim`` of tensor input ``input``, whose size is ``extent``."""

    fid: int
    input: int
    dim: int
    extent: Formula


@dataclass(frozen=True, slots=True, kw_only=True)
class Composite:
    """One call of a sub-body that the author wrote once and named. It computes nothing: its exprs are the Fusion's own,
    and :meth:`Fusion.composite_task` finds them, since results keep their fids while passes rewrite exprs.

    ``inputs`` are the fids that the call was given, ``outputs`` those of its results that are computed inside and not
    thrown away, ``location`` is where the call stands, and ``parent`` the index, among the Fusion's composites, of the
    call whose body it stands in.
    """

    name: str
    location: SourceLocation
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    parent: int | None = None
