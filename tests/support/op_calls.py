"""Calls of one op with new operands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from fusebuild.ir.dtype import DType
from fusebuild.ir.formula import Formula
from fusebuild.ops.builder import FusionBuilder

Operand: TypeAlias = tuple[DType, tuple[Formula, ...]] | DType | float
"""A tensor of a dtype and shape, a scalar of a dtype that is known at run time, or a constant."""


def result_types(op: str, operands: Sequence[Operand], **named: Any) -> list[str]:
    """The types of what ``op`` makes of ``operands``, as text."""
    builder = FusionBuilder("test")
    values = [
        builder.tensor(*each)
        if isinstance(each, tuple)
        else builder.scalar(each)
        if isinstance(each, DType)
        else builder.constant(each)
        for each in operands
    ]
    return [str(value.type) for value in builder.call(op, values, named)]
