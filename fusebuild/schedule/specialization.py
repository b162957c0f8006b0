"""Kernels for the very sizes that a recipe names (``extents: N: {values: [768, 4096]}``).

Such a kernel is what the family's scheduler makes of the same segment with the symbol replaced by the number: trip
counts are known, guards that the number decides are gone, and the heuristics see that size and not the first case's.
Only its first choice is kept: tensors that it does not fit, such as misaligned ones, take the variants for any size.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product

from fusebuild.formula import Formula, substitute, symbols
from fusebuild.ir import Expr, Fusion, TensorType, Value, attributes
from fusebuild.ops import op_of
from fusebuild.schedule.kernel import Scheduler, VariantSpec, usable
from fusebuild.target import Target


def specialized_variants(fusion: Fusion, scheduler: Scheduler, target: Target) -> tuple[VariantSpec, ...]:
    """One variant of the segment ``fusion`` for each combination of sizes that the recipe names for its symbols."""
    return tuple(
        variant for sizes in named_sizes(fusion) for variant in _first_choice(fusion, scheduler, target, sizes)
    )


def named_sizes(fusion: Fusion) -> Iterator[Mapping[str, int]]:
    """The combinations of sizes above 1 that facts name for the symbols of ``fusion``; none where nothing is named."""
    types = [value.type for value in fusion.values.values()]
    shapes = [extent for each in types if isinstance(each, TensorType) for extent in each.shape]
    used = {symbol for extent in shapes for symbol in symbols(extent)}
    named = [
        [(fact.symbol, size) for size in dict.fromkeys(fact.values) if size > 1]
        for fact in fusion.facts
        if fact.symbol in used and fact.values
    ]
    return (dict(combination) for combination in product(*named) if combination)


def _first_choice(
    fusion: Fusion, scheduler: Scheduler, target: Target, sizes: Mapping[str, int]
) -> tuple[VariantSpec, ...]:
    task = specialized(fusion, sizes).whole()
    if scheduler.accepts(task, target) is not None:
        return ()
    cases = [case for case in fusion.cases if all(case.get(symbol) == size for symbol, size in sizes.items())]
    hints = {**(cases or [*fusion.cases, {}])[0], **sizes}
    first = scheduler.schedule(task, target, hints)[0]
    if not first.launches:
        return ()
    prefix = "_".join(f"{symbol}{size}" for symbol, size in sizes.items())
    equal: tuple[Formula, ...] = tuple(("eq", symbol, size) for symbol, size in sizes.items())
    return usable([replace(first, name=f"{prefix}_{first.name}", guard=(*equal, *first.guard))])


def specialized(fusion: Fusion, sizes: Mapping[str, int]) -> Fusion:
    """``fusion`` with the symbols in ``sizes`` replaced by numbers in every shape and attribute."""
    return replace(
        fusion,
        values={fid: _specialized_value(value, sizes) for fid, value in fusion.values.items()},
        exprs=tuple(_specialized_expr(expr, sizes) for expr in fusion.exprs),
    )


def _specialized_value(value: Value, sizes: Mapping[str, int]) -> Value:
    if not isinstance(value.type, TensorType):
        return value
    return replace(value, type=replace(value.type, shape=_substituted(value.type.shape, sizes)))


def _specialized_expr(expr: Expr, sizes: Mapping[str, int]) -> Expr:
    kinds = {parameter.name: parameter.kind for parameter in op_of(expr).parameters}
    named = dict(expr.attributes)
    for name, attribute in named.items():
        if kinds.get(name) == "shape":
            named[name] = _substituted(attribute, sizes)  # type: ignore[arg-type]
        elif kinds.get(name) == "extent":
            named[name] = substitute(attribute, sizes)  # type: ignore[arg-type]
    return replace(expr, attributes=attributes(**named))


def _substituted(shape: Sequence[Formula], sizes: Mapping[str, int]) -> tuple[Formula, ...]:
    return tuple(substitute(extent, sizes) for extent in shape)
