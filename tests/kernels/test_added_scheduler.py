"""The new scheduler of docs/extending.md: a folder, a template and a line, from there to results on the CPU."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from fusebuild.kernels import families, render
from fusebuild.oracle.verification import verify_artifact
from fusebuild.pipeline import plan_recipe
from fusebuild.target.table import TARGETS
from support.host_artifacts import compile_for_host
from support.places import ROOT
from support.small_recipes import recipe_of, whole

GATED = """\
fusion: gated
inputs:
  x: bfloat16[M, N]
  y: float[M, N]
scalars:
  scale: float
body: |
  z = silu(x) * y * (scale + 1.0)
outputs:
  z: half
cases:
  - {M: 3, N: 65}
  - {M: 1, N: 1024}
"""


def shown(language: str, first: str) -> str:
    """The block of docs/extending.md in ``language`` that starts with ``first``."""
    page = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
    (block,) = re.findall(rf"^```{language}\n({re.escape(first)}.*?)^```$", page, re.MULTILINE | re.DOTALL)
    return str(block)


@pytest.fixture
def family(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The family of the page, whose folder and template are where others are, but not yet in the list of families."""
    package, templates = tmp_path / "kernels" / "flat", tmp_path / "templates"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(shown("python", '"""Elementwise tasks'), encoding="utf-8")
    (templates / "flat").mkdir(parents=True)
    (templates / "flat" / "flat.cu.jinja").write_text(shown("jinja", ""), encoding="utf-8")
    for folder in families.template_folders():
        (templates / folder).symlink_to(ROOT / "templates" / folder)
    monkeypatch.syspath_prepend(str(package.parent))
    monkeypatch.setattr(render, "templates_dir", lambda: templates)
    render.environment.cache_clear()
    yield import_module("flat").FAMILY
    render.environment.cache_clear()
    del sys.modules["flat"]


def schedulers() -> list[str]:
    """The schedulers that take the segments of ``GATED``."""
    plan = plan_recipe(recipe_of(GATED), [TARGETS["host"]]).plan
    return [segment.scheduler for segment in plan.targets[0].segments]


def test_a_line_in_the_list_and_its_kernels_give_what_the_oracle_does(
    family: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as added:
        added.setattr(families, "FAMILIES", (family, *families.FAMILIES))
        assert schedulers() == ["flat"]
        folder = compile_for_host(tmp_path, {"gated": GATED})
        verdicts = list(verify_artifact(folder / "gated.fuse", target="host"))
    assert len({tuple(verdict.case.items()) for verdict in verdicts}) == 2
    assert [verdict for verdict in verdicts if not verdict.ok] == []
    assert schedulers() == ["pointwise"]


def test_what_it_does_not_take_goes_to_another_one(family: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(families, "FAMILIES", (family, *families.FAMILIES))
    row_sums = whole({"x": "float[M, N]"}, "y = sum(x, dims=[1])", {"y": "float"})
    taken = families.first_accepting(row_sums, TARGETS["host"])
    assert not isinstance(taken, tuple)
    assert taken.name == "reduction"
    assert "flat: not every op is pointwise" in str(family.accepts(row_sums, TARGETS["host"]))
