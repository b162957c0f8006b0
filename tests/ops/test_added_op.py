"""The new op of docs/extending.md. Its line there is all that it needs: on the CPU, in the lambdas of reductions and
scans, as a constant, for the oracle, in the module of torch that ``bench`` measures, and in the reference of ops."""

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
  s = scan(x, init=-inf, combine=largest, dim=1)
  z = cubed(x) + cubed(2.0)
outputs:
  y: float
  s: float
  z: float
"""
SCRIPT = """\
from pathlib import Path

import torch
import fusebuild
from fusebuild.bench.torch_module import torch_module
from fusebuild.ir.dtype import DType
from fusebuild.ops.scalar_math import fold
from fusebuild.ops.table import OPS, Rule, _unary
from fusebuild.oracle.reference import evaluate
from fusebuild.recipe.recipe import load_recipe, parse_recipe
from fusebuild.report.op_reference import example_recipe, op_lines, op_reference

(op,) = ({line})
OPS[op.name] = op
x = torch.randn(7, 1001)
wanted = x.amax(1), x.cummax(1).values, x**3 + 8
fusion = load_recipe(Path("largest.yaml")).fusion
for results in (fusebuild.compile("largest.yaml", target="host")(x), evaluate(fusion, [x])):
    for result, want in zip(results, wanted, strict=True):
        torch.testing.assert_close(result, want)
assert fold("cubed", [3.0], [DType.FLOAT], DType.FLOAT) == 27.0
example = parse_recipe(example_recipe(op, DType.FLOAT), "cubed").fusion
assert torch.equal(torch_module(example)(x)[0], x**3)
assert op_lines(op_reference("cubed"))[0] == "cubed(x)"
print("the same")
"""


def test_its_line_is_all_that_a_new_op_needs(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    page = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
    (line,) = re.findall(r'^_unary\("cubed".*$', page, re.MULTILINE)
    (tmp_path / "largest.yaml").write_text(LARGEST, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(line=line)], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.stdout == "the same\n", done.stderr
