"""Which segments are members of one group, where they stand, and what each is planned as."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fusebuild.artifact.plan import MOST_TABLE_BYTES
from fusebuild.passes import run_passes
from fusebuild.recipe.recipe import load_recipe
from fusebuild.segmentation import SegmentedFusion, segment
from fusebuild.segmentation.draft import Problem
from fusebuild.segmentation.segmenter import search
from fusebuild.segmentation.strangers import small_parts, strangers_in
from support.many_tensors import SM_90, clip_text, decay_text, groups, segmented
from support.places import RECIPES, TESTS
from support.small_recipes import primitive, text_of

SHAPES = ["M", "M, N", "7", "3, 5, 11", "K"]


def each_alone(count: int) -> list[None]:
    return [None] * count


def small(inputs: dict[str, str], body: str, outputs: dict[str, str]) -> SegmentedFusion:
    return segmented(text_of(inputs, body, outputs))


class TestWhatIsAlike:
    def test_tensors_of_any_shapes(self) -> None:
        assert groups(segmented(decay_text(SHAPES))) == [(0, 5)] * 5

    def test_tensors_of_one_shape(self) -> None:
        assert groups(segmented(decay_text(["N"] * 20))) == [(0, 20)] * 20

    def test_one_tensor_is_no_group(self) -> None:
        assert groups(segmented(decay_text(["M, N"]))) == [None]

    def test_reductions_to_one_element(self) -> None:
        found = small({"a": "half[M, N]", "b": "half[K]"}, "s = sum(a)\nt = sum(b)", {"s": "float", "t": "float"})
        assert groups(found) == [(0, 2)] * 2

    def test_whether_a_reduction_keeps_dims_matters(self) -> None:
        body = "s = sum(a, dims=[0, 1], keepdim=True)\nt = sum(b)"
        found = small({"a": "float[M, N]", "b": "float[K]"}, body, {"s": "float", "t": "float"})
        assert groups(found) == each_alone(2)

    @pytest.mark.parametrize(
        ("a", "b", "first", "second"),
        [
            ("float[M]", "float[N]", "exp(a)", "sin(b)"),
            ("float[M]", "half[N]", "exp(a)", "exp(b)"),
            ("float[M]", "float[N]", "a * 2.0", "b * 3.0"),
            ("float[M]", "float[N, K]", "exp(a)", "exp(sum(b, dims=[1]))"),
            ("float[M, N]", "float[K, L]", "sum(a, dims=[0])", "sum(b, dims=[0])"),
            ("float[M, N]", "float[K, L]", "permute(exp(a), [1, 0])", "permute(exp(b), [1, 0])"),
            ("float[M]", "float[N]", "a * iota(M, dtype=int64)", "b * iota(N, dtype=int64)"),
        ],
    )
    def test_what_is_not(self, a: str, b: str, first: str, second: str) -> None:
        found = small({"a": a, "b": b}, f"x = {first}\ny = {second}", {"x": "float", "y": "float"})
        assert groups(found) == each_alone(len(found.segments))

    def test_strides_of_the_callers_are_not(self) -> None:
        strided = '{type: "float[M, N]", contiguity: [false, true]}'
        found = small({"a": strided, "b": strided.replace("M", "K")}, "x = -a\ny = -b", {"x": "float", "y": "float"})
        assert groups(found) == each_alone(2)

    def test_scalars_that_one_of_them_computes_are_the_same_in_all(self) -> None:
        """The first needs ``1 - rate`` in the midst of its own exprs, the others before."""
        body = "y0 = exp(x0) * (1.0 - rate)\ny1 = exp(x1) * (1.0 - rate)"
        inputs, outputs = {"x0": "float[M]", "x1": "float[N]"}, {"y0": "float", "y1": "float"}
        assert groups(segmented(text_of(inputs, body, outputs, scalars={"rate": "float"}))) == [(0, 2)] * 2


class TestWhereTheyStand:
    def test_those_that_wait_for_others_are_another_group(self) -> None:
        body = "a = segment_set(exp(x))\nb = segment_set(exp(y))\nc = exp(a)\nd = exp(b)"
        found = small({"x": "float[M]", "y": "float[N]"}, body, {"c": "float", "d": "float"})
        assert groups(found) == [(0, 2), (0, 2), (2, 2), (2, 2)]
        assert [each.outputs for each in found.segments][:2] == [found.segments[2].inputs, found.segments[3].inputs]

    def test_a_reader_runs_before_what_overwrites(self) -> None:
        """The product reads what ``y`` overwrites, so that ``y`` comes after it, and not beside ``z``."""
        outputs = {"p": "float", "y": "{dtype: float, alias: a}", "z": "{dtype: float, alias: b}"}
        found = small({"a": "float[M, M]", "b": "float[N]"}, "p = matmul(a, a)\ny = exp(a)\nz = exp(b)", outputs)
        assert groups(found) == each_alone(3)
        place = {each.fusion.outputs[0].name: each.id for each in found.segments}
        assert place["p"] < place["y"]

    def test_a_norm_over_all_and_then_all_of_them(self) -> None:
        found = segmented(clip_text([f"N{i}" for i in range(30)]))
        counts = sorted({each.member.count for each in found.segments if each.member is not None})
        assert counts == [29, 30]
        assert sum(each.member is None for each in found.segments) == 1

    @settings(max_examples=25, deadline=None)
    @given(st.lists(st.sampled_from(["M", "N", "M, N", "1", "5", "0", "2, 3"]), min_size=1, max_size=14), st.booleans())
    def test_members_are_neighbours_and_wait_for_nothing_of_each_other(self, shapes: list[str], clips: bool) -> None:
        found = segmented(clip_text(shapes) if clips else decay_text(shapes))
        made: dict[int, int] = {}
        for each in found.segments:
            together = found.together(each)
            assert each.id in together
            assert {found.together(found.segments[other]) for other in together} == {together}
            assert all(made.get(fid, -1) < together[0] for fid in each.inputs)
            made |= dict.fromkeys(each.outputs, each.id)


class TestTables:
    def test_more_than_a_table_has_room_for_are_several_groups(self) -> None:
        found = segmented(decay_text(["N", "K"] * 350))
        counts = [each.member.count for each in found.segments if each.member is not None]
        assert len(counts) == 700
        assert max(counts) * 8 * 4 <= MOST_TABLE_BYTES
        assert len({each.member.group for each in found.segments if each.member is not None}) == 2


class TestFlattened:
    def test_a_member_is_planned_on_tensors_of_one_dim(self) -> None:
        found = segmented(decay_text(SHAPES))
        scheduled = {str(each.scheduled.value(0).type) for each in found.segments}
        assert scheduled == {"float[elements]"}
        assert [each.member.elements for each in found.segments if each.member] == ["M", ("mul", "M", "N"), 7, 165, "K"]

    def test_its_own_fusion_keeps_the_shapes(self) -> None:
        found = segmented(decay_text(SHAPES))
        assert str(found.segments[1].fusion.value(0).type) == "float[M, N]"

    def test_heuristics_see_the_elements_of_all(self) -> None:
        text = decay_text(["M", "K, K"]) + "cases:\n  - {M: 100, K: 30}\n"
        assert [dict(each.scheduled.cases[0]) for each in segmented(text).segments] == [{"elements": 1000}] * 2


class TestStrangers:
    def test_what_one_element_connects_are_some(self) -> None:
        fusion = primitive(clip_text(["N"] * 5))
        assert strangers_in(fusion).are_in(range(len(fusion.exprs)))

    def test_a_coefficient_that_is_computed_makes_them_no_friends(self) -> None:
        """One kernel could do it all, with an element of each tensor in each thread."""
        places = range(8)
        body = "\n".join(["c = sqrt(a)", *(f"y{i} = x{i} * c" for i in places)])
        inputs = {"a": "float[]", **{f"x{i}": "float[N]" for i in places}}
        counts = [each and each[1] for each in groups(small(inputs, body, {f"y{i}": "float" for i in places}))]
        assert counts.count(None) <= 1
        assert 7 in counts or 8 in counts

    def test_the_order_of_exprs_tells_nothing_apart(self) -> None:
        """Each tensor is halved once for what is reduced and what is scaled, which another order takes apart."""
        shapes = ["C", "C", "2*A", "C, A", "B, 1", "C, 1, 2*A", "17, B"]
        places = range(len(shapes))
        body = [f"s{i} = max(x{i} * 0.5)" for i in places]
        body += ["t = " + " + ".join(f"abs(s{i})" for i in places), *(f"y{i} = (x{i} * 0.5 + 1.0) / t" for i in places)]
        inputs = {f"x{i}": f'"float[{shape}]"' for i, shape in enumerate(shapes)}
        outputs = {f"y{i}": f"{{dtype: float, alias: x{i}}}" if i % 2 else "float" for i in places}
        found = small(inputs, "\n".join(body), outputs)
        assert all(not strangers_in(found.fusion).are_in(each.task.exprs) for each in found.segments)

    def test_few_are_none(self) -> None:
        assert not strangers_in(primitive(clip_text(["N"] * 4))).part
        assert groups(segmented(decay_text(["N"] * 4))) == [None]

    def test_what_a_tensor_connects_are_none(self) -> None:
        inputs = {f"x{i}": "float[N]" for i in range(6)}
        body = "\n".join(f"a{i} = exp(x{i})" for i in range(6)) + "\nc = a0 + a1 + a2 + a3 + a4 + a5"
        assert not strangers_in(primitive(text_of(inputs, body, {"c": "float"}))).part

    def test_other_numbers_are_others(self) -> None:
        inputs = {f"x{i}": "float[N]" for i in range(6)}
        body = "\n".join(f"y{i} = x{i} * {i}.5" for i in range(6))
        outputs = {f"y{i}": "float" for i in range(6)}
        assert groups(segmented(text_of(inputs, body, outputs))) == [None]

    def test_parts_of_one_element_never_wait_for_themselves(self) -> None:
        """``b`` is computed of ``a`` at once, and by way of all that ``a`` scales."""
        body = "a = sum(x)\nb = a + sum(x / a)\ny = x * b"
        fusion = primitive(text_of({"x": "float[N]"}, body, {"y": "float"}))
        part_of = {index: part for part in small_parts(fusion, range(len(fusion.exprs))) for index in part}
        assert sorted(part_of) == list(range(len(fusion.exprs)))
        for part in {*part_of.values()}:
            after = {use for index in part for fid in fusion.exprs[index].outputs for use in fusion.uses(fid)}
            reached, waiting = set[int](), [*(after - {*part})]
            while waiting:
                index = waiting.pop()
                if index not in reached:
                    reached.add(index)
                    waiting += [use for fid in fusion.exprs[index].outputs for use in fusion.uses(fid)]
            assert reached.isdisjoint(part)


def test_recipes_that_ship_have_no_groups() -> None:
    for path in RECIPES:
        assert not any(groups(segment(run_passes(load_recipe(path).fusion), SM_90)))


@pytest.mark.parametrize("name", ["adamw", "lion", "ema"])
def test_an_optimizer_is_one_group(name: str) -> None:
    found = segment(run_passes(load_recipe(TESTS / "fusions" / f"many_{name}.yaml").fusion), SM_90)
    assert groups(found) == [(0, 60)] * 60


@pytest.mark.parametrize("text", [decay_text, clip_text])
def test_what_schedulers_are_asked_grows_with_the_tensors(text: object) -> None:
    def asked(count: int) -> int:
        problem = Problem.of(primitive(text([f"N{i}" for i in range(count)])), SM_90)  # type: ignore[operator]
        search(problem)
        return problem.acceptance.asked

    assert asked(80) <= 2.2 * asked(40)
