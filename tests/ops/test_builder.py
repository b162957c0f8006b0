"""The recorder: fids, names and types of what it records, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fusebuild.errors import InvalidFusionError
from fusebuild.ir.dtype import DType
from fusebuild.ir.types import ScalarType, tensor_type
from fusebuild.ir.values import attributes
from fusebuild.ops.builder import FusionBuilder, literal_dtype
from fusebuild.ops.type_rules import TypeRuleError

F32, F64, BF16, I64, I32, BOOL = DType.FLOAT, DType.DOUBLE, DType.BFLOAT16, DType.INT64, DType.INT32, DType.BOOL


@pytest.mark.parametrize(("literal", "dtype"), [(True, BOOL), (3, I64), (0.5, F64)])
def test_literals_without_a_dtype(literal: bool | int | float, dtype: DType) -> None:
    assert literal_dtype(literal) is dtype


class TestValues:
    def test_fids_follow_the_order_of_recording(self) -> None:
        b = FusionBuilder("f", first_fid=5)
        values = [b.tensor(F32, ("M",)), b.scalar(F64), b.constant(2), b.call("neg", [b.values[5]])[0]]
        assert [(value.fid, value.name) for value in values] == [(5, "t5"), (6, "s6"), (7, "s7"), (8, "t8")]

    def test_names_given_win(self) -> None:
        b = FusionBuilder("f")
        x = b.tensor(F32, ("M", "N"), name="x")
        var, mean = b.call("var_mean", [x], {"dims": (1,)}, names=["var"])
        assert (var.name, mean.name) == ("var", "t2")

    def test_constants_become_what_their_dtype_holds(self) -> None:
        b = FusionBuilder("f")
        whole = b.constant(3, dtype=F32)
        assert isinstance(whole.literal, float)
        assert whole.type == ScalarType(dtype=F32)
        assert b.constant(True).literal is True

    def test_layouts(self) -> None:
        b = FusionBuilder("f")
        x = b.tensor(F32, ("M", 1, "N"), contiguity=(False, True, None), stride_order=(1, 2, 0))
        assert x.tensor.contiguity == (False, None, None)
        assert x.tensor.stride_order == (1, 2, 0)


class TestCalls:
    def test_attributes_are_complete_sorted_and_normalized(self) -> None:
        b = FusionBuilder("f")
        x = b.tensor(F32, ("M", "N"))
        b.call("sum", [x], {"dims": (-1,)})
        b.call("sum", [x])
        assert b.exprs[0].attributes == attributes(dims=(1,), dtype=None, keepdim=False)
        assert b.exprs[1].dims == (0, 1)

    def test_results_may_keep_fids_that_exist(self) -> None:
        b = FusionBuilder("f")
        x = b.tensor(BF16, ("M",), name="x")
        (y,) = b.call("neg", [x], names=["y"])
        (again,) = b.call("set", [x], results=[y.fid])
        assert (again.fid, again.name, again.dtype) == (1, "y", BF16)
        assert b.exprs[-1].outputs == (1,)

    def test_extending_starts_with_the_values_and_no_exprs(self) -> None:
        b = FusionBuilder("f", doc="words")
        x = b.tensor(F32, ("M",))
        b.output(b.call("neg", [x])[0], name="y")
        extended = FusionBuilder.extending(b.finish(recorded=10))
        assert (extended.name, extended.doc, extended.exprs) == ("f", "words", [])
        assert sorted(extended.values) == [0, 1]
        assert extended.constant(1.0).fid == 10


class TestOutputs:
    def test_take_the_values_name_unless_given_one(self) -> None:
        b = FusionBuilder("f")
        x = b.tensor(F32, ("M",), name="x")
        (y,) = b.call("neg", [x], names=["y"])
        b.output(y)
        b.output(y, name="again", alias=x)
        assert [(output.fid, output.name, output.alias) for output in b.outputs] == [(1, "y", None), (1, "again", 0)]

    def test_finish_verifies(self) -> None:
        b = FusionBuilder("f")
        x = b.tensor(F32, ("M",))
        b.output(b.call("neg", [x])[0])
        b.exprs.clear()
        with pytest.raises(InvalidFusionError, match=r"^fusion f: output fid 1 is never defined$"):
            b.finish()


def _contiguity(b: FusionBuilder) -> None:
    b.tensor(F32, ("M", "N"), contiguity=(True,))


def _stride_order(b: FusionBuilder) -> None:
    b.tensor(F32, ("M", "N"), stride_order=(0, 2))


def _cpu(b: FusionBuilder) -> None:
    b.tensor(F32, ("M",), cpu=True)


def _constant(b: FusionBuilder) -> None:
    b.constant(0.5, dtype=I32)


def _scalar_output(b: FusionBuilder) -> None:
    b.output(b.scalar(F64, name="eps"))


def _alias_of_scalar(b: FusionBuilder) -> None:
    b.output(b.tensor(F32, ("M",)), name="y", alias=b.scalar(F64, name="eps"))


def _alias_dtype(b: FusionBuilder) -> None:
    x = b.tensor(BF16, ("M",), name="x")
    b.output(b.call("neg", [x])[0], name="y", alias=x)


def _alias_shape(b: FusionBuilder) -> None:
    x = b.tensor(F32, ("M", "N"), name="x")
    b.output(b.call("sum", [x], {"dims": (1,)})[0], name="y", alias=x)


def _alias_of_expanded(b: FusionBuilder) -> None:
    x = b.tensor(F32, ("M", "N"), name="x", contiguity=(None, True))
    b.output(b.call("add", [x, b.tensor(F32, ("M", "N"))])[0], name="y", alias=x)


@pytest.mark.parametrize(
    ("record", "message", "hint"),
    [
        (_contiguity, "contiguity has 1 flag for 2 dims", ""),
        (_stride_order, "stride_order [0, 2] is no permutation of 0 to 1", ""),
        (_cpu, "a cpu tensor must have no dims; it is read as a scalar", ""),
        (_constant, "0.5 is no int32", ""),
        (_scalar_output, "output eps is a scalar; outputs are tensors", ""),
        (_alias_of_scalar, "output y aliases eps, which is no tensor", ""),
        (
            _alias_dtype,
            "output y is float but aliases x, which is bfloat16",
            "give the output the dtype of the input that it overwrites",
        ),
        (_alias_shape, "output y is float[M] and cannot overwrite x, which is float[M, N]", ""),
        (_alias_of_expanded, "output y is float[M, N] and cannot overwrite x, which is float[M~, N]", ""),
    ],
)
def test_refusals(record: Callable[[FusionBuilder], None], message: str, hint: str) -> None:
    with pytest.raises(TypeRuleError) as caught:
        record(FusionBuilder("f"))
    assert (caught.value.message, caught.value.hint) == (message, hint)


def test_a_refused_call_records_nothing() -> None:
    b = FusionBuilder("f")
    x, y = b.tensor(F32, ("M",)), b.tensor(F32, ("N",))
    with pytest.raises(TypeRuleError):
        b.call("add", [x, y])
    assert (b.exprs, sorted(b.values)) == ([], [0, 1])
    assert b.call("neg", [x])[0].type == tensor_type(F32, ("M",))
