"""From a SegmentedFusion to the serialized plan of one target, and the kernels it names.

Everything a segment says in its own fids is turned into original fids here; sizes are named by negative fids where one
extent says it all and by formulas where axes were merged.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import msgspec

from fusebuild.artifact.plan import (
    FORMAT_VERSION,
    Arg,
    EasedChoice,
    ExtentArg,
    FormulaArg,
    Launch,
    Plan,
    PlanChoice,
    PlanExtent,
    PlanFact,
    PlanOutput,
    PlanSegment,
    PlanSolution,
    PlanValue,
    Slot,
    TargetPlan,
    Variant,
    WorkspaceArg,
    renumber,
)
from fusebuild.ir.fid import OriginalFid, SegmentFid
from fusebuild.ir.formula import Formula, substitute
from fusebuild.ir.fusion import Fusion
from fusebuild.ir.solving import Solution
from fusebuild.ir.text import print_fusion
from fusebuild.ir.types import TensorType, tensor_type
from fusebuild.ir.values import Output
from fusebuild.kernels.common.family import Runs
from fusebuild.kernels.common.overlap import overlapped, starting_next_early
from fusebuild.kernels.common.spec import VariantSpec, usable
from fusebuild.kernels.common.specialization import hinted_sizes, specialized_variants
from fusebuild.kernels.library.schedule import library_call
from fusebuild.kernels.render import Kernel, Origin, Texts
from fusebuild.ops.least_sizes import kept_facts
from fusebuild.ops.table import op_of
from fusebuild.ops.type_rules import normalize_dims
from fusebuild.planning.eased import eased_by_key, scheduled
from fusebuild.planning.tuned import NO_CHOICES, ChoicesByKey, choices_at
from fusebuild.segmentation import Segment, SegmentedFusion
from fusebuild.segmentation.acceptance import overwritten_inputs, signature
from fusebuild.segmentation.directions import backward_segments
from fusebuild.segmentation.segmented import ELEMENTS
from fusebuild.target.table import Target

_Rendered: TypeAlias = "tuple[VariantSpec, tuple[Kernel, ...]]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A target's plan and its kernels, by name."""

    target: TargetPlan
    kernels: Mapping[str, Kernel]


def plan_target(
    segmented: SegmentedFusion,
    target: Target,
    recipe: str,
    tuned: ChoicesByKey = NO_CHOICES,
    eased: Sequence[EasedChoice] = (),
) -> Planned:
    """Schedule and render every segment for ``target``. ``recipe`` is what kernels name as their origin; choices that
    are ``tuned`` replace what the heuristics would choose, and ``eased`` ones replace either.

    Raises :class:`KnobError` for an eased choice that no kernel can be made with.

    Segments that are equal up to fids and names (the layers of a network), walk in the same direction and stand between
    the same kind of kernels are rendered once and share their kernels.
    """
    known: dict[object, tuple[_Rendered, ...]] = {}
    kernels: dict[str, Kernel] = {}
    segments: list[PlanSegment] = []
    slots = _intermediate_slots(segmented)
    freed, backward = _freed(segmented), backward_segments(segmented)
    starting = _starting_next_early(segmented)
    extents = {binding.extent: binding.fid for binding in reversed(segmented.fusion.extents)}
    eased_ways, reshaped = eased_by_key(eased, segmented), reshaped_outputs(segmented.fusion)
    for segment, starts_next in zip(segmented.segments, starting, strict=True):
        is_backward = segment.id in backward
        task, group = segment.scheduled.whole(), segment.member and segment.member.group
        key = signature(task, overwritten_inputs(segment.scheduled)), is_backward, starts_next, group
        if key not in known:
            variants = _variants(segment, target, tuned, eased_ways)
            turned = map(VariantSpec.backwards, variants) if is_backward else variants
            placed = [overlapped(variant, starts_next) for variant in turned]
            texts = Texts()
            known[key] = tuple((variant, _render(segment, variant, recipe, texts)) for variant in placed)
        own = _of_the_segment(segment, known[key])
        scratch = _scratch_slots([variant for variant, _ in own], segmented.together(segment), len(slots))
        slots += scratch
        first_slot = scratch[0].id if scratch else 0
        planned = []
        for variant, rendered in own:
            kernels = {kernel.name: kernel for kernel in rendered} | kernels  # a shared one tells of its first use
            planned.append(_plan_variant(extents, segment, variant, rendered, first_slot))
        segments.append(_plan_segment(segment, tuple(planned), freed.get(segment.id, ()), reshaped))
    plan = TargetPlan(
        target=target.name, segments=tuple(segments), workspace=tuple(slots), eased=tuple(eased) or msgspec.UNSET
    )
    return Planned(target=plan, kernels=kernels)


