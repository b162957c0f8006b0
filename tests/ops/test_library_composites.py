"""The composites of the library: each gives what torch's function of its name gives, in as few kernels as can be."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from fusebuild.definition import DataType, FusionDefinition  # noqa: E402
from fusebuild.errors import RecipeError  # noqa: E402
from fusebuild.ir.fusion import Fusion  # noqa: E402
from fusebuild.ops.library import LIBRARY  # noqa: E402
from fusebuild.oracle.reference import evaluate, random_inputs  # noqa: E402
from fusebuild.pipeline import compile_recipes, plan_recipe  # noqa: E402
from fusebuild.recipe.recipe import Recipe, parse_recipe  # noqa: E402
from fusebuild.runtime.loader import load  # noqa: E402
from fusebuild.target.table import TARGETS  # noqa: E402

OUR_OWN: dict[str, Callable[..., Any]] = {
    "swiglu": lambda gate, up: torch.nn.functional.silu(gate) * up,
    "geglu": lambda gate, up, approximate="none": torch.nn.functional.gelu(gate, approximate=approximate) * up,
    "view": lambda input, shape: input.reshape(shape),
}
"""What composites give that torch has no function for."""

CALLS = [
    *(f"{name}(x: T[M, N])" for name in [
        "gelu", "softplus", "mish", "elu", "celu", "selu", "relu6", "hardtanh", "hardsigmoid", "hardswish",
        "leaky_relu", "logsigmoid", "softsign", "tanhshrink", "softshrink", "hardshrink", "normalize", "square",
        "std", "std_mean",
    ]),
    "gelu(x: T[M, N], approximate='tanh')", "gelu(x: T[M], approximate='none')",
    "softplus(x: T[M, N], beta=2.5, threshold=1.0)", "softplus(x: T[M], 0.5)", "elu(x: T[N], alpha=0.3)",
    "celu(x: T[M, N], alpha=0.7)", "hardtanh(x: T[M, N], -0.25, 0.5)", "leaky_relu(x: T[M, N], negative_slope=0.2)",
    "prelu(x: T[M, N], w: T[1])", "prelu(x: T[M, N], w: T[N])", "prelu(x: T[M, 3, N], w: T[3])",
    "softshrink(x: T[M, N], 0.1)", "hardshrink(x: T[M, N], lambd=1.0)",
    "glu(x: T[M, 8])", "glu(x: T[6, M, N], dim=0)", "swiglu(a: T[M, N], b: T[M, N])", "geglu(a: T[M, N], b: T[N])",
    "geglu(a: T[M, N], b: T[M, N], approximate='tanh')",
    *(f"{name}(x: T[M, N], {dim})" for name in ["softmax", "softmin", "log_softmax"]
      for dim in ["1", "dim=0", "dim=-1"]),
    "softmax(x: T[M, 3, N], dim=1)", "log_softmax(x: T[N], dim=0)",
    "layer_norm(x: T[M, N], [N])", "layer_norm(x: T[M, N], [N], w: T[N], b: T[N], 0.001)",
    "layer_norm(x: T[M, 3, N], normalized_shape=[3, N], bias=b: T[3, N])", 
    "layer_norm(x: T[M, N], [M, N], weight=None)",
    "rms_norm(x: T[M, N], [N])", "rms_norm(x: T[M, 2, N], [2, N], weight=w: T[2, N], eps=0.01)",
    "group_norm(x: T[M, 6, N], 3)", "group_norm(x: T[M, 6, N, 2], 2, w: T[6], b: T[6], eps=0.1)",
    "instance_norm(x: T[M, 3, 5])", "instance_norm(x: T[M, 3, 2, N], weight=w: T[3], bias=b: T[3])",
    "instance_norm(x: T[M, 3, N], w: T[3], v: U[3], use_input_stats=False)",
    "normalize(x: T[M, N], p=1, dim=0)", "normalize(x: T[M, N], dim=-1, eps=0.5)",
    "cosine_similarity(a: T[M, N], b: T[M, N])", "cosine_similarity(a: T[M, N], b: T[M, N], dim=0, eps=3.0)",
    "std(x: T[M, N], dim=[1], correction=0)", "std(x: T[M, N], dim=[0, 1], keepdim=True)",
    "std_mean(x: T[M, N], dim=[0], correction=0)",
    "amax(x: T[M, N], [1], keepdim=True)", "amin(x: T[M, N], 0)",
    *(f"{name}(x: T[M, N], t: T[M, N]{more})" for name in ["l1_loss", "mse_loss", "smooth_l1_loss", "huber_loss"]
      for more in ["", ", reduction='sum'", ", reduction='none'"]),
    "smooth_l1_loss(x: T[M, N], t: T[M, N], beta=0.3)", "huber_loss(x: T[M, N], t: T[M, N], delta=0.7)",
    "binary_cross_entropy(u: U[M, N], t: U[M, N])", "binary_cross_entropy(u: U[M, N], t: U[M, N], w: T[N])",
    "binary_cross_entropy(t: B[M, N], u: U[M, N], reduction='none')",
    "binary_cross_entropy_with_logits(x: T[M, N], t: U[M, N])",
    "binary_cross_entropy_with_logits(x: T[M, N], t: U[M, N], w: T[M, N], pos_weight=p: U[N], reduction='sum')",
    "kl_div(x: T[M, N], t: U[M, N])", "kl_div(x: T[M, N], t: B[M, N], reduction='batchmean')",
    "kl_div(x: T[M, N], t: T[M, N], reduction='sum', log_target=True)",
    *(f"{name}(x: T[M, 7], t: C[M]{more})" for name in ["nll_loss", "cross_entropy"]
      for more in ["", ", reduction='none'", ", reduction='sum'", ", weight=w: U[7]", ", ignore_index=2",
                   ", weight=w: U[7], ignore_index=1, reduction='none'"]),
    "nll_loss(x: T[M, 7, N], t: C[M, N])", "cross_entropy(x: T[M, 7, N, 2], t: C[M, N, 2], w: U[7])",
    "cross_entropy(x: T[M, 7], t: C[M], label_smoothing=0.1)", "cross_entropy(x: T[7], t: C[])", 
    "nll_loss(x: T[7], t: C[])",
    "cross_entropy(x: T[M, 7], t: C[M], w: U[7], label_smoothing=0.3, ignore_index=3)",
    "cross_entropy(x: T[M, 7], t: U[M, 7])", "cross_entropy(x: T[M, 7, N], t: U[M, 7, N], reduction='none')",
    "cross_entropy(x: T[M, 7], t: U[M, 7], weight=w: U[7], label_smoothing=0.2)",
    *(f"unsqueeze(x: T[M, N], {dim})" for dim in [0, 1, 2, -1]),
    "flatten(x: T[M, 2, 3])", "flatten(x: T[M, 2, 3], 1)", "flatten(x: T[M, 2, N], start_dim=0, end_dim=1)",
    "flatten(x: T[])", "view(x: T[M, 8], [M, 2, 4])",
    "transpose(x: T[M, N], 0, 1)", "transpose(x: T[M, 2, N], dim0=-1, dim1=0)",
    "chunk(x: T[M, 9], 3, 1)", "chunk(x: T[M, 10], 3, dim=-1)", "chunk(x: T[8, N], chunks=2)",
    "narrow(x: T[M, 9], 1, 2, 5)", "narrow(x: T[6, N], dim=0, start=0, length=6)",
    "stack([a: T[M, N], b: T[M, N]])", "stack([a: T[M, N], b: T[M, N], a], dim=-1)",
    "flip(x: T[M, N], [0])", "flip(x: T[M, N], dims=[0, -1])",
    "roll(x: T[M, N], [3], [1])", "roll(x: T[M, N], [-1, 2], dims=[0, 1])",
    "masked_fill(x: T[M, N], m: bool[M, N], 3.5)", "masked_fill(x: T[M, N], m: bool[N], -inf)",
    "one_hot(t: C[M], 7)", "one_hot(t: C[M, N], num_classes=9)",
    "addcdiv(x: T[M, N], a: T[M, N], b: U[N], value=0.5)", "addcdiv(x: T[M, N], a: T[M, N], b: U[M, N])",
    "clamp_min(x: T[M, N], 0.25)", "clamp_max(x: T[M, N], max=-0.5)", "logaddexp(a: T[M, N], b: T[N])",
]  # fmt: skip
"""Calls with the types of their tensors: ``T`` is a floating dtype, ``U`` the same with numbers above 0 and below 1,
``B`` with 0 and 1, ``C`` int64 below 7."""

_TENSOR = re.compile(r"(\w+): ([TUBC]|bool)\[([^\]]*)\]")
SIZES = [1, 2, 3, 5, 8, 17, 33]


def recipe_of(call: str, dtype: str, cases: str = "") -> Recipe:
    """The recipe of ``call`` alone."""
    names = {"T": dtype, "U": dtype, "B": dtype, "C": "int64", "bool": "bool"}
    inputs = {name: f"{names[kind]}[{shape}]" for name, kind, shape in _TENSOR.findall(call)}
    results = results_of(call)
    lines = ["fusion: f", "inputs:", *(f'  {name}: "{type_}"' for name, type_ in inputs.items()), "body: |",
             f"  {', '.join(results)} = {bare(call)}",
             "outputs:", *(f"  {name}:" for name in results)]  # fmt: skip
    return parse_recipe("\n".join(lines) + f"\n{cases}", "f.yaml")


def bare(call: str) -> str:
    return _TENSOR.sub(r"\1", call)


def results_of(call: str) -> list[str]:
    if call.startswith("std_mean"):
        return ["y0", "y1"]
    count = re.search(r"chunk\(.*?\], (?:chunks=)?(\d)", call)
    return [f"y{place}" for place in range(int(count[1]) if count else 1)]


def torch_function(name: str) -> Callable[..., Any]:
    return OUR_OWN.get(name) or getattr(torch.nn.functional, name, None) or getattr(torch, name)


def operands_of(call: str, fusion: Fusion, extents: dict[str, int], seed: int) -> list[Any]:
    """Operands as the letters of their types ask for, among them large and small ones."""
    generator = torch.Generator().manual_seed(seed)
    kinds = [kind for _, kind, _ in _TENSOR.findall(call)]
    found = []
    inputs: list[Any] = [*random_inputs(fusion, extents, seed=seed)]
    for kind, each in zip(kinds, inputs, strict=True):
        if kind == "C":
            each = torch.randint(0, 7, each.shape, generator=generator)
        elif kind == "U":
            each = torch.empty(each.shape).uniform_(0.05, 0.95, generator=generator).to(each.dtype)
        elif kind == "B":
            each = torch.randint(0, 2, each.shape, generator=generator).to(each.dtype)
        elif kind == "T":
            each = each * torch.tensor([1.0, 4.0, 16.0, 30.0])[seed % 4].to(each.dtype)
        found.append(each)
    return found


def wanted(call: str, operands: list[Any], extents: dict[str, int]) -> list[Any]:
    """What torch gives, of half and bfloat16 in float."""
    names = [name for name, _, _ in _TENSOR.findall(call)]
    narrow = (torch.float16, torch.bfloat16)
    wide = [each.float() if each.dtype in narrow else each for each in operands]
    name = call.partition("(")[0]
    known = {name: torch_function(name), **dict(zip(names, wide, strict=True)), **extents, "inf": torch.inf}
    results = eval(bare(call), {}, known)
    return list(results) if isinstance(results, tuple | list) else [results]


@pytest.mark.parametrize("dtype", ["float", "double", "half", "bfloat16"])
@pytest.mark.parametrize("call", CALLS)
def test_a_composite_gives_what_torch_gives(call: str, dtype: str) -> None:
    fusion = recipe_of(call, dtype).fusion
    drawn = random.Random(f"{call} {dtype}")
    for seed in range(4):
        extents = {"M": drawn.choice(SIZES), "N": drawn.choice(SIZES)}
        if "instance_norm" in call or call.startswith("std"):  # torch refuses, or warns of, one element
            extents = {name: max(size, 2) for name, size in extents.items()}
        operands = operands_of(call, fusion, extents, seed)
        got = evaluate(fusion, operands, given=extents)
        tolerance = 1e-10 if dtype == "double" else 2e-5
        for ours, theirs in zip(got, wanted(call, operands, extents), strict=True):
            assert ours.shape == theirs.shape
            assert ours.is_floating_point() == theirs.is_floating_point()
            torch.testing.assert_close(ours.double(), theirs.double(), rtol=tolerance, atol=tolerance, equal_nan=True)


@pytest.mark.parametrize("name", LIBRARY)
def test_every_composite_is_compared(name: str) -> None:
    assert any(call.startswith(f"{name}(") for call in CALLS)


LOSS_OF_PLACES = "nll_loss(x: T[M, 7, N], t: C[M, N])"
"""A loss whose one kernel sums what is found and counts it."""
SCHEDULERS = {
    # Columns of 4096 elements fit no block: one sweep finds the statistics, another reads them.
    "softmax(x: T[M, N], dim=0)": ["reduction", "pointwise"],
    "softmin(x: T[M, N], dim=0)": ["reduction", "pointwise"],
    "log_softmax(x: T[M, N], dim=0)": ["reduction", "pointwise"],
    "softmax(x: T[M, 3, N], dim=1)": ["reduction", "pointwise"],
    "normalize(x: T[M, N], p=1, dim=0)": ["reduction", "pointwise"],
    # The whole tensor is one row.
    "log_softmax(x: T[N], dim=0)": ["reduction", "pointwise"],
    "layer_norm(x: T[M, N], [M, N], weight=None)": ["reduction", "pointwise"],
    # The losses of rows first, then their mean or sum.
    **{call: ["reduction", "reduction"] for call in CALLS
       if re.match("(nll_loss|cross_entropy).*\\bM\\b", call) and "none" not in call and call != LOSS_OF_PLACES},
    "cross_entropy(x: T[M, 7], t: C[M], label_smoothing=0.1)": ["inner_persistent", "reduction"],
    "cross_entropy(x: T[M, 7], t: C[M], w: U[7], label_smoothing=0.3, ignore_index=3)":
        ["inner_persistent", "reduction"],
    "cross_entropy(x: T[M, 7], t: U[M, 7])": ["inner_persistent", "reduction"],
    "cross_entropy(x: T[M, 7], t: U[M, 7], weight=w: U[7], label_smoothing=0.2)": ["inner_persistent", "reduction"],
    # Classes that are no row: their statistics, then the sum of what they give.
    "cross_entropy(x: T[M, 7, N], t: U[M, 7, N], reduction='none')": ["reduction", "reduction"],
    # Parts of two lengths, parts without an element moved, and places that are found twice.
    "chunk(x: T[M, 10], 3, dim=-1)": ["pointwise", "pointwise"],
    "flip(x: T[M, N], dims=[0, -1])": ["pointwise", "pointwise"],
    "roll(x: T[M, N], [-1, 2], dims=[0, 1])": ["pointwise", "pointwise"],
}  # fmt: skip
"""Which schedulers a call takes that is more than one segment, at 4096 for each symbol."""


@pytest.mark.parametrize("call", CALLS)
def test_a_composite_is_one_segment_where_it_can_be(call: str) -> None:
    both = {"M", "N"} <= {*re.findall(r"\b[MN]\b", call)}
    recipe = recipe_of(call, "float", "cases: [{M: 4096, N: 4096}]\n" if both else "")
    segments = plan_recipe(recipe, [TARGETS["sm_90"]]).plan.targets[0].segments
    if call in SCHEDULERS:
        assert [segment.scheduler for segment in segments] == SCHEDULERS[call]
    else:
        assert len(segments) == 1


def message(call: str, dtype: str = "float") -> str:
    with pytest.raises(RecipeError) as caught:
        recipe_of(call, dtype)
    (found,) = caught.value.diagnostics
    return f"{found.message} | {found.hint}"


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("softmax(x: T[M, N])", "softmax needs the argument 'dim' | the signature is softmax(input, dim, dtype=None)"),
        ("softmax(x: T[M, N], axis=1)", "softmax has no argument 'axis' | did you mean 'dim'?"),
        ("softmax(x: T[M, N], 2)",
         "softmax: dim 2 is out of range for a tensor of rank 2 | valid dims are -2 to 1"),
        ("stack([1.0, x: T[M]])", "stack: tensors must be a tensor, not a scalar | "),
        ("gelu(x: T[M], approximate='fast')", "gelu: approximate is 'fast' | it is 'none' or 'tanh'"),
        ("gelu(x: T[M], approximate=tanh)", "gelu: approximate must be a text | for example approximate='none'"),
        ("mse_loss(x: T[M], x, reduction='avg')", "mse_loss: reduction is 'avg' | it is 'mean', 'sum' or 'none'"),
        ("layer_norm(x: T[M, N], [M])",
         "layer_norm: normalized_shape is [M], and input is [M, N] | it names the last dims of input"),
        ("group_norm(x: T[M, 6, N], 4)", "group_norm: dim 1 cannot be seen to have 4 groups | "),
        ("group_norm(x: T[M, N, 6], 2)",
         "group_norm: dim 1 cannot be seen to have 2 groups | write the channels as a number in the shape of input"),
        ("roll(x: T[M, N], [1], [0, 1])", "roll: 1 shifts for 2 dims | "),
        ("chunk(x: T[M, N], 2000)", "chunk: chunks is 2000, not 1 to 1000 | "),
        ("chunk(x: T[M, N], 2.5)", "chunk: chunks must be an integer | "),
        ("rms_norm(x: T[M, N], [N], w: T[M, 3])", 
         "rms_norm: shapes do not broadcast: dim 1 is N in one operand and 3 in another | extents must be the same "
         "symbol, the same number, or the constant 1"),
        ("normalize(x: T[M, N], 3)", "normalize: p is 3, not 1 or 2 | "),
    ],
)  # fmt: skip
def test_what_a_composite_does_not_take(call: str, said: str) -> None:
    assert message(call) == said


def test_results_have_to_have_names() -> None:
    text = "fusion: f\ninputs: {x: 'float[M, 8]'}\nbody: |\n  y = exp(chunk(x, 2, 1))\noutputs: {y: }\n"
    with pytest.raises(RecipeError, match=r"chunk gives 2 results\n.*\n.*\n  hint: give each a name: 'a, b = chunk"):
        parse_recipe(text, "f.yaml")


def test_a_call_is_seen_as_a_composite_inside_of_a_composite() -> None:
    text = (
        "fusion: f\ninputs: {x: 'half[M, N]'}\ncomposites:\n  ours:\n    inputs: [x]\n    body: |\n"
        "      z = softmax(gelu(x), dim=1)\n    results: [z]\nbody: |\n  y = ours(x)\noutputs: {y: half}\n"
    )
    fusion = parse_recipe(text, "f.yaml").fusion
    assert [(each.name, each.parent) for each in fusion.composites] == [("ours", None), ("gelu", 0), ("softmax", 0)]


def test_a_composite_of_the_recipe_hides_that_of_the_library() -> None:
    text = (
        "fusion: f\ninputs: {x: 'float[M]'}\ncomposites:\n  mish: {inputs: [x], body: y = sin(x), results: [y]}\n"
        "body: |\n  y = mish(x)\noutputs: {y: }\n"
    ).replace("body: y = sin(x),", "body: 'y = sin(x)',")
    assert [expr.op for expr in parse_recipe(text, "f.yaml").fusion.exprs] == ["sin"]


def test_a_definition_calls_them_as_ops() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor(shape=[-1, -1], dtype=DataType.Half)
        y = fd.ops.log_softmax(x, dim=1)
        halves = fd.ops.chunk(y, chunks=2, dim=1)
        loss = fd.ops.mse_loss(fd.ops.gelu(x, approximate="tanh"), y, reduction="none")
        fd.add_output(fd.ops.cast(loss, DataType.Half))
        fd.add_output(halves[1])
    x = torch.randn(3, 10).half()
    fusion = fd.fusion
    assert [each.name for each in fusion.composites] == ["log_softmax", "chunk", "gelu", "mse_loss"]
    assert {expr.location.short.partition(":")[0] for expr in fusion.exprs} == {"test_library_composites.py"}
    loss, half = evaluate(fusion, [x])
    y = torch.log_softmax(x.float(), 1)
    torch.testing.assert_close(half, y[:, 5:])
    gelu = torch.nn.functional.gelu(x.float(), approximate="tanh")
    torch.testing.assert_close(loss, ((gelu - y) ** 2).half())


@pytest.mark.parametrize("call", ["softmax(x: T[M, N], 1)", "softmax(x: T[M, 3, N], 1)", "softmax(x: T[M, N], 0)",
                                  "log_softmax(x: T[M, 3, N], 1)", "log_softmax(x: T[M, N], -1)"])  # fmt: skip
@pytest.mark.parametrize("special", [float("inf"), float("-inf"), float("nan"), 3e38, -3e38])
def test_softmax_of_special_numbers_is_torch_s(call: str, special: float) -> None:
    fusion, extents = recipe_of(call, "float").fusion, {"M": 4, "N": 6}
    (x,) = operands_of(call, fusion, extents, 0)
    x.flatten()[7] = special
    (got,) = evaluate(fusion, [x], given=extents)
    (want,) = wanted(call, [x], extents)
    torch.testing.assert_close(got, want, rtol=2e-5, atol=2e-5, equal_nan=True)


ON_THE_HOST = """\
fusion: library
inputs:
  x: half[M, N]
  weight: half[N]
  target: {type: "int64[M]", range: [0, N]}
