"""Rendered kernels: golden texts, names that follow from what is compiled, and nothing else in them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import combinations, takewhile, zip_longest
from pathlib import Path

import jinja2
import pytest

from fusebuild.errors import KnobError
from fusebuild.kernels.common.rows import RowThreads
from fusebuild.kernels.common.spec import KernelSpec
from fusebuild.kernels.persistent.way import PersistentHeuristics
from fusebuild.kernels.render import (
    Kernel,
    Origin,
    describe,
    environment,
    render,
    strip_comments,
    template_digests,
)
from fusebuild.pipeline import plan_recipe
from fusebuild.planning.planned import PlannedRecipe
from fusebuild.recipe.recipe import load_recipe
from fusebuild.target.table import TARGETS
from support.golden import Golden
from support.many_tensors import clip_text, decay_text
from support.places import FUSIONS, GOLDEN, RECIPES, ROOT, TESTS
from support.small_recipes import SUM_THEN_ADD, planned_file, recipe_of, text_of

SM_90 = TARGETS["sm_90"]
KERNELS = GOLDEN / "kernels"
SHOWN = {
    "layernorm": ("short_vec8_int32", "registers_vec8_int32", "tiled_vec8_int32", "anywhere_vec8_int64"),
    "rmsnorm": ("few_rows_vec8_int32", "N128_registers_vec8_int32"),
    "silu_mul": ("vec8_int32",),
    "bias_gelu": ("rows_vec8_int32", "folded_vec8_int32"),
    "bshd_to_bhsd": ("strips_vec8_int32",),
    "column_sum": ("vec8_int32", "folded_vec8_int32", "realigned_vec8_int32"),
    "sum_squares": ("vec8_int32", "shifted_vec8_int32"),
    "adaln_backward": ("registers1024_vec8_int32", "scratch_scalar_int64"),
    "adaln_forward": ("edged8192_vec8_int32", "edged32768_vec8_int32"),
    "welford": ("vec8_int32", "shifted_vec8_int32", "scalar_int64"),
    "softmax": ("registers_vec8_int32", "edged1_vec8_int32"),
    "dropout_add_rmsnorm": ("registers_vec8_int32",),
    "batchnorm_train": ("whole_int32", "vec8_int32_rows_vec8_int32"),
    "scale_bias_relu": ("vec8_int32",),
    "rope": ("rows_vec8_int32", "runs_int32"),
    "embedding_add": ("runs_int32",),
    "batchnorm_train_nchw": (
        "whole_int32",
        "vec8_int32_vec8_int32",
        "pieces_vec8_int32_folded_vec8_int32",
        "columns_vec8_int32_folded_vec8_int32",
    ),
}
"""Recipes and the variants of their first segment whose kernels are kept as goldens."""


SHOWN_FUSIONS = {
    "ordered": ("0_vec4_int32", "1_vec4_int32"),  # rows, columns: each with results along them and one at their end
    "ordered_ranks": ("1_vec8_int32", "2_scalar_int64"),
    "walked_scans": ("0_vec8_int32", "1_vec4_int32"),
    "cluster_softmax": ("0_cluster2_vec8_int32",),
    "cluster_levels": ("0_cluster2_vec8_int32", "1_cluster2_vec4_int32"),
    "batches_inner": ("0_vec8_int32", "0_shifted_vec8_int32"),
    "batches_outer": ("0_vec2_int32",),
    "batches_cluster": ("0_cluster4_vec8_int32",),
    "inner_outer_finishes": ("0_registers1024_vec4_int32_finish",),  # groups that share out blocks
    "edged_rows": ("0_edged1_vec8_int32",),
    "crossing_rows": ("0_edged1_vec8_int32", "0_trailing_vec8_int32", "0_tiled_vec8_int32"),
    "edged_tiles": ("0_N127_edged_tiles_vec8_int32", "1_K1001_edged1_vec8_int32"),
    "resident_rows": ("0_resident8_vec8_int32", "0_resident8_vec8_int32_counters", "0_edged32768_vec8_int32"),
    "odd_lambdas": ("0_edged1_vec4_int32",),
    "stored_reductions": ("0_vec8_int32", "1_pieces_vec8_int32", "3_folded_vec4_int32", "3_realigned_vec4_int32"),
    "repeated_outputs": ("0_vec8_int32", "0_shifted_vec8_int32"),
    "outer_normalization": ("4_rows_vec8_int32",),  # it waits for the kernel of another segment
}
"""Fusions of tests, and the kernels among theirs that are kept as goldens."""

SUFFIXES = {"reduction_finish": "_finish", "ticket_counters": "_counters"}
"""What tells kernels that come with others apart from those."""

SECOND = {"outer_persistent": "_elements", "repeating_pointwise": "_alone"}
"""The same of pointwise kernels that are launched after others."""

INDEXED = {
    "rope": ({"x": "bfloat16[M, D]", "c": "float[M, D]", "s": "float[M, D]"},
             "low = slice(x, [0, 0], [M, D // 2])\nhigh = slice(x, [0, D // 2], [M, D])\n"
             "y = x * c + cat([-high, low], 1) * s", {"y": "bfloat16"}),
    "embedding": ({"table": "bfloat16[V, D]", "ids": "int64[T]"}, "y = embedding(table, ids)", {"y": "bfloat16"}),
    "pad": ({"x": "float[M, N]"}, "y = pad(x, [4, 8, 1, 0], 2.5)", {"y": "float"}),
}  # fmt: skip
"""Small fusions that read elsewhere: their first kernels are kept as goldens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launched:
    """A kernel and where it is launched: ``stem`` is the golden's name."""

    stem: str
    kernel: Kernel


