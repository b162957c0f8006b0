"""Plans of runtime_plans.py on the CUDA backend where ``native/fake_cuda.cc`` plays the driver: what the scripts of
test_runtime_faults.py import, each in a process of its own.

The folder that holds libcuda.so.1 holds the kernels too, as shared objects.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from fusebuild.artifact.plan import FormulaArg, Plan, PlanOutput, ScalarArg, TensorArg
from fusebuild.runtime.loader import LoadedPlan, load_artifact
from support import runtime_plans as plans

FOLDER = Path(os.environ["LD_LIBRARY_PATH"])


def open_plan(plan: Plan, *, made_for: str = "sm_90", target: str | None = None) -> LoadedPlan:
    """``plan``, which is one for the host, as if its kernels were made for ``made_for``."""
    (host,) = plan.targets
    renamed = msgspec.structs.replace(plan, targets=(msgspec.structs.replace(host, target=made_for),))
    launches = [each for part in host.segments for variant in part.variants for each in variant.launches]
    files = {each.kernel: FOLDER / f"{each.kernel}.so" for each in launches}
    if made_for == "host":
        objects = {kernel: file.read_bytes() for kernel, file in files.items()}
    else:
        objects = {each.kernel: f"{files[each.kernel]} {len(each.args)}".encode() for each in launches}
    return load_artifact(plans.HandMadeArtifact(path=Path("x.fuse"), plan=renamed, objects=objects), target=target)


def enter_device(number: int) -> None:
    """Make the device of that number current for this thread."""
    driver, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
    driver.cuInit(0)
    driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), number)
    driver.cuCtxPushCurrent_v2(context)


def filled(shape: Sequence[int], value: float, *, made_for: str = "sm_90") -> Any:
    """A tensor of floats in the memory of the current device, which runs code ``made_for`` it."""
    values = [plans.scalar(0, "value", "float"), plans.tensor(1, "y", shape)]
    numel = FormulaArg(int(np.prod(shape)))
    fill = plans.launch("fill", TensorArg(1), ScalarArg(0), numel)
    plan = plans.plan("fill", values, [0], [PlanOutput(fid=1, name="y")], [plans.segment(0, [0], [1], fill)])
    return open_plan(plan, made_for=made_for)(value)


def numbers(tensor: Any) -> list[float]:
    """What is in a tensor of floats; the memory of devices is the host's here."""
    return list((ctypes.c_float * int(np.prod(tensor.shape))).from_address(tensor.data_ptr()))


def say(action: Callable[[], Any]) -> None:
    """Print what ``action`` raises, or that it raises nothing."""
    try:
        action()
    except Exception as error:
        print(f"{type(error).__name__}: {error}", flush=True)
    else:
        print("no error", flush=True)
