"""Measuring on a real device: `pytest -m gpu`, on a machine with a GPU, nvcc and triton. Nothing asserts on how long
anything took, only that everything was measured."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from fusebuild.bench.device import CudaDevice
from fusebuild.bench.measure import BenchOptions, bench_artifacts
from fusebuild.bench.report import Measurement
from fusebuild.pipeline import compile_recipes
from fusebuild.recipe.recipe import load_recipe
from fusebuild.target.table import find_target
from support.places import RECIPES
from support.small_recipes import text_of

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
IN_PLACE = text_of({"x": "float[M]"}, "y = x * 0.5", {"y": "{dtype: float, alias: x}"}, name="in_place", cases="M: 64")


@pytest.fixture(scope="module")
def artifacts(compilers: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bench")
    for path in RECIPES:
        shutil.copy(path, folder)
    (folder / "in_place.yaml").write_text(IN_PLACE)
    major, minor = torch.cuda.get_device_capability()
    compile_recipes([folder], [find_target(f"sm_{major}{minor}")], folder / "build")
    return folder / "build"


def is_whole(found: Measurement) -> bool:
    """Whether everybody was measured, on the device and on the host."""
    device = (found.milliseconds, found.eager_milliseconds, found.compile_milliseconds, found.copy_milliseconds)
    host = (found.call_microseconds, found.eager_call_microseconds, found.compile_call_microseconds)
    return all(time is not None and time > 0 for time in (*device, *host))


@pytest.mark.parametrize("name", [*(path.stem for path in RECIPES), "in_place"])
def test_everybody_is_measured_on_a_small_case(artifacts: Path, name: str) -> None:
    cases = load_recipe(artifacts.parent / f"{name}.yaml").fusion.cases
    small = cases[min(1, len(cases) - 1)]
    options = BenchOptions(cases=(small,) if small else ())
    (found,) = bench_artifacts([artifacts / f"{name}.fuse"], options).measurements
    drawn = {"errors"} if name == "dropout_add_rmsnorm" else set()  # torch draws other numbers there
    assert set(found.missing) == drawn
    assert is_whole(found)
    assert (found.eager_error is None) == (found.compile_error is None) == (found.error_ratio is None) == bool(drawn)
    assert found.roof > 0


def test_drawn_cases_are_compiled_ahead_and_measured(artifacts: Path) -> None:
    report = bench_artifacts([artifacts / "softmax.fuse"], BenchOptions(sweep=4, jobs=2))
    assert report.wrong == ()
    assert len(report.measurements) == 4
    assert all(is_whole(found) and found.missing == {} for found in report.measurements)


def test_a_call_that_waits_for_the_device_is_refused_and_the_next_is_captured() -> None:
    device, ones = CudaDevice(), torch.ones(3, device="cuda")
    with pytest.raises(RuntimeError, match="synchroniz"):
        device.captured([lambda: ones.sum().item()])
    device.release()
    device.captured([lambda: ones.mul_(2)])()
    device.wait()
    assert ones.tolist() == [8.0] * 3  # once beside, once to see that it does not wait, and the replay
