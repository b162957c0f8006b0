"""Every fusion with sizes that are zero on a GPU: ``pytest -m gpu``, or as a script under ``compute-sanitizer``:

    export PYTHONPATH=tests
    python -m gpu.test_zero_sizes_gpu --compile build/zero_sizes
    compute-sanitizer --tool memcheck --error-exitcode 1 python -m gpu.test_zero_sizes_gpu build/zero_sizes

The first command compiles all recipes for the GPU, which takes minutes and is nothing for the sanitizer. The second one
prints a line for each artifact, what went wrong, and at the end which schedulers' variants ran.
"""

from __future__ import annotations

import os
import sys
import time
import warnings
from collections.abc import Iterable
from pathlib import Path

import pytest

from fusebuild.errors import ToolchainError
from fusebuild.pipeline import compile_recipes
from fusebuild.target.table import TARGETS
from support.places import FUSIONS, RECIPES
from support.zero_sizes import GPU_MEMORIES, Tally, check_artifact, unreached

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


def device_target() -> str:
    major, minor = torch.cuda.get_device_capability()
    return f"sm_{major}{minor}"


def compile_all(folder: Path) -> None:
    compile_recipes([*RECIPES, *FUSIONS], [TARGETS[device_target()]], folder)


def check_all(paths: Iterable[Path]) -> Tally:
    """Run the artifacts at ``paths``, with a line for each."""
    tally, target, start = Tally(), device_target(), time.monotonic()
    for path in sorted(paths):
        before = len(tally.calls)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what torch says of variances of nothing
            check_artifact(path, target, GPU_MEMORIES, tally)
        torch.cuda.synchronize()
        print(f"{time.monotonic() - start:6.1f} s  {path.stem}: {len(tally.calls) - before} calls", flush=True)
    return tally


def test_sizes_of_zero(tmp_path: Path) -> None:
    if device_target() not in TARGETS:
        pytest.skip(f"there is no target {device_target()}")
    try:
        compile_all(tmp_path)
    except ToolchainError as error:
        pytest.skip(f"needs compilers: {error}")
    tally = check_all(tmp_path.glob("*.fuse"))
    assert tally.wrong == []
    assert tally.calls


def main(arguments: list[str]) -> int:
    if arguments[0] == "--compile":
        compile_all(Path(arguments[1]))
        return 0
    os.environ["PYTORCH_NO_CUDA_MEMORY_CACHING"] = "1"  # each tensor is an allocation, whose end the sanitizer knows
    tally = check_all(Path(arguments[0]).glob("*.fuse"))
    found = {
        "launched": tally.launched,
        "nothing to launch": tally.idle - tally.launched,
        "not reached": unreached(tally),
    }
    for words, kinds in found.items():
        print(f"{words}: {len(kinds)}", *(f"  {scheduler}: {name}" for scheduler, name in sorted(kinds)), sep="\n")
    print(f"refused: {len(tally.refused)}", *sorted(tally.refused), sep="\n  ")
    print(f"wrong: {len(tally.wrong)}", *tally.wrong, sep="\n  ")
    print(f"{len(tally.calls)} calls")
    return 1 if tally.wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
