"""Calls in the body of a recipe: names of dims, sizes as arguments, and what is said of a line that is refused."""

from __future__ import annotations

import pytest

from fusebuild.errors import RecipeError
from fusebuild.ir.formula import show
from fusebuild.ir.fusion import Fusion
from fusebuild.ir.text import print_fusion
from support.small_recipes import recipe_of, text_of


def fusion(expression: str) -> Fusion:
    """``y``, which is ``expression`` of a matrix ``x``."""
    return recipe_of(text_of({"x": "float[M, N]"}, f"y = {expression}", {"y": ""})).fusion


@pytest.mark.parametrize(
    ("expression", "spelled"),
    [
        ("sum(x, dim=1)", "sum(x, dims=[1])"),
        ("mean(x, dim=[0, 1], keepdim=True)", "mean(x, dims=[0, 1], keepdim=True)"),
        ("std(x, dim=0)", "std(x, dims=[0])"),
        ("softmax(x, dims=[-1])", "softmax(x, dim=-1)"),
        ("softmax(x, dims=1)", "softmax(x, dim=1)"),
        ("softmax(x, dim=[1])", "softmax(x, 1)"),
        ("cumsum(x, dims=0)", "cumsum(x, dim=0)"),
    ],
)
def test_dim_and_dims_are_one_word(expression: str, spelled: str) -> None:
    assert print_fusion(fusion(expression)) == print_fusion(fusion(spelled))


def test_dim_is_given_once_and_is_one() -> None:
    for expression, message in (
        ("sum(x, dim=1, dims=[0])", "the argument 'dims' is given twice"),
        ("softmax(x, 1, dims=0)", "the argument 'dim' is given twice"),
        ("softmax(x, dims=[0, 1])", "softmax: dim must be an integer"),
    ):
        with pytest.raises(RecipeError) as caught:
            fusion(expression)
        assert [each.message for each in caught.value.diagnostics] == [message]


@pytest.mark.parametrize("line", ["z = one_hot(ids, E, 3)", "z = sum(x[0], 1)", "z = nothing(x, ids, size(E))"])
def test_what_a_refused_line_reads_or_assigns_is_no_other_mistake(line: str) -> None:
    inputs = {"x": "float[M, N]", "ids": "int64[M]", "like": "float[E]"}
    body = f"y = x + 1.0\n{line}\nw = full([E], 1.0)\nv = take(x, ids, 0)"
    with pytest.raises(RecipeError) as caught:
        recipe_of(text_of(inputs, body, {"y": "float", "w": "float", "v": "float"}))
    (only,) = caught.value.diagnostics
    assert only.location.text.strip() == line


def test_composites_of_the_library_take_sizes() -> None:
    inputs = {"x": "float[M, N]", "ids": "int64[M]", "like": "float[E]"}
    body = "h = one_hot(ids, E + 1)\nn = narrow(x, 1, N // 2, N - N // 2)"
    found = recipe_of(text_of(inputs, body, {"h": "int64", "n": "float"})).fusion
    assert [show(found.value(fid).tensor.shape[1]) for fid in found.output_fids] == ["E + 1", "N - (N // 2)"]
