"""Promotion against torch, and shape rules with their messages."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from fusebuild.ir.dtype import DType
from fusebuild.ir.formula import Formula
from fusebuild.ir.types import ScalarType, TensorType, ValueType, VectorType, tensor_type
from fusebuild.ops.table import OPS
from fusebuild.ops.type_rules import (
    TypeRuleError,
    broadcast_in_dim_type,
    broadcast_shapes,
    broadcast_type,
    expand_type,
    linear_type,
    matmul_type,
    normalize_dims,
    pointwise_type,
    promote,
    promote_pair,
    reduced_type,
    require_tensor,
    squeeze_type,
)

F64, F32, F16, BF16 = DType.DOUBLE, DType.FLOAT, DType.HALF, DType.BFLOAT16
I64, I32, BOOL = DType.INT64, DType.INT32, DType.BOOL
OPERANDS: list[tuple[str, DType]] = [
    *(("dims", dtype) for dtype in DType),
    *(("zero-dim", dtype) for dtype in DType),
    *(("scalar", dtype) for dtype in (F64, I64, BOOL)),
]
"""Kinds of operands whose promotion torch has too: Python's float, int and bool are double, int64 and bool."""


def matrix(*shape: Formula, dtype: DType = F32, broadcast: Sequence[int] = ()) -> TensorType:
    return tensor_type(dtype, shape, broadcast)


def _type(kind: str, dtype: DType) -> ValueType:
    return ScalarType(dtype=dtype) if kind == "scalar" else tensor_type(dtype, (2,) if kind == "dims" else ())


def _torch_operand(torch: Any, kind: str, dtype: DType) -> Any:
    if kind == "scalar":
        return {F64: 1.0, I64: 1, BOOL: True}[dtype]
    return torch.ones((2,) if kind == "dims" else (), dtype=_torch_dtype(torch, dtype))


def _torch_dtype(torch: Any, dtype: DType) -> Any:
    return {F64: torch.float64, F32: torch.float32, F16: torch.float16}.get(dtype) or getattr(torch, dtype.value)


def _computed(torch: Any, torch_dtype: Any) -> DType:
    """The dtype we compute in where torch's result is ``torch_dtype``: half and bfloat16 stay in float."""
    if torch_dtype in (torch.float16, torch.bfloat16):
        return F32
    return next(dtype for dtype in DType if _torch_dtype(torch, dtype) is torch_dtype)


class TestPromotion:
    def test_pairs_agree_with_torch(self) -> None:
        torch = pytest.importorskip("torch")
        wrong = [
            (a, b)
            for a, b in itertools.product(OPERANDS, repeat=2)
            if {a[0], b[0]} != {"scalar"}
            and promote([_type(*a), _type(*b)])
            is not _computed(torch, torch.result_type(_torch_operand(torch, *a), _torch_operand(torch, *b)))
        ]
        assert not wrong

    def test_triples_agree_with_torch(self) -> None:
        torch = pytest.importorskip("torch")
        from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND, elementwise_dtypes

        kind = ELEMENTWISE_TYPE_PROMOTION_KIND.DEFAULT
        operands = {operand: _torch_operand(torch, *operand) for operand in OPERANDS}
        wrong = []
        for triple in itertools.combinations_with_replacement(OPERANDS, 3):
            if all(operand_kind == "scalar" for operand_kind, _ in triple):
                continue
            _, result = elementwise_dtypes(*(operands[operand] for operand in triple), type_promotion_kind=kind)
            if promote([_type(*operand) for operand in triple]) is not _computed(torch, result):
                wrong.append(triple)
        assert not wrong

    def test_scalars_alone_are_not_narrowed(self) -> None:
        assert promote([ScalarType(dtype=F64), ScalarType(dtype=I64)]) is F64
        assert promote([ScalarType(dtype=I64), ScalarType(dtype=BOOL)]) is I64
        assert promote([ScalarType(dtype=I32)]) is I32

    def test_a_scalar_of_a_higher_category_brings_its_default(self) -> None:
        assert promote([matrix(2, dtype=I32), ScalarType(dtype=F64)]) is F32
        assert promote([matrix(2, dtype=BOOL), ScalarType(dtype=I32)]) is I64

    @pytest.mark.parametrize(
        ("a", "b", "both"),
        [(F16, BF16, F32), (F16, F32, F32), (F32, F64, F64), (I32, I64, I64), (BOOL, I32, I32), (I64, F16, F16)],
    )
    def test_table(self, a: DType, b: DType, both: DType) -> None:
        assert promote_pair(a, b) is both
        assert promote_pair(b, a) is both

    def test_order_of_operands_does_not_matter(self) -> None:
        for triple in itertools.combinations(OPERANDS[::2], 3):
            types = [_type(*operand) for operand in triple]
            assert len({promote(list(order)) for order in itertools.permutations(types)}) == 1


