"""Small recipes and Fusions that several test modules build."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fusebuild.ir.fusion import Fusion, Task
from fusebuild.passes import run_passes
from fusebuild.pipeline import plan_recipe
from fusebuild.planning.planned import PlannedRecipe
from fusebuild.recipe.recipe import Recipe, load_recipe, parse_recipe
from fusebuild.target.table import TARGETS

SUM_THEN_ADD = """\
fusion: sum_then_add
inputs:
  t0: float[2, 32]
  t1: float[2, 128]
body: |
  t2 = sum(t0, dims=[1], keepdim=True)
  t3 = t1 + t2
outputs:
  t3: float
"""
"""Seed 000: a reduction whose result is added to a wider tensor."""

TINY = """\
fusion: tiny
doc: Nothing much.
inputs:
  x: float[3, 5]
body: |
  y = x * 2.0
outputs:
  y: float
"""
"""One kernel a target: 15 elements are no multiple of a vector."""

PAIR = """\
fusion: pair
inputs:
  x: float[3, 5]
body: |
  total = sum(x, dims=[1])
  y = segment_set(total) * 2.0
outputs:
  y: float
"""
"""Two segments, one kernel each and target."""


def write_tiny_and_pair(folder: Path) -> Path:
    """A new folder ``recipes`` in ``folder`` that holds both of these."""
    recipes = folder / "recipes"
    recipes.mkdir()
    (recipes / "tiny.yaml").write_text(TINY)
    (recipes / "pair.yaml").write_text(PAIR)
    return recipes


NORM_INPUTS = {"x": "bfloat16[M, N]", "w": "half[N]", "b": "float[N]"}
NORM = "m = max(x, dims=[1], keepdim=True)\ny = exp(x - m) * w + b"
"""Each row less its largest element, exponentiated, with weights of other dtypes."""


def text_of(
    inputs: Mapping[str, str],
    body: str,
    outputs: Mapping[str, str],
    *,
    name: str = "test",
    scalars: Mapping[str, str] | None = None,
    cases: str = "",
    extents: str = "",
) -> str:
    """A recipe's text. ``inputs`` and ``outputs`` map names to what stands after the colon."""
    lines = [f"fusion: {name}", *(["extents:", f"  {extents}"] if extents else []), "inputs:"]
    lines += [f"  {key}: {value}" for key, value in inputs.items()]
    if scalars:
        lines += ["scalars:", *(f"  {key}: {value}" for key, value in scalars.items())]
    lines += ["body: |", *(f"  {line}" for line in body.strip().splitlines()), "outputs:"]
    lines += [f"  {key}: {value}" for key, value in outputs.items()]
    if cases:
        lines += ["cases:", f"  - {{{cases}}}"]
    return "\n".join(lines) + "\n"


def recipe_of(text: str, path: str = "test.yaml") -> Recipe:
    return parse_recipe(text, path)


@functools.cache
def planned_file(path: Path, *targets: str) -> PlannedRecipe:
    """The recipe at ``path``, planned for ``targets``, else for sm_90: once in a process, however many tests look at
    it."""
    return plan_recipe(load_recipe(path), [TARGETS[name] for name in targets or ("sm_90",)])


def primitive(text: str) -> Fusion:
    """The Fusion that the recipe ``text`` defines, after all passes."""
    return run_passes(recipe_of(text).fusion)


def whole(inputs: Mapping[str, str], body: str, outputs: Mapping[str, str], **more: str) -> Task:
    """The task of everything that a small recipe computes."""
    return primitive(text_of(inputs, body, outputs, **more)).whole()  # type: ignore[arg-type]


def text_with_lambdas(
    inputs: Mapping[str, str], body: str, outputs: Mapping[str, str], *lambdas: str, **more: Any
) -> str:
    """:func:`text_of` with a lambdas section between the inputs and the body."""
    head, _, rest = text_of(inputs, body, outputs, **more).partition("body: |\n")
    section = "lambdas:\n" + "".join(f"  {line}\n" for text in lambdas for line in text.strip().splitlines())
    return f"{head}{section}body: |\n{rest}"


WELFORD = """\
welford:
  left: {mean_a: float, m2_a: float, n_a: float}
  right: {mean_b: float, m2_b: float, n_b: float}
  body: |
    n = n_a + n_b
    delta = mean_b - mean_a
    share = n_b / maximum(n, 1.0)
    mean = mean_a + delta * share
    m2 = m2_a + m2_b + delta * delta * n_a * share
  results: [mean, m2, n]
"""
"""Mean, squared deviations and count of a sample, from those of two parts: commutative."""

AFFINE = """\
affine:
  left: {slope_a: int64, offset_a: int64}
  right: {slope_b: int64, offset_b: int64}
  body: |
    slope = slope_a * slope_b
    offset = offset_a * slope_b + offset_b
  results: [slope, offset]
  ordered: true
"""
"""The map x -> slope_a x + offset_a, and after it that of b: exact, and not commutative."""

COUNTED_SUM = """\
counted_sum:
  left: {sum_a: float, count_a: int64}
  right: {sum_b: float, count_b: int64}
  body: |
    total = sum_a + sum_b
    count = count_a + count_b
  results: [total, count]
"""
"""A state of two dtypes."""
