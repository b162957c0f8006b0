"""Where fusebuild's own data lies: the templates, the device header and ``build.ninja.in``; what it keeps of its work.

In a source checkout they are the top level's ``templates/`` and ``build.ninja.in``; an installed wheel carries the same
tree under ``fusebuild/data``. Everything that reads them asks here.
"""

from __future__ import annotations

import os
import pwd
import tempfile
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
    cache folder. A ``HOME`` or ``XDG_CACHE_HOME`` that is empty or relative counts as none: nothing is written into
    the folder at hand."""
    if environ.get("FUSEBUILD_CACHE_DIR"):
        return Path(environ["FUSEBUILD_CACHE_DIR"])
    homes = (environ.get("HOME"), _account_home(), os.path.join(tempfile.gettempdir(), f"fusebuild-{os.getuid()}"))
    home = next(
        home for home in homes if home and os.path.isabs(home) and (os.path.isdir(home) or not os.path.exists(home))
    )
    base = environ.get("XDG_CACHE_HOME", "")
    return Path(base if os.path.isabs(base) else os.path.join(home, ".cache"), "fusebuild")


def _account_home() -> str:
    """The home that the system knows of this user, whatever ``HOME`` is; empty for a user without an account."""
    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return ""
