"""The executor's CUDA backend on hand-written plans: `pytest -m gpu`, on a machine with a GPU and nvcc."""

from __future__ import annotations

import contextlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest
import tvm_ffi

from fusebuild.errors import ArtifactError
from fusebuild.oracle.verification import read_recipe, recipe_inputs, verify_artifact
from fusebuild.pipeline import compile_recipes
from fusebuild.runtime.loader import LoadedPlan, load, load_artifact
from fusebuild.target.table import TARGETS
from support import runtime_plans as plans
from support.gpu_plans import (
    check_overlapping,
    current_target,
    expected,
    fill_plan,
    inputs,
    overlapping_plan,
    reverse_plan,
)
from support.places import ROOT

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


def test_kernels_run_on_the_current_device(scale_add: LoadedPlan) -> None:
    assert scale_add.target == current_target()
    arguments = inputs()
    z, which = scale_add(*arguments)
    assert z.is_cuda
    torch.testing.assert_close(z, expected(*arguments))
    assert which.item() == 4
    assert scale_add(*arguments, variant=1)[1].item() == 1
    assert scale_add(*inputs(0, 8))[0].shape == (0, 8)


def test_work_goes_to_the_current_stream(scale_add: LoadedPlan) -> None:
    x, y, alpha, bias = inputs()
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        torch.cuda._sleep(100_000_000)
        x.mul_(2)  # late: only work on the same stream sees it
        z, _ = scale_add(x, y, alpha, bias)
    stream.synchronize()
    torch.testing.assert_close(z, expected(x, y, alpha, bias))


class Foreign:
    """An array of another library, which speaks DLPack and has streams that nobody here knows."""

    def __init__(self, tensor: Any) -> None:
        self._tensor = tensor

    def __dlpack__(self) -> Any:
        return self._tensor.__dlpack__()

    def __dlpack_device__(self) -> Any:
        return self._tensor.__dlpack_device__()


@pytest.mark.parametrize("is_default", [True, False])
def test_arrays_that_tell_no_stream_go_to_the_default_one_or_that_chosen(
    scale_add: LoadedPlan, is_default: bool
) -> None:
    x, y, alpha, bias = inputs()
    stream = torch.cuda.default_stream() if is_default else torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    chosen = (
        contextlib.nullcontext() if is_default else tvm_ffi.use_raw_stream(tvm_ffi.device("cuda:0"), stream.cuda_stream)
    )
    with torch.cuda.stream(stream):
        torch.cuda._sleep(100_000_000)
        x.mul_(2)  # late: only work on the same stream sees it
    with contextlib.nullcontext() if is_default else chosen:
        z, which = scale_add(Foreign(x), Foreign(y), alpha, Foreign(bias))
    assert isinstance(z, tvm_ffi.Tensor)
    stream.synchronize()
    torch.testing.assert_close(torch.from_dlpack(z), expected(x, y, alpha, bias))
    assert torch.from_dlpack(which).item() == 4


def test_a_call_can_be_captured_first_time(open_plan: Any) -> None:
    fresh = open_plan(plans.scale_add_plan())
    x, y, alpha, bias = inputs()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        z, _ = fresh(x, y, alpha, bias)
    for _ in range(3):
        x.copy_(torch.randn_like(x))
        graph.replay()
        torch.testing.assert_close(z, expected(x, y, alpha, bias))


def results(made: Any) -> tuple[Any, ...]:
    """What a call made, also where it is one tensor."""
    return (made,) if isinstance(made, torch.Tensor) else tuple(made)


def copies(values: Any) -> list[Any]:
    return [value.clone() if isinstance(value, torch.Tensor) else value for value in results(values)]


def test_launches_overlap_and_see_what_those_before_them_wrote(open_plan: Any) -> None:
    if torch.cuda.get_device_capability() < (9, 0):
        pytest.skip("needs sm_90")
    overlapping = open_plan(overlapping_plan())
    x = torch.randn(500, device="cuda")
    overlapping(x)  # the first launch of a kernel may take a while
    for _ in range(5):
        x.copy_(torch.randn_like(x))
        check_overlapping(x, overlapping(x))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        made = overlapping(x)
    for _ in range(5):
        x.copy_(torch.randn_like(x))
        graph.replay()
        check_overlapping(x, made)


