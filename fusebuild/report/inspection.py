"""What a plan says, for people and programs: segments, why each cut exists, what crosses it, and how many bytes.

Needs no GPU, no tensors, no compiler and no torch: sizes are those of the recipe's first case, and formulas.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from fusebuild import __version__
from fusebuild.artifact.kernel_resources import KernelResources, resources_text
from fusebuild.artifact.plan import LibraryCall, Plan, PlanSegment, PlanValue, Variant, as_formula
from fusebuild.errors import one_line
from fusebuild.ir.dtype import DType
from fusebuild.ir.fid import OriginalFid
from fusebuild.ir.formula import Formula, evaluate, product, show, symbols
from fusebuild.ir.fusion import Fusion
from fusebuild.ir.values import Composite
from fusebuild.target.table import find_target

if TYPE_CHECKING:
    from fusebuild.artifact.file import Artifact
    from fusebuild.report.inspection_report import (
        Boundary,
        Composites,
        EasedWay,
        InspectedComposite,
        InspectedSegment,
        InspectedVariant,
        InspectReport,
        MatrixProduct,
        SegmentCall,
        SegmentEased,
        SegmentResources,
    )
    from fusebuild.segmentation import SegmentedFusion


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedComposite:
    """A call of a composite and the segments that its exprs run in; None where a plan does not tell."""

    composite: Composite
    segments: tuple[int, ...] | None

    def as_json(self) -> InspectedComposite:
        """The same as JSON has it."""
        return {
            "name": self.composite.name,
            "location": self.composite.location.short,
            "parent": self.composite.parent,
            "inputs": list(self.composite.inputs),
            "outputs": list(self.composite.outputs),
            "segments": None if self.segments is None else list(self.segments),
        }


def composites_of(segmented: SegmentedFusion) -> tuple[PlacedComposite, ...]:
    """Every composite that passes left something of, each after the one it stands in."""
    if not segmented.fusion.composites:
        return ()
    holders: dict[int, list[int]] = {}
    for each in segmented.segments:
        for index in each.task.exprs:
            holders.setdefault(index, []).append(each.id)
    writers = {int(fid): each.id for each in segmented.segments for fid in each.outputs}
    return tuple(
        PlacedComposite(composite=composite, segments=_segments_of(segmented.fusion, composite, holders, writers))
        for composite in segmented.fusion.composites
    )


def _segments_of(
    fusion: Fusion, composite: Composite, holders: Mapping[int, Sequence[int]], writers: Mapping[int, int]
) -> tuple[int, ...]:
    """The segments that take part in computing the outputs of ``composite`` from its inputs.

    A segment may hold one of its exprs for another reader only: a shared size, or a view of a shared weight. So this
    goes from where the outputs are computed to where each operand comes from.
    """
    given = {*composite.inputs}
    indices = [index for fid in composite.outputs if (index := fusion.definition(fid)) is not None]
    waiting = [(index, holder) for index in indices for holder in holders[index]]
    seen: set[tuple[int, int]] = set()
    while waiting:
        if (place := waiting.pop()) in seen:
            continue
        seen.add(place)
        for fid in fusion.exprs[place[0]].inputs:
            index = fusion.definition(fid)
            if index is not None and fid not in given:
                waiting.append((index, place[1] if place[1] in holders[index] else writers[fid]))
    return tuple(sorted({holder for _, holder in seen}))


def composites_in(artifact: Artifact, fusion: Fusion, target: str) -> tuple[PlacedComposite, ...]:
    """The composites of ``fusion``, the recipe in ``artifact``, which itself holds none: its segments are found again.

    That needs the fusebuild that made it; what another one cut is not known.
    """
    if not fusion.composites:
        return ()
    from fusebuild.passes import run_passes  # an artifact is seen without what makes one, else
    from fusebuild.segmentation import segment

    fusion, sources = run_passes(fusion), artifact.manifest.sources
    plan = artifact.plan.target(target)
    if plan is not None and sources.get("fusebuild") == __version__:
        found = segment(fusion, find_target(target), "exact" if sources.get("segmentation") == "exact" else "heuristic")
        cuts = [{**each.fid_map} for each in found.segments]
        if cuts == [{**each.fid_map} for each in plan.segments]:
            return composites_of(found)
    return tuple(PlacedComposite(composite=composite, segments=None) for composite in fusion.composites)


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """One target of a plan, seen with the sizes of one case (None where the recipe gives none).

    ``resources`` has what compiled kernels take of the chip: those of an artifact, and none of a recipe.
    """

    plan: Plan
    target: str
    sizes: Mapping[str, int] | None
    composites: tuple[PlacedComposite, ...] = ()
    resources: Mapping[str, KernelResources] = field(default_factory=dict)

    def as_json(self) -> InspectReport:
        """The same as JSON has it; there are ``composites`` where the recipe has any."""
        composites: Composites = {"composites": [each.as_json() for each in self.composites]} if self.composites else {}
        return {
            "fusion": self.plan.fusion,
            "target": self.target,
            "case": None if self.sizes is None else dict(self.sizes),
            "segments": [self._segment(segment) for segment in self.segments],
            **composites,
            "boundaries": [self._boundary(value) for value in self.boundaries],
            "hbm_bytes": self.bytes_of(self._total),
            "hbm_bytes_formula": show(self._total),
        }

    @property
    def segments(self) -> Sequence[PlanSegment]:
        """The segments for the target, in run order."""
        target = self.plan.target(self.target)
        assert target is not None, f"the plan has no target {self.target}"
        return target.segments

    @property
    def _total(self) -> Formula:
        from fusebuild.ir.formula import total

        return total([as_formula(segment.hbm_bytes) for segment in self.segments])

    @property
    def boundaries(self) -> tuple[PlanValue, ...]:
        """The intermediates in global memory: written by one segment and read by another."""
        written = {fid for segment in self.segments for fid in segment.outputs}
        read = {fid for segment in self.segments for fid in segment.inputs}
        return tuple(self.plan.value(fid) for fid in sorted(written & read))

    def bytes_of(self, formula: Formula) -> int | None:
        """``formula`` at the sizes of the case; None where it has a symbol that the case does not give."""
        known = {} if self.sizes is None else self.sizes
        return evaluate(formula, known) if {*symbols(formula)} <= {*known} else None

    def _segment(self, segment: PlanSegment) -> InspectedSegment:
        formula = as_formula(segment.hbm_bytes)
        launches = [launch for variant in segment.variants for launch in variant.launches]
        kernels = list(dict.fromkeys(launch.kernel for launch in launches))
        known = {kernel: self.resources[kernel].as_json() for kernel in kernels if kernel in self.resources}
        resources: SegmentResources = {"resources": known} if known else {}
        eased: SegmentEased = {"eased": own} if (own := self._eased(segment.id)) else {}
        call: SegmentCall = {"call": _call(segment.call)} if isinstance(segment.call, LibraryCall) else {}
        return {
            "id": segment.id,
            "scheduler": segment.scheduler,
            "fid_map": {str(key): value for key, value in segment.fid_map.items()},
            "inputs": list(segment.inputs),
            "outputs": list(segment.outputs),
            "rematerialized": list(segment.rematerialized),
            "kernels": kernels,
            **resources,
            "variants": [_variant(variant) for variant in segment.variants],
            "hbm_bytes": self.bytes_of(formula),
            "hbm_bytes_formula": show(formula),
            "why": list(segment.why),
            **call,
            **eased,
        }

    def _eased(self, segment: int) -> list[EasedWay]:
        """The choices for ``segment`` that registers decided."""
        target = self.plan.target(self.target)
        if target is None or not isinstance(target.eased, tuple):
            return []
        return [
            {"way": each.way, "bucket": each.bucket, "knobs": each.knobs, "spilled": each.spilled}
            for each in target.eased
            if each.segment == segment
        ]

    def _boundary(self, value: PlanValue) -> Boundary:
        formula = stored_bytes(value)
        return {
            "fid": value.fid,
            "name": value.name,
            "dtype": value.dtype,
            "shape": [show(as_formula(extent)) for extent in value.shape],
            "bytes": self.bytes_of(formula),
            "bytes_formula": show(formula),
        }

    def as_text(self) -> str:
        """The same for people."""
        report = self.as_json()
        case = "no case" if self.sizes is None else ", ".join(f"{key}={size}" for key, size in self.sizes.items())
        lines = [f"{report['fusion']} on {self.target} ({case or 'constant sizes'})"]
        for segment in report["segments"]:
            lines += _segment_lines(segment, self.plan)
        lines += _composite_lines(report.get("composites", ()))
        is_one = len(report["segments"]) == 1
        none = "one segment computes everything" if is_one else "every segment reads only what the caller gives"
        lines.append("boundaries" if report["boundaries"] else f"no boundaries: {none}")
        for boundary in report["boundaries"]:
            shape = ", ".join(boundary["shape"])
            lines.append(
                f"  %{boundary['fid']} {boundary['name']}: {boundary['dtype']}[{shape}]  "
                f"{bytes_text(boundary['bytes'], boundary['bytes_formula'])}"
            )
        lines.append(f"total  {bytes_text(report['hbm_bytes'], report['hbm_bytes_formula'])}")
        return "\n".join(map(one_line, lines)) + "\n"


def _variant(variant: Variant) -> InspectedVariant:
    report: InspectedVariant = {
        "name": variant.name,
        "guard": [show(as_formula(each)) for each in variant.guard],
        "kernels": [launch.kernel for launch in variant.launches],
    }
    if variant.tuned is not msgspec.UNSET:
        report["tuned"] = variant.tuned
    return report


def stored_bytes(value: PlanValue) -> Formula:
    """Bytes of the distinct elements of ``value``: stride-0 dims count once."""
    pairs = zip(value.shape, value.strides, strict=True)
    return product([DType(value.dtype).bytes, *(1 if stride == 0 else as_formula(extent) for extent, stride in pairs)])


def resources_in(artifact: Artifact, target: str) -> dict[str, KernelResources]:
    """What each kernel of ``artifact`` takes of ``target``'s chip, where it is known. Raises
    :class:`~fusebuild.errors.ArtifactError` when the artifact holds no code for ``target``."""
    segments = artifact.require_target(target).segments
    kernels = {launch.kernel for each in segments for variant in each.variants for launch in variant.launches}
    found = {kernel: artifact.resources(target, kernel) for kernel in sorted(kernels)}
    return {kernel: resources for kernel, resources in found.items() if resources is not None}


def _call(call: LibraryCall[OriginalFid]) -> MatrixProduct:
    return {
        "op": call.op,
        "dtype": call.dtype,
        "a": call.a,
        "b": call.b,
        "bias": call.bias,
        "out": call.out,
        "transpose_b": call.transpose_b,
        "m": show(as_formula(call.m)),
        "n": show(as_formula(call.n)),
        "k": show(as_formula(call.k)),
        "batch": [show(as_formula(dim.extent)) for dim in call.batch],
    }


def call_text(call: MatrixProduct) -> str:
    """A library call in one line."""
    batch = f" for each of {'*'.join(call['batch'])}" if call["batch"] else ""
    transposed = " transposed" if call["transpose_b"] else ""
    bias = "" if call["bias"] is None else f" + %{call['bias']}"
    product = f"%{call['a']}[{call['m']}, {call['k']}] %{call['b']}[{call['k']}, {call['n']}]{transposed}{bias}"
    return f"{call['op']} in {call['dtype']}: {product}{batch}"


def _segment_lines(segment: InspectedSegment, plan: Plan) -> list[str]:
    fid_map = ", ".join(f"{key}: {value}" for key, value in segment["fid_map"].items())
    lines = [
        f"segment {segment['id']}: {segment['scheduler']}  "
        f"{bytes_text(segment['hbm_bytes'], segment['hbm_bytes_formula'])}",
        f"  reads   {_names(segment['inputs'], plan)}",
        f"  writes  {_names(segment['outputs'], plan)}",
        *([f"  makes   {_names(segment['rematerialized'], plan)} again"] if segment["rematerialized"] else []),
        f"  fid map {{{fid_map}}}",
    ]
    if "call" in segment:
        lines.append(f"  calls   {call_text(segment['call'])}")
    for why in segment["why"]:
        cut, _, reasons = why.partition(": ")
        lines += [f"  {cut}", *(f"    {reason}" for reason in reasons.split("; "))]
    lines += [f"  eased   {eased_text(each)}" for each in segment.get("eased", ())]
    for variant in segment["variants"]:
        guard = " and ".join(variant["guard"]) or "always"
        lines.append(f"  variant {variant['name']}: {guard}")
        if "tuned" in variant:
            lines.append(f"    tuned: {knobs_text(variant['tuned'])}")
        for kernel in variant["kernels"]:
            if used := segment.get("resources", {}).get(kernel):
                lines.append(f"    {kernel}: {resources_text(used)}")
    return lines


def knobs_text(knobs: Mapping[str, int]) -> str:
    """``threads=128 unroll=2``."""
    return " ".join(
        f"{knob}={str(value).lower() if isinstance(value, bool) else value}" for knob, value in knobs.items()
    )


def eased_text(eased: EasedWay) -> str:
    """What was taken in the place of what spilled, in one line."""
    now = knobs_text(eased["knobs"]) or "left out"
    return f"{eased['way']} spilled {eased['spilled']} bytes of registers: {now}"


def _composite_lines(composites: Sequence[InspectedComposite]) -> list[str]:
    lines = ["composites"] if composites else []
    indents: list[str] = []
    for composite in composites:
        indents.append("  " if composite["parent"] is None else f"{indents[composite['parent']]}  ")
        segments = composite["segments"]
        where = "segments not known" if segments is None else f"segment{'s' * (len(segments) != 1)} "
        where += ", ".join(map(str, segments or ()))
        lines.append(f"{indents[-1]}{composite['name']} ({composite['location']}): {where}")
    return lines


def _names(fids: Sequence[int], plan: Plan) -> str:
    return ", ".join(f"%{fid} {plan.value(fid).name}" for fid in fids) or "nothing"


def bytes_text(count: int | None, formula: str) -> str:
    """Every byte, and how it comes about: ``262,144 bytes = 4*M*N``."""
    if count is None:
        return f"{formula} bytes"
    return f"{count:,} bytes" if formula == str(count) else f"{count:,} bytes = {formula}"
