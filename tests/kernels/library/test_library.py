"""Matrix products by a library: which tasks are calls, the plans of calls, and what the runtime computes.

On a GPU (``pytest -m gpu``) the same products run through cuBLASLt; elsewhere a stand-in for it (``native/``) checks
how it is called.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fusebuild.artifact.plan import BatchDim, LibraryCall, Plan, decode, encode
from fusebuild.artifact.plan_check import validate_plan
from fusebuild.errors import ArtifactError, ScheduleError
from fusebuild.ir.formula import Formula
from fusebuild.ir.fusion import Task
from fusebuild.ir.text import print_fusion
from fusebuild.kernels.common.spec import Rejection
from fusebuild.kernels.families import FAMILIES, first_accepting
from fusebuild.oracle.bounds import compare
from fusebuild.oracle.reference import evaluate_fp64, random_inputs
from fusebuild.passes import run_passes
from fusebuild.report.inspection import Inspection
from fusebuild.runtime.loader import LoadedPlan, _matrix_libraries, load_artifact
from support.products import (
    DTYPES,
    HOST,
    SM_90,
    call_of,
    compared,
    device_target,
    fusion_of,
    loaded,
    plan_of,
    recipe_text,
)
from support.runtime_plans import HandMadeArtifact
from support.small_recipes import recipe_of, text_of

torch = pytest.importorskip("torch")


def refusal(text: str) -> str:
    """Why no scheduler takes the only expr of ``text``."""
    with pytest.raises(ScheduleError) as caught:
        plan_of(text)
    return caught.value.diagnostics[0].message


def refused(task: Task) -> tuple[Rejection, ...]:
    """Why no scheduler takes ``task``."""
    rejections = first_accepting(task, SM_90)
    assert isinstance(rejections, tuple)
    return rejections


# Scheduling.


class TestScheduling:
    TWO = text_of(
        {"x": "half[M, K]", "weight": "half[N, K]"}, "t = linear(x, weight)\ny = relu(t)", {"t": "half", "y": "half"}
    )

    STRIDED = text_of(
        {"x": '{type: "float[M, K]", contiguity: [false, true]}', "weight": "float[N, K]"},
        "t = linear(x, weight)\ny = linear(x, weight) + t",
        {"y": "float"},
    )

    def test_a_call_alone_is_taken_by_the_library_only(self) -> None:
        task = Task(fusion=fusion_of(self.TWO), exprs=(0,))
        accepted = first_accepting(task, SM_90)
        assert not isinstance(accepted, tuple)
        assert accepted.name == "library"
        assert [each.name for each in FAMILIES if each.accepts(task, SM_90) is None] == ["library"]

    def test_no_kernel_takes_a_call_with_what_follows_it(self) -> None:
        fusion = fusion_of(self.TWO)
        reasons = {each.name: str(each.accepts(Task(fusion=fusion, exprs=(0, 1)), SM_90)) for each in FAMILIES}
        assert reasons == {
            "alias": "alias: linear computes (test.yaml:6)",
            "transpose": "transpose: linear is a library call (test.yaml:6)",
            "pointwise": "pointwise: linear is a library call (test.yaml:6)",
            "reduction": "reduction: linear is a library call (test.yaml:6)",
            "inner_persistent": "inner_persistent: linear is a library call (test.yaml:6)",
            "outer_persistent": "outer_persistent: linear is a library call (test.yaml:6)",
            "inner_outer_persistent": "inner_outer_persistent: linear is a library call (test.yaml:6)",
            "storing_reduction": "storing_reduction: linear is a library call (test.yaml:6)",
            "repeating_pointwise": "repeating_pointwise: linear is a library call (test.yaml:6)",
            "scan": "scan: linear is a library call (test.yaml:6)",
            "scatter": "scatter: t is not scattered (test.yaml:6)",
            "order": "order: there is no sort (test.yaml:6)",
            "library": "library: linear is a library call, a segment of its own (test.yaml:6)",
        }

    def test_a_permuted_operand_is_read_as_it_lies(self) -> None:
        text = recipe_text({"q": "B, H, S, D", "k": "B, H, T, D"}, "q @ permute(k, [0, 1, 3, 2])", "bfloat16")
        call = call_of(text)
        assert (call.transpose_a, call.transpose_b, call.lda, call.ldb) == (msgspec.UNSET, True, *2 * [msgspec.UNSET])
        call = call_of(recipe_text({"a": "M, B, K", "b": "N, B, K"}, "permute(a, [1, 0, 2]) @ permute(b, [1, 2, 0])"))
        assert (call.transpose_a, call.transpose_b) == (msgspec.UNSET, True)
        assert (call.lda, call.ldb) == 2 * (("mul", "B", "K"),)
        assert call.batch == (BatchDim(extent="B", a_stride="K", b_stride="K"),)

    def test_one_permuted_operand_of_several_products_is_no_copy(self) -> None:
        text = text_of(
            {"x": "float[M, K]", "z": "float[M, K]", "w": "float[N, K]"},
            "t = permute(w, [1, 0])\ny = x @ t\nv = z @ t",
            {"y": "float", "v": "float"},
        )
        assert [segment.scheduler for segment in plan_of(text).targets[0].segments] == ["library", "library"]

    def test_batches_that_are_many_steps_are_copied(self) -> None:
        """One call a batch of heads would take longer than the copy."""
        body = "permute(q, [0, 2, 1, 3]) @ permute(k, [0, 2, 3, 1])"
        text = recipe_text({"q": "B, S, H, D", "k": "B, T, H, D"}, body)
        assert [segment.scheduler for segment in plan_of(text).targets[0].segments][-1] == "library"
        assert len(plan_of(text).targets[0].segments) > 1

    def test_the_library_takes_nothing_else(self) -> None:
        task = Task(fusion=fusion_of(self.TWO), exprs=(1,))
        assert [each.name for each in FAMILIES if each.accepts(task, SM_90) is None] == ["pointwise"]
        library = next(each for each in FAMILIES if each.name == "library")
        rejected = library.accepts(task, SM_90)
        assert isinstance(rejected, Rejection)
        assert str(rejected) == "library: there is no library call (test.yaml:7)"

    def test_calls_are_segments_of_their_own(self) -> None:
        segments = plan_of(self.TWO).targets[0].segments
        assert [segment.scheduler for segment in segments] == ["library", "pointwise"]

    def test_strides_known_only_at_run_time_are_refused(self) -> None:
        fusion = recipe_of(self.STRIDED).fusion
        (rejected,) = refused(Task(fusion=fusion, exprs=(0,)))
        assert str(rejected) == "library: x has strides known only at run time (test.yaml:6)"

    def test_passes_let_a_call_read_a_copy_of_what_is_strided(self) -> None:
        fusion = fusion_of(self.STRIDED)
        assert [expr.op for expr in fusion.exprs] == ["segment_set", "linear", "add"]
        assert run_passes(fusion).exprs == fusion.exprs
        segments = plan_of(self.STRIDED).targets[0].segments
        assert [segment.scheduler for segment in segments] == ["pointwise", "library", "pointwise"]

    def test_a_stride_of_0_is_refused_but_along_batches(self) -> None:
        def text(contiguity: str) -> str:
            a = f'{{type: "float[B, M, K]", contiguity: [{contiguity}]}}'
            return text_of({"a": a, "b": "float[B, K, N]"}, "y = a @ b", {"y": "float"})

        problem = "library: a is expanded along a dim that is no batch"
        assert refusal(text("true, null, true")) == f"no scheduler takes matmul ({problem})"
        assert call_of(text("null, true, true")).batch == (
            BatchDim(extent="B", a_stride=0, b_stride=("mul", "K", "N")),
        )

    def test_an_expanded_bias_is_refused(self) -> None:
        bias = '{type: "float[N]", contiguity: [null]}'
        text = text_of(
            {"x": "float[M, K]", "weight": "float[N, K]", "bias": bias}, "y = linear(x, weight, bias)", {"y": "float"}
        )
        problem = "library: bias is expanded along a dim that is no batch"
        assert refusal(text) == f"no scheduler takes linear ({problem})"

    def test_an_operand_cannot_be_overwritten_by_the_product(self) -> None:
        text = text_of(
            {"x": "float[N, N]", "weight": "float[N, N]"},
            "y = linear(x, weight)",
            {"y": "{dtype: float, alias: x}"},
        )
        problem = "library: x is overwritten while linear reads it"
        assert refusal(text) == f"no scheduler takes linear ({problem})"

    def test_another_tensor_can_be_overwritten_when_it_is_contiguous(self) -> None:
        def text(old: str) -> str:
            inputs = {"x": "float[M, K]", "weight": "float[N, K]", "old": old}
            return text_of(inputs, "y = linear(x, weight)\n_ = set(old)", {"y": "{dtype: float, alias: old}"})

        assert validate_plan(plan_of(text("float[M, N]"))) is None
        problem = "library: y overwrites a tensor that is not contiguous"
        strided = '{type: "float[M, N]", contiguity: [false, true]}'
        assert refusal(text(strided)) == f"no scheduler takes linear ({problem})"


# The IR and the front ends.


def test_a_product_prints_and_passes_leave_it_alone() -> None:
    text = recipe_text({"x": "M, K", "weight": "N, K", "bias": "N"}, "linear(x, weight, bias)", "bfloat16")
    assert "%3 y: bfloat16[M, N] = linear(%0, %1, %2)" in print_fusion(recipe_of(text).fusion)
    assert run_passes(recipe_of(text).fusion).exprs == recipe_of(text).fusion.exprs


def test_equal_products_are_computed_once() -> None:
    fusion = fusion_of(recipe_text({"a": "N, N", "b": "N, N"}, "(a @ b) + (a @ b) + (b @ a)"))
    assert [expr.op for expr in fusion.exprs].count("matmul") == 2


def test_a_definition_records_products_and_ties_their_sizes() -> None:
    from fusebuild import FusionDefinition
    from fusebuild.definition import DataType

    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], contiguity=True, dtype=DataType.Half)
        weight = fd.define_tensor([-1, -1], contiguity=True, dtype=DataType.Half)
        bias = fd.define_tensor([-1], contiguity=True, dtype=DataType.Half)
        stack = fd.define_tensor([-1, 1, -1, -1], contiguity=True, dtype=DataType.Half)
        up = fd.ops.linear(x, weight, bias=bias)
        plain = fd.ops.linear(up, weight)
        fd.add_output(fd.ops.matmul(plain, stack))
    shapes = [str(value.type) for value in fd.fusion.tensor_inputs]
    assert shapes == ["half[i0, i1]", "half[i1, i1]", "half[i1]", "half[i2, 1, i1, i3]"]
    assert "    T4 = fd.ops.linear(T0, T1, T2)\n    T5 = fd.ops.linear(T4, T1)\n    T6 = fd.ops.matmul(T5, T3)" in repr(
        fd
    )


# Plans.


@pytest.mark.parametrize(
    ("shapes", "sizes", "batch"),
    [
        (("M, K", "K, N"), ("M", "N", "K"), []),
        (("K", "K"), (1, 1, "K"), []),
        (("K", "K, N"), (1, "N", "K"), []),
        (("M, K", "K"), ("M", 1, "K"), []),
        (("B, M, K", "K, N"), (("mul", "B", "M"), "N", "K"), []),
        (("2, B, 8, 3", "3"), (("mul", 16, "B"), 1, 3), []),
        (("B, M, K", "B, K, N"), ("M", "N", "K"), [("B", ("mul", "M", "K"), ("mul", "K", "N"))]),
        (("M, K", "B, K, N"), ("M", "N", "K"), [("B", 0, ("mul", "K", "N"))]),
        (
            ("B, 1, M, K", "H, K, N"),
            ("M", "N", "K"),
            [("B", ("mul", "M", "K"), 0), ("H", 0, ("mul", "K", "N"))],
        ),
        (("1, 1, 1", "4, 1, 1"), (1, 1, 1), [(4, 0, 1)]),
    ],
)
def test_the_call_of_a_matmul(
    shapes: tuple[str, str], sizes: tuple[Formula, ...], batch: list[tuple[Formula, Formula, Formula]]
) -> None:
    text = recipe_text({"a": shapes[0], "b": shapes[1]}, "matmul(a, b)")
    call = call_of(text)
    assert (call.op, call.dtype, call.a, call.b, call.bias, call.out) == ("matmul", "float", 0, 1, None, 2)
    assert (call.m, call.n, call.k, call.transpose_b) == (*sizes, False)
    assert call.batch == tuple(BatchDim(extent=extent, a_stride=a, b_stride=b) for extent, a, b in batch)
    assert validate_plan(plan_of(text)) is None


def test_the_call_of_a_linear() -> None:
    call = call_of(recipe_text({"bias": "N", "weight": "N, K", "x": "B, T, K"}, "linear(x, weight, bias)", "half"))
    assert call == LibraryCall(
        op="linear", dtype="half", a=2, b=1, bias=0, out=3, transpose_b=True, m=("mul", "B", "T"), n="N", k="K"
    )


def test_a_plan_with_calls_survives_json_and_without_them_does_not_mention_them() -> None:
    plan = plan_of(recipe_text({"a": "B, M, K", "b": "B, K, N"}, "a @ b"))
    assert encode(decode(encode(plan))) == encode(plan)
    assert b'"call"' not in encode(plan_of(recipe_text({"a": "M", "b": "M"}, "a * b")))


def test_inspect_shows_calls() -> None:
    inputs = {"a": "B, 1, M, K", "b": "H, K, N"}
    batched = Inspection(plan=plan_of(recipe_text(inputs, "a @ b")), target="sm_90", sizes=None)
    assert "  calls   matmul in float: %0[M, K] %1[K, N] for each of B*H\n" in batched.as_text()
    inputs = {"x": "M, K", "weight": "N, K", "bias": "N"}
    linear = Inspection(plan=plan_of(recipe_text(inputs, "linear(x, weight, bias)")), target="sm_90", sizes=None)
    assert "  calls   linear in float: %0[M, K] %1[K, N] transposed + %2\n" in linear.as_text()
    assert msgspec.to_builtins(linear.report.segments[0].call) == {
        "op": "linear", "dtype": "float", "a": 0, "b": 1, "bias": 2, "out": 3, "transpose_b": True,
        "m": "M", "n": "N", "k": "K", "batch": (),
    }  # fmt: skip


def with_segment(plan: Plan, **changes: Any) -> Plan:
    """``plan`` with its one segment changed; a dict as ``call`` changes fields of the call."""
    (segment,) = plan.targets[0].segments
    if isinstance(changes.get("call"), dict):
        changes["call"] = msgspec.structs.replace(segment.call, **changes["call"])
    segments = (msgspec.structs.replace(segment, **changes),)
    targets = (msgspec.structs.replace(plan.targets[0], segments=segments),)
    return msgspec.structs.replace(plan, targets=targets)


LINEAR = recipe_text({"x": "M, K", "weight": "N, K", "bias": "N"}, "linear(x, weight, bias)")
BROKEN: list[tuple[dict[str, Any], str]] = [
    ({"a": 9}, "the call of linear: a is fid 9, which is no tensor that this segment reads"),
    ({"bias": 3}, "the call of linear: bias is fid 3, which is no tensor that this segment reads"),
    ({"out": 0}, "the call of linear writes fid 0, but the outputs are [3]"),
    ({"dtype": "half"}, "the call of linear: a is float, in a product of half"),
    ({"m": "Q"}, "the call of linear: symbol 'Q' is no dim of any input"),
    ({"m": ("mul", 2, "M")}, "the call of linear: a is [M*K by 1] in memory, not [2*M*K by 1]"),
    ({"k": "N"}, "the call of linear: a is [M*K by 1] in memory, not [M*N by 1]"),
    ({"transpose_b": False}, "the call of linear: b is [N*K by 1] in memory, not [K*N by 1]"),
    ({"b": 0}, "the call of linear: b is [M*K by 1] in memory, not [N*K by 1]"),
    ({"bias": 0}, "the call of linear: bias is [M*K by 1] in memory, not [N by 1]"),
    ({"transpose_a": True}, "the call of linear: a is [M*K by 1] in memory, not [K*M by 1]"),
    ({"lda": ("mul", 2, "K")}, "the call of linear: a is [M*K by 1] in memory, not [M by 2*K, K by 1]"),
    ({"ldb": "Q"}, "the call of linear: symbol 'Q' is no dim of any input"),
    ({"residual": 9, "beta": 1.0}, "the call of linear: residual is fid 9, which is no tensor that this segment reads"),
    ({"residual": 0, "beta": 1.0}, "the call of linear: residual is [M*K by 1] in memory, not [M*N by 1]"),
    ({"residual": 0}, "the call of linear: a residual and what it is multiplied by, other than 0, come together"),
    ({"beta": 1.0}, "the call of linear: a residual and what it is multiplied by, other than 0, come together"),
    (
        {"batch": (BatchDim(extent=2, a_stride=0, b_stride=0),)},
        "the call of linear: out is [M*N by 1] in memory, not [2*M*N by 1]",
    ),
]


@pytest.mark.parametrize(("changes", "problem"), BROKEN, ids=[problem for _, problem in BROKEN])
def test_a_broken_call_is_refused(changes: dict[str, Any], problem: str) -> None:
    assert validate_plan(with_segment(plan_of(LINEAR), call=changes)) == f"sm_90: segment 0: {problem}"


def test_a_call_is_refused_beside_variants_and_views() -> None:
    plan = plan_of(LINEAR)
    variants = plan_of(recipe_text({"a": "M"}, "a * a")).targets[0].segments[0].variants
    problem = "sm_90: segment 0: it has the call of linear and variants"
    assert validate_plan(with_segment(plan, variants=variants)) == problem
    problem = "sm_90: segment 0: no variant writes fid 3"
    assert validate_plan(with_segment(plan, call=msgspec.UNSET)) == problem


def test_strides_that_a_call_cannot_know_are_refused() -> None:
    plan = plan_of(LINEAR)
    values = (msgspec.structs.replace(plan.values[0], strides=(None, 1)), *plan.values[1:])
    problem = "sm_90: segment 0: the call of linear: a is [M by ?, K by 1] in memory, not [M*K by 1]"
    assert validate_plan(msgspec.structs.replace(plan, values=values)) == problem


# The host backend.


PRODUCTS: list[tuple[dict[str, str], str, dict[str, int]]] = [
    ({"x": "B, T, K", "weight": "N, K", "bias": "N"}, "linear(x, weight, bias)", {"B": 2, "T": 7, "K": 33, "N": 5}),
    ({"x": "M, K", "weight": "N, K"}, "linear(x, weight)", {"M": 65, "K": 129, "N": 31}),
    ({"x": "M, K", "weight": "N, K"}, "linear(x, weight)", {"M": 64, "K": 256, "N": 128}),
    ({"x": "K", "weight": "N, K", "bias": "N"}, "linear(x, weight, bias)", {"K": 40, "N": 24}),
    ({"a": "M, K", "b": "K, N"}, "matmul(a, b)", {"M": 17, "K": 19, "N": 23}),
    ({"a": "K", "b": "K"}, "matmul(a, b)", {"K": 77}),
    ({"a": "K", "b": "B, K, N"}, "matmul(a, b)", {"B": 3, "K": 9, "N": 4}),
    ({"a": "B, M, K", "b": "K"}, "matmul(a, b)", {"B": 3, "M": 4, "K": 9}),
    ({"a": "B, M, K", "b": "B, K, N"}, "matmul(a, b)", {"B": 9, "M": 5, "K": 11, "N": 3}),
    ({"a": "B, 1, M, K", "b": "H, K, N"}, "matmul(a, b)", {"B": 3, "H": 2, "M": 5, "K": 11, "N": 3}),
    ({"a": "B, H, M, K", "b": "H, K, N"}, "matmul(a, b)", {"B": 3, "H": 2, "M": 5, "K": 11, "N": 3}),
    ({"a": "B, 1, H, M, K", "b": "C, 1, K, N"}, "matmul(a, b)", {"B": 2, "C": 3, "H": 2, "M": 4, "K": 5, "N": 3}),
    ({"x": "M, K", "weight": "N, K", "bias": "N"}, "linear(x, weight, bias)", {"M": 9, "K": 0, "N": 5}),
    ({"a": "B, M, K", "b": "B, K, N"}, "matmul(a, b)", {"B": 2, "M": 3, "K": 0, "N": 5}),
    ({"x": "M, K", "weight": "N, K", "bias": "N"}, "linear(x, weight, bias)", {"M": 0, "K": 3, "N": 5}),
    ({"a": "B, M, K", "b": "B, K, N"}, "matmul(a, b)", {"B": 0, "M": 3, "K": 2, "N": 5}),
    ({"a": "K, M", "b": "K, N"}, "matmul(permute(a, [1, 0]), b)", {"M": 5, "K": 19, "N": 8}),
    ({"a": "M, K", "b": "N, K"}, "matmul(a, permute(b, [1, 0]))", {"M": 5, "K": 1, "N": 9}),
    ({"x": "K, M", "w": "K, N"}, "linear(permute(x, [1, 0]), permute(w, [1, 0]))", {"M": 33, "K": 7, "N": 17}),
    ({"q": "B, H, S, D", "k": "B, H, T, D"}, "q @ permute(k, [0, 1, 3, 2])", {"B": 2, "H": 3, "S": 5, "D": 8, "T": 9}),
    (
        {"a": "B, K, M", "b": "B, N, K"},
        "permute(a, [0, 2, 1]) @ permute(b, [0, 2, 1])",
        {"B": 4, "M": 3, "K": 6, "N": 2},
    ),
    (
        {"a": "M, B, K", "b": "N, B, K"},
        "permute(a, [1, 0, 2]) @ permute(b, [1, 2, 0])",
        {"B": 3, "M": 4, "K": 7, "N": 5},
    ),
    ({"q": "B, S, D", "k": "B, T, D"}, "q @ permute(k, [0, 2, 1])", {"B": 2, "S": 5, "D": 0, "T": 9}),
]
"""Operands' shapes, the product, and sizes."""
IDS = [f"{body} {sizes}" for _, body, sizes in PRODUCTS]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("inputs", "body", "sizes"), PRODUCTS, ids=IDS)
def test_the_host_agrees_with_the_oracle(inputs: dict[str, str], body: str, sizes: dict[str, int], dtype: str) -> None:
    assert compared(recipe_text(inputs, body, dtype), sizes, "cpu", "host").ok


