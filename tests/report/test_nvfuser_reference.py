"""The table of nvFuser's ops: what it claims is what the recorder takes, and the page shows what the rows say.

``pytest tests/report/test_nvfuser_reference.py --update-golden`` writes the page again.
"""

from __future__ import annotations

import inspect

import pytest

from fusebuild.definition import FusionDefinition
from fusebuild.definition.nvfuser import DEFINITION_CALLS, OP_CALLS, NvfuserCall, Support
from fusebuild.definition.ops import Ops, UnknownOpError, _bind
from fusebuild.definition.spellings import AS_IN_OPS, SPELLINGS
from fusebuild.errors import RecipeError
from fusebuild.ops.table import OPS
from fusebuild.report.nvfuser_reference import nvfuser_tables
from support.golden import Golden
from support.places import DOCS

INTRODUCTION = """\
# nvFuser's ops

<!-- Generated from fusebuild/definition/nvfuser.py by:
pytest tests/report/test_nvfuser_reference.py --update-golden -->

What a [definition](definition.md) takes of nvFuser's Python frontend, with the arguments and defaults that it has
there. *partly* means that the name is there and that an argument, or something that it may be, is refused.
[Ops](ops.md) has what each op means, and ops that nvFuser lacks.

"""
BOUND = [each for each in OP_CALLS if each.support is not Support.NO and not hasattr(Ops, each.name)]
"""The rows that the table of ops answers, and no method of ``Ops``."""
LACKING = [each for each in OP_CALLS if each.support is Support.NO]


def named(call: NvfuserCall) -> str:
    return call.name


def test_the_page_is_what_the_rows_say(golden: Golden) -> None:
    golden(DOCS / "guide" / "nvfuser_ops.md", INTRODUCTION + nvfuser_tables())


def test_rows_are_named_once() -> None:
    names = [each.name for each in (*OP_CALLS, *DEFINITION_CALLS)]
    assert len({*names}) == len(names)


@pytest.mark.parametrize("call", [*OP_CALLS, *DEFINITION_CALLS], ids=named)
def test_what_is_not_taken_whole_has_a_reason_and_the_rest_has_none(call: NvfuserCall) -> None:
    assert bool(call.lacks) is (call.support is not Support.YES)


@pytest.mark.parametrize("call", BOUND, ids=named)
def test_arguments_mean_the_same_by_position_and_by_nvfusers_names(call: NvfuserCall) -> None:
    """Every argument reaches a parameter of its own, whichever way it is given."""
    spelling = SPELLINGS.get(call.name, AS_IN_OPS)
    op = OPS[spelling.op or call.name]
    given = {name: f"value of {name}" for name in call.arguments}
    by_name = _bind(op, spelling, (), given)
    assert {*given.values()} <= {*by_name.values()}
    first, rest = call.arguments[: call.positional], call.arguments[call.positional :]
    by_position = _bind(op, spelling, [given[name] for name in first], {name: given[name] for name in rest})
    assert by_position == by_name


@pytest.mark.parametrize("call", [each for each in BOUND if each.support is Support.YES], ids=named)
def test_what_nvfuser_lets_callers_leave_out_may_be_left_out(call: NvfuserCall) -> None:
    spelling = SPELLINGS.get(call.name, AS_IN_OPS)
    _bind(OPS[spelling.op or call.name], spelling, (), dict.fromkeys(call.required, "given"))


@pytest.mark.parametrize("call", LACKING, ids=named)
def test_what_is_lacking_is_refused(call: NvfuserCall) -> None:
    fd = FusionDefinition()
    x = fd.define_tensor([-1, -1], True)
    with pytest.raises(RecipeError) as caught:
        getattr(fd.ops, call.name)(x)
    assert isinstance(caught.value, UnknownOpError) or call.name == "imag"
    words = "no complex dtypes" if call.name == "imag" else f"unknown op '{call.name}'"
    assert words in str(caught.value)


@pytest.mark.parametrize("call", [each for each in OP_CALLS if hasattr(Ops, each.name)], ids=named)
def test_ops_that_are_methods_have_nvfusers_arguments(call: NvfuserCall) -> None:
    assert tuple(inspect.signature(getattr(Ops, call.name)).parameters)[1:] == call.arguments


@pytest.mark.parametrize("call", DEFINITION_CALLS, ids=named)
def test_methods_of_definitions_have_nvfusers_arguments(call: NvfuserCall) -> None:
    method = getattr(FusionDefinition, call.name, None)
    assert (method is None) is (call.support is Support.NO)
    if method is not None and call.name != "execute":
        assert tuple(inspect.signature(method).parameters)[1:][: len(call.arguments)] == call.arguments
