"""Reads more and more inputs, guided by which of them reach new code.

``PYTHONPATH=tests python -m fuzzing.run recipes -runs=1000000``, in the repository's root, with the extra ``fuzz``
installed; ``artifacts`` and ``yaml_texts`` are the other targets, and further flags are libFuzzer's. New inputs that
reach something go to ``build/fuzzing``; one that raises what it must not, takes more than a few seconds or more than a
gigabyte goes to ``found/`` beside this file and ends the run. ``tests/fuzzing/test_fuzzing.py`` reads everything in
``corpus/`` and ``found/`` again.
"""

from __future__ import annotations

import gc
import importlib
import random
import sys
from collections.abc import Set
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType

import atheris

HERE = Path(__file__).resolve().parent
BUILD = HERE.parents[1] / "build" / "fuzzing"
UNCOUNTED = {"recipes": frozenset({"fusebuild.errors", "fusebuild.recipe.text"})}
"""By target, modules that another one is about: counting takes as long as what is counted."""
BLIND = 0.1
"""How many of the changes are libFuzzer's own, which know nothing of what the bytes mean."""


def flags(name: str, max_length: int) -> list[str]:
    """libFuzzer's: bounds of one input, and where inputs come from and go to."""
    grown, found = BUILD / name, HERE / "found" / name
    for folder in (grown, found):
        folder.mkdir(parents=True, exist_ok=True)
    bounds = [f"-max_len={max_length}", "-timeout=5", "-rss_limit_mb=1024", "-report_slow_units=2"]
    return [*bounds, f"-artifact_prefix={found}/", str(grown), str(HERE / "corpus" / name)]


def instrument(package: str, uncounted: Set[str]) -> None:
    """Count the branches of modules of ``package`` that are imported from now on, but for those that are ``uncounted``.

    ``atheris.instrument_imports`` does this for importlib's own loaders, but an editable install has loaders around
    them. Comparisons are not traced: only libFuzzer's own changes would know what to do with them.
    """
    read_code = SourceFileLoader.get_code

    def get_code(self: SourceFileLoader, name: str) -> CodeType | None:
        code = read_code(self, name)
        if code is None or name.partition(".")[0] != package or name in uncounted:
            return code
        return atheris.patch_code(code, False)

    SourceFileLoader.get_code = get_code  # type: ignore[method-assign]


def main() -> None:
    name, *given = sys.argv[1:]
    instrument("fusebuild", UNCOUNTED.get(name, frozenset()))
    target = importlib.import_module(f"fuzzing.{name}")
    target.hurry()
    mutator = target.Mutator()

    def mutate(data: bytes, max_size: int, seed: int) -> bytes:
        chance = random.Random(seed)
        if chance.random() < BLIND:
            return bytes(atheris.Mutate(data, max_size))
        return bytes(mutator.mutate(data, chance))[:max_size]

    def cross(first: bytes, second: bytes, max_size: int, seed: int) -> bytes:
        return bytes(mutator.cross(first, second, random.Random(seed)))[:max_size]

    def read(data: bytes) -> None:
        target.read(data)

    arguments = [sys.argv[0], *given, *flags(name, target.MAX_LENGTH)]
    atheris.Setup(arguments, read, custom_mutator=mutate, custom_crossover=cross)
    gc.freeze()
    gc.set_threshold(100_000)  # looking for circles takes a tenth of the time, else
    atheris.Fuzz()


if __name__ == "__main__":
    main()
