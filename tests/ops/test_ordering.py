"""Ops that put elements in order: their types and messages, and what they are in primitives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from fusebuild.definition import DataType, FusionDefinition
from fusebuild.errors import RecipeError
from fusebuild.ir.dtype import DType
from fusebuild.ops.type_rules import TypeRuleError
from fusebuild.oracle.reference import evaluate
from support.op_calls import Operand, result_types
from support.small_recipes import primitive, recipe_of, text_of

torch = pytest.importorskip("torch")

MATRIX: Operand = (DType.HALF, ("M", "N"))


class TestTypes:
    def test_values_keep_their_dtype(self) -> None:
        assert result_types("sort", [MATRIX]) == ["half[M, N]", "int64[M, N]"]
        assert result_types("sort", [MATRIX], dim=0, descending=True) == ["half[M, N]", "int64[M, N]"]
        assert result_types("argsort", [(DType.BOOL, ("N",))]) == ["int64[N]"]
        assert result_types("topk", [MATRIX], k=5) == ["half[M, 5]", "int64[M, 5]"]
        assert result_types("topk", [MATRIX], k=64, dim=0) == ["half[64, N]", "int64[64, N]"]

    @pytest.mark.parametrize(
        ("op", "operands", "named", "message", "hint", "culprit"),
        [
            ("sort", [1.0], {}, "sort takes a tensor, not a scalar", "", 0),
            ("sort", [MATRIX], {"dim": 2}, "sort: dim 2 is out of range for a tensor of rank 2",
             "valid dims are -2 to 1", None),
            ("argsort", [(DType.FLOAT, ())], {}, "argsort: dim -1 is out of range for a tensor of rank 0",
             "the tensor has no dims", None),
            ("topk", [MATRIX], {"k": 0}, "topk: k is 0, not between 1 and 64", "", None),
            ("topk", [MATRIX], {"k": 65}, "topk: k is 65, not between 1 and 64",
             "sort gives all of them: slice its results", None),
            ("topk", [(DType.FLOAT, (3, 4))], {"k": 5}, "topk: dim 1 has size 4, and k is 5", "", 0),
            ("topk", [(DType.FLOAT, (("floor_div", "N", 2),))], {"k": 2},
             "topk: dim 0 has size N // 2, which may be less than k, 2",
             "state under extents what makes it large enough", 0),
        ],
    )  # fmt: skip
    def test_error(
        self, op: str, operands: Sequence[Operand], named: dict[str, Any], message: str, hint: str, culprit: int | None
    ) -> None:
        with pytest.raises(TypeRuleError) as caught:
            result_types(op, operands, **named)
        assert (caught.value.message, caught.value.hint, caught.value.operand) == (message, hint, culprit)


def ops(inputs: dict[str, str], body: str, *outputs: str) -> list[str]:
    return [expr.op for expr in primitive(text_of(inputs, body, dict.fromkeys(outputs, ""))).exprs]


class TestPrimitives:
    def test_argsort_is_a_part_of_a_sort(self) -> None:
        assert ops({"x": "float[M, N]"}, "i = argsort(x)\nv, j = sort(x)", "i", "v", "j").count("sort") == 1

    def test_one_element_is_sorted(self) -> None:
        assert ops({"x": "float[M, 1]"}, "v, i = sort(x)", "v", "i") == ["set", "full"]
        assert ops({"x": "float[M, 1]"}, "v, i = topk(x, 1)", "v", "i") == ["set", "full"]
        assert ops({"x": "float[M, 1]"}, "i = argsort(x)", "i") == ["full"]


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_the_oracle_sorts_as_torch_does(descending: bool, dim: int) -> None:
    x = torch.randint(-3, 4, (9, 14), generator=torch.Generator().manual_seed(1)).float()
    x[2, 3] = x[4, 3] = x[2, 7] = torch.nan
    call = f"dim={dim}, descending={descending}"
    text = text_of({"x": "float[M, N]"}, f"v, i = sort(x, {call})\nj = argsort(x, {call})\n"
                   f"t, k = topk(x, 4, dim={dim}, largest={descending})",
                   dict.fromkeys("vijtk", ""))  # fmt: skip
    values, indices, again, first, places = evaluate(recipe_of(text).fusion, [x])
    wanted = torch.sort(x, dim=dim, descending=descending, stable=True)
    torch.testing.assert_close(values, wanted.values, rtol=0, atol=0, equal_nan=True)
    assert torch.equal(indices, wanted.indices)
    assert torch.equal(again, wanted.indices)
    torch.testing.assert_close(first, wanted.values.narrow(dim, 0, 4), rtol=0, atol=0, equal_nan=True)
    assert torch.equal(places, wanted.indices.narrow(dim, 0, 4))


def test_definitions_call_them_as_nvfuser_does() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], dtype=DataType.Float)
        values, indices = fd.ops.topk(x, fd.define_scalar(3), 1, True, sorted=True)
        places = fd.ops.argsort(x, 0, descending=True, stable=True)
        high, at = fd.ops.cummax(x, 1)
        for output in (values, indices, places, high, at):
            fd.add_output(output)
    numbers = torch.rand(4, 9, generator=torch.Generator().manual_seed(1))
    found = evaluate(fd.fusion, [numbers])
    wanted = (*numbers.topk(3, 1), numbers.argsort(0, descending=True), *numbers.cummax(1))
    assert all(map(torch.equal, found, wanted))


def test_a_number_of_results_is_known_when_a_definition_is_recorded() -> None:
    fd = FusionDefinition()
    with pytest.raises(RecipeError, match=r"topk: k must be an integer, not Scalar"), fd:
        fd.ops.topk(fd.define_tensor([-1], dtype=DataType.Float), fd.define_scalar(None, DataType.Int))
