"""Which argument of a call it was that tvm-ffi could not read, or that nobody gave.

tvm-ffi turns arguments into DLPack before the executor sees them. Where a tensor cannot be (it is sparse, on ``meta``,
inside of a transformation of torch, or read-only), what comes is an error of whoever made the tensor, with no name in
it. Looking for that argument again costs only calls that have failed.

A tensor whose elements torch has yet to negate raises no error there: it would be read with the wrong signs.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

from fusebuild.artifact.plan import Plan
from fusebuild.errors import counted

_UNREADABLE = (BufferError, RuntimeError)
"""What is raised for a tensor that cannot be read, and for more."""

ERRORS = (*_UNREADABLE, TypeError)
"""What a call raises that can be said better."""

ABSENT = object()
"""In the place of an input that was not given, as where others are given by name."""

_OBJECT = " an object of type "
"""After it the executor says what tvm-ffi made of an argument that is neither tensor nor number."""


def is_negated(value: Any) -> bool:
    """Whether ``value`` is a tensor of torch's that stands for the negative of what is in its memory, as
    ``z.conj().imag`` does."""
    is_neg = getattr(value, "is_neg", None)
    return is_neg is not None and is_neg()


def explained(plan: Plan, inputs: Sequence[Any], outs: Sequence[Any], error: Exception) -> Exception:
    """A ``TypeError`` that says which of ``inputs`` was not given, or names the first of ``inputs`` and ``outs`` that
    cannot be read; ``error``, which a call with them raised, where all can be, in the caller's own words."""
    names = [plan.value(fid).name for fid in plan.inputs]
    if any(given is ABSENT for given in inputs):
        missing = [str(name) for name, given in zip_longest(names, inputs, fillvalue=ABSENT) if given is ABSENT]
        expected = f"{counted(len(names), 'argument')} ({', '.join(names)})"
        return TypeError(f"{plan.fusion}: expected {expected}, got none for {', '.join(missing)}")
    if len(inputs) != len(names):
        return error
    places = [f"argument {i} '{name}'" for i, name in enumerate(names)]
    places += [f"out {i} '{output.name}'" for i, output in enumerate(plan.outputs)]
    for place, value in zip(places, [*inputs, *outs], strict=False):
        if reason := _reason(value):
            wanted = "expected a tensor in memory that DLPack describes"
            return TypeError(f"{plan.fusion}: {place}: {wanted}, got {_type_name(value)}: {reason}")
        said, is_object, _ = str(error).rpartition(_OBJECT)
        if is_object and said.startswith(f"{plan.fusion}: {place}: "):
            return TypeError(f"{said}{_OBJECT}{_type_name(value)}")
    return error


def _type_name(value: Any) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")


def _reason(value: Any) -> str:
    """The first line of what reading ``value`` raises; empty when it can be read."""
    import tvm_ffi

    if is_negated(value):
        return "torch has not negated its elements yet; resolve_neg() does"
    try:
        tvm_ffi.convert(value)
    except _UNREADABLE as error:
        return str(error).partition("\n")[0] or type(error).__name__
    return ""