@pytest.mark.parametrize("recipe", ["adaln_backward", "batchnorm_train", "sum_squares"])
def test_finishing_kernels_wait_for_what_they_combine(recipe: str, tmp_path: Path) -> None:
    """Calls with two inputs in turn leave partial results of the other one in the workspace."""
    if current_target() not in TARGETS:
        pytest.skip(f"there is no target {current_target()}")
    compile_recipes([ROOT / "recipes" / f"{recipe}.yaml"], [TARGETS[current_target()]], tmp_path)
    artifact = tmp_path / f"{recipe}.fuse"
    verdicts = list(verify_artifact(artifact, target=current_target()))
    assert verdicts
    assert [verdict for verdict in verdicts if not verdict.ok] == []
    plan, read = load(artifact), read_recipe(artifact)
    given = [recipe_inputs(read, read.fusion.cases[0], seed=seed, device="cuda") for seed in (0, 1)]
    wanted = [copies(plan(*copies(each))) for each in given]
    for _ in range(10):
        for each, want in zip(given, wanted, strict=True):
            assert all(map(torch.equal, results(plan(*copies(each))), want))
    static = copies(given[0])
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        made = plan(*static)
    for _ in range(10):
        for each, want in zip(given, wanted, strict=True):
            for held, value in zip(static, each, strict=True):
                if isinstance(held, torch.Tensor):
                    held.copy_(value)
            graph.replay()
            assert all(map(torch.equal, results(made), want))


def test_many_threads_share_a_plan(scale_add: LoadedPlan) -> None:
    def work(seed: int) -> bool:
        with torch.cuda.stream(torch.cuda.Stream()):
            for m in range(1, 30):
                arguments = inputs(m + seed, 64)
                if not torch.allclose(scale_add(*arguments)[0], expected(*arguments), atol=1e-5):
                    return False
        return True

    with ThreadPoolExecutor(16) as pool:
        assert all(pool.map(work, range(16)))


def test_shared_memory_beyond_the_default_is_asked_for(open_plan: Any) -> None:
    reverse = open_plan(reverse_plan())
    for size in (100, 20_000):
        x = torch.randn(size, device="cuda")
        torch.testing.assert_close(reverse(x), x.flip(0))
    with pytest.raises(RuntimeError, match="reverse") as caught:
        reverse(torch.randn(100_000, device="cuda"))
    assert str(caught.value) == (
        "reverse: kernel reverse: launch with grid (1, 1, 1), block (128, 1, 1), "
        "400000 bytes of dynamic shared memory failed: CUDA_ERROR_INVALID_VALUE"
    )


def test_static_shared_memory_counts_towards_the_default(open_plan: Any) -> None:
    x = torch.randn(100, device="cuda")
    torch.testing.assert_close(open_plan(reverse_plan(48 * 1024))(x), x.flip(0))


def test_without_tensor_inputs_the_executor_allocates(open_plan: Any) -> None:
    y = open_plan(fill_plan())(1.5)
    assert torch.from_dlpack(y).tolist() == [1.5] * 128


def test_tensors_elsewhere_are_refused(scale_add: LoadedPlan) -> None:
    x, y, alpha, bias = inputs()
    for wrong, message in (
        ((x.cpu(), y, alpha, bias), "scale_add: argument 0 'x': expected a tensor on cuda, got one on cpu"),
        ((x, y.cpu(), alpha, bias), "scale_add: argument 1 'y': expected a tensor on cuda:0 like 'x', got one on cpu"),
        ((x, y, alpha, bias.cuda()), "scale_add: argument 3 'bias': expected a tensor on cpu, got one on cuda:0"),
    ):
        with pytest.raises(ValueError, match="scale_add") as caught:
            scale_add(*wrong)
        assert str(caught.value) == message


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_the_inputs_device_is_used_whatever_is_current(scale_add: LoadedPlan) -> None:
    arguments = inputs(device="cuda:1")
    z, _ = scale_add(*arguments)
    assert z.device == torch.device("cuda:1")
    torch.testing.assert_close(z, expected(*arguments))
    assert torch.cuda.current_device() == 0


def test_code_for_other_architectures_is_not_taken(cubin: bytes) -> None:
    (host,) = reverse_plan().targets
    other = msgspec.structs.replace(reverse_plan(), targets=(msgspec.structs.replace(host, target="sm_70"),))
    with pytest.raises(ArtifactError, match=r"^x.fuse: it has code for sm_70, but this device needs sm_"):
        load_artifact(plans.HandMadeArtifact(path=Path("x.fuse"), plan=other, objects={"reverse": cubin}))
