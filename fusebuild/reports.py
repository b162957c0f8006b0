"""What ``--json`` prints, as types: mypy holds the verbs to them, and ``fusebuild schema VERB`` publishes them.

Fields are added over time; none goes, and none changes its meaning, within one major version.
"""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired, TypedDict

from msgspec import Meta

Formula = Annotated[str, Meta(description="arithmetic on sizes, such as 4*M*N")]
Bytes = Annotated[int | None, Meta(description="bytes at the sizes of the case; null where it does not give them all")]
Fid = Annotated[int, Meta(description="a value's number in the plan")]
Sizes = Annotated[dict[str, int], Meta(description="a size for each symbol")]
Milliseconds = Annotated[float, Meta(description="milliseconds on the device, the median")]


class ReportedDiagnostic(TypedDict):
    """Something that is wrong, and where; null for what no place in a file is known of."""

    file: str | None
    line: Annotated[int | None, Meta(description="from 1")]
    column: Annotated[int | None, Meta(description="from 1, in characters")]
    end_column: Annotated[int | None, Meta(description="the column behind the last one, on the same line")]
    message: str
    hint: Annotated[str, Meta(description="what to do; empty where that is not known")]
    severity: Literal["error"]


class FailureReport(TypedDict):
    """What any verb prints with ``--json`` when it ends with an error, instead of its own report."""

    error: Annotated[str, Meta(description="the class of the error, such as RecipeError")]
    exit_code: int
    diagnostics: list[ReportedDiagnostic]


class CompiledArtifact(TypedDict):
    """An artifact; ``written`` says that its bytes are others than before."""

    fusion: str
    recipe: str
    path: str
    written: bool


class Spill(TypedDict):
    """A kernel whose registers did not suffice: in a recipe that allows it, or where no choice was without."""

    target: str
    kernel: str
    bytes: Annotated[int, Meta(description="stored and loaded")]


class CompileReport(TypedDict):
    """``fusebuild compile --json``"""

    artifacts: list[CompiledArtifact]
    compiled: Annotated[int, Meta(description="objects that a compiler made")]
    total: Annotated[int, Meta(description="objects that the artifacts have in all, equal ones counted once")]
    seconds: float
    spills: list[Spill]
    diagnostics: Annotated[list[ReportedDiagnostic], Meta(description="of recipes that --keep-going passed over")]


class CheckedRecipe(TypedDict):
    """``fusebuild check --json`` and ``fusebuild compile --frozen --json``: one recipe"""

    recipe: str
    artifact: str
    fresh: bool
    why: Annotated[list[str], Meta(description="what differs; empty when it is fresh")]
    machine_code: Annotated[
        Literal["as recorded", "as rebuilt", "not compared"],
        Meta(description="what it was compared with: the digests recorded beside the build, or code compiled now"),
    ]
    orphaned: Annotated[bool, Meta(description="an artifact in the folder that no recipe is for; recipe is empty")]


class CacheFolder(TypedDict):
    """A part of the cache."""

    name: str
    files: int
    bytes: int


class CacheReport(TypedDict):
    """``fusebuild cache --json``"""

    folder: str
    limit: Annotated[int, Meta(description="bytes of compiled objects that a build leaves at most")]
    folders: list[CacheFolder]
    removed: Annotated[CacheFolder | None, Meta(description="objects that were pruned; null without --prune")]


class Resources(TypedDict):
    """What a kernel takes of a chip: registers of a thread; all others in bytes."""

    registers: int
    shared: Annotated[int, Meta(description="static shared memory of a block")]
    stack: Annotated[int, Meta(description="of a thread")]
    spill_stores: Annotated[int, Meta(description="of a thread")]
    spill_loads: Annotated[int, Meta(description="of a thread")]


class InspectedVariant(TypedDict):
    """A way to run a segment: the first whose guards hold is taken. ``tuned`` has the knobs that were measured."""

    name: str
    guard: list[Formula]
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
    m: Formula
    n: Formula
    k: Formula
    batch: list[Formula]


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
    hbm_bytes_formula: Formula
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
    shape: list[Formula]
    bytes: Bytes
    bytes_formula: Formula


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
    hbm_bytes_formula: Formula


class DifferingLaunch(TypedDict):
    """The ``launch``-th kernel of a variant where it differs: the old and the new, null where there is none."""

    segment: int
    variant: str
    launch: int
    kernel: tuple[str | None, str | None]
    resources: tuple[Resources | None, Resources | None]


class DifferingTarget(TypedDict):
    """One target, old and new; null for an artifact without code for it."""

    segments: tuple[int | None, int | None]
    hbm_bytes: tuple[Bytes, Bytes]
    hbm_bytes_formula: tuple[Formula | None, Formula | None]
    plan: Annotated[bool, Meta(description="which kernels are launched, or on what, differs")]
    kernels: list[DifferingLaunch]


class DiffReport(TypedDict):
    """``fusebuild diff --json``: pairs are old and new"""

    old: str
    new: str
    fusion: tuple[str, str]
    same: Annotated[bool, Meta(description="both run the same code in the same way")]
    sources: Annotated[list[str], Meta(description="what they were made from that differs")]
    toolchain: Annotated[dict[str, tuple[str | None, str | None]], Meta(description="versions that differ, by tool")]
    case: Annotated[dict[str, int], Meta(description="the sizes that bytes are counted for")]
    targets: dict[str, DifferingTarget]


class ImportedRecipe(TypedDict):
    """``fusebuild import --json``: one definition; ``path`` is null where nothing was written"""

    fusion: str
    line: Annotated[int, Meta(description="of the script")]
    path: str | None
    recipe: Annotated[str, Meta(description="the recipe's text")]


class VerifiedCase(TypedDict):
    """``fusebuild verify --json``: one way of one case, or a case that was skipped; ``error`` is null where it is no
    number"""

    fusion: str
    target: str
    case: Sizes
    variant: Annotated[int | None, Meta(description="the one that was forced; null where guards chose")]
    layout: Annotated[str, Meta(description="how the inputs lay in memory")]
    error: Annotated[float | None, Meta(description="the largest against fp64")]
    bound: float
    ok: Annotated[bool, Meta(description="nothing was found to be wrong; so of a skipped case, too: see state")]
    problem: str
    state: Annotated[
        Literal["passed", "failed", "skipped"], Meta(description="skipped: larger than --max-elements, nothing ran")
    ]


class TunedKernel(TypedDict):
    """A kernel beside its neighbours, which differ in one knob."""

    fusion: str
    segment: int
    variant: str
    case: Sizes
    heuristic_milliseconds: Milliseconds
    milliseconds: Milliseconds
    tried: Annotated[int, Meta(description="neighbours that were raced")]
    refused: Annotated[list[str], Meta(description="why others were not")]
    changed: Annotated[dict[str, bool | int], Meta(description="knobs that differ from the heuristics'")]
    win: Annotated[float, Meta(description="the share of the heuristics' time that is saved")]


class TuneReport(TypedDict):
    """``fusebuild tune --json``"""

    target: str
    device: str
    driver: str
    kernels: list[TunedKernel]
    written: list[str]
    skipped: list[str]


class DoctorFinding(TypedDict):
    """``fusebuild doctor --json``: one part of the toolchain or the runtime"""

    name: str
    status: Literal["ok", "warn", "error"]
    found: str
    advice: Annotated[str, Meta(description="empty when there is nothing to do")]
