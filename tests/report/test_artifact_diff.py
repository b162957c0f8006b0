"""``fusebuild diff``: what a change of a recipe changed in the artifact."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from support.faults import Done, fusebuild
from support.small_recipes import PAIR, TINY, text_of

OTHER = TINY.replace("2.0", "3.0")
CUT = PAIR.replace("fusion: pair", "fusion: tiny")


@pytest.fixture(scope="module")
def folder(compilers: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``same``, ``other`` and ``cut`` hold artifacts of ``tiny``; ``both`` one for two targets."""
    folder = tmp_path_factory.mktemp("diff")
    (folder / "recipes").mkdir()
    texts = {"old": TINY, "same": TINY, "other": OTHER, "cut": CUT}
    for name, text in texts.items():
        (folder / "recipes" / f"{name}.yaml").write_text(text)
        assert compile_one(folder, name, "host").code == 0
    (folder / "recipes" / "both.yaml").write_text(TINY)
    assert compile_one(folder, "both", "host,sm_90").code == 0
    return folder


def compile_one(folder: Path, name: str, targets: str) -> Done:
    return fusebuild("compile", folder / "recipes" / f"{name}.yaml", "--arch", targets, "-o", folder / name)


def diff(folder: Path, old: str, new: str, *more: str) -> str:
    done = fusebuild("diff", folder / old / "tiny.fuse", folder / new / "tiny.fuse", *more)
    assert (done.code, done.err) == (0, "")
    return done.out


def test_equal_ones_are_the_same(folder: Path) -> None:
    assert diff(folder, "old", "same") == "tiny (constant sizes)\nhost: the same\n"


def test_another_kernel_is_named(folder: Path) -> None:
    lines = diff(folder, "old", "other").splitlines()
    assert lines[:4] == ["tiny (constant sizes)", "changed: recipe", "host: 1 segment", "  bytes  120"]
    assert re.fullmatch(r"  segment 0, \w+: pointwise_\w+ -> pointwise_\w+", lines[4])
    assert len(lines) == 5


def test_segments_and_bytes_are_counted(folder: Path) -> None:
    lines = diff(folder, "old", "cut").splitlines()
    assert "host: 1 -> 2 segments" in lines
    assert "  bytes  120 -> 96" in lines
    added = [line for line in lines if ": + " in line]
    assert [line for line in added if line.startswith("  segment 1, ")]


PAIRED = """\
fusion: tiny
inputs:
  a: float[3, 5]
  b: float[3, 5]
body: |
  y = a + b * 2.0
  z = a * b
outputs:
  {outputs}
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("{y: float, z: float}", "{z: float, y: float}"),
        ("{y: {dtype: float, alias: a}, z: float}", "{y: float, z: {dtype: float, alias: a}}"),
        ("{y: {dtype: float, alias: a}, z: float}", "{y: {dtype: float, alias: b}, z: float}"),
    ],
)
def test_the_same_kernels_on_other_tensors_are_not_the_same(
    compilers: None, tmp_path: Path, old: str, new: str
) -> None:
    (tmp_path / "recipes").mkdir()
    for name, outputs in (("old", old), ("new", new)):
        (tmp_path / "recipes" / f"{name}.yaml").write_text(PAIRED.replace("{outputs}", outputs))
        assert compile_one(tmp_path, name, "host").code == 0
    lines = diff(tmp_path, "old", "new").splitlines()
    assert "host: the same" not in lines
    report = json.loads(diff(tmp_path, "old", "new", "--json"))
    assert (report["same"], report["targets"]["host"]["plan"]) == (False, True)
    if not report["targets"]["host"]["kernels"]:
        assert lines[-1] == "  the same kernels, put together in another way: other operands, sizes, order or names"


def test_targets_that_one_lacks_are_named(folder: Path) -> None:
    assert "sm_90: only in the new\n" in diff(folder, "old", "both")
    assert "sm_90: only in the old\n" in diff(folder, "both", "old")


def test_programs_get_pairs(folder: Path) -> None:
    report = json.loads(diff(folder, "old", "other", "--json"))
    assert report["fusion"] == ["tiny", "tiny"]
    assert report["same"] is False
    assert report["sources"] == ["recipe"]
    host = report["targets"]["host"]
    assert (host["segments"], host["hbm_bytes"], host["hbm_bytes_formula"]) == ([1, 1], [120, 120], ["120", "120"])
    (kernel,) = host["kernels"]
    assert (kernel["segment"], kernel["launch"]) == (0, 0)
    assert kernel["kernel"][0] != kernel["kernel"][1]
    same = json.loads(diff(folder, "old", "same", "--json"))
    assert (same["same"], same["targets"]["host"]["kernels"]) == (True, [])


def test_library_calls_are_compared(folder: Path) -> None:
    inputs = {"x": "float[M, K]", "w": "float[N, K]", "r": "float[M, N]"}
    for name, body in (("plain", "t = linear(x, w)\ny = sin(t) * r"), ("added", "y = linear(x, w) + r")):
        text = text_of(inputs, body, {"y": "float"}).replace("fusion: test", "fusion: tiny")
        (folder / "recipes" / f"{name}.yaml").write_text(text)
        assert compile_one(folder, name, "host").code == 0
    before, after = "linear in float: %0[M, K] %1[K, N] transposed", " + %2"
    assert f"  segment 0: {before} -> {before}{after}\n" in diff(folder, "plain", "added")
    (call,) = json.loads(diff(folder, "plain", "added", "--json"))["targets"]["host"]["calls"]
    assert call == {"segment": 0, "call": [before, before + after]}


def test_registers_are_compared(folder: Path, tmp_path: Path) -> None:
    (folder / "recipes" / "gpu.yaml").write_text(OTHER.replace("x * 3.0", "cast(sin(cast(x, double)), float)"))
    assert compile_one(folder, "gpu", "sm_90").code == 0
    assert re.search(r"-> pointwise_\w+, registers \d+ -> \d+", diff(folder, "both", "gpu"))


def test_what_is_no_artifact_is_an_error(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "broken.fuse").write_bytes(b"PK")
    done = fusebuild("diff", folder / "old" / "tiny.fuse", tmp_path / "broken.fuse")
    assert (done.code, done.out) == (4, "")
