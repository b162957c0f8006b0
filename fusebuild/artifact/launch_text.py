"""What a kernel's text says of each launch that there is of it, and whether a plan says the same.

The comment that a text begins with has a paragraph for every launch: where in the plan, its grid, block and shared
memory, what it is given, the bytes of its scratch, and the guard that it runs under. A plan is made first, and the
paragraphs from it, so that both come from one fact. A kernel that several segments, variants or targets share tells of
each of them. A text without such paragraphs says nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from fusebuild.artifact import plan as p
from fusebuild.ir.fid import OriginalFid
from fusebuild.ir.formula import Formula, show

_BEGIN, _PARTS = "launch: ", "; "
_LONG = 40
"""Characters that nobody would want to read twice."""
_HEADER = "\n#include "
"""The comment ends before it."""


def launches(plan: p.Plan, shown: dict[Formula, str] | None = None) -> Mapping[str, Sequence[str]]:
    """For each kernel that ``plan`` launches the paragraphs about it, in run order; launches that are the same on
    several targets have one. ``shown`` has formulas that were written already."""
    spelling, found = _Spelling.of(plan, {} if shown is None else shown), dict[str, dict[tuple[str, str], list[str]]]()
    for target in plan.targets:
        for kernel, place, what in _launches_on(target, spelling):
            found.setdefault(kernel, {}).setdefault((place, what), []).append(target.target)
    return {
        kernel: tuple(f"{_BEGIN}{place} on {', '.join(targets)}: {what}" for (place, what), targets in told.items())
        for kernel, told in found.items()
    }


def problem(text: str, expected: Sequence[str]) -> str:
    """What is otherwise in a plan whose launches are ``expected`` than ``text`` says; empty where nothing is, or where
    the text says nothing."""
    begin = text.find(f"\n// {_BEGIN}")
    if begin < 0:
        return ""
    says = " ".join(text[begin : text.find(_HEADER, begin)].replace("\n//", " ").split())
    return "" if says == " ".join(" ".join(expected).split()) else _difference(_paragraphs(says), expected)


def _paragraphs(says: str) -> Mapping[str, str]:
    """What is said of each place."""
    told = (paragraph.partition(": ") for paragraph in f" {says}".split(f" {_BEGIN}")[1:])
    return {place: what for place, _, what in told}


def _difference(says: Mapping[str, str], expected: Sequence[str]) -> str:
    planned = _paragraphs(" ".join(" ".join(expected).split()))
    for place, what in planned.items():
        if place not in says:
            return f"the plan launches it in {place}, which its text does not tell of"
        own, other = _parts(what), _parts(says[place])
        for word in (*own, *other):
            part, told = (each.get(word, f"nothing of '{word}'") for each in (own, other))
            if part != told:
                return f"{place}: the plan says {part}, where its text says {told}"
    missing = next((place for place in says if place not in planned), "that order")
    return f"the plan does not launch it in {missing}, which its text tells of"


def _parts(what: str) -> Mapping[str, str]:
    """What is said of one launch, by the word that each part begins with."""
    return {part.partition(" ")[0]: part for part in what.split(_PARTS)}


def _launches_on(target: p.TargetPlan, spelling: _Spelling) -> Iterator[tuple[str, str, str]]:
    """Each launch of ``target``: its kernel, where in the plan it is, and what it is."""
    slots = {slot.id: slot.bytes for slot in target.workspace}
    for segment in target.segments:
        for variant in segment.variants:
            guard = spelling.guard(variant)
            for number, launch in enumerate(variant.launches, 1):
                which = f" {number} of {len(variant.launches)}" if len(variant.launches) > 1 else ""
                parts = [*spelling.parts(launch, slots), *guard]
                yield launch.kernel, f"segment {segment.id}, {variant.name}{which}", _PARTS.join(parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Spelling:
    """How what a plan says is written: values by their names, with the fid where several have one; extents by their
    formulas. ``shown`` are formulas that were written before: most of them come again."""

    names: Mapping[int, str]
    extents: Mapping[int, p.FormulaJson]
    shown: dict[Formula, str]

    @classmethod
    def of(cls, plan: p.Plan, shown: dict[Formula, str]) -> _Spelling:
        counts = Counter(value.name for value in plan.values)
        return cls(
            names={
                value.fid: value.name if counts[value.name] == 1 else f"{value.name}.{value.fid}"
                for value in plan.values
            },
            extents={extent.fid: extent.extent for extent in plan.extents},
            shown=shown,
        )

    def parts(self, launch: p.Launch, slots: Mapping[int, p.FormulaJson]) -> Iterator[str]:
        """The launch itself, without the guard of its variant."""
        given = [self._argument(arg, slots) for arg in launch.args]
        yield _with_arguments(f"grid {', '.join(map(self._text, launch.grid))}", given)
        yield f"block {', '.join(map(str, launch.block))}"
        if launch.shared_bytes != 0:
            yield _with_arguments(f"shared {self._text(launch.shared_bytes)} bytes", given)
        if launch.cluster is not msgspec.UNSET:
            yield f"clusters of {self._text(launch.cluster)}"
        if launch.members is not msgspec.UNSET:
            yield f"one of {launch.members} side by side"
        if launch.overlaps is True:
            yield "overlaps what is before"
        yield f"given {', '.join(given)}"

    def guard(self, variant: p.Variant) -> list[str]:
        return [f"if {', '.join(map(self._condition, variant.guard))}"] if variant.guard else []

    def _condition(self, formula: p.FormulaJson) -> str:
        if isinstance(formula, list | tuple) and formula[0] == "aligned":
            return f"aligned({self.names[formula[1]]}, {formula[2]})"
        return self._text(formula)

    def _argument(self, arg: p.Arg[OriginalFid], slots: Mapping[int, p.FormulaJson]) -> str:
        match arg:
            case p.TensorArg(fid=fid) | p.ScalarArg(fid=fid):
                return self.names[fid]
            case p.StrideArg(fid=fid, dim=dim):
                return f"stride({self.names[fid]}, {dim})"
            case p.ExtentArg(fid=fid):
                return self._text(self.extents[fid])
            case p.FormulaArg(formula=formula):
                return self._text(formula)
            case p.WorkspaceArg(slot=slot):
                return f"slot {slot} of {self._text(slots[slot])} bytes"

    def _text(self, json: p.FormulaJson) -> str:
        if not isinstance(json, list | tuple):
            return str(json)
        return show(p.as_formula(json), self.shown)


def _with_arguments(text: str, given: Sequence[str]) -> str:
    """``text``, in which a long formula that is an argument too is called so."""
    for number, formula in enumerate(given, 1):
        if len(formula) > _LONG:
            text = text.replace(formula, f"argument {number}")
    return text
