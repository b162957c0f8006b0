"""Tensors that a call cannot use are refused by name, and those that are merely unusual are not: no memory, no strides,
addresses that are odd, elements that share a place, more elements than 32 bits count. What comes out is torch's own."""

from __future__ import annotations

import inspect
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from fusebuild.artifact.plan import ExtentArg, FormulaArg, Plan, PlanOutput, Slot, TensorArg
from fusebuild.runtime import memory
from fusebuild.runtime.loader import LoadedPlan, load, load_artifact
from support import runtime_plans as plans
from support.host_artifacts import compile_for_host
from support.small_recipes import text_of

torch = pytest.importorskip("torch")
from torch._dynamo.testing import CompileCounter  # noqa: E402

LAST = """
KERNEL(last, "p8p8i8") {
  const int64_t n = arg<int64_t>(args, 2);
  *arg<int64_t*>(args, 0) = n + arg<const unsigned char*>(args, 1)[n - 1];
  return grid[0] == (n + 1023) / 1024 ? 0 : 1;
}"""
"""How many bytes there are, plus the last."""

KERNELS = {name: plans.KERNELS[name] for name in ("scale", "add_wide", "add_narrow", "increment", "twice")}


@pytest.fixture(scope="module")
def open_plan(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., LoadedPlan]:
    """Loads a plan for the host."""
    source = tmp_path_factory.mktemp("kernels") / "all.cc"
    source.write_text(plans.ENTRY + "\n".join([*KERNELS.values(), LAST]))
    subprocess.run(["g++", "-std=c++17", "-O1", "-shared", "-fPIC", "-o", f"{source}.so", source], check=True)
    objects = dict.fromkeys([*KERNELS, "last"], Path(f"{source}.so").read_bytes())
    return lambda plan: load_artifact(
        plans.HandMadeArtifact(path=Path("x.fuse"), plan=plan, objects=objects), target="host"
    )


@pytest.fixture(scope="module")
def scale_add(open_plan: Callable[..., LoadedPlan]) -> LoadedPlan:
    return open_plan(plans.scale_add_plan())


X, Y, BIAS = torch.ones(5, 8), torch.ones(5, 8), torch.tensor(0.5)


def without_memory(shape: tuple[int, ...]) -> Any:
    """A tensor whose storage somebody freed, as sharded training does."""
    tensor = torch.ones(shape)
    tensor.untyped_storage().resize_(0)
    return tensor


def one_byte_on(shape: tuple[int, ...]) -> Any:
    """A tensor of floats that begins one byte after a multiple of 64."""
    memory = np.zeros(64 + 4 * int(np.prod(shape)) + 64, np.uint8)
    start = -memory.ctypes.data % 64 + 1
    return memory[start : start + 4 * int(np.prod(shape))].view(np.float32).reshape(shape)


REFUSED: list[tuple[tuple[Any, ...], Any, str]] = [
    ((without_memory((5, 8)), Y, 1.0, BIAS), None, "argument 0 'x': float[5, 8] has no memory: its address is null"),
    ((X, without_memory((5, 8)), 1.0, BIAS), None, "argument 1 'y': float[5, 8] has no memory: its address is null"),
    ((X, Y, 1.0, without_memory(())), None, "argument 3 'bias': float[] has no memory: its address is null"),
    ((X, Y, 1.0, BIAS), without_memory((5, 8)), "out 0 'z': float[5, 8] has no memory: its address is null"),
    ((one_byte_on((5, 8)), Y, 1.0, BIAS), None,
     "argument 0 'x': expected an address that is a multiple of 4, got one that is 1 more"),
    ((X, Y, 1.0, BIAS), one_byte_on((5, 8)),
     "out 0 'z': expected an address that is a multiple of 4, got one that is 1 more"),
]  # fmt: skip


@pytest.mark.parametrize(("inputs", "out", "message"), REFUSED, ids=[each[2] for each in REFUSED])
def test_addresses_that_are_none(scale_add: LoadedPlan, inputs: tuple[Any, ...], out: Any, message: str) -> None:
    with pytest.raises(ValueError, match="scale_add") as caught:
        scale_add(*inputs, out=None if out is None else (out, None))
    assert str(caught.value) == f"scale_add: {message}"


def read_only(shape: tuple[int, ...]) -> Any:
    array = np.zeros(shape, np.float32)
    array.flags.writeable = False
    return array