def test_the_host_rounds_once() -> None:
    """256 ones and one 1 more: in bfloat16 every further 1 would be lost."""
    product = loaded(recipe_text({"a": "K", "b": "K"}, "a @ b", "bfloat16"))
    ones = torch.ones(300, dtype=torch.bfloat16)
    assert product(ones, ones).item() == 300


@pytest.mark.parametrize("dtype", ["half", "bfloat16"])
def test_the_host_reads_and_writes_every_number(dtype: str) -> None:
    bits = torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16)
    numbers = bits.view(getattr(torch, {"half": "float16"}.get(dtype, dtype)))
    numbers = numbers.reshape(-1, 1)
    got = loaded(recipe_text({"a": "M, 1", "b": "1, 1"}, "a @ b", dtype))(numbers, torch.ones_like(numbers[:1]))
    torch.testing.assert_close(got, numbers, rtol=0, atol=0, equal_nan=True)


def test_a_chain_of_calls_keeps_intermediates_in_the_workspace() -> None:
    text = text_of(
        {"x": "float[M, K]", "up": "float[N, K]", "down": "float[K, N]"},
        "h = linear(x, up)\ny = linear(h, down)",
        {"y": "float"},
    )
    x, up, down = torch.randn(5, 7), torch.randn(11, 7), torch.randn(7, 11)
    torch.testing.assert_close(loaded(text)(x, up, down), x @ up.t() @ down.t())
    assert loaded(text).variants_for(x, up, down) == ((), ())


