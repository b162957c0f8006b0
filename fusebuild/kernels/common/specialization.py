"""Kernels for the very sizes that a recipe names (``extents: N: {values: [768, 4096]}``).

Such a kernel is what the family's scheduler makes of the same segment when its heuristics see that size and not the
first case's. Where that helps (``KernelSpec.sizes``) the size is no parameter but a constant: branches go, and
loads move ahead of what they waited behind (H200: layernorm of 16384 columns 270 -> 261 us, rope 158 -> 151). Only the
first choice is kept: tensors that it does not fit, such as misaligned ones, take the variants for any size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product

from fusebuild.ir.formula import Formula, evaluate, symbols
from fusebuild.ir.fusion import Fusion
from fusebuild.ir.types import TensorType
from fusebuild.kernels.common.spec import DEFAULT_EXTENT, KernelSpec, VariantSpec, known_parameters


def specialized_variants(
    fusion: Fusion, general: Sequence[VariantSpec], at: Callable[[Mapping[str, int]], Sequence[VariantSpec]]
) -> tuple[VariantSpec, ...]:
    """One variant of the segment ``fusion`` for each combination of sizes that the recipe names for its symbols; none
    where the variant that those sizes take among the ``general`` ones is the same. ``at`` gives what is made of the
    segment where heuristics see some sizes."""
    found = []
    for sizes in named_sizes(fusion):
        own = _knowing(taken_variant(at(hinted_sizes(fusion, sizes)), fusion, sizes), sizes)
        if own.launches and own.launches != taken_variant(general, fusion, sizes).launches:
            equal: tuple[Formula, ...] = tuple(("eq", symbol, size) for symbol, size in sizes.items())
            guard = tuple(dict.fromkeys((*equal, *own.guard)))
            found.append(replace(own, name=f"{specialized_prefix(sizes)}_{own.name}", guard=guard))
    return tuple(found)


def specialized_prefix(sizes: Mapping[str, int]) -> str:
    """What the name of a variant for these ``sizes`` begins with."""
    return "_".join(f"{symbol}{size}" for symbol, size in sizes.items())


def _knowing(variant: VariantSpec, sizes: Mapping[str, int]) -> VariantSpec:
    """``variant``, whose kernels know what follows from ``sizes`` where that helps."""

    def knowing(kernel: KernelSpec) -> KernelSpec:
        if not kernel.sizes.help:
            return kernel
        parameters = known_parameters(kernel.parameters, sizes)
        return replace(kernel, parameters=parameters, heuristics=kernel.sizes.heuristics or kernel.heuristics)

    return variant.with_kernels(knowing)


def used_symbols(fusion: Fusion) -> tuple[str, ...]:
    """The symbols in the shapes of the segment ``fusion``, each once."""
    types = [value.type for value in fusion.values.values()]
    shapes = [extent for each in types if isinstance(each, TensorType) for extent in each.shape]
    return tuple(dict.fromkeys(symbol for extent in shapes for symbol in symbols(extent)))


def named_sizes(fusion: Fusion) -> Iterator[Mapping[str, int]]:
    """The combinations of sizes that facts name for the symbols of ``fusion``; none where nothing is named."""
    used = used_symbols(fusion)
    named = [
        [(fact.symbol, size) for size in dict.fromkeys(fact.values)]
        for fact in fusion.facts
        if fact.symbol in used and fact.values
    ]
    return (dict(combination) for combination in product(*named) if combination)


def hinted_sizes(fusion: Fusion, sizes: Mapping[str, int]) -> dict[str, int]:
    """All sizes that heuristics assume: those of the first case that has ``sizes``, or of the first one."""
    fitting = [case for case in fusion.cases if all(case.get(symbol) == size for symbol, size in sizes.items())]
    return {**(fitting or [*fusion.cases, {}])[0], **sizes}


def taken_variant(variants: Sequence[VariantSpec], fusion: Fusion, sizes: Mapping[str, int]) -> VariantSpec:
    """The variant that aligned tensors of these sizes take."""
    hints = hinted_sizes(fusion, sizes)
    return next(
        variant
        for variant in variants
        if all(
            evaluate(guard, {name: hints.get(name, DEFAULT_EXTENT) for name in symbols(guard)}, lambda fid, size: True)
            for guard in variant.guard
        )
    )
