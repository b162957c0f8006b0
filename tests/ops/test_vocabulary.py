"""Hints for names of torch and nvFuser: each piece of advice can be recorded, and says what it is said to say."""

from __future__ import annotations

import re

import pytest

from fusebuild.errors import RecipeError
from fusebuild.ops.library import LIBRARY
from fusebuild.ops.table import OPS
from fusebuild.ops.vocabulary import ANNOTATED, MISSING, SAYINGS, meant, written
from fusebuild.recipe.recipe import parse_recipe
from support.places import ROOT


@pytest.mark.parametrize("name", SAYINGS)
def test_what_to_write_can_be_recorded(name: str) -> None:
    inputs = {tensor: re.sub(r"^T\b", "half", type_) for tensor, type_ in ANNOTATED.findall(SAYINGS[name])}
    named = "".join(f'  {tensor}: "{type_}"\n' for tensor, type_ in inputs.items())
    body = f"  out = {written(SAYINGS[name])}\n  other = exp(sizes)\n"
    text = f"fusion: f\ninputs:\n  sizes: half[M, N]\n{named}body: |\n{body}outputs:\n  out:\n  other:\n"
    parse_recipe(text, "f.yaml")


@pytest.mark.parametrize("name", [*SAYINGS, *MISSING])
def test_what_there_is_needs_no_advice(name: str) -> None:
    assert name not in OPS
    assert name not in LIBRARY


def test_what_is_missing_names_what_is_there() -> None:
    for text in {*MISSING.values()}:
        for path in re.findall(r"recipes/\w+\.yaml", text):
            assert (ROOT / path).is_file()
        for op in re.findall(r"(\w+)\(", text):
            assert op in OPS or op in LIBRARY


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("rsqr", "did you mean 'rsqrt'?"),
        ("softmax_", "did you mean 'softmax'?"),
        ("rsqrt_", "did you mean 'rsqrt'?"),
        ("LayerNorm", "did you mean 'layer_norm'?"),
        ("GELU", "did you mean 'gelu'?"),
        ("ReLU6", "did you mean 'relu6'?"),
        ("HuberLoss", "did you mean 'huber_loss'?"),
        ("split", "write narrow(x, dim=1, start=0, length=8)"),
        ("type_as", "write cast(x, bfloat16)"),
        ("repeat", "write cat([x, x], dim=1)"),
        ("einsum", "write matmul(x, y)"),
        ("scatter_add_", "did you mean 'scatter_add'?"),
        ("bincount", "write index_put_accumulate(full([8], 0), x, 1)"),
        ("scatter_reduce",
         "places that an index names get the last update (scatter) or the sum of all (scatter_add), and nothing else"),
        ("searchsorted", "write sum(unsqueeze(x, 1) > edges, dims=[1])"),
        ("isclose", ""),
        ("segment_reduce", ""),
        ("zzzz", ""),
    ],
)  # fmt: skip
def test_a_hint_knows_the_name(name: str, hint: str) -> None:
    assert meant(name) == hint


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("F.gelu(x)", "only ops can be called, by their bare names | write gelu(…)"),
        ("x.unsqueeze(1)", "only ops can be called, by their bare names | write unsqueeze(…)"),
        ("torch.topk(x, 3)", "only ops can be called, by their bare names | write topk(…)"),
        ("torch.unique(x)", "only ops can be called, by their bare names | "
         "sizes of results depend on sizes alone; sort puts equal elements side by side"),
        ("zeros(x)", "unknown op 'zeros' | write full([M, N], 0.0)"),
        ("dropout(x, 0.1)",
         "dropout needs the argument 'rng_seed' | the signature is dropout(x, p, rng_seed, rng_offset=0)"),
    ],
)  # fmt: skip
def test_a_body_is_told(call: str, said: str) -> None:
    with pytest.raises(RecipeError) as caught:
        parse_recipe(f"fusion: f\ninputs:\n  x: half[M, N]\nbody: |\n  y = {call}\noutputs:\n  y:\n", "f.yaml")
    assert " | ".join((caught.value.diagnostics[0].message, caught.value.diagnostics[0].hint)) == said
