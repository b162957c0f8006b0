"""Where fusebuild's own data lies: the templates, the device header and ``build.ninja.in``; what it keeps of its work.

In a source checkout they are the top level's ``templates/`` and ``build.ninja.in``; an installed wheel carries the same
tree under ``fusebuild/data``. Everything that reads them asks here.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from fusebuild.errors import ToolchainError

_PACKAGE = Path(__file__).resolve().parent
_NINJA_TEMPLATE = "build.ninja.in"


def data_root() -> Path:
    """The folder that holds ``templates/`` and ``build.ninja.in``.

    Raises :class:`ToolchainError` when neither the package nor a checkout around it has them.
    """
    for root in (_PACKAGE / "data", _PACKAGE.parent):
        if (root / _NINJA_TEMPLATE).is_file() and (root / "templates").is_dir():
            return root
    raise ToolchainError(f"fusebuild's templates are missing beside {_PACKAGE}: install fusebuild again")


def templates_dir() -> Path:
    """The folder of the Jinja templates."""
    return data_root() / "templates"


def include_dir() -> Path:
    """The folder to pass to ``-I``: kernels include ``fusebuild/<header>`` from it."""
    return templates_dir() / "include"


def ninja_template() -> str:
    """The text of ``build.ninja.in``."""
    return (data_root() / _NINJA_TEMPLATE).read_text(encoding="utf-8")


def cache_dir(environ: Mapping[str, str]) -> Path:
    """The folder for what only makes the next run faster: ``FUSEBUILD_CACHE_DIR``, else ``fusebuild`` under the user's
    cache folder."""
    if environ.get("FUSEBUILD_CACHE_DIR"):
        return Path(environ["FUSEBUILD_CACHE_DIR"])
    base = environ.get("XDG_CACHE_HOME") or os.path.join(environ.get("HOME") or os.path.expanduser("~"), ".cache")
    return Path(base, "fusebuild")
