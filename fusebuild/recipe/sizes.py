"""The sizes of a case: which symbols want one, which sizes a recipe allows, and the bytes that they make."""

from __future__ import annotations

from collections.abc import Mapping

from fusebuild.errors import UsageError, nearest
from fusebuild.ir.formula import Formula, evaluate, show, total
from fusebuild.ir.fusion import Fusion
from fusebuild.ops.footprint import read_bytes
from fusebuild.recipe.sections import broken_fact, broken_relation


def symbols_of(fusion: Fusion) -> list[str]:
    """The symbols in the shapes of the inputs of ``fusion``, once each, in order."""
    return [*fusion.symbols]


def shown_case(case: Mapping[str, int]) -> str:
    """``case`` as ``--case`` takes it: ``M=4,N=0``."""
    return ",".join(f"{name}={size}" for name, size in case.items())


def require_fitting(fusion: Fusion, case: Mapping[str, int]) -> None:
    """Raise :class:`UsageError` unless ``case`` gives each symbol of ``fusion`` a size that the recipe allows."""
    symbols = symbols_of(fusion)
    shown = shown_case(case)
    for name in case:
        if name not in symbols:
            hint = nearest(name, symbols) or f"its symbols are {', '.join(symbols) or 'none'}"
            raise UsageError(f"case {shown}: {fusion.name} has no symbol {name}; {hint}")
    if absent := [symbol for symbol in symbols if symbol not in case]:
        raise UsageError(f"case {shown}: {fusion.name} needs a size for {', '.join(absent)}")
    for fact in fusion.facts:
        if broken := broken_fact(fact, case[fact.symbol]):
            raise UsageError(f"case {shown}: {fact.symbol} is {case[fact.symbol]}, but {broken}")
    for relation in fusion.relations:
        if broken := broken_relation(relation, case):
            raise UsageError(f"case {shown}: {broken}, but relations say {show(relation)}")
    for binding in fusion.extents:
        if (size := evaluate(binding.extent, case)) < 0:
            name = fusion.value(binding.input).name
            raise UsageError(f"case {shown}: dim {binding.dim} of '{name}', {show(binding.extent)}, would be {size}")


def least_bytes(fusion: Fusion, case: Mapping[str, int]) -> int:
    """Bytes that any implementation must move: each distinct element of every input and output once, of inputs that
    only index ops read what they take."""
    return evaluate(least_bytes_formula(fusion), case)


def least_bytes_formula(fusion: Fusion) -> Formula:
    """:func:`least_bytes` over the symbols of ``fusion``."""
    inputs = [read_bytes(fusion, value.fid) for value in fusion.tensor_inputs]
    outputs = [fusion.value(fid).tensor for fid in fusion.output_fids]
    return total([*inputs, *(output.nbytes for output in outputs)])


def numels_of(fusion: Fusion) -> set[Formula]:
    """The numbers of elements of all tensors anywhere in ``fusion``, over its symbols."""
    return {value.tensor.numel for value in fusion.values.values() if value.is_tensor}