def test_inner_sizes_that_differ_are_refused() -> None:
    product = loaded(recipe_text({"x": "M, K", "weight": "N, K"}, "linear(x, weight)"))
    with pytest.raises(ValueError, match=r"^test: argument 1 'weight': expected float\[N=5, K=3\], got float\[5, 4\]"):
        product(torch.ones(2, 3), torch.ones(5, 4))


def test_operands_that_are_not_contiguous_are_refused() -> None:
    product = loaded(recipe_text({"x": "M, K", "weight": "N, K"}, "linear(x, weight)"))
    with pytest.raises(ValueError, match=r"^test: argument 0 'x': expected strides \(3, 1\), got \(1, 2\)"):
        product(torch.ones(3, 2).t(), torch.ones(5, 3))


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"dtype": "int64"}, "targets[0].segments[0].call.dtype: expected a floating dtype"),
        ({"dtype": "half"}, "targets[0].segments[0].call.a: expected half, got float"),
        ({"out": 12}, "targets[0].segments[0].call.out: no value has fid 12"),
        ({"residual": 2}, "targets[0].segments[0].call: missing 'beta'"),
        ({"residual": 2, "beta": 0.0}, "targets[0].segments[0].call.beta: a residual times 0 is none"),
    ],
)
def test_the_executor_refuses_what_it_cannot_run(changes: dict[str, Any], problem: str) -> None:
    """Plans are checked before they get here; the executor does not rely on it where it can tell."""
    plan = with_segment(plan_of(LINEAR, HOST), call=changes)
    artifact = HandMadeArtifact(path=Path("test.fuse"), plan=plan, objects={})
    with pytest.raises(ArtifactError) as caught:
        load_artifact(artifact, target="host")
    assert caught.value.reason == problem


