"""What the first call of a shape costs the host more than a later one: checks, choice of variants, grids, memory.

``PYTHONPATH=tests python -m benchmarks.bench_new_shape build`` takes every artifact in a folder, and of each as many
shapes as ``--shapes`` says, drawn as ``fusebuild bench --sweep`` draws its small ones with ``--seed``. Everything runs
once before, so that kernels are loaded and torch's allocator has the memory; then a second plan of the same file, which
knows no shape yet, is called with each. On the CPU, with ``--target host``, a call lasts until its result is there, so
its times only bound what choosing takes. ``--idle sm_90`` measures the host's work alone, on the CPU: the plan is that
for ``sm_90``, and its kernels do nothing. ``--json FILE`` keeps the report.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fusebuild.artifact.file import open_artifact
from fusebuild.oracle.verification import recipe_inputs
from fusebuild.recipe.drawn import drawn_cases
from fusebuild.recipe.inside import recipe_in
from fusebuild.recipe.recipe import Recipe
from fusebuild.runtime.loader import Opened, load_artifact
from support.idle_kernels import idle

IDLE_ELEMENTS = 20_000
"""The most elements of tensors that kernels do nothing with: so few that torch finds memory for results at once."""
AGAIN = 5
"""Later calls of a shape that are timed; the quickest counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewShapeCost:
    """Microseconds of host time of calls of one recipe: the median over all shapes of the first call of each and of a
    later one, and the most that a first call took longer."""

    recipe: str
    first: float
    later: float
    median_more: float
    most_more: float


def cost_of(path: Path, target: str | None, shapes: int, seed: int) -> NewShapeCost | None:
    """What new shapes cost the plan at ``path``; None where no size of its recipe is free."""
    artifact = open_artifact(path)
    recipe = recipe_in(artifact)
    cases = drawn_cases(recipe, 2 * shapes, seed)[1::2]  # every other one is small
    return _cost(artifact, target, recipe, cases, seed) if cases else None


def idle_cost_of(path: Path, target: str, shapes: int, seed: int) -> NewShapeCost | None:
    """The host's part of it, where the kernels for ``target`` do nothing."""
    artifact = open_artifact(path)
    recipe = recipe_in(artifact)
    cases = drawn_cases(recipe, shapes, seed, max_elements=IDLE_ELEMENTS)
    if not cases:
        return None
    with tempfile.TemporaryDirectory() as folder:
        idling = idle(artifact, target, Path(folder))
    return _cost(idling, "host", recipe, cases, seed)


def _cost(
    artifact: Opened, target: str | None, recipe: Recipe, cases: Sequence[Mapping[str, int]], seed: int
) -> NewShapeCost:
    import torch

    device = "cpu" if target == "host" else "cuda"
    inputs = [recipe_inputs(recipe, case, seed=seed, device=device) for case in cases]
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    warm, plan = (load_artifact(artifact, target=target) for _ in range(2))
    for each in inputs:
        warm(*each)
    plan(*inputs[0])
    wait()
    first, later = [], []
    for each in inputs[1:]:
        first.append(_microseconds(plan, each, wait))
        later.append(min(_microseconds(plan, each, wait) for _ in range(AGAIN)))
    more = [one - other for one, other in zip(first, later, strict=True)]
    return NewShapeCost(
        recipe=recipe.fusion.name,
        first=statistics.median(first),
        later=statistics.median(later),
        median_more=statistics.median(more),
        most_more=max(more),
    )


def _microseconds(plan: Callable[..., Any], inputs: Sequence[Any], wait: Callable[[], None]) -> float:
    start = time.perf_counter()
    made = plan(*inputs)
    taken = time.perf_counter() - start
    wait()
    del made
    return taken * 1e6


def table(costs: Sequence[NewShapeCost]) -> str:
    """The report for people."""
    lines = [f"{'us a call':32}{'first':>8}{'later':>8}{'more':>8}{'most':>8}"]
    lines += [
        f"{each.recipe:32}{each.first:8.1f}{each.later:8.1f}{each.median_more:8.1f}{each.most_more:8.1f}"
        for each in costs
    ]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Measure what a call of a new shape costs the host.")
    parser.add_argument("folder", type=Path, help="where the artifacts are")
    parser.add_argument("--target", help="'host' for the CPU (default: the current CUDA device)")
    parser.add_argument("--idle", metavar="TARGET", help="the host's work alone, for kernels of TARGET that do nothing")
    parser.add_argument("--shapes", type=int, default=40, help="shapes of each recipe (default: 40)")
    parser.add_argument("--seed", type=int, default=0, help="what sizes and inputs are drawn with (default: 0)")
    parser.add_argument("--json", type=Path, help="write the report here")
    given = parser.parse_args(arguments)
    paths = sorted(given.folder.glob("*.fuse"))
    if not paths:
        parser.error(f"there are no artifacts in {given.folder}")
    cost, target = (idle_cost_of, given.idle) if given.idle else (cost_of, given.target)
    found = [cost(path, target, given.shapes, given.seed) for path in paths]
    costs = [cost for cost in found if cost is not None]
    print(table(costs))
    if given.json:
        given.json.write_text(json.dumps([asdict(each) for each in costs], indent=2) + "\n")


if __name__ == "__main__":
    main()
