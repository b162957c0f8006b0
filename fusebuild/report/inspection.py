"""What ``fusebuild inspect`` shows of a recipe, planned now, or of an artifact as it is: its segments, why each cut
exists, what crosses it, and how many bytes that is.

Needs no GPU, no tensors and no torch: sizes are those of the recipe's first case or of a given one, and formulas.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from fusebuild.artifact.file import Artifact, is_artifact, open_artifact
from fusebuild.artifact.json_types import Bytes, Fid, FormulaText, Sizes
from fusebuild.artifact.kernel_resources import KernelResources, resources_text
from fusebuild.artifact.plan import LibraryCall, Plan, PlanSegment, PlanValue, TargetPlan, Variant, as_formula
from fusebuild.build.toolchain import Toolchain, find_toolchain
from fusebuild.errors import ToolchainError, UsageError, counted, one_line
from fusebuild.ir.dtype import DType
from fusebuild.ir.fid import OriginalFid
from fusebuild.ir.formula import Formula, known_value, product, show
from fusebuild.ir.fusion import Fusion
from fusebuild.pipeline import plan_recipe, tuned_beside
from fusebuild.planning.expectation import excess, hbm_bytes
from fusebuild.recipe.expect import Expectation
from fusebuild.recipe.inside import recipe_in
from fusebuild.recipe.recipe import load_recipe
from fusebuild.recipe.sizes import require_fitting
from fusebuild.report.composites import InspectedComposite, composites_in, composites_of
from fusebuild.report.taken import TakenVariant, taken_variant
from fusebuild.segmentation import Search
from fusebuild.target.table import Target, find_target

logger = logging.getLogger(__name__)


class InspectedVariant(Struct, frozen=True, kw_only=True):
    """A way to run a segment: the first whose guards hold is taken. ``tuned`` has the knobs that were measured."""

    name: str
    guard: tuple[FormulaText, ...]
    kernels: tuple[str, ...]
    tuned: dict[str, bool | int] | UnsetType = UNSET


class EasedWay(Struct, frozen=True, kw_only=True):
    """A way to run a segment whose kernel spilled registers: others of its ``knobs`` were taken, or none where it was
    left out."""

    way: str
    bucket: Annotated[dict[str, int], Meta(description="base-2 logarithms of the sizes that it holds for")]
    knobs: dict[str, bool | int]
    spilled: Annotated[int, Meta(description="bytes that the first choice stored and loaded")]

    def as_text(self) -> str:
        """What was taken in the place of what spilled, in one line."""
        return f"{self.way} spilled {self.spilled} bytes of registers: {knobs_text(self.knobs) or 'left out'}"


class MatrixProduct(Struct, frozen=True, kw_only=True):
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
    batch: tuple[FormulaText, ...]
    transpose_a: bool | UnsetType = UNSET
    lda: Annotated[FormulaText | UnsetType, Meta(description="elements between rows of a, where they have gaps")] = (
        UNSET
    )
    ldb: Annotated[FormulaText | UnsetType, Meta(description="elements between rows of b, where they have gaps")] = (
        UNSET
    )
    residual: Fid | UnsetType = UNSET
    beta: Annotated[float | UnsetType, Meta(description="what the residual is multiplied by")] = UNSET

    def as_text(self) -> str:
        """The call in one line."""
        batch = f" for each of {'*'.join(self.batch)}" if self.batch else ""
        left = _matrix(self.a, self.m, self.k, self.transpose_a is True, self.lda)
        right = _matrix(self.b, self.k, self.n, self.transpose_b, self.ldb)
        return f"{self.op} in {self.dtype}: {left} {right}{self._epilogue()}{batch}"

    def _epilogue(self) -> str:
        """What is added to each element before it is rounded."""
        bias = "" if self.bias is None else f" + %{self.bias}"
        factor = "" if self.beta is UNSET or self.beta == 1 else f"{self.beta:g} "
        residual = "" if self.residual is UNSET else f" + {factor}%{self.residual}"
        return f"{bias}{residual}"


def _matrix(fid: Fid, rows: str, columns: str, is_transposed: bool, leading: str | UnsetType) -> str:
    """``%3[M, K] transposed, rows 4*K apart``."""
    transposed = " transposed" if is_transposed else ""
    return f"%{fid}[{rows}, {columns}]{transposed}" + ("" if leading is UNSET else f" with rows {leading} apart")


class InspectedSegment(Struct, frozen=True, kw_only=True):
    """What runs as one: ``fid_map`` leads from its own fids to the fusion's, ``why`` says what cut it off."""

    id: int
    scheduler: str
    fid_map: dict[str, Fid]
    inputs: tuple[Fid, ...]
    outputs: tuple[Fid, ...]
    rematerialized: Annotated[tuple[Fid, ...], Meta(description="computed again, instead of stored by another segment")]
    kernels: tuple[str, ...]
    resources: Annotated[
        dict[str, KernelResources] | UnsetType, Meta(description="by kernel, in a compiled artifact")
    ] = UNSET
    variants: tuple[InspectedVariant, ...]
    takes: Annotated[
        TakenVariant | UnsetType, Meta(description="at the sizes of the case, where tensors are aligned")
    ] = UNSET
    hbm_bytes: Bytes
    hbm_bytes_formula: FormulaText
    why: tuple[str, ...]
    call: MatrixProduct | UnsetType = UNSET
    eased: Annotated[
        tuple[EasedWay, ...] | UnsetType, Meta(description="in a compiled artifact where registers ran out")
    ] = UNSET
    beside: Annotated[
        tuple[int, int] | UnsetType,
        Meta(description="the first and the last of the segments whose launches of one kernel are one, this one too"),
    ] = UNSET


