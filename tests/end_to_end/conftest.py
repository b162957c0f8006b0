"""All recipes and fusions of tests, compiled for the CPU once for all tests here."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fusebuild.pipeline import compile_recipes
from fusebuild.target.table import TARGETS
from support.host_artifacts import require_toolchain
from support.places import FUSIONS, RECIPES


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that all workers of a parallel run share; builds in it wait for each other."""
    base = tmp_path_factory.getbasetemp()
    return (base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base) / "numerics"


@pytest.fixture(scope="session")
def artifacts(shared: Path) -> Path:
    """All recipes for ``host``, compiled in one build."""
    require_toolchain("host")
    compile_recipes([*RECIPES, *FUSIONS], [TARGETS["host"]], shared / "host")
    return shared / "host"
