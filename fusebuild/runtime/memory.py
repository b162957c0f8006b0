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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from fusebuild.formula import symbols
from fusebuild.plan import Plan, PlanValue, TargetPlan, as_formula
from fusebuild.runtime.layouts import Layout, layout_of, sizes_of

Tensor: TypeAlias = Any
Shapes: TypeAlias = tuple[Any, ...]
Check: TypeAlias = Callable[..., object]
Empty: TypeAlias = Callable[[Layout, Tensor], Tensor]
"""``empty(layout, like)``: a new tensor on the device of ``like``."""

KEPT_SHAPES = 4096
"""A plan forgets the layouts of its outputs when it has those of so many shapes, as the executor forgets launches."""


def torch_memory(plan: Plan, target: TargetPlan, check: Check, num_devices: int) -> TorchMemory | None:
    """What makes tensors for outputs of ``plan``; None where torch is not in use, or could make none of them.

    ``check(*inputs)`` raises for inputs that a call would refuse, and in a process that may not use the GPU. There are
    ``num_devices`` GPUs to run on, none for code for the CPU.
    """
    outputs = _own_outputs(plan, target)
    places = _telling_inputs(plan, outputs)
    if sys.modules.get("torch") is None or not places or not any(outputs):
        return None
    return TorchMemory(plan, outputs, places, check, _empty(num_devices))


class TorchMemory:
    """New tensors for one plan's outputs, whose layouts it computes once for all calls of the same shapes."""

    __slots__ = ("_check", "_empty", "_kinds", "_known", "_outputs", "_place", "_places", "_plan")

    def __init__(
        self, plan: Plan, outputs: Sequence[OwnOutput | None], places: Sequence[int], check: Check, empty: Empty
    ) -> None:
        """``outputs`` are those to make, None for others; their sizes follow from the inputs at ``places``."""
        import torch

        self._plan, self._outputs, self._check, self._empty = plan, outputs, check, empty
        self._places, self._place = places, places[0]
        self._kinds = frozenset({torch.Tensor, torch.nn.Parameter})  # what inherits from them may be no memory at all
        self._known: dict[Shapes, list[Layout | None]] = {}

    def make(self, inputs: Sequence[Any], outs: Sequence[Tensor | None]) -> Sequence[Tensor | None]:
        """``outs``, with a new tensor for every None that can be torch's own. Raises what ``check`` does, and torch's
        error where there is no memory."""
        layouts = self._layouts(inputs)
        if layouts is None:
            return outs
        like = inputs[self._place]
        try:
            return [
                self._empty(layout, like) if given is None and layout is not None else given
                for layout, given in zip(layouts, outs, strict=True)
            ]
        except RuntimeError:
            self._check(*inputs)  # a process that was forked has a better reason than torch knows
            raise

    def maker_of_one(self) -> Callable[[Sequence[Any]], Tensor | None]:
        """:meth:`make` for a plan of one output, None where that cannot be torch's own. It has at hand what every call
        needs, which saves a tenth of a call."""
        place, kinds, known, empty = self._place, self._kinds, self._known, self._empty

        def make_one(inputs: Sequence[Any]) -> Tensor | None:
            try:
                like = inputs[place]
                if type(like) not in kinds:
                    return None
                layout = known[like.shape][0]
                return None if layout is None else empty(layout, like)
            except (IndexError, KeyError, RuntimeError):
                return self.make(inputs, (None,))[0]  # it learns the shape, or says what is wrong

        return make_one if len(self._places) == 1 else lambda inputs: self.make(inputs, (None,))[0]

    def _layouts(self, inputs: Sequence[Any]) -> Sequence[Any] | None:
        """The layout of every output, None for one that cannot be torch's; None where ``inputs`` are not torch's."""
        if len(inputs) <= self._place or type(like := inputs[self._place]) not in self._kinds:
            return None
        if len(self._places) == 1:
            shapes = like.shape
        else:
            shapes = tuple([getattr(inputs[place], "shape", None) for place in self._places])
        return self._known.get(shapes) or self._learn(shapes, inputs)

    def _learn(self, shapes: Shapes, inputs: Sequence[Any]) -> list[Layout | None]:
        self._check(*inputs)
        sizes = sizes_of(self._plan, inputs)
        layouts = [None if output is None else output.layout(sizes) for output in self._outputs]
        if len(self._known) >= KEPT_SHAPES:
            self._known.clear()
        self._known[shapes] = layouts
        return layouts


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnOutput:
    """An output that shares memory with no other tensor of the caller's: ``value``, which lives in all or a part of
    what kernels write, ``root``. Both are the same value where the output is no view."""

    value: PlanValue
    root: PlanValue

    def layout(self, sizes: Mapping[str, Any]) -> Layout | None:
        """The output's layout; None where it is only a part of the root."""
        layout = layout_of(self.value, sizes)
        return layout if self.value is self.root or layout.span == layout_of(self.root, sizes).span else None


def _own_outputs(plan: Plan, target: TargetPlan) -> list[OwnOutput | None]:
    """For every output what it lives in; None where it overwrites, is, or shares memory with another tensor."""
    bases = {view: base for segment in target.segments for view, base in segment.views.items()}

    def root(fid: int) -> int:
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
    tensors = [
        (place, {formula for formula in value.shape if isinstance(formula, str)})
        for place, value in enumerate(plan.value(fid) for fid in plan.inputs)
        if value.kind == "tensor" and not value.cpu
    ]
    for place, told in tensors:
        if wanted <= told:
            return [place]
    return [place for place, told in tensors if wanted & told]


def _empty(num_devices: int) -> Empty:
    """With the functions that the code of torch.compile calls, where torch has them: that for GPUs takes 1.0 us on an
    H200's host against 3.1, but knows the current device only."""
    import torch

    quick = getattr(torch._C._dynamo.guards, "_empty_strided_cuda" if num_devices else "_empty_strided_cpu", None)
    if quick is None:
        return _empty_anywhere
    if num_devices < 2:
        return lambda layout, _: quick(*layout)
    current = torch.cuda.current_device

    def empty(layout: Layout, like: Tensor) -> Tensor:
        return quick(*layout) if like.get_device() == current() else _empty_anywhere(layout, like)

    return empty


def _empty_anywhere(layout: Layout, like: Tensor) -> Tensor:
    import torch

    shape, strides, dtype = layout
    return torch.empty_strided(shape, strides, dtype=dtype, device=like.device)
