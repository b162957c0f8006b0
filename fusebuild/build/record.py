"""What was built in a directory, and from what: so that doing it again takes no planning.

Planning a recipe takes far longer than reading it, and the result depends on nothing but what is recorded here: the
recipe, what was tuned for it, fusebuild itself and the compilers. All of it is compared by content and so is the
artifact; no time stamp is trusted, and a record that is lost, old or unreadable only means that all is planned again.
(ninja's log and git's index are the models, less their time stamps.) The file is sealed with a digest of what it says,
so that any damage is known before anything in it is believed.
"""

from __future__ import annotations

import hashlib
import logging
import os
import platform
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import msgspec

from fusebuild.build.build_dir import BuildDir, write_if_changed
from fusebuild.build.digest import digest_of
from fusebuild.build.toolchain import Toolchain
from fusebuild.errors import UsageError
from fusebuild.recipe.files import MAX_BYTES, UnreadableError, in_folder, tuned_path
from fusebuild.system.regular_file import file_bytes
from fusebuild.system.resources import ninja_template, templates_dir
from fusebuild.target.table import Target

logger = logging.getLogger(__name__)

_PACKAGE = Path(__file__).resolve().parent.parent
_LIBRARIES = ("jinja2", "msgspec", "networkx", "pyyaml")
"""The libraries whose versions can change what a recipe becomes."""
_NEVER_SEALED = b'{"recipes":'
"""How a record begins that an early fusebuild wrote, before records were sealed."""
_DAMAGED = "it is damaged"


