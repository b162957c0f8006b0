"""Slices of inputs as inputs: which ones, where they lie, and what kernels say of them."""

from __future__ import annotations

import pytest

from fusebuild.artifact.plan import TensorArg
from fusebuild.ir.fusion import Task
from fusebuild.ir.values import Window
from fusebuild.kernels.common.windows import with_windows
from fusebuild.kernels.persistent import FAMILY as PERSISTENT
from fusebuild.kernels.pointwise import FAMILY as POINTWISE
from fusebuild.kernels.render import Origin, render
from fusebuild.target.table import TARGETS
from support.small_recipes import whole

PACKED = {"x": "bfloat16[M, 2*N]"}
SOFTMAX = "y = softmax(cast({}, float), dim=1)"


def softmax_of(sliced: str) -> Task:
    return whole(PACKED, SOFTMAX.format(sliced), {"y": "bfloat16"})


def windows(task: Task) -> list[Window | None]:
    """Those of the inputs of ``task``, once its slices are inputs."""
    changed = with_windows(task)
    return [changed.fusion.value(fid).window for fid in changed.inputs]


@pytest.mark.parametrize(
    ("sliced", "offset", "stride"),
    [
        ("slice(x, [0, 0], [M, N])", 0, 1),
        ("slice(x, [0, N], [M, 2*N])", "N", 1),
        ("slice(x, [0, 0], [M, 2*N], [1, 2])", 0, 2),
        ("slice(slice(x, [0, N], [M, 2*N]), [0, 0], [M, N // 2])", "N", 1),
    ],
)
def test_a_slice_of_an_input_is_a_window_on_it(sliced: str, offset: object, stride: int) -> None:
    task = softmax_of(sliced)
    assert windows(task) == [Window(tensor=task.inputs[0], offset=offset, strides=(("mul", 2, "N"), stride))]  # type: ignore[arg-type]


def test_what_lies_before_it_may_be_a_number() -> None:
    task = whole({"x": "bfloat16[M, 64]"}, SOFTMAX.format("slice(x, [0, 8], [M, 40])"), {"y": "bfloat16"})
    assert windows(task) == [Window(tensor=task.inputs[0], offset=8, strides=(64, 1))]


@pytest.mark.parametrize(
    ("inputs", "body"),
    [
        (PACKED, "y = softmax(cast(x, float), dim=1)"),
        (PACKED, "y = softmax(cast(pad(x, [0, 1, 0, 0]), float), dim=1)"),  # lies within bounds
        ({"x": "bfloat16[V, N]", "i": "int64[M]"}, "y = softmax(cast(take(x, i, 0), float), dim=1)"),  # is anywhere
    ],
)
def test_what_else_is_read_is_none(inputs: dict[str, str], body: str) -> None:
    task = whole(inputs, body, {"y": "bfloat16"})
    assert with_windows(task) is task


def test_a_slice_that_is_also_read_elsewhere_stays_one() -> None:
    body = """h = slice(x, [0, N], [M, 2*N])
y = softmax(cast(h, float), dim=1)
z = sum(cast(pad(h, [0, 1, 0, 0]), float), dims=[1])"""
    task = whole(PACKED, body, {"y": "bfloat16", "z": "float"})
    assert windows(task) == [None]


def kernel_text(task: Task) -> str:
    variant = next(each for each in PERSISTENT.schedule(task, TARGETS["sm_90"], {"M": 4096, "N": 4096})
                   if each.name.startswith("registers"))  # fmt: skip
    kernel = variant.launches[0].kernel
    (pointer, _) = [each for each in kernel.parameters if isinstance(each.arg, TensorArg)]
    assert pointer.arg == TensorArg(fid=task.inputs[0])  # type: ignore[arg-type]
    assert ("aligned", task.inputs[0], 16) in variant.guard
    return render(kernel, Origin(recipe="test", segment=0, fid_map={}, scheduler="", variant="")).text


def test_a_kernel_moves_the_address_to_the_slice_and_loads_vectors() -> None:
    text = kernel_text(softmax_of("slice(x, [0, N], [M, 2*N])"))
    assert "const __nv_bfloat16* X1,  // x: bfloat16[M, 2*N], for t1\n" in text
    assert "int64_t X1_offset" in text
    assert "  const __nv_bfloat16* T1 = X1 + X1_offset;  // t1: bfloat16[M, N]\n" in text
    assert "c1[c] = fb::load_packed<kVec>(r1 + col);" in text


def test_a_slice_at_the_first_element_needs_no_move() -> None:
    assert "  const __nv_bfloat16* T1 = X1;  // t1: bfloat16[M, N]\n" in kernel_text(
        softmax_of("slice(x, [0, 0], [M, N])")
    )


def test_pointwise_kernels_read_slices_as_they_are() -> None:
    task = whole(PACKED, "y = slice(x, [0, N], [M, 2*N]) * 2.0", {"y": "bfloat16"})
    variant = POINTWISE.schedule(task, TARGETS["sm_90"], {"M": 4096, "N": 4096})[0]
    assert variant.launches[0].kernel.task is task