def launched(planned: PlannedRecipe) -> Iterator[Launched]:
    for segment in planned.plan.targets[0].segments:
        for variant in segment.variants:
            for number, launch in enumerate(variant.launches):
                template = launch.kernel.rpartition("_")[0]
                is_second = number > 0 and template.startswith("pointwise")
                suffix = SECOND[segment.scheduler] if is_second else SUFFIXES.get(template, "")
                kernel = planned.kernels["sm_90"][launch.kernel]
                yield Launched(stem=f"{segment.id}_{variant.name}{suffix}", kernel=kernel)


def kernels(text: str, path: str = "test.yaml") -> dict[str, Kernel]:
    return {each.stem: each.kernel for each in launched(plan_recipe(recipe_of(text, path), [SM_90]))}


def names(text: str, path: str = "test.yaml") -> dict[str, str]:
    return {stem: kernel.name for stem, kernel in kernels(text, path).items()}


@pytest.mark.parametrize("recipe", SHOWN)
def test_golden(recipe: str, golden: Golden) -> None:
    found = {each.stem: each.kernel for each in launched(planned_file(ROOT / "recipes" / f"{recipe}.yaml"))}
    for variant in SHOWN[recipe]:
        stems = [stem for stem in found if stem in (f"0_{variant}", f"0_{variant}_finish", f"0_{variant}_elements")]
        assert stems
        for stem in stems:
            golden(KERNELS / recipe / f"{stem}.cu", found[stem].text)


@pytest.mark.parametrize("fusion", SHOWN_FUSIONS)
def test_golden_of_a_fusion_made_for_tests(fusion: str, golden: Golden) -> None:
    found = {each.stem: each.kernel for each in launched(planned_file(TESTS / "fusions" / f"{fusion}.yaml"))}
    for stem in SHOWN_FUSIONS[fusion]:
        golden(KERNELS / fusion / f"{stem}.cu", found[stem].text)


@pytest.mark.parametrize("name", INDEXED)
def test_golden_index_reads(name: str, golden: Golden) -> None:
    inputs, body, outputs = INDEXED[name]
    recipe = recipe_of(text_of(inputs, body, outputs, name=name), f"{name}.yaml")
    first = next(launched(plan_recipe(recipe, [SM_90])))
    golden(KERNELS / "index_reads" / f"{name}_{first.stem}.cu", first.kernel.text)