NO_STORAGE = "Cannot access data pointer of Tensor that doesn't have storage"
UNREADABLE: list[tuple[Callable[[Any], Any], str]] = [
    (lambda x: x.to("meta"), "torch.Tensor: Cannot pack tensors on meta"),
    (lambda x: x.to_sparse(), f"torch.Tensor: {NO_STORAGE}"),
    (lambda x: x.to_mkldnn(), f"torch.Tensor: {NO_STORAGE}"),
    (lambda x: x.numpy().astype(">f4"), "numpy.ndarray: DLPack only supports native byte order."),
]


@pytest.mark.parametrize(("changed", "reason"), UNREADABLE, ids=[each[1] for each in UNREADABLE])
def test_what_dlpack_cannot_describe_is_named(
    scale_add: LoadedPlan, changed: Callable[[Any], Any], reason: str
) -> None:
    odd = changed(torch.ones(5, 8))
    wanted = f"expected a tensor in memory that DLPack describes, got {reason}"
    for call, name in (
        (lambda: scale_add(odd, Y, 1.0, BIAS), "argument 0 'x'"),
        (lambda: scale_add(X, odd, 1.0, BIAS, variant=0), "argument 1 'y'"),
        (lambda: scale_add.variants_for(X, odd, 1.0, BIAS), "argument 1 'y'"),
        (lambda: scale_add(X, Y, 1.0, BIAS, out=(odd, None)), "out 0 'z'"),
    ):
        with pytest.raises(TypeError) as caught:
            call()
        assert str(caught.value) == f"scale_add: {name}: {wanted}"


def test_a_plan_of_one_output_names_it_too(open_plan: Callable[..., LoadedPlan]) -> None:
    broadcast = open_plan(plans.broadcast_plan())
    x = torch.zeros(1, 4, 1).expand(1, 4, 3)
    for call, name in (
        (lambda: broadcast(x.to("meta")), "argument 0 'x'"),
        (lambda: broadcast(x, out=torch.zeros(1, 1, device="meta")), "out 0 'y'"),
    ):
        with pytest.raises(TypeError) as caught:
            call()
        assert str(caught.value) == (
            f"broadcast: {name}: expected a tensor in memory that DLPack describes, got torch.Tensor: "
            "Cannot pack tensors on meta"
        )


def test_what_only_a_transformation_of_torch_sees_is_named(scale_add: LoadedPlan) -> None:
    for transform in (torch.func.vmap, torch.func.grad):
        with pytest.raises(TypeError) as caught:
            transform(lambda y: scale_add(X, y.view(5, 8), 1.0, BIAS)[0].sum())(torch.ones(1, 5, 8))
        assert str(caught.value) == (
            "scale_add: argument 1 'y': expected a tensor in memory that DLPack describes, got torch.Tensor: "
            + NO_STORAGE
        )


def test_arrays_that_must_not_be_written_are_named(scale_add: LoadedPlan) -> None:
    ones = np.ones((5, 8), np.float32)
    with pytest.raises(TypeError, match=r"argument 0 'x': .*got numpy.ndarray: Cannot export readonly array"):
        scale_add(read_only((5, 8)), ones, 1.0, np.array(0.5, np.float32))


def test_tensors_without_elements_need_no_memory(scale_add: LoadedPlan) -> None:
    z, _ = scale_add(without_memory((0, 8)), without_memory((0, 8)), 1.0, BIAS)
    assert z.shape == (0, 8)


ANYWHERE = '{type: "float[L, M, N]", contiguity: [false, false, false]}'
OVER_X = {"y": "{dtype: float, alias: x}"}
OVERWRITING = {
    "increment": text_of({"x": ANYWHERE}, "y = x + 1.0", OVER_X, name="increment"),
    "add_to": text_of({"x": ANYWHERE, "v": ANYWHERE}, "y = x + v", OVER_X, name="add_to"),
}


