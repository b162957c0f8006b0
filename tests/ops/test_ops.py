"""Every op: its CUDA text and reference, the signature that recipes call it by, and the types that its rule gives."""

from __future__ import annotations

import re
import string
from typing import Any

import pytest

from fusebuild.ir.dtype import DType
from fusebuild.ir.types import ScalarType, TensorType, ValueType, tensor_type
from fusebuild.ir.values import Attribute
from fusebuild.ops.table import OPS, REQUIRED, Kind, OpDef, Rule, _binary
from fusebuild.ops.type_rules import TypeRuleError
from fusebuild.system.named import by_name
from support.places import ROOT

F64, F32, F16, BF16 = DType.DOUBLE, DType.FLOAT, DType.HALF, DType.BFLOAT16
I64, I32, BOOL = DType.INT64, DType.INT32, DType.BOOL
TEXTLESS = {"cast", "imag"}
POINTWISE = [op for op in OPS.values() if op.kind is Kind.POINTWISE and op.name not in TEXTLESS]
HEADERS = "\n".join(path.read_text() for path in (ROOT / "templates" / "include" / "fusebuild").glob("*.cuh"))


def infer(name: str, *types: ValueType, **named: Attribute) -> tuple[ValueType, ...]:
    op = OPS[name]
    defaults = {p.name: p.default for p in op.parameters if p.kind != "value" and p.default is not REQUIRED}
    return op.infer(types, defaults | named)  # type: ignore[arg-type]


def vector(dtype: DType) -> TensorType:
    return tensor_type(dtype, ("M",))


def result_dtype(name: str, *dtypes: DType) -> DType:
    return infer(name, *(vector(dtype) for dtype in dtypes))[0].dtype


def fields(pattern: str) -> set[str]:
    return {field for _, field, _, _ in string.Formatter().parse(pattern) if field}


@pytest.mark.parametrize("op", POINTWISE, ids=lambda op: op.name)
class TestEveryPointwiseOp:
    def test_cuda_text_uses_every_operand(self, op: OpDef) -> None:
        expected = {str(index) for index in range(len(op.operands))}
        assert fields(op.cuda) == expected
        if op.cuda_integer:
            assert fields(op.cuda_integer) == expected

    def test_device_functions_exist(self, op: OpDef) -> None:
        for function in re.findall(r"fb::(\w+)", op.cuda + op.cuda_integer):
            assert re.search(rf"\b{function}\(|FUNCTION\({function}\)", HEADERS), function

    def test_reference_gives_the_inferred_dtype(self, op: OpDef) -> None:
        torch = pytest.importorskip("torch")
        torch_dtypes = {F32: torch.float32, I64: torch.int64, BOOL: torch.bool}
        for dtype in (F32, I64, BOOL):
            types = [vector(dtype) for _ in op.operands]
            try:
                (result,) = op.infer(types, {})
            except TypeRuleError:
                continue
            computed = op.operand_dtypes(types, {})
            values = op.reference(torch, *(torch.ones(3, dtype=torch_dtypes[own]) for own in computed))
            assert values.dtype is torch_dtypes[result.dtype]
            assert values.shape == (3,)


@pytest.mark.parametrize("op", OPS.values(), ids=lambda op: op.name)
class TestEveryOp:
    def test_is_filed_under_its_name(self, op: OpDef) -> None:
        assert OPS[op.name] is op
        assert op.name.isidentifier()

    def test_has_a_reference(self, op: OpDef) -> None:
        assert callable(op.reference)

    def test_required_parameters_come_first(self, op: OpDef) -> None:
        required = [parameter.default is REQUIRED for parameter in op.parameters]
        assert required == sorted(required, reverse=True)

    def test_parameters_have_names_of_their_own(self, op: OpDef) -> None:
        names = [parameter.name for parameter in op.parameters]
        assert len(set(names)) == len(names)

    def test_reductions_name_their_functor(self, op: OpDef) -> None:
        assert bool(op.functor) == (op.kind is Kind.REDUCTION and not op.is_generalized)
        if op.functor:
            assert f"struct {op.functor} {{" in HEADERS
        if op.running:
            assert f"struct {op.running} {{" in HEADERS


SIGNATURES = {
    "add": "lhs rhs",
    "rsqrt": "x",
    "where": "condition x y",
    "clamp": "x min max",
    "lerp": "start end weight",
    "threshold": "x threshold value",
    "addcmul": "x a b value",
    "cast": "x dtype",
    "sum": "x dims=None keepdim=False dtype=None",
    "max": "x dims=None keepdim=False",
    "var_mean": "x dims=None keepdim=False correction=1",
    "welford": "x dims=None keepdim=False",
    "broadcast": "x is_broadcast_dim",
    "broadcast_in_dim": "x shape broadcast_dims",
    "expand": "x shape",
    "squeeze": "x dims",
    "full": "shape fill_value dtype=None",
    "iota": "length start=0 step=1 dtype=None",
    "size": "extent",
    "matmul": "a b",
    "linear": "x weight bias=None",
}


@pytest.mark.parametrize("name", SIGNATURES)
def test_signature(name: str) -> None:
    shown = [p.name if p.default is REQUIRED else f"{p.name}={p.default}" for p in OPS[name].parameters]
    assert " ".join(shown) == SIGNATURES[name]


