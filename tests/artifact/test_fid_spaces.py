"""Fids of a segment and fids of the whole fusion are two types: a type checker finds where one stands for the other."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from fusebuild.artifact.plan import (
    Arg,
    ExtentArg,
    FormulaArg,
    Launch,
    LibraryCall,
    ScalarArg,
    StrideArg,
    TensorArg,
    WorkspaceArg,
    renumber,
)
from fusebuild.ir.fid import OriginalFid, SegmentFid
from support.places import ROOT

FIDS = {SegmentFid(0): OriginalFid(7), SegmentFid(1): OriginalFid(3)}
SNIPPET = """\
from fusebuild.artifact.plan import Arg, Launch, LibraryCall, PlanSegment, TensorArg, renumber
from fusebuild.ir.fid import OriginalFid, SegmentFid
from fusebuild.kernels.common.spec import KernelParameter
from fusebuild.segmentation import Segment

own, original = SegmentFid(0), OriginalFid(7)
own_arg: Arg[SegmentFid] = TensorArg(fid=own)
original_arg: Arg[OriginalFid] = TensorArg(fid=original)

def launch(arg: Arg[OriginalFid]) -> Launch:
    return Launch(kernel="k", grid=(1, 1, 1), block=(1, 1, 1), args=(arg,))

def parameter(arg: Arg[SegmentFid]) -> KernelParameter:
    return KernelParameter(c_type="float", name="T0", arg=arg, comment="")

def planned(segment: Segment, call: LibraryCall[SegmentFid]) -> tuple[LibraryCall[OriginalFid], OriginalFid]:
    launch(original_arg)
    parameter(own_arg)
    launch(renumber(own_arg, segment.fid_map))
    segment.fid_map[own]
    launch(own_arg)  # wrong
    parameter(original_arg)  # wrong
    parameter(renumber(own_arg, segment.fid_map))  # wrong
    renumber(original_arg, segment.fid_map)  # wrong
    segment.fid_map[original]  # wrong
    TensorArg[OriginalFid](fid=own)  # wrong
    return call, own  # wrong

def mapped(segment: PlanSegment, call: LibraryCall[SegmentFid]) -> LibraryCall[OriginalFid]:
    segment.fid_map[segment.inputs[0]]  # wrong
    return renumber(call, segment.fid_map)
"""


def test_mixing_the_spaces_is_a_type_error(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mypy = pytest.importorskip("mypy.api")
    snippet = tmp_path / "snippet.py"
    snippet.write_text(SNIPPET, encoding="utf-8")
    monkeypatch.setenv("MYPYPATH", str(ROOT))
    options = ["--strict", "--follow-imports=silent", f"--cache-dir={cache / 'mypy'}", "--config-file="]
    printed, problems, _ = mypy.run([*options, str(snippet)])
    wrong = {number for number, line in enumerate(SNIPPET.splitlines(), 1) if line.endswith("# wrong")}
    assert {int(number) for number in re.findall(r"snippet\.py:(\d+): error", printed)} == wrong, printed + problems


@pytest.mark.parametrize(
    ("own", "original"),
    [
        (TensorArg(fid=SegmentFid(0)), TensorArg(fid=OriginalFid(7))),
        (StrideArg(fid=SegmentFid(1), dim=2), StrideArg(fid=OriginalFid(3), dim=2)),
        (ScalarArg(fid=SegmentFid(1)), ScalarArg(fid=OriginalFid(3))),
        (ExtentArg(fid=-1), ExtentArg(fid=-1)),
        (FormulaArg(formula=("mul", "M", "N")), FormulaArg(formula=("mul", "M", "N"))),
        (WorkspaceArg(slot=1), WorkspaceArg(slot=1)),
    ],
)
def test_an_argument_in_the_other_space(own: Arg[SegmentFid], original: Arg[OriginalFid]) -> None:
    assert renumber(own, FIDS) == original


def test_a_library_call_in_the_other_space() -> None:
    call = LibraryCall(op="matmul", dtype="half", a=SegmentFid(0), b=SegmentFid(1), out=SegmentFid(0), m="M", n=1, k=2)
    assert renumber(call, FIDS) == msgspec.structs.replace(call, a=7, b=3, out=7)
    assert renumber(msgspec.structs.replace(call, bias=1), FIDS).bias == 3


def test_a_guard_in_the_other_space() -> None:
    assert renumber(("aligned", 1, 16), FIDS) == ("aligned", 3, 16)
    assert renumber(("eq", ("mod", "N", 8), 0), FIDS) == ("eq", ("mod", "N", 8), 0)
    assert renumber(1, FIDS) == 1


def test_a_plan_says_which_of_its_fields_are_wrong() -> None:
    launch = Launch(kernel="k", grid=(1, 1, 1), block=(32, 1, 1), args=(TensorArg(OriginalFid(7)), ExtentArg(-1)))
    data = msgspec.json.encode(launch)
    assert msgspec.json.decode(data, type=Launch) == launch
    with pytest.raises(msgspec.ValidationError, match=r"Expected `int`, got `str` - at `\$\.args\[0\]\[1\]`"):
        msgspec.json.decode(data.replace(b'["tensor",7]', b'["tensor","7"]'), type=Launch)
