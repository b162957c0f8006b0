"""The serialized plan: everything the executor needs to run an artifact, as data.

A plan speaks in original fids. What a caller sees (values, extents, inputs, outputs) is shared by all targets; what
runs (segments, variants, kernels, buffers) is kept per target, because shared-memory limits and bandwidths differ and
later segmentations may too. Formulas are the prefix lists of :mod:`fusebuild.ir.formula`.

The JSON is canonical: keys in a fixed order, no insignificant choices, so equal plans are equal bytes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Generic, Literal, TypeAlias, overload

import msgspec

from fusebuild.ir.fid import Fid, OriginalFid, OtherFid, SegmentFid
from fusebuild.ir.formula import Formula

FORMAT_VERSION = 1
"""Raised whenever an older runtime could misread a newer artifact."""


class Versioned(msgspec.Struct):
    """The one field that every format has; one of another number may have other fields."""

    format: int


MOST_TABLE_BYTES = 32760
"""What the table of a launch that is many may take: whole words of the 32,764 bytes that CUDA gives a kernel's
parameters from sm_70 on."""


def table_bytes(members: int, args: int) -> int:
    """What the table of so many launches with ``args`` arguments each takes: where the blocks of each begin, and those,
    a word each."""
    return 8 * members * (args + 1)


FormulaJson: TypeAlias = Any
"""A formula as msgspec sees it: int, str, or a (nested) list or tuple; :func:`as_formula` restores the tuples."""


class PlanValue(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An input, output or intermediate that lives in memory or is passed by value.

    ``shape`` and ``strides`` hold one formula per dim; a stride of None is read from the caller's tensor at run time,
    0 is a broadcast dim. ``cpu`` marks a zero-dim tensor in host memory whose element is passed by value.
    """

    fid: OriginalFid
    name: str
    kind: Literal["tensor", "scalar"]
    dtype: str
    shape: tuple[FormulaJson, ...] = ()
    strides: tuple[FormulaJson, ...] = ()
    cpu: bool = False


