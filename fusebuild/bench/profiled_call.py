"""``python -m fusebuild.bench.profiled_call ARTIFACT CASE SEED``: one call between the profiler's start and stop.

CASE is a JSON object of sizes. Calls before it load kernels and fill the allocator; ncu does not count those.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from fusebuild.reference import random_inputs
from fusebuild.runtime.loader import load
from fusebuild.verification import read_recipe

WARM_UP = 3


def main(artifact: str, case: str, seed: str, target: str | None = None) -> None:
    """Run the artifact on random inputs of the sizes in ``case``; ``target`` as for :func:`load`."""
    import torch

    path = Path(artifact)
    plan, fusion = load(path, target=target), read_recipe(path).fusion
    device = "cpu" if plan.target.startswith("host") else "cuda"
    inputs = random_inputs(fusion, json.loads(case), seed=int(seed), device=device)
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
