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
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from fusebuild.artifact.plan import Plan, PlanValue, TargetPlan, as_formula
from fusebuild.ir.fid import OriginalFid
from fusebuild.ir.formula import symbols
from fusebuild.runtime.layouts import Layout, layout_rule, sizes_rule

Tensor: TypeAlias = Any
Shapes: TypeAlias = tuple[Any, ...]
Check: TypeAlias = Callable[..., object]
OwnLayoutRule: TypeAlias = Callable[[Mapping[str, Any]], Layout | None]
Maker: TypeAlias = Callable[[Tensor], Tensor]
"""``maker(like)``: a new tensor of one layout, on the device of ``like``."""

KEPT_SHAPES = 4096
"""A plan forgets how to make its outputs when it knows it for so many shapes, as the executor forgets launches."""


def torch_memory(plan: Plan, target: TargetPlan, check: Check, num_devices: int) -> TorchMemory | None:
    """What makes tensors for outputs of ``plan``; None where torch is not in use, or could make none of them.

    ``check(*inputs)`` raises for inputs that a call would refuse, and in a process that may not use the GPU. There are
    ``num_devices`` GPUs to run on, none for code for the CPU.
    """
    outputs = _own_outputs(plan, target)
    places = _telling_inputs(plan, outputs)
    if sys.modules.get("torch") is None or not any(outputs):
        return None
    nowhere = _CurrentDevice(device="cuda" if num_devices else "cpu")
    return TorchMemory(
        plan=plan,
        layout_rules=[None if output is None else output.layout_rule() for output in outputs],
        places=places,
        check=check,
        sizes_of=sizes_rule(plan),
        maker_of=_maker_of(num_devices),
        nowhere=nowhere,
    )


def _tensor_kinds() -> frozenset[type]:
    import torch

    return frozenset({torch.Tensor, torch.nn.Parameter})


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TorchMemory:
    """New tensors for those outputs of ``plan`` that can be made. How each is made is found out once for all calls of
    the same shapes: from its rule among ``layout_rules``, which has None for the others, and from the sizes that
    ``sizes_of(inputs)`` reads.

    ``places`` are the positions of the inputs whose shapes tell all sizes: none where the plan takes only numbers, and
    then results lie on the device of ``nowhere``. ``kinds`` are the types that these inputs must have: a subclass of
    torch's tensor may have no memory. ``makers_of_all`` has the makers of all outputs that overwrite no input, for
    those shapes with which torch can make them all; its keys are the shape of the one input in ``places``, or a tuple
    of shapes where there are several.
    """

    plan: Plan
    layout_rules: Sequence[OwnLayoutRule | None]
    places: Sequence[int]
    check: Check
    sizes_of: Callable[[Sequence[Any]], Mapping[str, Any]]
    maker_of: Callable[[Layout], Maker]
    nowhere: Tensor
    kinds: frozenset[type] = field(default_factory=_tensor_kinds)
    makers_of_all: dict[Shapes, Sequence[Maker]] = field(default_factory=dict)
    known: dict[Shapes, Sequence[Maker | None]] = field(default_factory=dict)

    def make(self, inputs: Sequence[Any], outs: Sequence[Tensor | None]) -> Sequence[Tensor | None]:
        """``outs``, with a new tensor for every None that can be torch's own. Raises what ``check`` does, and torch's
        error where there is no memory, which says for which output."""
        if any(len(inputs) <= place or type(inputs[place]) not in self.kinds for place in self.places):
            return outs
        like = inputs[self.places[0]] if self.places else self.nowhere
        makers, made = self._makers(inputs), list[Tensor | None]()
        try:
            for make, given in zip(makers, outs, strict=True):
                made.append(make(like) if given is None and make is not None else given)
        except RuntimeError as error:
            self.check(*inputs)  # a process that was forked has a better reason than torch knows
            place = len(made)
            name = f"{self.plan.fusion}: out {place} '{self.plan.outputs[place].name}'"
            error.args = (f"{name}: {error}",)  # its type is torch's own, which callers know
            raise
        return made

    def _makers(self, inputs: Sequence[Any]) -> Sequence[Maker | None]:
        """The maker of every output, None for one that cannot be torch's."""
        told = tuple([inputs[place].shape for place in self.places])
        shapes = told[0] if len(told) == 1 else told
        return self.known.get(shapes) or self._learn(shapes, inputs)

    def _learn(self, shapes: Shapes, inputs: Sequence[Any]) -> Sequence[Maker | None]:
        self.check(*inputs)
        sizes = self.sizes_of(inputs)
        layouts = [None if layout_of is None else layout_of(sizes) for layout_of in self.layout_rules]
        if len(self.known) >= KEPT_SHAPES:
            self.known.clear()
            self.makers_of_all.clear()
        makers = [None if layout is None else self.maker_of(layout) for layout in layouts]
        self.known[shapes] = makers
        made = [make for make in makers if make is not None]
        if len(made) == self.plan.overwritten.count(None):
            self.makers_of_all[shapes] = made
        return makers


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

    def layout_rule(self) -> OwnLayoutRule:
        """What gives the output's layout; None where it is only a part of the root."""
        layout_of, layout_of_root = layout_rule(self.value), layout_rule(self.root)
        if self.value is self.root:
            return layout_of

        def layout_of_all(sizes: Mapping[str, Any]) -> Layout | None:
            layout = layout_of(sizes)
            return layout if layout.span == layout_of_root(sizes).span else None

        return layout_of_all


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
    tensors = [
        (place, {formula for formula in value.shape if isinstance(formula, str)})
        for place, value in enumerate(plan.value(fid) for fid in plan.inputs)
        if value.kind == "tensor" and not value.cpu
    ]
    for place, told in tensors:
        if wanted <= told:
            return [place]
    return [place for place, told in tensors if wanted & told]


def _maker_of(num_devices: int) -> Callable[[Layout], Maker]:
    """Makers with the functions that the code of torch.compile calls, where torch has them: that for GPUs takes 1.0 us
    on an H200's host against 3.1, but knows the current device only."""
    import torch

    empty = getattr(torch._C._dynamo.guards, "_empty_strided_cuda" if num_devices else "_empty_strided_cpu", None)
    if empty is None:
        return _maker_anywhere

    def quick_maker(layout: Layout) -> Maker:
        shape, strides, dtype = layout
        return lambda like: empty(shape, strides, dtype)

    current = torch.cuda.current_device

    def maker_on_many(layout: Layout) -> Maker:
        make_here, make_there = quick_maker(layout), _maker_anywhere(layout)
        return lambda like: make_here(like) if like.get_device() == current() else make_there(like)

    return quick_maker if num_devices < 2 else maker_on_many


def _maker_anywhere(layout: Layout) -> Maker:
    import torch

    shape, strides, dtype = layout
    return lambda like: torch.empty_strided(shape, strides, dtype=dtype, device=like.device)
