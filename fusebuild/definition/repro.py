"""A definition and inputs like those of a call as one script that runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any


def repro_script(name: str, text: str, inputs: Sequence[Any] | None) -> str:
    """The script: ``text`` is the Python function ``name`` that records the definition. Tensors among ``inputs`` are
    drawn anew with the same sizes, strides, dtype and device; without inputs nothing is executed."""
    lines = ["from fusebuild import DataType, FusionDefinition", "", "", text, ""]
    lines += [f"with FusionDefinition(name={name!r}) as fd:", f"    {name}(fd)"]
    if inputs is not None:
        lines = ["import torch", "", *lines, "", "inputs = [", *_listed(inputs), "]", "print(fd.execute(inputs))"]
    return "\n".join(lines) + "\n"


def _listed(inputs: Sequence[Any]) -> Iterator[str]:
    for each in inputs:
        yield f"    {_tensor(each) if hasattr(each, 'stride') else _number(each)},"


def _tensor(tensor: Any) -> str:
    sizes, strides = tuple(tensor.size()), tuple(tensor.stride())
    reach = 0 if 0 in sizes else 1 + sum((size - 1) * step for size, step in zip(sizes, strides, strict=True))
    made = f"dtype={tensor.dtype}, device={str(tensor.device)!r}).as_strided({sizes}, {strides})"
    if tensor.dtype.is_floating_point:
        return f"torch.randn({reach}, {made}"
    return f"torch.randint(0, {2 if str(tensor.dtype) == 'torch.bool' else 10}, ({reach},), {made}"


def _number(number: Any) -> str:
    return repr(number) if isinstance(number, bool | int) else f'float("{number}")'
