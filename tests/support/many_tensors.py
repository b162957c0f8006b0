"""Recipes that do the same to many tensors."""

from __future__ import annotations

from collections.abc import Sequence

from fusebuild.segmentation import SegmentedFusion, segment
from fusebuild.target.table import TARGETS
from support.small_recipes import primitive, text_of

SM_90 = TARGETS["sm_90"]


def decay_text(shapes: Sequence[str], dtype: str = "float", name: str = "decay") -> str:
    """Each tensor of ``shapes``, such as ``M, N``, less a part of itself, in place."""
    places = range(len(shapes))
    body = "\n".join(f"y{i} = x{i} - x{i} * rate" for i in places)
    inputs = {f"x{i}": f"{dtype}[{shape}]" for i, shape in enumerate(shapes)}
    outputs = {f"y{i}": f"{{dtype: {dtype}, alias: x{i}}}" for i in places}
    return text_of(inputs, body, outputs, name=name, scalars={"rate": "float"})


def clip_text(shapes: Sequence[str], name: str = "clip") -> str:
    """Tensors of ``shapes`` over the length of all of them, and that length."""
    places = range(len(shapes))
    sums = [f"s{i} = sum(x{i} * x{i})" for i in places]
    scaled = [f"y{i} = x{i} / length" for i in places]
    length = f"length = sqrt({' + '.join(f's{i}' for i in places)}) + 1.0"
    inputs = {f"x{i}": f"float[{shape}]" for i, shape in enumerate(shapes)}
    outputs = {f"y{i}": "float" for i in places} | {"length": "float"}
    return text_of(inputs, "\n".join([*sums, length, *scaled]), outputs, name=name)


def segmented(text: str) -> SegmentedFusion:
    return segment(primitive(text), SM_90)


def groups(found: SegmentedFusion) -> list[tuple[int, int] | None]:
    """For each segment the first one of its group and how many that has."""
    return [None if each.member is None else (each.member.group, each.member.count) for each in found.segments]
