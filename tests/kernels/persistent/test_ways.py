"""The ways to keep rows on chip, as a list: which has a view, which comes before which, and which is asked."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fusebuild.kernels.common.spec import axis_domain, hint
from fusebuild.kernels.persistent import FAMILY, beyond_registers, long_rows, tiled
from fusebuild.kernels.persistent.schedule import WAYS
from fusebuild.kernels.persistent.way import RowTask
from fusebuild.target.table import TARGETS
from support.small_recipes import whole

SM_90 = TARGETS["sm_90"]


def rows(columns: str) -> RowTask:
    """Row sums that are subtracted again, of bfloat16 rows of so many ``columns``."""
    task = whole({"x": f"bfloat16[M, {columns}]"}, "y = x - sum(x, dims=[1], keepdim=True)", {"y": "bfloat16"})
    extent = axis_domain(task).axes[1].extent
    return RowTask(
        task=task, target=SM_90, columns=extent, size=hint(extent, {}), sizes={}, vec=8, cached=(0,), kept=(), tuned={}
    )


def test_every_template_of_a_way_has_a_view_and_every_view_a_way() -> None:
    assert {way.TEMPLATE for way in WAYS} | {long_rows.Edged.SAMPLED_TEMPLATE} == {*FAMILY.views}


def test_the_last_way_takes_all_rows() -> None:
    (variant,) = WAYS[-1].of(rows("N")).variants()
    assert (WAYS[-1], variant.guard) == (beyond_registers.Elements, ())


@pytest.mark.parametrize(("columns", "is_asked"), [("N", True), ("1003", True), ("1024", False)])
def test_ways_for_odd_rows_are_asked_where_rows_may_be_odd(columns: str, is_asked: bool) -> None:
    asked = [way for way in WAYS if way.FOR_ODD_ROWS and way.of(rows(columns)).applies(())]
    assert bool(asked) is is_asked


def test_odd_rows_of_a_known_length_are_taken_by_one_way() -> None:
    known, unknown = tiled.Tiled.of(rows("1003")), tiled.Tiled.of(rows("N"))
    assert not known.applies((long_rows.Edged,))
    assert unknown.applies((long_rows.Edged,))
    assert replace(known, vec=1).is_odd is False


@pytest.mark.parametrize("dtype", ["double", "float", "bfloat16"])
def test_variants_have_names_of_their_own(dtype: str) -> None:
    """A norm of rows that share a scale with the others of their sample: two ways have kernels for long ones."""
    inputs = {"x": f"{dtype}[A, B, D]", "scale": "bool[A, D]"}
    body = (
        "m = broadcast(scale, [False, True, False])\nc = (x - sum(x * m, dims=[2], keepdim=True)) * m\n"
        "y = c * rsqrt(sum(c * c, dims=[2], keepdim=True) + 1.0)"
    )
    task = whole(inputs, body, {"y": dtype})
    for target in (TARGETS["sm_90"], TARGETS["host"]):
        names = [variant.name for variant in FAMILY.schedule(task, target, {})]
        assert len({*names}) == len(names)
