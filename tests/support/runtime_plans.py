"""Small plans written by hand, and the host kernels they launch, for test_runtime.py.

Each kernel is one shared object with the entry that a host-target artifact has, written plainly: it ignores the grid
and runs the whole problem.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from fusebuild.artifact.plan import (
    FORMAT_VERSION,
    Arg,
    ExtentArg,
    FormulaArg,
    Launch,
    Plan,
    PlanExtent,
    PlanFact,
    PlanOutput,
    PlanSegment,
    PlanValue,
    ScalarArg,
    Slot,
    StrideArg,
    TargetPlan,
    TensorArg,
    Variant,
    WorkspaceArg,
)

ENTRY = """
#include <cstdint>
#include <cstring>
#define KERNEL(name, parameters) \\
  extern "C" const char fusebuild_host3_##name##_parameters[] = parameters; \\
  extern "C" int32_t fusebuild_host3_##name(const int64_t* grid, const int32_t* block, int64_t shared_bytes, \\
                                            int64_t cluster, void** args, const void*)
template <typename T> T& arg(void** args, int i) { return *static_cast<T*>(args[i]); }
"""

KERNELS = {
    # t = x * alpha + bias through a scratch row; x has any strides
    "scale": """
KERNEL(scale, "p8p8i8i8i8i8f4f4p8") {
  float* t = arg<float*>(args, 0);
  const float* x = arg<const float*>(args, 1);
  const int64_t M = arg<int64_t>(args, 2), N = arg<int64_t>(args, 3);
  const int64_t sm = arg<int64_t>(args, 4), sn = arg<int64_t>(args, 5);
  const float alpha = arg<float>(args, 6), bias = arg<float>(args, 7);
  float* row = arg<float*>(args, 8);
  if (reinterpret_cast<uintptr_t>(row) % 256 || reinterpret_cast<uintptr_t>(t) % 256) return 1;
  for (int64_t m = 0; m < M; ++m) {
    for (int64_t n = 0; n < N; ++n) row[n] = x[m * sm + n * sn] * alpha;
    for (int64_t n = 0; n < N; ++n) t[m * N + n] = row[n] + bias;
  }
  return 0;
}""",
    # z = t + y; which[0] says which variant ran
    "add_wide": """
KERNEL(add_wide, "p8p8p8i8p8") {
  float* z = arg<float*>(args, 0);
  const float *t = arg<const float*>(args, 1), *y = arg<const float*>(args, 2);
  if (reinterpret_cast<uintptr_t>(y) % 16) return 2;
  for (int64_t i = 0; i < arg<int64_t>(args, 3); ++i) z[i] = t[i] + y[i];
  *arg<int32_t*>(args, 4) = 4;
  return grid[0] * block[0] >= arg<int64_t>(args, 3) / 4 && shared_bytes == 64 ? 0 : 3;
}""",
    "add_narrow": """
KERNEL(add_narrow, "p8p8p8i8p8") {
  float* z = arg<float*>(args, 0);
  const float *t = arg<const float*>(args, 1), *y = arg<const float*>(args, 2);
  for (int64_t i = 0; i < arg<int64_t>(args, 3); ++i) z[i] = t[i] + y[i];
  *arg<int32_t*>(args, 4) = 1;
  return 0;
}""",
    # x += 1, element by element
    "increment": """
KERNEL(increment, "p8i8") {
  float* x = arg<float*>(args, 0);
  for (int64_t i = 0; i < arg<int64_t>(args, 1); ++i) x[i] += 1;
  return 0;
}""",
    "twice": """
KERNEL(twice, "p8p8i8") {
  for (int64_t i = 0; i < arg<int64_t>(args, 2); ++i) arg<float*>(args, 0)[i] = arg<float*>(args, 1)[i] * 2;
  return 0;
}""",
    "fill": """
KERNEL(fill, "p8f4i8") {
  for (int64_t i = 0; i < arg<int64_t>(args, 2); ++i) arg<float*>(args, 0)[i] = arg<float>(args, 1);
  return 0;
}""",
    # the bytes of every scalar, in order
    "store": """
