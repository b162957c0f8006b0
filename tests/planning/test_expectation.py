"""What recipes expect of their plans: compile refuses one that has more, verify fails it, inspect shows it."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from fusebuild.cli.main import cli
from fusebuild.errors import ExpectationError
from fusebuild.pipeline import compile_recipes, plan_recipe, require_expected
from fusebuild.planning.expectation import complaints
from fusebuild.report.html import render_page
from fusebuild.report.inspection import inspections_of
from fusebuild.target.table import TARGETS
from support.host_artifacts import with_recipe
from support.small_recipes import recipe_of

TURNED = """\
fusion: turned
inputs: {x: "float[M, N]"}
body: |
  s = sum(x, dims=[1], keepdim=True)
  y = segment_set(s) * 2.0
outputs: {y: }
"""
"""Two segments, which move 4*M*N + 12*M bytes."""

ROWS = "cases: [{M: 2, N: 1000}, {M: 300, N: 4}]\n"
"""At the first case 8,024 bytes, at the second 8,400."""


def said(expect: str, cases: str = ROWS, targets: tuple[str, ...] = ("sm_90",)) -> str:
    """What is wrong with the plans of a recipe that expects ``expect``; nothing where it is kept."""
    planned = plan_recipe(recipe_of(f"{TURNED}{cases}expect: {expect}\n"), [TARGETS[name] for name in targets])
    return str(ExpectationError(complaints(planned.recipe, planned.plan.targets)))


class TestSegments:
    @pytest.mark.parametrize("most", [2, 3, 1000])
    def test_as_many_as_expected_or_fewer_are_right(self, most: int) -> None:
        assert said(f"{{segments: {most}}}") == ""

    def test_more_are_an_error_that_names_the_cuts(self) -> None:
        assert said("{segments: 1}", targets=("sm_90", "host")) == (
            "test.yaml:8:20: error: the plan for sm_90 and host has 2 segments, and at most 1 is expected\n"
            "  expect: {segments: 1}\n"
            "                     ^\n"
            "  hint: segment 1 is cut from segment 0\n"
            "          segment_set"
        )

    def test_segments_that_share_nothing(self) -> None:
        text = 'fusion: f\ninputs: {x: "float[M]", y: "float[N]"}\nbody: |\n  a = x * 2.0\n  b = sin(y)\n'
        recipe = recipe_of(f"{text}outputs: {{a: , b: }}\nexpect: {{segments: 0}}\n")
        with pytest.raises(ExpectationError, match="2 segments, and at most 0 are expected") as caught:
            require_expected([plan_recipe(recipe, [TARGETS["sm_90"]])])
        assert "hint: each segment reads only what the caller gives" in str(caught.value)

    def test_those_that_run_side_by_side_are_one(self) -> None:
        text = 'fusion: f\ninputs: {x: "float[M]", y: "float[N]"}\nbody: |\n  a = x * 2.0\n  b = y * 2.0\n'
        recipe = recipe_of(f"{text}outputs: {{a: , b: }}\nexpect: {{segments: 1}}\n")
        require_expected([plan_recipe(recipe, [TARGETS["sm_90"]])])


class TestBytes:
    @pytest.mark.parametrize("formula", ["4*M*N + 12*M", "(N + 3) * 4 * M", "5*M*N + 12*(M - 1)", "1000000000000"])
    def test_as_many_as_expected_or_fewer_are_right(self, formula: str) -> None:
        assert said(f"{{bytes: {formula}}}") == ""

    def test_two_percent_more_are_let_pass_and_no_byte_beyond(self) -> None:
        case = "cases: [{M: 300, N: 4}]\n"
        assert 100 * 8400 <= 102 * 8236
        assert said("{bytes: 8236}", case) == ""
        assert 100 * 8400 > 102 * 8235
        assert "moves 8,400 bytes" in said("{bytes: 8235}", case)

    def test_more_are_an_error_that_names_the_first_case_where_they_are(self) -> None:
        assert said("{bytes: 4*M*N}") == (
            "test.yaml:8:17: error: the plan for sm_90 moves 8,400 bytes = 4*M*N + 12*M at M=300, N=4, more than the "
            "4,800 bytes = 4*M*N that are expected\n"
            "  expect: {bytes: 4*M*N}\n"
            "                  ^~~~~\n"
            "  hint: segment 0 moves 6,000 bytes = 4*M*N + 4*M\n"
            "        segment 1 moves 2,400 bytes = 8*M\n"
            "        2 % more than expected are let pass"
        )

    def test_where_the_recipe_names_no_case_symbols_have_no_sizes(self) -> None:
        assert said("{bytes: 0*M}", cases="") == ""

    def test_constant_sizes_need_no_case(self) -> None:
        recipe = recipe_of(TURNED.replace("M, N", "5, 8") + "expect: {bytes: 100}\n")
        with pytest.raises(ExpectationError, match="moves 220 bytes, more than the 100 bytes that are expected"):
            require_expected([plan_recipe(recipe, [TARGETS["sm_90"]])])

    def test_a_case_without_elements(self) -> None:
        assert said("{bytes: 4*M*N + 12*M}", "cases: [{M: 0, N: 0}]\n") == ""


def test_no_plan_and_no_kernel_depends_on_it() -> None:
    plain, expecting = recipe_of(TURNED + ROWS), recipe_of(f"{TURNED}{ROWS}expect: {{segments: 2, bytes: 5*M*N}}\n")
    one, other = (plan_recipe(recipe, [TARGETS["sm_90"]]) for recipe in (plain, expecting))
    assert one.plan == other.plan
    assert one.kernels == other.kernels


def test_inspect_shows_it(tmp_path: Path) -> None:
    path = tmp_path / "turned.yaml"
    path.write_text(f"{TURNED}{ROWS}expect: {{segments: 1, bytes: 4*M*N + 12*M}}\n")
    (inspection,), fusion = inspections_of(path, None, None)
    assert inspection.as_text().endswith(
        "\ntotal  8,024 bytes = 4*M*N + 12*M\n"
        "expected  at most 1 segment, 8,024 bytes = 4*M*N + 12*M\n"
        "  the plan has 2 segments, and at most 1 is expected\n"
    )
    assert "at most 1 segment, 8,024 bytes" in render_page(inspection, fusion)
    expected = inspection.report.expected
    assert expected
    assert (expected.segments, expected.bytes, expected.bytes_formula) == (1, 8024, "4*M*N + 12*M")
    path.write_text(f"{TURNED}expect: {{bytes: 5*M*N}}\n")
    (inspection,), _ = inspections_of(path, None, None)
    assert inspection.as_text().endswith("\nexpected  at most 5*M*N bytes: kept\n")
    path.write_text(f"{TURNED}{ROWS}expect: {{}}\n")
    (inspection,), _ = inspections_of(path, None, None)
    assert "expected" not in inspection.as_text()
    assert not inspection.report.expected


def run(*words: str) -> Result:
    return CliRunner().invoke(cli, list(words))


def test_what_is_not_kept_is_not_compiled(tmp_path: Path, compilers: None) -> None:
    folder, out = tmp_path / "recipes", tmp_path / "out"
    folder.mkdir()
    (folder / "turned.yaml").write_text(f"{TURNED}{ROWS}expect: {{segments: 1}}\n")
    (folder / "kept.yaml").write_text(TURNED.replace("turned", "kept") + f"{ROWS}expect: {{segments: 2}}\n")
    for dry in ([], ["-n"]):
        result = run("compile", str(folder), "--arch", "host", "-o", str(out), *dry)
        assert isinstance(result.exception, ExpectationError)
        assert result.exception.exit_code == 1
        assert "turned.yaml:8:20: error: the plan for host has 2 segments, and at most 1 is" in str(result.exception)
        assert not list(out.glob("*.fuse"))
    result = run("compile", str(folder), "--arch", "host", "-o", str(out), "--keep-going")
    assert result.exit_code == 1
    assert [path.name for path in out.glob("*.fuse")] == ["kept.fuse"]


def test_verify_fails_a_plan_that_has_more_than_its_recipe_expects(tmp_path: Path, compilers: None) -> None:
    """Such as one that was made before the recipe expected anything: the recipe is put in here."""
    path = tmp_path / "turned.yaml"
    path.write_text(f"{TURNED}{ROWS}")
    compile_recipes([path], [TARGETS["host"]], tmp_path)
    made = tmp_path / "turned.fuse"
    with_recipe(made, made, f"{TURNED}{ROWS}expect: {{segments: 2, bytes: 4*M*N}}\n".encode())
    result = run("verify", str(made), "--target", "host")
    lines = result.output.splitlines()
    assert result.exit_code == 1
    assert lines[0] == (
        "turned                         M=300 N=4                    plan         FAIL  the plan moves 8,400 bytes = "
        "4*M*N + 12*M at M=300, N=4, more than the 4,800 bytes = 4*M*N that are expected"
    )
    assert lines[-1].endswith(", 1 failed")
