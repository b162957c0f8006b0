"""What a script that is imported gets for ``torch``: tensors without elements, and anything else without meaning.

Nothing is computed. A tensor made by a factory (``torch.randn``, ``empty_strided``, …) and what views of it are have a
shape, strides, a dtype and a device, which is what a definition may ask for; the result of any other call is an
:class:`Anything`. So a script reads the same on every machine, with torch and a GPU or without.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from fusebuild.ir.dtype import DType


class Anything:
    """Takes every attribute, call, operator and ``with``, and gives itself. It is true, and has no items."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, *args: Any, **_: Any) -> Any:
        is_decorator = len(args) == 1 and isinstance(args[0], type | type(lambda: None))
        return args[0] if is_decorator else self

    def __mro_entries__(self, _: tuple[type, ...]) -> tuple[type, ...]:
        return ()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def __getitem__(self, _: object) -> Any:
        return self

    def __setitem__(self, key: object, value: object) -> None:
        return None

    def __iter__(self) -> Any:
        raise TypeError("nothing is computed when a script is imported: this value has no items")

    def __float__(self) -> float:
        return math.nan

    def __repr__(self) -> str:
        return "<not computed>"

    def __format__(self, _: str) -> str:
        return repr(self)

    __hash__ = object.__hash__


def _itself(self: Any, *_: object) -> Any:
    return self


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor", "lshift",
              "rshift"):  # fmt: skip
    setattr(Anything, f"__{_name}__", _itself)
    setattr(Anything, f"__r{_name}__", _itself)
for _name in ("eq", "ne", "lt", "le", "gt", "ge", "neg", "pos", "abs", "invert"):
    setattr(Anything, f"__{_name}__", _itself)

ANYTHING = Anything()


@dataclass(frozen=True, slots=True, eq=False)
class TorchDtype:
    """``torch.float32`` and the others that a definition knows."""

    name: str
    known: DType

    @property
    def itemsize(self) -> int:
        return self.known.bytes

    @property
    def is_floating_point(self) -> bool:
        return self.known.is_floating

    def __repr__(self) -> str:
        return f"torch.{self.name}"


def _dtypes() -> Iterator[tuple[str, TorchDtype]]:
    for dtype in DType:
        made = TorchDtype(dtype.row.torch, dtype)
        yield from ((name, made) for name in (dtype.row.torch, *dtype.row.torch_spellings))


DTYPES = dict(_dtypes())
"""Every name that torch has for these dtypes."""


@dataclass(frozen=True, slots=True)
class Device:
    """``torch.device``."""

    type: str
    index: int | None = None


def device_of(given: Any = None, index: int | None = None) -> Device:
    """``given``, such as ``"cuda:0"`` or a device, as a device; the CPU for None."""
    if isinstance(given, Device):
        return given
    if isinstance(given, int) and not isinstance(given, bool):
        return Device("cuda", given)
    kind, _, number = str(given or "cpu").partition(":")
    return Device(kind, int(number) if number.isdecimal() else index)


