"""The dims that two shapes are made of."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusebuild.ir.algebra import NO_FACTS
from fusebuild.ir.formula import Formula, product
from fusebuild.ops.indexing import reshape_groups
from fusebuild.passes.refinement import common_refinement


@pytest.mark.parametrize(
    ("old", "new", "common"),
    [
        ((6, "P", 2), (2, ("mul", 6, "P")), (2, 3, "P", 2)),
        (("N", ("mul", 4, "C"), "H"), (("mul", "N", 2), ("mul", 2, "C", "H")), ("N", 2, ("mul", 2, "C"), "H")),
        (("N", 6, "H"), (("mul", "N", 2), 3, "H"), ("N", 2, 3, "H")),
        (("M", "N"), (("mul", "M", "N"),), ("M", "N")),
        ((8, "N"), (2, 4, "N"), (2, 4, "N")),
        ((6, 4), (8, 3), None),
    ],
)
def test_of_two_shapes(old: tuple[Formula, ...], new: tuple[Formula, ...], common: tuple[Formula, ...] | None) -> None:
    assert common_refinement(old, new, NO_FACTS) == common


@given(st.lists(st.sampled_from([2, 3, "M", "N", 5]), min_size=2, max_size=6), st.data())
def test_merges_into_both(parts: list[Formula], data: st.DataObject) -> None:
    def merged() -> tuple[Formula, ...]:
        cuts = sorted(data.draw(st.sets(st.integers(1, len(parts) - 1))))
        bounds = zip([0, *cuts], [*cuts, len(parts)], strict=True)
        return tuple(product(parts[first:last]) for first, last in bounds)

    old, new = merged(), merged()
    common = common_refinement(old, new, NO_FACTS)
    assert common is not None
    for shape in (old, new):
        groups = reshape_groups(common, shape, NO_FACTS)
        assert groups is not None
        assert all(len(new_run) == 1 for _, new_run in groups)
