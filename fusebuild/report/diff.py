"""What one artifact has that another has not: segments, bytes, kernels, and what those take of the chip."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta
from msgspec.structs import astuple, replace

from fusebuild.artifact.file import Artifact
from fusebuild.artifact.json_types import Bytes, FormulaText
from fusebuild.artifact.kernel_resources import KernelResources
from fusebuild.artifact.plan import Plan, TargetPlan, without_reasons
from fusebuild.errors import one_line
from fusebuild.ir.formula import known_value, show
from fusebuild.planning.expectation import hbm_bytes
from fusebuild.report.inspection import calls_of


class DifferingLaunch(msgspec.Struct, frozen=True, kw_only=True):
    """The ``launch``-th kernel of a variant where it differs: the old and the new, null where there is none."""

    segment: int
    variant: str
    launch: int
    kernel: tuple[str | None, str | None]
    resources: tuple[KernelResources | None, KernelResources | None]

    def as_text(self) -> str:
        """One line for people."""
        place, (old, new) = f"segment {self.segment}, {self.variant}", self.kernel
        if old is None or new is None:
            return f"{place}: + {new}" if new is not None else f"{place}: - {old}"
        what = f"{old} compiled to other code" if old == new else f"{old} -> {new}"
        return ", ".join([f"{place}: {what}", *_changes(*self.resources)])


class DifferingCall(msgspec.Struct, frozen=True, kw_only=True):
    """The library call of a segment where it differs: the old and the new in words, null where there is none."""

    segment: int
    call: tuple[str | None, str | None]

    def as_text(self) -> str:
        """One line for people."""
        old, new = self.call
        if old is None or new is None:
            return f"segment {self.segment}: + {new}" if new is not None else f"segment {self.segment}: - {old}"
        return f"segment {self.segment}: {old} -> {new}"


class DifferingTarget(msgspec.Struct, frozen=True, kw_only=True):
    """One target, old and new; null for an artifact without code for it."""

    segments: tuple[int | None, int | None]
    hbm_bytes_formula: tuple[FormulaText | None, FormulaText | None]
    hbm_bytes: tuple[Bytes, Bytes]
    plan: Annotated[bool, Meta(description="which kernels are launched, or on what, differs")]
    kernels: tuple[DifferingLaunch, ...]
    calls: Annotated[tuple[DifferingCall, ...], Meta(description="library calls that differ")] = ()

    @property
    def is_same(self) -> bool:
        """Whether nothing differs."""
        return not self.plan and not self.kernels

    def as_text(self, name: str) -> list[str]:
        """Lines for people; ``name`` is the target's."""
        if self.is_same:
            return [f"{name}: the same"]
        if None in self.segments:
            return [f"{name}: {'only in the new' if self.segments[0] is None else 'only in the old'}"]
        lines = [f"{name}: {_change(*self.segments)} segment{'s' * (self.segments != (1, 1))}"]
        lines.append(f"  bytes  {_change(*map(_bytes_text, self.hbm_bytes, self.hbm_bytes_formula))}")
        if self.plan and not self.kernels and not self.calls:
            lines.append("  the same kernels, put together in another way: other operands, sizes, order or names")
        lines += [f"  {call.as_text()}" for call in self.calls]
        return lines + [f"  {kernel.as_text()}" for kernel in self.kernels]


class DiffReport(msgspec.Struct, frozen=True, kw_only=True):
    """``fusebuild diff --json``: pairs are old and new"""

    old: Path
    new: Path
    fusion: tuple[str, str]
    same: Annotated[bool, Meta(description="both run the same code in the same way")]
    sources: Annotated[tuple[str, ...], Meta(description="what they were made from that differs")]
    toolchain: Annotated[dict[str, tuple[str | None, str | None]], Meta(description="versions that differ, by tool")]
    case: Annotated[dict[str, int], Meta(description="the sizes that bytes are counted for")]
    targets: dict[str, DifferingTarget]

    def as_text(self) -> str:
        """The report for people."""
        case = ", ".join(f"{name}={size}" for name, size in self.case.items())
        lines = [f"{_change(*self.fusion)} ({case or 'constant sizes'})"]
        lines += [f"changed: {', '.join(self.sources)}"] if self.sources else []
        lines += [f"{name}: {_change(*versions)}" for name, versions in self.toolchain.items()]
        for name, target in self.targets.items():
            lines += target.as_text(name)
        return "\n".join(map(one_line, lines)) + "\n"


_Launched = tuple[str | None, str | None, KernelResources | None]
"""A kernel as a plan launches it: its name, the digest of its object, and what it takes of the chip, which is None
where the manifest does not say so."""

