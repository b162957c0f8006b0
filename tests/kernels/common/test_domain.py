"""Iteration domains: which dims share a loop, in which order, and which loops merge into one axis."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from fusebuild.ir.formula import Formula
from fusebuild.ir.fusion import Task
from fusebuild.kernels.common.domain import AxisDomain, Domain, domain_of
from fusebuild.kernels.common.spec import axis_domain, try_domain
from fusebuild.kernels.common.unfit import UnfitError
from fusebuild.segmentation.segmented import dense_outputs
from support.small_recipes import whole


def by_name(task: Task, domain: Domain) -> dict[str, tuple[int | None, ...]]:
    """The loops of each named value's dims."""
    return {task.fusion.value(fid).name: loops for fid, loops in domain.dims.items()}


def loops_of(domain: Domain) -> list[tuple[Formula, bool]]:
    return [(loop.extent, loop.reduced) for loop in domain.loops]


def axes_of(task: Task) -> list[tuple[Formula, bool]]:
    return [(axis.extent, axis.reduced) for axis in axis_domain(task).axes]


def strides_of(task: Task) -> Mapping[str, tuple[Formula | None, ...]]:
    domain = axis_domain(task)
    axes = range(len(domain.axes))
    return {
        task.fusion.value(fid).name: tuple(access.strides.get(axis, 0) for axis in axes)
        for fid, access in domain.accesses.items()
    }


def softmax_like() -> Task:
    return whole({"x": "float[M, N]"}, "m = max(x, dims=[1], keepdim=True)\ny = x - m", {"y": "float"})


class TestLoops:
    def test_pointwise_dims_share_loops_from_the_right(self) -> None:
        task = whole({"x": "float[M, N]", "b": "float[N]"}, "y = x + b", {"y": "float"})
        domain = domain_of(task)
        assert loops_of(domain) == [("M", False), ("N", False)]
        assert by_name(task, domain)["x"] == (0, 1)
        assert by_name(task, domain)["b"] == (1,)

    def test_a_dim_of_size_one_has_no_loop(self) -> None:
        task = whole({"x": "float[M, N]", "c": "float[M, 1]"}, "y = x + c", {"y": "float"})
        assert by_name(task, domain_of(task))["c"] == (0, None)

    def test_reductions_mark_their_loops_and_broadcasts_join_them_again(self) -> None:
        task = softmax_like()
        domain = domain_of(task)
        assert loops_of(domain) == [("M", False), ("N", True)]
        assert by_name(task, domain)["y"] == (0, 1)

    def test_squeeze_and_broadcast_follow_the_dims_they_keep(self) -> None:
        body = "s = squeeze(x, dims=[1])\nw = broadcast(s, is_broadcast_dim=[False, False, True])\ny = w + z"
        task = whole({"x": "float[M, 1, N]", "z": "float[M, N, K]"}, body, {"y": "float"})
        domain = domain_of(task)
        assert loops_of(domain) == [("M", False), ("N", False), ("K", False)]
        assert by_name(task, domain)["x"] == (0, None, 1)

    def test_loops_that_follow_the_same_loops_are_joined(self) -> None:
        body = "total = sum(x, dims=[1], keepdim=True)\nz = y * total"
        task = whole({"x": "float[M, N]", "y": "float[M, N]"}, body, {"z": "float"})
        domain = domain_of(task)
        assert loops_of(domain) == [("M", False), ("N", True)]
        assert by_name(task, domain)["y"] == (0, 1)

    def test_loops_of_unequal_extents_are_not(self) -> None:
        body = "total = sum(x, dims=[1], keepdim=True)\nz = y * total"
        task = whole({"x": "float[M, N]", "y": "float[M, K]"}, body, {"z": "float"})
        assert loops_of(domain_of(task)) == [("M", False), ("K", False), ("N", True)]

    def test_two_dims_of_one_extent_are_two_loops(self) -> None:
        task = whole({"x": "float[N, N]"}, "y = -x", {"y": "float"})
        assert loops_of(domain_of(task)) == [("N", False), ("N", False)]

    def test_a_full_reduction_keeps_no_loop(self) -> None:
        task = whole({"x": "float[M, N]"}, "y = sum(x, dims=[0, 1])", {"y": "float"})
        assert loops_of(domain_of(task)) == [("M", True), ("N", True)]

    def test_an_outer_reduction_comes_first_where_tensors_say_so(self) -> None:
        task = whole({"x": "float[M, N]"}, "y = sum(x, dims=[0])", {"y": "float"})
        assert loops_of(domain_of(task)) == [("M", True), ("N", False)]