def test_golden_members(golden: Golden) -> None:
    """Kernels that run the launches of three tensors as one: elementwise ones, and a sum with its finish."""
    shapes = ["M", "N, K", "7"]
    texts = {"decay": decay_text(shapes), "clip": clip_text(["M", "N, K", "L"])}
    found = {(name, stem): kernel for name, text in texts.items() for stem, kernel in kernels(text).items()}
    for name, stem in (("decay", "0_vec4_int32"), ("clip", "0_vec4_int32"), ("clip", "0_vec4_int32_finish")):
        golden(KERNELS / "members" / f"{name}_{stem}.cu", found[name, stem].text)


SHOWN_OR_SCANS = sorted(
    path
    for path in FUSIONS
    if path.stem in ("built_in_lambdas", "index_edges", "indexing", "permutations", "scans", *SHOWN_FUSIONS)
)


DECLARED = re.compile(r"(?P<indent> +)(?:const [\w:<>, ]+? |fb::\w+Phase )(?P<name>\w+)(?: =|;)")


def unread(source: str) -> Iterator[str]:
    """The variables of a kernel that nothing reads where they can be seen: the nvcc warnings of its users."""
    lines = source.splitlines()
    for number, line in enumerate(lines):
        if declared := DECLARED.match(line):
            outside = " " * (len(declared["indent"]) - 1)
            seen = takewhile(lambda each, outside=outside: each.startswith(f"{outside} "), lines[number + 1 :])
            words = Counter(re.findall(r"\w+", "\n".join([line, *seen])))
            names = [declared["name"], *re.findall(r", (\w+) = ", line)]
            yield from (name for name in names if words[name] < 2)


def test_what_is_not_read_is_found() -> None:
    inner = "  if (b) {\n    const int c = a;\n  }\n"
    source = f"f() {{\n  const int a = 1, d = 2;\n{inner}  fb::ReducePhase phase;\n  g(c);\n}}\n"
    assert [*unread(source)] == ["d", "c", "phase"]


@pytest.mark.parametrize("path", [*RECIPES, *FUSIONS], ids=lambda path: path.stem)
def test_every_variable_is_read(path: Path) -> None:
    assert {each.stem: found for each in launched(planned_file(path)) if (found := [*unread(each.kernel.source)])} == {}


ORIGIN = Origin(recipe="any", segment=0, fid_map={}, scheduler="any", variant="any")
CODE_BESIDE = re.compile(r'//.*|"[^"\n]*"|#.*')
OF_THE_LANGUAGE = re.compile(
    r"auto|bool|break|char|const|constexpr|continue|decltype|do|double|else|false|float|for|if|int|namespace|nullptr|"
    r"reinterpret_cast|return|short|static|static_cast|struct|true|unsigned|using|void|while|__restrict__|__half|"
    r"__nv_bfloat16"
)


def undeclared(source: str) -> set[str]:
    """The names without digits, which templates write and fusions do not number, that a kernel uses and nothing in it
    declares: compilers refuse it."""
    code = CODE_BESIDE.sub("", source)
    used = set(re.findall(r"(?<![\w.:])(?<!->)(?<!template )([a-z_]+)\b(?!\s*::)", code))
    declared = set(re.findall(r"[\w>][*&]* (\w+)(?= ?[=;,()\[{:])", code)) | set(re.findall(r", (\w+) = ", code))
    return {name for name in used - declared if not OF_THE_LANGUAGE.fullmatch(name)}


def test_what_is_not_declared_is_found() -> None:
    inner = "  const int a = 1, d = 2;  // of b\n  if (lane == 0) x[a] = fb::sum(d, n);\n"
    assert undeclared(f"void f(const float* x, int n) {{\n{inner}}}\n") == {"lane"}


