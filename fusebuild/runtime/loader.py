"""Opening an artifact for running: :func:`load` gives a callable that takes and returns tensors.

The work is done by the native executor (``native/``), which gets the plan once and then sees only arguments. Here is
what Python does better: choosing the target and naming errors. ``tvm_ffi`` is imported on the first load, never before:
it imports torch where that is installed.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from inspect import Signature
from pathlib import Path
from typing import Any, NoReturn, Protocol

import msgspec

import fusebuild.runtime
from fusebuild.artifact.architecture import architecture_of
from fusebuild.artifact.file import open_artifact
from fusebuild.artifact.plan import Plan, TargetPlan
from fusebuild.errors import ArtifactError, ForkError, UsageError, nearest
from fusebuild.runtime.call import Executor, Tensor, caller
from fusebuild.runtime.signature import doc_of, signature_of
from fusebuild.runtime.unreadable import ERRORS, explained

_LIBRARY = "libfusebuild_runtime.so"


class Opened(Protocol):
    """What loading needs of :class:`fusebuild.artifact.file.Artifact`."""

    @property
    def path(self) -> Path: ...
    @property
    def plan(self) -> Plan: ...
    @property
    def toolchain(self) -> Mapping[str, str]: ...
    def object_bytes(self, target: str, kernel: str) -> bytes: ...


class LoadedPlan(partial[Any]):
    """An artifact's plan for one target, ready to run. Many threads may call it at once.

    ``plan(*inputs, out=None, variant=None)`` runs on ``inputs``, tensors and Python numbers in the order of
    ``plan.inputs`` or by name, as in ``plan(x, weight=w)``; inputs called ``out`` or ``variant`` have only a place. It
    returns one tensor, or a tuple when there are several outputs; an output that overwrites an input is that input.
    With torch's tensors work is enqueued on the current stream of their device and results are torch's own, but for
    views of others; other arrays tell no stream, and ``tvm_ffi.use_raw_stream`` chooses another than the default one.
    A plan that takes no tensors gives torch's where torch is imported. autograd is told nothing of a call, not even
    what it wrote to. ``out`` gives the tensor, or one per output, to write to (None: allocate it). ``variant`` forces
    that variant index in every segment that has it, for tests.

    A call raises ``TypeError`` for a wrong count, kind or dtype and ``ValueError`` for a wrong shape, stride, device or
    size, for an ``out`` that overlaps an input, and for a ``variant`` that does not fit; nothing has run then.

    ``plan.plan`` is the whole plan, ``plan.target`` the target that runs, ``plan.inputs`` and ``plan.outputs`` are the
    names in call order.

    It is a ``functools.partial`` of :func:`fusebuild.runtime.call.caller`'s function because Python's way to a
    ``__call__`` takes longer, 0.25 us of a call's 3 on an H200's host.
    """

    plan: Plan
    target: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    _variants_for: Callable[..., Any]
    __signature__: Signature  # inspect takes what has a __get__ for a method otherwise

    def __new__(cls, plan: Plan, target: TargetPlan, executor: Executor) -> LoadedPlan:
        made = super().__new__(cls, caller(plan, target, executor))
        made.plan = plan
        made.target = target.target
        made.inputs = tuple(plan.value(fid).name for fid in plan.inputs)
        made.outputs = tuple(output.name for output in plan.outputs)
        made._variants_for = executor.variants_for
        made.__signature__ = signature_of(plan)
        made.__doc__ = doc_of(plan, target.target)
        return made

    def variants_for(self, *inputs: Tensor | float) -> tuple[tuple[int, ...], ...]:
        """For each segment, the indices of the variants whose guards hold for ``inputs``; raises as a call does."""
        try:
            return tuple(tuple(valid) for valid in self._variants_for(*inputs))
        except ERRORS as error:
            raise explained(self.plan, inputs, (), error) from None

    def as_torch_op(self, name: str, *, backward: LoadedPlan | None = None) -> Callable[..., Any]:
        """This plan as the operator ``name`` of torch, such as ``"norms::layernorm"``, for ``torch.compile`` and what
        else looks through operators; ``backward`` computes its gradients. See :mod:`fusebuild.runtime.torch_op`."""
        from fusebuild.runtime.torch_op import register

        return register(self, name, backward)

    def __get__(self, instance: object, owner: type | None = None) -> LoadedPlan:
        """Itself, as an attribute of a class, too: from Python 3.14 on a ``partial`` would become a method there."""
        return self

    def __copy__(self) -> LoadedPlan:
        """Itself: it does not change, and copies of a model share it."""
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> LoadedPlan:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"{self!r} cannot be pickled: load its artifact where it is needed")

    def __repr__(self) -> str:
        inputs, outputs = ", ".join(self.inputs), ", ".join(self.outputs)
        return f"<fusebuild plan {self.plan.fusion}({inputs}) -> {outputs} on {self.target}>"


def load(path: str | os.PathLike[str], *, target: str | None = None, sha256: str | None = None) -> LoadedPlan:
    """Open the artifact at ``path`` and make it ready to run. With ``sha256``, the digest of the whole file in hex,
    nothing of a file that has another one is used.

    ``target=None`` takes the kernels for the current CUDA device: those of its own architecture, else of the greatest
    that it can run (same major version, lower minor version). Code for the CPU (``host``, ``host-asan``) runs only when
    asked for by name, since opening it executes it. Raises :class:`ArtifactError` when the file is not whole or
    holds nothing that fits, :class:`UsageError` where ``FUSEBUILD_MULTIPROCESSORS`` is no number of them, and
    :class:`ForkError` in a process that was forked after CUDA was initialized.
    """
    return load_artifact(open_artifact(path, sha256=sha256), target=target)


def load_artifact(artifact: Opened, *, target: str | None = None) -> LoadedPlan:
    """:func:`load`, for an artifact that is open already."""
    import tvm_ffi

    plan = artifact.plan
    name = target if target is not None else _current_target(artifact)
    chosen = plan.target(name)
    if chosen is None:
        meant = "" if architecture_of(name) else nearest(name, [target.target for target in plan.targets])
        hint = f"; {meant}" if meant else ""
        raise ArtifactError(str(artifact.path), f"it has no code for {name}, only for {_names(plan)}{hint}")
    variants = [variant for segment in chosen.segments for variant in segment.variants]
    kernels = list(dict.fromkeys(launch.kernel for variant in variants for launch in variant.launches))
    objects = [artifact.object_bytes(name, kernel) for kernel in kernels]
    text = msgspec.json.encode(msgspec.structs.replace(plan, targets=(chosen,))).decode()
    try:
        functions = _native().load(text, name, kernels, objects, _matrix_libraries(chosen))
    except (ForkError, UsageError):
        raise
    except (ValueError, RuntimeError) as error:
        compiler = artifact.toolchain.get("nvcc") if architecture_of(name) else None
        reason = f"{error}; nvcc {compiler} compiled it" if compiler else str(error)
        raise ArtifactError(str(artifact.path), reason) from error
    get_item = tvm_ffi.get_global_func("ffi.ArrayGetItem")
    num_devices = _native().device_count() if architecture_of(name) else 0
    return LoadedPlan(plan, chosen, Executor(get_item, num_devices, *functions))


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
    except ForkError:
        raise
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
    """Of the targets ``names`` the one that fits a device of ``capability`` (90 for 9.0) best; None where none runs."""
    found = ((architecture_of(name), name) for name in names)
    fitting = [(each.rank, name) for each, name in found if each is not None and each.runs_on(capability)]
    return max(fitting)[1] if fitting else None


@cache
def _native() -> Any:
    """The native executor's module."""
    import tvm_ffi

    for error in (ForkError, UsageError):
        tvm_ffi.register_error(error.__name__, error)
    return tvm_ffi.load_module(str(library_path()))


def _matrix_libraries(target: TargetPlan) -> list[str]:
    """Files of cuBLASLt that NVIDIA's Python packages installed, the newest first, where ``target`` calls it; torch
    uses them too."""
    if target.target.startswith("host") or not any(segment.call for segment in target.segments):
        return []
    folders = [Path(folder) / "nvidia" for folder in sys.path]
    files = {str(file) for folder in folders for file in folder.glob("c*/lib/libcublasLt.so.*")}
    return sorted(files, key=lambda file: (int(re.findall(r"[0-9]+", file)[-1]), file), reverse=True)


def library_path() -> Path:
    """The native executor's file. Raises ``ImportError`` where it is not installed."""
    # A package's __path__ has two entries in an editable install: the checkout, and where the library was installed.
    folders = [Path(folder) / "_native" for folder in fusebuild.runtime.__path__]
    for folder in folders:
        if (folder / _LIBRARY).is_file():
            return folder / _LIBRARY
    looked = ", ".join(str(folder) for folder in folders)
    raise ImportError(f"fusebuild's native executor, {_LIBRARY}, is not in {looked}: install fusebuild again")