body: |
  a = softmax(x, dim=-1)
  b = log_softmax(x, 1)
  c = layer_norm(x, [N], weight)
  d = rms_norm(x, [N])
  e = gelu(x, approximate='tanh')
  f = mish(x)
  g = cross_entropy(x, target, reduction='none')
  h = normalize(x)
  i = roll(x, [2], [1])
  j = smooth_l1_loss(x, e, beta=0.5)
outputs: {a: half, b: , c: , d: , e: half, f: , g: , h: , i: , j: }
"""


def test_host_kernels_give_what_torch_gives(tmp_path: Any) -> None:
    functions = torch.nn.functional
    (tmp_path / "library.yaml").write_text(ON_THE_HOST)
    compile_recipes([tmp_path / "library.yaml"], [TARGETS["host"]], tmp_path / "build")
    plan = load(tmp_path / "build" / "library.fuse", target="host")
    drawn = random.Random(3)
    for seed in range(6):
        m, n = drawn.choice(SIZES), drawn.choice([*SIZES, 130, 1000])
        generator = torch.Generator().manual_seed(seed)
        x = (torch.randn(m, n, generator=generator) * drawn.choice([1, 8, 64])).half()
        weight, target = torch.rand(n, generator=generator).half(), torch.randint(0, n, (m,), generator=generator)
        wide = x.float()
        gelu = functions.gelu(wide, approximate="tanh")
        want = [
            functions.softmax(wide, -1).half(),
            functions.log_softmax(wide, 1),
            functions.layer_norm(wide, [n], weight.float()),
            functions.rms_norm(wide, [n]),
            gelu.half(),
            functions.mish(wide),
            functions.cross_entropy(wide, target, reduction="none"),
            functions.normalize(wide),
            torch.roll(x, [2], [1]),
            functions.smooth_l1_loss(wide, gelu, beta=0.5),
        ]
        for ours, theirs in zip(plan(x, weight, target), want, strict=True):
            tolerance = 1e-3 if theirs.dtype is torch.float16 else 3e-5
            torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=tolerance)
