"""The types of values: tensors with their layout, scalars, and vectors of scalars."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from fusebuild.ir.dtype import DType
from fusebuild.ir.formula import Formula, product, show

Literal: TypeAlias = "bool | int | float"


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorType:
    """A tensor's dtype and layout.

    ``shape`` holds one extent per dim: an int, a symbol, or a formula. ``contiguity`` follows nvFuser: True when the
    dim's stride is the product of the next inner dims, False when it is known only at run time, None when the dim is a
    broadcast (size 1, or expanded with stride 0). ``stride_order`` gives each dim's position counted from the innermost
    (``(1, 0)`` is row-major). ``cpu`` marks a zero-dim tensor in host memory, read as a scalar.
    """

    dtype: DType
    shape: tuple[Formula, ...]
    contiguity: tuple[bool | None, ...]
    stride_order: tuple[int, ...]
    cpu: bool = False

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def numel(self) -> Formula:
        """Number of elements, broadcast dims counted at their full extent."""
        return product(self.shape)

    @property
    def is_row_major(self) -> bool:
        return self.stride_order == tuple(reversed(range(self.rank)))

    @property
    def is_plain(self) -> bool:
        """Whether it is row-major and contiguous, on the device: what :func:`tensor_type` makes of dtype and shape."""
        return self == tensor_type(self.dtype, self.shape)

    @property
    def stored_shape(self) -> tuple[Formula, ...]:
        """The shape with broadcast dims at 1: what memory holds."""
        return tuple(1 if flag is None else extent for extent, flag in zip(self.shape, self.contiguity, strict=True))

    @property
    def nbytes(self) -> Formula:
        """Bytes of the distinct elements: stride-0 and broadcast dims count once."""
        return product([self.dtype.bytes, *self.stored_shape])

    @property
    def strides(self) -> tuple[Formula | None, ...]:
        """The stride of each dim in elements; 0 for a broadcast dim, None where it is known only at run time."""
        strides: list[Formula | None] = [None] * self.rank
        running: Formula | None = 1
        for dim in sorted(range(self.rank), key=lambda d: self.stride_order[d]):
            if self.contiguity[dim] is None:
                strides[dim] = 0
                continue
            if not self.contiguity[dim] or not self.is_row_major:
                running = None
            strides[dim] = running
            running = None if running is None else product([self.shape[dim] or 1, running])  # 0 would say broadcast
        return tuple(strides)

    def __str__(self) -> str:
        dims = ", ".join(
            f"{show(extent)}{'' if flag or extent == 1 else '?' if flag is False else '~'}"
            for extent, flag in zip(self.shape, self.contiguity, strict=True)
        )
        order = "" if self.is_row_major else f" stride_order={list(self.stride_order)}"
        return f"{self.dtype.value}[{dims}]{order}{' cpu' if self.cpu else ''}"


def tensor_type(
    dtype: DType, shape: Sequence[Formula], broadcast: Iterable[int] = (), *, cpu: bool = False
) -> TensorType:
    """A row-major tensor type, contiguous but for the dims in ``broadcast`` (constant size-1 dims are always added)."""
    expanded = set(broadcast)
    return TensorType(
        dtype=dtype,
        shape=tuple(shape),
        contiguity=tuple(None if dim in expanded or extent == 1 else True for dim, extent in enumerate(shape)),
        stride_order=tuple(reversed(range(len(shape)))),
        cpu=cpu,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalarType:
    """One number, held on the host and passed to kernels by value."""

    dtype: DType

    def __str__(self) -> str:
        return self.dtype.value


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorType:
    """A fixed number of scalars, such as a shape (nvFuser's ``define_vector``)."""

    dtype: DType
    length: int

    def __str__(self) -> str:
        return f"{self.dtype.value}<{self.length}>"


ValueType: TypeAlias = TensorType | ScalarType | VectorType