_NOTHING: _Launched = (None, None, None)

_Place = tuple[int, str, int]
"""Where a plan launches a kernel: the id of the segment, the name of the variant, the index of the launch in it."""


def compare(old: Artifact, new: Artifact, sizes: Mapping[str, int]) -> DiffReport:
    """What ``new`` has that ``old`` has not, and the other way around; bytes are those of a case's ``sizes``.

    Launches are matched by segment, variant and order. Kernels are named by their text, so that one that only moved to
    another segment shows at both places.
    """
    names = dict.fromkeys((*old.targets, *new.targets))
    targets = {name: _compare_targets(old, new, name, sizes) for name in names}
    before, after = old.manifest, new.manifest
    return DiffReport(
        old=old.path,
        new=new.path,
        fusion=(before.fusion, after.fusion),
        same=all(target.is_same for target in targets.values()),
        sources=_differing(before.sources, after.sources),
        toolchain={
            name: (before.toolchain.get(name), after.toolchain.get(name))
            for name in _differing(before.toolchain, after.toolchain)
        },
        case=dict(sizes),
        targets=targets,
    )


def _compare_targets(old: Artifact, new: Artifact, name: str, sizes: Mapping[str, int]) -> DifferingTarget:
    plans = old.plan.target(name), new.plan.target(name)
    (old_segments, old_formula, old_bytes), (new_segments, new_formula, new_bytes) = (
        _sums(plan, sizes) for plan in plans
    )
    before, after = _launches(old, plans[0]), _launches(new, plans[1])
    places = sorted({*before, *after}) if None not in plans else []
    pairs = [(place, before.get(place, _NOTHING), after.get(place, _NOTHING)) for place in places]
    return DifferingTarget(
        segments=(old_segments, new_segments),
        hbm_bytes_formula=(old_formula, new_formula),
        hbm_bytes=(old_bytes, new_bytes),
        plan=_what_runs(old.plan, name) != _what_runs(new.plan, name),
        kernels=tuple(
            DifferingLaunch(
                segment=segment,
                variant=variant,
                launch=launch,
                kernel=(old_launched[0], new_launched[0]),
                resources=(old_launched[2], new_launched[2]),
            )
            for (segment, variant, launch), old_launched, new_launched in pairs
            if old_launched != new_launched
        ),
        calls=_differing_calls(*plans),
    )


def _differing_calls(before: TargetPlan | None, after: TargetPlan | None) -> tuple[DifferingCall, ...]:
    """None where there is no code for one of the targets."""
    if before is None or after is None:
        return ()
    old, new = calls_of(before), calls_of(after)
    return tuple(
        DifferingCall(segment=segment, call=(old.get(segment), new.get(segment)))
        for segment in sorted({*old, *new})
        if old.get(segment) != new.get(segment)
    )


def _sums(plan: TargetPlan | None, sizes: Mapping[str, int]) -> tuple[int | None, str | None, int | None]:
    """How many segments ``plan`` has, and the bytes that they read and write: as a formula, and at ``sizes``, None
    where those do not give every symbol."""
    if plan is None:
        return None, None, None
    formula = hbm_bytes(plan)
    return len(plan.segments), show(formula), known_value(formula, sizes)


def _what_runs(plan: Plan, target: str) -> Plan:
    """``plan`` for ``target`` alone, without the names of the whole plan and the words that say why it was cut so."""
    own = plan.target(target)
    return without_reasons(replace(plan, fusion="", digest="", targets=() if own is None else (own,)))


def _launches(artifact: Artifact, plan: TargetPlan | None) -> dict[_Place, _Launched]:
    if plan is None:
        return {}
    return {
        (segment.id, variant.name, index): (
            launch.kernel,
            artifact.object_digest(plan.target, launch.kernel),
            artifact.resources(plan.target, launch.kernel),
        )
        for segment in plan.segments
        for variant in segment.variants
        for index, launch in enumerate(variant.launches)
    }


def _changes(before: KernelResources | None, after: KernelResources | None) -> list[str]:
    """What a kernel takes of the chip that differs; nothing where either is not known."""
    if before is None or after is None:
        return []
    pairs = zip(KernelResources.__struct_fields__, astuple(before), astuple(after), strict=True)
    return [f"{name.replace('_', ' ')} {old} -> {new}" for name, old, new in pairs if old != new]


def _differing(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(name for name in sorted({*before, *after}) if before.get(name) != after.get(name))


def _bytes_text(count: int | None, formula: str | None) -> str:
    return f"{count:,}" if count is not None else formula or "none"


def _change(*pair: object) -> str:
    before, after = pair
    return f"{before}" if before == after else f"{before} -> {after}"