class TestBroadcasting:
    @pytest.mark.parametrize(
        ("types", "shape", "broadcast"),
        [
            ([matrix("M", "N"), matrix("N")], ("M", "N"), ()),
            ([matrix("M", 1), matrix("N")], ("M", "N"), ()),
            ([matrix("M", 1), matrix("M", 1)], ("M", 1), (1,)),
            ([matrix(), matrix("M")], ("M",), ()),
            ([matrix("M", "N", broadcast=[0]), matrix("N")], ("M", "N"), (0,)),
            ([matrix("M", "N", broadcast=[0]), matrix("M", "N")], ("M", "N"), ()),
            ([matrix(("mul", 2, "M")), matrix(("mul", 2, "M"))], (("mul", 2, "M"),), ()),
        ],
    )
    def test_shapes(self, types: list[ValueType], shape: tuple[Formula, ...], broadcast: tuple[int, ...]) -> None:
        assert broadcast_shapes(types) == (shape, frozenset(broadcast))

    def test_scalars_take_no_part(self) -> None:
        assert broadcast_shapes([ScalarType(dtype=F32), matrix("M")]) == (("M",), frozenset())
        assert pointwise_type(F32, [ScalarType(dtype=F32)]) == ScalarType(dtype=F32)

    def test_views_are_stored_in_full_once_computed(self) -> None:
        assert pointwise_type(F32, [matrix("M", "N", broadcast=[0])]) == matrix("M", "N", broadcast=[0])


def test_dims_count_from_either_end() -> None:
    assert normalize_dims("sum", (-1, 0), 3) == (0, 2)
    assert normalize_dims("sum", (), 3) == ()


class TestReductions:
    @pytest.mark.parametrize(
        ("dims", "keepdim", "result"),
        [
            ((1,), False, matrix("M", "K")),
            ((1,), True, matrix("M", 1, "K")),
            ((0, 1, 2), False, matrix()),
            ((0, 1, 2), True, matrix(1, 1, 1)),
            ((), False, matrix("M", "N", "K")),
        ],
    )
    def test_shapes(self, dims: tuple[int, ...], keepdim: bool, result: TensorType) -> None:
        assert reduced_type(matrix("M", "N", "K"), dims, keepdim=keepdim, dtype=F32) == result

    def test_a_kept_expanded_dim_stays_expanded(self) -> None:
        result = reduced_type(matrix("M", "N", "K", broadcast=[0]), (1,), keepdim=False, dtype=F32)
        assert result == matrix("M", "K", broadcast=[0])

    @pytest.mark.parametrize(
        ("op", "dtype", "result"),
        [
            ("sum", BF16, F32), ("max", F16, F32), ("sum", I32, I64), ("prod", BOOL, I64), ("max", I32, I32),
            ("min", BOOL, BOOL), ("mean", I64, F32), ("var", I32, F32), ("mean", F64, F64), ("sum", F32, F32),
        ],
    )  # fmt: skip
    def test_dtypes(self, op: str, dtype: DType, result: DType) -> None:
        assert OPS[op].result_dtype(dtype) is result


