"""Compiling and running the kernels of ``tests/device/*.cu``, for the tests of the device header.

They run on the CPU, unless the environment variable ``FUSEBUILD_TEST_TARGET`` names another target: ``host-asan``, for
which the sanitizer's library must be preloaded, or a GPU such as ``sm_90``.
"""

from __future__ import annotations

import ctypes
import functools
import math
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import pytest
import torch

from fusebuild.target.table import Target, find_target
from support.places import DEVICE, NATIVE, TEMPLATES

INCLUDE_FOLDER = TEMPLATES / "include"
TARGET = find_target(os.environ.get("FUSEBUILD_TEST_TARGET", "host"))
IS_SANITIZED = TARGET.name == "host-asan"
NAN, INF = math.nan, math.inf

only_on_the_host = pytest.mark.skipif(not TARGET.is_host, reason="on a GPU this is undefined")

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


def compile_kernels(source: Path, output: Path, target: Target, include: Path = INCLUDE_FOLDER) -> str:
    """Makes ``output`` from ``source``, a shared object or a cubin; warnings are errors. Returns what was said."""
    if target.is_host:
        flags = ["-x", "c++", "-fPIC", "-shared", "-fvisibility=hidden", "-ffp-contract=off", "-DFUSEBUILD_HOST"]
        flags += ["-Wall", "-Wextra", "-Werror", "-isystem", str(cuda_folder() / "include")]
        compiler = "g++"
    else:
        flags = ["-O3", "-cubin", "-Werror=all-warnings", "-Xptxas=-v"]
        compiler = find_nvcc()
    flags += ["-std=c++17", "-I", str(include), *target.compiler_flags]
    command = [compiler, *flags, str(source), "-o", str(output)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return result.stderr


def find_nvcc() -> str:
    nvcc = shutil.which("nvcc") or str(cuda_folder() / "bin" / "nvcc")
    if not Path(nvcc).exists():
        pytest.skip("no nvcc")
    return nvcc


def ptx_of(source: Path, folder: Path, architecture: str = "sm_90") -> str:
    """What nvcc makes of ``source`` before ptxas does; the file is left in ``folder``."""
    output = folder / f"{source.stem}.ptx"
    command = [find_nvcc(), "-std=c++17", "-O3", "-ptx", f"-arch={architecture}", "-I", str(INCLUDE_FOLDER)]
    subprocess.run([*command, str(source), "-o", str(output)], check=True)
    return output.read_text()


class Library(Protocol):
    """The kernels of one ``.cu`` file, callable by name."""

    path: Path

    def run(
        self, name: str, grid: Sequence[int], block: Sequence[int], *args: torch.Tensor | int, shared_bytes: int = 0
    ) -> None:
        """Runs a kernel: tensors are passed by address, ints as int64. Sizes beyond those given are 1."""


@functools.cache
def stack_library() -> Path:
    """What lends stacks to kernels here, as the executor does elsewhere."""
    output = Path(_objects.name) / "stacks.so"
    source = NATIVE / "stacks.cc"
    command = [
        "g++",
        "-std=c++17",
        "-O1",
        "-fPIC",
        "-shared",
        "-I",
        str(INCLUDE_FOLDER),
        str(source),
        "-o",
        str(output),
    ]
    subprocess.run(command, check=True)
    return output


def stacks_of(path: Path) -> ctypes.c_void_p:
    """The stacks that the library at ``path`` lends this thread."""
    lend = ctypes.CDLL(str(path)).lend_stacks
    lend.restype = ctypes.c_void_p
    return ctypes.c_void_p(lend())


class HostLibrary:
    """Kernels on the CPU."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.library = ctypes.CDLL(str(path))

    def run(
        self, name: str, grid: Sequence[int], block: Sequence[int], *args: torch.Tensor | int, shared_bytes: int = 0
    ) -> None:
        assert self.status(name, grid, block, *args, shared_bytes=shared_bytes) == 0

    def status(
        self, name: str, grid: Sequence[int], block: Sequence[int], *args: torch.Tensor | int, shared_bytes: int = 0
    ) -> int:
        entry = getattr(self.library, f"fusebuild_host3_{name}")
        entry.restype = ctypes.c_int32
        sizes, threads = (ctypes.c_int64 * 3)(*in_3d(grid)), (ctypes.c_int32 * 3)(*in_3d(block))
        values = pack(args)
        return int(
            entry(
                sizes,
                threads,
                ctypes.c_int64(shared_bytes),
                ctypes.c_int64(1),
                addresses_of(values),
                stacks_of(stack_library()),
            )
        )


class GpuLibrary:
    """Kernels on the current CUDA device; tensors are copied there and back."""

    def __init__(self, path: Path) -> None:
        self.path = path
        torch.cuda.synchronize()  # makes the context that the module is loaded into
        self.driver = ctypes.CDLL("libcuda.so.1")
        self.module = ctypes.c_void_p()
        assert self.driver.cuModuleLoad(ctypes.byref(self.module), str(path).encode()) == 0

    def run(
        self, name: str, grid: Sequence[int], block: Sequence[int], *args: torch.Tensor | int, shared_bytes: int = 0
    ) -> None:
        function = ctypes.c_void_p()
        assert self.driver.cuModuleGetFunction(ctypes.byref(function), self.module, name.encode()) == 0
        on_device = [arg.cuda() if isinstance(arg, torch.Tensor) else arg for arg in args]
        values, stream = pack(on_device), ctypes.c_void_p(0)
        sizes = [*in_3d(grid), *in_3d(block), shared_bytes]
        assert self.driver.cuLaunchKernel(function, *sizes, stream, addresses_of(values), None) == 0
        torch.cuda.synchronize()
        for arg, result in zip(args, on_device, strict=True):
            if isinstance(arg, torch.Tensor) and isinstance(result, torch.Tensor):
                arg.copy_(result)


def in_3d(sizes: Sequence[int]) -> tuple[int, ...]:
    return (*sizes, *[1] * (3 - len(sizes)))


def pack(args: Sequence[torch.Tensor | int]) -> list[ctypes.c_void_p | ctypes.c_int64]:
    return [ctypes.c_void_p(arg.data_ptr()) if isinstance(arg, torch.Tensor) else ctypes.c_int64(arg) for arg in args]


def addresses_of(values: Sequence[ctypes.c_void_p | ctypes.c_int64]) -> ctypes.Array[ctypes.c_void_p]:
    return (ctypes.c_void_p * len(values))(*[ctypes.addressof(value) for value in values])


@functools.cache
def library(name: str) -> Library:
    """The kernels of ``device/NAME.cu``, compiled once per process for :data:`TARGET`."""
    output = Path(_objects.name) / (f"{name}.so" if TARGET.is_host else f"{name}.cubin")
    compile_kernels(DEVICE / f"{name}.cu", output, TARGET)
    return HostLibrary(output) if TARGET.is_host else GpuLibrary(output)


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


def statistics(x: torch.Tensor, dim: int) -> torch.Tensor:
    """Mean, squared deviations and count of what lies along ``dim``."""
    exact = x.double()
    deviations = ((exact - exact.mean(dim, keepdim=True)) ** 2).sum(dim)
    return torch.stack([exact.mean(dim), deviations, torch.full_like(deviations, x.shape[dim])], dim=1)


RUN_ONE = """
import ctypes, sys
library, stacks, name, blocks, threads, first, shared = *sys.argv[1:4], *map(int, sys.argv[4:])
memory = ctypes.create_string_buffer(8192)
out = ctypes.c_void_p((ctypes.addressof(memory) + 63) // 64 * 64)
ctypes.c_int32.from_address(out.value).value = first
args = (ctypes.c_void_p * 1)(ctypes.addressof(out))
entry = getattr(ctypes.CDLL(library), "fusebuild_host3_" + name)
lend = ctypes.CDLL(stacks).lend_stacks
lend.restype = ctypes.c_void_p
grid, block = (ctypes.c_int64 * 3)(blocks, 1, 1), (ctypes.c_int32 * 3)(threads, 1, 1)
sys.exit(entry(grid, block, ctypes.c_int64(shared), ctypes.c_int64(1), args, ctypes.c_void_p(lend())))
"""


MISUSED = 3
"""What a kernel returns, and ``run_misuse`` with it, where a thread broke a rule."""


def run_misuse(
    path: Path, name: str, *, blocks: int = 1, threads: int = 64, first: int = 0, shared_bytes: int = 0
) -> subprocess.CompletedProcess[str]:
    arguments = [str(path), str(stack_library()), name, str(blocks), str(threads), str(first), str(shared_bytes)]
    return subprocess.run([sys.executable, "-c", RUN_ONE, *arguments], capture_output=True, text=True, check=False)
