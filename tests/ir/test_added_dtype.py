"""The new dtype of docs/extending.md, from its row there to results on the CPU: no other place names it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.places import ROOT

SMALL = """\
fusion: small
inputs:
  x: int8[M, N]
  y: float[M, N]
  z: {type: "int8[]", cpu: true}
scalars:
  n: int8
  five: {dtype: int8, value: 5}
lambdas:
  largest:
    left: {a: int8}
    right: {b: int8}
    body: |
      r = maximum(a, b)
    results: [r]
body: |
  shifted = x + cast(y * 20, int8)
  scaled = cast(shifted, float) * y
  stepped = x * n - five + z
  total = sum(x, dims=[1])
  top = reduce(x, init=-128, combine=largest, dims=[1])
outputs:
  shifted: int8
  scaled: float
  stepped: int8
  total: int64
  top: int8
cases:
  - {M: 3, N: 64}
  - {M: 5, N: 1001}
"""
WRONG = SMALL.replace("n: int8", "n: i8").replace("value: 5", "value: 128")
SCRIPT = """\
import sys
import types
from importlib.util import find_spec
from pathlib import Path

spec = find_spec("fusebuild.ir.dtype")  # with one row more than the file has, before anything reads it
text = Path(spec.origin).read_text(encoding="utf-8")
if "    INT8 = " not in text:  # as long as nobody has added it for good
    text = text.replace('    BOOL = "bool"', {row!r} + '    BOOL = "bool"')
module = sys.modules[spec.name] = types.ModuleType(spec.name)
exec(compile(text, spec.origin, "exec"), module.__dict__)

import torch
from click.testing import CliRunner

import fusebuild
from fusebuild import DataType, FusionDefinition
from fusebuild.cli.main import cli


def typed(*arguments):
    return CliRunner().invoke(cli, arguments, catch_exceptions=False).output


def refused(error, call, *arguments):
    try:
        call(*arguments)
    except error as found:
        return str(found)
    raise AssertionError(f"no {{error.__name__}}")


typed("compile", "small.yaml", "-o", "build", "--arch", "host")
assert " 0 failed" in typed("verify", "build/small.fuse", "--target", "host")
assert "%0 x" in typed("inspect", "build/small.fuse")
assert "int8" in typed("schema", "recipe")
wrong = refused(fusebuild.FusebuildError, typed, "check", "wrong.yaml")
assert "did you mean 'int8'?" in wrong and "the value is 128, more than 127" in wrong

plan = fusebuild.compile("small.yaml", target="host")
x, y, z = torch.randint(-128, 128, (7, 1001), dtype=torch.int8), torch.randn(7, 1001), torch.tensor(9, dtype=torch.int8)
shifted, scaled, stepped, total, top = plan(x, y, z, -3)
assert torch.equal(shifted, x + (y * 20).to(torch.int8))
assert torch.equal(scaled, shifted.float() * y)
assert torch.equal(stepped, x * -3 - 5 + 9)
assert torch.equal(total, x.sum(1)) and torch.equal(top, x.amax(1))
assert "expected int8[M, N], got int32[7, 1001]" in refused(TypeError, plan, x.int(), y, z, -3)
assert "expected a number of dtype int8, got int 128" in refused(ValueError, plan, x, y, z, 128)
assert "expected a number of dtype int8, got float 1.5" in refused(TypeError, plan, x, y, z, 1.5)

with FusionDefinition() as fd:
    t0 = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.Int8)
    fd.add_output(fd.ops.add(t0, fd.define_scalar(7, dtype=DataType.Int8)))
(result,) = fd.execute([x])
assert torch.equal(result, x + 7)
print("the same")
"""


def test_the_new_dtype_runs_on_the_host(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    page = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
    (row,) = re.findall(r'^    INT8 = "int8".*?^    \).*?\n', page, re.MULTILINE | re.DOTALL)
    (tmp_path / "small.yaml").write_text(SMALL, encoding="utf-8")
    (tmp_path / "wrong.yaml").write_text(WRONG, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(row=row)], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.stdout == "the same\n", done.stderr
