"""Compiling what can be compiled of several recipes, whatever is wrong with the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from fusebuild.errors import ArtifactWriteError, CompileError, FusebuildError, LocatedError, NoRoomError
from fusebuild.freshness.incremental import Compilation
from fusebuild.recipe.files import recipe_files, tuned_path

Compile = Callable[[Sequence[Path]], Compilation]

NOTHING = Compilation(recipes=(), compiled=0, seconds=0.0)

_OF_ONE = (CompileError, ArtifactWriteError, NoRoomError)
"""Errors that one recipe may cause and another need not meet, such as a disk without room for the larger artifact."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartialCompilation:
    """What was compiled, and the errors of the recipes that were not. ``left_out`` are recipes that were not compiled
    though no error names them."""

    done: Compilation = NOTHING
    errors: tuple[FusebuildError, ...] = ()
    left_out: tuple[Path, ...] = ()

    @property
    def exit_code(self) -> int:
        """The greatest exit code of all errors; 0 where there is none."""
        return max((error.exit_code for error in self.errors), default=0)


def compile_what_can_be(paths: Sequence[Path], compile_files: Compile) -> PartialCompilation:
    """``compile_files`` for those recipes below ``paths`` that it raises neither :class:`LocatedError` for, nor
    :class:`CompileError`, :class:`ArtifactWriteError` or :class:`NoRoomError`. Other errors are about no single recipe
    and are raised."""
    return _compiled(recipe_files(paths), compile_files)


def _compiled(files: Sequence[Path], compile_files: Compile) -> PartialCompilation:
    """Compile all of ``files``. After an error that names recipes, try again without these. After an error that does
    not, such as a full disk, try one recipe after another; kernels that compiled are not compiled again."""
    errors: list[FusebuildError] = []
    while files:
        try:
            return PartialCompilation(done=compile_files(files), errors=tuple(errors))
        except LocatedError as error:
            files = _not_named(files, error)
            errors.append(error)
        except _OF_ONE as error:
            if len(files) == 1:
                return PartialCompilation(errors=(*errors, error), left_out=tuple(files))
            parts = [_compiled([file], compile_files) for file in files]
            return PartialCompilation(
                done=Compilation(
                    recipes=tuple(each for part in parts for each in part.done.recipes),
                    compiled=sum(part.done.compiled for part in parts),
                    seconds=sum(part.done.seconds for part in parts),
                ),
                errors=(*errors, *(each for part in parts for each in part.errors)),
                left_out=tuple(file for part in parts for file in part.left_out),
            )
    return PartialCompilation(errors=tuple(errors))


def _not_named(files: Sequence[Path], error: LocatedError) -> list[Path]:
    """Those of ``files`` that ``error`` is not about; raises it where it is about none of them."""
    named = {diagnostic.location.path for diagnostic in error.diagnostics}
    left = [file for file in files if named.isdisjoint({file.as_posix(), tuned_path(file).as_posix()})]
    if len(left) == len(files):
        raise error
    return left
