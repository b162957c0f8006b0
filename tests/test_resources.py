"""Where fusebuild keeps what makes its next run faster."""

from __future__ import annotations

from pathlib import Path

from fusebuild.resources import cache_dir


def test_where_the_cache_is() -> None:
    assert cache_dir({"FUSEBUILD_CACHE_DIR": "/a", "XDG_CACHE_HOME": "/b", "HOME": "/c"}) == Path("/a")
    assert cache_dir({"XDG_CACHE_HOME": "/b", "HOME": "/c"}) == Path("/b/fusebuild")
    assert cache_dir({"HOME": "/c"}) == Path("/c/.cache/fusebuild")
