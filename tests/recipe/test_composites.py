"""Composites: recorded in place, seen as nested tasks, followed through passes, and shown by inspect."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from fusebuild.artifact.file import open_artifact
from fusebuild.artifact.json_types import json_value
from fusebuild.definition.text import RecipeText
from fusebuild.errors import NOWHERE, InvalidFusionError, RecipeError
from fusebuild.ir.composites import carry_composites
from fusebuild.ir.dtype import DType
from fusebuild.ir.fusion import Fusion, task_definitions, task_uses
from fusebuild.ir.text import print_fusion
from fusebuild.ir.values import Composite
from fusebuild.ir.verify import verify
from fusebuild.ops.builder import FusionBuilder
from fusebuild.passes import run_passes
from fusebuild.passes.common_subexpressions import common_subexpressions
from fusebuild.passes.dead_code import dead_code
from fusebuild.pipeline import compile_recipes, plan_recipe
from fusebuild.planning.assembly import fusion_digest
from fusebuild.recipe.calls import MAX_NESTING
from fusebuild.recipe.names import MAX_NAME_LENGTH
from fusebuild.recipe.recipe import load_recipe, parse_recipe
from fusebuild.report import composites
from fusebuild.report.composites import composites_in, composites_of
from fusebuild.report.inspection import Inspection
from fusebuild.segmentation import segment
from fusebuild.target.table import TARGETS
from support.places import TESTS
from support.small_recipes import recipe_of

X = "{x: 'float[M]'}"
HOST, SM_90 = TARGETS["host"], TARGETS["sm_90"]

NORMALIZE = """\
composites:
  inverse_rms:
    inputs: [x]
    body: |
      mean_square = mean(x * x, dims=[1], keepdim=True)
      r = rsqrt(mean_square + 1e-6)
    results: [r]
  normalize:
    inputs: [x, weight]
    body: |
      y = x * inverse_rms(x) * weight
    results: [y]
"""
HALVES = """\
composites:
  halves:
    inputs: [x]
    body: |
      lower = minimum(x, 0.0)
      upper = maximum(x, 0.0)
    results: [lower, upper]
