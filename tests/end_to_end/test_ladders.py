"""Sizes that nobody chose take a variant that is made for such sizes, not the last one, which runs whatever comes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from fusebuild.artifact.plan import Variant, as_formula
from fusebuild.ir.formula import evaluate
from fusebuild.recipe.drawn import drawn_cases
from fusebuild.recipe.recipe import load_recipe
from support.places import RECIPES
from support.small_recipes import planned_file

Sizes = Mapping[str, int]

DRAWN = 100
"""Cases of each recipe."""


def is_odd(size: int) -> bool:
    return size % 8 != 0


HOLES: dict[str, Callable[[Sizes], bool]] = {
    "adaln_backward": lambda sizes: sizes["D"] > 131072,
    "layernorm_backward": lambda sizes: is_odd(sizes["N"]) and sizes["N"] > 131065,
}
"""Sizes that have nothing but the last variant yet: long rows that are summed down as well."""


def taken(variants: Sequence[Variant], sizes: Sizes) -> Variant:
    """The variant that aligned tensors take."""
    return next(
        variant
        for variant in variants
        if all(evaluate(as_formula(guard), sizes, lambda fid, size: True) for guard in variant.guard)
    )


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_the_last_variant_is_for_what_nobody_measures(path: Path, seed: int) -> None:
    segments = [segment for segment in planned_file(path).plan.targets[0].segments if len(segment.variants) > 1]
    for sizes in drawn_cases(load_recipe(path), DRAWN, seed):
        for segment in segments:
            if taken(segment.variants, sizes) is segment.variants[-1]:
                assert HOLES.get(path.stem, lambda sizes: False)(sizes), (segment.id, sizes)


def test_kernels_stay_few() -> None:
    """All recipes for one kind of GPU: each kernel is compiled, shipped and loaded."""
    assert sum(len(planned_file(path).kernels["sm_90"]) for path in RECIPES) <= 260
