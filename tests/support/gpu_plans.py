"""Plans by hand for the current GPU, the CUDA that they launch, and what they compute."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from fusebuild.artifact.plan import ExtentArg, FormulaArg, Launch, Plan, PlanOutput, ScalarArg, TensorArg
from fusebuild.ir.formula import Formula
from support import runtime_plans as plans

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
    """t = 2x, late; y = t + 1 overlaps it; z = y + 1 overlaps that, and so does w = z + 1, of the next segment, by the
    second of two launches, of which the first is empty where N < 1000. ``times`` says when t ended and when the others
    began."""
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


def late_plan() -> Plan:
    """t = 2x, late; ``times[0]`` says when it ended. It lets the next kernel begin at once, and does not wait."""
    values = [plans.tensor(0, "x", ["N"]), plans.tensor(1, "t", ["N"]), plans.tensor(2, "times", [5], "int64")]
    late = plans.launch("late", TensorArg(1), TensorArg(2), TensorArg(0), ExtentArg(-1))
    outputs = [PlanOutput(fid=1, name="t"), PlanOutput(fid=2, name="times")]
    return plans.plan("late", values, [0], outputs, [plans.segment(0, [0], [1, 2], late)])


def first_overlaps_plan() -> Plan:
    """y = x + 1 by a launch that overlaps whatever was before the call; ``times[1]`` says when it began."""
    values = [plans.tensor(0, "x", ["N"]), plans.tensor(1, "y", ["N"]), plans.tensor(2, "times", [5], "int64")]
    outputs = [PlanOutput(fid=1, name="y"), PlanOutput(fid=2, name="times")]
    return plans.plan(
        "first_overlaps", values, [0], outputs, [plans.segment(0, [0], [1, 2], follow(1, 0, 1, overlaps=True))]
    )


def inputs(m: int = 300, n: int = 512, device: str = "cuda") -> tuple[Any, ...]:
    return torch.randn(m, n, device=device), torch.randn(m, n, device=device), 2.5, torch.tensor(0.5)


def expected(x: Any, y: Any, alpha: float, bias: Any) -> Any:
    return torch.addcmul(bias.to(x.device), x, torch.tensor(alpha, device=x.device)) + y


def check_overlapping(x: Any, made: tuple[Any, ...]) -> None:
    t, times, y, z, w = made
    assert torch.equal(t, 2 * x)
    assert torch.equal(y, t + 1)
    assert torch.equal(z, y + 1)
    assert torch.equal(w, z + 1)
    ended, *began = times.tolist()
    assert began[0] < ended, "the second launch did not begin before the first had ended"
    assert began[3] > ended, "a launch began before the one before the one before it had ended"
