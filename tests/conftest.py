"""The ``--update-golden`` flag, the fixture that compares a text with its golden file, and the order of tests."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fusebuild.errors import ToolchainError

if TYPE_CHECKING:
    from support.golden import Golden

pytest.register_assert_rewrite("support")  # before anything there is imported

if "PYTEST_XDIST_WORKER" in os.environ:
    # Each worker has a processor of its own. Threads of torch that have to share one wait for each other in loops, and
    # so do those of the programs that tests start: a case of verify then takes ten times its CPU time.
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported

LONGEST = ("test_readme.py", "test_numerics.py", "test_sanitizers.py", "test_device_header.py", "test_variants_run.py")
"""Modules with tests of minutes. They start first: a worker of a parallel run that has one left has it alone."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite golden files instead of comparing with them")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.path.name not in LONGEST)


def pytest_collection_finish() -> None:
    """Ten thousand collected tests and what they import stay until the end. Unless they are frozen, every full garbage
    collection walks through them again: 12 to 20 % of the CPU time of a run (1,508 tests, on 2 cores)."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """``golden(path, text)`` fails when the file at ``path`` differs from ``text``; the flag rewrites it instead."""
    update = bool(request.config.getoption("--update-golden"))

    def compare(path: Path, text: str) -> None:
        if update:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8", newline="\n")
            return
        assert path.is_file(), f"{path.name} does not exist; make it with --update-golden and read it"
        assert text == path.read_text(encoding="utf-8")

    return compare


@pytest.fixture(scope="session", autouse=True)
def cache() -> Iterator[Path]:
    """The cache of this checkout, which ``make`` uses, too: what ``make demo`` or an earlier run compiled is there. No
    test reads or writes the user's."""
    from support.places import ROOT

    folder = ROOT / "build" / "cache"
    (folder / "probes").mkdir(parents=True, exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FUSEBUILD_CACHE_DIR", str(folder))
        yield folder


@pytest.fixture
def empty_store(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The store of a cache of this test's own, in which nothing is compiled yet. Which compilers work is known."""
    from support.own_cache import own_cache

    own = own_cache(tmp_path, cache)
    monkeypatch.setenv("FUSEBUILD_CACHE_DIR", str(own))
    return own / "objects"


@pytest.fixture(scope="session")
def compilers(cache: Path) -> None:
    """Compilers for sm_90 and host, found by their usual names. Skips without them."""
    from fusebuild.build.toolchain import find_toolchain
    from fusebuild.target.table import TARGETS

    try:
        find_toolchain([TARGETS["sm_90"], TARGETS["host"]])
    except ToolchainError as error:
        pytest.skip(f"needs compilers: {error}")
