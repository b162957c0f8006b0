"""What ``fusebuild inspect --json`` prints."""

from __future__ import annotations

from typing import Annotated, NotRequired, TypedDict

from msgspec import Meta

from fusebuild.artifact.json_types import Bytes, Fid, FormulaText, Sizes
from fusebuild.artifact.kernel_resources import Resources


class InspectedVariant(TypedDict):
    """A way to run a segment: the first whose guards hold is taken. ``tuned`` has the knobs that were measured."""

    name: str
    guard: list[FormulaText]
    kernels: list[str]
    tuned: NotRequired[dict[str, bool | int]]


class EasedWay(TypedDict):
    """A way to run a segment whose kernel spilled registers: others of its ``knobs`` were taken, or none where it was
    left out."""

    way: str
    bucket: Annotated[dict[str, int], Meta(description="base-2 logarithms of the sizes that it holds for")]
    knobs: dict[str, bool | int]
    spilled: Annotated[int, Meta(description="bytes that the first choice stored and loaded")]


class MatrixProduct(TypedDict):
    """A call of a library."""

    op: str
    dtype: str
    a: Fid
    b: Fid
    bias: Fid | None
    out: Fid
    transpose_b: bool
    m: FormulaText
    n: FormulaText
    k: FormulaText
    batch: list[FormulaText]


class SegmentResources(TypedDict, total=False):
    """Of a segment in a compiled artifact."""

    resources: Annotated[dict[str, Resources], Meta(description="by kernel, in a compiled artifact")]


class SegmentCall(TypedDict, total=False):
    """Of a segment that is a call of a library."""

    call: MatrixProduct


class SegmentEased(TypedDict, total=False):
    """Of a segment in a compiled artifact where registers ran out."""

    eased: list[EasedWay]


class InspectedSegment(SegmentResources, SegmentCall, SegmentEased):
    """What runs as one: ``fid_map`` leads from its own fids to the fusion's, ``why`` says what cut it off."""

    id: int
    scheduler: str
    fid_map: dict[str, Fid]
    inputs: list[Fid]
    outputs: list[Fid]
    rematerialized: Annotated[list[Fid], Meta(description="computed again, instead of stored by another segment")]
    kernels: list[str]
    variants: list[InspectedVariant]
    hbm_bytes: Bytes
    hbm_bytes_formula: FormulaText
    why: list[str]


class InspectedComposite(TypedDict):
    """A call of a composite: ``parent`` is the index of the call that it stands in, ``segments`` where it ended up."""

    name: str
    location: str
    parent: int | None
    inputs: list[Fid]
    outputs: list[Fid]
    segments: list[int] | None


class Boundary(TypedDict):
    """A tensor that one segment writes and another reads."""

    fid: Fid
    name: str
    dtype: str
    shape: list[FormulaText]
    bytes: Bytes
    bytes_formula: FormulaText


class Composites(TypedDict, total=False):
    """Of a recipe that has any."""

    composites: list[InspectedComposite]


class InspectReport(Composites):
    """``fusebuild inspect --json``: one target; a list of these for several targets"""

    fusion: str
    target: str
    case: Sizes | None
    segments: list[InspectedSegment]
    boundaries: list[Boundary]
    hbm_bytes: Bytes
    hbm_bytes_formula: FormulaText
