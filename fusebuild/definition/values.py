"""What the ops of a definition take and give: dtypes under nvFuser's names, tensors, scalars and vectors.

A handle holds a fid and the recorder that gave it; types are looked up, because a size that is unknown when a tensor
is made may become known later (:mod:`fusebuild.definition.recorder`).
"""

from __future__ import annotations

import enum
from typing import Any, Protocol

from fusebuild.ir.dtype import DType
from fusebuild.ir.formula import Formula
from fusebuild.ir.values import Value


class DataType(enum.Enum):
    """nvFuser's names of dtypes. ``Null`` leaves the choice to the op. Dtypes that are not named here are called after
    their rows, as ``Int8``."""

    Double = DType.DOUBLE
    Float = DType.FLOAT
    Half = DType.HALF
    BFloat16 = DType.BFLOAT16
    Int = DType.INT64
    Int32 = DType.INT32
    Bool = DType.BOOL
    Null = None
    vars().update({each.name.capitalize(): each for each in sorted({*DType} - {*vars().values()}, key=str)})


class Recorder(Protocol):
    """What a handle needs of the recorder."""

    def value(self, fid: int) -> Value: ...
    def operate(self, op: str, *operands: object) -> Any: ...
    def size(self, tensor: Tensor, dim: int) -> Scalar: ...
    def shape(self, tensor: Tensor) -> Vector: ...


class Operand:
    """A tensor or a scalar. Operators record ops: the result is a tensor unless both operands are scalars.

    ``/`` is nvFuser's ``div``, which truncates integers. Numbers become constants, each with a fid of its own.
    """

    __slots__ = ("_recorder", "index")

    def __init__(self, recorder: Recorder, index: int) -> None:
        self._recorder = recorder
        self.index = index
        """The fid."""

    @property
    def dtype(self) -> DataType:
        return DataType(self._recorder.value(self.index).dtype)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(index={self.index}, {self._recorder.value(self.index).type})"

    def __bool__(self) -> bool:
        raise TypeError("a value has no truth while it is recorded; use fd.ops.where, logical_and or logical_or")

    __hash__ = object.__hash__

    def __add__(self, other: object) -> Any:
        return self._recorder.operate("add", self, other)

    def __radd__(self, other: object) -> Any:
        return self._recorder.operate("add", other, self)

    def __sub__(self, other: object) -> Any:
        return self._recorder.operate("sub", self, other)

    def __rsub__(self, other: object) -> Any:
        return self._recorder.operate("sub", other, self)

    def __mul__(self, other: object) -> Any:
        return self._recorder.operate("mul", self, other)

    def __rmul__(self, other: object) -> Any:
        return self._recorder.operate("mul", other, self)

    def __truediv__(self, other: object) -> Any:
        return self._recorder.operate("div", self, other)

    def __rtruediv__(self, other: object) -> Any:
        return self._recorder.operate("div", other, self)

    def __mod__(self, other: object) -> Any:
        return self._recorder.operate("mod", self, other)

    def __rmod__(self, other: object) -> Any:
        return self._recorder.operate("mod", other, self)

    def __pow__(self, other: object) -> Any:
        return self._recorder.operate("pow", self, other)

    def __rpow__(self, other: object) -> Any:
        return self._recorder.operate("pow", other, self)

    def __and__(self, other: object) -> Any:
        return self._recorder.operate("bitwise_and", self, other)

    def __rand__(self, other: object) -> Any:
        return self._recorder.operate("bitwise_and", other, self)

    def __or__(self, other: object) -> Any:
        return self._recorder.operate("bitwise_or", self, other)

    def __ror__(self, other: object) -> Any:
        return self._recorder.operate("bitwise_or", other, self)

    def __xor__(self, other: object) -> Any:
        return self._recorder.operate("bitwise_xor", self, other)

    def __rxor__(self, other: object) -> Any:
        return self._recorder.operate("bitwise_xor", other, self)

    def __lshift__(self, other: object) -> Any:
        return self._recorder.operate("bitwise_left_shift", self, other)

    def __rlshift__(self, other: object) -> Any:
        return self._recorder.operate("bitwise_left_shift", other, self)

    def __rshift__(self, other: object) -> Any:
        return self._recorder.operate("bitwise_right_shift", self, other)

    def __rrshift__(self, other: object) -> Any:
        return self._recorder.operate("bitwise_right_shift", other, self)

    def __eq__(self, other: object) -> Any:
        return self._recorder.operate("eq", self, other)

    def __ne__(self, other: object) -> Any:
        return self._recorder.operate("ne", self, other)

    def __lt__(self, other: object) -> Any:
        return self._recorder.operate("lt", self, other)

    def __le__(self, other: object) -> Any:
        return self._recorder.operate("le", self, other)

    def __gt__(self, other: object) -> Any:
        return self._recorder.operate("gt", self, other)

    def __ge__(self, other: object) -> Any:
        return self._recorder.operate("ge", self, other)

    def __neg__(self) -> Any:
        return self._recorder.operate("neg", self)

    def __invert__(self) -> Any:
        return self._recorder.operate("bitwise_not", self)

    def __abs__(self) -> Any:
        return self._recorder.operate("abs", self)


class Tensor(Operand):
    """A tensor of the definition."""

    __slots__ = ()

    @property
    def ndim(self) -> int:
        return self._recorder.value(self.index).tensor.rank

    @property
    def extents(self) -> tuple[Formula, ...]:
        """The size of each dim as far as it is known now: a number, or a symbol such as ``i0``."""
        return self._recorder.value(self.index).tensor.shape

    def size(self, dim: int) -> Scalar:
        """The size of ``dim`` as a scalar, which takes a fid."""
        return self._recorder.size(self, dim)

    def shape(self) -> Vector:
        """The sizes of all dims as a vector, which takes a fid."""
        return self._recorder.shape(self)


class Scalar(Operand):
    """A number: a constant, a size, an argument, or what was computed from them."""

    __slots__ = ()


class Vector:
    """A fixed number of scalars, such as the shape that ``broadcast_in_dim`` takes."""

    __slots__ = ("_recorder", "index", "length")

    def __init__(self, recorder: Recorder, index: int, length: int) -> None:
        self._recorder, self.index, self.length = recorder, index, length

    def __len__(self) -> int:
        return self.length

    def __repr__(self) -> str:
        return f"Vector(index={self.index}, {self._recorder.value(self.index).type})"
