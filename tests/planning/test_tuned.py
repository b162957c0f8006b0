"""Files of tuned kernels: what they say, what is wrong with them, what does not hold any more, and what compiles."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from fusebuild.artifact.file import open_artifact
from fusebuild.artifact.plan import Plan, Variant, encode
from fusebuild.artifact.plan_check import validate_plan
from fusebuild.build.toolchain import find_toolchain
from fusebuild.errors import TunedError
from fusebuild.freshness.check import check_recipes
from fusebuild.ir.fusion import Fusion
from fusebuild.ir.values import ExtentFact
from fusebuild.oracle.verification import verify_artifact
from fusebuild.passes import run_passes
from fusebuild.pipeline import compile_recipes, plan_recipe, tuned_beside
from fusebuild.planning.assembly import plan_alone
from fusebuild.planning.planned import PlannedRecipe
from fusebuild.planning.tuned import Entry, bucket_of, encode_tuned, points_of, read_tuned, segment_digest
from fusebuild.recipe.files import tuned_path
from fusebuild.recipe.recipe import load_recipe
from fusebuild.report.html import write_page
from fusebuild.report.inspection import Inspection, inspections_of
from fusebuild.segmentation import segment
from fusebuild.target.table import TARGETS
from support.places import ROOT
from support.small_recipes import PAIR, primitive, recipe_of, text_of

HOST, SM_90 = TARGETS["host"], TARGETS["sm_90"]
SOFTMAX = text_of(
    {"x": "bfloat16[M, N]"},
    "e = exp(x - max(x, dims=[1], keepdim=True))\ny = e / sum(e, dims=[1], keepdim=True)",
    {"y": "bfloat16"},
    name="softmax",
    cases="M: 64, N: 2048",
)
KNOBS = {"threads_per_row": 128, "rows_per_block": 1, "min_blocks": 2, "keeps": False}
ENTRY = Entry(
    segment="0",
    bucket={"M": 6, "N": 11},
    arch="host",
    multiprocessors=1,
    toolchain="abc",
    variant="registers_vec8_int32",
    knobs=KNOBS,
    heuristic={**KNOBS, "threads_per_row": 64, "min_blocks": 12, "keeps": True},
    milliseconds=0.5,
    heuristic_milliseconds=0.625,
    device="a CPU",
)


def digest_of(text: str, target: str = "host") -> str:
    """The digest of the first segment of the recipe ``text``."""
    return segment_digest(segment(run_passes(recipe_of(text).fusion), TARGETS[target]).segments[0].fusion)


def write(folder: Path, *entries: Entry, text: str = SOFTMAX, name: str = "softmax") -> Path:
    """The recipe with its tuned file beside it."""
    path = folder / f"{name}.yaml"
    path.write_text(text)
    tuned_path(path).write_text(encode_tuned(name, entries))
    return path


def tuned_entry(**changed: object) -> Entry:
    """What holds for the softmax on the host, with some of it ``changed``."""
    return msgspec.structs.replace(ENTRY, **{"segment": digest_of(SOFTMAX), **changed})


def planned(path: Path, target: str = "host") -> PlannedRecipe:
    recipe = load_recipe(path)
    return plan_recipe(recipe, [TARGETS[target]], tuned=tuned_beside(recipe))


def tuned_variant(plan: Plan) -> Variant:
    """The one that ``ENTRY`` is for."""
    (found,) = (each for each in plan.targets[0].segments[0].variants if each.name == ENTRY.variant)
    return found


def source(found: PlannedRecipe, target: str = "host") -> str:
    """The text of its kernel."""
    return found.kernels[target][tuned_variant(found.plan).launches[0].kernel].text


class TestText:
    def test_is_sorted_and_survives_reading(self, tmp_path: Path) -> None:
        other = msgspec.structs.replace(ENTRY, arch="sm_90", multiprocessors=132)
        text = encode_tuned("softmax", [other, ENTRY])
        assert text == encode_tuned("softmax", [ENTRY, other])
        (tmp_path / "softmax.tuned.json").write_text(text)
        read = read_tuned(tmp_path / "softmax.tuned.json", "softmax")
        assert read is not None
        assert read.entries == (ENTRY, other)
        assert encode_tuned("softmax", read.entries) == text

    def test_is_one_for_all_time(self) -> None:
        assert encode_tuned("softmax", [ENTRY]) == EXAMPLE

    def test_there_need_be_none(self, tmp_path: Path) -> None:
        assert read_tuned(tmp_path / "none.tuned.json", "softmax") is None

    def test_lies_beside_its_recipe(self) -> None:
        assert tuned_path(Path("recipes/softmax.yaml")) == Path("recipes/softmax.tuned.json")
        assert tuned_path(Path("softmax.v2.yaml")) == Path("softmax.v2.tuned.json")


EXAMPLE = """\
{
  "entries": [
    {
      "arch": "host",
      "bucket": {
        "M": 6,
        "N": 11
      },
      "device": "a CPU",
      "heuristic": {
        "keeps": true,
        "min_blocks": 12,
        "rows_per_block": 1,
        "threads_per_row": 64
      },
      "heuristic_milliseconds": 0.625,
      "knobs": {
        "keeps": false,
        "min_blocks": 2,
        "rows_per_block": 1,
        "threads_per_row": 128
      },
      "milliseconds": 0.5,
      "multiprocessors": 1,
      "segment": "0",
      "toolchain": "abc",
      "variant": "registers_vec8_int32"
    }
  ],
  "format": 1,
  "fusion": "softmax"
}
"""


class TestMistakesInTheText:
    @pytest.mark.parametrize(
        ("old", "new", "message"),
        [
            ('"arch": "host"', '"arch": "sm_91"',
             "f.tuned.json:4:15: error: unknown target 'sm_91' "
             "(known: sm_80, sm_86, sm_89, sm_90, sm_100, sm_120, host, host-asan)"),
            ('"M": 6', '"M": -1', "f.tuned.json:5:17: error: expected `int` >= 0"),
            ('"M": 6', '"M": "six"', "f.tuned.json:5:17: error: expected `int`, got `str`"),
            ('"keeps": false', '"keeps": 0.5', "f.tuned.json:17:16: error: expected `bool | int`, got `float`"),
            ('"device": "a CPU"', '"device": "a CPU",\n      "devise": 1',
             "f.tuned.json:10:17: error: object contains unknown field `devise`"),
            ('      "device": "a CPU",\n', "",
             "f.tuned.json:3:5: error: object missing required field `device`"),
            ('"segment": "0"', '"segment": "zero"',
             "f.tuned.json:25:18: error: expected `str` matching regex '^[0-9a-f]+$'"),
            ('"format": 1', '"format": 2',
             "f.tuned.json:30:13: error: format 2 is not 1, which this fusebuild reads"),
            ('"format": 1', '"formal": true, "format": 2',
             "f.tuned.json:30:29: error: format 2 is not 1, which this fusebuild reads"),
            ('"fusion": "softmax"', '"fusion": "rmsnorm"',
             "f.tuned.json:31:13: error: it is about 'rmsnorm', but the recipe beside it defines 'softmax'"),
            ('  "format": 1,\n', "", "f.tuned.json:1:1: error: object missing required field `format`"),
            ('"format": 1,', '"format": 1;',
             "f.tuned.json:30:14: error: it cannot be read: JSON is malformed: expected ',' or '}'"),
            ('"entries": [', '"entries": {',
             "f.tuned.json:3:5: error: it cannot be read: JSON is malformed: expected '\"'"),
        ],
    )  # fmt: skip
    def test_is_told_with_its_place(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: str, new: str, message: str
    ) -> None:
        monkeypatch.chdir(tmp_path)
        assert old in EXAMPLE
        Path("f.tuned.json").write_text(EXAMPLE.replace(old, new, 1))
        with pytest.raises(TunedError) as caught:
            read_tuned(Path("f.tuned.json"), "softmax")
        first = str(caught.value).splitlines()[0]
        assert first == message
        assert caught.value.exit_code == 2

    def test_two_entries_with_one_key(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        Path("f.tuned.json").write_text(encode_tuned("softmax", [ENTRY, ENTRY]))
        with pytest.raises(TunedError) as caught:
            read_tuned(Path("f.tuned.json"), "softmax")
        assert str(caught.value) == (
            "f.tuned.json:29:5: error: it has the same key as the entry of line 3\n      {\n      ^"
        )

    def test_bytes_that_are_no_text(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        Path("f.tuned.json").write_bytes(b"\xff{}")
        with pytest.raises(TunedError, match=r"^f\.tuned\.json:1:1: error: it cannot be read: 'utf-8' codec"):
            read_tuned(Path("f.tuned.json"), "softmax")
        Path("f.tuned.json").write_bytes('{\n "größe\xff"}'.encode("latin-1").replace(b"\xf6\xdf", "öß".encode()))
        with pytest.raises(TunedError) as caught:
            read_tuned(Path("f.tuned.json"), "softmax")
        assert str(caught.value) == (
            "f.tuned.json:2:8: error: it cannot be read: 'utf-8' codec can't decode byte 0xff in position 11: "
            'invalid start byte\n   "größe\ufffd"}\n         ^'
        )

    @pytest.mark.parametrize(
        "member",
        ['"entries": []', '"format": 1', '"fusion": "softmax"', '"arch": "host"', '"M": 6', '"b\\u0075cket": {}'],
    )
    def test_a_key_that_is_there_twice(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, member: str) -> None:
        monkeypatch.chdir(tmp_path)
        key = next(iter(json.loads(f"{{{member}}}")))
        text = encode_tuned("softmax", [ENTRY])
        Path("f.tuned.json").write_text(text.replace(f'"{key}": ', f'{member}, "{key}": ', 1))
        before = text.partition(f'"{key}": ')[0].splitlines()
        with pytest.raises(TunedError) as caught:
            read_tuned(Path("f.tuned.json"), "softmax")
        (problem,) = caught.value.diagnostics
        place = len(before), len(before[-1]) + len(f"{member}, ") + 1
        assert (problem.message, problem.location.line, problem.location.column) == (f"duplicate key '{key}'", *place)

    def test_an_empty_file(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        Path("f.tuned.json").write_text("")
        with pytest.raises(TunedError, match=r"^f\.tuned\.json:1:1: error: it cannot be read: Input data was trunc"):
            read_tuned(Path("f.tuned.json"), "softmax")


class TestWhatItChanges:
    def test_the_variant_that_it_names_and_no_other(self, tmp_path: Path) -> None:
        plain = planned(write(tmp_path, text=SOFTMAX))
        tuned = planned(write(tmp_path, tuned_entry()))
        before, after = (each.plan.targets[0].segments[0].variants for each in (plain, tuned))
        assert [variant.name for variant in after] == [variant.name for variant in before]
        changed = [new for old, new in zip(before, after, strict=True) if new != old]
        assert changed == [tuned_variant(tuned.plan)]
        assert changed[0].tuned == KNOBS
        assert all(variant.tuned is msgspec.UNSET for variant in before)
        assert "constexpr int kThreadsPerRow = 64;" in source(plain)
        assert "constexpr int kThreadsPerRow = 128;\nconstexpr int kRowsPerBlock = 1;" in source(tuned)
        assert "// softmax.yaml, segment 0: inner_persistent, variant registers_vec8_int32, tuned\n" in source(tuned)

    def test_the_heuristics_own_choice_gives_the_same_kernels(self, tmp_path: Path) -> None:
        plain = planned(write(tmp_path, text=SOFTMAX))
        own = planned(write(tmp_path, tuned_entry(knobs=ENTRY.heuristic)))
        assert {*own.kernels["host"]} == {*plain.kernels["host"]}

    def test_without_a_file_no_byte_is_another(self, tmp_path: Path) -> None:
        path = write(tmp_path)
        tuned_path(path).unlink()
        recipe = load_recipe(path)
        assert tuned_beside(recipe) is None
        assert encode(planned(path).plan) == encode(plan_recipe(recipe, [HOST]).plan)
        assert b"tuned" not in encode(planned(path).plan)

    def test_named_sizes_have_entries_of_their_own(self, tmp_path: Path) -> None:
        text = SOFTMAX.replace("inputs:", "extents:\n  N: {values: [4096]}\ninputs:")
        knobs = {"threads_per_row": 256, "rows_per_block": 1, "min_blocks": 2, "keeps": False}
        path = write(tmp_path, tuned_entry(bucket={"M": 6, "N": 12}, knobs=knobs), text=text)
        first, second, *_ = planned(path).plan.targets[0].segments[0].variants
        assert (first.name, first.tuned) == ("N4096_registers_vec8_int32", knobs)
        assert second.tuned is msgspec.UNSET

    def test_inspection_shows_it(self, tmp_path: Path) -> None:
        found = planned(write(tmp_path, tuned_entry()))
        inspection = Inspection(plan=found.plan, target="host", sizes={"M": 64, "N": 2048})
        variants = inspection.report.segments[0].variants
        assert {each.name: each.tuned for each in variants if each.tuned} == {ENTRY.variant: KNOBS}
        assert "\n    tuned: threads_per_row=128 rows_per_block=1 min_blocks=2 keeps=false\n" in inspection.as_text()

    def test_inspect_shows_what_the_compiler_at_hand_would_use(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        def tuned_in(path: Path) -> list[object]:
            (inspection,), _ = inspections_of(path, [HOST], None)
            return [each.tuned for each in inspection.report.segments[0].variants if each.tuned]

        other = write(tmp_path, tuned_entry())
        assert tuned_in(other) == []
        assert "is not used, the heuristics decide: it was measured with another compiler" in caplog.text
        own = write(tmp_path, tuned_entry(toolchain=find_toolchain([HOST]).digest_for(HOST)))
        assert tuned_in(own) == [KNOBS]
        caplog.clear()
        monkeypatch.setenv("FUSEBUILD_CXX", "missing")
        assert tuned_in(other) == tuned_in(own) == [KNOBS]
        assert "what was measured with another compiler is shown, too: FUSEBUILD_CXX names missing" in caplog.text
        tuned_path(own).unlink()
        caplog.clear()
        assert tuned_in(own) == []
        assert not caplog.records

    def test_the_page_shows_it(self, tmp_path: Path) -> None:
        found = planned(write(tmp_path, tuned_entry()))
        inspection = Inspection(plan=found.plan, target="host", sizes={"M": 64, "N": 2048})
        write_page(tmp_path / "page.html", [inspection], found.recipe.fusion)
        shown = "registers_vec8_int32 (tuned: threads_per_row=128 rows_per_block=1 min_blocks=2 keeps=false)"
        assert shown in (tmp_path / "page.html").read_text()

    def test_equal_layers_share_it(self, tmp_path: Path) -> None:
        text = text_of(
            {"x": "float[M, N]"}, "a = segment_set(sum(x, dims=[1], keepdim=True))\nb = segment_set(x * a)\n"
            "c = segment_set(sum(b, dims=[1], keepdim=True))\ny = b * c",
            {"y": "float"}, name="layers", cases="M: 64, N: 512",
        )  # fmt: skip
        plain = planned(write(tmp_path, text=text, name="layers"))
        segments = plain.plan.targets[0].segments
        twins = [each.id for each in segments if each.scheduler == segments[0].scheduler == "reduction"]
        assert len(twins) == 2
        digest = digest_of(text)
        knobs = {"threads": 64, "unroll": 2, "blocks": 2, "min_blocks": 2}
        entry = tuned_entry(segment=digest, bucket={"M": 6, "N": 9}, knobs=knobs, variant="vec4_int32")
        tuned = planned(write(tmp_path, entry, text=text, name="layers")).plan.targets[0].segments
        assert [tuned[id].variants[0].tuned for id in twins] == [knobs, knobs]


STALE = "softmax.tuned.json:3:5: the tuned registers_vec8_int32 is not used, the heuristics decide: "


class TestWhatDoesNotHoldAnyMore:
    @pytest.mark.parametrize(
        ("changed", "reason"),
        [
            ({"segment": "0123456789abcdef"}, "no segment of softmax is 0123456789abcdef now"),
            ({"bucket": {"M": 6, "N": 10}},
             "neither the first case nor a named size lies in its bucket (M from 64, N from 1024)"),
            ({"bucket": {"M": 6}}, "neither the first case nor a named size lies in its bucket (M from 64)"),
            ({"multiprocessors": 4}, "it was measured on 4 multiprocessors, and host is planned for 1"),
            ({"variant": "registers_vec4_int32"},
             "segment 0 has no such variant, only short_vec8_int32, registers_vec8_int32, registers4096_vec8_int32, "
             "edged_vec8_int32, edged8192_vec8_int32, edged32768_vec8_int32, "
             "edged131072_vec8_int32, edged262144_vec8_int32, tiled_vec8_int32, anywhere_vec8_int64"),
        ],
    )  # fmt: skip
    def test_is_told_in_a_warning_and_the_heuristics_decide(
        self,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
        changed: dict[str, object],
        reason: str,
    ) -> None:
        monkeypatch.chdir(tmp_path)
        own = planned(write(Path(), text=SOFTMAX)).plan
        found = planned(write(Path(), tuned_entry(**changed))).plan
        assert encode(found) == encode(own)
        expected = STALE.replace("registers_vec8_int32", str(changed.get("variant", "registers_vec8_int32")))
        assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
            ("WARNING", expected + reason)
        ]

    def test_another_compiler(
        self, compilers: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        monkeypatch.chdir(tmp_path)
        toolchain, recipe = find_toolchain([HOST]), load_recipe(write(Path(), tuned_entry()))
        found = plan_recipe(recipe, [HOST], tuned=tuned_beside(recipe), toolchain=toolchain)
        assert found.plan == plan_recipe(recipe, [HOST]).plan
        assert [record.getMessage() for record in caplog.records] == [STALE + "it was measured with another compiler"]
        caplog.clear()
        recipe = load_recipe(write(Path(), tuned_entry(toolchain=toolchain.digest_for(HOST))))
        found = plan_recipe(recipe, [HOST], tuned=tuned_beside(recipe), toolchain=toolchain)
        assert tuned_variant(found.plan).tuned == KNOBS
        assert caplog.records == []

    def test_another_target_is_no_warning(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        monkeypatch.chdir(tmp_path)
        caplog.set_level(logging.INFO, logger="fusebuild.planning.tuned")
        found = planned(write(Path(), tuned_entry()), "sm_90")
        assert b"tuned" not in encode(found.plan)
        assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
            ("INFO", "softmax.tuned.json: it is tuned for host; the heuristics decide for sm_90")
        ]


class TestKnobsThatNoKernelIsMadeWith:
    @pytest.mark.parametrize(
        ("changed", "place", "message"),
        [
            ({"threads_per_row": 24}, "21:28", "knob threads_per_row: it is 24, no power of two from 8 to 1024"),
            ({"threads_per_row": 2, "rows_per_block": 64}, "21:28",
             "knob threads_per_row: it is 2, no power of two from 8 to 1024"),
            ({"rows_per_block": 3}, "20:27",
             "knob rows_per_block: it is 3, but rows of 128 threads share no block here"),
            ({"keeps": 3}, "18:18", "knob keeps: it is true or false"),
            ({"warps": 3}, "22:18", "knob warps: registers_vec8_int32 has no such knob; "
             "its knobs are threads_per_row, rows_per_block, min_blocks, keeps"),
        ],
    )  # fmt: skip
    def test_are_errors_that_name_segment_and_knob(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: dict[str, int], place: str, message: str
    ) -> None:
        monkeypatch.chdir(tmp_path)
        path = write(Path(), tuned_entry(knobs={**KNOBS, **changed}))
        with pytest.raises(TunedError) as caught:
            planned(path)
        digest = digest_of(SOFTMAX)
        first, *_, hint = str(caught.value).splitlines()
        assert first == f"softmax.tuned.json:{place}: error: segment 0 ({digest}), registers_vec8_int32: {message}"
        assert hint == "  hint: tune again"

    def test_a_knob_that_is_absent_is_told_where_knobs_are(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        path = write(Path(), tuned_entry(knobs={"threads_per_row": 8}))
        message = "registers_vec8_int32: knob rows_per_block: registers_vec8_int32 needs a value"
        with pytest.raises(TunedError, match=rf"^softmax\.tuned\.json:17:16: error: segment 0 \(\w+\), {message}"):
            planned(path)


class TestDigests:
    def test_names_and_places_do_not_matter(self) -> None:
        renamed = SOFTMAX.replace("e = ", "numerator = ").replace("e / sum(e", "numerator / sum(numerator")
        assert digest_of(renamed.replace("fusion: softmax", "fusion: other")) == digest_of(SOFTMAX)

    def test_what_is_computed_and_promised_does(self) -> None:
        promised = SOFTMAX.replace("inputs:", "extents:\n  N: {multiple_of: 8}\ninputs:")
        narrower = SOFTMAX.replace("x: bfloat16", "x: half")
        assert len({digest_of(text) for text in (SOFTMAX, promised, narrower, SOFTMAX.replace("exp", "exp2"))}) == 4

    def test_sizes_and_names_of_sizes_do_not(self) -> None:
        named = SOFTMAX.replace("inputs:", "extents:\n  N: {values: [768]}\ninputs:")
        assert digest_of(named) == digest_of(SOFTMAX) == digest_of(SOFTMAX.replace("N: 2048", "N: 4096"))

    def test_facts_about_other_symbols_do_not(self) -> None:
        fusion: Fusion = primitive(SOFTMAX)
        assert segment_digest(replace(fusion, facts=(ExtentFact(symbol="K", multiple_of=4),))) == segment_digest(fusion)

    @pytest.mark.parametrize(("size", "power"), [(0, 0), (1, 0), (2, 1), (3, 1), (4, 2), (4095, 11), (4096, 12)])
    def test_buckets_are_powers_of_two(self, size: int, power: int) -> None:
        assert bucket_of(primitive(SOFTMAX), {"M": size, "N": 1}) == {"M": power, "N": 0}

    def test_a_size_that_no_case_gives_is_the_heuristics(self) -> None:
        assert bucket_of(primitive(SOFTMAX), {}) == {"M": 10, "N": 10}


def test_every_variant_of_every_recipe_is_a_plan_by_itself() -> None:
    for path in sorted((ROOT / "recipes").glob("*.yaml")):
        recipe = load_recipe(path)
        for point in points_of(segment(run_passes(recipe.fusion), SM_90)):
            for variant in point.variants(SM_90):
                if variant.launches:
                    plan, kernels = plan_alone(point.segment, variant, SM_90, path.name)
                    assert validate_plan(plan) is None
                    assert {*kernels} == {each.kernel for each in plan.targets[0].segments[0].variants[0].launches}


class TestCompiling:
    @pytest.fixture(scope="class")
    @staticmethod
    def built(compilers: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
        """A folder with a tuned recipe and its artifact for the host."""
        folder = tmp_path_factory.mktemp("tuned")
        toolchain = find_toolchain([HOST]).digest_for(HOST)
        compile_recipes([write(folder, tuned_entry(toolchain=toolchain))], [HOST], folder / "build", jobs=2)
        return folder

    def test_the_artifact_holds_the_tuned_kernel_and_it_is_right(self, built: Path) -> None:
        artifact = open_artifact(built / "build" / "softmax.fuse")
        tuned = tuned_variant(artifact.plan)
        assert tuned.tuned == KNOBS
        assert "constexpr int kThreadsPerRow = 128;" in artifact.kernel_text(tuned.launches[0].kernel)
        verdicts = list(verify_artifact(artifact.path, target="host"))
        assert len(verdicts) > 3
        assert all(verdict.ok for verdict in verdicts)

    def test_it_is_fresh_until_the_file_changes(self, built: Path) -> None:
        recipe, tuned = built / "softmax.yaml", built / "softmax.tuned.json"
        (verdict,) = check_recipes([recipe], built / "build")
        assert verdict.why == ()
        before = tuned.read_text()
        try:
            tuned.write_text(before.replace('"a CPU"', '"another CPU"'))
            (verdict,) = check_recipes([recipe], built / "build")
            assert verdict.why == ("tuned kernels changed",)
            tuned.unlink()
            (verdict,) = check_recipes([recipe], built / "build")
            assert verdict.why[:2] == ("tuned kernels changed", "plan changed")
        finally:
            tuned.write_text(before)


def test_pairs_have_points_for_both_segments() -> None:
    points = points_of(segment(run_passes(recipe_of(PAIR).fusion), HOST))
    assert [point.segment.scheduler for point in points] == ["reduction", "pointwise"]
