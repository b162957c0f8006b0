"""Compiling and running the kernels of ``tests/device/*.cu`` on the CPU, for the tests of the device header."""

from __future__ import annotations

import ctypes
import functools
import math
import os
import subprocess
import sysconfig
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from fusebuild.target import find_target

DEVICE_FOLDER = Path(__file__).parent / "device"
INCLUDE_FOLDER = Path(__file__).parent.parent / "templates" / "include"
TARGET = os.environ.get("FUSEBUILD_TEST_HOST_TARGET", "host")
IS_SANITIZED = TARGET == "host-asan"
NAN, INF = math.nan, math.inf

DTYPES = {
    "double": torch.float64,
    "float": torch.float32,
    "half": torch.float16,
    "bfloat16": torch.bfloat16,
    "int64": torch.int64,
    "int32": torch.int32,
    "bool": torch.bool,
}

_objects = tempfile.TemporaryDirectory(prefix="fusebuild-test-kernels-")


def cuda_folder() -> Path:
    """The CUDA toolkit that pip put beside this interpreter, or the one that ``CUDA_HOME`` names."""
    candidates = [Path(sysconfig.get_paths()["purelib"]) / "nvidia" / "cu13"]
    if "CUDA_HOME" in os.environ:
        candidates.insert(0, Path(os.environ["CUDA_HOME"]))
    for candidate in candidates:
        if (candidate / "include" / "cuda_bf16.h").exists():
            return candidate
    pytest.skip("no CUDA headers")


def compile_for_host(source: Path, output: Path, target: str = TARGET) -> Path:
    """``output``, a shared object made from ``source`` for a host target; warnings are errors."""
    flags = ["-x", "c++", "-std=c++17", "-fPIC", "-shared", "-fvisibility=hidden", "-ffp-contract=off"]
    warnings = ["-Wall", "-Wextra", "-Werror"]
    folders = ["-I", str(INCLUDE_FOLDER), "-isystem", str(cuda_folder() / "include")]
    optimization = find_target(target).compiler_flags
    command = ["g++", *flags, *warnings, "-DFUSEBUILD_HOST", *folders, *optimization, str(source), "-o", str(output)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return output


class HostLibrary:
    """The kernels of one ``.cu`` file, callable by name."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.library = ctypes.CDLL(str(path))

    def status(
        self, name: str, grid: Sequence[int], block: Sequence[int], *args: torch.Tensor | int, shared_bytes: int = 0
    ) -> int:
        """Runs a kernel: tensors are passed by address, ints as int64. Sizes beyond those given are 1."""
        values = [
            ctypes.c_void_p(arg.data_ptr()) if isinstance(arg, torch.Tensor) else ctypes.c_int64(arg) for arg in args
        ]
        addresses = (ctypes.c_void_p * len(values))(*[ctypes.addressof(value) for value in values])
        entry = getattr(self.library, f"fusebuild_host_{name}")
        entry.restype = ctypes.c_int32
        sizes = (ctypes.c_int64 * 3)(*grid, *[1] * (3 - len(grid)))
        threads = (ctypes.c_int32 * 3)(*block, *[1] * (3 - len(block)))
        return int(entry(sizes, threads, ctypes.c_int64(shared_bytes), addresses))

    def run(
        self, name: str, grid: Sequence[int], block: Sequence[int], *args: torch.Tensor | int, shared_bytes: int = 0
    ) -> None:
        assert self.status(name, grid, block, *args, shared_bytes=shared_bytes) == 0


@functools.cache
def library(name: str) -> HostLibrary:
    """The kernels of ``device/NAME.cu``, compiled once per process for :data:`TARGET`."""
    return HostLibrary(compile_for_host(DEVICE_FOLDER / f"{name}.cu", Path(_objects.name) / f"{name}.so"))


def sample(dtype: torch.dtype, count: int, seed: int = 0) -> torch.Tensor:
    """Random values that differ and that the dtype holds exactly."""
    generator = torch.Generator().manual_seed(seed)
    if dtype.is_floating_point:
        return torch.randn(count, generator=generator).to(dtype)
    return torch.randint(0, 2 if dtype == torch.bool else 2**31 - 1, (count,), generator=generator).to(dtype)


def same_values(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Equal, where NaN equals NaN and the signs of zeros count."""
    if not a.is_floating_point():
        return torch.equal(a, b)
    is_nan = a.isnan()
    same_sign = a.signbit() == b.signbit()
    return torch.equal(is_nan, b.isnan()) and bool((is_nan | ((a == b) & same_sign)).all())
