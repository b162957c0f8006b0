"""Views of scans in parts: how parts begin and end, and scan_prefixes, which scans what they combine to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fusebuild.kernels.common.lambdas import Folding, foldings
from fusebuild.kernels.common.spec import KernelSpec, indices_of
from fusebuild.kernels.common.statements import Body
from fusebuild.kernels.common.view import KernelView, Lines, Sweep, make_view
from fusebuild.kernels.scan.choices import PartHeuristics, ScanHeuristics, Step
from fusebuild.ops.table import Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class PartLines:
    """``starts`` take what all parts before the own one combine to from scratch, ``before`` the place of the own one;
    ``ends`` leave there what it combines to."""

    starts: Lines = ()
    ends: Lines = ()


def step_of(spec: KernelSpec) -> Step:
    """What a kernel does of its scans."""
    heuristics = spec.heuristics
    assert isinstance(heuristics, ScanHeuristics | PartHeuristics)
    return heuristics.step


def parts_of(body: Body, scans: Sequence[int], step: Step, subscript: str = "", column: str = "") -> PartLines | None:
    """How the ``step`` of the ``scans`` begins and ends, None where nothing is in parts. The accumulators of a vector
    of columns have a ``subscript``, and their places in scratch are those of each ``column``."""
    own = foldings(body, scans)
    if step is Step.SUMS:
        return PartLines(ends=tuple(line for each in own for line in each.partial_stores(f"place{column}", subscript)))
    if step is Step.RESULTS:
        return PartLines(
            starts=tuple(f"{each.accumulator}{subscript} = {_kept(each, f'before{column}')};" for each in own)
        )
    return None


def scan_prefixes(spec: KernelSpec) -> KernelView:
    body = Body(spec)
    own = foldings(body, indices_of(spec.task, Kind.SCAN))
    sweep = Sweep(
        accumulators=tuple(each.declaration() for each in own),
        arrays=tuple(f"auto {each.item} = fb::states<{each.functor}, kVec>({each.identity});" for each in own),
        loads=tuple(f"{each.item}[k] = {_kept(each, 'place')};" for each in own),
        accumulate=tuple(f"fb::scan_block<kThreads>(phase, {each.accumulator}, {each.item});" for each in own),
        stores=tuple(line for each in own for line in _stored(each)),
    )
    return make_view(body, [], sweeps=(sweep,))


def _kept(folding: Folding, place: str) -> str:
    """What scratch has at ``place``."""
    parts = [f"P{fid}[{place}]" for fid in folding.expr.outputs]
    return f"{{{', '.join(parts)}}}" if folding.has_state else parts[0]


def _stored(folding: Folding) -> Lines:
    """The stores of what a thread's item is after the scan."""
    return tuple(
        f"P{fid}[place] = {folding.part(f'{folding.item}[k]', number)};"
        for number, fid in enumerate(folding.expr.outputs)
    )
