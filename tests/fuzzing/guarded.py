"""Tensors whose memory ends at a page that nobody may touch, for the executor and for its callers.

Inputs are made, and results are allocated, by the allocator that ``tvm_ffi`` lets any caller bring, so the executor has
no switch for this. Nothing here needs torch.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
from collections.abc import Mapping
from typing import Any

from fusebuild.artifact.plan import PlanValue, as_formula
from fusebuild.ir.formula import evaluate

_PAGE, _MOST = mmap.PAGESIZE, 1 << 28
_UNSIGNED, _BFLOAT = 1, 4  # what DLPack calls the kinds of dtypes
_DTYPES = {"float": "f4", "double": "f8", "half": "f2", "bfloat16": "u2", "int64": "i8", "int32": "i4", "bool": "?"}
"""As numpy has them: it has no bfloat16."""


class _Dlpack(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]  # fmt: skip


class _Managed(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64), ("tensor", _Dlpack),
    ]  # fmt: skip


_SetError = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p)
_Allocator = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.POINTER(_Dlpack), ctypes.POINTER(ctypes.POINTER(_Managed)), ctypes.c_void_p, _SetError
)
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
_kept: list[Any] = []


def memory(size: int, alignment: int) -> int:
    """The address of ``size`` zero bytes that end at a page that nobody may touch, but for what ``alignment`` takes.
    They are never freed: a child that has called ends."""
    room = -(-max(size, 1) // _PAGE) * _PAGE
    start = _libc.mmap(None, room + 2 * _PAGE, 0, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
    if _libc.mprotect(start + _PAGE, room, mmap.PROT_READ | mmap.PROT_WRITE) != 0:
        raise MemoryError(f"{size} bytes")
    return int(start) + _PAGE + (room - size) // alignment * alignment


@_Allocator
def _allocate(like: Any, made: Any, context: Any, set_error: Any) -> int:
    tensor = like.contents
    count = 1
    for dim in range(tensor.ndim):
        count *= tensor.shape[dim]
    size = count * tensor.bits // 8
    if not 0 <= size <= _MOST:
        set_error(context, b"MemoryError", b"out of memory")
        return -1
    strides, step = (ctypes.c_int64 * max(tensor.ndim, 1))(), 1
    for dim in reversed(range(tensor.ndim)):
        strides[dim], step = step, step * tensor.shape[dim]
    shape = (ctypes.c_int64 * max(tensor.ndim, 1))(*(tensor.shape[dim] for dim in range(tensor.ndim)))
    # The workspace is bytes, whose start the executor rounds up: so its end is the page's.
    address = memory(size, 1 if tensor.bits == 8 else 16)
    own = _Managed(1, 1, None, None, 0, tensor)
    own.tensor.data, own.tensor.byte_offset = address, 0
    own.tensor.shape, own.tensor.strides = shape, strides
    _kept.extend((own, shape, strides))
    made[0] = ctypes.pointer(own)
    return 0


def use() -> None:
    """Have the executor allocate between pages that nobody may touch."""
    sys.modules["torch"] = None  # type: ignore[assignment]
    import tvm_ffi

    library = ctypes.CDLL(tvm_ffi.libinfo.find_libtvm_ffi())
    library.TVMFFIEnvSetDLPackManagedTensorAllocator(_allocate, 1, None)


class _Relabelled:
    """A tensor whose bits are said to be of another kind."""

    def __init__(self, tensor: Any, kind: int) -> None:
        self._tensor, self._kind = tensor, kind

    def __dlpack_device__(self) -> tuple[int, int]:
        device: tuple[int, int] = self._tensor.__dlpack_device__()
        return device

    def __dlpack__(self, **_: Any) -> Any:
        capsule = self._tensor.__dlpack__()
        _Dlpack.from_address(_pointer(capsule, b"dltensor")).code = self._kind
        return capsule


def argument(value: PlanValue, sizes: Mapping[str, int]) -> Any:
    """What a call is given for the input ``value``, the same each time."""
    import numpy
    import tvm_ffi

    dtype = numpy.dtype(_DTYPES[value.dtype])
    if value.kind == "scalar":
        return {"bool": True, "int64": 2, "int32": 2}.get(value.dtype, 1.5)
    shape = [evaluate(as_formula(size), sizes) for size in value.shape]
    strides = _strides(value, shape, sizes)
    room = 1 + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True)) if 0 not in shape else 0
    address = memory(room * dtype.itemsize, 16)
    flat = numpy.frombuffer((ctypes.c_char * (room * dtype.itemsize)).from_address(address), dtype)
    numbers = numpy.arange(room) % 13 - 3
    flat[...] = numbers.astype("f4").view("u4") >> 16 if value.dtype == "bfloat16" else numbers
    steps = [stride * dtype.itemsize for stride in strides]
    array = numpy.lib.stride_tricks.as_strided(flat, shape, steps)
    return tvm_ffi.from_dlpack(_Relabelled(array, _BFLOAT) if value.dtype == "bfloat16" else array)


def _strides(value: PlanValue, shape: list[int], sizes: Mapping[str, int]) -> list[int]:
    """Those that ``value`` says, and where it leaves them to the caller as if there were no gaps."""
    strides: list[int] = []
    dense = 1
    for size, stride in zip(reversed(shape), reversed(value.strides), strict=True):
        strides.insert(0, dense if stride is None else evaluate(as_formula(stride), sizes))
        dense *= size if strides[0] else 1
    return strides


def bytes_of(tensor: Any) -> bytes:
    """The bytes of a result."""
    import numpy

    plain = _Relabelled(tensor, _UNSIGNED) if str(tensor.dtype) == "bfloat16" else tensor
    return bytes(numpy.from_dlpack(plain).tobytes())
