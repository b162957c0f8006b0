"""Where fusebuild keeps what makes its next run faster."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from fusebuild.errors import UsageError
from fusebuild.system import resources
from fusebuild.system.resources import cache_dir


def test_where_the_cache_is() -> None:
    assert cache_dir({"FUSEBUILD_CACHE_DIR": "/a", "XDG_CACHE_HOME": "/b", "HOME": "/c"}) == Path("/a")
    assert cache_dir({"XDG_CACHE_HOME": "/b", "HOME": "/c"}) == Path("/b/fusebuild")
    assert cache_dir({"HOME": "/c"}) == Path("/c/.cache/fusebuild")


@pytest.fixture
def homeless(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the cache of somebody without a home is; nothing is there yet."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(resources, "_account_home", lambda: "")
    return cache_dir({}).parent.parent


def test_without_a_home_it_is_in_the_temporary_folder(homeless: Path, tmp_path: Path) -> None:
    assert homeless.parent == tmp_path
    homeless.mkdir(mode=0o755)
    assert cache_dir({}) == homeless / ".cache" / "fusebuild"


def test_a_folder_there_that_others_may_write_to_is_refused(homeless: Path, tmp_path: Path) -> None:
    """Who was there first may have made it, and put objects into it."""
    homeless.mkdir()
    homeless.chmod(0o777)
    with pytest.raises(UsageError, match=f"{homeless} is not only yours\n  hint: name another .* FUSEBUILD_CACHE_DIR"):
        cache_dir({})
    homeless.rmdir()
    homeless.symlink_to(tmp_path)
    with pytest.raises(UsageError, match="is not only yours"):
        cache_dir({})


def test_a_folder_there_of_somebody_else_is_refused(
    homeless: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resources.os, "getuid", lambda: 123456)
    (tmp_path / "fusebuild-123456").mkdir(mode=0o755)
    with pytest.raises(UsageError, match="fusebuild-123456 is not only yours"):
        cache_dir({})
    assert cache_dir({"XDG_CACHE_HOME": "/b"}) == Path("/b/fusebuild")