def dense_strides(shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(math.prod(max(size, 1) for size in shape[dim + 1 :]) for dim in range(len(shape)))


@dataclass(frozen=True, slots=True, eq=False)
class TensorStandIn:
    """A tensor of which only what describes it is known."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: TorchDtype
    device: Device

    def dim(self) -> int:
        return len(self.shape)

    ndim = property(dim)

    @property
    def is_cuda(self) -> bool:
        return self.device.type == "cuda"

    def numel(self) -> int:
        return math.prod(self.shape)

    def size(self, dim: int | None = None) -> Any:
        return self.shape if dim is None else self.shape[dim]

    def stride(self, dim: int | None = None) -> Any:
        return self.strides if dim is None else self.strides[dim]

    def is_contiguous(self) -> bool:
        return all(a == b for a, b, size in zip(self.strides, dense_strides(self.shape), self.shape, strict=True)
                   if size != 1)  # fmt: skip

    def as_strided(self, size: Sequence[int], stride: Sequence[int], *_: object) -> TensorStandIn:
        return replace(self, shape=tuple(size), strides=tuple(stride))

    def contiguous(self, **_: object) -> TensorStandIn:
        return replace(self, strides=dense_strides(self.shape))

    def to(self, *args: Any, **named: Any) -> TensorStandIn:
        dtypes = [given for given in (*args, *named.values()) if isinstance(given, TorchDtype)]
        devices = [given for given in (*args, *named.values()) if isinstance(given, str | Device)]
        return replace(
            self,
            dtype=dtypes[0] if dtypes else self.dtype,
            device=device_of(devices[0]) if devices else self.device,
        )

    def cuda(self, *_: object) -> TensorStandIn:
        return self.to("cuda")

    def cpu(self) -> TensorStandIn:
        return self.to("cpu")

    def permute(self, *dims: Any) -> TensorStandIn:
        shape, strides = (tuple(of[dim] for dim in _sizes(dims)) for of in (self.shape, self.strides))
        return replace(self, shape=shape, strides=strides)

    def transpose(self, a: int, b: int) -> TensorStandIn:
        order = list(range(self.ndim))
        order[a], order[b] = order[b], order[a]
        return self.permute(order)

    def t(self) -> TensorStandIn:
        return self.transpose(0, 1) if self.ndim == 2 else self

    def unsqueeze(self, dim: int) -> TensorStandIn:
        at = dim % (self.ndim + 1)
        step = self.shape[at] * self.strides[at] if at < self.ndim else 1
        shape, strides = (*self.shape[:at], 1, *self.shape[at:]), (*self.strides[:at], step, *self.strides[at:])
        return replace(self, shape=shape, strides=strides)

    def expand(self, *sizes: Any) -> TensorStandIn:
        wanted = _sizes(sizes)
        new = len(wanted) - self.ndim
        shape, strides = (1,) * new + self.shape, (0,) * new + self.strides
        sized = tuple(own if size == -1 else size for own, size in zip(shape, wanted, strict=True))
        steps = tuple(step if own == size else 0 for own, size, step in zip(shape, sized, strides, strict=True))
        return replace(self, shape=sized, strides=steps)

    def reshape(self, *sizes: Any) -> TensorStandIn:
        wanted = list(_sizes(sizes))
        if -1 in wanted:
            wanted[wanted.index(-1)] = self.numel() // max(-math.prod(wanted), 1)
        return replace(self, shape=tuple(wanted), strides=dense_strides(wanted))

    view = reshape

    def clone(self, *_: object, **__: object) -> TensorStandIn:
        return self

    detach = requires_grad_ = clone

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        in_dtype = DTYPES.get(name)
        return (lambda: self.to(in_dtype)) if in_dtype is not None else ANYTHING


for _name in ("add", "sub", "mul", "truediv", "pow", "matmul", "radd", "rsub", "rmul", "rtruediv", "rpow", "rmatmul",
              "eq", "ne", "lt", "le", "gt", "ge", "neg", "abs", "getitem"):  # fmt: skip
    setattr(TensorStandIn, f"__{_name}__", lambda *_: ANYTHING)


def _sizes(args: Sequence[Any]) -> tuple[int, ...]:
    """``(2, 3)`` from ``f(2, 3)`` and from ``f((2, 3))``."""
    given = args[0] if len(args) == 1 and isinstance(args[0], Sequence) else args
    return tuple(int(size) for size in given)


def _tensor(shape: Sequence[int], named: dict[str, Any], default: str = "float32") -> TensorStandIn:
    dtype = named.get("dtype") or DTYPES[default]
    return TensorStandIn(tuple(shape), dense_strides(shape), dtype, device_of(named.get("device")))


def _of_sizes(*args: Any, **named: Any) -> TensorStandIn:
    return _tensor(_sizes([named["size"]] if "size" in named else args), named)


def _full(size: Sequence[int], fill_value: object, **named: Any) -> TensorStandIn:
    return _tensor(size, named, _literal_dtype(fill_value))


def _randint(*args: Any, **named: Any) -> TensorStandIn:
    return _tensor(
        next(_sizes([given]) for given in (*args, named.get("size")) if isinstance(given, Sequence)), named, "int64"
    )


def _from_data(data: Any, **named: Any) -> TensorStandIn:
    shape = []
    while isinstance(data, Sequence):
        shape.append(len(data))
        data = data[0] if data else 0.0
    return _tensor(shape, named, _literal_dtype(data))


def _literal_dtype(literal: object) -> str:
    return "bool" if isinstance(literal, bool) else "int64" if isinstance(literal, int) else "float32"


def _empty_strided(size: Sequence[int], stride: Sequence[int], **named: Any) -> TensorStandIn:
    return replace(_tensor(size, named), strides=tuple(stride))


def _like(tensor: TensorStandIn, **named: Any) -> TensorStandIn:
    return tensor.to(*(given for given in named.values() if isinstance(given, TorchDtype | Device | str)))


FACTORIES: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(("randn", "rand", "zeros", "ones", "empty"), _of_sizes),
    **dict.fromkeys(("randn_like", "rand_like", "zeros_like", "ones_like", "empty_like"), _like),
    "full": _full,
    "randint": _randint,
    "tensor": _from_data,
    "empty_strided": _empty_strided,
    "device": device_of,
    "Size": tuple,
}


class _TorchModule(ModuleType):
    """``torch``, or anything below it."""

    __version__ = "0"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        known = {**FACTORIES, **DTYPES, "Tensor": TensorStandIn} if self.__name__ == "torch" else {}
        return known.get(name, ANYTHING)


class TorchFinder(MetaPathFinder, Loader):
    """Finds the stand-in wherever ``torch`` or a module below it is imported, installed or not."""

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:
        return ModuleSpec(fullname, self, is_package=True) if fullname.partition(".")[0] == "torch" else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _TorchModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        return None


def install_torch() -> None:
    """Make ``import torch`` give the stand-in. For a process of its own, before torch is imported."""
    assert "torch" not in sys.modules, "torch is imported already"
    sys.meta_path.insert(0, TorchFinder())
