"""What a call of a loaded plan does in Python: it gives back the caller's own tensors where outputs are those."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from fusebuild.plan import Plan, TargetPlan
from fusebuild.runtime.memory import TorchMemory, torch_memory
from fusebuild.runtime.unreadable import ERRORS, explained

Tensor: TypeAlias = Any
"""A torch tensor, or anything else that speaks DLPack; what comes out is of the kind that went in."""

Native: TypeAlias = Callable[..., Any]
"""A function of the native executor; ``native/export.cc`` describes them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Executor:
    """The native functions that a loaded plan consists of; ``native/export.cc`` describes the first four."""

    call: Native
    call_into: Native
    check: Native
    variants_for: Native
    get_item: Native
    """``get_item(array, index)`` reads the arrays that ``call`` and ``call_into`` return."""
    num_devices: int
    """How many GPUs it could run on; 0 for code for the CPU."""


def caller(plan: Plan, target: TargetPlan, executor: Executor) -> Callable[..., Any]:
    """The function that :class:`fusebuild.runtime.loader.LoadedPlan` is when it is called."""
    memory = torch_memory(plan, target, executor.check, executor.num_devices)
    run = _for_any_outputs(plan, executor, memory)
    has_aliases = any(output.alias is not None for output in plan.outputs)
    return run if has_aliases or len(plan.outputs) != 1 else _for_one_output(plan, executor, memory, run)


def _for_one_output(
    plan: Plan, executor: Executor, memory: TorchMemory | None, run: Callable[..., Any]
) -> Callable[..., Any]:
    """``run``, without what most calls of most plans do not need: it takes longer than checking the arguments."""
    call, call_into = executor.call, executor.call_into
    make_one = (lambda inputs: None) if memory is None else memory.maker_of_one()

    def run_directly(*inputs: Tensor | float, out: Any = None, variant: int | None = None) -> Any:
        if variant is not None or (out is not None and isinstance(out, (tuple, list))):
            return run(*inputs, out=out, variant=variant)
        try:
            if out is None:
                out = make_one(inputs)
                if out is None:
                    return call(*inputs)
            call_into(None, *inputs, out)
        except ERRORS as error:
            raise explained(plan, inputs, (out,), error) from None
        return out

    return run_directly


def _for_any_outputs(plan: Plan, executor: Executor, memory: TorchMemory | None) -> Callable[..., Any]:
    call_into, get_item = executor.call_into, executor.get_item
    names = tuple(output.name for output in plan.outputs)
    positions = {fid: position for position, fid in enumerate(plan.inputs)}
    aliases = tuple(None if output.alias is None else positions[output.alias] for output in plan.outputs)
    has_aliases = any(alias is not None for alias in aliases)

    def items(array: Any, count: int) -> tuple[Tensor, ...]:
        # Iterating over a tvm_ffi.Array costs three foreign calls per item; this costs one.
        return tuple([get_item(array, index) for index in range(count)])

    def given(out: Tensor | Sequence[Tensor | None] | None) -> Sequence[Tensor | None]:
        if out is None:
            return (None,) * len(names)
        outs = tuple(out) if isinstance(out, tuple | list) else (out,)
        if len(outs) != len(names):
            expected = f"{len(names)} tensors ({', '.join(names)})"
            raise TypeError(f"{plan.fusion}: out: expected {expected}, got {len(outs)}")
        return outs

    def run(*inputs: Tensor | float, out: Any = None, variant: int | None = None) -> Any:
        outs = given(out)
        try:
            outs = outs if memory is None else memory.make(inputs, outs)
            made = call_into(_checked_variant(variant), *inputs, *outs)
        except ERRORS as error:
            raise explained(plan, inputs, outs, error) from None
        if made is None and not has_aliases:
            return outs[0] if len(names) == 1 else tuple(outs)
        is_made = [out is None and alias is None for out, alias in zip(outs, aliases, strict=True)]
        fresh = iter(items(made, sum(is_made)) if sum(is_made) > 1 else (made,))
        results = tuple(
            next(fresh) if new else out if out is not None else inputs[alias or 0]
            for new, out, alias in zip(is_made, outs, aliases, strict=True)
        )
        return results[0] if len(names) == 1 else results

    return run


def _checked_variant(variant: int | None) -> int | None:
    if variant is not None and (isinstance(variant, bool) or not isinstance(variant, int)):
        raise TypeError(f"variant: expected an int, got {type(variant).__name__}")
    return variant
