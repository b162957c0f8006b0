"""Kinds of variants: which of a scheduler's templates run, whatever their numbers are."""

from __future__ import annotations

import re
from collections.abc import Mapping

from fusebuild.artifact.plan import PlanSegment, Variant
from fusebuild.ir.formula import Formula, evaluate

SIZED = re.compile(
    r"^(?:(?!(?:registers|striped|shared|shifted|staged|cluster|resident|edged)\d+_|rows_vec)[A-Za-z_]\w*?\d+_)+?"
    r"(?=registers|striped|staged|cluster|resident|edged|shared|tiled|threaded|shifted|reread|rows|scratch|vec|scalar)"
)
"""What stands before the name of a variant for sizes that a recipe names: ``N768_``."""


Kind = tuple[str, str]
"""A scheduler, and its templates with the name of a variant whose numbers are left out."""


def kind_of(segment: PlanSegment, variant: Variant) -> Kind:
    templates = dict.fromkeys(launch.kernel.rsplit("_", 1)[0] for launch in variant.launches)
    name = SIZED.sub("", variant.name, count=1)
    counted = r"(vec|registers|striped|shared|shifted|staged|cluster|resident|edged|split|_)(\d+)"
    name = re.sub(counted, lambda match: match[1] + ("1" if match[2] == "1" else "N"), name)
    return segment.scheduler, " ".join([*templates, name])


def is_sized(variant: Variant) -> bool:
    return SIZED.match(variant.name) is not None


def holds(guard: Formula, sizes: Mapping[str, int]) -> bool:
    """For tensors that are aligned."""
    return (isinstance(guard, tuple) and guard[0] == "aligned") or bool(evaluate(guard, sizes))