class InspectedBoundary(Struct, frozen=True, kw_only=True):
    """A tensor that one segment writes and another reads."""

    fid: Fid
    name: str
    dtype: str
    shape: tuple[FormulaText, ...]
    bytes: Bytes
    bytes_formula: FormulaText


class InspectedExpectation(Struct, frozen=True, kw_only=True):
    """What the recipe expects of the plan. ``excess`` says what the plan has more of at the sizes of the case."""

    segments: int | None
    bytes: Bytes
    bytes_formula: FormulaText | None
    excess: tuple[str, ...]

    def as_lines(self) -> list[str]:
        """What is expected, and a line for each thing that the plan has more of."""
        parts = [] if self.segments is None else [counted(self.segments, "segment")]
        parts += [] if self.bytes_formula is None else [bytes_text(self.bytes, self.bytes_formula)]
        return [f"at most {', '.join(parts)}{'' if self.excess else ': kept'}", *self.excess]


class InspectReport(Struct, frozen=True, kw_only=True):
    """``fusebuild inspect --json``: one target; a list of these for several targets"""

    fusion: str
    target: str
    case: Sizes | None
    segments: tuple[InspectedSegment, ...]
    composites: Annotated[tuple[InspectedComposite, ...] | UnsetType, Meta(description="where the recipe has any")] = (
        UNSET
    )
    boundaries: tuple[InspectedBoundary, ...]
    kernels: Annotated[int, Meta(ge=0, description="how many there are for the target, each once")]
    hbm_bytes: Bytes
    hbm_bytes_formula: FormulaText
    expected: Annotated[InspectedExpectation | UnsetType, Meta(description="where the recipe says so")] = UNSET


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """One target of a plan, seen with the sizes of one case (None where the recipe gives none).

    ``resources`` has what compiled kernels take of the chip: those of an artifact, and none of a recipe.
    """

    plan: Plan
    target: str
    sizes: Mapping[str, int] | None
    composites: tuple[InspectedComposite, ...] = ()
    resources: Mapping[str, KernelResources] = field(default_factory=dict)
    expected: Expectation = field(default_factory=Expectation)

    @property
    def segments(self) -> Sequence[PlanSegment]:
        """The segments for the target, in run order."""
        return self._planned.segments

    @property
    def boundaries(self) -> tuple[PlanValue, ...]:
        """The intermediates in global memory: written by one segment and read by another."""
        written = {fid for segment in self.segments for fid in segment.outputs}
        read = {fid for segment in self.segments for fid in segment.inputs}
        return tuple(self.plan.value(fid) for fid in sorted(written & read))

    @property
    def report(self) -> InspectReport:
        """All that there is to see, for programs."""
        moved = hbm_bytes(self._planned)
        segments = tuple(map(self._segment, self.segments))
        return InspectReport(
            fusion=self.plan.fusion,
            target=self.target,
            case=None if self.sizes is None else dict(self.sizes),
            segments=segments,
            composites=self.composites or UNSET,
            boundaries=tuple(map(self._boundary, self.boundaries)),
            kernels=len({kernel for segment in segments for kernel in segment.kernels}),
            hbm_bytes=self.bytes_of(moved),
            hbm_bytes_formula=show(moved),
            expected=self._expected() or UNSET,
        )

    def as_text(self) -> str:
        """All that there is to see, for people."""
        report = self.report
        case = "no case" if self.sizes is None else ", ".join(f"{key}={size}" for key, size in self.sizes.items())
        lines = [f"{report.fusion} on {self.target} ({case or 'constant sizes'})"]
        for segment in report.segments:
            lines += _segment_lines(segment, self.plan)
        lines += _composite_lines(report.composites or ())
        is_one = len(report.segments) == 1
        none = "one segment computes everything" if is_one else "every segment reads only what the caller gives"
        lines.append("boundaries" if report.boundaries else f"no boundaries: {none}")
        for each in report.boundaries:
            tensor = f"%{each.fid} {each.name}: {each.dtype}[{', '.join(each.shape)}]"
            lines.append(f"  {tensor}  {bytes_text(each.bytes, each.bytes_formula)}")
        lines.append(f"kernels  {report.kernels}")
        lines.append(f"total  {bytes_text(report.hbm_bytes, report.hbm_bytes_formula)}")
        lines += _expected_lines(report.expected) if report.expected else []
        return "\n".join(map(one_line, lines)) + "\n"

    def bytes_of(self, formula: Formula) -> int | None:
        """``formula`` at the sizes of the case; None where it has a symbol that the case does not give."""
        return known_value(formula, self.sizes or {})

    @property
    def _planned(self) -> TargetPlan:
        target = self.plan.target(self.target)
        assert target is not None, f"the plan has no target {self.target}"
        return target

    def _segment(self, segment: PlanSegment) -> InspectedSegment:
        formula = as_formula(segment.hbm_bytes)
        launches = [launch for variant in segment.variants for launch in variant.launches]
        kernels = tuple(dict.fromkeys(launch.kernel for launch in launches))
        known = {kernel: self.resources[kernel] for kernel in kernels if kernel in self.resources}
        return InspectedSegment(
            id=segment.id,
            scheduler=segment.scheduler,
            fid_map={str(key): value for key, value in segment.fid_map.items()},
            inputs=segment.inputs,
            outputs=segment.made,
            rematerialized=segment.rematerialized,
            kernels=kernels,
            resources=known or UNSET,
            variants=tuple(map(_variant, segment.variants)),
            takes=self._takes(segment) or UNSET,
            hbm_bytes=self.bytes_of(formula),
            hbm_bytes_formula=show(formula),
            why=segment.why,
            call=_call(segment.call) if isinstance(segment.call, LibraryCall) else UNSET,
            eased=self._eased(segment.id) or UNSET,
            beside=self._beside(segment),
        )

    def _beside(self, segment: PlanSegment) -> tuple[int, int] | UnsetType:
        """The first and the last segment of the group of ``segment``."""
        if segment.group is UNSET:
            return UNSET
        together = self._planned.together[segment.id]
        return together[0], together[-1]

    def _expected(self) -> InspectedExpectation | None:
        segments, most = self.expected.segments, self.expected.bytes
        if segments is None and most is None:
            return None
        found = excess(self.expected, self._planned, [self.sizes or {}])
        return InspectedExpectation(
            segments=segments,
            bytes=None if most is None else self.bytes_of(most),
            bytes_formula=None if most is None else show(most),
            excess=tuple(f"the plan {each.message}" for each in found),
        )

    def _takes(self, segment: PlanSegment) -> TakenVariant | None:
        if self.sizes is None:
            return None
        return taken_variant(segment, self.sizes, find_target(self.target).multiprocessors)

    def _eased(self, segment: int) -> tuple[EasedWay, ...]:
        """The choices for ``segment`` that were taken because registers ran out."""
        return tuple(
            EasedWay(way=each.way, bucket=each.bucket, knobs=each.knobs, spilled=each.spilled)
            for each in self._planned.eased or ()
            if each.segment == segment
        )

    def _boundary(self, value: PlanValue) -> InspectedBoundary:
        formula = stored_bytes(value)
        return InspectedBoundary(
            fid=value.fid,
            name=value.name,
            dtype=value.dtype,
            shape=tuple(show(as_formula(extent)) for extent in value.shape),
            bytes=self.bytes_of(formula),
            bytes_formula=show(formula),
        )


