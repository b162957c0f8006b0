"""Loading what has a known digest, and nothing else."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

import fusebuild
from fusebuild.artifact.file import open_artifact
from fusebuild.errors import ArtifactError, UsageError
from fusebuild.pipeline import compile_recipes
from fusebuild.target.table import TARGETS

RECIPE = "fusion: doubled\ninputs:\n  x: float[N]\nbody: |\n  y = x * 2.0\noutputs:\n  y: float\n"


@pytest.fixture(scope="module")
def path(compilers: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pinned")
    (folder / "doubled.yaml").write_text(RECIPE)
    return compile_recipes([folder / "doubled.yaml"], [TARGETS["host"]], folder).artifacts[0].path


@pytest.mark.parametrize("spelled", [str.lower, str.upper])
def test_the_file_with_that_digest_is_loaded(path: Path, spelled: object) -> None:
    torch = pytest.importorskip("torch")
    digest = spelled(hashlib.sha256(path.read_bytes()).hexdigest())  # type: ignore[operator]
    plan = fusebuild.load(path, target="host", sha256=digest)
    assert plan(torch.ones(3)).tolist() == [2.0, 2.0, 2.0]


def test_another_file_is_refused_before_it_is_looked_at(path: Path, tmp_path: Path) -> None:
    wanted = hashlib.sha256(path.read_bytes()).hexdigest()
    other = tmp_path / "other.fuse"
    other.write_bytes(b"no artifact")
    found = hashlib.sha256(b"no artifact").hexdigest()
    with pytest.raises(ArtifactError) as caught:
        fusebuild.load(other, target="host", sha256=wanted)
    assert str(caught.value) == f"{other}: its sha256 is {found}, expected {wanted}"


@pytest.mark.parametrize("digest", ["", "abc", "g" * 64, "0" * 63, "0" * 65, " " + "0" * 64])
def test_what_is_no_digest_is_refused(path: Path, digest: str) -> None:
    with pytest.raises(UsageError, match="is no sha256: expected 64 hexadecimal digits"):
        open_artifact(path, sha256=digest)
