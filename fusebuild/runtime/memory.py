"""Memory of results: torch's own, wherever torch's tensors come in.

What torch gets through DLPack is a tensor whose memory is somebody else's. ``record_stream`` does nothing for it, so
that other work may overwrite what a stream still reads; its storage cannot be resized, as sharded training does; and it
takes the host twice as long to make as one of torch's own. So torch allocates every result that has memory of its
own, and the executor writes into it as into an ``out``. The others the executor makes: parts of what a kernel writes,
and results that share memory.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from fusebuild.artifact.plan import Plan, PlanValue, TargetPlan, as_formula
from fusebuild.ir.fid import OriginalFid
from fusebuild.ir.formula import symbols
from fusebuild.runtime.layout_text import ResultsText, results_text
from fusebuild.runtime.layouts import told_by

Tensor: TypeAlias = Any
Check: TypeAlias = Callable[..., object]
Sizes: TypeAlias = tuple[int, ...]
Layout: TypeAlias = tuple[Sizes, Sizes, Any]
"""Shape and strides in elements, and torch's dtype."""
Empty: TypeAlias = Callable[[Tensor, Sizes, Sizes, Any], Tensor]
"""``empty(like, shape, strides, dtype)``: a new tensor on the device of ``like``."""

UNMADE = (ArithmeticError, RuntimeError, TypeError, ValueError)
"""What making a result raises where there is no memory, and where inputs have shapes that no call allows."""


def torch_memory(plan: Plan, target: TargetPlan, check: Check, num_devices: int) -> TorchMemory | None:
    """What makes tensors for outputs of ``plan``; None where torch is not in use, or could make none of them.

    ``check(*inputs)`` raises for inputs that a call would refuse, and in a process that may not use the GPU. There are
    ``num_devices`` GPUs to run on, none for code for the CPU.
    """
    outputs = _own_outputs(plan, target)
    places = _telling_inputs(plan, outputs)
    if sys.modules.get("torch") is None or not any(outputs):
        return None
    text = results_text(plan, [None if output is None else (output.value, output.root) for output in outputs], places)
    return TorchMemory(
        plan=plan,
        places=places,
        text=text,
        check=check,
        empty=_empty_of(num_devices),
        nowhere=_CurrentDevice(device="cuda" if num_devices else "cpu"),
        layouts_of=text.function(),
    )


def _tensor_kinds() -> frozenset[type]:
    import torch

    return frozenset({torch.Tensor, torch.nn.Parameter})


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TorchMemory:
    """New tensors for those outputs of ``plan`` that can be made, with the layouts that ``text`` has.

    ``places`` are the positions of the inputs whose shapes tell all sizes: none where the plan takes only numbers, and
    then results lie on the device of ``nowhere``. ``kinds`` are the types that these inputs must have: a subclass of
    torch's tensor may have no memory. Nothing is kept of a shape: ``layouts_of`` makes the layout of every output anew
    from the inputs in ``places``, None for one that cannot be made.
    """

    plan: Plan
    places: Sequence[int]
    text: ResultsText
    check: Check
    empty: Empty
    nowhere: Tensor
    layouts_of: Callable[..., Sequence[Layout | None]]
    kinds: frozenset[type] = field(default_factory=_tensor_kinds)

    def make(self, inputs: Sequence[Any], outs: Sequence[Tensor | None]) -> Sequence[Tensor | None]:
        """``outs``, with a new tensor for every None that can be torch's own. Raises what ``check`` does, and torch's
        error where there is no memory, which says for which output."""
        if any(len(inputs) <= place or type(inputs[place]) not in self.kinds for place in self.places):
            return outs
        like = inputs[self.places[0]] if self.places else self.nowhere
        made = list[Tensor | None]()
        try:
            layouts = self.layouts_of(*[inputs[place] for place in self.places])
            for layout, given in zip(layouts, outs, strict=True):
                made.append(self.empty(like, *layout) if given is None and layout is not None else given)
            return made
        except UNMADE as error:
            failed = error
        self.check(*inputs)  # where they are wrong, or this process was forked, that is the reason
        place = len(made)
        name = f"{self.plan.fusion}: out {place} '{self.plan.outputs[place].name}'"
        failed.args = (f"{name}: {failed}",)  # its type is torch's own, which callers know
        raise failed


@dataclass(frozen=True, slots=True, kw_only=True)
class _CurrentDevice:
    """In the place of a tensor that would tell the device of results, where a plan takes none."""

    device: str

    def get_device(self) -> int:
        import torch

        return torch.cuda.current_device()


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnOutput:
    """An output that shares memory with no other tensor of the caller's: ``value``, which lives in all or a part of
    what kernels write, ``root``. Both are the same value where the output is no view."""

    value: PlanValue
    root: PlanValue


def _own_outputs(plan: Plan, target: TargetPlan) -> list[OwnOutput | None]:
    """For every output what it lives in; None where it overwrites, is, or shares memory with another tensor."""
    bases = {view: base for segment in target.segments for view, base in segment.views.items()}

    def root(fid: OriginalFid) -> OriginalFid:
        return root(bases[fid]) if fid in bases else fid

    users = Counter(root(output.fid) for output in plan.outputs) + Counter(plan.inputs)
    outputs = [(output, plan.value(output.fid), plan.value(root(output.fid))) for output in plan.outputs]
    return [
        OwnOutput(value=value, root=base)
        if output.alias is None and users[base.fid] == 1 and None not in (*value.strides, *base.strides)
        else None
        for output, value, base in outputs
    ]


def _telling_inputs(plan: Plan, outputs: Sequence[OwnOutput | None]) -> list[int]:
    """Positions of tensors that say all sizes of ``outputs``: of one if that is enough. The first of them tells the
    device, too."""
    wanted = {
        symbol
        for output in outputs
        if output is not None
        for value in (output.value, output.root)
        for formula in (*value.shape, *value.strides)
        for symbol in symbols(as_formula(formula))
    }
    solutions = plan.solutions or ()
    for solution in reversed(solutions):
        wanted |= told_by(solution) if solution.symbol in wanted else set()
    told_at = {(solution.input, solution.symbol) for solution in solutions}
    tensors = [
        (place, {formula for formula in value.shape if isinstance(formula, str)}
         | {symbol for fid, symbol in told_at if fid == value.fid})
        for place, value in enumerate(plan.value(fid) for fid in plan.inputs)
        if value.kind == "tensor" and not value.cpu
    ]  # fmt: skip
    for place, told in tensors:
        if wanted <= told:
            return [place]
    return [place for place, told in tensors if wanted & told]


def _empty_of(num_devices: int) -> Empty:
    """What makes a tensor with the functions that the code of torch.compile calls, where torch has them: that for GPUs
    takes 1.0 us on an H200's host against 3.1, but knows the current device only."""
    import torch

    empty = getattr(torch._C._dynamo.guards, "_empty_strided_cuda" if num_devices else "_empty_strided_cpu", None)
    if empty is None:
        return _empty_anywhere
    if num_devices < 2:
        return lambda like, shape, strides, dtype: empty(shape, strides, dtype)
    current = torch.cuda.current_device

    def empty_on_many(like: Tensor, shape: Sizes, strides: Sizes, dtype: Any) -> Tensor:
        if like.get_device() == current():
            return empty(shape, strides, dtype)
        return _empty_anywhere(like, shape, strides, dtype)

    return empty_on_many


def _empty_anywhere(like: Tensor, shape: Sizes, strides: Sizes, dtype: Any) -> Tensor:
    import torch

    return torch.empty_strided(shape, strides, dtype=dtype, device=like.device)
