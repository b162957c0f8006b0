"""Which files are recipes."""

from __future__ import annotations

from pathlib import Path

import pytest

from fusebuild.errors import UsageError
from fusebuild.recipe.files import recipe_files


def test_a_folder_holds_those_that_are_not_hidden(tmp_path: Path) -> None:
    for name in ("b.yaml", "a.yaml", ".c.yaml", "d.json"):
        (tmp_path / name).write_text("")
    (tmp_path / "e.yaml").mkdir()
    (tmp_path / ".#a.yaml").symlink_to("somebody@somewhere.1:2")  # Emacs's lock
    assert recipe_files([tmp_path]) == (tmp_path / "a.yaml", tmp_path / "b.yaml")
    with pytest.raises(UsageError, match=r"e\.yaml holds no \*\.yaml recipe$"):
        recipe_files([tmp_path / "e.yaml"])


def test_what_is_named_is_one_hidden_or_missing(tmp_path: Path) -> None:
    assert recipe_files([tmp_path / ".c.yaml", tmp_path / "gone"]) == (tmp_path / ".c.yaml", tmp_path / "gone")


def test_each_counts_once_however_it_is_spelled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.yaml").write_text("")
    monkeypatch.chdir(tmp_path)
    spellings = [Path("a.yaml"), tmp_path / "a.yaml", tmp_path, Path("..", tmp_path.name, "a.yaml")]
    assert recipe_files(spellings) == (Path("a.yaml"),)
