"""Whether a Fusion is well formed."""

from __future__ import annotations

from fusebuild.errors import InvalidFusionError
from fusebuild.ir.formula import symbols
from fusebuild.ir.fusion import Fusion
from fusebuild.ir.types import ScalarType, TensorType


def verify(fusion: Fusion) -> Fusion:
    """``fusion`` itself, when it is well formed.

    Checks that fids agree with their keys, that every read value is defined before it is read and defined once, that
    inputs, outputs and aliases exist and fit, that every symbol comes from an input's shape, that every lambda is a
    Fusion of scalars, and that composites have values and exprs and lie within their parents.

    Raises :class:`InvalidFusionError` naming the fusion and the first broken invariant.
    """
    problem = _first_problem(fusion)
    if problem:
        raise InvalidFusionError(f"fusion {fusion.name}: {problem}")
    return fusion


def _first_problem(fusion: Fusion) -> str:
    for fid, value in fusion.values.items():
        if fid != value.fid:
            return f"value {value.fid} is filed under fid {fid}"
    if missing := [fid for fid in (*fusion.inputs, *fusion.output_fids) if fid not in fusion.values]:
        return f"fid {missing[0]} is an input or output but no value"
    checks = (_definition_problem, _symbol_problem, _alias_problem, _lambda_problem, _composite_problem)
    return next((problem for check in checks if (problem := check(fusion))), "")


def _definition_problem(fusion: Fusion) -> str:
    defined = set(fusion.inputs) | {fid for fid, value in fusion.values.items() if value.is_constant}
    for expr in fusion.exprs:
        for fid in expr.inputs:
            if fid not in defined:
                return f"{expr.op} reads fid {fid} before it is defined"
        for fid in expr.outputs:
            if fid in defined:
                return f"fid {fid} is defined twice"
            if fid not in fusion.values:
                return f"{expr.op} defines fid {fid}, which is no value"
            defined.add(fid)
    undefined = [fid for fid in fusion.output_fids if fid not in defined]
    return f"output fid {undefined[0]} is never defined" if undefined else ""


def _symbol_problem(fusion: Fusion) -> str:
    extents = [binding.extent for binding in fusion.extents]
    bound = {extent for extent in extents if isinstance(extent, str)}
    if any(isinstance(extent, tuple) for extent in extents):
        bound |= {*fusion.symbols}
        if unknown := [symbol for symbol in fusion.solved.unknown if symbol not in fusion.given]:
            return f"symbol {unknown[0]} cannot be told from the shapes of inputs"
    for value in fusion.values.values():
        if not isinstance(value.type, TensorType):
            continue
        if not len(value.type.shape) == len(value.type.contiguity) == len(value.type.stride_order):
            return f"fid {value.fid} has {value.type.rank} dims but other numbers of contiguity flags or strides"
        for extent in value.type.shape:
            if free := [each for each in symbols(extent) if each not in bound and each not in fusion.given]:
                return f"symbol {free[0]} of fid {value.fid} is no dim of any input"
    return ""


def _alias_problem(fusion: Fusion) -> str:
    for output in fusion.outputs:
        if output.alias is None:
            continue
        if output.shape is not None:
            return f"output {output.name} has another shape than the input that it aliases"
        if output.alias not in fusion.inputs:
            return f"output {output.name} aliases fid {output.alias}, which is no input"
        result, target = fusion.values[output.fid], fusion.values[output.alias]
        if not result.is_tensor or not target.is_tensor or result.tensor.shape != target.tensor.shape:
            return f"output {output.name} does not fit the input that it aliases"
    return ""


def _lambda_problem(fusion: Fusion) -> str:
    for expr in fusion.exprs:
        if expr.combine and expr.combine not in fusion.lambdas:
            return f"{expr.op} combines with '{expr.combine}', which is no lambda"
    for name, body in fusion.lambdas.items():
        if problem := _first_problem(body):
            return f"lambda {name}: {problem}"
        if any(not isinstance(value.type, ScalarType) for value in body.values.values()):
            return f"lambda {name} holds values that are no scalars"
        left, right = body.inputs[: len(body.outputs)], body.inputs[len(body.outputs) :]
        state = [body.value(fid).dtype for fid in body.output_fids]
        if any([body.value(fid).dtype for fid in side] != state for side in (left, right)):
            return f"lambda {name} does not make a state of two of its kind"
    return ""


def _composite_problem(fusion: Fusion) -> str:
    covered: list[frozenset[int]] = []
    for index, composite in enumerate(fusion.composites):
        if unknown := [fid for fid in (*composite.inputs, *composite.outputs) if fid not in fusion.values]:
            return f"fid {unknown[0]} of composite {composite.name} is no value"
        task = fusion.composite_task(composite)
        if task is None:
            return f"composite {composite.name} computes nothing"
        covered.append(frozenset(task.exprs))
        if composite.parent is None:
            continue
        if not 0 <= composite.parent < index:
            return f"composite {composite.name} comes before its parent"
        if not covered[index] <= covered[composite.parent]:
            return f"composite {composite.name} lies outside its parent {fusion.composites[composite.parent].name}"
    return ""