def plan_alone(
    segment: Segment, variant: VariantSpec, target: Target, recipe: str
) -> tuple[Plan, Mapping[str, Kernel]]:
    """A plan of ``segment`` as a Fusion of its own, and its kernels: it runs by ``variant`` alone, whose guards the
    caller answers for. This is how one variant is measured."""
    own = {SegmentFid(fid): OriginalFid(fid) for fid in segment.fid_map}
    alone = replace(segment, id=0, task=segment.fusion.whole(), fid_map=own, rematerialized=(), why=())
    segmented = SegmentedFusion(fusion=segment.fusion, segments=(alone,))
    variant = overlapped(replace(variant, guard=()), starts_next_early=False)
    rendered = _render(alone, variant, recipe, Texts())
    extents = {binding.extent: binding.fid for binding in reversed(segment.fusion.extents)}
    variants = (_plan_variant(extents, alone, variant, rendered, 0),)
    planned = _plan_segment(alone, variants, (), reshaped_outputs(segment.fusion))
    slots = tuple(_scratch_slots([variant], range(1), 0))
    plan = assemble({target.name: segmented}, [TargetPlan(target=target.name, segments=(planned,), workspace=slots)])
    return plan, {kernel.name: kernel for kernel in rendered}


def _variants(segment: Segment, target: Target, tuned: ChoicesByKey, eased: ChoicesByKey) -> tuple[VariantSpec, ...]:
    """The variants of one segment: those for sizes that the recipe names come first, but for those for few rows."""

    def at(sizes: Mapping[str, int]) -> tuple[VariantSpec, ...]:
        return scheduled(segment, target, sizes, choices_at(tuned, segment.scheduled, sizes), eased)

    general = at(hinted_sizes(segment.scheduled, {}))
    if segment.member is not None:
        return tuple(variant.with_members(segment.member.count) for variant in _for_any_number(general))
    special = specialized_variants(segment.fusion, general, at) if general else ()
    few = [variant for variant in general if variant.for_few_rows]
    return (*few, *special, *(variant for variant in general if not variant.for_few_rows))


def _for_any_number(variants: Sequence[VariantSpec]) -> list[VariantSpec]:
    """``variants`` without those that launch for few elements what a later one launches for any number: beside other
    members no member is alone on the device."""
    launches = [variant.launches for variant in variants]
    return [variant for place, variant in enumerate(variants) if variant.launches not in launches[place + 1 :]]


def _of_the_segment(segment: Segment, variants: Sequence[_Rendered]) -> Sequence[_Rendered]:
    """``variants``, those of a group with the number of elements that the member ``segment`` has."""
    if segment.member is None:
        return variants
    sizes = {ELEMENTS: segment.member.elements}
    own = {variant.name: (variant.at(sizes), rendered) for variant, rendered in variants}
    return [(kept, own[kept.name][1]) for kept in usable([variant for variant, _ in own.values()])]


def _starting_next_early(segmented: SegmentedFusion) -> list[bool]:
    """For each segment whether the kernel after it may start early; members of a group all say what the last does."""
    starting = starting_next_early([segment.family for segment in segmented.segments])
    last = {segment.member.group: segment.id for segment in segmented.segments if segment.member is not None}
    return [starting[each.id if each.member is None else last[each.member.group]] for each in segmented.segments]


def _freed(segmented: SegmentedFusion) -> dict[int, tuple[OriginalFid, ...]]:
    """For each segment the intermediates, ascending, that no later segment reads."""
    outputs = set(segmented.fusion.output_fids)
    last: dict[int, int] = {fid: segment.id for segment in segmented.segments for fid in segment.inputs}
    freed: dict[int, list[OriginalFid]] = {}
    for fid in segmented.boundaries:
        if fid not in outputs:
            freed.setdefault(last[fid], []).append(fid)
    return {segment: tuple(fids) for segment, fids in freed.items()}


def assemble(
    segmented: Mapping[str, SegmentedFusion], targets: Sequence[TargetPlan], written: Fusion | None = None
) -> Plan:
    """The whole plan: what the caller sees, and each target's segments. Segmentations differ at most in their cuts.
    ``written`` is the fusion as it was before the passes, which turn ops into others that ask less of sizes."""
    fusion = next(iter(segmented.values())).fusion
    named = {*map(OriginalFid, (*fusion.inputs, *fusion.output_fids))}
    for each in segmented.values():
        for segment in each.segments:
            named |= {*segment.inputs, *segment.outputs, *segment.rematerialized}
    outputs = {output.fid: output for output in fusion.outputs}
    views = reshaped_outputs(fusion)
    return Plan(
        format=FORMAT_VERSION,
        fusion=fusion.name,
        digest=fusion_digest(fusion),
        values=(
            *(_plan_value(fusion, fid, outputs.get(fid)) for fid in sorted(named)),
            *(_plan_view(fusion, view, outputs[fid]) for fid, view in views.items()),
        ),
        extents=tuple(
            PlanExtent(fid=binding.fid, input=OriginalFid(binding.input), dim=binding.dim, extent=binding.extent)
            for binding in fusion.extents
        ),
        facts=_plan_facts(fusion),
        inputs=tuple(map(OriginalFid, fusion.inputs)),
        outputs=tuple(_plan_output(output, views) for output in fusion.outputs),
        targets=tuple(targets),
        choices=_plan_choices(written or fusion) or msgspec.UNSET,
        relations=fusion.relations or msgspec.UNSET,
        solutions=tuple(map(_plan_solution, fusion.solved.solutions)) or msgspec.UNSET,
    )


