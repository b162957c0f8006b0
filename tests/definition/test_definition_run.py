"""Running definitions on the CPU: compiled once, called through the executor."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fusebuild.definition import DataType, FusionDefinition, run
from fusebuild.errors import UsageError
from fusebuild.target.table import TARGETS

torch = pytest.importorskip("torch")


def tripled_sum() -> FusionDefinition:
    with FusionDefinition() as fd:
        a, b = (fd.define_tensor([-1, -1, -1], contiguity=True) for _ in range(2))
        fd.add_output(fd.ops.sum((a + b) * 3.0, [-1]))
    return fd


@pytest.fixture
def own_cache(compilers: None, empty_store: Path) -> Path:
    return empty_store.parent


def artifacts(own_cache: Path) -> list[Path]:
    return sorted(own_cache.glob("definitions/*/*/*.fuse"))


def test_executing_compiles_once_for_equal_definitions(own_cache: Path) -> None:
    inputs = [torch.randn(2, 4, 8), torch.randn(2, 4, 8)]
    want = ((inputs[0] + inputs[1]) * 3.0).sum(-1)
    for _ in range(2):
        (got,) = tripled_sum().execute(inputs)
        assert torch.allclose(got, want, atol=1e-5)
        (artifact,) = artifacts(own_cache)
        assert artifact.parent.name == "host"
    times = artifact.stat().st_mtime_ns
    run.definitions.clear()  # as another process begins
    assert torch.equal(tripled_sum().execute(inputs)[0], got)
    assert artifact.stat().st_mtime_ns == times


def test_executing_takes_arguments_in_the_order_of_the_definition(own_cache: Path) -> None:
    with FusionDefinition() as fd:
        scale = fd.define_scalar(None, DataType.Double)
        x = fd.define_tensor([-1, -1], True)
        shift = fd.define_scalar(None, DataType.Int)
        column = fd.define_tensor([-1, 1], True)
        result = x * scale + column
        fd.add_output(result, alias_input=x)
        fd.add_output(result + shift)

    x, column = torch.randn(3, 5), torch.randn(3, 1)
    before = x.clone()
    (shifted,) = fd.execute([2.5, x, 4, column])
    assert torch.allclose(x, before * 2.5 + column)
    assert torch.allclose(shifted, before * 2.5 + column + 4)
    with pytest.raises(TypeError, match="nvfuser_fusion_id0: expected 4 inputs, got 1"):
        fd.execute([2.5])
    for alone in (x, "x", 2.5, iter([x])):
        words = f"^nvfuser_fusion_id0: expected a list of inputs, got {type(alone).__name__}$"
        with pytest.raises(TypeError, match=words):
            fd.execute(alone)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match=words):
            fd.segment(alone)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="t3"):
        fd.execute([2.5, x, 4, torch.randn(4, 1)])


def test_a_damaged_artifact_is_made_again(own_cache: Path) -> None:
    inputs = [torch.randn(2, 4, 8), torch.randn(2, 4, 8)]
    (want,) = tripled_sum().execute(inputs)
    (artifact,) = artifacts(own_cache)
    artifact.write_bytes(artifact.read_bytes()[:-100])
    run.definitions.clear()
    assert torch.equal(tripled_sum().execute(inputs)[0], want)


def test_what_is_compiled_for_a_gpu_is_for_its_architecture(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    device: Any = torch.device("cuda", 0)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda given: (9, 0) if given == device else (0, 0))
    assert run.target_for(device) is TARGETS["sm_90"]
    assert run.target_for(torch.device("cpu")) is TARGETS["host"]
    with pytest.raises(UsageError, match="no target runs on a device of compute capability"):
        run.target_for(torch.device("cuda", 1))
