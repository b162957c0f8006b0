"""Reading what is named like a file and may be a pipe or a device, which could be read forever."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path


def file_bytes(path: Path) -> bytes:
    """What the file at ``path`` holds. Raises :class:`OSError` for a pipe or a device, and waits for neither."""
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "it is no file", str(path))
        return file.read()
