"""Damage to a compiled artifact is found before anything of it runs, wherever it is; so is code for another chip."""

from __future__ import annotations

import os
import random
import struct
import zipfile
from pathlib import Path

import pytest

import fusebuild
from fusebuild.artifact import elf
from fusebuild.artifact.file import open_artifact
from fusebuild.errors import ArtifactError
from support.axpy_artifact import KERNEL, a_plan, a_target, contents, members_of, refused, resealed, write
from support.host_artifacts import compile_for_host
from support.small_recipes import TINY
from support.tiny_elf import CUDA, tiny_elf

LOCAL_HEADER = 30
"""Bytes of a zip member's header before its name."""


def cubin(capability: int, *, abi: int = 8) -> bytes:
    """:func:`tiny_elf`, with the version of the ABI and the flags that nvcc 13 gives code for ``capability``."""
    data = bytearray(tiny_elf(CUDA, KERNEL))
    data[8] = abi
    struct.pack_into("<I", data, 48, 0x06000004 | capability << 8)
    return bytes(data)


class TestArchitectures:
    def write(self, path: Path, objects: dict[str, bytes]) -> None:
        targets = tuple(a_target(name) for name in objects)
        write(path, plan=a_plan(targets=targets), objects={(name, KERNEL): data for name, data in objects.items()})

    def test_code_for_each_target_is_accepted(self, tmp_path: Path) -> None:
        objects = {f"sm_{capability}": cubin(capability) for capability in (80, 90, 100, 120)}
        self.write(tmp_path / "a.fuse", objects)
        assert open_artifact(tmp_path / "a.fuse").targets == tuple(objects)

    def test_objects_that_changed_places_are_found(self, tmp_path: Path) -> None:
        path = tmp_path / "a.fuse"
        self.write(path, {"sm_80": cubin(80), "sm_90": cubin(90)})
        members = members_of(path)
        names = [f"sm_80/{KERNEL}.cubin", f"sm_90/{KERNEL}.cubin"]
        swapped = members | {names[0]: members[names[1]], names[1]: members[names[0]]}
        error = refused(path, resealed(swapped))
        assert (error.reason, error.member) == ("it is compiled for sm_90, expected sm_80", names[0])

    def test_an_object_for_another_architecture_is_not_written(self, tmp_path: Path) -> None:
        path = tmp_path / "a.fuse"
        with pytest.raises(ArtifactError) as caught:
            self.write(path, {"sm_90": cubin(80)})
        assert str(caught.value) == f"{path}: sm_90/{KERNEL}.cubin: it is compiled for sm_80, expected sm_90"
        assert not path.exists()

    def test_an_abi_that_is_not_known_says_nothing(self) -> None:
        assert elf.compute_capability(cubin(90)) == 90
        assert elf.compute_capability(cubin(90, abi=9)) is None
        assert elf.compute_capability(contents()["objects"]["host", KERNEL]) is None  # type: ignore[index]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The bytes of a compiled artifact."""
    return (compile_for_host(tmp_path_factory.mktemp("whole"), {"tiny": TINY}) / "tiny.fuse").read_bytes()


class TestDamage:
    @pytest.fixture
    def path(self, whole: bytes, tmp_path: Path) -> Path:
        path = tmp_path / "tiny.fuse"
        path.write_bytes(whole)
        assert fusebuild.load(path, target="host").inputs == ("x",)
        return path

    def check_flips(self, path: Path, whole: bytes, positions: list[int]) -> None:
        """A flip of a bit at each of ``positions`` keeps the artifact at ``path`` from being loaded."""
        with path.open("r+b", buffering=0) as file:
            for position in positions:
                os.pwrite(file.fileno(), bytes([whole[position] ^ 1 << position % 8]), position)
                with pytest.raises(ArtifactError) as caught:
                    fusebuild.load(path, target="host")
                assert caught.value.path == str(path)
                os.pwrite(file.fileno(), whole[position : position + 1], position)
        assert fusebuild.load(path, target="host").inputs == ("x",)

    def test_a_flip_in_every_byte_of_a_header_is_found(self, path: Path, whole: bytes) -> None:
        with zipfile.ZipFile(path) as archive:
            positions = [*range(archive.start_dir, len(whole))]
            for member in archive.infolist():
                end = member.header_offset + LOCAL_HEADER + len(member.filename)
                positions += range(member.header_offset, end)
        self.check_flips(path, whole, positions)

    def test_a_flip_in_any_of_a_thousand_others_is_found(self, path: Path, whole: bytes) -> None:
        self.check_flips(path, whole, random.Random(0).sample(range(len(whole)), 1000))

    def test_a_file_that_ends_anywhere_is_found(self, path: Path, whole: bytes) -> None:
        for length in reversed(range(0, len(whole), 64)):
            os.truncate(path, length)
            with pytest.raises(ArtifactError) as caught:
                fusebuild.load(path, target="host")
            assert caught.value.path == str(path)
