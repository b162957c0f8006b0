"""Standard output and standard error of the command line, whatever they are: closed, full, or a pipe nobody reads.

A closed stream is opened first of all: otherwise the next file that is opened, an artifact say, would get its number.
"""

from __future__ import annotations

import errno
import io
import os
import sys


class Output(io.FileIO):
    """A stream on which writing does not fail. ``lost`` is the first error that it would have failed with, after which
    everything written is dropped: the verb goes on, and its exit code stays what it is."""

    lost: OSError | None = None

    def write(self, data: object, /) -> int:
        size = memoryview(data).nbytes  # type: ignore[arg-type]
        if self.lost is not None:
            return size
        try:
            return super().write(data)  # type: ignore[arg-type]
        except OSError as error:
            self.lost = error
            return size

    @property
    def problem(self) -> str:
        """What went wrong, in words. A pipe whose reader had enough is no problem: ``| head -1`` asks for that."""
        return "" if self.lost is None or self.lost.errno == errno.EPIPE else str(self.lost.strerror)


def open_outputs() -> tuple[Output, Output]:
    """Make ``sys.stdout`` and ``sys.stderr`` streams that can always be written to, and give what is below them. A
    stream that the program has put in the place of the process's own stays."""
    closed = [number for number in (0, 1, 2) if _is_closed(number)]
    for _ in closed:
        os.open(os.devnull, os.O_RDONLY)  # takes the lowest number that is free; writing to it fails
    stdout, stderr = Output(1, "w", closefd=False), Output(2, "w", closefd=False)
    if sys.stdout is sys.__stdout__:
        sys.stdout = _text(stdout)
    if sys.stderr is sys.__stderr__:
        sys.stderr = _text(stderr)
    return stdout, stderr


def _is_closed(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return True
    return False


def _text(raw: Output) -> io.TextIOWrapper:
    encoding = "utf-8" if sys.flags.utf8_mode else None
    buffer = io.BufferedWriter(raw)
    return io.TextIOWrapper(buffer, encoding=encoding, errors="backslashreplace", line_buffering=True)


def printable(text: str) -> str:
    """``text`` with escapes for what a terminal would obey, such as colors, or direction marks, in names that come out
    of an artifact, a recipe or a path. Line breaks and tabs stay."""
    return "".join(each if each.isprintable() or each in "\n\t" else _escaped(each) for each in text)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape", errors="backslashreplace").decode("ascii")
