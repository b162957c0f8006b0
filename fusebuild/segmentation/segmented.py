"""The result of segmentation: an acyclic cover of a Fusion by tasks in run order, and each task as its own Fusion."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from fusebuild.ir.fid import OriginalFid, SegmentFid
from fusebuild.ir.formula import Formula, symbols, total
from fusebuild.ir.fusion import Fusion, Task, used_lambdas
from fusebuild.ir.types import tensor_type
from fusebuild.ir.values import Output
from fusebuild.ir.verify import verify
from fusebuild.kernels.alias.schedule import view_sources
from fusebuild.kernels.common.choice import Tuned
from fusebuild.kernels.common.family import Family, Runs
from fusebuild.kernels.common.spec import VariantSpec
from fusebuild.kernels.families import family_of
from fusebuild.ops.footprint import read_bytes, written_bytes
from fusebuild.target.table import Target

ELEMENTS = "elements"
"""The size of the tensors of a :class:`Member`, as a symbol. No other one is in its Fusion."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """What a segment is in a group of ``count`` that are alike (:mod:`fusebuild.segmentation.members`), of which the
    segment ``group`` is the first. ``fusion`` is the segment's own with tensors of one dim, of as many ``elements``: a
    formula in the symbols of the whole Fusion. Fids are the same in both."""

    group: int
    count: int
    fusion: Fusion
    elements: Formula


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A task extracted into its own Fusion and index space.

    ``fid_map`` leads from the segment's inputs and outputs back to the original fids. ``rematerialized`` names the
    values that the segment computes again, though another one computes them too. ``why`` says why the segment is not
    part of one that it reads from.
    """

    id: int
    scheduler: str
    task: Task
    fusion: Fusion
    fid_map: Mapping[SegmentFid, OriginalFid]
    rematerialized: tuple[OriginalFid, ...] = ()
    why: tuple[str, ...] = ()
    member: Member | None = None

    @property
    def scheduled(self) -> Fusion:
        """What its family makes kernels of."""
        return self.fusion if self.member is None else self.member.fusion

    def variants(self, target: Target, sizes: Mapping[str, int], tuned: Tuned) -> tuple[VariantSpec, ...]:
        """What its family makes of it at ``sizes``, with choices that are ``tuned``. A launch has clusters of one size,
        so that members of a group have none. Raises :class:`KnobError` for a choice that no kernel can be made with.
        """
        own = target if self.member is None else replace(target, cluster=1)
        return self.family.schedule(self.scheduled.whole(), own, sizes, tuned)

    @property
    def family(self) -> Family:
        return family_of(self.scheduler)

    @property
    def inputs(self) -> tuple[OriginalFid, ...]:
        return tuple(self.fid_map[SegmentFid(fid)] for fid in self.fusion.inputs)

    @property
    def outputs(self) -> tuple[OriginalFid, ...]:
        return tuple(self.fid_map[SegmentFid(output.fid)] for output in self.fusion.outputs)

    @property
    def views(self) -> dict[OriginalFid, OriginalFid]:
        """For each output of a segment without kernels, the input whose memory it shares."""
        if self.family.runs is not Runs.NOTHING:
            return {}
        sources = view_sources(self.fusion.whole())
        return {self.fid_map[view]: self.fid_map[viewed] for view, viewed in sources.items()}

    @property
    def hbm_bytes(self) -> Formula:
        """Bytes of the distinct elements of every tensor the segment reads or writes, of those that only index ops read
        what they take. Scalars in host memory are none."""
        needed = {fid for expr in self.fusion.exprs for fid in expr.inputs}
        inputs = [value for value in self.fusion.tensor_inputs if value.fid in needed and not value.tensor.cpu]
        read = [read_bytes(self.fusion, value.fid) for value in inputs]
        written = [output.fid for output in self.fusion.outputs if self.fusion.value(output.fid).is_tensor]
        return total([*read, *(written_bytes(self.fusion, fid) for fid in written)])


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentedFusion:
    """``segments`` in run order; every expr of ``fusion`` is in at least one."""

    fusion: Fusion
    segments: tuple[Segment, ...]

    def together(self, segment: Segment) -> range:
        """The ids of the segments that run at the time of ``segment``: those of its group."""
        member = segment.member
        first, count = (segment.id, 1) if member is None else (member.group, member.count)
        return range(first, first + count)

    @property
    def boundaries(self) -> tuple[OriginalFid, ...]:
        """Original fids of the intermediates in global memory: written by one segment and read by another."""
        written = {fid for segment in self.segments for fid in segment.outputs}
        read = {fid for segment in self.segments for fid in segment.inputs}
        return tuple(sorted(written & read))