@pytest.mark.parametrize("path", [*RECIPES, *FUSIONS], ids=lambda path: path.stem)
def test_every_name_is_declared(path: Path) -> None:
    """A name that a template writes where it was declared for another shape of kernel only; no GPU and no compiler of
    kernels is needed to find it."""
    found = {each.stem: undeclared(each.kernel.source) for each in launched(planned_file(path))}
    assert {stem: names for stem, names in found.items() if names} == {}


COORDINATE = re.compile(r"\bi\d+\b")


def coordinates_out_of_sight(source: str) -> set[str]:
    """The coordinates on axes, such as ``i1``, that a kernel uses where no line before, of the same block or one around
    it, declares them."""
    seen: dict[str, int] = {}
    missing = set()
    for line in CODE_BESIDE.sub("", source).splitlines():
        indent = len(line) - len(line.lstrip())
        seen = {name: depth for name, depth in seen.items() if not line or depth <= indent}
        declared = re.findall(r"Index (i\d+)\b|int64_t (i\d+)\b", line)
        seen |= {name: indent for each in declared for name in each if name}
        missing |= {name for name in COORDINATE.findall(line) if name not in seen}
    return missing


def test_coordinates_out_of_sight_are_found() -> None:
    inner = "  {\n    const Index i1 = a;\n    f(i1);\n  }\n  g(i1, i2);\n"
    assert coordinates_out_of_sight(f"void f(int a) {{\n  const int64_t i0 = a;\n{inner}  f(i0);\n}}\n") == {"i1", "i2"}


@pytest.mark.parametrize("path", [*RECIPES, *FUSIONS], ids=lambda path: path.stem)
def test_every_coordinate_is_in_sight(path: Path) -> None:
    found = {each.stem: coordinates_out_of_sight(each.kernel.source) for each in launched(planned_file(path))}
    assert {stem: names for stem, names in found.items() if names} == {}


def easier(path: Path) -> Iterator[Kernel]:
    """The kernels of the recipe at ``path`` whose threads hold less than what is planned, as spilling registers ask."""
    for segment in planned_file(path).segmented[SM_90.name].segments:
        schedule = partial(segment.family.schedule, segment.fusion.whole(), SM_90, {})
        for decision in {each.decision.way: each.decision for each in schedule() if each.decision}.values():
            for choice in decision.choice.eased():
                with suppress(KnobError):
                    made = schedule({decision.way: choice.knobs})
                    own = [each for each in made if each.decision and each.decision.way == decision.way]
                    yield from (render(launch.kernel, ORIGIN) for each in own for launch in each.launches)


@pytest.mark.exhaustive
@pytest.mark.parametrize("path", [*RECIPES, *FUSIONS], ids=lambda path: path.stem)
def test_every_name_is_declared_where_threads_hold_less(path: Path) -> None:
    assert [names for each in easier(path) if (names := undeclared(each.source))] == []


def test_odd_rows_of_samples_stay_in_shared_memory_where_threads_hold_less() -> None:
    (path,) = (path for path in FUSIONS if path.stem == "inner_outer_tiled")
    assert [names for each in easier(path) if (names := undeclared(each.source))] == []


