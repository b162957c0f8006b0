"""The native executor, run on hand-written plans with the host backend."""

from __future__ import annotations

import copy
import inspect
import pickle
import re
import struct
import subprocess
import sys
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

import fusebuild
from fusebuild.artifact.file import write_artifact
from fusebuild.artifact.plan import (
    ExtentArg,
    FormulaArg,
    Plan,
    PlanOutput,
    ScalarArg,
    TensorArg,
    WorkspaceArg,
    decode,
    encode,
)
from fusebuild.artifact.plan_check import validate_plan
from fusebuild.errors import ArtifactError
from fusebuild.runtime.loader import LoadedPlan, best_target, load_artifact
from support import runtime_plans as plans

torch = pytest.importorskip("torch")


@pytest.fixture(scope="session")
def objects(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Every kernel of runtime_plans, compiled."""
    folder = tmp_path_factory.mktemp("kernels")
    compiled = {}
    for name, text in plans.KERNELS.items():
        source, library = folder / f"{name}.cc", folder / f"{name}.so"
        source.write_text(plans.ENTRY + text + "\n")
        subprocess.run(["g++", "-std=c++17", "-O1", "-shared", "-fPIC", "-o", library, source], check=True)
        compiled[name] = library.read_bytes()
    return compiled


@pytest.fixture(scope="session")
def open_plan(objects: dict[str, bytes]) -> Any:
    """Loads a plan for the host, with all kernels to choose from."""

    def open_one(plan: Plan) -> LoadedPlan:
        assert validate_plan(plan) is None
        return load_artifact(plans.HandMadeArtifact(path=Path("x.fuse"), plan=plan, objects=objects), target="host")

    return open_one


@pytest.fixture(scope="session")
def scale_add(open_plan: Any) -> LoadedPlan:
    loaded: LoadedPlan = open_plan(plans.scale_add_plan())
    return loaded


def scale_add_inputs(m: int = 5, n: int = 8) -> tuple[Any, ...]:
    return torch.randn(m, n), torch.randn(m, n), 2.5, torch.tensor(0.5)


def expected_z(x: Any, y: Any, alpha: float, bias: Any) -> Any:
    return (x * alpha + bias) + y


# Running.


def test_a_plan_knows_its_names(scale_add: LoadedPlan) -> None:
    assert scale_add.inputs == ("x", "y", "alpha", "bias")
    assert scale_add.outputs == ("z", "which")
    assert scale_add.target == "host"
    assert scale_add.plan.fusion == "scale_add"
    assert repr(scale_add) == "<fusebuild plan scale_add(x, y, alpha, bias) -> z, which on host>"


def test_a_plan_is_called_as_its_signature_says(scale_add: LoadedPlan) -> None:
    assert list(inspect.signature(scale_add).parameters) == ["x", "y", "alpha", "bias", "out", "variant"]
    with pytest.raises(TypeError, match="unexpected keyword argument 'oot'"):
        scale_add(torch.ones(2, 3), torch.ones(2, 3), 1.0, torch.tensor(0.0), oot=None)


def test_copies_of_what_holds_a_plan_share_it(scale_add: LoadedPlan) -> None:
    assert copy.copy(scale_add) is scale_add
    assert copy.deepcopy({"plan": scale_add})["plan"] is scale_add


def test_a_plan_is_not_pickled(scale_add: LoadedPlan) -> None:
    message = f"{scale_add!r} cannot be pickled: load its artifact where it is needed"
    with pytest.raises(TypeError, match=re.escape(message)):
        pickle.dumps(scale_add)


def test_a_plan_that_nobody_holds_is_gone_at_once(open_plan: Any) -> None:
    plan = open_plan(plans.scale_add_plan())
    gone = weakref.ref(plan)
    del plan
    assert gone() is None


def test_segments_run_in_order_with_intermediates_and_scalars(scale_add: LoadedPlan) -> None:
    inputs = scale_add_inputs()
    z, which = scale_add(*inputs)
    assert isinstance(z, torch.Tensor)
    torch.testing.assert_close(z, expected_z(*inputs))
    assert which.tolist() == [4]
    assert which.dtype == torch.int32


def test_free_strides_are_read_from_the_caller(scale_add: LoadedPlan) -> None:
    _, y, alpha, bias = scale_add_inputs()
    for x in (torch.randn(8, 5).t(), torch.randn(10, 24)[::2, ::3], torch.randn(8).expand(5, 8)):
        z, _ = scale_add(x, y, alpha, bias)
        torch.testing.assert_close(z, expected_z(x, y, alpha, bias))


def test_alignment_and_sizes_choose_the_variant(scale_add: LoadedPlan) -> None:
    x, y, alpha, bias = scale_add_inputs()
    shifted = torch.randn(41)[1:].view(5, 8)
    assert scale_add(x, shifted, alpha, bias)[1].tolist() == [1]
    assert scale_add(x, y, alpha, bias)[1].tolist() == [4]
    assert scale_add(*scale_add_inputs(5, 6))[1].tolist() == [1]
    assert scale_add.variants_for(x, y, alpha, bias) == ((0,), (0, 1))
    assert scale_add.variants_for(x, shifted, alpha, bias) == ((0,), (1,))


def test_an_unaligned_out_chooses_another_variant(scale_add: LoadedPlan) -> None:
    inputs = scale_add_inputs()
    out = torch.empty(41)[1:].view(5, 8)
    z, which = scale_add(*inputs, out=(out, None))
    assert z is out
    assert which.tolist() == [1]
    torch.testing.assert_close(out, expected_z(*inputs))


def test_a_variant_can_be_forced(scale_add: LoadedPlan) -> None:
    inputs = scale_add_inputs()
    assert scale_add(*inputs, variant=1)[1].tolist() == [1]
    assert scale_add(*inputs, variant=0)[1].tolist() == [4]


def test_out_is_written_and_returned(scale_add: LoadedPlan) -> None:
    inputs = scale_add_inputs()
    out = (torch.full((5, 8), float("nan")), torch.zeros(1, dtype=torch.int32))
    results = scale_add(*inputs, out=out)
    assert results[0] is out[0]
    assert results[1] is out[1]
    torch.testing.assert_close(out[0], expected_z(*inputs))


def test_a_single_out_is_given_bare_or_in_a_sequence(open_plan: Any) -> None:
    broadcast = open_plan(plans.broadcast_plan())
    x = torch.arange(1.0, 5.0).view(1, 4, 1).expand(1, 4, 3)
    given = torch.zeros(1, 1)
    for out in (given, (given,), [given]):
        given.zero_()
        assert broadcast(x, out=out) is given
        assert given.tolist() == [[2]]
    with pytest.raises(TypeError, match="expected a tensor, got float 3\\.0"):
        broadcast(x, out=3.0)
    with pytest.raises(TypeError, match=r"out: expected 1 tensor \(y\), got 2"):
        broadcast(x, out=(given, given))
    with pytest.raises(ValueError, match=r"expected float\[1, 1\], got float\[2, 1\]"):
        broadcast(x, out=torch.zeros(2, 1))


def test_empty_tensors_launch_nothing(scale_add: LoadedPlan) -> None:
    for shape in ((0, 8), (5, 0), (0, 0)):
        x, y = torch.empty(shape), torch.empty(shape)
        out = torch.full((1,), 9, dtype=torch.int32)
        z, which = scale_add(x, y, 1.0, torch.tensor(0.0), out=(None, out))
        assert z.shape == shape
        assert which.tolist() == [9]


def test_an_output_can_overwrite_an_input(open_plan: Any) -> None:
    increment = open_plan(plans.increment_plan())
    x, v = torch.arange(4.0), torch.zeros(4)
    y, w = increment(x, v)
    assert y is x
    assert x.tolist() == [1, 2, 3, 4]
    assert w.tolist() == [2, 4, 6, 8]
    out = torch.empty(4)
    assert increment(x, v, out=(x, out))[1] is out
    assert x.tolist() == [2, 3, 4, 5]
    assert out.tolist() == [4, 6, 8, 10]


def test_a_launch_that_overlaps_runs_after_the_one_before_it(open_plan: Any) -> None:
    overlapping = open_plan(plans.overlapping_plan())
    for size, added in ((4, 2), (3, 1), (0, 0)):
        x = torch.zeros(size)
        overlapping(x)
        assert x.tolist() == [added] * size


def test_only_launches_that_overlap_say_so() -> None:
    plan = plans.overlapping_plan()
    text = encode(plan)
    assert text.count(b'"overlaps": true') == text.count(b"overlaps") == 1
    assert encode(decode(text)) == text
    (variant,) = decode(text).targets[0].segments[0].variants
    assert [launch.overlaps for launch in variant.launches] == [msgspec.UNSET, True]


def test_the_first_launch_may_overlap_what_is_before_the_plan() -> None:
    launch = plans.launch("increment", TensorArg(1), ExtentArg(-1), overlaps=True)
    values = [plans.tensor(0, "x", ["M"]), plans.tensor(1, "y", ["M"])]
    plan = plans.plan("first", values, [0], [PlanOutput(fid=1, name="y")], [plans.segment(0, [0], [1], launch)])
    assert validate_plan(plan) is None


def test_views_share_memory(open_plan: Any) -> None:
    views = open_plan(plans.views_plan())
    x = torch.arange(6.0).view(2, 3)
    flat, t_transposed, t_flat, u_flat = views(x)
    assert flat.data_ptr() == x.data_ptr()
    assert flat.shape == (6,)
    assert t_transposed.data_ptr() == t_flat.data_ptr()
    assert t_transposed.tolist() == (2 * x).t().tolist()
    assert t_transposed.stride() == (1, 3)
    assert u_flat.tolist() == (4 * x).flatten().tolist()
    out = torch.empty(6)
    assert views(x, out=(None, None, None, out))[3] is out
    assert out.tolist() == (4 * x).flatten().tolist()
    x[0, 0] = 5
    assert flat[0] == 5


def test_results_outlive_the_call_that_made_them(open_plan: Any) -> None:
    kept = [open_plan(plans.views_plan())(torch.full((2, 3), float(i)))[1] for i in range(50)]
    assert [view[0, 0].item() for view in kept] == [2 * i for i in range(50)]


def test_broadcast_dims_have_stride_zero(open_plan: Any) -> None:
    broadcast = open_plan(plans.broadcast_plan())
    x = torch.arange(4.0).view(1, 4, 1).expand(1, 4, 3)
    y = broadcast(x)
    assert y.tolist() == [[0]]
    assert y.shape == (1, 1)
    with pytest.raises(ValueError, match="expected strides") as caught:
        broadcast(torch.zeros(2, 4, 3))
    assert str(caught.value) == (
        "broadcast: argument 0 'x': expected strides (4, 1, 0), got (12, 3, 1) for float[2, 4, 3]"
    )


def test_scalars_arrive_as_their_dtype(open_plan: Any) -> None:
    scalars = open_plan(plans.scalars_plan())
    numbers = (0.1, 0.1, 65519.0, -1.00390625, -(2**62), -7, True)
    data = np.from_dlpack(scalars(*numbers)).tobytes()
    half, brain = torch.tensor(numbers[2]).half(), torch.tensor(numbers[3]).bfloat16()
    expected = struct.pack("<df", 0.1, 0.1)
    expected += b"".join(item.view(torch.int16).numpy().tobytes() for item in (half, brain))
    assert data == expected + struct.pack("<qi?", *numbers[4:])


NUMBERS = [0.0, -0.0, 1.0, 65504.0, 65520.0, -1e9, 6.1e-5, 5.9e-8, 1e-9, 0.33333, 2049.0, 2051.0, np.inf, np.nan]


@pytest.mark.parametrize("value", NUMBERS)
def test_reduced_precision_scalars_round_as_torch_does(open_plan: Any, value: float) -> None:
    scalars = open_plan(plans.scalars_plan())
    data = np.from_dlpack(scalars(0.0, 0.0, value, value, 0, 0, False)).tobytes()
    half = torch.frombuffer(bytearray(data[12:14]), dtype=torch.float16)
    brain = torch.frombuffer(bytearray(data[14:16]), dtype=torch.bfloat16)
    torch.testing.assert_close(half[0], torch.tensor(value).half(), equal_nan=True, rtol=0, atol=0)
    torch.testing.assert_close(brain[0], torch.tensor(value).bfloat16(), equal_nan=True, rtol=0, atol=0)


def test_numpy_arrays_need_no_torch(scale_add: LoadedPlan) -> None:
    x, y = np.arange(40, dtype=np.float32).reshape(5, 8), np.ones((5, 8), dtype=np.float32)
    z, _ = scale_add(x, y, 2, np.array(0.5, dtype=np.float32))
    np.testing.assert_allclose(np.from_dlpack(z), x * 2 + 0.5 + y)


def test_many_threads_share_a_plan(scale_add: LoadedPlan) -> None:
    def work(seed: int) -> bool:
        for m in range(1, 40):
            inputs = (torch.full((m, 8), float(seed)), torch.full((m, 8), float(m)), float(seed), torch.tensor(1.0))
            if not torch.equal(scale_add(*inputs)[0], expected_z(*inputs)):
                return False
        return True

    with ThreadPoolExecutor(16) as pool:
        assert all(pool.map(work, range(16)))


def test_more_shapes_than_the_cache_holds(scale_add: LoadedPlan) -> None:
    bias = torch.tensor(1.0)
    for m in range(4200):
        x = torch.ones(1, 2).expand(m, 2)
        assert scale_add(x, torch.ones(m, 2), 1.0, bias)[0].shape == (m, 2)
    torch.testing.assert_close(scale_add(x, torch.ones(m, 2), 1.0, bias)[0], torch.full((m, 2), 3.0))


# What a call refuses. Every message is exact.

X, Y, BIAS = torch.zeros(5, 8), torch.zeros(5, 8), torch.tensor(0.5)
ONE_NUMBER = "scale_add: argument 2 'alpha': expected a number of dtype float, got "

WRONG_CALLS = [
    ((X, Y, 1.0), TypeError, "scale_add: expected 4 arguments (x, y, alpha, bias), got 3"),
    ((3, Y, 1.0, BIAS), TypeError, "scale_add: argument 0 'x': expected float[M, N], got int 3"),
    ((None, Y, 1.0, BIAS), TypeError, "scale_add: argument 0 'x': expected float[M, N], got None"),
    ((X, "y", 1.0, BIAS), TypeError, "scale_add: argument 1 'y': expected float[M=5, N=8], got a string"),
    ((X.half(), Y, 1.0, BIAS), TypeError, "scale_add: argument 0 'x': expected float[M, N], got half[5, 8]"),
    ((X.to(torch.uint8), Y, 1.0, BIAS), TypeError,
     "scale_add: argument 0 'x': expected float[M, N], got uint8[5, 8]"),
    ((X.to(torch.complex64), Y, 1.0, BIAS), TypeError,
     "scale_add: argument 0 'x': expected float[M, N], got complex64[5, 8]"),
    ((X, Y.bfloat16(), 1.0, BIAS), TypeError,
     "scale_add: argument 1 'y': expected float[M=5, N=8], got bfloat16[5, 8]"),
    ((X[0], Y, 1.0, BIAS), ValueError, "scale_add: argument 0 'x': expected float[M, N], got float[8]"),
    ((X, Y[:4], 1.0, BIAS), ValueError, "scale_add: argument 1 'y': expected float[M=5, N=8], got float[4, 8]"),
    ((X, torch.zeros(8, 5).t(), 1.0, BIAS), ValueError,
     "scale_add: argument 1 'y': expected strides (8, 1), got (1, 5) for float[5, 8]\n  hint: .contiguous() gives a "
     "copy that fits; or declare y with contiguity: [false, false], which takes any strides"),
    ((X, Y, X, BIAS), TypeError, ONE_NUMBER + "float[5, 8]"),
    ((X, Y, None, BIAS), TypeError, ONE_NUMBER + "None"),
    ((X, Y, [1.0], BIAS), TypeError, ONE_NUMBER + "an object of type list"),
    ((X, Y, 2**70, BIAS), ValueError, ONE_NUMBER + "an int of more than 64 bits"),
    ((X, Y, BIAS, BIAS), TypeError,
     ONE_NUMBER + "float[]\n  hint: .item() gives its number; or declare alpha as a tensor, float[]"),
    ((X, Y, 1.0, 0.5), TypeError, "scale_add: argument 3 'bias': expected float[], got float 0.5\n  hint: give a "
     "tensor of it; or declare bias as a scalar"),
    ((X, Y, 1.0, torch.zeros(1)), ValueError, "scale_add: argument 3 'bias': expected float[], got float[1]"),
    ((X[:, :7], Y[:, :7].contiguous(), 1.0, BIAS), ValueError,
     "scale_add: argument 0 'x': N=7 is not a multiple of 2"),
    ((torch.zeros(1, 2000), torch.zeros(1, 2000), 1.0, BIAS), ValueError,
     "scale_add: argument 0 'x': N=2000 is above the maximum of 1024"),
]  # fmt: skip


@pytest.mark.parametrize(("inputs", "error", "message"), WRONG_CALLS, ids=[call[2] for call in WRONG_CALLS])
def test_wrong_inputs(scale_add: LoadedPlan, inputs: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error) as caught:
        scale_add(*inputs)
    assert str(caught.value) == message
    with pytest.raises(error) as caught:
        scale_add.variants_for(*inputs)
    assert str(caught.value) == message


BASE = torch.zeros(200)
WRONG_OUTS = [
    (torch.zeros(5, 8), TypeError, "scale_add: out: expected 2 tensors (z, which), got 1"),
    ((1, None), TypeError, "scale_add: out 0 'z': expected a tensor, got int 1"),
    ((torch.zeros(5, 8).half(), None), TypeError, "scale_add: out 0 'z': expected float[5, 8], got half[5, 8]"),
    ((torch.zeros(5, 9), None), ValueError, "scale_add: out 0 'z': expected float[5, 8], got float[5, 9]"),
    ((None, torch.zeros(2).int()), ValueError, "scale_add: out 1 'which': expected int32[1], got int32[2]"),
    ((torch.zeros(8, 5).t(), None), ValueError, "scale_add: out 0 'z': expected strides (8, 1), got (1, 5)"),
    ((BASE[20:60].view(5, 8), None), ValueError, "scale_add: out 0 'z': overlaps argument 1 'y'"),
    ((BASE[60:100].view(5, 8), BASE[99:100].view(torch.int32)), ValueError,
     "scale_add: out 1 'which': overlaps out 0 'z'"),
]  # fmt: skip


@pytest.mark.parametrize(("out", "error", "message"), WRONG_OUTS, ids=[call[2] for call in WRONG_OUTS])
def test_wrong_out(scale_add: LoadedPlan, out: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error) as caught:
        scale_add(X, BASE[:40].view(5, 8), 1.0, BIAS, out=out)
    assert str(caught.value) == message


def test_wrong_variant(scale_add: LoadedPlan) -> None:
    inputs = scale_add_inputs(5, 6)
    for variant, message in (
        (0, "scale_add: segment 1: variant 0 'wide' does not fit these inputs: its guard is false"),
        (2, "scale_add: variant 2 does not exist: no segment has more than 2"),
        (-1, "scale_add: variant -1 does not exist: no segment has more than 2"),
    ):
        with pytest.raises(ValueError, match="variant") as caught:
            scale_add(*inputs, variant=variant)
        assert str(caught.value) == message
    with pytest.raises(TypeError, match=r"^variant: expected an int, got str$"):
        scale_add(*inputs, variant="wide")  # type: ignore[arg-type]


def test_what_overwrites_an_input_must_not_be_shared(open_plan: Any) -> None:
    increment = open_plan(plans.increment_plan())
    x = torch.zeros(6)
    with pytest.raises(ValueError, match="overlaps") as caught:
        increment(x[:4], x[2:])
    assert str(caught.value) == ("increment: argument 1 'v': overlaps argument 0 'x', which output 'y' overwrites")
    with pytest.raises(ValueError, match="overwrites") as caught:
        increment(x[:2], x[2:4], out=(x[4:], None))
    assert str(caught.value) == "increment: out 0 'y': this output overwrites argument 0 'x': give that tensor or None"


@pytest.mark.parametrize(
    "another",
    [
        lambda x: x[:3],
        lambda x: x.view(torch.int32),
        lambda x: x[:, None],
        lambda x: x.as_strided((4,), (0,)),
        lambda x: x.clone(),
    ],
)
def test_what_overwrites_an_input_is_that_tensor(open_plan: Any, another: Any) -> None:
    increment, x, v = open_plan(plans.increment_plan()), torch.zeros(4), torch.zeros(4)
    for _ in range(2):
        with pytest.raises(
            ValueError, match=r"^increment: out 0 'y': this output overwrites argument 0 'x': give that"
        ):
            increment(x, v, out=(another(x), None))
        assert not x.any()
        alike = x.view(4)
        assert increment(x, v, out=(alike, None))[0] is alike
        x.zero_()


def test_views_cannot_be_given(open_plan: Any) -> None:
    views = open_plan(plans.views_plan())
    x, flat = torch.zeros(2, 3), torch.zeros(6)
    with pytest.raises(ValueError, match="flat") as caught:
        views(x, out=(flat, None, None, None))
    assert str(caught.value) == "views: out 0 'flat': this output shares the memory of argument 0 'x': give None"
    with pytest.raises(ValueError, match="t_flat") as caught:
        views(x, out=(None, None, flat, None))
    assert str(caught.value) == "views: out 2 't_flat': this output shares its memory with another output: give None"


@pytest.mark.parametrize(
    ("position", "value", "error", "got"),
    [
        (0, "1", TypeError, "expected a number of dtype double, got a string"),
        (4, 1.0, TypeError, "expected a number of dtype int64, got float 1.0"),
        (4, -3e22, TypeError, "expected a number of dtype int64, got float -3e+22"),
        (4, 16777217.25, TypeError, "expected a number of dtype int64, got float 16777217.25"),
        (4, float("nan"), TypeError, "expected a number of dtype int64, got float nan"),
        (4, 2**63, ValueError, "expected a number of dtype int64, got an int of more than 64 bits"),
        (5, 2**31, ValueError, "expected a number of dtype int32, got int 2147483648"),
        (6, 1, TypeError, "expected a number of dtype bool, got int 1"),
    ],
)
def test_wrong_scalars(open_plan: Any, position: int, value: Any, error: type[Exception], got: str) -> None:
    numbers: list[Any] = [0.0, 0.0, 0.0, 0.0, 0, 0, False]
    numbers[position] = value
    scalars = open_plan(plans.scalars_plan())
    with pytest.raises(error) as caught:
        scalars(*numbers)
    assert str(caught.value) == f"scalars: argument {position} '{scalars.inputs[position]}': {got}"


def test_grids_that_are_too_large_are_refused(open_plan: Any) -> None:
    broadcast = open_plan(plans.broadcast_plan(grid=("mul", "M", 2**31)))
    x = torch.zeros(1, 4, 1).expand(1, 4, 3)
    with pytest.raises(ValueError, match="grid") as caught:
        broadcast(x)
    assert str(caught.value) == (
        "broadcast: kernel twice: grid (2147483648, 1, 1) exceeds the largest, (2147483647, 65535, 65535)"
    )


def test_a_kernel_that_fails_is_an_error(open_plan: Any) -> None:
    broadcast = open_plan(plans.broadcast_plan(kernel="fail"))
    with pytest.raises(RuntimeError, match=r"^broadcast: kernel fail: failed with code 7$"):
        broadcast(torch.zeros(1, 4, 1).expand(1, 4, 3))


def test_a_promise_of_equal_sizes_holds_across_dims_and_formulas(open_plan: Any) -> None:
    values = [plans.tensor(0, "x", ["M", "M"]), plans.tensor(1, "y", [("mul", 2, "M")]), plans.tensor(2, "z", ["M"])]
    outputs = [PlanOutput(fid=2, name="z")]
    twice = plans.launch("twice", TensorArg(2), TensorArg(1), ExtentArg(-1))
    square = open_plan(plans.plan("square", values, [0, 1], outputs, [plans.segment(0, [0, 1], [2], twice)]))
    assert square(torch.zeros(2, 2), torch.arange(4.0)).tolist() == [0, 2]
    for x, y, message in (
        (torch.zeros(2, 3), torch.zeros(4), "square: argument 0 'x': expected float[M=2, M=2], got float[2, 3]"),
        (torch.zeros(2, 2), torch.zeros(5), "square: argument 1 'y': dim 0 is 2*M = 4, got 5"),
    ):
        with pytest.raises(ValueError, match="square") as caught:
            square(x, y)
        assert str(caught.value) == message


# Loading.


def test_a_file_is_opened_by_its_path(objects: dict[str, bytes], tmp_path: Path) -> None:
    path = tmp_path / "scale_add.fuse"
    kernels = ("add_narrow", "add_wide", "scale")
    write_artifact(
        path,
        plan=plans.scale_add_plan(),
        recipe=b"fusion: scale_add\n",
        kernels={name: plans.KERNELS[name] for name in kernels},
        objects={("host", name): objects[name] for name in kernels},
        toolchain={},
        sources={},
    )
    inputs = scale_add_inputs()
    torch.testing.assert_close(fusebuild.load(path, target="host")(*inputs)[0], expected_z(*inputs))
    with pytest.raises(ArtifactError, match="it cannot be read: No such file or directory"):
        fusebuild.load(tmp_path / "other.fuse", target="host")


def test_what_has_no_code_for_a_target_says_what_it_has() -> None:
    artifact = plans.HandMadeArtifact(path=Path("a.fuse"), plan=plans.scale_add_plan(), objects={})
    with pytest.raises(ArtifactError) as caught:
        load_artifact(artifact, target="sm_90")
    assert str(caught.value) == "a.fuse: it has no code for sm_90, only for host"
    with pytest.raises(ArtifactError) as caught:
        load_artifact(artifact, target="hosst")
    assert str(caught.value) == "a.fuse: it has no code for hosst, only for host; did you mean 'host'?"


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_the_host_must_be_asked_for() -> None:
    artifact = plans.HandMadeArtifact(path=Path("a.fuse"), plan=plans.scale_add_plan(), objects={})
    with pytest.raises(ArtifactError) as caught:
        load_artifact(artifact)
    assert str(caught.value).startswith("a.fuse: no GPU to run on (the CUDA driver ")
    assert str(caught.value).endswith("; it has code for host; target='host' runs it on the CPU")


def test_the_greatest_architecture_that_runs_is_taken() -> None:
    names = ["sm_80", "sm_86", "sm_90", "sm_120", "host"]
    assert best_target(names, 90) == "sm_90"
    assert best_target(names, 89) == "sm_86"
    assert best_target(names, 121) == "sm_120"
    assert best_target(names, 100) is None
    assert best_target(["sm_90"], 80) is None
    assert best_target(["sm_103"], 100) is None


def test_a_broken_object_is_an_artifact_error(objects: dict[str, bytes]) -> None:
    plan = plans.broadcast_plan()
    artifact = plans.HandMadeArtifact(path=Path("a.fuse"), plan=plan, objects={"twice": objects["scale"]})
    with pytest.raises(ArtifactError) as caught:
        load_artifact(artifact, target="host")
    assert str(caught.value) == (
        "a.fuse: broadcast: kernel twice: the shared object has no symbol fusebuild_host3_twice"
    )
    artifact = plans.HandMadeArtifact(path=Path("a.fuse"), plan=plan, objects={"twice": b"not an object"})
    with pytest.raises(ArtifactError, match="kernel twice: the shared object cannot be loaded: "):
        load_artifact(artifact, target="host")


def test_a_plan_that_names_what_is_not_there_is_refused(objects: dict[str, bytes]) -> None:
    plan = plans.broadcast_plan()
    (target,) = plan.targets
    (segment,) = target.segments
    (variant,) = segment.variants
    for args, message in (
        ((TensorArg(9),), "targets[0].segments[0].variants[0].launches[0].args[0][1]: no value has fid 9"),
        ((ScalarArg(0),), "targets[0].segments[0].variants[0].launches[0].args[0][1]: expected a scalar input"),
        ((FormulaArg("K"),), "plan: no input has a dim of size 'K', so its size is not known"),
        ((WorkspaceArg(0),), "targets[0].segments[0].variants[0].launches[0].args[0][1]: no slot has id 0"),
    ):
        launch = plans.launch("twice", *args)
        variants = (msgspec.structs.replace(variant, launches=(launch,)),)
        segments = (msgspec.structs.replace(segment, variants=variants),)
        broken = msgspec.structs.replace(plan, targets=(msgspec.structs.replace(target, segments=segments),))
        artifact = plans.HandMadeArtifact(path=Path("a.fuse"), plan=broken, objects=objects)
        with pytest.raises(ArtifactError) as caught:
            load_artifact(artifact, target="host")
        assert str(caught.value) == f"a.fuse: {message}"


def test_importing_fusebuild_imports_nothing_heavy() -> None:
    code = (
        "import sys, fusebuild; heavy = {'torch', 'tvm_ffi', 'numpy', 'jinja2', 'yaml', 'networkx', 'msgspec'};"
        "import fusebuild.errors; print(sorted(heavy & set(sys.modules)));"
        "import fusebuild.runtime.loader; print(sorted((heavy - {'msgspec'}) & set(sys.modules)))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == "[]\n[]\n"
