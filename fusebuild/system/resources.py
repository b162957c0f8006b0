"""Where fusebuild's own data lies: the templates, the device header and ``build.ninja.in``; what it keeps of its work.

In a source checkout they are the top level's ``templates/`` and ``build.ninja.in``; an installed wheel carries the same
tree under ``fusebuild/data``. Everything that reads them asks here.
"""

from __future__ import annotations

import os
import pwd
import stat
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from fusebuild.errors import ToolchainError, UsageError, one_line

_PACKAGE = Path(__file__).resolve().parent.parent
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
    the folder at hand. Who has no home has one in the temporary folder; raises :class:`UsageError` where that is one
    that others may write to, since what is in the cache gets into artifacts."""
    if environ.get("FUSEBUILD_CACHE_DIR"):
        return Path(environ["FUSEBUILD_CACHE_DIR"])
    base = environ.get("XDG_CACHE_HOME", "")
    return Path(base if os.path.isabs(base) else os.path.join(_home(environ), ".cache"), "fusebuild")


def _home(environ: Mapping[str, str]) -> str:
    for home in (environ.get("HOME"), _account_home()):
        if home and os.path.isabs(home) and (os.path.isdir(home) or not os.path.exists(home)):
            return home
    return _temporary_home()


def _temporary_home() -> str:
    """A folder of this user in the temporary folder, where anybody may have been first."""
    folder = os.path.join(tempfile.gettempdir(), f"fusebuild-{os.getuid()}")
    with suppress(FileNotFoundError):
        status = os.lstat(folder)
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & stat.S_IWOTH:
            raise UsageError(
                f"{one_line(folder)} is not only yours\n  hint: name another folder in FUSEBUILD_CACHE_DIR"
            )
    return folder


def _account_home() -> str:
    """The home that the system knows of this user, whatever ``HOME`` is; empty for a user without an account."""
    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return ""