@pytest.mark.parametrize("path", [*RECIPES, *SHOWN_OR_SCANS], ids=lambda path: path.stem)
class TestEveryKernel:
    def test_says_where_it_comes_from_and_nothing_of_this_machine(self, path: Path) -> None:
        for each in launched(planned_file(path)):
            first, *_ = each.kernel.text.splitlines()
            assert re.fullmatch(rf"// {path.name}, segment \d+: \w+, variant \w+", first)
            assert str(ROOT) not in each.kernel.text
            assert not re.search(r"/(work|home|tmp|usr)/|\b20\d\d-\d\d-\d\d\b|\d\d:\d\d:\d\d", each.kernel.text)

    def test_uses_every_parameter(self, path: Path) -> None:
        for each in launched(planned_file(path)):
            words = re.findall(r"\w+", each.kernel.source)
            for parameter in each.kernel.parameters:
                assert words.count(parameter.name) > 1, (each.stem, parameter.name)

    def test_is_laid_out_evenly(self, path: Path) -> None:
        for each in launched(planned_file(path)):
            text = each.kernel.text
            assert text.endswith(")\n")
            assert "\t" not in text
            assert "\n\n\n" not in text
            assert not re.search(r"[ \t]+$", text, flags=re.MULTILINE)
            assert not re.search(r"\{\{|\{%|None|Undefined", text)
            assert text.count("{") == text.count("}")

    def test_waits_for_the_kernel_before_it(self, path: Path) -> None:
        """On every path, before it reads or writes global memory."""
        planned = planned_file(path)
        variants = [variant for segment in planned.plan.targets[0].segments for variant in segment.variants]
        for launch in (launch for variant in variants for launch in variant.launches):
            kernel = planned.kernels["sm_90"][launch.kernel]
            before, *after = re.split(r"fb::wait_for_previous_kernel\(.*\);\n", kernel.source)
            assert after, kernel.name
            pointers = [each.name for each in kernel.parameters if "*" in each.declaration]
            start = before.partition("_KERNEL(")[2].partition(") {\n")[2]
            for text in (start, *(between.rpartition("return;")[2] for between in after[:-1])):
                assert not {"return", *pointers} & {*re.findall(r"\w+", text)}, kernel.name
            if after[1:]:
                finishes = kernel.source.count("constexpr int kAhead")
                assert ("reduction_finish" in kernel.name, len(after)) == (True, finishes)

    def test_lets_the_next_kernel_start_first_of_all(self, path: Path) -> None:
        """Where that one may begin early: a finishing kernel, and across segments one whose blocks come and go. The
        sweeps of split rows are launches of one kernel, which do not; what is launched only for sizes of 0 does not."""
        planned = planned_file(path)
        running = [segment for segment in planned.plan.targets[0].segments if segment.scheduler != "alias"]
        for segment, following in zip_longest(running, running[1:]):
            is_early = following is not None and following.scheduler in (
                "pointwise",
                "transpose",
                "repeating_pointwise",
            )
            is_late = segment.scheduler == "repeating_pointwise"
            for variant in segment.variants:
                for number, launch in enumerate(variant.launches, start=1):
                    source = planned.kernels["sm_90"][launch.kernel].source
                    follows = next(iter(variant.launches[number:]), None)
                    is_next_late = is_late or (follows is not None and follows.kernel.startswith("inner_split"))
                    lets_start = is_early if follows is None else not is_next_late
                    assert source.count("fb::let_next_kernel_start();") == lets_start, launch.kernel
                    assert source.count(") {\n  fb::let_next_kernel_start();\n") == lets_start, launch.kernel

    def test_is_named_in_its_own_text(self, path: Path) -> None:
        for each in launched(planned_file(path)):
            kernel = each.kernel
            assert re.fullmatch(r"[a-z_]+_[0-9a-f]{16}", kernel.name)
            assert re.search(rf"^FUSEBUILD_(CLUSTER_)?ENTRY\({kernel.name}\b", kernel.source, flags=re.MULTILINE)
            assert strip_comments(kernel.text) == kernel.source


class TestNames:
    def test_comments_do_not_count(self) -> None:
        moved = SUM_THEN_ADD.replace("inputs:", "doc: |\n  Two\n  lines.\ninputs:", 1)
        assert kernels(moved)["0_vec4_int32"].text != kernels(SUM_THEN_ADD)["0_vec4_int32"].text
        assert names(moved) == names(SUM_THEN_ADD)
        assert names(SUM_THEN_ADD, "elsewhere.yaml") == names(SUM_THEN_ADD)

    def test_names_of_values_and_fusion_do_not_count(self) -> None:
        renamed = SUM_THEN_ADD.replace("t3", "result").replace("sum_then_add", "other")
        assert names(renamed) == names(SUM_THEN_ADD)

    def test_what_is_computed_does(self) -> None:
        changed = names(SUM_THEN_ADD.replace("t1 + t2", "t1 - t2"))
        assert changed["0_vec4_int32"] == names(SUM_THEN_ADD)["0_vec4_int32"]
        assert changed["1_vec4_int32"] != names(SUM_THEN_ADD)["1_vec4_int32"]

    def test_equal_kernels_of_two_segments_are_one(self) -> None:
        body = "a = sum(x, dims=[1])\nb = sum(y, dims=[1])\nc = sum(z, dims=[1])"
        inputs = {"x": "float[M, N]", "y": "float[K, N]", "z": "float[L, N]"}
        text = text_of(inputs, body, {"a": "float", "b": "float", "c": "float"})
        found = names(text)
        assert found["0_vec4_int32"] == found["1_vec4_int32"] == found["2_vec4_int32"]
        planned = plan_recipe(recipe_of(text), [SM_90])
        assert "segment 0" in planned.kernels["sm_90"][found["2_vec4_int32"]].text