"""


def fusion_of(
    body: str, composites: str = NORMALIZE, inputs: str = "{x: 'float[M, N]', w: 'float[N]'}", outputs: str = "y:"
) -> Fusion:
    """The Fusion of a recipe whose composites start on line 3."""
    statements = "".join(f"  {line}\n" for line in body.splitlines())
    named = "".join(f"  {line}\n" for line in outputs.splitlines())
    text = f"fusion: f\ninputs: {inputs}\n{composites}body: |\n{statements}outputs:\n{named}"
    return parse_recipe(text, "f.yaml").fusion


def message(*arguments: str, **named: str) -> str:
    with pytest.raises(RecipeError) as caught:
        fusion_of(*arguments, **named)
    return str(caught.value)


def names_of(fusion: Fusion) -> list[str]:
    """What the results of exprs are called, those without a name of their own left out."""
    results = [fusion.value(fid) for expr in fusion.exprs for fid in expr.outputs]
    return [value.name for value in results if value.name not in (f"t{value.fid}", f"s{value.fid}")]


def calls_of(fusion: Fusion) -> list[tuple[str, int | None]]:
    """The name and the parent of every composite."""
    return [(composite.name, composite.parent) for composite in fusion.composites]


def computed_by(fusion: Fusion, composite: Composite) -> list[str]:
    """What the exprs of a composite define, by name."""
    task = fusion.composite_task(composite)
    assert task is not None
    return [fusion.value(fid).name for index in task.exprs for fid in fusion.exprs[index].outputs]


class TestRecording:
    def test_a_call_is_its_body_written_out(self) -> None:
        called = fusion_of("a = normalize(x, w)\ny = normalize(a, weight=w)")
        written = fusion_of(
            "a_inverse_rms_mean_square = mean(x * x, dims=[1], keepdim=True)\n"
            "a_inverse_rms_r = rsqrt(a_inverse_rms_mean_square + 1e-6)\n"
            "a = x * a_inverse_rms_r * w\n"
            "y_inverse_rms_mean_square = mean(a * a, dims=[1], keepdim=True)\n"
            "y_inverse_rms_r = rsqrt(y_inverse_rms_mean_square + 1e-6)\n"
            "y = a * y_inverse_rms_r * w",
            composites="",
        )
        assert print_fusion(called) == print_fusion(written)
        assert fusion_digest(called) == fusion_digest(written)
        assert fusion_digest(run_passes(called)) == fusion_digest(run_passes(written))
        assert (len(called.composites), written.composites) == (4, ())

    def test_types_are_those_of_the_call(self) -> None:
        both = "{x: 'float[M, N]', h: 'half[N, M]', n: 'int32[]'}"
        doubled = "composites:\n  doubled:\n    inputs: [x]\n    body: |\n      y = x + x\n    results: [y]\n"
        fusion = fusion_of("a = doubled(x)\nb = doubled(h)\nc = doubled(n)", doubled, both, "a:\nb:\nc:")
        assert [str(fusion.value(fid).type) for fid in fusion.output_fids] == ["float[M, N]", "float[N, M]", "int32[]"]

    def test_exprs_stand_where_the_composite_does(self) -> None:
        fusion = fusion_of("y = normalize(x, w)")
        assert [expr.location.line for expr in fusion.exprs] == [7, 7, 8, 8, 13, 13]
        assert [composite.location.short for composite in fusion.composites] == ["f.yaml:16", "f.yaml:13"]

    def test_arguments_come_first_and_constants_right_before_the_body(self) -> None:
        scale = "composites:\n  scale:\n    inputs: [x, by]\n    body: |\n      y = x * by + by\n    results: [y]\n"
        assert print_fusion(fusion_of("y = scale(by=2.0, x=exp(x))", scale, X)) == (
            "fusion f\n"
            "  input  %0 x: float[M]\n"
            "  const  %2 = 2.0: double\n"
            "  %1 t1: float[M] = exp(%0)\n"
            "  %3 t3: float[M] = mul(%1, %2)\n"
            "  %4 y: float[M] = add(%3, %2)\n"
            "  output %4 y\n"
        )

    def test_symbols_and_lambdas_of_the_recipe_are_seen(self) -> None:
        composites = (
            "lambdas:\n  add_up:\n    left: {a: float}\n    right: {b: float}\n    body: |\n      r = a + b\n"
            "    results: [r]\n"
            "composites:\n  average:\n    inputs: [x]\n    body: |\n"
            "      y = reduce(x, init=0.0, combine=add_up, dims=[1]) / size(N)\n    results: [y]\n"
        )
        fusion = fusion_of("y = average(x)", composites, "{x: 'float[M, N]'}")
        assert [expr.op for expr in fusion.exprs] == ["reduce", "size", "div"]
        assert [*fusion.lambdas] == ["add_up"]

    def test_a_composite_may_have_no_inputs(self) -> None:
        ones = "composites:\n  ones:\n    inputs: []\n    body: |\n      y = full([M], 1.0)\n    results: [y]\n"
        fusion = fusion_of("y = x + ones()", ones, X)
        assert [(composite.inputs, computed_by(fusion, composite)) for composite in fusion.composites] == [
            ((), ["ones_y"])
        ]

    def test_what_only_hands_over_its_inputs_computes_nothing(self) -> None:
        swap = "composites:\n  swap:\n    inputs: [a, b]\n    body: |\n      c = a\n    results: [b, c]\n"
        fusion = fusion_of("p, q = swap(x, w)\ny = p - q", swap)
        assert [fusion.value(fid).name for fid in fusion.exprs[0].inputs] == ["w", "x"]
        assert fusion.composites == ()

    def test_the_recipe_that_is_written_back_has_them_written_out(self) -> None:
        fusion = fusion_of("y = normalize(x, w)")
        text = str(RecipeText(fusion))
        assert "composites" not in text
        again = parse_recipe(text, "again.yaml").fusion
        assert [expr.op for expr in again.exprs] == [expr.op for expr in fusion.exprs]


class TestNames:
    def test_results_have_the_caller_s_names_and_inner_values_start_with_them(self) -> None:
        assert names_of(fusion_of("y = normalize(x, w)")) == ["y_inverse_rms_mean_square", "y_inverse_rms_r", "y"]

    def test_in_an_expression_they_start_with_the_composite_s(self) -> None:
        assert names_of(fusion_of("y = normalize(x, w) + normalize(-x, w)")) == [
            "normalize_inverse_rms_mean_square", "normalize_inverse_rms_r", "normalize_y",
            "normalize_2_inverse_rms_mean_square", "normalize_2_inverse_rms_r", "normalize_2_y", "y",
        ]  # fmt: skip

    def test_of_several_results_the_first_with_a_name_counts(self) -> None:
        assert names_of(fusion_of("a, b = halves(x)\n_, d = halves(w)\ny = a + b + d", HALVES)) == [
            "a", "b", "d_lower", "d", "y",
        ]  # fmt: skip

    def test_the_author_s_own_names_are_left_alone(self) -> None:
        assert names_of(fusion_of("y_lower = exp(x)\n_, y = halves(y_lower)", HALVES, X)) == [
            "y_lower",
            "y_lower_2",
            "y",
        ]

    def test_words_with_a_meaning_and_long_names_are_not_made(self) -> None:
        long = "y" + "x" * 60
        composites = (
            "composites:\n  f:\n    inputs: [x]\n    body: |\n      t = -x\n      other = exp(t)\n      r = other * t\n"
            "    results: [r]\n"
        )
        fusion = fusion_of(f"wchar = f(x)\n{long} = f(wchar)", composites, X, f"{long}:")
        assert names_of(fusion) == ["t", "wchar_other", "wchar", "t_2", "other", long]
        assert max(map(len, names_of(fusion))) <= MAX_NAME_LENGTH


class TestTasks:
    def test_a_call_is_kept_with_its_place_and_fids(self) -> None:
        fusion = fusion_of("y = normalize(exp(x), w)")
        (exp,), (result,) = fusion.exprs[0].outputs, fusion.output_fids
        outer, inner = fusion.composites
        assert (outer.name, outer.inputs, outer.outputs, outer.parent) == ("normalize", (exp, 1), (result,), None)
        assert (inner.name, inner.inputs, inner.parent) == ("inverse_rms", (exp,), 0)
        assert [fusion.value(fid).name for fid in inner.outputs] == ["y_inverse_rms_r"]

    def test_they_nest(self) -> None:
        fusion = fusion_of("a = normalize(x, w)\ny = normalize(a, w)")
        known = [task for each in fusion.composites if (task := fusion.composite_task(each)) is not None]
        assert [task.exprs for task in known] == [(0, 1, 2, 3, 4, 5), (0, 1, 2, 3), (6, 7, 8, 9, 10, 11), (6, 7, 8, 9)]
        (a,) = fusion.exprs[5].outputs
        tasks = [*known, fusion.whole()]
        assert task_definitions(a, tasks) == (known[0],)
        assert task_uses(a, tasks) == (known[2], known[3])
        assert task_uses(0, tasks) == (known[0], known[1], fusion.whole())
        assert task_definitions(fusion.output_fids[0], tasks) == (known[2], fusion.whole())

    def test_an_argument_that_is_a_call_stands_beside_not_inside(self) -> None:
        fusion = fusion_of("y = normalize(normalize(x, w), w)")
        assert calls_of(fusion) == [("normalize", None), ("inverse_rms", 0), ("normalize", None), ("inverse_rms", 2)]

    def test_a_result_that_is_thrown_away_is_no_output(self) -> None:
        fusion = fusion_of("_, y = halves(x)", HALVES, X)
        (composite,) = fusion.composites
        assert composite.outputs == fusion.output_fids
        assert computed_by(fusion, composite) == ["y"]

    def test_a_child_of_which_the_parent_needs_nothing_stands_alone(self) -> None:
        composites = HALVES + (
            "  rest:\n    inputs: [x]\n    body: |\n"
            "      low, high = halves(x)\n      _ = exp(low)\n      r = exp(high)\n    results: [r]\n"
        )
        fusion = fusion_of("y = rest(x)", composites, X)
        assert calls_of(fusion) == [("rest", None), ("halves", None)]
        assert calls_of(dead_code(fusion)) == [("rest", None), ("halves", None)]

    def test_segments_have_none(self) -> None:
        fusion = run_passes(fusion_of("y = segment_set(normalize(x, w)) * 2.0"))
        segmented = segment(fusion, SM_90)
        assert len(segmented.fusion.composites) == 2
        assert [each.fusion.composites for each in segmented.segments] == [(), ()]


class TestVerify:
    @pytest.mark.parametrize(
        ("changed", "problem"),
        [
            ({"inputs": (0, 99)}, "fid 99 of composite inverse_rms is no value"),
            ({"outputs": (99,)}, "fid 99 of composite inverse_rms is no value"),
            ({"outputs": (0,)}, "composite inverse_rms computes nothing"),
            ({"outputs": ()}, "composite inverse_rms computes nothing"),
            ({"parent": 1}, "composite inverse_rms comes before its parent"),
            ({"parent": -1}, "composite inverse_rms comes before its parent"),
            ({"inputs": (), "outputs": (9,)}, "composite inverse_rms lies outside its parent normalize"),
        ],
    )
    def test_what_is_wrong(self, changed: dict[str, tuple[int, ...]], problem: str) -> None:
        fusion = fusion_of("a = normalize(x, w)\ny = -a")
        assert fusion.definition(9) == 6
        outer, inner = fusion.composites
        wrong = replace(fusion, composites=(outer, replace(inner, **changed)))  # type: ignore[arg-type]
        with pytest.raises(InvalidFusionError) as caught:
            verify(wrong)
        assert str(caught.value) == f"fusion f: {problem}"


class TestPasses:
    def test_every_pass_keeps_what_is_computed_inside(self) -> None:
        fusion = run_passes(fusion_of("a = normalize(x, w)\ny = normalize(a, w)"))
        assert calls_of(fusion) == [("normalize", None), ("inverse_rms", 0), ("normalize", None), ("inverse_rms", 2)]
        assert computed_by(fusion, fusion.composites[3]) == [
            "a_inverse_rms_mean_square_count", "t9", "y_inverse_rms_mean_square_sum",
            "y_inverse_rms_mean_square_reduced", "y_inverse_rms_mean_square",
            "t12", "y_inverse_rms_r",
        ]  # fmt: skip
        assert {*computed_by(fusion, fusion.composites[3])} < {*computed_by(fusion, fusion.composites[2])}

    def test_what_is_inside_stands_in_the_composite_s_lines(self) -> None:
        path = TESTS / "fusions" / "composites.yaml"
        starts = {name: number for number, line in enumerate(path.read_text().splitlines(), 1)
                  for name in ("inverse_rms", "normalize", "quantized") if line == f"  {name}:"}  # fmt: skip
        lines = {name: {*range(start, start + 7)} for name, start in starts.items()}
        lines["normalize"] |= lines["inverse_rms"]
        fusion = run_passes(load_recipe(path).fusion)
        inside = set()
        for composite in fusion.composites:
            task = fusion.composite_task(composite)
            assert task is not None
            assert {fusion.exprs[index].location.line for index in task.exprs} <= lines[composite.name]
            inside |= {*task.exprs}
        outside = {fusion.exprs[index].location.line for index in fusion.whole().exprs if index not in inside}
        assert outside.isdisjoint(set().union(*lines.values()))

    def test_dead_ones_are_dropped(self) -> None:
        fusion = fusion_of("_ = normalize(x, w)\na = normalize(-x, w)\n_ = exp(a)\ny = normalize(x, w)")
        assert calls_of(fusion)[::2] == [("normalize", None)] * 3
        live = dead_code(fusion)
        assert calls_of(live) == [("normalize", None), ("inverse_rms", 0)]
        assert [composite.location.line for composite in live.composites] == [19, 13]
        assert [live.composite_task(composite) is None for composite in fusion.composites] == [True] * 4 + [False] * 2

    def test_the_parts_of_a_result_that_is_dead_are_dropped(self) -> None:
        fusion = fusion_of("low, y = halves(x)\n_ = exp(low)", HALVES, X)
        assert [len(composite.outputs) for composite in fusion.composites] == [2]
        live = dead_code(fusion)
        assert [composite.outputs for composite in live.composites] == [live.output_fids]

    def test_what_another_call_computes_already_is_dropped(self) -> None:
        shared = common_subexpressions(fusion_of("y = normalize(x, w) + normalize(x, w)"))
        assert calls_of(shared) == [("normalize", None), ("inverse_rms", 0)]

    def test_calls_that_share_a_part_overlap(self) -> None:
        shared = common_subexpressions(fusion_of("y = normalize(x, w) + normalize(x, v)", NORMALIZE,
                                                 "{x: 'float[M, N]', w: 'float[N]', v: 'float[N]'}"))  # fmt: skip
        assert calls_of(shared) == [("normalize", None), ("inverse_rms", 0), ("normalize", None)]
        first, _, second = (computed_by(shared, composite) for composite in shared.composites)
        assert first[:-1] == second[:-1]
        assert (first[-1], second[-1]) == ("normalize_y", "normalize_2_y")

    def test_what_was_computed_for_its_argument_is_shared_too(self) -> None:
        f = "composites:\n  f:\n    inputs: [a, b]\n    body: |\n      r = exp(a) * b\n    results: [r]\n"
        shared = common_subexpressions(fusion_of("e = exp(x)\ny = f(x, -e)", f, X))
        (composite,) = shared.composites
        assert [shared.value(fid).name for fid in composite.inputs] == ["x", "t2"]
        assert computed_by(shared, composite) == ["e", "y"]

    def test_an_operation_that_changes_nothing_moves_the_result(self) -> None:
        f = "composites:\n  f:\n    inputs: [a]\n    body: |\n      r = cast(exp(a), float)\n    results: [r]\n"
        fusion = run_passes(fusion_of("y = -f(x)", f, X))
        (composite,) = fusion.composites
        assert [fusion.exprs[index].op for index in fusion.composite_task(composite).exprs] == ["exp"]  # type: ignore[union-attr]
        assert composite.inputs == (0,)

    def test_one_that_changes_nothing_is_gone(self) -> None:
        f = "composites:\n  f:\n    inputs: [a]\n    body: |\n      r = cast(a * 1.0, float)\n    results: [r]\n"
        assert run_passes(fusion_of("y = -f(exp(x))", f, X)).composites == ()

    def test_reading_from_further_up_adds_an_input(self) -> None:
        f = "composites:\n  f:\n    inputs: [a]\n    body: |\n      r = exp(cast(a, double))\n    results: [r]\n"
        fusion = fusion_of("h = x * 2.0\nwide = cast(cast(h, half), float)\ny = f(wide)\nz = -wide", f,
                           X, "y:\nz:")  # fmt: skip
        passed = run_passes(fusion)
        (composite,) = passed.composites
        assert [passed.value(fid).dtype for fid in composite.inputs] == [DType.FLOAT, DType.HALF]
        task = passed.composite_task(composite)
        assert task is not None
        assert [passed.exprs[index].op for index in task.exprs] == ["cast", "exp"]
        assert [passed.value(fid).dtype for fid in task.inputs] == [DType.HALF]

    def test_a_constant_result_is_gone(self) -> None:
        f = "composites:\n  f:\n    inputs: [a]\n    body: |\n      r = a * 2.0\n    results: [r]\n"
        fusion = fusion_of("y = x * f(3.0)", f, X)
        assert calls_of(fusion) == [("f", None)]
        assert run_passes(fusion).composites == ()

    def test_an_output_in_place_keeps_its_call(self) -> None:
        f = "composites:\n  f:\n    inputs: [a]\n    body: |\n      r = exp(a)\n    results: [r]\n"
        fusion = fusion_of("y = f(x)\nz = x + y", f, X, "y: {dtype: float, alias: x}\nz:")
        passed = run_passes(fusion)
        (composite,) = passed.composites
        assert (composite.inputs, composite.outputs) == ((0,), (passed.output_fids[0],))
        assert computed_by(passed, composite) == ["y_computed", "y"]

    def test_without_any_a_fusion_is_handed_through(self) -> None:
        fusion = recipe_of((TESTS / "fusions" / "marks.yaml").read_text()).fusion
        assert carry_composites(fusion, fusion) is fusion

    def test_a_builder_takes_them_too(self) -> None:
        builder = FusionBuilder("built")
        x = builder.tensor(DType.FLOAT, ("M",))
        (y,) = builder.call("exp", [x])
        builder.output(y)
        builder.composites += [
            Composite(name="gone", location=NOWHERE, inputs=(), outputs=(x.fid,)),
            Composite(name="f", location=NOWHERE, inputs=(x.fid,), outputs=(y.fid,), parent=0),
        ]
        assert calls_of(builder.finish()) == [("f", None)]


def chain(length: int) -> str:
    """Composites that call each other in a chain of ``length``."""
    bodies = ["exp(x)", *(f"c{index}(x)" for index in range(length - 1))]
    return "composites:\n" + "".join(
        f"  c{index}:\n    inputs: [x]\n    body: |\n      r = {body}\n    results: [r]\n"
        for index, body in enumerate(bodies)
    )


class TestBounds:
    def test_long_chains_are_recorded(self) -> None:
        length = (MAX_NESTING - 2) // 2
        fusion = fusion_of(f"y = c{length - 1}(x)", chain(length), X)
        assert [composite.parent for composite in fusion.composites] == [None, *range(length - 1)]

    def test_longer_ones_are_refused_where_the_last_call_stands(self) -> None:
        length = MAX_NESTING // 2
        assert message(f"y = c{length - 1}(x)", chain(length), X) == (
            f"f.yaml:{5 + 5 * length}:7: error: the expression, with the composites that it calls, is nested more than "
            f"{MAX_NESTING} deep\n    y = c{length - 1}(x)\n        {'^~~~~~'}\n"
            "  hint: write the statements of a composite out"
        )

    def test_a_very_long_chain_is_refused_once(self) -> None:
        text = message("y = c1499(x)", chain(1500), X)
        assert text.count("error:") == 1

    def test_a_long_way_round_is_found(self) -> None:
        ring = chain(1500).replace("exp(x)", "c1499(x)")
        text = message("y = c1499(x)", ring, X)
        assert text.startswith("f.yaml:7:11: error: composite 'c0' calls itself through 'c1499', 'c1498', ")
        assert text.count("error:") == 1


class TestInspect:
    TEXT = (
        "fusion: block\ninputs: {x: 'float[M, N]', w: 'float[N]'}\n"
        f"{NORMALIZE}body: |\n  a = segment_set(normalize(x, w))\n  y = normalize(a, w) + inverse_rms(x)\n"
        "outputs:\n  y:\ncases:\n  - {M: 4, N: 8}\n"
    )

    def inspected(self, text: str) -> Inspection:
        recipe = parse_recipe(text, "folder/block.yaml")
        planned = plan_recipe(recipe, [SM_90])
        composites = composites_of(planned.segmented["sm_90"])
        return Inspection(plan=planned.plan, target="sm_90", sizes=recipe.fusion.cases[0], composites=composites)

    def test_text(self) -> None:
        lines = self.inspected(self.TEXT).as_text().splitlines()
        start = lines.index("composites")
        assert lines[start : lines.index("boundaries")] == [
            "composites",
            "  normalize (block.yaml:16): segment 0",
            "    inverse_rms (block.yaml:13): segment 0",
            "  normalize (block.yaml:17): segment 1",
            "    inverse_rms (block.yaml:13): segment 1",
        ]

    def test_json(self) -> None:
        report = json.loads(json.dumps(json_value(self.inspected(self.TEXT).report)))
        assert [*report][3:6] == ["segments", "composites", "boundaries"]
        assert report["composites"][:3] == [
            {"name": "normalize", "location": "block.yaml:16", "parent": None, "inputs": [0, 1], "outputs": [8],
             "segments": [0]},
            {"name": "inverse_rms", "location": "block.yaml:13", "parent": 0, "inputs": [0], "outputs": [6],
             "segments": [0]},
            {"name": "normalize", "location": "block.yaml:17", "parent": None, "inputs": [9, 1], "outputs": [16],
             "segments": [1]},
        ]  # fmt: skip

    def test_one_may_run_in_several_segments(self) -> None:
        scaled = "scaled:\n    inputs: [x]\n    body: y = x * rsqrt(sum(x * x))\n    results: [y]\n"
        recipe = parse_recipe(
            f"fusion: f\ninputs: {{x: 'float[M, N]'}}\ncomposites:\n  {scaled}body: y = scaled(x)\noutputs:\n  y:\n",
            "folder/f.yaml",
        )
        (placed,) = composites_of(plan_recipe(recipe, [SM_90]).segmented["sm_90"])
        assert placed.segments is not None
        assert len(placed.segments) == 2

    def test_what_is_inside_runs_where_the_whole_does(self) -> None:
        planned = plan_recipe(load_recipe(TESTS / "fusions" / "composites.yaml"), [SM_90])
        placed = composites_of(planned.segmented["sm_90"])
        inner = [(each, placed[each.parent]) for each in placed if each.parent is not None]
        assert inner
        for each, whole in inner:
            assert {*(each.segments or ())} <= {*(whole.segments or ())}

    def test_nothing_where_there_are_none(self) -> None:
        text = "fusion: f\ninputs: {x: 'float[M]'}\nbody: |\n  y = -x\noutputs:\n  y:\ncases:\n  - {M: 4}\n"
        inspection = self.inspected(text)
        assert "composites" not in inspection.as_text()
        assert "composites" not in json_value(inspection.report)

    def test_an_artifact_tells_the_same(self, compilers: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = tmp_path / "block.yaml"
        path.write_text(self.TEXT)
        compile_recipes([path], [HOST], tmp_path, jobs=2)
        artifact, recipe = open_artifact(tmp_path / "block.fuse"), load_recipe(path)
        found = composites_in(artifact, recipe.fusion, "host")
        assert found == composites_of(plan_recipe(recipe, [HOST]).segmented["host"])
        assert {each.segments for each in found} == {(0,), (1,)}
        monkeypatch.setattr(composites, "__version__", "another")
        unknown = composites_in(artifact, recipe.fusion, "host")
        assert unknown == tuple(msgspec.structs.replace(each, segments=None) for each in found)
        text = Inspection(plan=artifact.plan, target="host", sizes=None, composites=unknown).as_text()
        assert "\n  normalize (block.yaml:16): segments not known\n" in text


SCALED = """\
fusion: scaled
inputs: {x: "float[M, N]"}
composites:
  scaled:
    inputs: [x, by: 2.0, shift: 1, is_shifted: true]
    body: |
      y = where(is_shifted, x * by + shift, x * by)
    results: [y]
body: |
"""


@pytest.mark.parametrize(
    ("call", "whole"),
    [
        ("scaled(x)", "scaled(x, 2.0, 1, True)"),
        ("scaled(x, 3)", "scaled(x, 3, 1, True)"),
        ("scaled(x, shift=4.5)", "scaled(x, 2.0, 4.5, True)"),
        ("scaled(x, is_shifted=False, by=0.5)", "scaled(x, 0.5, 1, False)"),
    ],
)
def test_what_a_call_leaves_out_is_what_the_composite_says(call: str, whole: str) -> None:
    short, full = (parse_recipe(f"{SCALED}  y = {each}\noutputs: {{y: float}}\n", "r.yaml") for each in (call, whole))
    assert print_fusion(short.fusion) == print_fusion(full.fusion)
    assert [each.name for each in short.fusion.composites] == ["scaled"]