def inspections_of(
    path: Path, targets: Sequence[Target] | None, search: Search | None, case: Mapping[str, int] | None = None
) -> tuple[list[Inspection], Fusion]:
    """What there is to see at ``path``, a target each (default: ``sm_90``, or those of the artifact), and the Fusion as
    the recipe says it. The sizes are those of ``case``, or of the recipe's first.

    Raises what reading and planning a recipe or opening an artifact raises, :class:`ArtifactError` for a target that
    the artifact does not hold, and :class:`UsageError` for a ``case`` that the recipe does not allow and for a
    ``search`` in an artifact, which is cut already.
    """
    if not is_artifact(path):
        return _of_recipe(path, targets or (find_target("sm_90"),), search or "heuristic", case)
    if search is not None:
        raise UsageError(f"{one_line(path)} is cut already; --segmentation is for recipes")
    return _of_artifact(open_artifact(path), targets, case)


def _of_artifact(
    artifact: Artifact, targets: Sequence[Target] | None, case: Mapping[str, int] | None
) -> tuple[list[Inspection], Fusion]:
    names = [target.name for target in targets] if targets else artifact.targets
    recipe = recipe_in(artifact)
    fusion = recipe.fusion
    sizes = _sizes(fusion, case)
    return [
        Inspection(
            plan=artifact.plan,
            target=name,
            sizes=sizes,
            composites=composites_in(artifact, fusion, name),
            resources=resources_in(artifact, name),
            expected=recipe.expected,
        )
        for name in names
    ], fusion