KERNEL(store, "p8f8f4f2f2i8i4i1") {
  unsigned char* out = arg<unsigned char*>(args, 0);
  const int sizes[] = {8, 4, 2, 2, 8, 4, 1};
  for (int i = 0; i < 7; ++i) { std::memcpy(out, args[i + 1], sizes[i]); out += sizes[i]; }
  return 0;
}""",
    "fail": 'KERNEL(fail, "p8p8i8") { return 7; }',
}


@dataclass(frozen=True, slots=True, kw_only=True)
class HandMadeArtifact:
    """What the loader needs of an artifact."""

    path: Path
    plan: Plan
    objects: dict[str, bytes]
    toolchain: Mapping[str, str] = field(default_factory=lambda: {"nvcc": "13.0.88"})

    def object_bytes(self, target: str, kernel: str) -> bytes:
        assert target in (item.target for item in self.plan.targets)
        return self.objects[kernel]


def tensor(fid: int, name: str, shape: Sequence[Any], dtype: str = "float", strides: Any = ...) -> PlanValue:
    """A tensor; contiguous unless ``strides`` says otherwise."""
    if strides is ...:
        strides = [("mul", 1, 1, *shape[dim + 1 :]) for dim in range(len(shape))]
    return PlanValue(fid=fid, name=name, kind="tensor", dtype=dtype, shape=tuple(shape), strides=tuple(strides))


def scalar(fid: int, name: str, dtype: str) -> PlanValue:
    return PlanValue(fid=fid, name=name, kind="scalar", dtype=dtype)


def launch(
    kernel: str, *args: Arg, grid: Any = 1, shared_bytes: Any = 0, overlaps: bool = False, cluster: Any = msgspec.UNSET
) -> Launch:
    return Launch(
        kernel=kernel,
        grid=(grid, 1, 1),
        block=(128, 1, 1),
        shared_bytes=shared_bytes,
        args=args,
        overlaps=overlaps or msgspec.UNSET,
        cluster=cluster,
    )


def segment(
    number: int, inputs: Sequence[int], outputs: Sequence[int], *launches: Launch, views: dict[int, int] | None = None,
    variants: Sequence[Variant] | None = None,
) -> PlanSegment:  # fmt: skip
    if variants is None:
        variants = (Variant(name="only", guard=(), launches=launches),) if launches else ()
    return PlanSegment(
        id=number,
        scheduler="pointwise" if variants else "alias",
        fid_map=dict(enumerate([*inputs, *outputs])),
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        views=views or {},
        variants=tuple(variants),
    )


def plan(
    fusion: str,
    values: Sequence[PlanValue],
    inputs: Sequence[int],
    outputs: Sequence[PlanOutput],
    segments: Sequence[PlanSegment],
    workspace: Sequence[Slot] = (),
    facts: Sequence[PlanFact] = (),
) -> Plan:
    """A plan for the host target alone; the extents follow from the inputs."""
    by_fid = {value.fid: value for value in values}
    dims = [(fid, dim, extent) for fid in inputs for dim, extent in enumerate(by_fid[fid].shape)]
    extents = tuple(
        PlanExtent(fid=-1 - index, input=fid, dim=dim, extent=extent) for index, (fid, dim, extent) in enumerate(dims)
    )
    return Plan(
        format=FORMAT_VERSION,
        fusion=fusion,
        digest="0" * 64,
        values=tuple(values),
        extents=extents,
        facts=tuple(facts),
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        targets=(TargetPlan(target="host", segments=tuple(segments), workspace=tuple(workspace)),),
    )


def scale_add_plan() -> Plan:
    """z = (x * alpha + bias) + y, cut in two; x has free strides, bias is a cpu tensor, y's alignment decides."""
    bias = PlanValue(fid=3, name="bias", kind="tensor", dtype="float", cpu=True)
    values = [
        tensor(0, "x", ["M", "N"], strides=[None, None]), tensor(1, "y", ["M", "N"]), scalar(2, "alpha", "float"),
        bias, tensor(4, "t", ["M", "N"]), tensor(5, "z", ["M", "N"]), tensor(6, "which", [1], "int32"),
    ]  # fmt: skip
    numel = ("mul", "M", "N")
    add = (TensorArg(5), TensorArg(4), TensorArg(1), FormulaArg(numel), TensorArg(6))
    wide = launch("add_wide", *add, grid=("ceil_div", numel, 512), shared_bytes=64)
    narrow = launch("add_narrow", *add, grid=("ceil_div", numel, 128))
    guard = (("eq", ("mod", "N", 4), 0), ("aligned", 1, 16), ("aligned", 5, 16))
    strides = (StrideArg(0, 0), StrideArg(0, 1))
    scale = launch(
        "scale", TensorArg(4), TensorArg(0), ExtentArg(-1), ExtentArg(-2), *strides, ScalarArg(2), ScalarArg(3),
        WorkspaceArg(1), grid="M",
    )  # fmt: skip
    variants = (
        Variant(name="wide", guard=guard, launches=(wide,)),
        Variant(name="narrow", guard=(), launches=(narrow,)),
    )
    return plan(
        "scale_add",
        values,
        inputs=[0, 1, 2, 3],
        outputs=[PlanOutput(fid=5, name="z"), PlanOutput(fid=6, name="which")],
        segments=[segment(0, [0, 2, 3], [4], scale), segment(1, [4, 1], [5, 6], variants=variants)],
        workspace=[
            Slot(id=0, fid=4, bytes=("mul", 4, "M", "N"), first=0, last=1),
            Slot(id=1, fid=None, bytes=("mul", 4, "N"), first=0, last=0),
        ],
        facts=[PlanFact(symbol="N", multiple_of=2, min=0, max=1024)],
    )


