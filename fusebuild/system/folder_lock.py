"""Locks on folders, held by one process and thread at a time, and dropped by the system when that process dies."""

from __future__ import annotations

import errno
import fcntl
import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path

logger = logging.getLogger(__name__)

_held: ContextVar[frozenset[str]] = ContextVar("_held", default=frozenset())
"""The locks that this thread holds: a function may lock what its caller has locked already."""


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock that is the file at ``path``; folders that were made for it alone go with it. Raises
    :class:`OSError` where there is none and none can be made."""
    name = os.path.realpath(path)
    if name in _held.get():
        yield
        return
    missing = [folder for folder in path.parents if not os.path.exists(folder)]
    descriptor = _acquired(path)
    token = _held.set(_held.get() | {name})
    try:
        yield
    finally:
        _held.reset(token)
        if missing:
            _remove_unused(path, missing)
        os.close(descriptor)


def _remove_unused(path: Path, made: Sequence[Path]) -> None:
    """Remove the lock at ``path``, which is held, and the folders that were ``made`` for it, inner ones first, unless
    something else lies there now."""
    with suppress(OSError):
        if os.listdir(path.parent) == [path.name]:
            path.unlink()
            for folder in made:
                folder.rmdir()


def _acquired(path: Path) -> int:
    while True:
        descriptor = _opened(path)
        try:
            _wait_for(descriptor, path)
            if is_at(descriptor, path):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # somebody removed the folder meanwhile, so others lock another file


def _opened(path: Path) -> int:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        if error.errno not in (errno.EROFS, errno.EACCES, errno.EPERM) or not os.path.exists(path):
            raise
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)  # where nothing can be written there may be nothing to write


def _wait_for(descriptor: int, path: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        logger.warning("waiting for another build in %s", path.parent)
        fcntl.flock(descriptor, fcntl.LOCK_EX)


def is_at(descriptor: int, path: Path) -> bool:
    """Whether the open file is the one at ``path``."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False