class TestErrors:
    def test_one_loop_twice_in_one_tensor(self) -> None:
        body = "c = broadcast(v, is_broadcast_dim=[False, True])\nr = broadcast(v, is_broadcast_dim=[True, False])\n"
        task = whole({"v": "float[N]"}, body + "y = c * r", {"y": "float"})
        with pytest.raises(UnfitError, match=r"^a tensor walks one loop with two of its dims$"):
            domain_of(task)

    def test_a_tensor_that_disagrees_with_the_order_of_the_output_is_named(self) -> None:
        body = "y = a + permute(b, [1, 0])"
        task = whole({"a": "float[M, N]", "b": "float[N, M]"}, body, {"y": "float"})
        domain = domain_of(task)
        assert {task.fusion.value(fid).name for fid in domain.reordered} == {"b"}
        assert loops_of(domain) == [("M", False), ("N", False)]
        assert by_name(task, domain)["b"] == (1, 0)
        assert strides_of(task) == {"a": ("N", 1), "b": (1, "M"), "y": ("N", 1)}

    def test_only_pointwise_kernels_walk_tensors_in_different_orders(self) -> None:
        body = "y = permute(x, [1, 0])\nz = sum(y, dims=[1])"
        task = whole({"x": "float[M, N]"}, body, {"y": "float", "z": "float"})
        with pytest.raises(UnfitError, match=r"^x holds the same dims in another order$"):
            try_domain(task)

    def test_orders_that_disagree(self) -> None:
        body = (
            "row = sum(x, dims=[0])\ncolumn = sum(x, dims=[1])\n"
            "a = broadcast(row, is_broadcast_dim=[False, True])\n"
            "b = broadcast(column, is_broadcast_dim=[True, False])\n"
            "y = a + b"
        )
        task = whole({"x": "float[M, N]"}, body, {"y": "float"})
        with pytest.raises(UnfitError, match=r"^x holds the same dims in another order$"):
            try_domain(task)

    def test_an_overwritten_input_that_is_read_with_other_dims(self) -> None:
        body = "y = sum(broadcast(x, is_broadcast_dim=[True, False]) * w, dims=[1])"
        task = whole({"x": "float[N]", "w": "float[N, N]"}, body, {"y": "{dtype: float, alias: x}"})
        with pytest.raises(UnfitError, match=r"^x is overwritten by y but read with other dims$"):
            axis_domain(task)

    def test_an_overwritten_input_that_is_read_where_it_is_written(self) -> None:
        task = whole({"x": "float[M, N]"}, "y = -x", {"y": "{dtype: float, alias: x}"})
        assert axes_of(task) == [(("mul", "M", "N"), False)]


