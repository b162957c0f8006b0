"""What one artifact has that another has not: segments, bytes, kernels, and what those take of the chip."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, TypedDict

from msgspec import Meta
from msgspec.structs import replace

from fusebuild.artifact.file import Artifact
from fusebuild.artifact.json_types import Bytes, FormulaText
from fusebuild.artifact.kernel_resources import KernelResources, Resources
from fusebuild.artifact.plan import Plan, TargetPlan, as_formula, without_reasons
from fusebuild.errors import one_line
from fusebuild.ir.formula import Formula, evaluate, show, symbols, total


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
    hbm_bytes_formula: tuple[FormulaText | None, FormulaText | None]
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Launched:
    """A launch, by its place in a plan: the kernel, the digest of its object, and what it takes of the chip, which is
    None where nobody said so."""

    kernel: str
    object_digest: str
    resources: KernelResources | None

    def resources_json(self) -> Resources | None:
        """What it takes, as JSON has it."""
        return None if self.resources is None else self.resources.as_json()


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelDiff:
    """A launch that differs: the ``launch``-th of a variant of a segment; None where an artifact has none there."""

    segment: int
    variant: str
    launch: int
    old: Launched | None
    new: Launched | None

    def as_json(self) -> DifferingLaunch:
        """The same as JSON has it."""
        old, new = self.old, self.new
        return {
            "segment": self.segment,
            "variant": self.variant,
            "launch": self.launch,
            "kernel": (old.kernel if old else None, new.kernel if new else None),
            "resources": (old.resources_json() if old else None, new.resources_json() if new else None),
        }

    def as_text(self) -> str:
        """One line for people."""
        place = f"segment {self.segment}, {self.variant}"
        if self.old is None or self.new is None:
            return f"{place}: + {self.new.kernel}" if self.new else f"{place}: - {self.old.kernel if self.old else ''}"
        before, after = self.old.resources_json(), self.new.resources_json()
        changes = _changes(before, after) if before and after else []
        if self.old.kernel == self.new.kernel:
            return f"{place}: {self.old.kernel} compiled to other code" + "".join(f", {each}" for each in changes)
        return f"{place}: {self.old.kernel} -> {self.new.kernel}" + "".join(f", {each}" for each in changes)


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetDiff:
    """Both artifacts' code for one target: how many segments, the bytes of global memory that they read and write,
    whether the ``plan`` differs, and the launches that do. None stands for an artifact without code for it."""

    target: str
    segments: tuple[int | None, int | None]
    hbm_bytes: tuple[Formula | None, Formula | None]
    plan: bool
    kernels: tuple[KernelDiff, ...]

    @property
    def is_same(self) -> bool:
        """Whether nothing differs."""
        return not self.plan and not self.kernels

    def as_json(self, sizes: Mapping[str, int]) -> DifferingTarget:
        """The same as JSON has it."""
        old, new = self.hbm_bytes
        return {
            "segments": self.segments,
            "hbm_bytes_formula": (None if old is None else show(old), None if new is None else show(new)),
            "hbm_bytes": (_evaluated(old, sizes), _evaluated(new, sizes)),
            "plan": self.plan,
            "kernels": [kernel.as_json() for kernel in self.kernels],
        }

    def as_text(self, sizes: Mapping[str, int]) -> list[str]:
        """Lines for people."""
        if self.is_same:
            return [f"{self.target}: the same"]
        if None in self.segments:
            return [f"{self.target}: {'only in the new' if self.segments[0] is None else 'only in the old'}"]
        lines = [f"{self.target}: {_change(*self.segments)} segment{'s' * (self.segments != (1, 1))}"]
        before, after = (_bytes_text(each, sizes) for each in self.hbm_bytes)
        lines.append(f"  bytes  {_change(before, after)}")
        if self.plan and not self.kernels:
            lines.append("  the same kernels, put together in another way: other operands, sizes, order or names")
        return lines + [f"  {kernel.as_text()}" for kernel in self.kernels]


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactDiff:
    """``sources`` are names of what both were made from that differs; ``toolchain`` maps a tool to both versions, where
    those differ. ``sizes`` are those of the case that bytes are counted for."""

    paths: tuple[str, str]
    fusions: tuple[str, str]
    sources: tuple[str, ...]
    toolchain: Mapping[str, tuple[str | None, str | None]]
    targets: tuple[TargetDiff, ...]
    sizes: Mapping[str, int]

    @property
    def is_same(self) -> bool:
        """Whether both run the same code in the same way."""
        return all(target.is_same for target in self.targets)

    def as_json(self) -> DiffReport:
        """The same as JSON has it."""
        return {
            "old": self.paths[0],
            "new": self.paths[1],
            "fusion": self.fusions,
            "same": self.is_same,
            "sources": list(self.sources),
            "toolchain": dict(self.toolchain),
            "case": dict(self.sizes),
            "targets": {target.target: target.as_json(self.sizes) for target in self.targets},
        }

    def as_text(self) -> str:
        """The same for people."""
        case = ", ".join(f"{name}={size}" for name, size in self.sizes.items())
        lines = [f"{_change(*self.fusions)} ({case or 'constant sizes'})"]
        lines += [f"changed: {', '.join(self.sources)}"] if self.sources else []
        lines += [f"{name}: {_change(*versions)}" for name, versions in self.toolchain.items()]
        for target in self.targets:
            lines += target.as_text(self.sizes)
        return "\n".join(map(one_line, lines)) + "\n"


def compare(old: Artifact, new: Artifact, sizes: Mapping[str, int]) -> ArtifactDiff:
    """What ``new`` has that ``old`` has not, and the other way around; bytes are those of a case's ``sizes``.

    Launches are matched by segment, variant and order. Kernels are named by their text, so that one that only moved to
    another segment shows at both places.
    """
    names = list(dict.fromkeys((*old.targets, *new.targets)))
    before, after = old.manifest, new.manifest
    return ArtifactDiff(
        paths=(str(old.path), str(new.path)),
        fusions=(before.fusion, after.fusion),
        sources=_differing(before.sources, after.sources),
        toolchain={
            name: (before.toolchain.get(name), after.toolchain.get(name))
            for name in _differing(before.toolchain, after.toolchain)
        },
        targets=tuple(_compare_targets(old, new, name) for name in names),
        sizes=sizes,
    )


def _compare_targets(old: Artifact, new: Artifact, name: str) -> TargetDiff:
    plans = (old.plan.target(name), new.plan.target(name))
    before, after = (_launches(artifact, plan) for artifact, plan in zip((old, new), plans, strict=True))
    places = sorted({*before, *after}) if None not in plans else []
    return TargetDiff(
        target=name,
        segments=(_count(plans[0]), _count(plans[1])),
        hbm_bytes=(_hbm_bytes(plans[0]), _hbm_bytes(plans[1])),
        plan=_what_runs(old.plan, name) != _what_runs(new.plan, name),
        kernels=tuple(
            KernelDiff(segment=place[0], variant=place[1], launch=place[2], old=before.get(place), new=after.get(place))
            for place in places
            if before.get(place) != after.get(place)
        ),
    )


def _what_runs(plan: Plan, target: str) -> Plan:
    """``plan`` for ``target`` alone, without names of the whole and the words that say how it came about."""
    own = plan.target(target)
    return without_reasons(replace(plan, fusion="", digest="", targets=() if own is None else (own,)))


def _launches(artifact: Artifact, plan: TargetPlan | None) -> dict[tuple[int, str, int], Launched]:
    if plan is None:
        return {}
    found = {}
    for segment in plan.segments:
        for variant in segment.variants:
            for index, launch in enumerate(variant.launches):
                found[segment.id, variant.name, index] = Launched(
                    kernel=launch.kernel,
                    object_digest=artifact.object_digest(plan.target, launch.kernel),
                    resources=artifact.resources(plan.target, launch.kernel),
                )
    return found


def _changes(before: Resources, after: Resources) -> list[str]:
    pairs = ((name, old, new) for (name, old), new in zip(before.items(), after.values(), strict=True))
    return [f"{name.replace('_', ' ')} {old} -> {new}" for name, old, new in pairs if old != new]


def _count(plan: TargetPlan | None) -> int | None:
    return None if plan is None else len(plan.segments)


def _hbm_bytes(plan: TargetPlan | None) -> Formula | None:
    return None if plan is None else total([as_formula(segment.hbm_bytes) for segment in plan.segments])


def _differing(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(name for name in sorted({*before, *after}) if before.get(name) != after.get(name))


def _evaluated(formula: Formula | None, sizes: Mapping[str, int]) -> int | None:
    if formula is None or not {*symbols(formula)} <= {*sizes}:
        return None
    return evaluate(formula, sizes)


def _bytes_text(formula: Formula | None, sizes: Mapping[str, int]) -> str:
    count = _evaluated(formula, sizes)
    if count is not None:
        return f"{count:,}"
    return "none" if formula is None else show(formula)


def _change(*pair: object) -> str:
    before, after = pair
    return f"{before}" if before == after else f"{before} -> {after}"