class TestDtypes:
    @pytest.mark.parametrize(
        ("name", "dtypes", "result"),
        [
            ("add", (BF16, BF16), F32), ("add", (I32, I64), I64), ("add", (F64, F32), F64), ("neg", (F16,), F32),
            ("exp", (I32,), F32), ("exp", (F64,), F64), ("truediv", (I64, I64), F32), ("div", (I64, I64), I64),
            ("eq", (F32, I32), BOOL), ("lt", (BOOL, BOOL), BOOL), ("isnan", (I32,), BOOL), ("signbit", (F16,), BOOL),
            ("logical_and", (F32, I32), BOOL), ("bitwise_and", (BOOL, BOOL), BOOL), ("gcd", (I32, I32), I32),
            ("maximum", (BOOL, BOOL), BOOL), ("where", (F32, BF16, I32), F32), ("where", (BOOL, I32, I32), I32),
            ("set", (BF16,), BF16), ("segment_set", (F16,), F16), ("ceil", (I32,), I32), ("frac", (I32,), F32),
        ],
    )  # fmt: skip
    def test_pointwise(self, name: str, dtypes: tuple[DType, ...], result: DType) -> None:
        assert result_dtype(name, *dtypes) is result

    def test_cast_and_views_keep_the_shape_or_the_dtype(self) -> None:
        assert infer("cast", vector(F32), dtype=BF16) == (vector(BF16),)
        assert infer("cast", ScalarType(dtype=I64), dtype=F64) == (ScalarType(dtype=F64),)
        assert infer("broadcast", vector(F16), is_broadcast_dim=(True, False)) == (tensor_type(F16, (1, "M")),)

    def test_a_reduction_takes_the_dtype_that_is_asked_for(self) -> None:
        assert infer("sum", vector(F32), dtype=F64)[0].dtype is F64
        assert OPS["sum"].operand_dtypes([vector(F32)], {"dtype": F16}) == (F32,)

    def test_var_mean_gives_two_results(self) -> None:
        assert infer("var_mean", tensor_type(BF16, ("M", "N")), dims=(1,)) == (vector(F32), vector(F32))

    @pytest.mark.parametrize(("dtype", "result"), [(BF16, F32), (F64, F64), (I32, F32)])
    def test_welford_gives_the_count_as_an_integer(self, dtype: DType, result: DType) -> None:
        found = infer("welford", tensor_type(dtype, ("M", "N")), dims=(1,))
        assert found == (vector(result), vector(result), vector(I64))

    def test_creation(self) -> None:
        scalar = ScalarType(dtype=I64)
        filled = tensor_type(I64, ("M", 4), broadcast=(0, 1))
        assert infer("full", scalar, shape=("M", 4)) == (filled,)
        assert infer("iota", scalar, scalar, length="M", dtype=I32) == (vector(I32),)
        assert infer("size", extent="M") == (scalar,)


ERRORS: list[tuple[str, str, tuple[ValueType, ...], dict[str, Any]]] = [
    ("add is not defined for bool", "add", (vector(BOOL), vector(BOOL)), {}),
    ("gcd takes integers, not float", "gcd", (vector(I32), vector(F32)), {}),
    ("bitwise_not takes integers or bool, not float", "bitwise_not", (vector(F16),), {}),
    ("imag takes complex numbers, and fusebuild has no complex dtypes", "imag", (vector(F32),), {}),
    ("sum takes a tensor, not a scalar", "sum", (ScalarType(dtype=F32),), {}),
    ("max of a zero-dim tensor takes no dims", "max", (tensor_type(F32, ()),), {"dims": (0,)}),
    ("squeeze: dim 0 has size M, not 1", "squeeze", (vector(F32),), {"dims": (0,)}),
    ("full takes a scalar fill value", "full", (vector(F32),), {"shape": ("M",)}),
    ("iota takes integer scalars for start and step", "iota", (ScalarType(dtype=F64),) * 2, {"length": "M"}),
    ("iota yields integers, not float", "iota", (ScalarType(dtype=I64),) * 2, {"length": "M", "dtype": F32}),
]


@pytest.mark.parametrize(("message", "name", "types", "named"), ERRORS, ids=[error[0] for error in ERRORS])
def test_errors(message: str, name: str, types: tuple[ValueType, ...], named: dict[str, Any]) -> None:
    with pytest.raises(TypeRuleError) as caught:
        infer(name, *types, **named)
    assert str(caught.value) == message


def test_text_chooses_by_the_dtype_it_computes_in() -> None:
    assert OPS["add"].text(["a", "b"], F32) == "a + b"
    assert OPS["add"].text(["a", "b"], I32) == "fb::add(a, b)"
    assert OPS["ceil"].text(["a"], I64) == "a"
    assert OPS["logical_not"].text(["a"], BOOL) == "!a"


def test_a_cuda_text_names_the_ops_own_operands() -> None:
    with pytest.raises(ValueError, match=r"^the CUDA text of 'twisted' has no operand \{2\}: fb::f\(\{0\}, \{2\}\)$"):
        _binary("twisted", Rule.FLOATING, "fb::f({0}, {2})", reference=lambda torch, a, b: a)


def test_two_ops_of_one_name_are_none() -> None:
    with pytest.raises(ValueError, match="'abs' is declared twice"):
        by_name([OPS["abs"], OPS["abs"]])
