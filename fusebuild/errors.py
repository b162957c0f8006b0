"""Source locations, diagnostics with carets, and the tree of errors that fusebuild raises.

Every error a user can cause is a :class:`FusebuildError`. Each class carries the exit code that the command line
returns for it (0 ok, 1 compile failure, 2 usage or recipe error, 3 stale, 4 corrupt or incompatible artifact,
5 toolchain missing or incoherent, 6 nothing was verified), so no table elsewhere has to be kept in step.
"""

from __future__ import annotations

import difflib
import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

_BREAKS = {ord(each): each.encode("unicode_escape").decode() for each in "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"}


def one_line(name: object) -> str:
    """The name of a file, a fusion or a value as texts for people show it: line breaks are escaped, so that no name
    looks like a line of its own."""
    return str(name).translate(_BREAKS)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceLocation:
    """A place in a text that a person wrote.

    ``line`` and ``column`` count from 1. ``text`` is the whole source line, kept here so that an error found many
    stages later can still show it. ``width`` is the number of columns to underline.
    """

    path: str
    line: int
    column: int
    text: str = ""
    width: int = 1

    def __str__(self) -> str:
        return f"{one_line(self.path)}:{self.line}:{self.column}"

    @property
    def short(self) -> str:
        """File name and line, without folders: what rendered kernels carry in their comments."""
        return f"{file_name(self.path)}:{self.line}"


NOWHERE = SourceLocation(path="<built>", line=1, column=1)


@functools.cache
def file_name(path: str) -> str:
    """The last part of ``path``, with a ``?`` for each character that could end the comment of a rendered kernel, or
    that no text file holds."""
    name = path.replace("\\", "/").rsplit("/", 1)[-1]
    return "".join(character if character.isprintable() else "?" for character in name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostic:
    """One thing that is wrong: where, what, and (when we know) what to do about it."""

    location: SourceLocation
    message: str
    hint: str = ""

    def __str__(self) -> str:
        lines = [f"{self.location}: error: {self.message}"]
        if self.location.text:
            source = self.location.text.rstrip("\n").replace("\t", " ")
            caret = " " * (self.location.column - 1) + "^" + "~" * (max(self.location.width, 1) - 1)
            lines += [f"  {source}", f"  {caret}"]
        if self.hint:
            lines.append(f"  hint: {self.hint}")
        return "\n".join(lines)


MAX_CANDIDATES = 1000
"""Among how many names one is searched for: each is compared letter by letter."""


def nearest(name: str, candidates: Iterable[str], likeness: float = 0.6) -> str:
    """``did you mean 'x'?`` for the candidate nearest to ``name``, or an empty string when none is so near that the
    ratio of their common letters is at least ``likeness``, or when there are very many."""
    names = list(candidates)
    if len(names) > MAX_CANDIDATES:
        return ""
    matches = difflib.get_close_matches(name, sorted(names), n=1, cutoff=likeness)
    return f"did you mean '{matches[0]}'?" if matches else ""


def counted(number: int, noun: str) -> str:
    """``number`` and ``noun``, which gets an s where there is not one of them: ``1 input``, ``2 inputs``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


class FusebuildError(Exception):
    """Root of everything fusebuild raises on purpose."""

    exit_code: ClassVar[int] = 1


class LocatedError(FusebuildError):
    """One or more diagnostics, all errors of a stage at once, in source order."""

    exit_code = 2

    def __init__(self, diagnostics: Sequence[Diagnostic]) -> None:
        self.diagnostics = tuple(
            sorted(diagnostics, key=lambda d: (d.location.path, d.location.line, d.location.column))
        )
        super().__init__("\n".join(str(diagnostic) for diagnostic in self.diagnostics))

    @classmethod
    def at(cls, location: SourceLocation, message: str, hint: str = "") -> LocatedError:
        return cls([Diagnostic(location=location, message=message, hint=hint)])


class RecipeError(LocatedError):
    """A recipe, or a fusion definition, does not say something that can be built."""


class ScheduleError(LocatedError):
    """No scheduler accepts some expression, even alone; the message lists every scheduler's reason."""


class ExpectationError(LocatedError):
    """A plan has more segments, or moves more bytes, than its recipe expects."""

    exit_code = 1


class NoReferenceError(LocatedError):
    """A fusion, or the reference that a recipe gives, cannot be said in torch."""


class InvalidFusionError(FusebuildError):
    """The verifier found a Fusion that breaks an invariant: a bug in fusebuild, or in code that builds one by hand."""


class UsageError(FusebuildError):
    """The command line or an API call asks for something that does not exist or does not fit together."""

    exit_code = 2


class KnobError(UsageError):
    """A choice that no kernel can be made with. ``knob`` is what is wrong with it, ``reason`` why."""

    def __init__(self, knob: str, reason: str) -> None:
        self.knob, self.reason = knob, reason
        super().__init__(f"knob {knob}: {reason}")


class TunedError(LocatedError):
    """A file of tuned kernels does not say what kernels can be made with."""


class CompileError(FusebuildError):
    """A compiler was run and failed, or left an object that is not whole."""


class SpillError(FusebuildError):
    """Whether kernels keep more than the registers they have is not known, where it has to be."""

    exit_code = 1


class StaleError(FusebuildError):
    """An artifact differs from what its recipe, templates, flags or toolchain would produce now."""

    exit_code = 3


class ArtifactError(FusebuildError):
    """A ``.fuse`` file is corrupt, incompatible, or made for another architecture.

    ``path`` is the file, ``member`` the member inside it (empty for the file itself), ``reason`` the rest.
    """

    exit_code = 4

    def __init__(self, path: str, reason: str, member: str = "") -> None:
        self.path, self.member, self.reason = path, member, reason
        place = f"{one_line(path)}: {one_line(member)}" if member else one_line(path)
        super().__init__(f"{place}: {reason}")


class ForkError(FusebuildError, RuntimeError):
    """CUDA was asked for in a process that was forked from one that had initialized it."""


class ArtifactWriteError(ArtifactError):
    """A ``.fuse`` file cannot be written where it was asked for."""

    exit_code = 1


class ToolchainError(FusebuildError):
    """A compiler or a part of it is missing, or its parts do not fit each other."""

    exit_code = 5


class NoRoomError(ToolchainError):
    """Whether the compilers work cannot be found out, because the disk that they write to is full."""

    exit_code = 1


class VerificationError(FusebuildError):
    """A kernel's output differs from the reference by more than its bound."""


class NothingVerifiedError(FusebuildError):
    """No case of an artifact was run: its recipe names none, or all of them are larger than what was asked for."""

    exit_code = 6


class OutOfMemoryError(FusebuildError, MemoryError):
    """A case does not fit into memory."""
