"""What the fuzzers of ``fuzzing/`` start from and what they found is read as they read it, and their changes are
chance's alone. Needs no fuzzer; ``fuzzing/run.py`` says how to run one."""

from __future__ import annotations

import random
from pathlib import Path
from types import ModuleType

import pytest

from fuzzing import artifacts, recipes, yaml_texts

FUZZING = Path(__file__).parent
TARGETS = {module.__name__.rpartition(".")[2]: module for module in (artifacts, recipes, yaml_texts)}
CHANGES = 60


def files(folder: str) -> list[Path]:
    return sorted(path for path in (FUZZING / folder).rglob("*") if path.is_file())


@pytest.mark.parametrize("path", [*files("corpus"), *files("found")], ids=lambda path: path.name)
def test_what_was_kept_is_read(path: Path) -> None:
    TARGETS[path.parent.name].read(path.read_bytes())


@pytest.mark.parametrize("path", files("corpus/artifacts"), ids=lambda path: path.name)
def test_artifacts_to_start_from_are_whole(path: Path) -> None:
    assert artifacts.read(path.read_bytes())


@pytest.fixture(params=sorted(TARGETS))
def target(request: pytest.FixtureRequest) -> ModuleType:
    return TARGETS[request.param]


def test_changes_are_read_and_are_the_same_for_the_same_seed(target: ModuleType) -> None:
    mutator = target.Mutator()
    name = target.__name__.rpartition(".")[2]
    seeds = [path.read_bytes() for path in files(f"corpus/{name}")]
    for change in range(CHANGES):
        first, second = seeds[change % len(seeds)], seeds[-1 - change % len(seeds)]
        for make in (
            lambda chance, data=first: mutator.mutate(data, chance),
            lambda chance, data=first, other=second: mutator.cross(data, other, chance),
        ):
            changed = make(random.Random(change))
            assert changed == make(random.Random(change))
            target.read(changed)
