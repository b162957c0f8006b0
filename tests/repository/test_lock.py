"""What .venv is made from is locked: everything that pyproject.toml asks for, and what that asks for, with digests."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from importlib import metadata
from itertools import product
from pathlib import Path

import pytest
from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from fusebuild.build.cuda_toolkit import FIX
from support.places import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
MAIN, CPU, CUDA = (ROOT / f"requirements{name}.lock" for name in ("", "-cpu", "-cuda"))
_DIGEST = re.compile(r"--hash=sha256:[0-9a-f]{64}")


def environment(python: str, machine: str) -> dict[str, str]:
    return {
        "python_version": python, "python_full_version": f"{python}.1", "platform_machine": machine,
        "sys_platform": "linux", "platform_system": "Linux", "platform_python_implementation": "CPython",
        "implementation_name": "cpython", "os_name": "posix", "extra": "",
    }  # fmt: skip


ENVIRONMENTS = {
    f"{python}-{machine}": environment(python, machine)
    for python, machine in product(("3.11", "3.12", "3.13"), ("x86_64", "aarch64"))
}


def entries(lock: Path) -> Iterator[tuple[Requirement, list[str]]]:
    """Each requirement of ``lock`` with its options, which may be of other lines."""
    text = re.sub(r"^#.*\n", "", lock.read_text(encoding="utf-8"), flags=re.MULTILINE)
    for line in text.replace("\\\n", " ").splitlines():
        requirement, *options = re.split(r"\s+(?=--)", line.strip())
        yield Requirement(requirement), options


def holds(marker: Marker | None, where: dict[str, str], extra: str = "") -> bool:
    return marker is None or marker.evaluate(where | {"extra": extra})


def locked(lock: Path, where: dict[str, str]) -> dict[str, str]:
    """The version of each package that ``lock`` installs there."""
    found: dict[str, str] = {}
    for requirement, _ in entries(lock):
        if holds(requirement.marker, where):
            assert requirement.name not in found
            found[requirement.name] = str(requirement.specifier).removeprefix("==")
    return found


def asked_for(extras: tuple[str, ...]) -> Iterator[Requirement]:
    """What pyproject.toml asks for, to build, to run, and with ``extras``."""
    project = PROJECT["project"]
    texts = [*PROJECT["build-system"]["requires"], *project["dependencies"]]
    texts += [text for extra in extras for text in project["optional-dependencies"][extra]]
    return (Requirement(text) for text in texts)


@pytest.mark.parametrize("lock", [MAIN, CPU, CUDA], ids=lambda lock: lock.stem)
def test_every_package_has_one_version_and_digests(lock: Path) -> None:
    found = list(entries(lock))
    assert found
    for requirement, options in found:
        assert [each.operator for each in requirement.specifier] == ["=="], requirement
        assert options, requirement
        assert all(_DIGEST.fullmatch(option) for option in options), requirement


@pytest.mark.parametrize("place", ENVIRONMENTS)
@pytest.mark.parametrize("torch", [CPU, CUDA], ids=lambda lock: lock.stem)
def test_what_pyproject_asks_for_is_locked(torch: Path, place: str) -> None:
    where = ENVIRONMENTS[place]
    have = locked(MAIN, where) | locked(torch, where)
    for wanted in asked_for(("nvcc", "dev", "test", "docs")):
        if wanted.name != PROJECT["project"]["name"]:
            assert wanted.specifier.contains(have[canonicalize_name(wanted.name)]), wanted


def test_each_package_is_in_one_lock() -> None:
    names = [{requirement.name for requirement, _ in entries(lock)} for lock in (MAIN, CUDA, CPU)]
    assert not names[0] & names[1]
    assert names[2] == {"torch"} <= names[1]


def extras_asked_for() -> dict[str, set[str]]:
    """The extras of each locked package that another one asks for."""
    found: dict[str, set[str]] = {}
    for wanted in asked_for(("nvcc", "dev", "test", "docs")):
        found.setdefault(canonicalize_name(wanted.name), set()).update(wanted.extras)
    return found


def test_what_locked_packages_ask_for_is_locked() -> None:
    """Of those that are installed here; `pip check` ends each installation and says the same of it."""
    extras = extras_asked_for()
    for where in ENVIRONMENTS.values():
        have = locked(MAIN, where) | locked(CPU, where)
        for name, version in have.items():
            if _installed(name) != version:
                continue
            for text in metadata.requires(name) or []:
                wanted = Requirement(text)
                if any(holds(wanted.marker, where, extra) for extra in {"", *extras.get(name, ())}):
                    assert wanted.specifier.contains(have[canonicalize_name(wanted.name)]), (name, text)


def _installed(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def test_make_installs_from_the_locks_and_ci_uses_make() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert re.findall(r"\binstall .*", makefile.split("LOCKED := ")[1]) == [
        "install --quiet --no-deps --require-hashes --requirement",
        "install --quiet --no-deps --no-build-isolation --editable .",
    ]
    assert not re.search(r"\binstall\b", (ROOT / ".ci" / "run").read_text(encoding="utf-8"))


def test_the_hint_names_the_compilers_of_the_extra() -> None:
    (wanted,) = PROJECT["project"]["optional-dependencies"]["nvcc"]
    assert f"pip install '{wanted}'" == FIX