class PlanExtent(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A negative fid: the size of dim ``dim`` of input ``input``, equal to ``extent``."""

    fid: int
    input: OriginalFid
    dim: int
    extent: FormulaJson


class PlanSolution(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where ``symbol``, which no dim of an input is alone, has its size from: dim ``dim`` of input ``input``. It is the
    number for which ``factor * symbol + offset`` is ``divisor`` times the size of that dim. Factor and offset are of
    symbols that a dim is alone, and of those that solutions before this one tell."""

    symbol: str
    input: OriginalFid
    dim: int
    divisor: int = 1
    factor: FormulaJson = 1
    offset: FormulaJson = 0


class PlanFact(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the recipe promises about a symbol; the executor refuses sizes that break it. ``values`` only hints."""

    symbol: str
    multiple_of: int = 1
    min: int = 0
    max: int | None = None


class PlanChoice(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``op`` says which element it is along dim ``dim``, of ``size`` elements, of the value named ``operand``. The
    executor refuses a call where there is none."""

    op: str
    operand: str
    dim: int
    size: FormulaJson


class PlanOutput(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A result in the order the caller gets them. ``alias`` is the input whose memory it overwrites."""

    fid: OriginalFid
    name: str
    alias: OriginalFid | None = None


class TensorArg(msgspec.Struct, Generic[Fid], frozen=True, tag="tensor", array_like=True):
    """The address of tensor ``fid`` (8 bytes)."""

    fid: Fid


class ExtentArg(msgspec.Struct, frozen=True, tag="extent", array_like=True):
    """The size named by negative fid ``fid`` (int64)."""

    fid: int


class FormulaArg(msgspec.Struct, frozen=True, tag="formula", array_like=True):
    """A number computed from extents (int64)."""

    formula: FormulaJson


class StrideArg(msgspec.Struct, Generic[Fid], frozen=True, tag="stride", array_like=True):
    """The run-time stride of dim ``dim`` of tensor ``fid``, in elements (int64)."""

    fid: Fid
    dim: int


class ScalarArg(msgspec.Struct, Generic[Fid], frozen=True, tag="scalar", array_like=True):
    """The scalar (or zero-dim CPU tensor) ``fid``, passed by value as its own dtype."""

    fid: Fid


class WorkspaceArg(msgspec.Struct, frozen=True, tag="workspace", array_like=True):
    """The address of workspace slot ``slot`` (8 bytes)."""

    slot: int


Arg: TypeAlias = TensorArg[Fid] | ExtentArg | FormulaArg | StrideArg[Fid] | ScalarArg[Fid] | WorkspaceArg
"""What a kernel is given: said in a segment's fids by a family of kernels, in original ones by a plan."""


class Launch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One kernel launch. ``kernel`` is both the entry symbol and the stem of the object's file name.

    ``grid`` holds three formulas; a grid with a zero in it launches nothing. ``shared_bytes`` is dynamic shared memory.
    One that ``overlaps`` may begin before what is before it on the stream has ended: every thread of its kernel waits
    for that by itself.
    So many neighbours along y as ``cluster`` says run together and reach into each other's shared memory: 1 to 8, of
    which the grid has whole ones. A kernel that was compiled for clusters has them along x instead, and says none.
    Launches of one kernel in segments of one ``group`` are one launch where they have ``members``: the kernel takes a
    table, for so many of them, of where the blocks of each begin and of its ``args``. Their grids are rows of blocks.
    """

    kernel: str
    grid: tuple[FormulaJson, FormulaJson, FormulaJson]
    block: tuple[int, int, int]
    shared_bytes: FormulaJson = 0
    args: tuple[Arg[OriginalFid], ...] = ()
    overlaps: bool | msgspec.UnsetType = msgspec.UNSET
    cluster: FormulaJson | msgspec.UnsetType = msgspec.UNSET
    members: int | msgspec.UnsetType = msgspec.UNSET


class Variant(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One way to run a segment, valid when every formula of ``guard`` is non-zero. The last one has no guard. ``tuned``
    are the knobs that were measured, where the heuristics did not decide."""

    name: str
    guard: tuple[FormulaJson, ...]
    launches: tuple[Launch, ...]
    tuned: dict[str, bool | int] | msgspec.UnsetType = msgspec.UNSET


class BatchDim(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A dim that a batch of matrix products runs along: its size, and how many elements lie between two matrices of
    each operand (0 where all share one)."""

    extent: FormulaJson
    a_stride: FormulaJson
    b_stride: FormulaJson


class LibraryCall(msgspec.Struct, Generic[Fid], frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A matrix product that a library computes: ``out[m, n] = a[m, k] b[k, n] + bias[n] + beta residual[m, n]`` for
    every point of ``batch``.

    ``a`` lies in memory as ``[k, m]`` where ``transpose_a``, ``b`` as ``[n, k]`` where ``transpose_b``. Rows begin
    ``lda`` and ``ldb`` elements apart, and without gaps where a plan does not say so. ``out`` and ``residual`` have no
    gaps. All operands have ``dtype``; products are summed in float, or in double for double, and rounded once, at the
    end.
    """

    op: Literal["matmul", "linear"]
    dtype: str
    a: Fid
    b: Fid
    bias: Fid | None = None
    out: Fid
    transpose_b: bool = False
    m: FormulaJson
    n: FormulaJson
    k: FormulaJson
    batch: tuple[BatchDim, ...] = ()
    transpose_a: bool | msgspec.UnsetType = msgspec.UNSET
    lda: FormulaJson | msgspec.UnsetType = msgspec.UNSET
    ldb: FormulaJson | msgspec.UnsetType = msgspec.UNSET
    residual: Fid | msgspec.UnsetType = msgspec.UNSET
    beta: float | msgspec.UnsetType = msgspec.UNSET


class PlanSegment(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One segment, in run order. ``fid_map`` maps segment fids to original fids.

    ``frees`` names the intermediates that no later segment reads; ``views`` maps an output that no kernel writes to the
    value whose memory it shares: one that an alias segment reads, or one that the segment writes, which the caller gets
    in another shape. ``why`` says in words why the cut before this segment exists. A segment that a library
    computes has a ``call`` and no variants. None of those of one ``group``, which are neighbours, waits for another.
    """

    id: int
    scheduler: str
    fid_map: dict[SegmentFid, OriginalFid]
    inputs: tuple[OriginalFid, ...]
    outputs: tuple[OriginalFid, ...]
    frees: tuple[OriginalFid, ...] = ()
    rematerialized: tuple[OriginalFid, ...] = ()
    views: dict[OriginalFid, OriginalFid] = {}
    hbm_bytes: FormulaJson = 0
    variants: tuple[Variant, ...] = ()
    why: tuple[str, ...] = ()
    call: LibraryCall[OriginalFid] | msgspec.UnsetType = msgspec.UNSET
    group: int | msgspec.UnsetType = msgspec.UNSET

    @property
    def made(self) -> tuple[OriginalFid, ...]:
        """The outputs, each once: in the shape in which it is computed, where the caller gets it in another one."""
        return tuple(fid for fid in self.outputs if self.views.get(fid) not in self.outputs)


class Slot(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A piece of the workspace: an intermediate (``fid``) or a kernel's scratch (``fid`` None), live from segment
    ``first`` to segment ``last`` inclusive. ``bytes`` is a formula."""

    id: int
    fid: OriginalFid | None
    bytes: FormulaJson
    first: int
    last: int


class EasedChoice(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What was taken for one ``way`` to run ``segment``, and those that are equal to it, since the kernel that was to
    be had spilled so many bytes of registers: other ``knobs``, or none where the way was left out.

    ``bucket`` are the sizes that it holds for, as a tuned choice has them. Nothing is run by it: it lets the same plan
    be made again without a compiler.
    """

    segment: int
    bucket: dict[str, int]
    way: str
    knobs: dict[str, bool | int]
    spilled: int


class TargetPlan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What runs on one target: segments in run order, the workspace they need, and choices that were ``eased``."""

    target: str
    segments: tuple[PlanSegment, ...]
    workspace: tuple[Slot, ...] = ()
    eased: tuple[EasedChoice, ...] | msgspec.UnsetType = msgspec.UNSET

    @property
    def together(self) -> tuple[range, ...]:
        """For each segment the positions of those that run at its time: of its group, or itself."""
        first = [place if each.group is msgspec.UNSET else each.group for place, each in enumerate(self.segments)]
        sizes = Counter(first)
        return tuple(range(group, group + sizes[group]) for group in first)


class Plan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A whole plan. ``digest`` names the fusion after passes; ``values`` holds everything segments name. ``choices``
    are those of the fusion as its author wrote it. ``relations`` are comparisons that the recipe promises; the executor
    refuses sizes that break one. ``solutions`` tell the symbols that no dim of an input is alone, in the order in which
    they are found."""

    format: int
    fusion: str
    digest: str
    values: tuple[PlanValue, ...]
    extents: tuple[PlanExtent, ...]
    facts: tuple[PlanFact, ...]
    inputs: tuple[OriginalFid, ...]
    outputs: tuple[PlanOutput, ...]
    targets: tuple[TargetPlan, ...]
    choices: tuple[PlanChoice, ...] | msgspec.UnsetType = msgspec.UNSET
    relations: tuple[FormulaJson, ...] | msgspec.UnsetType = msgspec.UNSET
    solutions: tuple[PlanSolution, ...] | msgspec.UnsetType = msgspec.UNSET

    def target(self, name: str) -> TargetPlan | None:
        """The plan for target ``name``, or None."""
        return next((target for target in self.targets if target.target == name), None)

    def value(self, fid: int) -> PlanValue:
        """The value ``fid``; raises ``KeyError`` when the plan has none."""
        for value in self.values:
            if value.fid == fid:
                return value
        raise KeyError(fid)

    @property
    def overwritten(self) -> tuple[int | None, ...]:
        """For every output the position of the input that it overwrites, None for one with memory of its own."""
        return tuple(None if output.alias is None else self.inputs.index(output.alias) for output in self.outputs)


@overload
def renumber(said: Arg[Fid], fids: Mapping[Fid, OtherFid]) -> Arg[OtherFid]: ...
@overload
def renumber(said: LibraryCall[Fid], fids: Mapping[Fid, OtherFid]) -> LibraryCall[OtherFid]: ...
@overload
def renumber(said: Formula, fids: Mapping[Fid, OtherFid]) -> Formula: ...
def renumber(said: Any, fids: Mapping[Any, Any]) -> Any:
    """``said`` of the same values by other fids, which ``fids`` gives. A formula names a value in ``aligned`` alone."""
    match said:
        case TensorArg(fid=fid):
            return TensorArg(fid=fids[fid])
        case StrideArg(fid=fid, dim=dim):
            return StrideArg(fid=fids[fid], dim=dim)
        case ScalarArg(fid=fid):
            return ScalarArg(fid=fids[fid])
        case LibraryCall():
            named = {name: fids[fid] for name, fid in operands_of(said).items()}
            return msgspec.structs.replace(said, **named)
        case ("aligned", fid, size):
            return ("aligned", fids[fid], size)
    return said


def operands_of(call: LibraryCall[Fid]) -> dict[str, Fid]:
    """By the names of the fields of ``call`` the values that it reads and, last, the one that it writes."""
    added = {"bias": call.bias, "residual": None if call.residual is msgspec.UNSET else call.residual}
    return {"a": call.a, "b": call.b} | {k: fid for k, fid in added.items() if fid is not None} | {"out": call.out}


def as_formula(json: FormulaJson) -> Formula:
    """A formula read from JSON, lists turned to tuples."""
    return (json[0], *(as_formula(item) for item in json[1:])) if isinstance(json, list | tuple) else json


def encode(plan: Plan) -> bytes:
    """Canonical JSON, indented by two spaces, with a final newline."""
    return msgspec.json.format(msgspec.json.encode(_with_segments(plan, _in_fid_order)), indent=2) + b"\n"


def without_reasons(plan: Plan) -> Plan:
    """``plan`` without the words that say why it was cut so: they name lines of a file."""
    return _with_segments(plan, lambda segment: msgspec.structs.replace(segment, why=()))


def _with_segments(plan: Plan, change: Callable[[PlanSegment], PlanSegment]) -> Plan:
    """``plan`` with what ``change`` makes of each segment."""
    targets = tuple(
        msgspec.structs.replace(target, segments=tuple(map(change, target.segments))) for target in plan.targets
    )
    return msgspec.structs.replace(plan, targets=targets)


def _in_fid_order(segment: PlanSegment) -> PlanSegment:
    """msgspec writes fields as declared but leaves dicts with int keys as they are; their order must not matter."""
    fid_map, views = dict(sorted(segment.fid_map.items())), dict(sorted(segment.views.items()))
    return msgspec.structs.replace(segment, fid_map=fid_map, views=views)


def decode(data: bytes) -> Plan:
    """The plan in ``data``; raises ``msgspec.ValidationError`` or ``msgspec.DecodeError`` for anything else."""
    return msgspec.json.decode(data, type=Plan)
