"""What a definition says of itself: whether its results are right, and a script that does the same."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from fusebuild.definition import DataType, FusionDefinition

torch = pytest.importorskip("torch")


@pytest.fixture
def own_cache(compilers: None, empty_store: Path) -> Path:
    return empty_store.parent


def test_right_results_are_returned(own_cache: Path) -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], True)
        fd.add_output(x * 3.0, stride_order=[0, 1])
    given = torch.rand(3, 4)
    (got,) = fd.validate([given])
    assert torch.equal(got, given * 3)
    assert got.stride() == (1, 3)
    assert torch.equal(fd.validate([given], [given * 3])[0], got)
    with pytest.raises(AssertionError, match="Tensor-likes are not close"):
        fd.validate([given], [given * 2])


def test_random_results_are_compared_with_those_of_the_same_seed(own_cache: Path) -> None:
    x, n = torch.rand(3, 4), 3
    with FusionDefinition() as fd:
        t, rows = fd.define_tensor([-1, -1], True), fd.define_scalar(None, DataType.Int)
        fd.add_output(t + fd.ops.uniform(0.0, 1.0, [rows, 4]))
    (got,) = fd.validate([x, n])
    assert not torch.equal(got, x)


def test_wrong_results_are_told(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with FusionDefinition(name="doubled") as fd:
        fd.add_output(fd.define_tensor([-1], True) * 2.0)
    monkeypatch.setattr(FusionDefinition, "_run", lambda self, completed, device: (completed[0] * 2.5,))
    with pytest.raises(AssertionError, match=r"^doubled: output t2: "):
        fd.validate([torch.ones(3)])


def test_the_script_runs_and_records_the_same(own_cache: Path, tmp_path: Path) -> None:
    with FusionDefinition(name="scaled") as fd:
        x, n = fd.define_tensor([-1, -1], [False, True]), fd.define_scalar(None, DataType.Int)
        c, f = fd.define_tensor([-1], True, DataType.Bool), fd.define_scalar(None, DataType.Double)
        fd.add_output(fd.ops.full([n], 2.0, DataType.Float) * f)
        fd.add_output(fd.ops.where(c, fd.ops.sum(x, [0]), 0.0), stride_order=[0])
    given = [torch.rand(3, 8)[:, :4], 2, torch.tensor([True, False, True, True]), float("inf")]
    text = fd.repro_script_for(given)
    assert repr(fd) in text
    assert "as_strided((3, 4), (8, 1))" in text
    script = tmp_path / "repro.py"
    script.write_text(text)
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("[tensor([inf, inf]), tensor([")
    assert "execute" not in fd.repro_script_for()


def test_tensors_and_scalars_say_which_they_are() -> None:
    fd = FusionDefinition()
    assert fd.define_tensor([2, 3]).is_tensor()
    assert fd.define_tensor([2, 3]).ndim == 2
    assert not fd.define_scalar(1.0).is_tensor()
