"""What ops say of operands and attributes that they do not take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import pytest

from fusebuild.ir.dtype import DType
from fusebuild.ops.type_rules import TypeRuleError
from support.op_calls import Operand, result_types

F64, F32, I64, I32, BOOL = DType.DOUBLE, DType.FLOAT, DType.INT64, DType.INT32, DType.BOOL
MATRIX: Operand = (F32, ("M", "N"))
INDEX: Operand = (I64, ("K",))
Refusal: TypeAlias = tuple[str, Sequence[Operand], dict[str, Any], str, str, int | None]

INDEXING: list[Refusal] = [
    ("permute", [MATRIX], {"permutation": (0, 2)}, "permute: [0, 2] is no order of the 2 dims", "name each dim once",
     None),
    ("permute", [MATRIX], {"permutation": (1,)}, "permute: [1] is no order of the 2 dims", "name each dim once", None),
    ("permute", [1.0], {"permutation": ()}, "permute takes a tensor, not a scalar", "", 0),
    ("slice", [MATRIX], {"start_indices": (0,), "end_indices": ("M", "N")},
     "slice: start_indices has 1 entry, not one for each of the 2 dims", "", None),
    ("slice", [MATRIX], {"start_indices": (0, 0), "end_indices": ("M", "N", 1)},
     "slice: end_indices has 3 entries, not one for each of the 2 dims", "", None),
    ("slice", [MATRIX], {"start_indices": (0, 0), "end_indices": ("M", "N"), "strides": ()},
     "slice: strides has 0 entries, not one for each of the 2 dims", "", None),
    ("slice", [MATRIX], {"start_indices": (0, 0), "end_indices": ("M", "N"), "strides": (1, 0)},
     "slice: the stride of dim 1 is 0", "strides are integers from 1 up", None),
    ("slice", [MATRIX], {"start_indices": (0, 0), "end_indices": ("M", "N"), "strides": ("M", 1)},
     "slice: the stride of dim 0 is M", "strides are integers from 1 up", None),
    ("slice", [MATRIX], {"start_indices": (0, 5), "end_indices": ("M", 3)},
     "slice: dim 1 starts at 5 and ends at 3, before it", "", None),
    ("pad", [MATRIX, 0], {"pad_widths": (1, -2)}, "pad: -2 is less than 0", "slice takes elements away",
     None),
    ("pad", [MATRIX, 0], {"pad_widths": (1,)}, "pad: pad_widths has 1 entry for 2 dims",
     "two for each padded dim, the last dim first", None),
    ("pad", [MATRIX, 0], {"pad_widths": (1, 1, 1, 1, 1, 1)}, "pad: pad_widths has 6 entries for 2 dims",
     "two for each padded dim, the last dim first", None),
    ("pad", [MATRIX, MATRIX], {"pad_widths": (1, 1)}, "pad takes a scalar value", "", 1),
    ("cat", [], {"dim": 0}, "cat takes one tensor or more", "", None),
    ("cat", [MATRIX, 1.0], {"dim": 0}, "cat takes a tensor, not a scalar", "", 0),
    ("cat", [MATRIX, INDEX], {"dim": 0}, "cat: operands differ in more than dim 0", "", 1),
    ("cat", [MATRIX, MATRIX, (F32, ("M", "K"))], {"dim": 0}, "cat: operands differ in more than dim 0", "", 2),
    ("cat", [MATRIX], {"dim": 2}, "cat: dim 2 is out of range for a tensor of rank 2", "valid dims are -2 to 1", None),
    ("cat", [(F32, ()), (F32, ())], {"dim": 0}, "cat: dim 0 is out of range for a tensor of rank 0",
     "the tensor has no dims", None),
    ("reshape", [(F32, ("M", 12))], {"shape": ("M", 5)},
     "reshape: [M, 12] cannot be seen to have as many elements as [M, 5]",
     "each dim, or run of dims, must become one whose product is the same symbol, number or formula", None),
    ("take", [MATRIX, MATRIX], {"dim": 0}, "take takes a tensor of integers as index", "", 1),
    ("take", [MATRIX, (BOOL, ("K",))], {"dim": 0}, "take takes a tensor of integers as index", "", 1),
    ("take", [MATRIX, 3], {"dim": 0}, "take takes a tensor of integers as index", "", 1),
    ("take", [MATRIX, INDEX], {"dim": -3}, "take: dim -3 is out of range for a tensor of rank 2",
     "valid dims are -2 to 1", None),
    ("take", [(F32, (0, "N")), INDEX], {"dim": 0}, "take: dim 0 has no elements to read", "", 0),
    ("index_select", [MATRIX, (I64, ("A", "B"))], {"dim": 0}, "index_select: the index has 2 dims, not 1",
     "take allows any", 1),
    ("embedding", [(F32, ("A", "B", "C")), INDEX], {}, "embedding: the table has 3 dims, not 2", "", 0),
    ("embedding", [(F32, ()), INDEX], {}, "embedding takes a tensor with dims", "", 0),
    ("take_along_axis", [MATRIX, INDEX], {"dim": 0}, "take_along_axis: the index has 1 dim, not 2", "", 1),
    ("gather", [MATRIX, (I64, ("K", "K"))], {"dim": 1}, "gather: dim 0 is M in the tensor and K in the index", "", 1),
    ("scatter", [MATRIX, MATRIX, MATRIX], {"dim": 0}, "scatter takes a tensor of integers as index", "", 1),
    ("scatter", [1.0, INDEX, 1.0], {"dim": 0}, "scatter takes a tensor, not a scalar", "", 0),
    ("scatter", [(F32, ()), INDEX, 1.0], {"dim": 0}, "scatter: dim 0 is out of range for a tensor of rank 0",
     "the tensor has no dims", None),
    ("scatter", [MATRIX, INDEX, 1.0], {"dim": 0}, "scatter: the index has 1 dim, not 2", "", 1),
    ("scatter", [MATRIX, (I64, (1, "K")), 1.0], {"dim": 1}, "scatter: dim 0 is M in the tensor and 1 in the index",
     "expand the index", 1),
    ("scatter", [(F32, (0, "N")), (I64, ("K", "N")), 1.0], {"dim": 0}, "scatter: dim 0 has no elements to write", "",
     0),
    ("scatter_add", [MATRIX, (I64, ("M", "K")), MATRIX], {"dim": 1}, "scatter_add: the updates are [M, N], not [M, K]",
     "expand says so", 2),
    ("index_copy", [MATRIX, (I64, ("A", "B")), 1.0], {"dim": 0}, "index_copy: the index has 2 dims, not 1", "", 1),
    ("index_copy", [(DType.HALF, ("M", "N")), INDEX, (F32, ("K", "N"))], {"dim": 0},
     "index_copy writes float into half", "cast the updates to half", 2),
    ("index_put", [MATRIX, (I64, ("A", "B")), (F32, ("A", "N"))], {},
     "index_put: the updates are [A, N], not [A, B, N]", "expand says so", 2),
    ("index_add", [(BOOL, ("M",)), INDEX, True], {"dim": 0}, "index_add is not defined for bool", "cast first", 0),
    ("triu", [INDEX], {}, "triu takes a tensor with two dims or more", "", 0),
    ("tril", [(F32, ())], {}, "tril takes a tensor with two dims or more", "", 0),
]  # fmt: skip

P_HINT = "p is the part that becomes 0"
RANDOM: list[Refusal] = [
    ("rand_like", [MATRIX, 1.0, 0], {}, "rand_like takes an integer scalar as rng_seed, not double", "", 1),
    ("rand_like", [MATRIX, 1, F32], {}, "rand_like takes an integer scalar as rng_offset, not float", "", 2),
    ("rand_like", [MATRIX, (I64, ()), 0], {}, "rand_like takes an integer scalar as rng_seed, not a tensor", "", 1),
    ("rand_like", [MATRIX, True, 0], {}, "rand_like takes an integer scalar as rng_seed, not bool", "", 1),
    ("rand_like", [(I64, ("N",)), 1, 0], {}, "rand_like takes floating numbers, not int64", "", 0),
    ("rand_like", [1.0, 1, 0], {}, "rand_like takes a tensor, not a scalar", "", 0),
    ("uniform", [MATRIX, 1.0, 1, 0], {"shape": ()}, "uniform takes a number as minval, not a tensor", "", 0),
    ("uniform", [0.0, False, 1, 0], {"shape": ()}, "uniform takes a number as maxval, not bool", "", 1),
    ("uniform", [0.0, 1.0, F64, 0], {"shape": ()}, "uniform takes an integer scalar as rng_seed, not double", "", 2),
    ("uniform", [0, 1, 1, 0], {"shape": (), "dtype": I64}, "uniform yields floating numbers, not int64", "", None),
    ("dropout", [MATRIX, 1.0, 1, 0], {}, "dropout: p is 1, not in [0, 1)", P_HINT, 1),
    ("dropout", [MATRIX, -0.25, 1, 0], {}, "dropout: p is -0.25, not in [0, 1)", P_HINT, 1),
    ("dropout", [MATRIX, float("nan"), 1, 0], {}, "dropout: p is nan, not in [0, 1)", P_HINT, 1),
    ("dropout", [MATRIX, 3, 1, 0], {}, "dropout: p is 3, not in [0, 1)", P_HINT, 1),
    ("dropout", [MATRIX, MATRIX, 1, 0], {}, "dropout takes a number as p, not a tensor", "", 1),
    ("dropout", [MATRIX, False, 1, 0], {}, "dropout takes a number as p, not bool", "", 1),
    ("dropout", [MATRIX, 0.5, 1.5, 0], {}, "dropout takes an integer scalar as rng_seed, not double", "", 2),
    ("dropout", [(I32, ("N",)), 0.5, 1, 0], {}, "dropout takes floating numbers, not int32", "", 0),
    ("philox_uniform", [MATRIX, 1, 0], {}, "philox_uniform takes a tensor of integers, not float", "", 0),
    ("philox_uniform", [3, 1, 0], {}, "philox_uniform takes a tensor, not a scalar", "", 0),
    ("philox_normal", [MATRIX, 1, 0], {}, "philox_normal takes a tensor of integers, not float", "", 0),
    ("philox_normal", [(I64, ("N",)), 1.0, 0], {}, "philox_normal takes an integer scalar as rng_seed, not double", "",
     1),
    ("normal", [MATRIX, 1.0, 1, 0], {"shape": ()}, "normal takes a number as mean, not a tensor", "", 0),
    ("normal", [0.0, False, 1, 0], {"shape": ()}, "normal takes a number as std, not bool", "", 1),
    ("normal", [0.0, -0.5, 1, 0], {"shape": ()}, "normal: std is -0.5, which is no deviation", "std is 0 or more", 1),
    ("normal", [0, float("nan"), 1, 0], {"shape": ()}, "normal: std is nan, which is no deviation", "std is 0 or more",
     1),
    ("normal", [0, 1, 1, 0], {"shape": (), "dtype": I32}, "normal yields floating numbers, not int32", "", None),
    ("randn_like", [(I64, ("N",)), 1, 0], {}, "randn_like takes floating numbers, not int64", "", 0),
    ("randn_like", [MATRIX, 1, 1.0], {}, "randn_like takes an integer scalar as rng_offset, not double", "", 2),
    ("normal_around", [(F64, ("N",)), 1, 2], {}, "normal_around takes a tensor of float, not double", "", 0),
    ("uniform_between", [(F64, ("N",)), 1, 2], {}, "uniform_between takes a tensor of float, not double", "", 0),
]  # fmt: skip


@pytest.mark.parametrize(("op", "operands", "named", "message", "hint", "culprit"), [*INDEXING, *RANDOM])
def test_error(
    op: str, operands: Sequence[Operand], named: dict[str, Any], message: str, hint: str, culprit: int | None
) -> None:
    with pytest.raises(TypeRuleError) as caught:
        result_types(op, operands, **named)
    assert (caught.value.message, caught.value.hint, caught.value.operand) == (message, hint, culprit)