def _of_recipe(
    path: Path, targets: Sequence[Target], search: Search, case: Mapping[str, int] | None
) -> tuple[list[Inspection], Fusion]:
    recipe = load_recipe(path)
    sizes = _sizes(recipe.fusion, case)
    tuned = tuned_beside(recipe)
    toolchain = None if tuned is None else _toolchain(targets)  # tuned choices hold for one alone
    planned = plan_recipe(recipe, targets, search=search, tuned=tuned, toolchain=toolchain)
    return [
        Inspection(
            plan=planned.plan,
            target=target.name,
            sizes=sizes,
            composites=composites_of(planned.segmented[target.name]),
            expected=recipe.expected,
        )
        for target in targets
    ], recipe.fusion


def _toolchain(targets: Sequence[Target]) -> Toolchain | None:
    """What would compile for ``targets``; None, with a warning, where there is nothing that would."""
    try:
        return find_toolchain(targets)
    except ToolchainError as error:
        logger.warning("what was measured with another compiler is shown, too: %s", error)
        return None


def _sizes(fusion: Fusion, case: Mapping[str, int] | None) -> dict[str, int] | None:
    """The sizes of ``case``, which has to fit, or of the first case of ``fusion``; None where there is none."""
    if case is not None:
        require_fitting(fusion, case)
        return dict(case)
    return dict(fusion.cases[0]) if fusion.cases else None


def resources_in(artifact: Artifact, target: str) -> dict[str, KernelResources]:
    """What each kernel of ``artifact`` takes of ``target``'s chip, where it is known. Raises
    :class:`~fusebuild.errors.ArtifactError` when the artifact holds no code for ``target``."""
    segments = artifact.require_target(target).segments
    kernels = {launch.kernel for each in segments for variant in each.variants for launch in variant.launches}
    found = {kernel: artifact.resources(target, kernel) for kernel in sorted(kernels)}
    return {kernel: resources for kernel, resources in found.items() if resources is not None}


def stored_bytes(value: PlanValue) -> Formula:
    """Bytes of the distinct elements of ``value``: stride-0 dims count once."""
    pairs = zip(value.shape, value.strides, strict=True)
    return product([DType(value.dtype).bytes, *(1 if stride == 0 else as_formula(extent) for extent, stride in pairs)])


def _variant(variant: Variant) -> InspectedVariant:
    return InspectedVariant(
        name=variant.name,
        guard=tuple(show(as_formula(each)) for each in variant.guard),
        kernels=tuple(launch.kernel for launch in variant.launches),
        tuned=variant.tuned,
    )


