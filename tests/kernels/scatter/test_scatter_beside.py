"""What scatters is beside nothing that walks elements in another order."""

from __future__ import annotations

import re

import pytest

from fusebuild.pipeline import plan_recipe
from fusebuild.target.table import TARGETS
from support.small_recipes import recipe_of, text_of

INPUTS = {"x": "float[M, N]", "z": "float[M, N]", "o": "int64[M, N]"}


@pytest.mark.parametrize(
    ("body", "schedulers"),
    [
        ("_, p = sort(x, dim=1)\ny = scatter(z, p, x, dim=1, unique_indices=True)", ["order", "scatter"]),
        ("c = cumsum(x, dim=1)\ny = scatter(z, o, c, dim=1)", ["scan", "scatter"]),
        ("c = cumsum(x, dim=1)\ny = scatter_add(z, o, c, dim=1)", ["scan", "scatter"]),
        ("_, p = cummax(x, dim=1)\ny = scatter_add(x, p, x, dim=1)", ["scan", "scatter"]),
    ],
)
def test_a_scatter_is_a_segment_of_its_own(body: str, schedulers: list[str]) -> None:
    inputs = {name: type_ for name, type_ in INPUTS.items() if re.search(rf"\b{name}\b", body)}
    plan = plan_recipe(recipe_of(text_of(inputs, body, {"y": "float"})), [TARGETS["sm_90"]]).plan
    assert [segment.scheduler for segment in plan.targets[0].segments] == schedulers
