"""What the ops of a definition take and give: dtypes under nvFuser's names, tensors, scalars and vectors.

A handle holds a fid and the recorder that gave it; types are looked up, because a size that is unknown when a tensor
is made may become known later (:mod:`fusebuild.definition.recorder`).
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fusebuild.ir.dtype import DType
from fusebuild.ir.formula import Formula

if TYPE_CHECKING:
    from fusebuild.definition.recorder import DefinitionRecorder


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


def _binary(op: str) -> tuple[Callable[[Operand, object], Any], Callable[[Operand, object], Any]]:
    """The operator that records ``op``, and the one of an operand that stands on the right."""

    def operator(self: Operand, other: object) -> Any:
        return self._recorder.operate(op, self, other)

    def reflected(self: Operand, other: object) -> Any:
        return self._recorder.operate(op, other, self)

    return operator, reflected


def _unary(op: str) -> Callable[[Operand], Any]:
    return lambda self: self._recorder.operate(op, self)


class Operand:
    """A tensor or a scalar. Operators record ops: the result is a tensor unless both operands are scalars.

    ``/`` is nvFuser's ``div``, which truncates integers. Numbers become constants, each with a fid of its own.
    """

    __slots__ = ("_recorder", "index")

    def __init__(self, recorder: DefinitionRecorder, index: int) -> None:
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

    def is_tensor(self) -> bool:
        """Whether this has dims, which a scalar has not."""
        return isinstance(self, Tensor)

    __hash__ = object.__hash__

    __add__, __radd__ = _binary("add")
    __sub__, __rsub__ = _binary("sub")
    __mul__, __rmul__ = _binary("mul")
    __truediv__, __rtruediv__ = _binary("div")
    __mod__, __rmod__ = _binary("mod")
    __pow__, __rpow__ = _binary("pow")
    __and__, __rand__ = _binary("bitwise_and")
    __or__, __ror__ = _binary("bitwise_or")
    __xor__, __rxor__ = _binary("bitwise_xor")
    __lshift__, __rlshift__ = _binary("bitwise_left_shift")
    __rshift__, __rrshift__ = _binary("bitwise_right_shift")
    __eq__ = _binary("eq")[0]
    __ne__ = _binary("ne")[0]
    __lt__ = _binary("lt")[0]
    __le__ = _binary("le")[0]
    __gt__ = _binary("gt")[0]
    __ge__ = _binary("ge")[0]
    __neg__, __invert__, __abs__ = _unary("neg"), _unary("bitwise_not"), _unary("abs")


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

    def __init__(self, recorder: DefinitionRecorder, index: int, length: int) -> None:
        self._recorder, self.index, self.length = recorder, index, length

    def __len__(self) -> int:
        return self.length

    def __repr__(self) -> str:
        return f"Vector(index={self.index}, {self._recorder.value(self.index).type})"
