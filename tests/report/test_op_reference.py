"""The reference of ops: every op has an example that can be planned, and the page shows what the table gives.

``pytest tests/report/test_op_reference.py --update-golden`` writes the page again.
"""

from __future__ import annotations

import json
from functools import cache

import pytest

from fusebuild.errors import UsageError
from fusebuild.ir.dtype import DType
from fusebuild.ops.library import LIBRARY
from fusebuild.ops.table import OPS, Kind, Rule, _unary
from fusebuild.pipeline import plan_recipe
from fusebuild.recipe.recipe import parse_recipe
from fusebuild.report.op_reference import (
    KINDS,
    SECTIONS,
    OpReference,
    example_recipe,
    op_lines,
    op_reference,
    op_references,
)
from fusebuild.target.table import TARGETS
from support.faults import fusebuild
from support.golden import Golden
from support.places import DOCS

PAGE = DOCS / "guide" / "ops.md"
INTRODUCTION = """\
# Ops

<!-- Generated from fusebuild/ops by: pytest tests/report/test_op_reference.py --update-golden -->

Every op that a body may call, as `fusebuild ops` prints it; `fusebuild ops NAME` prints one, `--json` is for programs.
The signature has the names and defaults of the parameters. *dtypes* says what an op gives for tensors of each dtype,
and which it refuses. Each example is recorded for every dtype when this page is made, and planned when the tests run.
The operands of pointwise ops are broadcast against each other as in torch.

Ops come first, and then the composites of the [library](composites.md#the-library), which are called like ops.
"""


@cache
def references() -> tuple[OpReference, ...]:
    """All of them; making them takes a second."""
    return tuple(op_references())


def test_the_page_is_what_the_table_gives(golden: Golden) -> None:
    lines = [INTRODUCTION]
    for kind, title in ({kind.value: title for kind, title in KINDS.items()} | SECTIONS).items():
        lines.append(f"## {title}\n")
        for each in references():
            if each.kind == kind:
                lines += [f"### {each.name}", "", "```text", *op_lines(each), "```", ""]
    golden(PAGE, "\n".join(lines) + "\n")


def test_every_kind_has_a_title() -> None:
    assert {*KINDS} == {*Kind}
    assert {*SECTIONS} == {each.section for each in LIBRARY.values()}


def test_complex_numbers_alone_are_without_an_example() -> None:
    assert [each.name for each in references() if each.example is None] == ["imag"]


@pytest.mark.parametrize("name", [name for name in (*OPS, *LIBRARY) if name != "imag"])
def test_every_example_plans(name: str) -> None:
    found = op_reference(name)
    for dtype in found.dtypes:
        recipe = parse_recipe(example_recipe(OPS.get(name) or LIBRARY[name], DType(dtype)), name)
        assert plan_recipe(recipe, [TARGETS["sm_90"]]).plan.targets


def test_the_verb_prints_the_reference_of_the_ops_that_are_named() -> None:
    done = fusebuild("ops", "var_mean", "rsqrt")
    assert (done.code, done.err) == (0, "")
    assert done.out == "\n".join([*op_lines(op_reference("var_mean")), "", *op_lines(op_reference("rsqrt")), ""])


def test_the_verb_prints_every_op() -> None:
    printed = json.loads(fusebuild("ops", "--json").out)
    assert {each["name"] for each in printed} == {*OPS, *LIBRARY}


def test_the_page_holds_what_the_verb_prints() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for text in fusebuild("ops").out.removesuffix("\n").split("\n\n"):
        assert f"```text\n{text}\n```\n" in page


def test_operators_are_those_that_bodies_read() -> None:
    operators = {each.name: each.operator for each in references() if each.operator}
    assert {name: operators[name] for name in ("add", "div", "lt", "neg", "matmul")} == {
        "add": "lhs + rhs", "div": "lhs / rhs", "lt": "lhs < rhs", "neg": "-x", "matmul": "lhs @ rhs",
    }  # fmt: skip
    for name, operator in operators.items():
        dtype = "float" if name == "matmul" else "int64"
        inputs = "".join(f"  {each}: {dtype}[4, 4]\n" for each in ("lhs", "rhs", "x") if each in operator)
        text = f"fusion: f\ninputs:\n{inputs}body: |\n  y = {operator}\noutputs:\n  y:\n"
        assert name in {expr.op for expr in parse_recipe(text, name).fusion.exprs}


def test_what_there_is_not_is_an_error_that_names_the_nearest() -> None:
    with pytest.raises(UsageError, match=r"^unknown op 'rsqr'; did you mean 'rsqrt'\?$"):
        op_reference("rsqr")
    assert fusebuild("ops", "rsqr").code == 2


def test_a_new_op_is_in_the_reference_without_more(monkeypatch: pytest.MonkeyPatch) -> None:
    new = _unary("cubed", Rule.FLOATING, "{0} * {0} * {0}", reference=lambda torch, x: x**3)
    monkeypatch.setitem(OPS, new.name, new)
    others = ", ".join(dtype.value for dtype in DType if dtype not in (DType.DOUBLE, DType.FLOAT))
    assert op_lines(op_reference("cubed")) == [
        "cubed(x)",
        "  kind     pointwise",
        f"  dtypes   double, float kept; {others} -> float",
        "  example  cubed(x)    with x: float[M, N]",
        "  gives    float[M, N]",
    ]
