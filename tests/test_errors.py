"""Diagnostics as people see them, and the tree of errors with its exit codes."""

from __future__ import annotations

import pytest

from fusebuild.errors import (
    NOWHERE,
    ArtifactError,
    CompileError,
    Diagnostic,
    ForkError,
    FusebuildError,
    InvalidFusionError,
    LocatedError,
    NothingVerifiedError,
    OutOfMemoryError,
    RecipeError,
    ScheduleError,
    SourceLocation,
    StaleError,
    ToolchainError,
    UsageError,
    VerificationError,
    nearest,
)

LINE = SourceLocation(path="recipes/x.yaml", line=12, column=7, text="  y = expp(x)\n", width=4)


class TestLocation:
    def test_prints_as_editors_expect(self) -> None:
        assert str(LINE) == "recipes/x.yaml:12:7"

    @pytest.mark.parametrize("path", ["recipes/x.yaml", "x.yaml", "C:\\work\\x.yaml", "/deep/down/x.yaml"])
    def test_short_form_has_no_folders(self, path: str) -> None:
        assert SourceLocation(path=path, line=3, column=1).short == "x.yaml:3"

    def test_nowhere_says_that_code_built_it(self) -> None:
        assert str(NOWHERE) == "<built>:1:1"


class TestDiagnostic:
    def test_shows_line_caret_and_hint(self) -> None:
        text = str(Diagnostic(location=LINE, message="unknown op 'expp'", hint="did you mean 'exp'?"))
        assert text == (
            "recipes/x.yaml:12:7: error: unknown op 'expp'\n    y = expp(x)\n        ^~~~\n  hint: did you mean 'exp'?"
        )

    def test_without_text_or_hint_is_one_line(self) -> None:
        assert str(Diagnostic(location=NOWHERE, message="bad")) == "<built>:1:1: error: bad"

    def test_a_tab_takes_one_column_so_that_the_caret_fits(self) -> None:
        location = SourceLocation(path="x.yaml", line=1, column=2, text="\tbody:")
        assert str(Diagnostic(location=location, message="tab")).splitlines()[1:] == ["   body:", "   ^"]

    def test_zero_width_still_points(self) -> None:
        location = SourceLocation(path="x.yaml", line=1, column=1, text="x", width=0)
        assert str(Diagnostic(location=location, message="m")).splitlines()[-1] == "  ^"


class TestNearest:
    def test_names_the_nearest(self) -> None:
        assert nearest("rsqr", ["sqrt", "rsqrt", "exp"]) == "did you mean 'rsqrt'?"

    def test_is_silent_when_nothing_is_near(self) -> None:
        assert nearest("banana", ["exp", "log"]) == ""
        assert nearest("x", []) == ""

    def test_does_not_depend_on_the_candidates_order(self) -> None:
        assert nearest("ab", ["abd", "abc"]) == nearest("ab", ["abc", "abd"])


class TestLocatedError:
    def test_sorts_by_place(self) -> None:
        def at(path: str, line: int, column: int) -> Diagnostic:
            return Diagnostic(location=SourceLocation(path=path, line=line, column=column), message="m")

        error = LocatedError([at("b", 1, 1), at("a", 10, 1), at("a", 2, 9), at("a", 2, 3)])
        assert [str(d.location) for d in error.diagnostics] == ["a:2:3", "a:2:9", "a:10:1", "b:1:1"]
        assert str(error) == "\n".join(str(d) for d in error.diagnostics)

    def test_at_makes_an_error_of_the_class_it_is_called_on(self) -> None:
        error = RecipeError.at(LINE, "wrong", hint="do this")
        assert isinstance(error, RecipeError)
        assert error.diagnostics == (Diagnostic(location=LINE, message="wrong", hint="do this"),)


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (FusebuildError, 1),
        (CompileError, 1),
        (ForkError, 1),
        (InvalidFusionError, 1),
        (VerificationError, 1),
        (LocatedError, 2),
        (RecipeError, 2),
        (ScheduleError, 2),
        (UsageError, 2),
        (StaleError, 3),
        (ArtifactError, 4),
        (ToolchainError, 5),
        (NothingVerifiedError, 6),
        (OutOfMemoryError, 1),
    ],
)
def test_every_error_carries_its_exit_code(kind: type[FusebuildError], code: int) -> None:
    assert issubclass(kind, FusebuildError)
    assert kind.exit_code == code


def test_artifact_errors_name_file_member_and_reason() -> None:
    assert str(ArtifactError("a.fuse", "is no zip")) == "a.fuse: is no zip"
    error = ArtifactError("a.fuse", "is cut off", member="plan.json")
    assert str(error) == "a.fuse: plan.json: is cut off"
    assert (error.path, error.member, error.reason) == ("a.fuse", "plan.json", "is cut off")
