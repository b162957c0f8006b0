"""Which words a recipe may use as names.

Names reach file names, C++ identifiers, CUDA comments and Python calls, so they must be harmless in all of them:
``[A-Za-z_][A-Za-z0-9_]*``, and no word that one of those languages keeps for itself.
"""

from __future__ import annotations

import keyword
import re

from fusebuild.ir.dtype import DType

MAX_NAME_LENGTH = 64

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_CPP = _words(
    """alignas alignof and_eq asm auto bitand bitor bool case catch char char8_t char16_t char32_t co_await co_return
    co_yield compl concept const const_cast consteval constexpr constinit decltype default delete do double dynamic_cast
    enum explicit export extern false float friend goto inline int long main mutable namespace new noexcept not_eq
    nullptr operator or_eq private protected public register reinterpret_cast requires restrict short signed sizeof
    static static_assert static_cast struct switch template this thread_local throw true typedef typeid typename union
    unsigned using virtual void volatile wchar_t xor xor_eq NULL NAN INFINITY EOF assert errno"""
)
_CUDA = _words("threadIdx blockIdx blockDim gridDim warpSize dim3 half2 float2 float4")
_DTYPES = frozenset(dtype.value for dtype in DType)


def reserved_by(name: str) -> str:
    """Who keeps ``name`` for itself (``Python``, ``C++``, ``CUDA``, ``recipes``), or an empty string."""
    if name in _DTYPES:
        return "recipes, where it is a dtype"
    if keyword.iskeyword(name):
        return "Python"
    if name in _CPP:
        return "C++"
    if name == "fb":
        return "kernels, which call their own functions by it"
    return "CUDA" if name in _CUDA else ""


def name_problem(name: str) -> tuple[str, str]:
    """``(message, hint)`` saying why ``name`` cannot be used; two empty strings when it can."""
    if not _NAME.fullmatch(name):
        shown = name if len(name) <= MAX_NAME_LENGTH else f"{name[:MAX_NAME_LENGTH]}…"
        hint = "a name does not start with a digit" if name[:1].isdigit() else "letters are A to Z and a to z"
        return f"'{shown}' is not a name: use letters, digits and _", hint if name.isalnum() else ""
    if len(name) > MAX_NAME_LENGTH:
        return f"the name '{name[:16]}…' is longer than {MAX_NAME_LENGTH} characters", ""
    if name.startswith("__"):
        return f"'{name}' starts with __, which belongs to compilers", "start it with a letter"
    if owner := reserved_by(name):
        return f"'{name}' is a reserved word of {owner}", f"call it '{name}_', or better by what it means"
    return "", ""
