"""Recipes and fusions of tests, compiled for the CPU once for all tests here."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
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
def artifact_of(shared: Path) -> Callable[[str], Path]:
    """``artifact_of(name)`` is the artifact for the CPU of a shipped recipe or of a fusion of tests. It is compiled
    when it is first asked for."""
    require_toolchain("host")
    recipes = {path.stem: path for path in (*RECIPES, *FUSIONS)}

    @cache
    def compiled(name: str) -> Path:
        compile_recipes([recipes[name]], [TARGETS["host"]], shared / "host")
        return shared / "host" / f"{name}.fuse"

    return compiled