class TestViews:
    def test_broadcast(self) -> None:
        assert broadcast_type(matrix("M", "N"), (False, True, False)) == matrix("M", 1, "N")
        assert broadcast_type(matrix(), (True,)) == matrix(1)

    def test_expand(self) -> None:
        assert expand_type(matrix("M", 1), ("M", "N")) == matrix("M", "N", broadcast=[1])
        assert expand_type(matrix("M", 1), (-1, 7)) == matrix("M", 7, broadcast=[1])
        assert expand_type(matrix("M", 1), (-1, -1)) == matrix("M", 1)

    def test_broadcast_in_dim(self) -> None:
        assert broadcast_in_dim_type(matrix("N"), ("M", "N"), (1,)) == matrix("M", "N", broadcast=[0])
        assert broadcast_in_dim_type(matrix(), ("M",), ()) == matrix("M", broadcast=[0])

    def test_squeeze(self) -> None:
        assert squeeze_type(matrix("M", 1, "N", 1), (1, 3)) == matrix("M", "N")
        assert squeeze_type(matrix("M", 1, "N", broadcast=[2]), (1,)) == matrix("M", "N", broadcast=[1])

    @pytest.mark.parametrize("shape", [("K",), ("M", "K"), ("B", 1, "K")])
    def test_linear_replaces_the_last_dim(self, shape: tuple[Formula, ...]) -> None:
        weight = matrix("N", "K", dtype=BF16)
        for bias in (None, matrix("N", dtype=BF16)):
            result = linear_type(matrix(*shape, dtype=BF16), weight, bias)
            assert result == matrix(*shape[:-1], "N", dtype=BF16)

    @pytest.mark.parametrize(
        ("a", "b", "result"),
        [
            (("K",), ("K",), ()),
            (("K",), ("K", "N"), ("N",)),
            (("M", "K"), ("K",), ("M",)),
            (("M", "K"), ("K", "N"), ("M", "N")),
            (("B", "M", "K"), ("K", "N"), ("B", "M", "N")),
            (("K",), ("B", "K", "N"), ("B", "N")),
            (("B", "M", "K"), ("K",), ("B", "M")),
            (("B", 1, "M", "K"), ("H", "K", "N"), ("B", "H", "M", "N")),
            ((1, 1, "K"), ("B", "K", 1), ("B", 1, 1)),
        ],
    )
    def test_matmul_as_in_torch(
        self, a: tuple[Formula, ...], b: tuple[Formula, ...], result: tuple[Formula, ...]
    ) -> None:
        torch = pytest.importorskip("torch")
        sizes = {"B": 2, "H": 3, "M": 4, "K": 5, "N": 6}
        assert matmul_type(matrix(*a), matrix(*b)) == matrix(*result)
        operands = (torch.ones([sizes.get(str(extent), 1) for extent in shape]) for shape in (a, b))
        assert torch.matmul(*operands).shape == tuple(sizes.get(str(extent), 1) for extent in result)

    def test_a_product_is_stored_in_full(self) -> None:
        expanded = matrix("B", "M", "K", broadcast=[0])
        assert matmul_type(expanded, matrix("K", "N")).contiguity == (True, True, True)