def dense_outputs(fusion: Fusion) -> Fusion:
    """``fusion`` with every output stored in full: what a user gets has no stride-0 dims."""
    values = dict(fusion.values)
    for fid in fusion.output_fids:
        type_ = values[fid].tensor
        values[fid] = replace(values[fid], type=tensor_type(type_.dtype, type_.shape))
    return replace(fusion, values=values)


def scalar_closure(fusion: Fusion, exprs: Iterable[int]) -> tuple[int, ...]:
    """``exprs`` and the scalar exprs that they need, ascending."""
    closed = set(exprs)
    waiting = [fid for index in closed for fid in fusion.exprs[index].inputs]
    while waiting:
        fid = waiting.pop()
        index = fusion.definition(fid)
        if index is None or index in closed or fusion.value(fid).is_tensor:
            continue
        closed.add(index)
        waiting += fusion.exprs[index].inputs
    return tuple(sorted(closed))


Extracted: TypeAlias = "tuple[Fusion, Mapping[SegmentFid, OriginalFid]]"
"""A task as a Fusion of its own, and the map from its inputs and outputs to original fids."""


def extract(
    task: Task, name: str, given: tuple[str, ...] | None = None
) -> tuple[Fusion, dict[SegmentFid, OriginalFid]]:
    """``task`` as a Fusion of its own, and the map from its inputs and outputs to original fids.

    Inputs come first, in the order of their original fids, then constants and results in the order of the exprs. An
    input that an output overwrites is an input even when no expr reads it. ``given`` is :func:`bound_symbols` of the
    whole Fusion, for a caller that extracts many tasks.
    """
    fusion = task.fusion
    outputs = task.outputs
    written = {fid: fusion.output(fid) or Output(fid=fid, name=fusion.value(fid).name) for fid in outputs}
    targets = {output.alias for output in written.values() if output.alias is not None}
    inputs = sorted({*task.inputs, *targets})
    renumbered: dict[int, int] = {fid: index for index, fid in enumerate(inputs)}
    exprs = [fusion.exprs[index] for index in task.exprs]
    for expr in exprs:
        for fid in (*expr.inputs, *expr.outputs):
            renumbered.setdefault(fid, len(renumbered))
    values = {new: replace(fusion.value(old), fid=new) for old, new in renumbered.items()}
    extracted = Fusion(
        name=name,
        values=values,
        exprs=tuple(expr.renumbered(renumbered) for expr in exprs),
        inputs=tuple(renumbered[fid] for fid in inputs),
        outputs=tuple(output.renumbered(renumbered) for output in written.values()),
        facts=fusion.facts,
        relations=fusion.relations,
        cases=fusion.cases,
        recorded=len(renumbered),
        given=bound_symbols(fusion) if given is None else given,
        lambdas=used_lambdas(fusion, exprs),
    )
    fid_map = {SegmentFid(renumbered[fid]): OriginalFid(fid) for fid in (*inputs, *outputs)}
    return verify(extracted), fid_map


def bound_symbols(fusion: Fusion) -> tuple[str, ...]:
    """Every symbol of the whole Fusion: a segment may name sizes of inputs that it does not read."""
    bound = [symbol for binding in fusion.extents for symbol in symbols(binding.extent)]
    return tuple(dict.fromkeys([*bound, *fusion.given]))