def increment_plan() -> Plan:
    """y = x + 1, written over x; w is twice y. The extra input v is only there to overlap."""
    values = [tensor(0, "x", ["M"]), tensor(1, "y", ["M"]), tensor(2, "w", ["M"]), tensor(3, "v", ["M"])]
    return plan(
        "increment",
        values,
        inputs=[0, 3],
        outputs=[PlanOutput(fid=1, name="y", alias=0), PlanOutput(fid=2, name="w")],
        segments=[
            segment(0, [0], [1], launch("increment", TensorArg(1), ExtentArg(-1), grid="M")),
            segment(1, [1], [2], launch("twice", TensorArg(2), TensorArg(1), ExtentArg(-1), grid="M")),
        ],
    )


def overlapping_plan() -> Plan:
    """y = x + 2, written over x, by two launches of which the second overlaps the first; y = x + 1 where M < 4, and
    there is nothing to overlap."""
    increment = (TensorArg(1), ExtentArg(-1))
    first = launch("increment", *increment, grid=("floor_div", "M", 4))
    second = launch("increment", *increment, overlaps=True)
    values = [tensor(0, "x", ["M"]), tensor(1, "y", ["M"])]
    return plan(
        "overlapping", values, [0], [PlanOutput(fid=1, name="y", alias=0)], [segment(0, [0], [1], first, second)]
    )


def views_plan() -> Plan:
    """flat shares x's memory; t = 2x is only an intermediate, but both its transpose and its flat view are outputs;
    u = 2 * flat(u0) where u0 = 2x, and only the flat view of u is an output."""
    flat = [("mul", "M", "N")]
    values = [
        tensor(0, "x", ["M", "N"]), tensor(1, "flat", flat), tensor(2, "t", ["M", "N"]),
        tensor(3, "t_transposed", ["N", "M"], strides=[1, "N"]), tensor(4, "t_flat", flat),
        tensor(5, "u", ["M", "N"]), tensor(6, "u_flat", flat),
    ]  # fmt: skip
    numel = FormulaArg(("mul", "M", "N"))
    return plan(
        "views",
        values,
        inputs=[0],
        outputs=[
            PlanOutput(fid=1, name="flat"),
            PlanOutput(fid=3, name="t_transposed"),
            PlanOutput(fid=4, name="t_flat"),
            PlanOutput(fid=6, name="u_flat"),
        ],
        segments=[
            segment(0, [0], [1], views={1: 0}),
            segment(1, [1], [2], launch("twice", TensorArg(2), TensorArg(1), numel, grid="M")),
            segment(2, [2], [3, 4], views={3: 2, 4: 2}),
            segment(3, [4], [5], launch("twice", TensorArg(5), TensorArg(4), numel, grid="M")),
            segment(4, [5], [6], views={6: 5}),
        ],
        workspace=[
            Slot(id=0, fid=2, bytes=("mul", 4, "M", "N"), first=1, last=3),
            Slot(id=1, fid=5, bytes=("mul", 4, "M", "N"), first=3, last=4),
        ],
    )


def scalars_plan() -> Plan:
    """The bytes of one scalar of each dtype, as a kernel receives them. There is no tensor input."""
    dtypes = ["double", "float", "half", "bfloat16", "int64", "int32", "bool"]
    values = [scalar(index, f"s_{dtype}", dtype) for index, dtype in enumerate(dtypes)]
    out = tensor(7, "out", [29], "bool")
    store = launch("store", TensorArg(7), *(ScalarArg(index) for index in range(7)))
    return plan(
        "scalars",
        [*values, out],
        inputs=list(range(7)),
        outputs=[PlanOutput(fid=7, name="out")],
        segments=[segment(0, list(range(7)), [7], store)],
    )


def broadcast_plan(kernel: str = "twice", grid: Any = "M") -> Plan:
    """y = 2x where x is a row-major [M, N] whose rows are 4 elements apart, expanded over a last dim of 3; y is the
    first column of x, kept as [M, 1]."""
    values = [tensor(0, "x", ["M", 4, 3], strides=[4, 1, 0]), tensor(1, "y", ["M", 1], strides=[1, 0])]
    return plan(
        "broadcast",
        values,
        inputs=[0],
        outputs=[PlanOutput(fid=1, name="y")],
        segments=[segment(0, [0], [1], launch(kernel, TensorArg(1), TensorArg(0), ExtentArg(-1), grid=grid))],
    )


def pair_plan() -> Plan:
    """p = 2x and q = 2y, whose sizes follow from one input each."""
    values = [tensor(fid, name, [size]) for fid, (name, size) in enumerate(zip("xypq", "MNMN", strict=True))]
    p = launch("twice", TensorArg(2), TensorArg(0), ExtentArg(-1))
    q = launch("twice", TensorArg(3), TensorArg(1), ExtentArg(-2))
    outputs = [PlanOutput(fid=2, name="p"), PlanOutput(fid=3, name="q")]
    return plan("pair", values, [0, 1], outputs, [segment(0, [0, 1], [2, 3], p, q)])