ERRORS: list[tuple[str, str, int | None, Callable[[], object]]] = [
    (
        "shapes do not broadcast: dim 1 is N in one operand and K in another",
        "extents must be the same symbol, the same number, or the constant 1",
        1,
        lambda: broadcast_shapes([matrix("M", "N"), matrix("K")]),
    ),
    (
        "shapes do not broadcast: dim 0 is 3 in one operand and M in another",
        "extents must be the same symbol, the same number, or the constant 1",
        2,
        lambda: broadcast_shapes([matrix(3), ScalarType(dtype=F32), matrix("M")]),
    ),
    (
        "a vector is not an operand of pointwise ops",
        "",
        1,
        lambda: pointwise_type(F32, [matrix("M"), VectorType(dtype=I64, length=2)]),
    ),
    ("exp takes a tensor, not a scalar", "", 0, lambda: require_tensor("exp", ScalarType(dtype=F32))),
    (
        "sum: dim 2 is out of range for a tensor of rank 2",
        "valid dims are -2 to 1",
        None,
        lambda: normalize_dims("sum", (2,), 2),
    ),
    (
        "sum: dim 0 is out of range for a tensor of rank 0",
        "the tensor has no dims",
        None,
        lambda: normalize_dims("sum", (0,), 0),
    ),
    ("sum: dim -1 is given twice", "", None, lambda: normalize_dims("sum", (1, -1), 2)),
    (
        "broadcast: the mask keeps 1 dim but the tensor has 2",
        "give one False for each dim of the tensor and True for each new dim",
        None,
        lambda: broadcast_type(matrix("M", "N"), (True, False)),
    ),
    ("expand: the shape has 1 dim but the tensor has 2", "", None, lambda: expand_type(matrix("M", 1), ("M",))),
    (
        "expand: dim 0 is M and cannot become 2*N",
        "only dims of constant size 1 expand",
        None,
        lambda: expand_type(matrix("M"), (("mul", 2, "N"),)),
    ),
    (
        "broadcast_in_dim: broadcast_dims names 1 dim but the tensor has 2",
        "",
        None,
        lambda: broadcast_in_dim_type(matrix("M", "N"), ("M", "N"), (0,)),
    ),
    (
        "broadcast_in_dim: dims [1, 0] must rise and lie in 0 to 1",
        "",
        None,
        lambda: broadcast_in_dim_type(matrix("M", "N"), ("M", "N"), (1, 0)),
    ),
    (
        "broadcast_in_dim: dims [-1] must rise and lie in 0 to 1",
        "",
        None,
        lambda: broadcast_in_dim_type(matrix("N"), ("M", "N"), (-1,)),
    ),
    ("squeeze: dim 0 has size M, not 1", "", None, lambda: squeeze_type(matrix("M"), (0,))),
    ("linear: x has no dims", "x is [..., K]", 0, lambda: linear_type(matrix(), matrix("N", "K"))),
    ("linear: weight has 1 dim, not 2", "weight is [N, K]", 1, lambda: linear_type(matrix("M", "K"), matrix("K"))),
    (
        "linear: the inner dim is K in x and N in weight",
        "extents must be the same symbol or the same number",
        1,
        lambda: linear_type(matrix("M", "K"), matrix("K", "N")),
    ),
    (
        "linear: bias has 2 dims, not 1",
        "bias is [N]",
        2,
        lambda: linear_type(matrix("M", "K"), matrix("N", "K"), matrix(1, "N")),
    ),
    (
        "linear: bias has K elements but weight has N rows",
        "extents must be the same symbol or the same number",
        2,
        lambda: linear_type(matrix("M", "K"), matrix("N", "K"), matrix("K")),
    ),
    (
        "linear takes operands of one dtype: x is bfloat16 but bias is float",
        "cast one of them",
        2,
        lambda: linear_type(matrix("M", "K", dtype=BF16), matrix("N", "K", dtype=BF16), matrix("N")),
    ),
    (
        "linear takes floating dtypes, and x is int32",
        "cast it first",
        0,
        lambda: linear_type(matrix("M", "K", dtype=I32), matrix("N", "K")),
    ),
    (
        "linear takes tensors, and weight is a scalar",
        "",
        1,
        lambda: linear_type(matrix("M", "K"), ScalarType(dtype=F32)),
    ),
    ("matmul: b has no dims", "multiply with '*'", 1, lambda: matmul_type(matrix("M", "K"), matrix())),
    (
        "matmul: the inner dim is K in a and 1 in b",
        "extents must be the same symbol or the same number",
        1,
        lambda: matmul_type(matrix("M", "K"), matrix(1, "N")),
    ),
    (
        "matmul: the inner dim is K in a and N in b",
        "extents must be the same symbol or the same number",
        1,
        lambda: matmul_type(matrix("M", "K"), matrix("N")),
    ),
    (
        "shapes do not broadcast: dim 0 is B in one operand and C in another",
        "extents must be the same symbol, the same number, or the constant 1",
        1,
        lambda: matmul_type(matrix("B", "M", "K"), matrix("C", "K", "N")),
    ),
]


@pytest.mark.parametrize(("message", "hint", "operand", "call"), ERRORS, ids=[error[0] for error in ERRORS])
def test_errors(message: str, hint: str, operand: int | None, call: Callable[[], object]) -> None:
    with pytest.raises(TypeRuleError) as caught:
        call()
    assert (caught.value.message, caught.value.hint, caught.value.operand) == (message, hint, operand)
    assert str(caught.value) == message
