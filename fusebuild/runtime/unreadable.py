"""Which argument of a call it was that tvm-ffi could not read.

tvm-ffi turns arguments into DLPack before the executor sees them. Where a tensor cannot be (it is sparse, on ``meta``,
inside of a transformation of torch, or read-only), what comes is an error of whoever made the tensor, with no name in
it. Looking for that argument again costs only calls that have failed.

What comes for one whose elements torch has yet to negate is no error at all but the elements as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fusebuild.plan import Plan

ERRORS = (BufferError, RuntimeError)
"""What is raised for a tensor that cannot be read, and for more."""


def is_negated(value: Any) -> bool:
    """Whether ``value`` is a tensor of torch's that stands for the negative of what is in its memory, as
    ``z.conj().imag`` does."""
    is_neg = getattr(value, "is_neg", None)
    return is_neg is not None and is_neg()


def explained(plan: Plan, inputs: Sequence[Any], outs: Sequence[Any], error: Exception) -> Exception:
    """A ``TypeError`` that names the first of ``inputs`` and ``outs`` that cannot be read; ``error``, which a call with
    them raised, where all can be."""
    if len(inputs) != len(plan.inputs):
        return error
    names = [f"argument {i} '{plan.value(fid).name}'" for i, fid in enumerate(plan.inputs)]
    names += [f"out {i} '{output.name}'" for i, output in enumerate(plan.outputs)]
    for name, value in zip(names, [*inputs, *outs], strict=False):
        if reason := _reason(value):
            kind = f"{type(value).__module__}.{type(value).__qualname__}"
            wanted = "expected a tensor in memory that DLPack describes"
            return TypeError(f"{plan.fusion}: {name}: {wanted}, got {kind}: {reason}")
    return error


def _reason(value: Any) -> str:
    """The first line of what reading ``value`` raises; empty when it can be read."""
    import tvm_ffi

    if is_negated(value):
        return "torch has not negated its elements yet; resolve_neg() does"
    try:
        tvm_ffi.convert(value)
    except ERRORS as error:
        return str(error).partition("\n")[0] or type(error).__name__
    return ""
