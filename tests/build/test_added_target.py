"""New targets, from a row each to cubins: an architecture, one with its own features, and one with its family's."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from fusebuild.artifact import elf
from fusebuild.artifact.architecture import architecture_of
from fusebuild.artifact.file import open_artifact
from fusebuild.artifact.plan_check import validate_plan
from fusebuild.cli.main import cli
from fusebuild.errors import UsageError
from fusebuild.pipeline import plan_recipe
from fusebuild.recipe.recipe import load_recipe
from fusebuild.runtime.loader import best_target
from fusebuild.target.device import target_of
from fusebuild.target.table import TARGETS, find_target
from fusebuild.target.table import _gpu as row

ADDED = {
    "sm_87": row("sm_87", 16, 163, 1536, 0.2e12),
    "sm_90a": row("sm_90a", 132, 227, 2048, 4.8e12),
    "sm_100f": row("sm_100f", 148, 227, 2048, 8.0e12),
}
RECIPE = """\
fusion: twice
inputs:
  x: float[3]
body: |
  y = x * 2
outputs:
  y: float
"""


@pytest.fixture(autouse=True)
def added(monkeypatch: pytest.MonkeyPatch) -> None:
    """The new rows, while a test runs."""
    for name, target in ADDED.items():
        monkeypatch.setitem(TARGETS, name, target)


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    path = tmp_path / "twice.yaml"
    path.write_text(RECIPE, encoding="utf-8")
    return path


def typed(*arguments: object) -> str:
    return CliRunner().invoke(cli, [str(each) for each in arguments], catch_exceptions=False).output


@pytest.mark.parametrize(
    ("name", "capability", "cluster", "flag"),
    [
        ("sm_87", 87, 1, "-gencode=arch=compute_87,code=sm_87"),
        ("sm_90a", 90, 8, "-gencode=arch=compute_90a,code=sm_90a"),
        ("sm_100f", 100, 8, "-gencode=arch=compute_100f,code=sm_100f"),
    ],
)
def test_the_name_says_capability_clusters_and_flags(name: str, capability: int, cluster: int, flag: str) -> None:
    target = find_target(name)
    assert (target.compute_capability, target.cluster, target.compiler_flags) == (capability, cluster, (flag,))


def test_a_name_that_is_none_is_no_target(recipe: Path) -> None:
    with pytest.raises(UsageError, match=r"unknown target 'sm_90b'; did you mean 'sm_90'\? .*known: .*sm_90a, sm_100f"):
        find_target("sm_90b")
    assert [architecture_of(name) for name in ("sm_90b", "sm_90af", "sm_", "sm_a", "host", "90a")] == [None] * 6


def test_verbs_know_the_new_targets(recipe: Path) -> None:
    for name in ADDED:
        assert f"twice on {name} " in typed("inspect", recipe, "--arch", name)
    report = json.loads(typed("inspect", recipe, "--arch", ",".join(ADDED), "--json"))
    assert [target["target"] for target in report] == [*ADDED]


def test_a_plan_for_them_is_a_plan(recipe: Path) -> None:
    plan = plan_recipe(load_recipe(recipe), [*ADDED.values()]).plan
    assert validate_plan(plan) is None
    other = plan_recipe(load_recipe(recipe), [replace(ADDED["sm_90a"], name="sm_90b")]).plan
    assert validate_plan(other) == "'sm_90b' is no target name"


def test_a_device_takes_what_fits_it_best() -> None:
    names = ["sm_80", "sm_86", "sm_90", "sm_90a", "sm_100", "sm_100f"]
    assert best_target(names, 90) == "sm_90a"
    assert best_target(names, 100) == "sm_100f"
    assert best_target(names, 103) == "sm_100f", "a family's code runs on later members of it"
    assert best_target(["sm_90a"], 91) is None, "code for one architecture runs nowhere else"
    assert best_target(["sm_100", "sm_103a", "sm_100f"], 103) == "sm_103a"
    assert best_target(["sm_100f"], 120) is None


def test_a_device_is_compiled_for_as_its_plain_architecture() -> None:
    assert target_of(87) is ADDED["sm_87"]
    assert target_of(90) is TARGETS["sm_90"], "what is compiled for it then runs on others, too"
    assert target_of(103) is TARGETS["sm_100"]


def test_cubins_are_compiled_for_them(compilers: None, cache: Path, recipe: Path, tmp_path: Path) -> None:
    names = ("sm_90a", "sm_100f")
    out = tmp_path / "build"
    typed("compile", recipe, "-o", out, "--arch", ",".join(names))
    artifact = open_artifact(out / "twice.fuse")
    assert [target.target for target in artifact.plan.targets] == [*names]
    for target, capability in zip(artifact.plan.targets, (90, 100), strict=True):
        (launch,) = target.segments[0].variants[0].launches
        cubin = artifact.object_bytes(target.target, launch.kernel)
        assert elf.compute_capability(cubin) == capability
        assert f"-arch {target.target} ".encode() in cubin
    assert {*names} <= {*re.findall(r"sm_\w+", next(line for line in typed("doctor").splitlines() if "also" in line))}
    assert "1 fresh" in typed("check", recipe, "-o", out, "--arch", ",".join(names))
    assert "twice on sm_100f" in typed("inspect", out / "twice.fuse")


def test_a_row_is_called_as_an_architecture_is() -> None:
    with pytest.raises(ValueError, match="'sm_90z' is no architecture such as sm_90, sm_90a or sm_100f"):
        row("sm_90z", 1, 1, 1, 1.0)
