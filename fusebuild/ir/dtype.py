"""The element types of tensors and scalars, one row each. Adding one adds a row here and its conversions to the device
header ``templates/include/fusebuild/cast.cuh``; everything else about a dtype follows from its row.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class DTypeRow:
    """What is known of a dtype: the ``bytes`` of an element, its names in CUDA C++ and in torch, what people call it
    elsewhere (``spellings``, for hints), and the largest relative error that a result in it may have (``bound``).

    A floating type has so many ``exponent_bits`` and ``mantissa_bits``, the leading bit not counted; other types have
    none. ``torch_spellings`` are torch's other names for it. Recipes and plans call a dtype as DLPack
    does, which is how the executor knows it; the words double, float and half are the only other ones.
    """

    bytes: int
    c_type: str
    torch: str
    bound: float
    exponent_bits: int = 0
    mantissa_bits: int = 0
    torch_spellings: tuple[str, ...] = ()
    spellings: tuple[str, ...] = ()


class DType(enum.Enum):
    """Element types, named as recipes name them (nvFuser's Double, Float, Half, BFloat16, Int, Int32, Bool)."""

    _value_: str
    row: DTypeRow

    DOUBLE = "double", DTypeRow(
        bytes=8, c_type="double", torch="float64", torch_spellings=("double",), spellings=("float64", "fp64", "f64"),
        exponent_bits=11, mantissa_bits=52, bound=1e-12,
    )  # fmt: skip
    FLOAT = "float", DTypeRow(
        bytes=4, c_type="float", torch="float32", torch_spellings=("float",), spellings=("float32", "fp32", "f32"),
        exponent_bits=8, mantissa_bits=23, bound=1e-5,
    )  # fmt: skip
    HALF = "half", DTypeRow(
        bytes=2, c_type="__half", torch="float16", torch_spellings=("half",), spellings=("float16", "fp16", "f16"),
        exponent_bits=5, mantissa_bits=10, bound=2.0**-9,
    )  # fmt: skip
    BFLOAT16 = "bfloat16", DTypeRow(
        bytes=2, c_type="__nv_bfloat16", torch="bfloat16", spellings=("bf16",),
        exponent_bits=8, mantissa_bits=7, bound=2.0**-7,
    )  # fmt: skip
    INT64 = "int64", DTypeRow(
        bytes=8, c_type="int64_t", torch="int64", torch_spellings=("long",), spellings=("int", "long", "i64"),
        bound=0.0,
    )  # fmt: skip
    INT32 = "int32", DTypeRow(
        bytes=4, c_type="int32_t", torch="int32", torch_spellings=("int",), spellings=("i32",), bound=0.0,
    )  # fmt: skip
    BOOL = "bool", DTypeRow(bytes=1, c_type="bool", torch="bool", spellings=("boolean",), bound=0.0)

    def __new__(cls, name: str, row: DTypeRow | None = None) -> DType:
        """A member, once for each line above; ``DType("half")`` only looks one up."""
        assert row is not None
        member = object.__new__(cls)
        member._value_ = name
        member.row = row
        return member

    @enum.property
    def value(self) -> str:
        """The name of recipes and plans."""
        return self._value_

    @property
    def bytes(self) -> int:
        return self.row.bytes

    @property
    def is_floating(self) -> bool:
        return self.row.exponent_bits > 0

    @property
    def is_reduced_precision(self) -> bool:
        """A floating type of fewer bits than float: stored as such, computed in float."""
        return self.is_floating and self.bytes < DType.FLOAT.bytes

    @property
    def is_integer(self) -> bool:
        """True for integers, which bool is not."""
        return not self.is_floating and self is not DType.BOOL

    @property
    def lowest(self) -> int:
        """The lowest number of an integer type or bool."""
        return -(1 << 8 * self.bytes - 1) if self.is_integer else False

    @property
    def highest(self) -> int:
        """The highest number of an integer type or bool."""
        return (1 << 8 * self.bytes - 1) - 1 if self.is_integer else True

    @property
    def unit_in_last_place(self) -> float:
        """The distance of two neighbours of a floating type, relative to the smaller one, where it is largest."""
        return 2.0**-self.row.mantissa_bits

    def holds(self, other: DType) -> bool:
        """Whether every number of ``other`` is a number of this type, so that a cast there and back changes nothing."""
        if other in (self, DType.BOOL):
            return True
        if self.is_floating and other.is_floating:
            own, others = self.row, other.row
            return own.exponent_bits >= others.exponent_bits and own.mantissa_bits >= others.mantissa_bits
        digits = self.row.mantissa_bits + 1 if self.is_floating else 8 * self.bytes - 1
        return other.is_integer and self is not DType.BOOL and 8 * other.bytes - 1 <= digits


SCALAR_DTYPES = tuple(dtype for dtype in DType if not dtype.is_reduced_precision)
"""What scalars and the states of lambdas may be: the types that hosts and kernels compute in."""
