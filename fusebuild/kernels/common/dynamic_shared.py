"""What kernels have in dynamic shared memory: one declaration after another, each where the one before it ends.

What is widest comes first, so that each is aligned.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fusebuild.ir.dtype import DType
from fusebuild.kernels.common.statements import Body
from fusebuild.kernels.common.view import Lines


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedArray:
    """So many ``elements``, a C expression, of ``dtype``, or so many vectors of them."""

    name: str
    elements: str
    dtype: DType


def widest_first(arrays: Iterable[SharedArray]) -> tuple[SharedArray, ...]:
    return tuple(sorted(arrays, key=lambda array: -array.dtype.bytes))


def arrays_of(body: Body, fids: Iterable[int], name: str, elements: str) -> tuple[SharedArray, ...]:
    """An array for each of ``fids``, called ``name`` and its fid: the widest first."""
    return widest_first(SharedArray(name=f"{name}{f}", elements=elements, dtype=body.value(f).dtype) for f in fids)


def arrays_in_shared(arrays: Iterable[SharedArray]) -> Lines:
    """Declarations of ``arrays``."""
    lines, end, before = list[str](), "", ""
    for array in arrays:
        c_type = array.dtype.row.c_type
        begin = (end if c_type == before else cast_to(c_type, end)) if end else f"fb::dynamic_shared<{c_type}>()"
        lines.append(f"{c_type}* {array.name} = {begin};")
        end, before = f"{array.name} + {array.elements}", c_type
    return tuple(lines)


def places_in_shared(arrays: Iterable[SharedArray], thread: str) -> Lines:
    """Declarations of where in ``arrays``, whose elements are vectors, a thread's own places begin: at the number
    ``thread``, a C expression."""
    lines, end = list[str](), "fb::dynamic_shared<unsigned char>()"
    for array in arrays:
        packed = f"fb::Packed<{array.dtype.row.c_type}, kVec>"
        lines.append(f"{packed}* const {array.name} = {cast_to(packed, end)} + {thread};")
        end = f"{array.name} - {thread} + {array.elements}"
    return tuple(lines)


def array_in_place(body: Body, fid: int, place: int, name: str) -> str:
    """The declaration of the array of ``fid``, which lies where that of ``place`` does."""
    c_type, array = body.c_type(fid), f"{name}{place}"
    return f"{c_type}* {name}{fid} = {array if c_type == body.c_type(place) else cast_to(c_type, array)};"


def cast_to(c_type: str, address: str) -> str:
    """``address`` as one of ``c_type``."""
    return f"reinterpret_cast<{c_type}*>({address})"