def _plan_solution(solution: Solution) -> PlanSolution:
    return PlanSolution(
        symbol=solution.symbol,
        input=OriginalFid(solution.input),
        dim=solution.dim,
        divisor=solution.divisor,
        factor=solution.factor,
        offset=solution.offset,
    )


def _plan_choices(fusion: Fusion) -> tuple[PlanChoice, ...]:
    """The ops that say, or are told, which element of a dim it is, where the dim may have none. For those that are told
    so along a dim of one symbol its fact says it."""
    found = []
    for expr in fusion.exprs:
        if not op_of(expr).picks:
            continue
        operand, dim = fusion.value(expr.inputs[0]), dict(expr.attributes).get("dim", 0)
        assert isinstance(dim, int)
        (dim,) = normalize_dims(expr.op, [dim], operand.tensor.rank)
        known = int if len(expr.inputs) == 1 else int | str
        if not isinstance(size := operand.tensor.shape[dim], known):
            found.append(PlanChoice(op=expr.op, operand=operand.name, dim=dim, size=size))
    return tuple(found)


def _plan_facts(fusion: Fusion) -> tuple[PlanFact, ...]:
    return tuple(
        PlanFact(symbol=fact.symbol, multiple_of=fact.multiple_of, min=fact.min, max=fact.max)
        for fact in kept_facts(fusion)
    )


def fusion_digest(fusion: Fusion) -> str:
    """A name for what ``fusion`` computes: the digest of its printed text."""
    return hashlib.sha256(print_fusion(fusion).encode()).hexdigest()


def reshaped_outputs(fusion: Fusion) -> dict[OriginalFid, OriginalFid]:
    """For each output that the caller gets in another shape, by its fid, that of the view of it which has this shape:
    one that no value of ``fusion`` has."""
    reshaped = [OriginalFid(output.fid) for output in fusion.outputs if output.shape is not None]
    return {fid: OriginalFid(fusion.next_fid + index) for index, fid in enumerate(reshaped)}


def _plan_value(fusion: Fusion, fid: OriginalFid, output: Output | None) -> PlanValue:
    value = fusion.value(fid)
    if not isinstance(value.type, TensorType):
        return PlanValue(fid=fid, name=value.name, kind="scalar", dtype=value.dtype.value)
    layout = fusion.value(fid if output is None or output.alias is None else output.alias).tensor
    return PlanValue(
        fid=fid,
        name=value.name if output is None else output.name,
        kind="tensor",
        dtype=value.dtype.value,
        shape=value.type.shape,
        strides=layout.strides,
        cpu=value.type.cpu,
    )


def _plan_view(fusion: Fusion, fid: OriginalFid, output: Output) -> PlanValue:
    """The view ``fid`` of an ``output``, in the shape in which the caller gets it."""
    assert output.shape is not None
    type_ = tensor_type(fusion.value(output.fid).dtype, output.shape)
    return PlanValue(
        fid=fid,
        name=output.name,
        kind="tensor",
        dtype=type_.dtype.value,
        shape=type_.shape,
        strides=type_.strides,
    )


def _plan_output(output: Output, views: Mapping[OriginalFid, OriginalFid]) -> PlanOutput:
    alias, fid = None if output.alias is None else OriginalFid(output.alias), OriginalFid(output.fid)
    return PlanOutput(fid=views.get(fid, fid), name=output.name, alias=alias)


def _plan_segment(
    segment: Segment,
    variants: tuple[Variant, ...],
    frees: tuple[OriginalFid, ...],
    reshaped: Mapping[OriginalFid, OriginalFid],
) -> PlanSegment:
    """``segment`` in original fids; ``reshaped`` is :func:`reshaped_outputs` of the whole Fusion."""
    shown = {reshaped[fid]: fid for fid in segment.outputs if fid in reshaped}
    return PlanSegment(
        id=segment.id,
        scheduler=segment.scheduler,
        fid_map=dict(segment.fid_map)
        | {SegmentFid(segment.fusion.next_fid + index): view for index, view in enumerate(shown)},
        inputs=segment.inputs,
        outputs=(*segment.outputs, *shown),
        frees=frees,
        rematerialized=segment.rematerialized,
        views=segment.views | shown,
        hbm_bytes=0 if segment.family.runs is Runs.NOTHING else segment.hbm_bytes,
        variants=variants,
        why=segment.why,
        call=renumber(library_call(segment.fusion.whole()), segment.fid_map)
        if segment.family.runs is Runs.LIBRARY
        else msgspec.UNSET,
        group=msgspec.UNSET if segment.member is None else segment.member.group,
    )


