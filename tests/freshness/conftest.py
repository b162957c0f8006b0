"""What tests of freshness change besides recipes."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from fusebuild.kernels import render
from fusebuild.system import resources
from support.places import ROOT


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of fusebuild's templates and rules, used in place of the checkout's."""
    copy = tmp_path / "data"
    shutil.copytree(ROOT / "templates", copy / "templates")
    shutil.copy(ROOT / "build.ninja.in", copy)
    monkeypatch.setattr(resources, "_PACKAGE", copy / "fusebuild")
    render.environment.cache_clear()
    yield copy
    render.environment.cache_clear()
