"""A loaded plan as an operator of torch: what ``torch.compile``, ``torch.export`` and autograd can see through.

The operator is registered with ``torch.library``. Its schema has the names of the plan; its fake kernel computes
shapes by the plan's own formulas, so symbolic sizes stay symbols. An operator of torch may not return memory that it
was given, nor the same memory twice: outputs that overwrite inputs are declared as mutations and left out of what it
returns, and outputs that share memory are copied.

Gradients come from a second plan, whose arguments are found by name: an input of the forward plan, an output of it, or
``grad_`` and an output's name; its outputs are ``grad_`` and an input's name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from keyword import iskeyword
from threading import RLock
from typing import TYPE_CHECKING, Any, TypeAlias

from fusebuild.artifact.plan import Plan, PlanValue
from fusebuild.errors import UsageError, counted
from fusebuild.ir.dtype import DType
from fusebuild.runtime.layouts import check_kinds, check_sizes, layout_rule, sizes_rule

if TYPE_CHECKING:
    from fusebuild.runtime.loader import LoadedPlan

Tensor: TypeAlias = Any
Operator: TypeAlias = Callable[..., Any]

GRADIENT = "grad_"


def register(runnable: LoadedPlan, name: str, backward: LoadedPlan | None = None) -> Operator:
    """The operator ``name``, such as ``"norms::layernorm"``, which takes and returns what ``runnable`` does.

    With ``backward``, tensors that require gradients get them; it becomes an operator too, ``name`` + ``_backward``.
    Without, the operator runs on them, and a backward pass through it raises torch's error for that. Registering the
    same again gives the same operator. Raises :class:`UsageError` for a name that is not ``namespace::operator`` or is
    that of an operator of other plans, which torch would take from under those who call it; for a plan that torch
    cannot tell the device of, and for a ``backward`` that does not fit.
    """
    _check_name(name)
    if backward is not None and not isinstance(getattr(backward, "plan", None), Plan):
        raise UsageError(f"backward: expected a loaded plan, got {type(backward).__name__}")
    plans = tuple((each.plan, each.target) for each in (runnable, backward) if each is not None)
    with _REGISTERING:
        if name not in _REGISTERED:
            _REGISTERED[name] = plans, _registered(runnable, name, backward)
        known, operator = _REGISTERED[name]
    if known != plans:
        raise UsageError(f"'{name}' is an operator of another plan already: choose another name")
    return operator


_REGISTERED: dict[str, tuple[tuple[tuple[Plan, str], ...], Operator]] = {}
_REGISTERING = RLock()
"""Operators, with the plans that they run, forward and backward, and where; they last as long as the process."""


def _registered(runnable: LoadedPlan, name: str, backward: LoadedPlan | None) -> Operator:
    import torch

    signature = _Signature(runnable.plan)
    gradients = None if backward is None else _Gradients.between(runnable.plan, backward.plan)
    device = "cpu" if runnable.target.startswith("host") else "cuda"

    def run(*inputs: Any) -> Any:
        made = runnable(*inputs)
        return signature.returned(inputs, _as_results(made))

    operator: Any = torch.library.custom_op(
        name, run, mutates_args=signature.mutated, device_types=device, schema=signature.schema
    )
    operator.register_fake(signature.fake)
    if backward is not None and gradients is not None:
        _register_autograd(operator, gradients, register(backward, f"{name}_backward"))
    return signature.with_mutated(operator)


def _check_name(name: str) -> None:
    parts = name.split("::") if isinstance(name, str) else []
    if len(parts) != 2 or not all(part.isidentifier() and part.isascii() and not iskeyword(part) for part in parts):
        raise UsageError(f"'{name}' is no name of an operator: expected namespace::operator")


class _Signature:
    """What a plan takes and gives, as torch sees it."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._inputs = [plan.value(fid) for fid in plan.inputs]
        self._overwritten = plan.overwritten
        self._sizes_of = sizes_rule(plan)
        self._fresh = [layout_rule(plan.value(each.fid)) for each in plan.outputs if each.alias is None]
        self.mutated = tuple(self._inputs[place].name for place in self._overwritten if place is not None)
        tensors = [place for place, value in enumerate(self._inputs) if value.kind == "tensor" and not value.cpu]
        if not tensors:
            raise UsageError(f"{plan.fusion} has no tensor among its inputs that would tell torch the device")
        self._device_from = tensors[0]

    @property
    def schema(self) -> str:
        parameters = ", ".join(f"{self._type(value)} {value.name}" for value in self._inputs)
        returned = ", ".join("Tensor" for _ in self._fresh)
        return f"({parameters}) -> {returned if len(self._fresh) == 1 else f'({returned})'}"

    def _type(self, value: PlanValue) -> str:
        if value.kind == "scalar":
            return _number_type(DType(value.dtype))
        return f"Tensor(a{self.mutated.index(value.name)}!)" if value.name in self.mutated else "Tensor"

    def returned(self, inputs: Sequence[Any], made: Sequence[Tensor]) -> Any:
        """What of ``made`` the operator returns: all that is no input, each in memory of its own."""
        storages = {each.untyped_storage().data_ptr() for each in inputs if hasattr(each, "untyped_storage")}
        results = []
        for place, result in zip(self._overwritten, made, strict=True):
            if place is not None:
                continue
            storage = result.untyped_storage().data_ptr()
            is_shared = storage in storages and result.numel() > 0
            storages.add(storage)
            results.append(result.clone() if is_shared else result)
        return _as_returned(results)

    def fake(self, *inputs: Any) -> Any:
        """Results without elements, of the shapes and strides that a call gives. Raises what it would for dtypes and
        numbers of dims, and ``RuntimeError`` for sizes that do not fit."""
        import torch

        check_kinds(self._plan, inputs)
        sizes = self._sizes_of(inputs)
        check_sizes(self._plan, inputs, sizes)
        device = inputs[self._device_from].device
        layouts = [layout_of(sizes) for layout_of in self._fresh]
        return _as_returned([torch.empty_strided(*sized, dtype=dtype, device=device) for *sized, dtype in layouts])

    def with_mutated(self, operator: Operator) -> Operator:
        """``operator``, which returns inputs that it overwrote where the plan does."""
        if not self.mutated:
            return operator
        names = [value.name for value in self._inputs]
        kept = [None if place is None else names[place] for place in self._overwritten]

        def call(*inputs: Any, **named: Any) -> Any:
            fresh = iter(_as_results(operator(*inputs, **named)))
            given = dict(zip(names, inputs, strict=False)) | named
            results = tuple(next(fresh) if name is None else given[name] for name in kept)
            return results[0] if len(results) == 1 else results

        return call