def _call(call: LibraryCall[OriginalFid]) -> MatrixProduct:
    return MatrixProduct(
        op=call.op,
        dtype=call.dtype,
        a=call.a,
        b=call.b,
        bias=call.bias,
        out=call.out,
        transpose_b=call.transpose_b,
        m=show(as_formula(call.m)),
        n=show(as_formula(call.n)),
        k=show(as_formula(call.k)),
        batch=tuple(show(as_formula(dim.extent)) for dim in call.batch),
        transpose_a=call.transpose_a,
        lda=UNSET if call.lda is UNSET else show(as_formula(call.lda)),
        ldb=UNSET if call.ldb is UNSET else show(as_formula(call.ldb)),
        residual=call.residual,
        beta=call.beta,
    )


def calls_of(plan: TargetPlan) -> dict[int, str]:
    """By segment, each library call of ``plan`` in one line."""
    calls = {segment.id: segment.call for segment in plan.segments}
    return {number: _call(call).as_text() for number, call in calls.items() if isinstance(call, LibraryCall)}


def _segment_lines(segment: InspectedSegment, plan: Plan) -> list[str]:
    fid_map = ", ".join(f"{key}: {value}" for key, value in segment.fid_map.items())
    lines = [
        f"segment {segment.id}: {segment.scheduler}  {bytes_text(segment.hbm_bytes, segment.hbm_bytes_formula)}",
        f"  reads   {_names(segment.inputs, plan)}",
        f"  writes  {_names(segment.outputs, plan)}",
        *([f"  makes   {_names(segment.rematerialized, plan)} again"] if segment.rematerialized else []),
        f"  fid map {{{fid_map}}}",
    ]
    if segment.call:
        lines.append(f"  calls   {segment.call.as_text()}")
    if segment.beside:
        first, last = segment.beside
        lines.append(f"  beside  segments {first} to {last}: launches of one kernel are one")
    for why in segment.why:
        cut, _, reasons = why.partition(": ")
        lines += [f"  {cut}", *(f"    {reason}" for reason in reasons.split("; "))]
    lines += [f"  eased   {each.as_text()}" for each in segment.eased or ()]
    used = segment.resources or {}
    for variant in segment.variants:
        lines.append(f"  variant {variant.name}: {' and '.join(variant.guard) or 'always'}")
        if variant.tuned is not UNSET:
            lines.append(f"    tuned: {knobs_text(variant.tuned)}")
        lines += [f"    {kernel}: {resources_text(used[kernel])}" for kernel in variant.kernels if kernel in used]
    if segment.takes:
        lines.append(f"  takes   variant {segment.takes.number}, {segment.takes.name}")
        lines += [f"    {launch.as_text()}" for launch in segment.takes.launches]
    return lines


def _composite_lines(composites: Sequence[InspectedComposite]) -> list[str]:
    lines = ["composites"] if composites else []
    indents: list[str] = []
    for each in composites:
        indents.append("  " if each.parent is None else f"{indents[each.parent]}  ")
        where = "segments not known"
        if each.segments is not None:
            where = f"segment{'s' * (len(each.segments) != 1)} {', '.join(map(str, each.segments))}"
        lines.append(f"{indents[-1]}{each.name} ({each.location}): {where}")
    return lines


def _expected_lines(expected: InspectedExpectation) -> list[str]:
    first, *rest = expected.as_lines()
    return [f"expected  {first}", *(f"  {line}" for line in rest)]


def knobs_text(knobs: Mapping[str, int]) -> str:
    """``threads=128 unroll=2``."""
    return " ".join(
        f"{knob}={str(value).lower() if isinstance(value, bool) else value}" for knob, value in knobs.items()
    )


def _names(fids: Sequence[int], plan: Plan) -> str:
    return ", ".join(f"%{fid} {plan.value(fid).name}" for fid in fids) or "nothing"


def bytes_text(count: int | None, formula: str) -> str:
    """Every byte, and how it comes about: ``262,144 bytes = 4*M*N``."""
    if count is None:
        return f"{formula} bytes"
    return f"{count:,} bytes" if formula == str(count) else f"{count:,} bytes = {formula}"