class TestMerging:
    def test_dense_tensors_merge_to_one_axis(self) -> None:
        task = whole({"x": "float[B, M, N]"}, "y = -x", {"y": "float"})
        assert axes_of(task) == [(("mul", "B", "M", "N"), False)]
        assert set(strides_of(task).values()) == {(1,)}

    def test_a_broadcast_keeps_its_axis_apart(self) -> None:
        task = whole({"x": "float[B, M, N]", "b": "float[N]"}, "y = x + b", {"y": "float"})
        assert axes_of(task) == [(("mul", "B", "M"), False), ("N", False)]
        assert strides_of(task)["b"] == (0, 1)
        assert strides_of(task)["x"] == ("N", 1)

    def test_a_broadcast_in_the_middle_gives_three_axes(self) -> None:
        task = whole({"x": "float[B, M, N]", "b": "float[B, 1, N]"}, "y = x + b", {"y": "float"})
        assert axes_of(task) == [("B", False), ("M", False), ("N", False)]
        assert strides_of(task)["b"] == ("N", 0, 1)

    def test_broadcasts_over_the_same_dims_merge(self) -> None:
        task = whole({"x": "float[B, M, N]", "b": "float[B, 1, 1]"}, "y = x + b", {"y": "float"})
        assert axes_of(task) == [("B", False), (("mul", "M", "N"), False)]

    def test_reduced_axes_merge_only_with_reduced_ones(self) -> None:
        task = whole({"x": "float[B, M, N, K]"}, "y = sum(x, dims=[2, 3])", {"y": "float"})
        assert axes_of(task) == [(("mul", "B", "M"), False), (("mul", "N", "K"), True)]

    def test_a_strided_tensor_keeps_its_dims_apart(self) -> None:
        layout = '{dtype: "float[M, N]", contiguity: [false, true]}'
        task = whole({"x": layout}, "y = -x", {"y": "float"})
        assert axes_of(task) == [("M", False), ("N", False)]
        domain = axis_domain(task)
        (x, y) = domain.accesses.values()
        assert (x.strides, x.dims) == ({0: None, 1: 1}, {0: 0, 1: 1})
        assert not domain.is_contiguous(x)
        assert (y.strides, domain.is_contiguous(y)) == ({0: "N", 1: 1}, True)

    def test_constant_sizes_fold(self) -> None:
        task = whole({"x": "float[4, N, 8]"}, "y = -x", {"y": "float"})
        assert axes_of(task) == [(("mul", 32, "N"), False)]

    def test_the_loop_of_an_iota_stays_alone(self) -> None:
        task = whole({"x": "float[M, N]"}, "y = x + iota(N)", {"y": "float"})
        assert axes_of(task) == [("M", False), ("N", False)]

    def test_zero_dim_tensors_have_no_axes(self) -> None:
        task = whole({"x": "float[]"}, "y = -x", {"y": "float"})
        assert axes_of(task) == []
        assert axis_domain(task).is_contiguous(next(iter(axis_domain(task).accesses.values())))


class TestDroppedAxes:
    def test_the_loops_of_a_view_that_is_stored_compactly_are_dropped(self) -> None:
        layout = '{dtype: "float[B, N]", contiguity: [null, true]}'
        task = whole({"x": layout}, "y = sum(-x, dims=[1])", {"y": "float"})
        assert axes_of(task) == [("N", True)]
        assert axes_of(dense_outputs(task.fusion).whole()) == [("B", False), ("N", True)]

    def test_a_reduced_loop_is_never_dropped(self) -> None:
        layout = '{dtype: "float[M, N]", contiguity: [true, null]}'
        task = whole({"x": layout}, "y = sum(x, dims=[1])", {"y": "float"})
        assert axes_of(task) == [("M", False), ("N", True)]


def test_values_change_along_the_axes_they_are_no_broadcast_on() -> None:
    task = whole({"x": "float[M, N]", "b": "float[N]"}, "y = x * exp(b)", {"y": "float"})
    domain: AxisDomain = axis_domain(task)
    names = {value.name: value for value in task.fusion.values.values()}
    changing = {
        name: domain.axes_of(value.fid, value.tensor)
        for name, value in names.items()
        if value.fid in domain.domain.dims
    }
    assert changing["b"] == {1}
    assert changing["x"] == {0, 1}


def test_dims_of_size_1_are_no_loops_of_a_reduction_over_longer_ones() -> None:
    task = whole({"x": "float[M, 1]"}, "y = sum(x, dims=[0, 1])", {"y": "float"})
    assert [(loop.extent, loop.reduced) for loop in domain_of(task).loops] == [("M", True)]
