"""Compiling what can be compiled of several recipes, whatever is wrong with the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fusebuild.errors import ArtifactWriteError, CompileError, FusebuildError, LocatedError, NoRoomError
from fusebuild.freshness.incremental import Compilation
from fusebuild.recipe.files import recipe_files, tuned_path

Compile = Callable[[Sequence[Path]], Compilation]

_OF_ONE = (CompileError, ArtifactWriteError, NoRoomError)
"""Errors that one recipe may cause and another need not meet, such as a disk without room for the larger artifact."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartialCompilation:
    """What was compiled, and the errors of the recipes that were not. ``left_out`` are recipes that were not compiled
    though no error names them."""

    done: Compilation
    errors: tuple[FusebuildError, ...]
    left_out: tuple[Path, ...] = ()

    @property
    def exit_code(self) -> int:
        """The greatest exit code of all errors; 0 where there is none."""
        return max((error.exit_code for error in self.errors), default=0)


@dataclass(slots=True, kw_only=True)
class _Attempt:
    """The recipes ``files`` that ``compile_files`` still has to compile, and the ``errors`` of others. ``left_out`` are
    recipes that were not compiled though no error names them."""

    compile_files: Compile
    files: list[Path]
    errors: list[FusebuildError] = field(default_factory=list)
    left_out: list[Path] = field(default_factory=list)

    def run(self) -> Compilation:
        """Compile all of ``files``. After an error that names recipes, try again without these. After an error that
        does not, such as a full disk, try one recipe after another; kernels that compiled are not compiled again."""
        while self.files:
            try:
                return self.compile_files(self.files)
            except LocatedError as error:
                self._pass_over(error)
            except _OF_ONE as error:
                if len(self.files) == 1:
                    self.errors.append(error)
                    self.left_out += self.files
                    break
                return self._one_by_one()
        return Compilation(recipes=(), compiled=0, seconds=0.0)

    def _pass_over(self, error: LocatedError) -> None:
        named = {diagnostic.location.path for diagnostic in error.diagnostics}
        left = [file for file in self.files if named.isdisjoint({file.as_posix(), tuned_path(file).as_posix()})]
        if len(left) == len(self.files):  # it is about none of them
            raise error
        self.errors.append(error)
        self.files = left

    def _one_by_one(self) -> Compilation:
        parts = []
        for file in self.files:
            own = _Attempt(compile_files=self.compile_files, files=[file])
            parts.append(own.run())
            self.errors += own.errors
            self.left_out += own.left_out
        return Compilation(
            recipes=tuple(each for part in parts for each in part.recipes),
            compiled=sum(part.compiled for part in parts),
            seconds=sum(part.seconds for part in parts),
        )


def compile_what_can_be(paths: Sequence[Path], compile_files: Compile) -> PartialCompilation:
    """``compile_files`` for those recipes below ``paths`` that it raises neither :class:`LocatedError` for, nor
    :class:`CompileError`, :class:`ArtifactWriteError` or :class:`NoRoomError`. Other errors are about no single recipe
    and are raised."""
    attempt = _Attempt(compile_files=compile_files, files=list(recipe_files(paths)))
    done = attempt.run()
    return PartialCompilation(done=done, errors=tuple(attempt.errors), left_out=tuple(attempt.left_out))
