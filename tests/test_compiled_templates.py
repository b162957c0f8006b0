"""Where fusebuild keeps what makes its next run faster, and the templates that it keeps there."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import jinja2
import pytest

from fusebuild.compiled_templates import CompiledTemplates
from fusebuild.resources import cache_dir


def test_where_the_cache_is() -> None:
    assert cache_dir({"FUSEBUILD_CACHE_DIR": "/a", "XDG_CACHE_HOME": "/b", "HOME": "/c"}) == Path("/a")
    assert cache_dir({"XDG_CACHE_HOME": "/b", "HOME": "/c"}) == Path("/b/fusebuild")
    assert cache_dir({"HOME": "/c"}) == Path("/c/.cache/fusebuild")


class Counting(jinja2.Environment):
    """Counts what it compiles."""

    compiled = 0

    def compile(self, *args: Any, **more: Any) -> Any:
        self.compiled += 1
        return super().compile(*args, **more)


def rendered(templates: Path, cache: Path) -> tuple[str, int]:
    """What a new process would render, and how many templates it would compile."""
    environment = Counting(
        loader=jinja2.FileSystemLoader(templates),
        bytecode_cache=CompiledTemplates({"FUSEBUILD_CACHE_DIR": str(cache)}),
    )
    return environment.get_template("a.jinja").render(name="x"), environment.compiled


@pytest.fixture
def templates(tmp_path: Path) -> Path:
    folder = tmp_path / "templates"
    folder.mkdir()
    (folder / "a.jinja").write_text("old {{ name }}")
    return folder


def test_a_template_is_compiled_once(templates: Path, tmp_path: Path) -> None:
    assert [rendered(templates, tmp_path / "cache") for _ in range(2)] == [("old x", 1), ("old x", 0)]


def test_a_changed_template_is_compiled_again(templates: Path, tmp_path: Path) -> None:
    rendered(templates, tmp_path / "cache")
    (templates / "a.jinja").write_text("new {{ name }}")
    assert [rendered(templates, tmp_path / "cache") for _ in range(2)] == [("new x", 1), ("new x", 0)]


@pytest.mark.parametrize("length", [0, 4, 40, 200])
def test_a_file_that_was_cut_short_is_compiled_again(length: int, templates: Path, tmp_path: Path) -> None:
    rendered(templates, tmp_path / "cache")
    (file,) = (path for path in (tmp_path / "cache").rglob("*") if path.is_file())
    assert file.stat().st_size > length
    file.write_bytes(file.read_bytes()[:length])
    assert [rendered(templates, tmp_path / "cache") for _ in range(2)] == [("old x", 1), ("old x", 0)]


def test_a_folder_that_cannot_be_made_is_no_error(
    templates: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "cache").write_text("a file")
    with caplog.at_level(logging.DEBUG):
        assert [rendered(templates, tmp_path / "cache") for _ in range(2)] == [("old x", 1), ("old x", 1)]
    assert "a compiled template is not cached: " in caplog.text