# cuBLASLt.


def test_the_loader_finds_what_python_packages_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = [tmp_path / "nvidia" / file for file in ("cu13/lib/libcublasLt.so.13", "cublas/lib/libcublasLt.so.12")]
    for file in files:
        file.parent.mkdir(parents=True)
        file.touch()
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    assert _matrix_libraries(plan_of(LINEAR).targets[0]) == [str(file) for file in files]
    assert _matrix_libraries(plan_of(LINEAR, HOST).targets[0]) == []
    assert _matrix_libraries(plan_of(recipe_text({"a": "M"}, "a * a")).targets[0]) == []


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
class TestGpu:
    @pytest.mark.parametrize("dtype", DTYPES)
    @pytest.mark.parametrize(("inputs", "body", "sizes"), PRODUCTS, ids=IDS)
    def test_the_library_agrees_with_the_oracle(
        self, inputs: dict[str, str], body: str, sizes: dict[str, int], dtype: str
    ) -> None:
        assert compared(recipe_text(inputs, body, dtype), sizes, "cuda", device_target()).ok

    @pytest.mark.parametrize("dtype", DTYPES)
    def test_large_products_agree_with_the_oracle(self, dtype: str) -> None:
        """Float is not rounded to TF32: its bound would not hold."""
        text = recipe_text({"x": "M, K", "weight": "N, K", "bias": "N"}, "linear(x, weight, bias)", dtype)
        for sizes in ({"M": 512, "K": 4096, "N": 768}, {"M": 8, "K": 8192, "N": 8}, {"M": 1, "K": 4095, "N": 511}):
            assert compared(text, sizes, "cuda", device_target()).ok

    @pytest.mark.parametrize("body", ["linear(x, weight)", "linear(x, weight) + bias", "linear(x, weight, bias)"])
    def test_odd_products_agree_with_the_oracle(self, body: str) -> None:
        inputs = {"x": "M, K", "weight": "N, K"} | ({"bias": "N"} if "bias" in body else {})
        text = recipe_text(inputs, body, "float" if "+" in body else "bfloat16")
        for sizes in ({"M": 1001, "K": 4007, "N": 1003}, {"M": 1001, "K": 4008, "N": 1003}):
            assert compared(text, sizes, "cuda", device_target()).ok

    def test_more_products_than_a_grid_has_room_for(self) -> None:
        text = recipe_text({"a": "B, M, K", "b": "B, K, N"}, "a @ b", "bfloat16")
        assert compared(text, {"B": 140_001, "M": 2, "K": 8, "N": 3}, "cuda", device_target()).ok

    @pytest.mark.parametrize("dtype", DTYPES)
    def test_operands_may_start_anywhere(self, dtype: str) -> None:
        text = recipe_text({"x": "M, K", "weight": "N, K", "bias": "N"}, "linear(x, weight, bias)", dtype)
        fusion = recipe_of(text).fusion
        inputs: Sequence[Any] = random_inputs(fusion, {"M": 33, "K": 64, "N": 48}, seed=1, device="cuda")
        moved = [torch.cat([each.flatten()[:1], each.flatten()])[1:].view(each.shape) for each in inputs]
        out = torch.empty(33 * 48 + 1, dtype=inputs[0].dtype, device="cuda")[1:].view(33, 48)
        (want,) = evaluate_fp64(fusion, inputs)
        assert compare(loaded(text, device_target())(*moved, out=out), want, fusion.value(3).dtype).ok

    @pytest.mark.parametrize("dtype", DTYPES)
    def test_results_are_bitwise_equal_from_run_to_run(self, dtype: str) -> None:
        """Few elements and long sums: where a library would split k."""
        text = recipe_text({"x": "M, K", "weight": "N, K"}, "linear(x, weight)", dtype)
        inputs = random_inputs(recipe_of(text).fusion, {"M": 16, "K": 32768, "N": 16}, seed=1, device="cuda")
        product = loaded(text, device_target())
        first = product(*inputs)
        assert all(torch.equal(product(*inputs), first) for _ in range(50))

    def chain(self) -> tuple[LoadedPlan, list[Any], Any]:
        """Two products with an intermediate, their inputs and result."""
        text = text_of(
            {"x": "bfloat16[M, K]", "up": "bfloat16[N, K]", "bias": "bfloat16[N]", "down": "bfloat16[K, N]"},
            "h = linear(x, up, bias)\ny = linear(h, down)",
            {"y": "bfloat16"},
        )
        sizes = {"M": 96, "K": 128, "N": 192}
        inputs: list[Any] = list(random_inputs(recipe_of(text).fusion, sizes, seed=3, device="cuda"))
        plan = loaded(text, device_target())
        return plan, inputs, plan(*inputs)

    def test_calls_are_captured_in_a_graph(self) -> None:
        plan, inputs, want = self.chain()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            captured = plan(*inputs)
        captured.zero_()
        graph.replay()
        assert torch.equal(captured, want)
        inputs[0].copy_(2 * inputs[0])
        graph.replay()
        assert torch.equal(captured, plan(*inputs))

    def test_sums_of_nothing_are_captured_too(self) -> None:
        text = recipe_text({"x": "M, K", "weight": "N, K", "bias": "N"}, "linear(x, weight, bias)", "half")
        plan = loaded(text, device_target())
        inputs = [torch.randn(*shape, device="cuda").half() for shape in ((7, 0), (5, 0), (5,))]
        plan(*inputs)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            captured = plan(*inputs)
        captured.zero_()
        graph.replay()
        assert torch.equal(captured, inputs[2].expand(7, 5))

    def test_many_threads_and_streams(self) -> None:
        plan, inputs, want = self.chain()

        def run(index: int) -> bool:
            stream = torch.cuda.Stream()
            stream.wait_stream(torch.cuda.default_stream())
            with torch.cuda.stream(stream):
                results = [plan(*inputs) for _ in range(20)]
                stream.synchronize()
            return all(torch.equal(result, want) for result in results)

        with ThreadPoolExecutor(8) as pool:
            assert all(pool.map(run, range(16)))
