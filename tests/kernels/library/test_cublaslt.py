"""How the runtime calls cuBLASLt and copies matrices for it, where stand-ins (``native/``) play the library and the
driver."""

from __future__ import annotations

import importlib.util
import os
import subprocess
from ctypes.util import find_library
from pathlib import Path

import pytest

from support.places import NATIVE, ROOT

COMPILER = ["g++", "-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror"]


def compiled(program: Path, test: str, *names: str) -> Path:
    """``program`` of the test and of the runtime's sources of those names."""
    spec = importlib.util.find_spec("tvm_ffi")
    assert spec is not None
    assert spec.origin is not None
    ffi = Path(spec.origin).parent
    sources = ROOT / "fusebuild" / "runtime" / "native"
    files = [NATIVE / f"{test}.cc", *(sources / f"{name}.cc" for name in names)]
    subprocess.run(
        [*COMPILER, "-fsanitize=address,undefined", "-o", program, f"-I{sources}", "-isystem", ffi / "include", *files,
         f"-L{ffi / 'lib'}", "-ltvm_ffi", f"-Wl,-rpath,{ffi / 'lib'}", "-ldl"],
        check=True,
    )  # fmt: skip
    return program


def test_products_of_even_copies_are_the_same(tmp_path: Path) -> None:
    fake = NATIVE / "fake_cuda.cc"
    subprocess.run(["g++", "-std=c++17", "-shared", "-fPIC", "-o", tmp_path / "libcuda.so.1", fake, "-ldl"], check=True)
    names = ("even_product", "cuda_driver", "dtype", "product_host")
    program = compiled(tmp_path / "even_product_test", "even_product_test", *names)
    environment = os.environ | {"LD_LIBRARY_PATH": str(tmp_path)}
    done = subprocess.run([program], capture_output=True, text=True, env=environment)
    assert done.stderr == ""
    copies = 16520 * 416 * 2 + 1656 * 416 * 2 + 16520 * 1656 * 2
    first, *rest = done.stdout.splitlines()[-1].split()
    assert done.stdout.splitlines()[:-1] == ["48 of 56 products were copied, 0 are wrong"]
    assert copies <= int(first) < copies + 3 * 256
    assert rest == ["0", "0", "0", "0"]  # even, small, in float, a batch


def test_the_library_is_called_as_its_documentation_says(tmp_path: Path) -> None:
    fake = tmp_path / "libcublasLt_fake.so"
    subprocess.run([*COMPILER, "-shared", "-fPIC", "-o", fake, NATIVE / "fake_cublaslt.cc"], check=True)
    names = ("cublaslt", "even_product", "cuda_driver", "dtype", "product_host")
    program = compiled(tmp_path / "cublaslt_test", "cublaslt_test", *names)
    if find_library("cublasLt"):
        pytest.skip("the system's cuBLASLt would be taken where none is to be found")
    done = subprocess.run([program, fake], capture_output=True, text=True)
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "RuntimeError: cuBLASLt, which computes matrix products, cannot be loaded: looked for "
        "/nowhere/libcublasLt.so.13, libcublasLt.so.13, libcublasLt.so.12, libcublasLt.so; "
        "it comes with the CUDA toolkit and with the Python package nvidia-cublas",
        "0 products are wrong",
        "RuntimeError: f: cuBLASLt has no algorithm for a product of float[4, 13] and [13, 2]: "
        "CUBLAS_STATUS_NOT_SUPPORTED",
    ]
