"""Kernels for the very sizes that a recipe names (``extents: N: {values: [768, 4096]}``).

Such a kernel is what the family's scheduler makes of the same segment when its heuristics see that size and not the
first case's. The size stays a parameter: a compiler that knows every trip count moves loads further ahead than
registers last (measured on layernorm, 4096 columns: 92 registers for 56, and 6 % slower). Only the first choice is
kept: tensors that it does not fit, such as misaligned ones, take the variants for any size.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product

from fusebuild.formula import Formula, evaluate, symbols
from fusebuild.ir import Fusion, Task, TensorType
from fusebuild.schedule.kernel import DEFAULT_EXTENT, Scheduler, VariantSpec
from fusebuild.target import Target


def specialized_variants(
    task: Task, scheduler: Scheduler, target: Target, general: Sequence[VariantSpec]
) -> tuple[VariantSpec, ...]:
    """One variant of a segment, all of which is ``task``, for each combination of sizes that the recipe names for its
    symbols; none where the variant that those sizes take among the ``general`` ones is the same."""
    found, fusion = [], task.fusion
    for sizes in named_sizes(fusion):
        own = _taken(scheduler.schedule(task, target, _hints(fusion, sizes)), fusion, sizes)
        if own.launches and own.launches != _taken(general, fusion, sizes).launches:
            prefix = "_".join(f"{symbol}{size}" for symbol, size in sizes.items())
            equal: tuple[Formula, ...] = tuple(("eq", symbol, size) for symbol, size in sizes.items())
            found.append(replace(own, name=f"{prefix}_{own.name}", guard=(*equal, *own.guard)))
    return tuple(found)


def named_sizes(fusion: Fusion) -> Iterator[Mapping[str, int]]:
    """The combinations of sizes that facts name for the symbols of ``fusion``; none where nothing is named."""
    types = [value.type for value in fusion.values.values()]
    shapes = [extent for each in types if isinstance(each, TensorType) for extent in each.shape]
    used = {symbol for extent in shapes for symbol in symbols(extent)}
    named = [
        [(fact.symbol, size) for size in dict.fromkeys(fact.values)]
        for fact in fusion.facts
        if fact.symbol in used and fact.values
    ]
    return (dict(combination) for combination in product(*named) if combination)


def _hints(fusion: Fusion, sizes: Mapping[str, int]) -> dict[str, int]:
    """All sizes that heuristics assume: those of the first case that has ``sizes``, or of the first one."""
    fitting = [case for case in fusion.cases if all(case.get(symbol) == size for symbol, size in sizes.items())]
    return {**(fitting or [*fusion.cases, {}])[0], **sizes}


def _taken(variants: Sequence[VariantSpec], fusion: Fusion, sizes: Mapping[str, int]) -> VariantSpec:
    """The variant that aligned tensors of these sizes take."""
    hints = _hints(fusion, sizes)
    return next(
        variant
        for variant in variants
        if all(
            evaluate(guard, {name: hints.get(name, DEFAULT_EXTENT) for name in symbols(guard)}, lambda fid, size: True)
            for guard in variant.guard
        )
    )