def test_kernels_that_variants_share_are_rendered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rendered: list[KernelSpec] = []

    def noted(spec: KernelSpec, origin: Origin) -> Kernel:
        rendered.append(spec)
        return render(spec, origin)

    monkeypatch.setattr("fusebuild.kernels.render.render", noted)
    planned = plan_recipe(load_recipe(ROOT / "recipes" / "layernorm_backward.yaml"), [SM_90])
    assert len(rendered) < len([*launched(planned)])
    assert [one for one, other in combinations(rendered, 2) if one == other] == []


class TestComments:
    def test_name_the_value_and_the_line(self) -> None:
        text = kernels(text_of({"x": "float[M]"}, "scaled = x * 2.0\ny = scaled + 1.0", {"y": "float"}))
        assert "  // scaled, test.yaml:5\n" in text["0_scalar_int64"].text

    def test_names_that_were_made_up_are_left_out(self) -> None:
        text = kernels(text_of({"x": "float[M]"}, "y = exp(x * 2.0)", {"y": "float"}))["0_scalar_int64"].text
        assert "t2 = " in text
        assert re.search(r"= t0 \* 2\.0f;  // test\.yaml:5\n", text)

    def test_what_no_author_wrote_has_no_line(self) -> None:
        text = kernels(text_of({"x": "float[M, N]"}, "y = cumsum(x, dim=0)", {"y": "float"}))["0_vec4_int32"].text
        assert "    const float s2 = a.v0 + b.v0;  // value\n" in text
        assert "<built>" not in text


class TestStripComments:
    def test_drops_comments_blank_lines_and_the_space_before(self) -> None:
        assert strip_comments("// banner\nint a;   // why\n\n  int b;\n//\n") == "int a;\n  int b;\n"

    def test_keeps_everything_else(self) -> None:
        assert strip_comments("a = b / c;\n#include <x/y.cuh>\n") == "a = b / c;\n#include <x/y.cuh>\n"


class TestEnvironment:
    def test_an_undefined_name_is_an_error(self) -> None:
        with pytest.raises(jinja2.UndefinedError, match="'missing' is undefined"):
            environment().from_string("{{ missing }}").render()

    def test_templates_cannot_reach_out_of_the_sandbox(self) -> None:
        with pytest.raises(jinja2.exceptions.SecurityError):
            environment().from_string("{{ ''.__class__.__mro__ }}").render()

    def test_digests_name_each_template_and_what_it_imports(self) -> None:
        digests = template_digests(["pointwise"])
        assert list(digests) == ["macros.jinja", "pointwise.cu.jinja"]
        assert list(template_digests(["inner_outer_persistent"])) == [
            "inner_outer_persistent.cu.jinja", "macros.jinja", "turns.jinja", "walk.jinja"
        ]  # fmt: skip
        assert all(re.fullmatch("[0-9a-f]{64}", digest) for digest in digests.values())


def test_heuristics_in_one_line() -> None:
    heuristics = PersistentHeuristics(
        threads=RowThreads(per_row=32, rows=4), storage="registers", chunks=2, cached=(0, 3)
    )
    assert (
        describe(heuristics)
        == "threads.per_row=32 threads.rows=4 storage=registers chunks=2 cached=[0, 3] kept=[] early=[]"
    )


