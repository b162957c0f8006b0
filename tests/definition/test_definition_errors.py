"""What is wrong with a call of a definition, said where the author made it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from fusebuild.definition import DataType, FusionDefinition
from fusebuild.definition.ops import _bind
from fusebuild.definition.recorder import shape_problem
from fusebuild.definition.spellings import AS_IN_OPS
from fusebuild.errors import RecipeError, UsageError
from fusebuild.ops.table import OPS
from fusebuild.ops.type_rules import TypeRuleError

torch = pytest.importorskip("torch")


def mistake(record: Callable[[FusionDefinition], Any]) -> tuple[str, ...]:
    """The error of ``record``, a function of one line, without file and line."""
    source, line = inspect.getsourcelines(record)
    with pytest.raises(RecipeError) as caught:
        record(FusionDefinition())
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.location.path.endswith("test_definition_errors.py")
    assert line <= diagnostic.location.line <= line + len(source)
    return (diagnostic.message, diagnostic.hint) if diagnostic.hint else (diagnostic.message,)


def test_an_error_shows_the_call_in_the_authors_file() -> None:
    fd = FusionDefinition()
    x, y = fd.define_tensor([2, 3]), fd.define_tensor([4])
    with pytest.raises(RecipeError) as caught:
        fd.ops.exp(fd.ops.add(x, y))
    line = caught.value.diagnostics[0].location.line
    path = caught.value.diagnostics[0].location.path
    assert str(caught.value) == (
        f"{path}:{line}:20: error: shapes do not broadcast: dim 1 is 3 in one operand and 4 in another\n"
        "          fd.ops.exp(fd.ops.add(x, y))\n"
        "                     ^~~~~~~~~~~~~~~~\n"
        "  hint: extents must be the same symbol, the same number, or the constant 1"
    )


def test_mistakes_in_calls() -> None:
    signature = "the signature is add(lhs, rhs)"
    assert mistake(lambda fd: fd.ops.addd(1, 2)) == ("unknown op 'addd'", "did you mean 'add'?")
    assert mistake(lambda fd: fd.ops.add(1)) == ("add needs the argument 'rhs'", signature)
    assert mistake(lambda fd: fd.ops.add(1, 2, 3)) == ("add takes 2 arguments, not 3", signature)
    assert mistake(lambda fd: fd.ops.add(1, 2, lhs=3)) == ("add: the argument 'lhs' is given twice", signature)
    assert mistake(lambda fd: fd.ops.add(1, b=2)) == ("add has no argument 'b'", signature)
    assert mistake(lambda fd: fd.ops.add(1, "2")) == ("add takes tensors, scalars and numbers, not str",)
    assert mistake(lambda fd: fd.ops.add(1, fd.define_vector([2]))) == (
        "add takes tensors, scalars and numbers, not a vector",
    )
    assert mistake(lambda fd: fd.ops.cast(1, DataType.Null))[0] == "cast needs the argument 'dtype'"
    assert mistake(lambda fd: fd.ops.cast(1, "float")) == ("cast: dtype must be a DataType, not 'float'",)
    assert mistake(lambda fd: fd.define_tensor([3]) & 1) == ("bitwise_and takes integers or bool, not float",)


def test_mistakes_in_dims_and_shapes() -> None:
    assert mistake(lambda fd: fd.ops.sum(fd.define_tensor([3]), [1]))[0] == (
        "sum: dim 1 is out of range for a tensor of rank 1"
    )
    assert mistake(lambda fd: fd.ops.sum(fd.define_tensor([3]), "0")) == ("sum: dims must be a list of integers",)
    assert mistake(lambda fd: fd.ops.sum(fd.define_tensor([3]), [0], 1)) == (
        "sum: keepdim must be True or False, not 1",
    )
    assert mistake(lambda fd: fd.define_tensor([3]).size(1)) == ("size: dim 1 is out of range for a tensor of rank 1",)
    assert mistake(lambda fd: fd.ops.expand(fd.define_tensor([3]), 4)) == (
        "expand: shape must be a vector, or a list of integers and scalars",
    )
    assert mistake(lambda fd: fd.ops.expand(fd.define_tensor([3]), [-2])) == ("expand: the extent is -2, less than 0",)
    assert mistake(lambda fd: fd.ops.full([2.5], 1.0)) == ("a size is an integer or a scalar, not 2.5",)
    assert mistake(lambda fd: fd.ops.full([fd.define_scalar(None, DataType.Double)], 1.0)) == (
        "full: s0 is double, and a size is an integer",
        "define it with dtype=DataType.Int, or cast it",
    )
    assert mistake(lambda fd: fd.ops.broadcast(fd.define_tensor([3]), [0, 1])) == (
        "broadcast: is_broadcast_dim must be a list of True and False",
    )
    assert shape_problem("full", -1) == "full: the extent is -1, less than 0"
    assert shape_problem("expand", -1) == ""


def test_mistakes_in_definitions() -> None:
    assert mistake(lambda fd: fd.define_tensor([-2])) == (
        "define_tensor: a size is -1 (unknown), 0 or more, not -2",
    )  # fmt: skip
    assert mistake(lambda fd: fd.define_tensor([3], contiguity=[True, True])) == (
        "contiguity has 2 flags for 1 dim",
    )  # fmt: skip
    assert mistake(lambda fd: fd.define_tensor([3], shapes=3)) == ("define_tensor has no argument 'shapes'",)
    assert mistake(lambda fd: fd.define_tensor()) == (
        "define_tensor needs a shape, such as shape=[-1, -1], or a number of dims",
    )
    assert mistake(lambda fd: fd.define_tensor([3], is_cpu=True)) == (
        "a cpu tensor must have no dims; it is read as a scalar",
    )
    assert mistake(lambda fd: fd.from_pytorch(torch.zeros(2, dtype=torch.complex64))) == (
        "there is no DataType for torch.complex64",
    )
    assert mistake(lambda fd: fd.define_scalar("3")) == ("a constant is a number, True or False, not str",)
    assert mistake(lambda fd: fd.define_scalar(2.5, DataType.Int)) == ("2.5 is no int64",)
    assert mistake(lambda fd: fd.define_scalar(2**63)) == (f"the integer {2**63} does not fit 64 bits",)
    assert mistake(lambda fd: fd.define_scalar(None, DataType.Half)) == (
        "a scalar cannot be Half", "scalars are Double, Float, Int, Int32, Bool",
    )  # fmt: skip
    assert mistake(lambda fd: fd.define_vector(3)) == ("define_vector takes a list of integers and scalars",)


def test_mistakes_in_outputs() -> None:
    assert mistake(lambda fd: fd.add_output(fd.define_scalar(1))) == ("an output is a tensor, not a scalar",)
    assert mistake(lambda fd: fd.add_output(FusionDefinition().define_tensor([2]))) == (
        "Tensor(index=0, float[2?]) belongs to another definition",
    )
    assert mistake(lambda fd: fd.add_output(fd.define_tensor([2, 2]), stride_order=[0, 2])) == (
        "stride_order [0, 2] is no order of 2 dims",
    )
    assert mistake(lambda fd: fd.ops.stride_order(fd.define_tensor([2]), 0)) == ("stride_order 0 is no order of 1 dim",)
    assert mistake(lambda fd: fd.add_output((x := fd.define_tensor([2, 2])) + 1.0, x, stride_order=[0, 1])) == (
        "stride_order [0, 1]: an output that overwrites an input lies as that does, [1, 0]",
    )
    assert mistake(lambda fd: fd.fusion) == ("the definition has no outputs", "end it with fd.add_output(tensor)")


def test_a_finished_definition_records_nothing_more() -> None:
    with FusionDefinition() as fd:
        fd.add_output(fd.define_tensor([2]) + 1.0)
    with pytest.raises(RecipeError, match="error: the definition is finished"):
        fd.define_tensor([2])


def test_an_exception_in_the_block_is_not_hidden() -> None:
    with pytest.raises(ZeroDivisionError), FusionDefinition() as fd:
        fd.define_scalar(1 / 0)


@pytest.mark.parametrize("name", ["a/b", "float", "1st"])
def test_a_name_that_no_recipe_can_have_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match=f"'{name}' is "):
        FusionDefinition(name=name)


def test_one_argument_is_not_plural() -> None:
    with pytest.raises(TypeRuleError) as caught:
        _bind(OPS["sqrt"], AS_IN_OPS, (1, 2), {})
    assert caught.value.message == "sqrt takes 1 argument, not 2"
