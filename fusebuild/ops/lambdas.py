"""Lambdas: small Fusions of scalars that generalized reductions and scans combine with.

A lambda takes the accumulated state and then what is combined into it, and gives the new state. It is disconnected from
the Fusion that uses it and is named by the ``combine`` attribute of an expr (the issue "Task formalism in our IR" of
NVIDIA/Fuser asks for just that). Its values stand for elements of tensors, so arithmetic promotes as it does there: a
constant takes the dtype of what it meets.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from fusebuild.ir.dtype import DType
from fusebuild.ir.fusion import Fusion
from fusebuild.ir.types import ValueType, tensor_type
from fusebuild.ir.values import Attribute, Output, Value
from fusebuild.ir.verify import verify
from fusebuild.ops.builder import FusionBuilder
from fusebuild.ops.table import OPS, Kind, op_of
from fusebuild.ops.type_rules import TypeRuleError

MAX_STATE_BYTES = 64
"""What a thread keeps of one state in registers, and a block of 256 threads in 16 KiB of shared memory."""


def is_scalar_op(name: str) -> bool:
    """Whether the body of a lambda may call the op ``name``."""
    return OPS[name].kind is Kind.POINTWISE and OPS[name].of_elements


class LambdaBuilder(FusionBuilder):
    """Records the body of one lambda. The inputs are ``left``, the state, and then ``right``."""

    def _operands(self, op: str, operands: Sequence[Value], named: Mapping[str, Attribute]) -> Sequence[Value]:
        """Scalars that stand for elements; constants take the dtype in which ``op`` meets them."""
        if not is_scalar_op(op):
            raise TypeRuleError(f"{op} is no op on scalars", hint="a lambda's body holds elementwise ops only")
        dtypes = OPS[op].operand_dtypes([_as_element(operand) for operand in operands], named)
        return [
            self._constant_as(operand, dtype) if operand.is_constant else operand
            for operand, dtype in zip(operands, dtypes, strict=True)
        ]

    def _constant_as(self, constant: Value, dtype: DType) -> Value:
        """``constant`` as a ``dtype``; what nothing reads in the end is dropped."""
        assert isinstance(constant.literal, bool | int | float)
        if constant.dtype is dtype or (isinstance(constant.literal, float) and not dtype.is_floating):
            return constant
        literal = bool(constant.literal) if dtype is DType.BOOL else constant.literal
        return self.constant(literal, dtype=dtype, location=constant.location)

    def finish_lambda(self, results: Sequence[Value], names: Sequence[str] = ()) -> Fusion:
        """The lambda whose new state is ``results``; its parts are called ``names``, or what the results are called."""
        read = {fid for expr in self.exprs for fid in expr.inputs} | {result.fid for result in results}
        fusion = Fusion(
            name=self.name,
            values={
                fid: value for fid, value in sorted(self.values.items()) if not value.is_constant or value.fid in read
            },
            exprs=tuple(self.exprs),
            inputs=tuple(self.inputs),
            outputs=tuple(
                Output(fid=result.fid, name=name, location=result.location)
                for result, name in zip(results, names or [result.name for result in results], strict=True)
            ),
            recorded=self._next_fid,
        )
        return verify(fusion)


def _as_element(value: Value) -> ValueType:
    """The type of ``value`` as an operand: a constant is a scalar, anything else an element of a tensor."""
    return value.type if value.is_constant else tensor_type(value.dtype, ("elements",))


def state_dtypes(body: Fusion) -> tuple[DType, ...]:
    """The dtypes of the state that ``body`` makes."""
    return tuple(body.value(fid).dtype for fid in body.output_fids)


def state_bytes(dtypes: Sequence[DType]) -> int:
    """The size of a C struct with members of ``dtypes`` in their order."""
    size, widest = 0, 1
    for dtype in dtypes:
        size += -size % dtype.bytes + dtype.bytes
        widest = max(widest, dtype.bytes)
    return size + -size % widest


def lambda_form(body: Fusion) -> str:
    """What ``body`` computes, as a digest: equal for lambdas that differ in names and fids, in the order of independent
    statements, or in the order of operands where that makes no difference."""
    forms = {
        fid: _digest("constant", value.dtype.value, repr(value.literal))
        for fid, value in body.values.items()
        if value.is_constant
    }
    for place, fid in enumerate(body.inputs):
        forms[fid] = _digest("input", str(place), body.value(fid).dtype.value)
    for expr in body.exprs:
        op, operands = op_of(expr), [forms[fid] for fid in expr.inputs]
        if op.mirror:
            operands.reverse()
        if op.is_commutative:
            operands.sort()
        named = repr(sorted(expr.attributes))
        forms |= {
            fid: _digest(op.mirror or op.name, named, str(part), *operands) for part, fid in enumerate(expr.outputs)
        }
    return _digest(*(forms[fid] for fid in body.output_fids))


def _digest(*words: str) -> str:
    return hashlib.sha256("\0".join(words).encode()).hexdigest()
