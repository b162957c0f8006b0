"""Every kernel of every recipe, shipped and made for tests, on the CPU against the fp64 oracle.

The host target runs the rendered CUDA text itself. ``host-asan`` is the same under AddressSanitizer and UBSan; it needs
libasan loaded first, so it is verified in a process of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fusebuild.errors import ToolchainError
from fusebuild.pipeline import compile_recipes
from fusebuild.target import TARGETS
from fusebuild.toolchain import find_toolchain
from fusebuild.verification import Limits, verify_artifact

pytest.importorskip("torch")

ROOT = Path(__file__).resolve().parent.parent
RECIPES = sorted((ROOT / "recipes").glob("*.yaml"))
FUSIONS = sorted((ROOT / "tests" / "fusions").glob("*.yaml"))
SANITIZED = [
    *RECIPES,
    *(ROOT / "tests" / "fusions" / f"{name}.yaml"
      for name in ("broadcast_patterns", "layouts", "marks", "persistent_levels", "persistent_strided", "views")),
]  # fmt: skip
LIMIT = 300_000


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that all workers of a parallel run share; builds in it wait for each other."""
    base = tmp_path_factory.getbasetemp()
    return (base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base) / "numerics"


def _require_toolchain(name: str) -> None:
    try:
        find_toolchain([TARGETS[name]])
    except ToolchainError as error:
        pytest.skip(f"no toolchain for {name}: {error}")


@pytest.fixture(scope="session")
def artifacts(shared: Path) -> Path:
    """All recipes for ``host``, compiled in one build."""
    _require_toolchain("host")
    compile_recipes([*RECIPES, *FUSIONS], [TARGETS["host"]], shared / "host")
    return shared / "host"


@pytest.mark.parametrize("recipe", [*RECIPES, *FUSIONS], ids=lambda path: path.stem)
def test_every_case_and_variant_agrees_with_the_oracle(recipe: Path, artifacts: Path) -> None:
    path = artifacts / f"{recipe.stem}.fuse"
    verdicts = list(verify_artifact(path, target="host", limits=Limits(max_elements=LIMIT)))
    assert verdicts
    assert [verdict for verdict in verdicts if not verdict.ok] == []


def test_no_sanitizer_finds_anything(shared: Path) -> None:
    _require_toolchain("host-asan")
    out = shared / "host-asan"
    compile_recipes(SANITIZED, [TARGETS["host-asan"]], out)
    library = subprocess.run(
        ["g++", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True
    ).stdout.strip()
    done = subprocess.run(
        [sys.executable, "-m", "fusebuild.cli", "verify", str(out), "--target", "host-asan",
         "--max-elements", "60000", "--json"],
        env=os.environ | {"LD_PRELOAD": library, "ASAN_OPTIONS": "detect_leaks=0"},
        capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    rows = json.loads(done.stdout)
    assert {row["fusion"] for row in rows} == {path.stem for path in SANITIZED}
    assert [row for row in rows if not row["ok"]] == []
