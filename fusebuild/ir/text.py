"""A Fusion as text, for people and for golden files."""

from __future__ import annotations

from fusebuild.ir.dtype import DType
from fusebuild.ir.formula import show
from fusebuild.ir.fusion import Fusion
from fusebuild.ir.types import Literal
from fusebuild.ir.values import Attribute, Expr


def print_fusion(fusion: Fusion) -> str:
    """``fusion`` as text, one line a value: what ``--dump`` writes and golden tests compare."""
    lines = [f"fusion {fusion.name}"]
    for name, body in fusion.lambdas.items():
        lines += [f"  lambda {name}", *(f"  {line}" for line in print_fusion(body).splitlines()[1:])]
    lines += [f"  input  %{fid} {fusion.value(fid).name}: {fusion.value(fid).type}" for fid in fusion.inputs]
    lines += [
        f"  const  %{fid} = {_print_literal(value.literal)}: {value.type}"
        for fid, value in fusion.values.items()
        if value.is_constant
    ]
    lines += [f"  {print_expr(fusion, expr)}" for expr in fusion.exprs]
    for output in fusion.outputs:
        alias = "" if output.alias is None else f" alias %{output.alias}"
        shape = "" if output.shape is None else f" as [{', '.join(map(show, output.shape))}]"
        lines.append(f"  output %{output.fid} {output.name}{alias}{shape}")
    return "\n".join(lines) + "\n"


def print_expr(fusion: Fusion, expr: Expr) -> str:
    """One expr as text: ``%5 mean: float[M] = sum(%4, dims=[1])``."""
    results = ", ".join(f"%{fid} {fusion.value(fid).name}: {fusion.value(fid).type}" for fid in expr.outputs)
    operands = [f"%{fid}" for fid in expr.inputs]
    operands += [f"{name}={_print_attribute(value)}" for name, value in expr.attributes]
    return f"{results} = {expr.op}({', '.join(operands)})"


def _print_literal(literal: Literal | tuple[int, ...] | None) -> str:
    if isinstance(literal, bool):
        return str(literal).lower()
    return str(list(literal)) if isinstance(literal, tuple) else repr(literal)


def _print_attribute(value: Attribute) -> str:
    if isinstance(value, DType):
        return value.value
    if isinstance(value, tuple):
        if value and all(isinstance(item, DType) for item in value):
            return f"[{', '.join(item.value for item in value if isinstance(item, DType))}]"
        return f"[{', '.join(str(item).lower() if isinstance(item, bool) else show(item) for item in value)}]"
    return str(value).lower() if isinstance(value, bool) else str(value)
