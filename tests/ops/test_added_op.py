"""The new op of docs/extending.md, from its line there to results on the CPU."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.places import ROOT

LARGEST = """\
fusion: largest
inputs:
  x: float[M, N]
lambdas:
  largest:
    left: {a: float}
    right: {b: float}
    body: |
      r = where(cubed(a) > cubed(b), a, b)
    results: [r]
body: |
  y = reduce(x, init=-inf, combine=largest, dims=[1])
  z = cubed(x)
outputs:
  y: float
  z: float
"""
SCRIPT = """\
import torch
import fusebuild
from fusebuild.ops.table import OPS, Rule, _unary

(op,) = ({line})
OPS[op.name] = op
plan = fusebuild.compile("largest.yaml", target="host")
x = torch.randn(7, 1001)
y, z = plan(x)
assert torch.equal(y, x.amax(1)), "the largest by their cubes are the largest"
torch.testing.assert_close(z, x**3)
print("the same")
"""


def test_the_new_op_reduces_on_the_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    page = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
    (line,) = re.findall(r'^_unary\("cubed".*$', page, re.MULTILINE)
    (tmp_path / "largest.yaml").write_text(LARGEST, encoding="utf-8")
    monkeypatch.setenv("FUSEBUILD_CACHE_DIR", str(tmp_path / "cache"))
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(line=line)], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.stdout == "the same\n", done.stderr