def _render(segment: Segment, variant: VariantSpec, recipe: str, texts: Texts) -> tuple[Kernel, ...]:
    decision, notes = variant.decision, [variant.name]
    if decision is not None and decision.tuned:  # what was measured decided, and not the heuristics
        notes.append("tuned")
    if decision is not None and decision.eased:  # registers did, since those of what was to be had had not lasted
        notes.append("eased")
    origin = Origin(
        recipe=recipe,
        segment=segment.id,
        fid_map=segment.fid_map,
        scheduler=segment.scheduler,
        variant=", ".join(notes),
    )
    return tuple(texts.of(launch.kernel, origin) for launch in variant.launches)


def _plan_variant(
    extents: Mapping[Formula, int],
    segment: Segment,
    variant: VariantSpec,
    kernels: Sequence[Kernel],
    first_slot: int,
) -> Variant:
    """``variant`` in original fids; ``extents`` gives the first negative fid of each size."""
    sizes: Mapping[str, Formula] = {} if segment.member is None else {ELEMENTS: segment.member.elements}
    return Variant(
        name=variant.name,
        guard=tuple(renumber(guard, segment.fid_map) for guard in variant.guard),
        launches=tuple(
            Launch(
                kernel=kernel.name,
                grid=launch.grid,
                block=launch.block,
                shared_bytes=launch.shared_bytes,
                args=tuple(
                    renumber(_of_the_plan(extents, _sized(parameter.arg, sizes), first_slot), segment.fid_map)
                    for parameter in kernel.parameters
                ),
                overlaps=True,
                cluster=msgspec.UNSET if launch.cluster == 1 else launch.cluster,
                members=launch.kernel.order.members or msgspec.UNSET,
            )
            for launch, kernel in zip(variant.launches, kernels, strict=True)
        ),
        tuned=dict(variant.decision.choice.knobs) if variant.decision and variant.decision.tuned else msgspec.UNSET,
    )


def _sized(arg: Arg[SegmentFid], sizes: Mapping[str, Formula]) -> Arg[SegmentFid]:
    """``arg`` with the ``sizes`` of symbols that only a segment has."""
    return FormulaArg(formula=substitute(arg.formula, sizes)) if sizes and isinstance(arg, FormulaArg) else arg


def _of_the_plan(extents: Mapping[Formula, int], arg: Arg[SegmentFid], first_slot: int) -> Arg[SegmentFid]:
    """``arg`` with the plan's number for a slot, which has ``first_slot`` as the segment's first, and for a size."""
    if isinstance(arg, WorkspaceArg):
        return WorkspaceArg(slot=first_slot + arg.slot)
    if isinstance(arg, FormulaArg) and isinstance(arg.formula, str) and arg.formula in extents:
        return ExtentArg(fid=extents[arg.formula])
    return arg


def _intermediate_slots(segmented: SegmentedFusion) -> list[Slot]:
    """One slot per intermediate that owns memory, live until the last segment that reads it or a view of it."""
    fusion = segmented.fusion
    outputs = set(fusion.output_fids)
    source: dict[OriginalFid, OriginalFid] = {}
    first: dict[OriginalFid, int] = {}
    last: dict[OriginalFid, int] = {}
    for segment in segmented.segments:
        together = segmented.together(segment)
        source |= {view: source.get(viewed, viewed) for view, viewed in segment.views.items()}
        first |= {fid: together[0] for fid in segment.outputs if fid not in outputs and fid not in source}
        for fid in (*segment.inputs, *segment.outputs):
            last[source.get(fid, fid)] = together[-1]
    return [
        Slot(id=index, fid=fid, bytes=fusion.value(fid).tensor.nbytes, first=first[fid], last=last[fid])
        for index, fid in enumerate(sorted(first))
    ]


def _scratch_slots(variants: Sequence[VariantSpec], together: range, first_id: int) -> list[Slot]:
    """Scratch of one segment, which runs at the time of those ``together``: each slot is as large as the greediest
    variant needs."""
    count = max((len(variant.scratch) for variant in variants), default=0)
    slots = []
    for index in range(count):
        sizes = list(dict.fromkeys(variant.scratch[index] for variant in variants if index < len(variant.scratch)))
        size: Formula = sizes[0] if len(sizes) == 1 else ("max", *sizes)
        slots.append(Slot(id=first_id + index, fid=None, bytes=size, first=together[0], last=together[-1]))
    return slots
