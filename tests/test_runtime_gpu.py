"""The executor's CUDA backend on hand-written plans: `pytest -m gpu`, on a machine with a GPU and nvcc."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest
import runtime_plans as plans
import tvm_ffi

from fusebuild.artifact.plan import ExtentArg, FormulaArg, Launch, Plan, PlanOutput, ScalarArg, TensorArg
from fusebuild.errors import ArtifactError
from fusebuild.ir.formula import Formula
from fusebuild.oracle.verification import Limits, read_recipe, recipe_inputs, verify_artifact
from fusebuild.pipeline import compile_recipes
from fusebuild.runtime.loader import LoadedPlan, load, load_artifact
from fusebuild.target.table import TARGETS

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

ROOT = Path(__file__).resolve().parent.parent

KERNELS = r"""
#include <cstdint>
extern "C" __global__ void scale(float* t, const float* x, int64_t M, int64_t N, int64_t sm, int64_t sn, float alpha,
                                 float bias, float* row) {
  const int64_t m = blockIdx.x;
  if (m == 0) for (int64_t n = threadIdx.x; n < N; n += blockDim.x) row[n] = 0;  // scratch must be writable
  for (int64_t n = threadIdx.x; n < N; n += blockDim.x) t[m * N + n] = x[m * sm + n * sn] * alpha + bias;
}
extern "C" __global__ void add_wide(float4* z, const float4* t, const float4* y, int64_t numel, int32_t* which) {
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i == 0) *which = 4;
  if (i >= numel / 4) return;
  z[i] = make_float4(t[i].x + y[i].x, t[i].y + y[i].y, t[i].z + y[i].z, t[i].w + y[i].w);
}
extern "C" __global__ void add_narrow(float* z, const float* t, const float* y, int64_t numel, int32_t* which) {
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i == 0) *which = 1;
  if (i < numel) z[i] = t[i] + y[i];
}
// Reverses a vector through dynamic shared memory: N floats of it, beside four bytes of static.
extern "C" __global__ void reverse(float* y, const float* x, int64_t N) {
  extern __shared__ float row[];
  __shared__ int32_t last;
  if (threadIdx.x == 0) last = N - 1;
  for (int64_t i = threadIdx.x; i < N; i += blockDim.x) row[i] = x[i];
  __syncthreads();
  for (int64_t i = threadIdx.x; i < N; i += blockDim.x) y[i] = row[last - i];
}
extern "C" __global__ void fill(float* y, float value) { y[threadIdx.x] = value; }
__device__ int64_t now() {
  int64_t nanoseconds;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(nanoseconds));
  return nanoseconds;
}
// Lets the next kernel begin; writes t = 2x a millisecond later, and times[0], when it ends.
extern "C" __global__ void late(float* t, int64_t* times, const float* x, int64_t N) {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
  for (const int64_t start = now(); now() - start < 1000000;) {}
  for (int64_t i = threadIdx.x; i < N; i += blockDim.x) t[i] = 2 * x[i];
  if (threadIdx.x == 0) times[0] = now();
}
// y = t + 1, and times[slot], when it begins.
extern "C" __global__ void follow(float* y, int64_t* times, const float* t, int64_t N, int64_t slot) {
  if (threadIdx.x == 0) times[slot] = now();
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
  for (int64_t i = threadIdx.x; i < N; i += blockDim.x) y[i] = t[i] + 1;
}
"""
NAMES = ("scale", "add_wide", "add_narrow", "reverse", "fill", "late", "follow")


def nvcc() -> str:
    found = shutil.which("nvcc")
    bundled = [Path(folder) / "nvidia" / "cu13" / "bin" / "nvcc" for folder in sys.path]
    return found or next((str(path) for path in bundled if path.is_file()), "") or pytest.skip("needs nvcc")


def current_target() -> str:
    major, minor = torch.cuda.get_device_capability()
    return f"sm_{major}{minor}"


@pytest.fixture(scope="session")
def cubin(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    folder = tmp_path_factory.mktemp("cubin")
    (folder / "k.cu").write_text(KERNELS)
    subprocess.run(
        [nvcc(), "-cubin", f"-arch={current_target()}", "-o", folder / "k.cubin", folder / "k.cu"], check=True
    )
    return (folder / "k.cubin").read_bytes()


@pytest.fixture(scope="session")
def open_plan(cubin: bytes) -> Any:
    """Loads a host plan as one for the current device."""

    def open_one(plan: Plan) -> LoadedPlan:
        (host,) = plan.targets
        gpu = msgspec.structs.replace(plan, targets=(msgspec.structs.replace(host, target=current_target()),))
        objects = dict.fromkeys(NAMES, cubin)
        return load_artifact(plans.HandMadeArtifact(path=Path("x.fuse"), plan=gpu, objects=objects))

    return open_one


@pytest.fixture(scope="session")
def scale_add(open_plan: Any) -> LoadedPlan:
    loaded: LoadedPlan = open_plan(plans.scale_add_plan())
    return loaded


def reverse_plan(shared_bytes: Formula = ("mul", 4, "N")) -> Plan:
    values = [plans.tensor(0, "x", ["N"]), plans.tensor(1, "y", ["N"])]
    reverse = plans.launch("reverse", TensorArg(1), TensorArg(0), ExtentArg(-1), shared_bytes=shared_bytes)
    return plans.plan("reverse", values, [0], [PlanOutput(fid=1, name="y")], [plans.segment(0, [0], [1], reverse)])


def fill_plan() -> Plan:
    values = [plans.scalar(0, "value", "float"), plans.tensor(1, "y", [128])]
    fill = plans.launch("fill", TensorArg(1), ScalarArg(0))
    return plans.plan("fill", values, [0], [PlanOutput(fid=1, name="y")], [plans.segment(0, [0], [1], fill)])


def follow(output: int, read: int, slot: int, *, grid: Any = 1, overlaps: bool = False) -> Launch:
    return plans.launch(
        "follow", TensorArg(output), TensorArg(2), TensorArg(read), ExtentArg(-1), FormulaArg(slot), grid=grid,
        overlaps=overlaps,
    )  # fmt: skip


def overlapping_plan() -> Plan:
    """t = 2x, late; y = t + 1 overlaps it; z = y + 1 overlaps that; w = z + 1 overlaps nothing. The first of the last
    segment's launches, which a second one overlaps, is empty where N < 1000. ``times`` says when t ended and when
    the others began."""
    names = ("x", "t", "times", "y", "z", "w")
    values = [
        plans.tensor(fid, name, [5] if name == "times" else ["N"], "int64" if name == "times" else "float")
        for fid, name in enumerate(names)
    ]
    late = plans.launch("late", TensorArg(1), TensorArg(2), TensorArg(0), ExtentArg(-1))
    chain = (late, follow(3, 1, 1, overlaps=True), follow(4, 3, 2, overlaps=True))
    alone = (follow(5, 4, 3, grid=("floor_div", "N", 1000)), follow(5, 4, 4, overlaps=True))
    return plans.plan(
        "overlapping", values, [0], [PlanOutput(fid=fid, name=names[fid]) for fid in (1, 2, 3, 4, 5)],
        [plans.segment(0, [0], [1, 2, 3, 4], *chain), plans.segment(1, [4, 2], [5], *alone)],
    )  # fmt: skip


def inputs(m: int = 300, n: int = 512, device: str = "cuda") -> tuple[Any, ...]:
    return torch.randn(m, n, device=device), torch.randn(m, n, device=device), 2.5, torch.tensor(0.5)


def expected(x: Any, y: Any, alpha: float, bias: Any) -> Any:
    return torch.addcmul(bias.to(x.device), x, torch.tensor(alpha, device=x.device)) + y


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


def check_overlapping(x: Any, made: tuple[Any, ...]) -> None:
    t, times, y, z, w = made
    assert torch.equal(t, 2 * x)
    assert torch.equal(y, t + 1)
    assert torch.equal(z, y + 1)
    assert torch.equal(w, z + 1)
    ended, *began = times.tolist()
    assert began[0] < ended, "the second launch did not begin before the first had ended"
    assert began[3] > ended, "a launch whose segment has none before it began before the segment"


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
    verdicts = list(verify_artifact(artifact, target=current_target(), limits=Limits()))
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