class BuiltRecipe(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One recipe's artifact, by its digest, and by the ``sha256`` that others check. ``recipe`` is the way to the
    recipe from the artifact's folder. ``made_from`` has a digest for each thing that decided its bytes but the recipe;
    ``included`` has the sha256 of each file that the recipe includes, by the path that it gives.
    ``kernels`` are names by target, ``objects`` the sha256 of each member that is machine code, ``spills`` the bytes
    that some of the kernels spill."""

    fusion: str
    recipe: str
    targets: tuple[str, ...]
    search: str
    made_from: dict[str, str]
    artifact: str
    sha256: str
    included: dict[str, str] = {}
    kernels: dict[str, list[str]]
    objects: dict[str, str]
    spills: dict[str, dict[str, int]]


class BuildRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The recipes that were built in a directory, each by its :func:`source_digest`."""

    recipes: dict[str, BuiltRecipe] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundRecord:
    """The record of a directory; an empty one where there is none that can be read. Where there is a file that cannot
    be read, ``problem`` says why."""

    path: Path
    record: BuildRecord = field(default_factory=BuildRecord)
    problem: str = ""

    @property
    def is_damaged(self) -> bool:
        return self.problem == _DAMAGED

    def __str__(self) -> str:
        return f"{self.path}: {self.problem}"


def find_record(build_dir: BuildDir) -> FoundRecord:
    """The record of ``build_dir``. One that another version of fusebuild wrote counts as none."""
    path = build_dir.record
    try:
        data = file_bytes(path)
    except FileNotFoundError:
        return FoundRecord(path=path)
    except OSError as error:
        return FoundRecord(path=path, problem=error.strerror or str(error))
    body = _unsealed(data)
    if body is None:
        return FoundRecord(path=path, problem="" if data.startswith(_NEVER_SEALED) else _DAMAGED)
    try:
        return FoundRecord(path=path, record=msgspec.json.decode(body, type=BuildRecord))
    except msgspec.DecodeError as error:
        logger.info("no record of this fusebuild: %s: %s", path, error)
        return FoundRecord(path=path)


def read_record(build_dir: BuildDir) -> BuildRecord:
    """The record of ``build_dir``; an empty one where there is none that can be read."""
    return find_record(build_dir).record


def extend_record(build_dir: BuildDir, built: Mapping[str, BuiltRecipe]) -> None:
    """Add ``built`` to the record, in the place of what it said of the same fusions. A record that cannot be written
    only makes the next compile slower."""
    fusions = {each.fusion for each in built.values()}
    try:
        with build_dir.locked():
            before = read_record(build_dir).recipes
            kept = {key: each for key, each in before.items() if each.fusion not in fusions}
            _tell_overwritten(before.values(), built.values(), build_dir)
            record = BuildRecord(recipes=kept | dict(built))
            write_if_changed(build_dir.record, _sealed(msgspec.json.encode(record, order="deterministic")))
    except OSError as error:
        logger.warning("the next compile plans everything again: %s: %s", build_dir.record, error.strerror)


def way_to(recipe: Path, build_dir: BuildDir) -> str:
    """The relative path from the folder of the artifact to ``recipe``. It does not depend on the current folder."""
    return os.path.relpath(os.path.realpath(recipe), os.path.realpath(build_dir.root))


def _tell_overwritten(before: Iterable[BuiltRecipe], built: Iterable[BuiltRecipe], build_dir: BuildDir) -> None:
    """Warn of artifacts that another recipe made, which is still there."""
    makers = {each.fusion: each.recipe for each in before}
    for each in built:
        maker = makers.get(each.fusion, each.recipe)
        if maker != each.recipe and os.path.isfile(os.path.join(os.path.realpath(build_dir.root), maker)):
            old, new = (os.path.normpath(build_dir.root / way) for way in (maker, each.recipe))
            logger.warning("%s of %s is overwritten by that of %s", build_dir.artifact(each.fusion), old, new)


def recorded(files: Sequence[Path], record: BuildRecord) -> dict[Path, BuiltRecipe]:
    """For each of ``files`` that is as it was when its artifact was built: what ``record`` says of that artifact.
    Recipes that define one and the same fusion, which is an error, are left out."""
    found = {file: built for file in files if (built := record.recipes.get(_source_digest_of(file)))}
    known = {file: built for file, built in found.items() if _includes_the_same(file, built)}
    uses = Counter(built.fusion for built in known.values())
    return {file: built for file, built in known.items() if uses[built.fusion] == 1}


def untouched(known: Mapping[Path, BuiltRecipe], build_dir: BuildDir) -> dict[Path, BuiltRecipe]:
    """The part of ``known`` whose artifacts are, byte for byte, those that were built."""
    with ThreadPoolExecutor() as pool:  # reading and hashing need no interpreter
        whole = pool.map(partial(_is_whole, build_dir), known.values())
        return {file: built for (file, built), is_whole in zip(known.items(), whole, strict=True) if is_whole}


def _sealed(body: bytes) -> bytes:
    """JSON that has the digest of ``body``, and ``body``, which is JSON too."""
    return b'{"sha256":"%s","record":%s}\n' % (hashlib.sha256(body).hexdigest().encode(), body)


def _unsealed(sealed: bytes) -> bytes | None:
    """The JSON that :func:`_sealed` got; None where any byte has changed since."""
    body = sealed[_HEAD_BYTES:-_TAIL_BYTES]
    return body if _sealed(body) == sealed else None


_TAIL_BYTES = len("}\n")
_HEAD_BYTES = len(_sealed(b"")) - _TAIL_BYTES


def _is_whole(build_dir: BuildDir, built: BuiltRecipe) -> bool:
    try:
        return artifact_digest(file_bytes(build_dir.artifact(built.fusion))) == built.artifact
    except (OSError, UsageError):
        return False


def _source_digest_of(recipe: Path) -> str:
    """The :func:`source_digest` of the files of ``recipe`` as they are; empty where they cannot be read."""
    tuned = tuned_path(recipe)
    try:
        if not recipe.is_file() or recipe.stat().st_size > MAX_BYTES:  # what was built is none of these
            return ""
        return source_digest(recipe.name, file_bytes(recipe), file_bytes(tuned) if os.path.lexists(tuned) else None)
    except OSError:
        return ""


def _includes_the_same(recipe: Path, built: BuiltRecipe) -> bool:
    """Whether the texts are still the same that ``recipe``, which is as it was, included when ``built``."""
    read = in_folder(recipe.parent)
    try:
        return all(hashlib.sha256(read(path)).hexdigest() == digest for path, digest in built.included.items())
    except UnreadableError:
        return False


def artifact_digest(data: bytes) -> str:
    """The digest of an artifact's bytes (BLAKE2b: without SHA instructions it is three times as fast as SHA-256)."""
    return hashlib.blake2b(data).hexdigest()


def source_digest(name: str, recipe: bytes, tuned: bytes | None) -> str:
    """The digest of a recipe in a file called ``name``, which its kernels tell, and of what was tuned for it."""
    return digest_of([name, *(hashlib.sha256(text).hexdigest() for text in (recipe, tuned) if text is not None)])


def made_from(targets: Sequence[Target], toolchain: Toolchain | None, fusebuild: str) -> dict[str, str]:
    """A digest, by name, for each thing besides the recipe that decides what it becomes for ``targets``: ``fusebuild``
    itself (:func:`fusebuild_digest`), the flags of each target and, where there is one, its toolchain."""
    flags = {f"flags of {target.name}": digest_of(target.compiler_flags) for target in targets}
    compilers = {f"toolchain of {target.name}": toolchain.digest_for(target) for target in targets} if toolchain else {}
    return {"fusebuild": fusebuild, **flags, **compilers}


def fusebuild_digest() -> str:
    """The digest of fusebuild's own code and templates, and of the libraries that they are used with."""
    from importlib.metadata import version  # which brings twenty modules, and most commands make no record

    versions = [platform.python_version(), *(version(name) for name in _LIBRARIES)]
    return digest_of([*versions, *_own_files()])


def _own_files() -> Iterator[tuple[str, str]]:
    """Names and digests of the files that fusebuild is made of."""
    code, data = sorted(_PACKAGE.rglob("*.py")), sorted(templates_dir().rglob("*"))
    for folder, paths in ((_PACKAGE, code), (templates_dir(), data)):
        for path in paths:
            if path.is_file():
                yield path.relative_to(folder).as_posix(), hashlib.sha256(path.read_bytes()).hexdigest()
    yield "build.ninja.in", ninja_template()
