"""The references of ops: what the oracle computes is what the entry says, and the entry says what the op does."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from fusebuild.bench.torch_module import torch_module  # noqa: E402
from fusebuild.ir.dtype import DType  # noqa: E402
from fusebuild.ir.fusion import Fusion  # noqa: E402
from fusebuild.ops.table import OPS, OpDef  # noqa: E402
from fusebuild.oracle.reference import evaluate, evaluate_fp64, random_inputs, torch_dtype  # noqa: E402
from fusebuild.recipe.recipe import parse_recipe  # noqa: E402
from fusebuild.report.op_reference import example_recipe, op_reference  # noqa: E402

EXTENTS = {"M": 6, "N": 8, "K": 7, "V": 11}
NAMES = [name for name in OPS if name != "imag"]
"""Every op but the one that no dtype here has."""


def example_of(op: OpDef) -> Fusion:
    """The example of ``op`` on floats, or on what comes first among the dtypes that it takes."""
    taken = [*op_reference(op.name).dtypes]
    return parse_recipe(example_recipe(op, DType("float" if "float" in taken else taken[0])), op.name).fusion


def same(a: Any, b: Any) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and torch.equal(a.nan_to_num(), b.nan_to_num())


@pytest.mark.parametrize("name", NAMES)
def test_the_reference_does_what_the_entry_says(name: str) -> None:
    """Every result has its dtype and size and is no operand, unless the op copies: then it holds nothing else."""
    op, fusion = OPS[name], example_of(OPS[name])
    inputs = random_inputs(fusion, EXTENTS, seed=3)
    for output, result in zip(fusion.outputs, evaluate(fusion, inputs), strict=True):
        assert result.dtype == torch_dtype(fusion.value(output.fid).dtype)
        if op.copies:
            assert {*result.flatten().tolist()} <= {*inputs[0].flatten().tolist()}
        elif name != "real":  # the real part of a number is that number
            assert not any(same(result, each) for each in inputs)


@pytest.mark.parametrize("evaluation", [evaluate, evaluate_fp64])
@pytest.mark.parametrize("name", NAMES)
def test_the_oracle_calls_the_reference_of_the_entry(
    name: str, evaluation: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    fusion, calls = example_of(OPS[name]), []
    reference = OPS[name].reference

    def counted(*operands: Any, **named: Any) -> Any:
        calls.append(name)
        return reference(*operands, **named)

    monkeypatch.setitem(OPS, name, replace(OPS[name], reference=counted))
    evaluation(fusion, random_inputs(fusion, EXTENTS, seed=3))
    assert calls


def test_a_new_op_with_attributes_is_its_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oracle and the module of torch that ``bench`` measures give it the attributes, with sizes as numbers."""

    def halves(torch: Any, x: Any, shape: Any) -> Any:
        return x.reshape(shape) * 0.5

    new = replace(OPS["reshape"], name="halved", reference=halves, copies=False)
    monkeypatch.setitem(OPS, new.name, new)
    text = "fusion: f\ninputs:\n  x: float[M, N]\nbody: |\n  y = halved(x, [N * M])\noutputs:\n  y:\n"
    fusion = parse_recipe(text, "f").fusion
    (x,) = random_inputs(fusion, EXTENTS, seed=3)
    want = x.flatten() * 0.5
    assert torch.equal(evaluate(fusion, [x])[0], want)
    assert torch.equal(torch_module(fusion)(x)[0], want)


class TestFacts:
    def test_copies_have_one_operand(self) -> None:
        assert {len(op.operands) for op in OPS.values() if op.copies} == {1}

    def test_an_alias_is_a_copy(self) -> None:
        assert {name for name, op in OPS.items() if op.is_alias} < {name for name, op in OPS.items() if op.copies}

    @pytest.mark.parametrize("name", [name for name in OPS if OPS[name].is_commutative])
    def test_commutative_ops_are_so(self, name: str) -> None:
        a, b = operands_of(name)
        assert torch.equal(OPS[name].reference(torch, a, b), OPS[name].reference(torch, b, a))

    @pytest.mark.parametrize("name", [name for name in OPS if OPS[name].is_involution])
    def test_twice_an_involution_is_nothing(self, name: str) -> None:
        (x,) = operands_of(name)
        assert torch.equal(OPS[name].reference(torch, OPS[name].reference(torch, x)), x)

    @pytest.mark.parametrize("name", [name for name in OPS if OPS[name].mirror])
    def test_a_mirror_takes_the_operands_in_the_other_order(self, name: str) -> None:
        a, b = operands_of(name)
        assert torch.equal(OPS[name].reference(torch, a, b), OPS[OPS[name].mirror].reference(torch, b, a))

    @pytest.mark.parametrize(
        ("name", "place"), [(name, place) for name, op in OPS.items() for place in op.numbers if len(op.operands) > 1]
    )
    def test_a_number_means_what_a_tensor_does(self, name: str, place: int) -> None:
        tensors = operands_of(name)
        numbers = OPS[name].numbers if name == "clamp" else [place]  # its bounds are both numbers, or none is
        mixed = [each[0].item() if own in numbers else each for own, each in enumerate(tensors)]
        assert torch.equal(OPS[name].reference(torch, *mixed)[0], OPS[name].reference(torch, *tensors)[0])


def operands_of(name: str) -> list[Any]:
    """Tensors of small whole numbers, in the dtypes in which the pointwise op ``name`` meets those of its example."""
    generator = torch.Generator().manual_seed(5)
    fusion = example_of(OPS[name])
    types = [fusion.value(fid).type for fid in fusion.exprs[0].inputs]
    dtypes = OPS[name].operand_dtypes(types, {})
    return [torch.randint(-3, 4, (64,), generator=generator).to(torch_dtype(dtype)) for dtype in dtypes]
