"""Ops on known scalars, computed in Python with the rounding and wrapping of their dtypes.

Python's floats are doubles. A float32 sum, product, quotient or square root computed in double and rounded once is the
correctly rounded one, so nothing is lost by computing here. What an op means is its ``scalar`` (``op_def.py``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from fusebuild.ir.dtype import DType
from fusebuild.ir.types import Literal
from fusebuild.ops.scalars import MeaningError, called, is_defined, rounded
from fusebuild.ops.table import OPS


def fold(op: str, operands: Sequence[Literal], operand_dtypes: Sequence[DType], result: DType) -> Literal | None:
    """``op`` of ``operands``, each first converted to its dtype, as a ``result``; None when the op means nothing for
    numbers of these dtypes, and where devices differ."""
    try:
        return compute(op, operands, operand_dtypes, result) if has_scalar_meaning(op, operand_dtypes) else None
    except MeaningError:
        return None


def compute(op: str, operands: Sequence[Literal], operand_dtypes: Sequence[DType], result: DType) -> Literal | None:
    """:func:`fold` for an op that :func:`has_scalar_meaning` for these dtypes. Raises :class:`MeaningError` where what
    was given as its meaning fails."""
    scalar = OPS[op].scalar
    assert scalar is not None
    converted = [convert(operand, dtype) for operand, dtype in zip(operands, operand_dtypes, strict=True)]
    if any(value is None for value in converted):
        return None
    value = called(scalar, operand_dtypes[-1], converted)  # None: integers by zero, say, which torch refuses too
    return None if value is None else convert(value, result)


def has_scalar_meaning(op: str, dtypes: Sequence[DType]) -> bool:
    """Whether ``op`` can be computed on numbers of ``dtypes``."""
    scalar = OPS[op].scalar
    return scalar is not None and len(dtypes) > 0 and is_defined(scalar, dtypes[-1], len(dtypes))


def convert(literal: Literal, dtype: DType) -> Literal | None:
    """``literal`` as a ``dtype``; None for a float that fits no integer, where devices differ."""
    if dtype is DType.BOOL:
        return bool(literal)
    if dtype.is_integer:
        if isinstance(literal, float) and not abs(literal) < 2.0 ** (8 * dtype.bytes - 1):
            return None
        return _wrap(int(literal), 8 * dtype.bytes)
    try:
        return rounded(float(literal), dtype)
    except OverflowError:  # an integer
        return math.inf if literal > 0 else -math.inf


def _wrap(value: int, bits: int) -> int:
    return (value + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1))
