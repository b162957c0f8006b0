"""``python -m fusebuild.bench.profiled_call ARTIFACT CASE SEED``: one call between the profiler's start and stop.

CASE is a JSON object of sizes. Calls before it load kernels and fill the allocator; ncu does not count those.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from fusebuild.oracle.verification import read_recipe, recipe_inputs
from fusebuild.runtime.loader import load

WARM_UP = 3


def main(artifact: str, case: str, seed: str, target: str | None = None) -> None:
    """Run the artifact on random inputs of the sizes in ``case``; ``target`` as for :func:`load`."""
    import torch

    path = Path(artifact)
    plan, recipe = load(path, target=target), read_recipe(path)
    device = "cpu" if plan.target.startswith("host") else "cuda"
    inputs = recipe_inputs(recipe, json.loads(case), seed=int(seed), device=device)
    cuda: Any = torch.cuda
    for _ in range(WARM_UP):
        plan(*inputs)
    cuda.synchronize()
    cuda.profiler.start()
    results = plan(*inputs)
    cuda.synchronize()
    cuda.profiler.stop()
    del results


if __name__ == "__main__":
    main(*sys.argv[1:])
