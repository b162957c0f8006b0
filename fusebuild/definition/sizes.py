"""Sizes made of scalars: of constants, of sizes of tensors, and of numbers that each call gives.

A Fusion has its symbols from the dims of its inputs. So that a number of a call can be a size, the definition has one
input more, a *ruler*: a tensor of bools that is as long as the number says, and of which nobody reads an element.
:meth:`FusionDefinition.execute` makes one from the number, without memory for its elements (:func:`with_rulers`); who
calls a recipe that was made of the definition passes one. A scalar that is computed otherwise than sizes are, such as
the greater of two, has a ruler as well, and is computed before the call.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from fusebuild.ir.formula import Formula, difference, evaluate, product, symbols, total
from fusebuild.ir.fusion import Fusion
from fusebuild.ir.types import Literal
from fusebuild.ir.values import Expr, Value
from fusebuild.ops.scalar_math import fold
from fusebuild.ops.table import operand_dtypes
from fusebuild.ops.type_rules import TypeRuleError

if TYPE_CHECKING:
    from fusebuild.definition.recorder import DefinitionRecorder


def size_of(recorder: DefinitionRecorder, op: str, scalar: Value) -> Formula:
    """``scalar`` as a size in a shape of ``op``. Raises :class:`TypeRuleError` for what is no integer."""
    if not scalar.dtype.is_integer:
        raise TypeRuleError(
            f"{op}: {scalar.name} is {scalar.dtype.value}, and a size is an integer",
            hint="define it with dtype=DataType.Int, or cast it",
        )
    if isinstance(scalar.literal, int):
        return scalar.literal
    source = next((expr for expr in recorder.builder.exprs if scalar.fid in expr.outputs), None)
    computed = None if source is None else _computed(recorder, op, source)
    return recorder.ruler(scalar) if computed is None else computed


def _computed(recorder: DefinitionRecorder, op: str, source: Expr) -> Formula | None:
    """What ``source`` makes of sizes; None where no formula of sizes says it."""
    if source.op == "size":
        extent: Formula = source.attribute("extent")
        return extent
    operands = [recorder.value(fid) for fid in source.inputs]
    if source.op not in ("add", "sub", "mul", "div") or not all(each.dtype.is_integer for each in operands):
        return None
    if source.op == "div" and not isinstance(operands[1].literal, int):
        return None
    first, second = (size_of(recorder, op, each) for each in operands)
    match source.op:
        case "add":
            return total([first, second])
        case "sub":
            return difference(first, second)
        case "mul":
            return product([first, second])
    if isinstance(second, int) and second > 0 and recorder.builder.algebra.is_nonnegative(first):
        return recorder.builder.algebra.canonical(("floor_div", first, second))
    return None


def with_rulers(fusion: Fusion, rulers: Mapping[int, int], given: Mapping[int, Any], device: Any) -> dict[int, Any]:
    """``given``, what a call of ``fusion`` gets by fid, and ``rulers`` on ``device``, which name the fids of their
    numbers. Raises ``TypeError`` and ``ValueError`` for a number that is no size."""
    found = dict(given)
    known: dict[Formula, int] = {}
    for fid in fusion.inputs:
        if fid in given and fusion.value(fid).is_tensor:
            known |= zip(fusion.value(fid).tensor.shape, getattr(given[fid], "shape", ()), strict=False)
    left = [fid for fid in fusion.inputs if fid in rulers]
    while left:
        fid = next((fid for fid in left if _is_known(fusion, fusion.value(rulers[fid]), known)), left[0])
        left.remove(fid)
        measure = fusion.value(rulers[fid])
        number = _number(fusion, measure, given, known)
        found[fid] = _measured(f"{fusion.name}: '{measure.name}'", number, device)
        known |= zip(fusion.value(fid).tensor.shape, found[fid].shape, strict=False)
    return found


def _is_known(fusion: Fusion, scalar: Value, known: Mapping[Formula, int]) -> bool:
    """Whether all sizes are ``known`` that ``scalar`` follows from: the one that a reshape was not given follows from
    those that it was, whose rulers may come later."""
    expr = fusion.expr_of(scalar.fid)
    if expr is None:
        return True
    if expr.op == "size":
        extent: Formula = expr.attribute("extent")
        return extent in known or {*symbols(extent)} <= {*known}
    if expr.op == "reshape":
        own = fusion.value(expr.outputs[0]).tensor.shape
        return sum(not {*symbols(extent)} <= {*known} for extent in own) <= 1
    return all(_is_known(fusion, fusion.value(fid), known) for fid in expr.inputs)


def _number(fusion: Fusion, scalar: Value, given: Mapping[int, Any], known: Mapping[Formula, int]) -> Literal | None:
    """``scalar`` where inputs are ``given`` and sizes are ``known``; None for what has no value."""
    if isinstance(scalar.literal, bool | int | float):
        return scalar.literal
    expr = fusion.expr_of(scalar.fid)
    if expr is None:
        number: Literal = given[scalar.fid]
        return number
    if expr.op == "size":
        return _size(expr.attribute("extent"), known)
    if expr.op == "reshape":
        return _left_out(fusion, expr, known)
    operands = [_number(fusion, fusion.value(fid), given, known) for fid in expr.inputs]
    numbers = [number for number in operands if number is not None]
    if len(numbers) < len(operands):
        return None
    return fold(expr.op, numbers, operand_dtypes(fusion, expr), scalar.dtype)


def _size(extent: Formula, known: Mapping[Formula, int]) -> int:
    """The size that ``extent`` is. A dim may be known whose symbols are not: what a reshape splits."""
    sizes = {symbol: size for symbol, size in known.items() if isinstance(symbol, str)}
    return known[extent] if extent in known else evaluate(extent, sizes)


def _left_out(fusion: Fusion, reshape: Expr, known: Mapping[Formula, int]) -> int:
    """The size that ``reshape`` was not given. Raises ``ValueError`` where none fits."""
    whole, shape = fusion.value(reshape.inputs[0]).tensor.shape, reshape.attribute("shape")
    others = [_size(extent, known) for extent in shape if {*symbols(extent)} <= {*known}]
    elements, part = math.prod(_size(extent, known) for extent in whole), math.prod(others)
    if part == 0 or elements % part:
        given = ", ".join(map(str, others))
        raise ValueError(f"{fusion.name}: {elements} elements cannot be reshaped to {given} and -1")
    return elements // part


def _measured(name: str, number: object, device: Any) -> Any:
    """The ruler on ``device`` for ``number``, which messages call ``name``."""
    if isinstance(number, bool) or not hasattr(number, "__index__"):
        raise TypeError(f"{name} is a size: expected an integer, got {type(number).__name__}")
    if (length := number.__index__()) < 0:
        raise ValueError(f"{name} is a size: expected 0 or more, got {length}")
    return _one_element(device).expand(length)


@lru_cache(maxsize=64)
def _one_element(device: Any) -> Any:
    import torch

    return torch.zeros(1, dtype=torch.bool, device=device)
