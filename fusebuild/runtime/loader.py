"""Opening an artifact for running: :func:`load` gives a callable that takes and returns tensors.

The work is done by the native executor (``native/``), which gets the plan once and then sees only arguments. Here is
what Python does better: choosing the target, naming errors, and giving back the caller's own objects where an output
overwrites an input. ``tvm_ffi`` is imported on the first load, never before: it imports torch where that is installed.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import msgspec

import fusebuild.runtime
from fusebuild.artifact import open_artifact
from fusebuild.errors import ArtifactError
from fusebuild.plan import Plan, TargetPlan

Tensor: TypeAlias = Any
"""A torch tensor, or anything else that speaks DLPack; what comes out is of the kind that went in."""

_LIBRARY = "libfusebuild_runtime.so"
_GPU_TARGET = re.compile(r"sm_([0-9]+)")


class Opened(Protocol):
    """What loading needs of :class:`fusebuild.artifact.Artifact`."""

    @property
    def path(self) -> Path: ...
    @property
    def plan(self) -> Plan: ...
    def object_bytes(self, target: str, kernel: str) -> bytes: ...


class LoadedPlan:
    """An artifact's plan for one target, ready to run. Many threads may call it at once.

    ``plan`` is the whole plan, ``target`` the target that runs, ``inputs`` and ``outputs`` the names in call order.
    """

    __slots__ = (
        "_aliases",
        "_call",
        "_call_into",
        "_get_item",
        "_single",
        "_variants_for",
        "inputs",
        "outputs",
        "plan",
        "target",
    )

    def __init__(self, plan: Plan, target: str, functions: Sequence[Callable[..., Any]]) -> None:
        """``functions`` are the three that ``native/export.cc`` describes and :func:`_array_getter`'s."""
        self.plan = plan
        self.target = target
        self.inputs = tuple(plan.value(fid).name for fid in plan.inputs)
        self.outputs = tuple(output.name for output in plan.outputs)
        self._call, self._call_into, self._variants_for, self._get_item = functions
        positions = {fid: position for position, fid in enumerate(plan.inputs)}
        aliases = tuple(None if output.alias is None else positions[output.alias] for output in plan.outputs)
        self._aliases = aliases if any(alias is not None for alias in aliases) else None
        self._single = len(plan.outputs) == 1

    def __call__(
        self, *inputs: Tensor | float, out: Tensor | Sequence[Tensor | None] | None = None, variant: int | None = None
    ) -> Any:
        """Run on ``inputs``, tensors and Python numbers in the order of ``self.inputs``.

        Returns one tensor, or a tuple when there are several outputs; an output that overwrites an input is that input.
        Work is enqueued on the current stream of the inputs' device and memory comes from their allocator.
        ``out`` gives the tensor, or one per output, to write to (None: allocate it). ``variant`` forces that variant
        index in every segment that has it, for tests.

        Raises ``TypeError`` for a wrong count, kind or dtype and ``ValueError`` for a wrong shape, stride, device or
        size, for an ``out`` that overlaps an input, and for a ``variant`` that does not fit; nothing has run then.
        """
        if variant is None and self._aliases is None:  # what is called again and again, without what only others need
            if out is None:
                made = self._call(*inputs)
                return made if self._single else self._items(made, len(self.outputs))
            if self._single and not isinstance(out, (tuple, list)):
                self._call_into(None, *inputs, out)
                return out
        outs = self._outs(out)
        made = self._call_into(_checked_variant(variant), *inputs, *outs)
        return self._assemble(inputs, outs, made)

    def variants_for(self, *inputs: Tensor | float) -> tuple[tuple[int, ...], ...]:
        """For each segment, the indices of the variants whose guards hold for ``inputs``; raises as a call does."""
        return tuple(tuple(valid) for valid in self._variants_for(*inputs))

    def as_torch_op(self, name: str, *, backward: LoadedPlan | None = None) -> Callable[..., Any]:
        """This plan as the operator ``name`` of torch, such as ``"norms::layernorm"``, for ``torch.compile`` and what
        else looks through operators; ``backward`` computes its gradients. See :mod:`fusebuild.runtime.torch_op`."""
        from fusebuild.runtime.torch_op import register

        return register(self, name, backward)

    def _items(self, array: Any, count: int) -> tuple[Tensor, ...]:
        # Iterating over a tvm_ffi.Array costs three foreign calls per item; this costs one.
        get = self._get_item
        return tuple([get(array, index) for index in range(count)])

    def _outs(self, out: Tensor | Sequence[Tensor | None] | None) -> tuple[Tensor | None, ...]:
        count = len(self.outputs)
        if out is None:
            return (None,) * count
        outs = tuple(out) if isinstance(out, tuple | list) else (out,)
        if len(outs) != count:
            names = ", ".join(self.outputs)
            raise TypeError(f"{self.plan.fusion}: out: expected {count} tensors ({names}), got {len(outs)}")
        return outs

    def _assemble(self, inputs: Sequence[Any], outs: Sequence[Tensor | None], made: Any) -> Any:
        """The outputs in order: given, overwritten inputs, and the ones in ``made`` (none, one tensor, or several)."""
        aliases = self._aliases or (None,) * len(outs)
        is_made = [given is None and alias is None for given, alias in zip(outs, aliases, strict=True)]
        fresh = iter(self._items(made, sum(is_made)) if sum(is_made) > 1 else (made,))
        results = tuple(
            next(fresh) if new else given if given is not None else inputs[alias or 0]
            for new, given, alias in zip(is_made, outs, aliases, strict=True)
        )
        return results[0] if self._single else results

    def __repr__(self) -> str:
        inputs, outputs = ", ".join(self.inputs), ", ".join(self.outputs)
        return f"<fusebuild plan {self.plan.fusion}({inputs}) -> {outputs} on {self.target}>"


