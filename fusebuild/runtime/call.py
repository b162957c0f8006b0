"""What a call of a loaded plan does in Python: it gives back the caller's own tensors where outputs are those."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from fusebuild.plan import Plan
from fusebuild.runtime.unreadable import ERRORS, explained

Tensor: TypeAlias = Any
"""A torch tensor, or anything else that speaks DLPack; what comes out is of the kind that went in."""

Native: TypeAlias = Callable[..., Any]
"""A function of the native executor; ``native/export.cc`` describes them."""


def caller(plan: Plan, call: Native, call_into: Native, get_item: Native) -> Callable[..., Any]:
    """The function that :class:`fusebuild.runtime.loader.LoadedPlan` is when it is called.

    ``get_item(array, index)`` reads the arrays that ``call`` returns.
    """
    run = _for_any_outputs(plan, call, call_into, get_item)
    has_aliases = any(output.alias is not None for output in plan.outputs)
    return run if has_aliases or len(plan.outputs) != 1 else _for_one_output(plan, run, call, call_into)


def _for_one_output(plan: Plan, run: Callable[..., Any], call: Native, call_into: Native) -> Callable[..., Any]:
    """``run``, without what most calls of most plans do not need: it takes longer than checking the arguments."""

    def run_directly(*inputs: Tensor | float, out: Any = None, variant: int | None = None) -> Any:
        if variant is not None or isinstance(out, (tuple, list)):
            return run(*inputs, out=out, variant=variant)
        try:
            if out is None:
                return call(*inputs)
            call_into(None, *inputs, out)
        except ERRORS as error:
            raise explained(plan, inputs, (out,), error) from None
        return out

    return run_directly


def _for_any_outputs(plan: Plan, call: Native, call_into: Native, get_item: Native) -> Callable[..., Any]:
    names = tuple(output.name for output in plan.outputs)
    positions = {fid: position for position, fid in enumerate(plan.inputs)}
    aliases = tuple(None if output.alias is None else positions[output.alias] for output in plan.outputs)
    makes_all = not any(alias is not None for alias in aliases)

    def items(array: Any, count: int) -> tuple[Tensor, ...]:
        # Iterating over a tvm_ffi.Array costs three foreign calls per item; this costs one.
        return tuple([get_item(array, index) for index in range(count)])

    def given(out: Tensor | Sequence[Tensor | None] | None) -> tuple[Tensor | None, ...]:
        if out is None:
            return (None,) * len(names)
        outs = tuple(out) if isinstance(out, tuple | list) else (out,)
        if len(outs) != len(names):
            expected = f"{len(names)} tensors ({', '.join(names)})"
            raise TypeError(f"{plan.fusion}: out: expected {expected}, got {len(outs)}")
        return outs

    def run(*inputs: Tensor | float, out: Any = None, variant: int | None = None) -> Any:
        outs: tuple[Tensor | None, ...] = ()
        try:
            if out is None and variant is None and makes_all and len(names) > 1:
                return items(call(*inputs), len(names))
            outs = given(out)
            made = call_into(_checked_variant(variant), *inputs, *outs)
        except ERRORS as error:
            raise explained(plan, inputs, outs, error) from None
        is_made = [given is None and alias is None for given, alias in zip(outs, aliases, strict=True)]
        fresh = iter(items(made, sum(is_made)) if sum(is_made) > 1 else (made,))
        results = tuple(
            next(fresh) if new else given if given is not None else inputs[alias or 0]
            for new, given, alias in zip(is_made, outs, aliases, strict=True)
        )
        return results[0] if len(names) == 1 else results

    return run


def _checked_variant(variant: int | None) -> int | None:
    if variant is not None and (isinstance(variant, bool) or not isinstance(variant, int)):
        raise TypeError(f"variant: expected an int, got {type(variant).__name__}")
    return variant
