"""What a recipe expects of its plan, beside what the plan has: segments, and bytes at the sizes of a case."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from fusebuild.artifact.plan import TargetPlan, as_formula
from fusebuild.errors import NOWHERE, Diagnostic, SourceLocation, counted
from fusebuild.ir.formula import Formula, known_value, show, total
from fusebuild.recipe.expect import Expectation
from fusebuild.recipe.recipe import Recipe

SLACK_PERCENT = 2
"""So much more than the expected bytes is let pass: small tensors that a formula leaves out."""


_NEXT_LINE = "\n        "
"""Between lines of a hint, so that they stand below its first word."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Excess:
    """What a plan has more of than its recipe expects. ``case`` has the sizes at which it does, and is None where all
    do."""

    place: SourceLocation
    message: str
    hint: str
    case: Mapping[str, int] | None = None


def hbm_bytes(target: TargetPlan) -> Formula:
    """The bytes that all segments of ``target`` read and write."""
    return total([as_formula(segment.hbm_bytes) for segment in target.segments])


def excess(expected: Expectation, target: TargetPlan, cases: Iterable[Mapping[str, int]]) -> list[Excess]:
    """What ``target`` has more of than is ``expected``: segments, of which a group is one, and bytes at the first of
    ``cases`` where they are too many."""
    bytes_ = (found for case in cases if (found := _excess_bytes(expected, target, case)))
    return [found for found in (_excess_segments(expected, target), next(bytes_, None)) if found]


def _excess_segments(expected: Expectation, target: TargetPlan) -> Excess | None:
    most, count = expected.segments, len({*target.together})
    if most is None or count <= most:
        return None
    cuts = [_cut(segment.id, why) for segment in target.segments for why in segment.why]
    return Excess(
        place=expected.segments_place or NOWHERE,
        message=f"has {counted(count, 'segment')}, and at most {most} {'is' if most == 1 else 'are'} expected",
        hint=_NEXT_LINE.join(cuts) or "each segment reads only what the caller gives",
    )


def _cut(segment: int, why: str) -> str:
    """Why ``segment`` is cut from another one, a line for each family of kernels that does not take both."""
    cut, _, reasons = why.partition(": ")
    return f"{_NEXT_LINE}  ".join([f"segment {segment} is {cut}", *reasons.split("; ")])


def _excess_bytes(expected: Expectation, target: TargetPlan, case: Mapping[str, int]) -> Excess | None:
    if expected.bytes is None:
        return None
    moved = hbm_bytes(target)
    count, most = known_value(moved, case), known_value(expected.bytes, case)
    if count is None or most is None or 100 * count <= (100 + SLACK_PERCENT) * most:
        return None
    sizes = ", ".join(f"{symbol}={size}" for symbol, size in case.items())
    return Excess(
        place=expected.bytes_place or NOWHERE,
        message=f"moves {_bytes(count, moved)}{f' at {sizes}' if sizes else ''}, "
        f"more than the {_bytes(most, expected.bytes)} that are expected",
        hint=_NEXT_LINE.join([*_moved(target, case), f"{SLACK_PERCENT} % more than expected are let pass"]),
        case=case,
    )


def _moved(target: TargetPlan, case: Mapping[str, int]) -> Iterable[str]:
    """The bytes of each segment of ``target``."""
    for segment in target.segments:
        formula = as_formula(segment.hbm_bytes)
        count = known_value(formula, case)
        assert count is not None
        yield f"segment {segment.id} moves {_bytes(count, formula)}"


def _bytes(count: int, formula: Formula) -> str:
    shown = show(formula)
    return f"{count:,} bytes" if shown == str(count) else f"{count:,} bytes = {shown}"


def complaints(recipe: Recipe, targets: Sequence[TargetPlan]) -> list[Diagnostic]:
    """What the plans for ``targets`` have more of than ``recipe`` expects, at any of its cases. Targets of which the
    same is to be said are named together."""
    cases = recipe.fusion.cases or ({},)
    found: dict[tuple[SourceLocation, str, str], list[str]] = {}
    for target in targets:
        for each in excess(recipe.expected, target, cases):
            found.setdefault((each.place, each.message, each.hint), []).append(target.target)
    return [
        Diagnostic(location=place, message=f"the plan for {' and '.join(names)} {message}", hint=hint)
        for (place, message, hint), names in found.items()
    ]