def load(path: str | os.PathLike[str], *, target: str | None = None) -> LoadedPlan:
    """Open the artifact at ``path`` and make it ready to run.

    ``target=None`` takes the kernels for the current CUDA device: those of its own architecture, else of the greatest
    that it can run (same major version, lower minor version). Code for the CPU (``host``, ``host-asan``) runs only when
    asked for by name, since opening it executes it. Raises :class:`ArtifactError` when the file is not whole or
    holds nothing that fits.
    """
    return load_artifact(open_artifact(path), target=target)


def load_artifact(artifact: Opened, *, target: str | None = None) -> LoadedPlan:
    """:func:`load`, for an artifact that is open already."""
    plan = artifact.plan
    name = target if target is not None else _current_target(artifact)
    chosen = plan.target(name)
    if chosen is None:
        raise ArtifactError(str(artifact.path), f"it has no code for {name}, only for {_names(plan)}")
    kernels = list(dict.fromkeys(_kernels(chosen)))
    objects = [artifact.object_bytes(name, kernel) for kernel in kernels]
    text = msgspec.json.encode(msgspec.structs.replace(plan, targets=(chosen,))).decode()
    try:
        functions = _native().load(text, name, kernels, objects, _matrix_libraries(chosen))
    except (ValueError, RuntimeError) as error:
        raise ArtifactError(str(artifact.path), str(error)) from error
    return LoadedPlan(plan, name, [*functions, _array_getter()])


def _kernels(target: TargetPlan) -> list[str]:
    return [launch.kernel for segment in target.segments for variant in segment.variants for launch in variant.launches]


def _names(plan: Plan) -> str:
    return ", ".join(target.target for target in plan.targets)


def current_capability() -> int:
    """90 for compute capability 9.0 of the current CUDA device; ``RuntimeError`` where there is none."""
    return int(_native().current_compute_capability())


def _current_target(artifact: Opened) -> str:
    """The target in ``artifact`` that fits the current CUDA device best."""
    plan = artifact.plan
    try:
        device = current_capability()
    except RuntimeError as error:
        reason = f"no GPU to run on ({error}); it has code for {_names(plan)}"
        if any(item.target == "host" for item in plan.targets):
            reason += "; target='host' runs it on the CPU"
        raise ArtifactError(str(artifact.path), reason) from error
    name = best_target([item.target for item in plan.targets], device)
    if name is None:
        needed = f"sm_{device}, or a lower sm_{device // 10}x"
        reason = f"it has code for {_names(plan)}, but this device needs {needed}"
        raise ArtifactError(str(artifact.path), reason)
    return name


def best_target(names: Sequence[str], capability: int) -> str | None:
    """The greatest ``sm_XY`` in ``names`` that a device of ``capability`` (90 for 9.0) runs, or None.

    A cubin runs on devices of its own major version and the same or a higher minor version.
    """
    matches = ((_GPU_TARGET.fullmatch(name), name) for name in names)
    found = [(int(match[1]), name) for match, name in matches if match]
    fitting = [(number, name) for number, name in found if number // 10 == capability // 10 and number <= capability]
    return max(fitting)[1] if fitting else None


def _checked_variant(variant: int | None) -> int | None:
    if variant is not None and (isinstance(variant, bool) or not isinstance(variant, int)):
        raise TypeError(f"variant: expected an int, got {type(variant).__name__}")
    return variant


@cache
def _native() -> Any:
    """The native executor's module."""
    import tvm_ffi

    return tvm_ffi.load_module(str(_library_path()))


def _matrix_libraries(target: TargetPlan) -> list[str]:
    """Files of cuBLASLt that NVIDIA's Python packages installed, the newest first, where ``target`` calls it; torch
    uses them too."""
    if target.target.startswith("host") or not any(segment.call for segment in target.segments):
        return []
    folders = [Path(folder) / "nvidia" for folder in sys.path]
    files = {str(file) for folder in folders for file in folder.glob("c*/lib/libcublasLt.so.*")}
    return sorted(files, key=_library_version, reverse=True)


def _library_version(path: str) -> tuple[int, str]:
    return int(re.findall(r"[0-9]+", path)[-1]), path


def _array_getter() -> Callable[[Any, int], Any]:
    """``get(array, index)`` for the arrays that the executor returns."""
    import tvm_ffi

    function: Callable[[Any, int], Any] = tvm_ffi.get_global_func("ffi.ArrayGetItem")
    return function


def _library_path() -> Path:
    # A package's __path__ has two entries in an editable install: the checkout, and where the library was installed.
    folders = [Path(folder) / "_native" for folder in fusebuild.runtime.__path__]
    for folder in folders:
        if (folder / _LIBRARY).is_file():
            return folder / _LIBRARY
    looked = ", ".join(str(folder) for folder in folders)
    raise ImportError(f"fusebuild's native executor, {_LIBRARY}, is not in {looked}: install fusebuild again")
