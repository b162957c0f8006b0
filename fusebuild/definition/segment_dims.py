"""A segment as a definition of its own, which takes and gives tensors in the dims that the whole definition has.

A pass may have an output computed in finer dims than the caller gets it in (:attr:`Output.shape`). Who runs segments
one by one passes tensors on as the caller sees them, so the reshapes that the pass took away are written out again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from fusebuild.ir.fid import OriginalFid, SegmentFid
from fusebuild.ir.formula import Formula
from fusebuild.ir.fusion import Fusion
from fusebuild.ir.types import tensor_type
from fusebuild.ir.values import Expr, Output, Value
from fusebuild.segmentation import Segment


def in_the_callers_dims(segment: Segment, whole: Fusion) -> tuple[Fusion, dict[SegmentFid, OriginalFid]]:
    """The Fusion of ``segment`` with such reshapes of what it reads and gives, and the map from its inputs and outputs
    to the fids of ``whole``."""
    shapes = {output.fid: output.shape for output in whole.outputs if output.shape is not None}
    fusion, fid_map = segment.fusion, dict(segment.fid_map)
    reshaped = {own: shapes[original] for own, original in fid_map.items() if original in shapes}
    for fid, shape in reshaped.items():
        if fid in fusion.inputs:
            fusion = _read_reshaped(fusion, fid, shape)
        else:
            fusion, given = _given_reshaped(fusion, fid, shape)
            fid_map[given] = fid_map.pop(fid)
    return fusion, fid_map


def _read_reshaped(fusion: Fusion, fid: SegmentFid, shape: tuple[Formula, ...]) -> Fusion:
    """``fusion`` with the input ``fid`` of another ``shape``, reshaped before anything reads it."""
    own, finer = fusion.value(fid), fusion.next_fid
    taken = replace(own, type=tensor_type(own.dtype, shape))
    numbers = {each: each for each in fusion.values} | {fid: finer}
    exprs = [
        _reshape(fid, finer, own.tensor.shape),
        *(replace(expr, inputs=tuple(numbers[each] for each in expr.inputs)) for expr in fusion.exprs),
    ]
    return _with(fusion, exprs, {fid: taken, finer: replace(own, fid=finer)}, fusion.outputs)


def _given_reshaped(fusion: Fusion, fid: SegmentFid, shape: tuple[Formula, ...]) -> tuple[Fusion, SegmentFid]:
    """``fusion`` with its output ``fid`` reshaped to ``shape``, and the fid of that."""
    own, given = fusion.value(fid), SegmentFid(fusion.next_fid)
    value = replace(own, fid=given, type=tensor_type(own.dtype, shape))
    outputs = tuple(replace(each, fid=given, shape=None) if each.fid == fid else each for each in fusion.outputs)
    return _with(fusion, [*fusion.exprs, _reshape(fid, given, shape)], {given: value}, outputs), given


def _reshape(source: int, result: int, shape: tuple[Formula, ...]) -> Expr:
    return Expr(op="reshape", inputs=(source,), outputs=(result,), attributes=(("shape", shape),))


def _with(fusion: Fusion, exprs: list[Expr], values: Mapping[int, Value], outputs: tuple[Output, ...]) -> Fusion:
    return replace(
        fusion,
        exprs=tuple(exprs),
        values=dict(sorted((dict(fusion.values) | dict(values)).items())),
        outputs=outputs,
        recorded=max(fusion.recorded, *(fid + 1 for fid in values)),
    )
