"""The fusions in ``tests/fewest`` on the CPU, at their own sizes and at ones drawn at random, against the fp64 oracle,
and the oracle against torch's own functions."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fusebuild.bench.contenders import reference_module
from fusebuild.bench.exactness import torch_deviations
from fusebuild.oracle.verification import VerifyOptions, recipe_trial, verify_artifact
from fusebuild.pipeline import compile_recipes
from fusebuild.recipe.recipe import load_recipe
from fusebuild.target.table import TARGETS
from support.fewest import worklist
from support.host_artifacts import require_toolchain
from support.places import FEWEST
from support.sampled import sampled

torch = pytest.importorskip("torch")

LIMIT = 40_000
"""Elements of the largest tensor of a case."""

_, GAPS = worklist()
WRITTEN = [path for path in FEWEST if "refusal" not in GAPS.get(path.stem, {})]
REFERRED = [path for path in WRITTEN if "\n  reference: " in path.read_text(encoding="utf-8")]


def compiled(path: Path, folder: Path) -> Path:
    """The artifact for the CPU of the recipe at ``path``, whatever it expects of its plan."""
    require_toolchain("host")
    copy = folder / path.name
    copy.write_text(
        re.sub(r"^expect: .*\n", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE), encoding="utf-8"
    )
    compile_recipes([copy], [TARGETS["host"]], folder)
    return folder / f"{path.stem}.fuse"


@pytest.mark.parametrize("path", sampled(WRITTEN, 23), ids=lambda path: path.stem)
def test_every_case_and_drawn_ones_agree_with_the_oracle(path: Path, tmp_path: Path) -> None:
    artifact = compiled(path, tmp_path)
    for options in (VerifyOptions(max_elements=LIMIT), VerifyOptions(max_elements=LIMIT, sweep=3, seed=len(path.stem))):
        verdicts = list(verify_artifact(artifact, target="host", options=options))
        assert verdicts
        assert [verdict for verdict in verdicts if not verdict.ok] == []


@pytest.mark.parametrize("path", REFERRED, ids=lambda path: path.stem)
def test_the_oracle_computes_what_torch_does(path: Path) -> None:
    """The kernels are held to the oracle, and by this to torch's own functions."""
    recipe = load_recipe(path)
    for seed, case in enumerate(recipe.fusion.cases[1:]):
        trial = recipe_trial(recipe, case, "cpu", seed)
        deviations = torch_deviations(reference_module(recipe), trial)
        assert all(deviations)