def test_templates_are_short_and_read_like_their_output() -> None:
    for template in (ROOT / "templates").glob("*.jinja"):
        assert len(template.read_text().splitlines()) <= 150, template.name


@pytest.mark.parametrize(
    ("types", "body", "is_approximated"),
    [
        ({"x": "bfloat16[M, N]"}, "y = exp(x - max(x, dims=[1], keepdim=True))", True),
        ({"x": "half[M, N]"}, "w = cast(x, float)\ny = exp(w - max(x, dims=[1], keepdim=True))", True),
        ({"x": "float[M, N]"}, "w = x * 0.5\ny = exp(w - max(w, dims=[1], keepdim=True))", True),
        ({"x": "half[M, N]"}, "w = cast(x, float)\ny = exp(w - logsumexp(w, dims=[1], keepdim=True))", True),
        ({"x": "half[M, N]"}, "w = cast(x, float)\ny = exp(-w - logsumexp(w, dims=[1], keepdim=True))", False),
        ({"x": "half[M, N]"}, "w = cast(x, float)\ny = exp(w - sum(w, dims=[1], keepdim=True))", False),
        ({"x": "float[M, N]"}, "y = exp(x * 0.5 - max(x, dims=[1], keepdim=True))", False),
        ({"x": "float[M, N]"}, "y = exp(max(x, dims=[1], keepdim=True) - x)", False),
        ({"x": "float[M, N]"}, "y = exp(x - min(x, dims=[1], keepdim=True))", False),
        ({"x": "float[M, N]"}, "w = cast(x, half)\ny = exp(x - max(w, dims=[1], keepdim=True))", False),
    ],
)  # fmt: skip
def test_exponentials_below_the_largest_value_are_approximated(
    types: dict[str, str], body: str, is_approximated: bool
) -> None:
    """A value may be above the largest of others, and above its own when that has been rounded."""
    planned = plan_recipe(recipe_of(text_of(types, body, {"y": "float"})), [SM_90])
    texts = [kernel.source for kernel in planned.kernels["sm_90"].values()]
    assert texts
    assert all(("fb::exp_of_negative(" in text, "fb::exp(" in text) == (is_approximated, not is_approximated)
               for text in texts)  # fmt: skip


SHARES = "e = exp(x - max(x, dims=[1], keepdim=True))\n"


@pytest.mark.parametrize(
    ("body", "is_at_least_one"),
    [
        (f"{SHARES}y = e * reciprocal(sum(e, dims=[1], keepdim=True))", True),
        (f"{SHARES}y = e * reciprocal(sum(e * 0.5, dims=[1], keepdim=True))", False),
        (f"{SHARES}y = e * reciprocal(mean(e, dims=[1], keepdim=True))", False),
        (f"{SHARES}y = e * reciprocal(e)", False),
        ("e = exp(x)\ny = e * reciprocal(sum(e, dims=[1], keepdim=True))", False),
        (
            "e = exp(x - logsumexp(x, dims=[1], keepdim=True))\ny = e * reciprocal(sum(e, dims=[1], keepdim=True))",
            False,
        ),
        ("e = exp(x - max(x, dims=[0, 1], keepdim=True))\ny = e * reciprocal(sum(e, dims=[1], keepdim=True))", False),
    ],
)
def test_reciprocals_are_approximated_of_sums_that_are_at_least_one(body: str, is_at_least_one: bool) -> None:
    planned = plan_recipe(recipe_of(text_of({"x": "float[M, N]"}, body, {"y": "float"})), [SM_90])
    texts = [kernel.source for kernel in planned.kernels["sm_90"].values()]
    calls = {call for text in texts for call in re.findall(r"fb::(reciprocal\w*)\(", text)}
    assert calls == {"reciprocal_of_at_least_one" if is_at_least_one else "reciprocal"}
