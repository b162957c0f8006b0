"""A plan is called as its author named things: inputs by name, a signature and a docstring of their names, results of
torch's even where only numbers go in; and what a call refuses is said in the caller's own words."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fusebuild import DataType, FusionDefinition
from fusebuild.runtime.loader import LoadedPlan, load
from fusebuild.runtime.signature import words_for
from support.host_artifacts import compile_for_host

torch = pytest.importorskip("torch")

AFFINE = """\
fusion: affine
inputs:
  x: float[M, N]
  weight: float[N]
  bias: float[N]
scalars:
  eps: double
body: |
  y = x * weight + bias + eps
outputs:
  y: float
"""

ODD = """\
fusion: odd
inputs:
  call: float[N]
  out: float[N]
  input_0: float[N]
body: |
  y = call - out * input_0
  more = call * 2.0
outputs:
  y: float
  more: float
"""
"""Inputs called as what is in the function that is written for the plan, and as an option of every call."""

FILLED = """\
fusion: filled
scalars:
  level: double
  seed: int64
body: |
  y = full([3, 5], level)
  noise = uniform(0.0, 1.0, [4], seed, 7)
outputs:
  y: float
  noise: float
"""

CONSTANT = """\
fusion: constant
body: |
  y = full([3], 2.0)
outputs:
  y: float
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    texts = {"affine": AFFINE, "odd": ODD, "filled": FILLED, "constant": CONSTANT}
    return compile_for_host(tmp_path_factory.mktemp("named"), texts)


@pytest.fixture
def affine(built: Path) -> LoadedPlan:
    return load(built / "affine.fuse", target="host")


X, WEIGHT, BIAS = torch.randn(4, 8), torch.randn(8), torch.randn(8)
Y = X * WEIGHT + BIAS + 0.5


def test_inputs_are_given_by_name_and_by_place(affine: LoadedPlan) -> None:
    for _ in range(3):  # shapes that are new, and known ones
        for made in (
            affine(X, WEIGHT, BIAS, 0.5),
            affine(X, WEIGHT, BIAS, eps=0.5),
            affine(X, eps=0.5, bias=BIAS, weight=WEIGHT),
            affine(eps=0.5, bias=BIAS, weight=WEIGHT, x=X),
            affine(X, WEIGHT, bias=BIAS, eps=0.5, variant=0),
        ):
            torch.testing.assert_close(made, Y)
        out = torch.empty(4, 8)
        assert affine(bias=BIAS, weight=WEIGHT, x=X, out=out, eps=0.5) is out
        torch.testing.assert_close(out, Y)


MISSING = "affine: expected 4 arguments (x, weight, bias, eps), got "
REFUSED: list[tuple[Callable[[Any], Any], str]] = [
    (lambda plan: plan(X, WEIGHT, BIAS), MISSING + "3"),
    (lambda plan: plan(x=X), MISSING + "1"),
    (lambda plan: plan(weight=WEIGHT), MISSING + "none for x, bias, eps"),
    (lambda plan: plan(X, bias=BIAS, eps=0.5), MISSING + "none for weight"),
    (lambda plan: plan(X, bias=BIAS, eps=0.5, out=torch.empty(4, 8)), MISSING + "none for weight"),
    (lambda plan: plan(weight=WEIGHT, bias=BIAS, eps=0.5, out=[torch.empty(4, 8)]), MISSING + "none for x"),
    (lambda plan: plan(weight=WEIGHT, bias=BIAS, eps=0.5, variant=0), MISSING + "none for x"),
    (lambda plan: plan(X, WEIGHT, BIAS, 0.5, 1.0), MISSING + "5"),
    (lambda plan: plan(X, WEIGHT, BIAS, 0.5, x=X), "affine() got multiple values for argument 'x'"),
    (lambda plan: plan(X, WEIGHT, BIAS, 0.5, wieght=X), "affine() got an unexpected keyword argument 'wieght'"),
    (lambda plan: plan(X, WEIGHT, BIAS, 0.5, input_0=X), "affine() got an unexpected keyword argument 'input_0'"),
]


@pytest.mark.parametrize(("call", "message"), REFUSED, ids=[str(index) for index in range(len(REFUSED))])
def test_what_does_not_fit_is_said_alike_whatever_was_called(
    affine: LoadedPlan, call: Callable[[Any], Any], message: str
) -> None:
    for _ in range(2):
        with pytest.raises(TypeError) as caught:
            call(affine)
        assert str(caught.value) == message
        assert caught.value.__suppress_context__ or caught.value.__context__ is None
        affine(X, WEIGHT, BIAS, 0.5)


def test_words_of_a_call_stay_its_own_whatever_inputs_are_called(built: Path) -> None:
    odd = load(built / "odd.fuse", target="host")
    a, b, c = torch.randn(3, 4)
    for _ in range(2):
        for made in (odd(a, b, c), odd(a, b, input_0=c)):
            torch.testing.assert_close(made, (a - b * c, 2 * a))
        given = torch.empty(4), torch.empty(4)
        assert odd(a, b, c, out=given)[0] is given[0]
    with pytest.raises(TypeError, match=r"got none for out$"):
        odd(call=a, input_0=c)
    assert str(inspect.signature(odd)) == (
        "(call: 'float[N]', argument_1: 'float[N]', /, input_0: 'float[N]', *, out=None, variant=None)"
        " -> '(float[N], float[N])'"
    )