def _as_results(returned: Any) -> tuple[Any, ...]:
    """What was ``returned``, one or several, as a tuple."""
    return returned if isinstance(returned, tuple) else (returned,)


def _as_returned(results: Sequence[Tensor]) -> Any:
    """``results`` as an operator returns them."""
    if not results:
        return None
    return results[0] if len(results) == 1 else tuple(results)


_Source = tuple[str, int]
"""Where an argument of the backward plan comes from: ``input``, ``output`` or ``gradient``, and its position among the
forward plan's inputs, its outputs, or the gradients of these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Gradients:
    """How a backward plan is called, and for which inputs of the forward plan its outputs are; ``constant`` outputs of
    the forward plan have no gradients."""

    sources: tuple[_Source, ...]
    wanted: tuple[int, ...]
    constant: tuple[int, ...]
    num_inputs: int

    @classmethod
    def between(cls, forward: Plan, backward: Plan) -> _Gradients:
        """Raises :class:`UsageError` where names do not fit."""
        inputs = [forward.value(fid).name for fid in forward.inputs]
        outputs = [each.name for each in forward.outputs]
        if any(each.alias is not None for each in (*forward.outputs, *backward.outputs)):
            raise UsageError(f"{forward.fusion}: gradients need inputs that {backward.fusion} finds as they were")
        kinds: dict[str, tuple[_Source, PlanValue]] = {}
        for position, output in enumerate(forward.outputs):
            value = forward.value(output.fid)
            kinds[output.name] = ("output", position), value
            kinds[GRADIENT + output.name] = ("gradient", position), value
        for position, (name, fid) in enumerate(zip(inputs, forward.inputs, strict=True)):
            kinds[name] = ("input", position), forward.value(fid)
        sources = []
        for fid in backward.inputs:
            name = backward.value(fid).name
            if name not in kinds:
                raise UsageError(
                    f"{backward.fusion}: its input '{name}' is no input or output of {forward.fusion}, nor "
                    f"'{GRADIENT}' and the name of an output"
                )
            sources.append(kinds[name][0])
        wanted = []
        for output in backward.outputs:
            name = output.name.removeprefix(GRADIENT)
            if not output.name.startswith(GRADIENT) or name not in inputs:
                raise UsageError(
                    f"{backward.fusion}: its output '{output.name}' is not '{GRADIENT}' and the name of an input of "
                    f"{forward.fusion}"
                )
            wanted.append(inputs.index(name))
        _check_kinds(backward, {name: value for name, (_, value) in kinds.items()})
        used = {position for kind, position in sources if kind == "gradient"}
        constant = tuple(position for position in range(len(outputs)) if position not in used)
        return cls(sources=tuple(sources), wanted=tuple(wanted), constant=constant, num_inputs=len(inputs))

    def kept(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> list[Any]:
        """What the backward plan needs of a forward call, in the order of its inputs."""
        given = {"input": inputs, "output": outputs}
        return [given[kind][position] for kind, position in self.sources if kind != "gradient"]

    def arguments(self, kept: Sequence[Any], grads: Sequence[Tensor]) -> list[Any]:
        """The arguments of the backward plan. Gradients lie as autograd has them; the plan wants them dense."""
        left = iter(kept)
        return [grads[place].contiguous() if kind == "gradient" else next(left) for kind, place in self.sources]


def _check_kinds(backward: Plan, named: Mapping[str, PlanValue]) -> None:
    """Compare what ``backward`` takes and gives with the values ``named`` of the forward plan. Numbers fit each other,
    and sizes are only known in a call: the plans have names of their own for them."""
    taken = [(value.name, value, named[value.name]) for value in map(backward.value, backward.inputs)]
    given = [
        (output.name, backward.value(output.fid), named[output.name.removeprefix(GRADIENT)])
        for output in backward.outputs
    ]
    for name, own, other in (*taken, *given):
        has, wanted = (
            f"{value.kind} of {value.dtype} with {counted(len(value.shape), 'dim')}" for value in (own, other)
        )
        if has != wanted and "tensor" in (own.kind, other.kind):
            raise UsageError(f"{backward.fusion}: its '{name}' is a {has}, but has to be a {wanted}")


def _register_autograd(operator: Any, gradients: _Gradients, backward: Operator) -> None:
    """Make ``backward`` compute the gradients of ``operator``."""
    import torch

    def keep(ctx: Any, inputs: Sequence[Any], output: Any) -> None:
        outputs = _as_results(output)
        ctx.mark_non_differentiable(*(outputs[position] for position in gradients.constant))
        kept = gradients.kept(inputs, outputs)
        ctx.save_for_backward(*(each for each in kept if isinstance(each, torch.Tensor)))
        ctx.numbers = [None if isinstance(each, torch.Tensor) else each for each in kept]

    def run(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        tensors = iter(ctx.saved_tensors)
        kept = [next(tensors) if number is None else number for number in ctx.numbers]
        made = backward(*gradients.arguments(kept, grads))
        results: list[Any] = [None] * gradients.num_inputs
        for position, result in zip(gradients.wanted, _as_results(made), strict=True):
            results[position] = result
        return tuple(results)

    operator.register_autograd(run, setup_context=keep)


def _number_type(dtype: DType) -> str:
    """What schemas call the numbers of ``dtype``. Integers are ``SymInt``, so that torch.compile lets them change: the
    counter of random numbers does in every step. There is no such type for ``float``."""
    if dtype.is_floating:
        return "float"
    return "SymInt" if dtype.is_integer else "bool"
