"""What a call of a loaded plan does in Python: it gives back the caller's own tensors where outputs are those.

torch.compile leaves such a call alone, unless it is that of an operator: otherwise it would compile the Python of the
call, again for each new shape, and find nothing in it that it knows.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from fusebuild.artifact.plan import Plan, TargetPlan
from fusebuild.errors import counted
from fusebuild.runtime.direct import directly
from fusebuild.runtime.memory import TorchMemory, torch_memory
from fusebuild.runtime.unreadable import ERRORS, explained, is_negated

Tensor: TypeAlias = Any
"""A torch tensor, or anything else that speaks DLPack; what comes out is of the kind that went in."""

Native: TypeAlias = Callable[..., Any]
"""A function of the native executor; ``native/export.cc`` describes them."""


@dataclass(frozen=True, slots=True)
class Executor:
    """The functions that a loaded plan consists of; ``native/export.cc`` describes those after ``num_devices``, and
    gives them in this order."""

    get_item: Native
    """``get_item(array, index)`` reads the arrays that ``call`` returns."""
    num_devices: int
    """How many GPUs it could run on; 0 for code for the CPU."""
    call: Native
    call_into_given: Native
    call_into_new: Native
    check: Native
    variants_for: Native


def caller(plan: Plan, target: TargetPlan, executor: Executor) -> Callable[..., Any]:
    """The function that :class:`fusebuild.runtime.loader.LoadedPlan` is when it is called."""
    memory = torch_memory(plan, target, executor.check, executor.num_devices)
    run = _general(plan, executor, memory)
    run.__qualname__ = plan.fusion  # what Python calls it where keywords do not fit
    call = directly(plan, executor, memory, run) if plan.inputs else run
    _leave_alone(call)
    return call


def _leave_alone(function: Any) -> None:
    """Make torch.compile break its graph at ``function``. This does what ``torch._dynamo.disable`` would, which takes a
    wrapper's time in every call and seconds to import; nothing where torch is not in use, or has not got this way."""
    frames: Any = getattr(getattr(sys.modules.get("torch._C"), "_dynamo", None), "eval_frame", None)
    if hasattr(frames, "_FrameExecStrategy"):
        skip = frames._FrameAction.SKIP
        function._torchdynamo_disable = True
        frames.set_code_exec_strategy(function.__code__, frames._FrameExecStrategy(skip, skip))


def _general(plan: Plan, executor: Executor, memory: TorchMemory | None) -> Callable[..., Any]:
    """What takes any call, of any plan."""
    call, get_item = executor.call, executor.get_item
    names = tuple(output.name for output in plan.outputs)
    overwritten = plan.overwritten
    overwrites = any(place is not None for place in overwritten)

    def items(array: Any, count: int) -> tuple[Tensor, ...]:
        # Iterating over a tvm_ffi.Array costs three foreign calls per item; this costs one.
        return tuple([get_item(array, index) for index in range(count)])

    def given(out: Tensor | Sequence[Tensor | None] | None) -> Sequence[Tensor | None]:
        if out is None:
            return (None,) * len(names)
        outs = tuple(out) if isinstance(out, tuple | list) else (out,)
        if len(outs) != len(names):
            expected = f"{counted(len(names), 'tensor')} ({', '.join(names)})"
            raise TypeError(f"{plan.fusion}: out: expected {expected}, got {len(outs)}")
        return outs

    def run(*inputs: Tensor | float, out: Any = None, variant: int | None = None) -> Any:
        outs = given(out)
        if any(is_negated(each) for each in (*inputs, *outs)):
            raise explained(plan, inputs, outs, TypeError(f"{plan.fusion}: an argument is to be negated yet"))
        try:
            outs = outs if memory is None else memory.make(inputs, outs)
            made = call(_checked_variant(variant), *inputs, *outs)
        except ERRORS as error:
            raise explained(plan, inputs, outs, error) from None
        if made is None and not overwrites:
            return outs[0] if len(names) == 1 else tuple(outs)
        is_made = [out is None and place is None for out, place in zip(outs, overwritten, strict=True)]
        fresh = iter(items(made, sum(is_made)) if sum(is_made) > 1 else (made,))
        results = tuple(
            next(fresh) if new else out if out is not None else inputs[place or 0]
            for new, out, place in zip(is_made, outs, overwritten, strict=True)
        )
        return results[0] if len(names) == 1 else results

    return run


def _checked_variant(variant: int | None) -> int | None:
    if variant is not None and (isinstance(variant, bool) or not isinstance(variant, int)):
        raise TypeError(f"variant: expected an int, got {type(variant).__name__}")
    if variant is not None and abs(variant) >= 2**63:
        raise ValueError(f"variant {variant} does not exist")
    return variant