def test_a_name_twice_or_of_no_word_has_a_place() -> None:
    assert words_for(["x", "x", "a b", "lambda", "variant", "y"]) == (
        "x", "argument 1", "argument 2", "argument 3", "argument 4", "y",
    )  # fmt: skip


def test_a_plan_has_a_signature_and_a_docstring(affine: LoadedPlan, built: Path) -> None:
    assert str(inspect.signature(affine)) == (
        "(x: 'float[M, N]', weight: 'float[N]', bias: 'float[N]', eps: 'double', *, out=None, variant=None)"
        " -> 'float[M, N]'"
    )
    bound = inspect.signature(affine).bind(X, WEIGHT, eps=0.5, bias=BIAS)
    torch.testing.assert_close(affine(*bound.args, **bound.kwargs), Y)
    assert affine.__doc__ == (
        "affine, on host.\n\nTakes, by place or by name:\n\n    x: float[M, N]\n    weight: float[N]\n"
        "    bias: float[N]\n    eps: double\n\nReturns:\n\n    y: float[M, N]\n\n"
        "``out`` is the tensor, or a tuple of one for each, to write to. All else is in the docstring of its type.\n"
    )
    assert "Takes, by place or by name:\n\n    nothing\n" in str(load(built / "constant.fuse", target="host").__doc__)


def test_a_call_by_place_runs_the_code_that_names_do_not_change(affine: LoadedPlan, built: Path) -> None:
    filled, odd = load(built / "filled.fuse", target="host"), load(built / "odd.fuse", target="host")
    codes = [plan.func.__code__ for plan in (affine, filled, odd)]
    assert [code.co_varnames[: code.co_argcount] for code in codes] == [
        ("x", "weight", "bias", "eps"), ("level", "seed"), ("call", "argument 1", "input_0"),
    ]  # fmt: skip
    again = load(built / "affine.fuse", target="host")
    assert again.func.__code__.co_code == affine.func.__code__.co_code


def test_numbers_alone_give_torchs_tensors(built: Path) -> None:
    filled = load(built / "filled.fuse", target="host")
    for _ in range(3):
        y, noise = filled(2.5, seed=3)
        assert type(y) is type(noise) is torch.Tensor
        torch.testing.assert_close(y, torch.full((3, 5), 2.5))
        y.untyped_storage().resize_(0)  # as only memory of torch's own can be
    given = torch.empty(3, 5)
    made = filled(1.0, 3, out=(given, None))
    assert made[0] is given
    torch.testing.assert_close(made[1], noise)
    assert type(load(built / "constant.fuse", target="host")()) is torch.Tensor
    with pytest.raises(TypeError, match=r"^filled: argument 0 .level.: expected a number of dtype double, got a str"):
        filled("1", 3)


def test_a_definition_of_numbers_alone_does_too(empty_store: Path) -> None:
    with FusionDefinition() as fd:
        level = fd.define_scalar(None, dtype=DataType.Double)
        fd.add_output(fd.ops.full([2, 3], level, DataType.Float))
    (made,) = fd.execute([1.5])
    assert type(made) is torch.Tensor
    torch.testing.assert_close(made, torch.full((2, 3), 1.5))


NUMBER = "affine: argument 3 'eps': expected a number of dtype double, got "
STRIDED = "affine: argument 0 'x': expected strides (8, 1), got "


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"x": [[1.0]]}, "affine: argument 0 'x': expected float[M, N], got an object of type list"),
        ({"x": (X, X)}, "affine: argument 0 'x': expected float[M, N], got an object of type tuple"),
        ({"weight": {}}, "affine: argument 1 'weight': expected float[N=8], got an object of type dict"),
        ({"x": X.shape}, "affine: argument 0 'x': expected float[M, N], got an object of type torch.Size"),
        ({"x": object()}, "affine: argument 0 'x': expected float[M, N], got an object of type object"),
        ({"eps": 1j}, NUMBER + "an object of type complex"),
        ({"eps": [0.5]}, NUMBER + "an object of type list"),
        ({"out": [[X]]}, "affine: out 0 'y': expected a tensor, got an object of type list"),
        ({"out": {}}, "affine: out 0 'y': expected a tensor, got an object of type dict"),
        ({"eps": torch.tensor(0.5)},
         NUMBER + "float[]\n  hint: .item() gives its number; or declare eps as a tensor, float[]"),
        ({"eps": torch.ones(1, 1)},
         NUMBER + "float[1, 1]\n  hint: .item() gives its number; or declare eps as a tensor, float[1, 1]"),
        ({"eps": torch.ones(2)}, NUMBER + "float[2]"),
        ({"x": torch.randn(8, 4).t()},
         STRIDED + "(1, 4) for float[4, 8]\n  hint: .contiguous() gives a copy that fits; or declare x with "
         "contiguity: [false, false], which takes any strides"),
    ],
)  # fmt: skip
def test_messages_say_what_the_caller_gave(affine: LoadedPlan, arguments: dict[str, Any], message: str) -> None:
    for _ in range(2):
        with pytest.raises((TypeError, ValueError)) as caught:
            affine(**{"x": X, "weight": WEIGHT, "bias": BIAS, "eps": 0.5, **arguments})
        assert str(caught.value) == message
        affine(X, WEIGHT, BIAS, 0.5)


def test_so_do_those_of_variants_for(affine: LoadedPlan) -> None:
    with pytest.raises(TypeError, match=r"expected float\[M, N\], got an object of type list$"):
        affine.variants_for([1.0], WEIGHT, BIAS, 0.5)