@pytest.fixture(scope="module")
def overwriting(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_for_host(tmp_path_factory.mktemp("overwriting"), OVERWRITING)


def test_slices_of_one_tensor_that_lie_between_each_other_are_apart(overwriting: Path) -> None:
    add_to = load(overwriting / "add_to.fuse", target="host")
    packed = torch.randn(6, 3, 2, 8)
    parts = packed.unbind(1)
    pairs = [*zip(parts, (*parts[1:], parts[0]), strict=True), (packed[:, 0, :, :4], packed[:, 2, :, 4:])]
    pairs += [(packed[::2, 0], packed[1::2, 0]), (packed[:, 0, :, ::2], packed[:, 0, :, 1::2])]
    pairs += [(packed[:3, 1], packed[3:, 1]), (packed[:, 0, :1], packed[:, 0, 1:])]
    pairs += [(packed[:, 0], packed[2, 1].expand(6, 2, 8)), (packed[2:3, 1], packed[:1, 0])]
    for x, v in pairs:
        wanted = packed.clone()
        wanted.as_strided(x.shape, x.stride(), x.storage_offset()).add_(v.clone())
        assert add_to(x, v) is x
        assert torch.equal(packed, wanted)


def test_slices_that_share_an_element_are_refused(overwriting: Path) -> None:
    add_to = load(overwriting / "add_to.fuse", target="host")
    packed = torch.zeros(6, 3, 2, 8)
    for x, v in (
        (packed[:, 0, :, :5], packed[:, 0, :, 3:]),
        (packed[:, 0], packed[:, 0]),
        (packed[:4, 1], packed[2:, 1]),
        (packed[:, 1], packed.flatten()[56:72].view(1, 2, 8).expand(6, 2, 8)),
    ):
        with pytest.raises(ValueError, match="add_to") as caught:
            add_to(x, v)
        assert str(caught.value) == "add_to: argument 1 'v': overlaps argument 0 'x', which output 'y' overwrites"


def test_what_overwrites_a_tensor_has_a_place_for_each_element(overwriting: Path) -> None:
    increment = load(overwriting / "increment.fuse", target="host")
    memory = torch.zeros(240)
    for shape, strides in (
        ((4, 1, 8), (0, 0, 1)),
        ((1, 4, 8), (9, 4, 1)),
        ((8, 1, 4), (1, 0, 7)),
        ((3, 5, 4), (12, 4, 2)),
    ):
        with pytest.raises(ValueError, match="increment") as caught:
            increment(memory.as_strided(shape, strides))
        assert str(caught.value) == (
            "increment: argument 0 'x': output 'y' overwrites it, and several of its elements share a place: "
            f"strides {strides} for float{list(shape)}"
        )
    assert not memory.any()
    for shape, strides in (
        ((4, 1, 8), (16, 0, 1)),
        ((2, 3, 4), (1, 2, 6)),
        ((2, 1, 3), (3, 0, 2)),
        ((0, 4, 8), (0, 0, 0)),
    ):
        memory.zero_()
        x = memory.as_strided(shape, strides)
        assert increment(x) is x
        assert memory.sum() == x.numel()


def test_elements_beyond_32_bits_are_counted(open_plan: Callable[..., LoadedPlan], tmp_path: Path) -> None:
    values = [plans.tensor(0, "x", ["N"], "bool"), plans.tensor(1, "y", [1], "int64")]
    launch = plans.launch("last", TensorArg(1), TensorArg(0), ExtentArg(-1), grid=("ceil_div", "N", 1024))
    last = open_plan(
        plans.plan("last", values, [0], [PlanOutput(fid=1, name="y")], [plans.segment(0, [0], [1], launch)])
    )
    size = 2**32 + 5
    x = np.memmap(tmp_path / "holes", np.bool_, "w+", shape=(size,))
    x[-1] = True
    assert np.from_dlpack(last(x)).tolist() == [size + 1]


# What comes out.


def is_torchs_own(tensor: Any) -> bool:
    """Whether torch allocated it: what comes through DLPack cannot be resized."""
    return type(tensor) is torch.Tensor and bool(tensor.untyped_storage().resizable())


def view_plan(shape: list[Any], strides: list[Any]) -> Plan:
    """t = 2x, of which only a view is an output."""
    values = [
        plans.tensor(0, "x", ["M", "N"]),
        plans.tensor(1, "t", ["M", "N"]),
        plans.tensor(2, "view", shape, strides=strides),
    ]
    twice = plans.launch("twice", TensorArg(1), TensorArg(0), FormulaArg(("mul", "M", "N")), grid="M")
    segments = [plans.segment(0, [0], [1], twice), plans.segment(1, [1], [2], views={2: 1})]
    slots = [Slot(id=0, fid=1, bytes=("mul", 4, "M", "N"), first=0, last=1)]
    return plans.plan("viewed", values, [0], [PlanOutput(fid=2, name="view")], segments, slots)


def test_results_are_tensors_of_torchs_own(open_plan: Callable[..., LoadedPlan], scale_add: LoadedPlan) -> None:
    z, which = scale_add(X, Y, 1.0, BIAS)
    assert is_torchs_own(z)
    assert is_torchs_own(which)
    z.untyped_storage().resize_(0)
    pair = open_plan(plans.pair_plan())
    for sizes in ((3, 4), (3, 5), (2, 5), (3, 4)):
        p, q = pair(*(torch.arange(float(size)) for size in sizes))
        assert is_torchs_own(p)
        assert is_torchs_own(q)
        assert (p.tolist(), q.tolist()) == tuple([2.0 * i for i in range(size)] for size in sizes)


def test_so_are_they_beside_a_given_one_and_for_a_parameter(scale_add: LoadedPlan) -> None:
    out = torch.empty(5, 8)
    z, which = scale_add(torch.nn.Parameter(X, requires_grad=False), Y, 1.0, BIAS, out=(out, None), variant=0)
    assert z is out
    assert is_torchs_own(which)
    assert which.tolist() == [4]


@pytest.mark.parametrize(
    ("shape", "strides"),
    [([("mul", "M", "N")], [1]), (["N", "M"], [1, "N"]), (["M", 1, "N"], ["N", 7, 1])],
    ids=["flat", "permuted", "unsqueezed"],
)
def test_so_are_views_of_all_that_a_kernel_writes(
    open_plan: Callable[..., LoadedPlan], shape: list[Any], strides: list[Any]
) -> None:
    plan, x = open_plan(view_plan(shape, strides)), torch.randn(3, 5)
    wanted = {"flat": (2 * x).flatten(), "permuted": (2 * x).t(), "unsqueezed": (2 * x)[:, None]}
    made = plan(x)
    assert is_torchs_own(made)
    assert any(made.shape == each.shape and torch.equal(made, each) for each in wanted.values())
    out = torch.empty_like(made)
    assert plan(x, out=out) is out
    torch.testing.assert_close(out, made)


def test_a_view_of_a_part_is_the_executors(open_plan: Callable[..., LoadedPlan]) -> None:
    plan, x = open_plan(view_plan(["M"], ["N"])), torch.randn(3, 5)
    made = plan(x)
    assert not is_torchs_own(made)
    torch.testing.assert_close(made, 2 * x[:, 0])
    message = "viewed: out 0 'view': this output is a view of a part of a larger tensor: give None"
    with pytest.raises(ValueError, match=re.escape(message)):
        plan(x, out=torch.empty(15)[::5])


def test_arrays_of_others_give_theirs_for_a_shape_that_torchs_had(open_plan: Callable[..., LoadedPlan]) -> None:
    plan = open_plan(plans.broadcast_plan())
    x = torch.ones(5, 4, 1).expand(5, 4, 3)
    assert isinstance(plan(x), torch.Tensor)
    made = plan(x.numpy())
    assert not isinstance(made, torch.Tensor)
    assert np.from_dlpack(made).tolist() == plan(x).tolist()


@pytest.mark.parametrize(("inputs", "out", "message"), REFUSED[:3], ids=[each[2] for each in REFUSED[:3]])
def test_refusals_are_the_same_for_a_shape_that_had_a_call(
    scale_add: LoadedPlan, inputs: tuple[Any, ...], out: Any, message: str
) -> None:
    scale_add(X, Y, 1.0, BIAS)
    with pytest.raises(ValueError, match=re.escape(message)):
        scale_add(*inputs, out=out)


def test_a_new_shape_asks_for_no_more_than_a_known_one(
    open_plan: Callable[..., LoadedPlan], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the call that takes any arguments nor another look at the inputs."""
    monkeypatch.setattr(memory.TorchMemory, "make", lambda *_: pytest.fail("made by the way of unusual calls"))
    plan = open_plan(view_plan(["N", "M"], [1, "N"]))
    for rows in (1, 2, 2, 1, 3):
        x = torch.randn(rows, 5)
        torch.testing.assert_close(plan(x), 2 * x.t())


UNUSUAL: list[tuple[Callable[..., Any], str]] = [
    (lambda plan, x: plan(), "viewed: expected 1 argument (x), got 0"),
    (lambda plan, x: plan(x, x), "viewed: expected 1 argument (x), got 2"),
    (lambda plan, x: plan(x, None), "viewed: expected 1 argument (x), got 2"),
    (lambda plan, x: plan(1.0), "viewed: argument 0 'x': expected float[M, N], got float 1.0"),
    (lambda plan, x: plan([x]), "viewed: argument 0 'x': expected float[M, N], got an object of type list"),
    (lambda plan, x: plan(x.double()), "viewed: argument 0 'x': expected float[M, N], got double[3, 5]"),
    (lambda plan, x: plan(x.to_sparse()), "viewed: argument 0 'x': expected a tensor in memory that DLPack describes"),
    (lambda plan, x: plan(x, out=3), "viewed: out 0 'view': expected a tensor, got int"),
    (lambda plan, x: plan(x, out=[3]), "viewed: out 0 'view': expected a tensor, got int"),
    (lambda plan, x: plan(x, out=()), "viewed: out: expected 1 tensor (view), got 0"),
    (lambda plan, x: plan(x, out=(None, None)), "viewed: out: expected 1 tensor (view), got 2"),
    (lambda plan, x: plan(x, out=x), "viewed: out 0 'view': expected float[5, 3], got float[3, 5]"),
    (lambda plan, x: plan(x, variant=1), "viewed: variant 1 does not exist: no segment has more than 1"),
    (lambda plan, x: plan(x, variant="0"), "variant: expected an int, got str"),
    (lambda plan, x: plan(x, variant=2**70), f"variant {2**70} does not exist"),
    (lambda plan, x: plan(x, to=x), "viewed() got an unexpected keyword argument 'to'"),
    (lambda plan, x: plan(torch.nested.nested_tensor([x])), "viewed: argument 0 'x': expected a tensor in memory that"),
]


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize(("call", "message"), UNUSUAL, ids=[each[1] for each in UNUSUAL])
def test_an_unusual_call_is_refused_alike_before_and_after_a_usual_one(
    open_plan: Callable[..., LoadedPlan], call: Callable[..., Any], message: str
) -> None:
    plan, x = open_plan(view_plan(["N", "M"], [1, "N"])), torch.randn(3, 5)

    def refusal() -> tuple[type, str]:
        with pytest.raises((TypeError, ValueError)) as caught:
            call(plan, x)
        assert caught.value.__suppress_context__ or caught.value.__context__ is None
        return type(caught.value), str(caught.value)

    first = refusal()
    torch.testing.assert_close(plan(x), 2 * x.t())
    assert refusal() == first
    assert message in first[1]


def test_a_usual_call_takes_all_that_an_unusual_one_does(open_plan: Callable[..., LoadedPlan]) -> None:
    plan, pair = open_plan(view_plan(["N", "M"], [1, "N"])), open_plan(plans.pair_plan())
    x, y = torch.randn(3, 5), torch.randn(4)
    for _ in range(3):
        out = torch.empty(5, 3).t().contiguous().t()
        for made in (plan(x), plan(x, variant=0), plan(x, out=(out,)), plan(x, out=[out]), plan(x, out=out)):
            torch.testing.assert_close(made, 2 * x.t())
        assert plan(x, out=out) is out
        p, q = pair(x[0], y)
        torch.testing.assert_close((p, q), (2 * x[0], 2 * y))
        assert pair(x[0], y, out=(None, q))[1] is q
        assert isinstance(pair(x[0], y.numpy())[1], torch.Tensor)
    assert str(inspect.signature(plan)) == "(x: 'float[M, N]', *, out=None, variant=None) -> 'float[N, M]'"


def test_so_does_one_that_overwrites_an_input(open_plan: Callable[..., LoadedPlan]) -> None:
    increment, add_two = open_plan(plans.increment_plan()), open_plan(plans.overlapping_plan())
    x, v, out = torch.zeros(4), torch.zeros(4), torch.empty(4)
    for count in range(1, 4):
        y, w = increment(x, v)
        assert y is x
        assert is_torchs_own(w)
        assert (x.tolist(), w.tolist()) == ([2 * count - 1] * 4, [4 * count - 2] * 4)
        y, w = increment(x, v, out=[None, out])
        assert (y is x, w is out) == (True, True)
        assert (x.tolist(), w.tolist()) == ([2 * count] * 4, [4 * count] * 4)
        for refused, message in (
            (lambda: increment(x), "increment: expected 2 arguments (x, v), got 1"),
            (lambda: increment(x, v, out=out), "increment: out: expected 2 tensors (y, w), got 1"),
            (lambda: increment(x, v, out=(out, None)), "increment: out 0 'y': this output overwrites argument 0 'x'"),
            (lambda: increment(x, x), "increment: argument 1 'v': overlaps argument 0 'x'"),
            (lambda: add_two(x.to_sparse()), "argument 0 'x': expected a tensor in memory that DLPack describes"),
        ):
            with pytest.raises((TypeError, ValueError), match=re.escape(message)):
                refused()
        fresh = torch.zeros(4)
        assert add_two(fresh) is fresh
        assert add_two(fresh, out=fresh) is fresh
        assert add_two(fresh, out=[None]) is fresh
        assert fresh.tolist() == [6] * 4
        assert add_two(numpy := np.zeros(4, "float32")) is numpy
        assert numpy.tolist() == [2] * 4


STRIDED = """
fusion: strided
inputs:
  x: {type: "float[M, N]", contiguity: [false, false]}
  y: {type: "float[M, N]", contiguity: [false, false]}
body: |
  z = x + y
outputs:
  z: float
cases:
  - {M: 2, N: 4}
"""


def test_what_torch_has_yet_to_negate_is_refused(tmp_path: Path, open_plan: Callable[..., LoadedPlan]) -> None:
    strided = load(compile_for_host(tmp_path, {"strided": STRIDED}) / "strided.fuse", target="host")
    x, z = torch.randn(3, 5), torch.randn(3, 5, dtype=torch.complex64)
    for _ in range(2):
        torch.testing.assert_close(strided(x, z.imag), x + z.imag)
        with pytest.raises(TypeError) as caught:
            strided(x, z.conj().imag)
        assert str(caught.value) == (
            "strided: argument 1 'y': expected a tensor in memory that DLPack describes, got torch.Tensor: torch has "
            "not negated its elements yet; resolve_neg() does"
        )
        torch.testing.assert_close(strided(x, z.conj().imag.resolve_neg()), x - z.imag)
    with pytest.raises(TypeError, match=r"out 0 'view': .* not negated"):
        open_plan(view_plan(["M", "N"], ["N", 1]))(x, out=(torch._neg_view(x),))


SCALED = """\
fusion: scaled
inputs:
  x: float[M, N]
  s: float[]
  t: {dtype: "float[]", cpu: true}
body: |
  y = x * s * t
  total = sum(y, dims=[0, 1])
outputs:
  y: float
  total: float
cases:
  - {M: 2, N: 4}
"""


def negated(*shape: int) -> torch.Tensor:
    """Of one element, which is 3: strides do not show what it lies in."""
    return torch.full(shape, 3 - 3j).conj().imag


def test_so_is_one_element_whatever_was_called_before(tmp_path: Path, open_plan: Callable[..., LoadedPlan]) -> None:
    plan = load(compile_for_host(tmp_path, {"scaled": SCALED}) / "scaled.fuse", target="host")
    x, one = torch.randn(1, 1), torch.tensor(1.0)
    for number, given in enumerate([(negated(1, 1), one, one), (x, negated(), one), (x, one, negated())]):
        for _ in range(3):
            torch.testing.assert_close(plan(x, one, one)[0], x)
            with pytest.raises(TypeError, match=rf"argument {number} '[xst]': .* not negated"):
                plan(*given)
    double = open_plan(view_plan(["M", "N"], ["N", 1]))
    for _ in range(3):
        out = torch.empty(1, 1)
        torch.testing.assert_close(double(x, out=out), 2 * x)
        torch.testing.assert_close(double(x), 2 * x)
        with pytest.raises(TypeError, match=r"argument 0 'x': .* not negated"):
            double(negated(1, 1), out=out)
        with pytest.raises(TypeError, match=r"argument 0 'x': .* not negated"):
            double(negated(1, 1))
        with pytest.raises(TypeError, match=r"out 0 'view': .* not negated"):
            double(x, out=negated(1, 1))


def test_as_an_attribute_of_a_class_it_is_no_method(open_plan: Callable[..., LoadedPlan]) -> None:
    class Model:
        double = open_plan(view_plan(["M", "N"], ["N", 1]))

    x = torch.randn(3, 5)
    assert Model().double is Model.double
    assert Model.double.__get__(Model(), Model) is Model.double
    torch.testing.assert_close(Model().double(x), 2 * x)


@pytest.mark.parametrize("make", [lambda: view_plan(["M", "N"], ["N", 1]), plans.overlapping_plan])
def test_torch_compile_leaves_a_call_alone(open_plan: Callable[..., LoadedPlan], make: Callable[[], Plan]) -> None:
    plan, frames = open_plan(make()), CompileCounter()
    compiled = torch.compile(lambda x: plan(x * 2) + 1, backend=frames, dynamic=True)
    for size in range(5, 25):
        x = torch.randn(3, size) if plan.plan.fusion == "viewed" else torch.randn(size)
        torch.testing.assert_close(compiled(x), plan(x * 2) + 1)
    assert frames.frame_count == 2  # what is before the call, and what is after


def test_no_name_of_a_plan_is_run(open_plan: Callable[..., LoadedPlan]) -> None:
    values = [plans.tensor(0, "x=print('run'), /): #", ["N"]), plans.tensor(1, "y\n    import os", ["N"])]
    twice = plans.launch("twice", TensorArg(1), TensorArg(0), ExtentArg(-1))
    named = plans.plan("named", values, [0], [PlanOutput(fid=1, name="y')")], [plans.segment(0, [0], [1], twice)])
    assert open_plan(named)(torch.ones(3)).tolist() == [2, 2, 2]


class TestDevices:
    """Which of torch's functions makes a result; the GPUs are made up."""

    @pytest.fixture
    def asked(self, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        """Which functions were called, from now on."""
        asked: list[str] = []

        def empty(name: str) -> Callable[..., Any]:
            return lambda shape, strides, dtype, device=None: asked.append(
                name if device is None else f"{name} {device}"
            )

        monkeypatch.setattr(torch._C._dynamo.guards, "_empty_strided_cuda", empty("quick"))
        monkeypatch.setattr(torch._C._dynamo.guards, "_empty_strided_cpu", empty("quick on the CPU"))
        monkeypatch.setattr(torch, "empty_strided", empty("anywhere"))
        monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
        return asked

    @pytest.mark.parametrize(
        ("num_devices", "device", "function"),
        [(0, -1, "quick on the CPU"), (1, 0, "quick"), (2, 1, "quick"), (2, 0, "anywhere cuda:0")],
    )
    def test_a_result_is_where_the_inputs_are(
        self, asked: list[str], num_devices: int, device: int, function: str
    ) -> None:
        like = SimpleNamespace(get_device=lambda: device, device="cpu" if device < 0 else f"cuda:{device}")
        memory._empty_of(num_devices)(like, (2, 3), (3, 1), torch.float32)
        assert asked == [function]

    @pytest.mark.parametrize(("num_devices", "function"), [(0, "quick on the CPU"), (1, "quick"), (2, "quick")])
    def test_one_of_numbers_alone_is_on_the_current_device(
        self, asked: list[str], monkeypatch: pytest.MonkeyPatch, num_devices: int, function: str
    ) -> None:
        values = [plans.scalar(0, "a", "float"), plans.tensor(1, "y", [3])]
        numbers = plans.plan("numbers", values, [0], [PlanOutput(fid=1, name="y")], [])
        for name in (function, f"anywhere {'cuda' if num_devices else 'cpu'}"):
            made = memory.torch_memory(numbers, numbers.targets[0], lambda *inputs: None, num_devices)
            assert made is not None
            made.make([1.0], [None])
            assert asked.pop() == name
            for quick in ("_empty_strided_cuda", "_empty_strided_cpu"):
                monkeypatch.delattr(torch._C._dynamo.guards, quick, raising=False)

    @pytest.mark.parametrize(("num_devices", "device"), [(0, "cpu"), (1, "cuda:0")])
    def test_a_torch_without_the_quick_functions_needs_none(
        self, asked: list[str], monkeypatch: pytest.MonkeyPatch, num_devices: int, device: str
    ) -> None:
        monkeypatch.delattr(torch._C._dynamo.guards, "_empty_strided_cuda")
        monkeypatch.delattr(torch._C._dynamo.guards, "_empty_strided_cpu")
        memory._empty_of(num_devices)(SimpleNamespace(device=device), (2,), (1,), torch.float32)
        assert asked == [f"anywhere {device}"]
