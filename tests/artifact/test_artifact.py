"""What a .fuse file promises: equal contents are equal bytes, and nothing damaged or foreign is ever opened."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from fusebuild.artifact import elf, stored_zip
from fusebuild.artifact.file import Artifact, open_artifact
from fusebuild.artifact.plan import (
    ExtentArg,
    FormulaArg,
    Launch,
    Plan,
    PlanFact,
    PlanOutput,
    PlanSegment,
    PlanValue,
    ScalarArg,
    Slot,
    StrideArg,
    TensorArg,
    Variant,
    WorkspaceArg,
    decode,
    encode,
)
from fusebuild.artifact.plan_check import DTYPES, validate_plan
from fusebuild.errors import ArtifactError
from fusebuild.ir.dtype import DType
from fusebuild.ir.formula import MULTIPROCESSORS
from support.axpy_artifact import (
    KERNEL,
    a_plan,
    a_second_segment,
    a_segment,
    a_target,
    contents,
    members_of,
    refused,
    resealed,
    write,
)
from support.tiny_elf import CUDA, X86_64, tiny_elf


@pytest.fixture
def artifact(tmp_path: Path) -> Path:
    path = tmp_path / "axpy.fuse"
    assert write(path)
    return path


class TestWriting:
    def test_what_is_written_is_what_is_opened(self, artifact: Path) -> None:
        opened = open_artifact(artifact)
        assert opened.manifest.fusion == "axpy"
        assert opened.manifest.toolchain == {"nvcc": "13.0.88"}
        assert opened.manifest.sources == {"axpy.yaml": "0f0f"}
        assert opened.targets == ("sm_90", "host")
        assert opened.member("recipe.yaml") == b"fusion: axpy\n"
        assert opened.object_bytes("sm_90", KERNEL) == tiny_elf(CUDA, KERNEL)
        assert opened.kernel_text(KERNEL).startswith('extern "C"')
        assert sorted(opened.members) == [
            f"host/{KERNEL}.so",
            f"kernels/{KERNEL}.cu",
            "manifest.json",
            "plan.json",
            "recipe.yaml",
            f"sm_90/{KERNEL}.cubin",
        ]

    def test_equal_contents_are_equal_bytes(self, artifact: Path, tmp_path: Path) -> None:
        other = tmp_path / "elsewhere" / "named otherwise.fuse"
        shuffled = dict(reversed(contents()["objects"].items()))  # type: ignore[attr-defined]
        write(other, objects=shuffled)
        assert other.read_bytes() == artifact.read_bytes()

    def test_an_unchanged_artifact_is_left_alone(self, artifact: Path) -> None:
        os.utime(artifact, (1, 1))
        assert not write(artifact)
        assert artifact.stat().st_mtime == 1
        assert write(artifact, recipe=b"fusion: axpy # changed\n")
        assert artifact.stat().st_mtime != 1

    def test_nothing_but_the_artifact_is_left_behind(self, artifact: Path) -> None:
        assert os.listdir(artifact.parent) == ["axpy.fuse"]

    def test_other_tools_read_it(self, artifact: Path) -> None:
        with zipfile.ZipFile(artifact) as archive:
            assert archive.testzip() is None
            assert archive.read("recipe.yaml") == b"fusion: axpy\n"
            assert {info.date_time for info in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
            assert {info.external_attr >> 16 for info in archive.infolist()} == {0o100644}
            assert [info.filename for info in archive.infolist()] == sorted(archive.namelist())

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"objects": {}}, f"host/{KERNEL}.so: it is missing"),
            ({"kernels": {}}, f"kernels/{KERNEL}.cu: it is missing"),
            ({"plan": a_plan(targets=())}, "plan.json: it has no target"),
            (
                {"objects": {(target, KERNEL): tiny_elf(CUDA, KERNEL)[:-1] for target in ("sm_90", "host")}},
                f"sm_90/{KERNEL}.cubin: it is truncated: a header table ends at byte 492 of 491",
            ),
        ],
    )
    def test_unsound_contents_are_not_written(self, tmp_path: Path, changes: dict[str, object], message: str) -> None:
        path = tmp_path / "axpy.fuse"
        with pytest.raises(ArtifactError) as caught:
            write(path, **changes)
        assert str(caught.value) == f"{path}: {message}"
        assert not path.exists()

    def test_a_folder_that_cannot_be_written(self, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        with pytest.raises(ArtifactError, match=r"file/axpy\.fuse: it cannot be written: Not a directory"):
            write(tmp_path / "file" / "axpy.fuse")


class TestDamage:
    def test_every_truncation_is_found(self, artifact: Path) -> None:
        data = artifact.read_bytes()
        lengths = {*range(0, len(data), 64), *range(len(data) - 30, len(data))}
        for length in lengths:
            refused(artifact, data[:length])

    def test_a_flip_in_every_byte_is_found(self, artifact: Path) -> None:
        write(artifact, plan=a_plan(targets=(a_target(),)), objects={("sm_90", KERNEL): tiny_elf(CUDA, KERNEL)})
        data = artifact.read_bytes()
        with artifact.open("r+b", buffering=0) as file:
            for position, byte in enumerate(data):
                os.pwrite(file.fileno(), bytes([byte ^ 1 << position % 8]), position)
                with pytest.raises(ArtifactError):
                    open_artifact(artifact)
                os.pwrite(file.fileno(), bytes([byte]), position)
        assert open_artifact(artifact).targets == ("sm_90",)

    def test_a_flip_in_a_member_names_it(self, artifact: Path) -> None:
        data = artifact.read_bytes()
        damaged = data.replace(b"fusion: axpy\n", b"fusion: axpz\n")
        assert str(refused(artifact, damaged)) == f"{artifact}: recipe.yaml: its CRC does not fit its data"

    @pytest.mark.parametrize(
        ("change", "reason"),
        [
            (lambda data: b"", "it is empty"),
            (lambda data: b"hello", "it is not a zip file"),
            (lambda data: data + b"\0", "it is truncated, or something follows the end of the zip"),
            (lambda data: data[:100], "it is truncated, or something follows the end of the zip"),
            (
                lambda data: data[:30] + data,
                "the zip directory does not fit the file: it is truncated or has something before it",
            ),
            (lambda data: b"MZ" + data, "it is not a zip file"),
            (lambda data: data[:-2] + b"\1\0", "its zip headers are damaged, or another tool rewrote it"),
        ],
    )
    def test_what_is_no_whole_zip(self, artifact: Path, change: Callable[[bytes], bytes], reason: str) -> None:
        error = refused(artifact, change(artifact.read_bytes()))
        assert (error.reason, error.member) == (reason, "")

    def test_what_is_no_file(self, tmp_path: Path) -> None:
        for path, reason in (
            (tmp_path, "it is not a file"),
            (tmp_path / "nowhere.fuse", "it cannot be read: No such file or directory"),
            (Path("nul\0"), "it cannot be read: embedded null byte"),
        ):
            with pytest.raises(ArtifactError) as caught:
                open_artifact(path)
            assert caught.value.reason == reason


class TestForeignZips:
    def rezip(self, path: Path, method: int = zipfile.ZIP_STORED, duplicate: str = "") -> bytes:
        target = io.BytesIO()
        with zipfile.ZipFile(target, "w", method) as archive:
            for name, data in members_of(path).items():
                archive.writestr(name, data)
            if duplicate:
                archive.writestr(duplicate, b"again")
        return target.getvalue()

    def test_compressed(self, artifact: Path) -> None:
        error = refused(artifact, self.rezip(artifact, zipfile.ZIP_DEFLATED))
        assert (error.reason, error.member) == ("it is compressed; members are stored", f"host/{KERNEL}.so")

    def test_rewritten_by_another_tool(self, artifact: Path) -> None:
        error = refused(artifact, self.rezip(artifact))
        assert error.reason == "its zip headers are damaged, or another tool rewrote it"

    @pytest.mark.filterwarnings("ignore:Duplicate name")
    def test_duplicate_member(self, artifact: Path) -> None:
        error = refused(artifact, self.rezip(artifact, duplicate="plan.json"))
        assert (error.reason, error.member) == ("it occurs twice", "plan.json")

    def test_encrypted(self, artifact: Path) -> None:
        data = bytearray(artifact.read_bytes())
        data[data.find(b"PK\1\2") + 8] |= 1
        assert refused(artifact, bytes(data)).reason == "it is encrypted"


class TestContents:
    @pytest.mark.parametrize("name", ["../evil", "/etc/passwd", "a/b/c", "a\\b", "..", "kernels/..", "", "a b", "a//b"])
    def test_names_that_are_more_than_names(self, artifact: Path, name: str) -> None:
        error = refused(artifact, resealed(members_of(artifact) | {name: b""}))
        assert (error.reason, error.member) == ("it is no name for a member", name)

    @pytest.mark.parametrize("name", ["plan.json", "recipe.yaml", f"kernels/{KERNEL}.cu", f"sm_90/{KERNEL}.cubin"])
    def test_missing_member(self, artifact: Path, name: str) -> None:
        members = members_of(artifact)
        del members[name]
        for data in (stored_zip.encode(members), resealed(members)):
            error = refused(artifact, data)
            assert (error.reason, error.member) == ("it is missing", name)

    def test_missing_manifest(self, artifact: Path) -> None:
        members = members_of(artifact)
        del members["manifest.json"]
        assert str(refused(artifact, stored_zip.encode(members))) == f"{artifact}: manifest.json: it is missing"

    def test_extra_member(self, artifact: Path) -> None:
        members = members_of(artifact) | {"sm_90/other.cubin": b""}
        error = refused(artifact, stored_zip.encode(members))
        assert (error.reason, error.member) == ("the manifest does not know it", "sm_90/other.cubin")
        error = refused(artifact, resealed(members))
        assert (error.reason, error.member) == ("the plan does not use it", "sm_90/other.cubin")

    def test_swapped_members(self, artifact: Path) -> None:
        members = members_of(artifact)
        cubin, host = f"sm_90/{KERNEL}.cubin", f"host/{KERNEL}.so"
        members[cubin], members[host] = members[host], members[cubin]
        error = refused(artifact, stored_zip.encode(members))
        assert (error.reason, error.member) == ("its sha256 or size is not what the manifest says", host)
        error = refused(artifact, resealed(members))
        assert (error.reason, error.member) == ("it is made for ELF machine 62, expected 190", cubin)

    def test_newer_format(self, artifact: Path) -> None:
        members = members_of(artifact)
        manifest = json.loads(members["manifest.json"]) | {"format": 2, "something": "new"}
        error = refused(artifact, stored_zip.encode(members | {"manifest.json": json.dumps(manifest).encode()}))
        assert str(error) == f"{artifact}: made by a newer fusebuild: format 2, this runtime reads 1"

    def test_older_format(self, artifact: Path) -> None:
        error = refused(artifact, resealed(members_of(artifact), format=0))
        assert error.reason == "it has format 0, this runtime reads 1"

    @pytest.mark.parametrize("text", [b"", b"{", b"[]", b'{"format": "1"}', b"[" * 100_000, b"\xff", b'{"format": 1}'])
    def test_json_that_is_none(self, artifact: Path, text: bytes) -> None:
        members = members_of(artifact)
        error = refused(artifact, stored_zip.encode(members | {"manifest.json": text}))
        assert error.member == "manifest.json"
        assert error.reason.startswith("it cannot be decoded: ")
        error = refused(artifact, resealed(members | {"plan.json": text}))
        assert error.member == "plan.json"
        assert error.reason.startswith("it cannot be decoded: ")

    def test_json_in_another_spelling(self, artifact: Path) -> None:
        members = members_of(artifact)
        error = refused(artifact, resealed(members | {"plan.json": members["plan.json"] + b" "}))
        assert (error.reason, error.member) == ("it is not in canonical form", "plan.json")

    def test_a_plan_of_another_fusion(self, artifact: Path) -> None:
        error = refused(artifact, resealed(members_of(artifact), digest="d2"))
        assert (error.reason, error.member) == ("it describes another fusion than the manifest", "plan.json")

    def test_an_object_without_its_kernel(self, artifact: Path) -> None:
        members = members_of(artifact) | {f"sm_90/{KERNEL}.cubin": tiny_elf(CUDA, "other")}
        assert refused(artifact, resealed(members)).reason == f"it defines no symbol '{KERNEL}'"

    def test_wrong_target(self, artifact: Path) -> None:
        opened: Artifact = open_artifact(artifact)
        assert opened.require_target("host").target == "host"
        with pytest.raises(ArtifactError) as caught:
            opened.require_target("sm_80")
        assert str(caught.value) == f"{artifact}: it holds no code for sm_80, only for sm_90, host"
        with pytest.raises(ArtifactError, match=r"sm_80/k\.cubin: it is missing"):
            opened.object_bytes("sm_80", "k")


def with_segments(*given: PlanSegment, workspace: tuple[Slot, ...] | None = None) -> Plan:
    segments = (*given, a_second_segment())[:2]
    slots = a_target().workspace if workspace is None else workspace
    return a_plan(targets=(a_target(segments=segments, workspace=slots),))


def with_launch(**changes: object) -> Plan:
    launch = msgspec.structs.replace(a_segment().variants[1].launches[0], **changes)
    return with_segments(a_segment(variants=(Variant(name="any", guard=(), launches=(launch,)),)))


def with_guard(*guard: object) -> Plan:
    variants = a_segment().variants
    return with_segments(a_segment(variants=(msgspec.structs.replace(variants[0], guard=guard), variants[1])))


class TestPlan:
    def test_a_sound_plan(self) -> None:
        assert validate_plan(a_plan()) is None

    def test_dtypes_are_those_of_the_ir(self) -> None:
        assert {dtype.value for dtype in DType} == DTYPES

    @pytest.mark.parametrize(
        ("plan", "problem"),
        [
            (a_plan(fusion="a/b"), "'a/b' is no fusion name"),
            (a_plan(values=(msgspec.structs.replace(a_plan().values[0], name="x\n"), *a_plan().values[1:])),
             r"'x\n' is no name: it holds a line break"),
            (a_plan(outputs=(PlanOutput(fid=4, name="y\u2028z"),)), r"'y\u2028z' is no name: it holds a line break"),
            (a_plan(targets=(a_target("../x"),)), "'../x' is no target name"),
            (a_plan(targets=(a_target(), a_target())), "target sm_90 occurs twice"),
            (a_plan(values=(*a_plan().values, a_plan().values[0])), "fid 0 occurs twice"),
            (a_plan(inputs=(0, 1, 9)), "input 9 is no value"),
            (a_plan(outputs=(PlanOutput(fid=1, name="y"),)), "output 1 is no tensor"),
            (a_plan(outputs=(PlanOutput(fid=4, name="y", alias=3),)), "output 4 aliases 3, which is no tensor input"),
            (a_plan(extents=()), "value 0: symbol 'M' is no dim of any input"),
            (
                a_plan(extents=tuple(reversed(a_plan().extents))),
                "the extents are not the dims of the tensor inputs, in order, from -1 down",
            ),
            (a_plan(facts=(PlanFact(symbol="K"),)), "a fact is about 'K', which is no dim of any input"),
            (a_plan(facts=(PlanFact(symbol="N", min=8, max=4),)), "the facts about 'N' cannot hold"),
            (
                a_plan(values=(PlanValue(fid=0, name="x", kind="tensor", dtype="fp5"), *a_plan().values[1:])),
                "value 0: unknown dtype 'fp5'",
            ),
            (with_segments(a_segment(id=1)), "sm_90: segment 1 stands at position 0"),
            (with_segments(a_segment(fid_map={0: 0, 1: 1, 2: 3, 3: 77})), "fid 77 is neither a value nor an extent"),
            (with_segments(a_segment(fid_map={0: 0})), "fid 1 is not in the fid map"),
            (with_segments(a_segment(frees=(0,))), "it frees fid 0, which is no live intermediate"),
            (with_segments(a_segment(frees=(3,))), "segment 1: fid 3 is read after it was freed"),
            (with_segments(a_segment(views={3: 4})), "the view 3 of 4 is not of what the segment reads or writes"),
            (with_segments(a_segment(variants=())), "no variant writes fid 3"),
            (with_segments(a_segment(variants=a_segment().variants[:1])), "the last variant, vec4, has a guard"),
            (
                with_segments(a_segment(variants=(msgspec.structs.replace(a_segment().variants[1], name="x"),
                                                  a_segment().variants[1]))),
                "variant x has no guard but is not the last",
            ),
            (with_segments(a_second_segment(id=0), a_segment(id=1)), "segment 0: fid 3 is read before it is defined"),
            (with_segments(a_segment(), a_second_segment(outputs=(4, 3))), "segment 1: fid 3 is defined twice"),
            (
                with_segments(a_segment(), workspace=a_target().workspace[:1]),
                "the intermediate 3 has no workspace slot",
            ),
            (
                with_segments(
                    a_segment(),
                    workspace=(a_target().workspace[0], Slot(id=1, fid=3, bytes=("mul", 4, "M", "N"), first=0, last=0)),
                ),
                "segment 1: fid 3 is read after its workspace slot ends with segment 0",
            ),
            (
                with_segments(a_segment(), workspace=(Slot(id=0, fid=None, bytes=4, first=0, last=9),)),
                "slot 0 lives from segment 0 to 9",
            ),
            (with_launch(kernel="../k"), "'../k' is no kernel name"),
            (with_launch(block=(1024, 2, 1)), "a block of 1024x2x1 threads"),
            (with_launch(block=(0, 1, 1)), "a block of 0x1x1 threads"),
            (with_launch(args=(TensorArg(4),)), "argument 0 is fid 4, which is no tensor of this segment"),
            (with_launch(args=(ScalarArg(0),)), "argument 0 is fid 0, which is no scalar of this segment"),
            (with_launch(args=(ExtentArg(-3),)), "argument 0 is extent -3, which does not exist"),
            (with_launch(args=(StrideArg(0, 2),)), "argument 0 is stride 2 of fid 0, which does not exist"),
            (with_launch(args=(WorkspaceArg(5),)), "argument 0 is slot 5, which does not live in this segment"),
            (with_launch(args=(FormulaArg("K"),)), "symbol 'K' is no dim of any input"),
            (with_launch(shared_bytes=("aligned", 0, 16)), "'aligned' belongs in a guard"),
            (with_launch(shared_bytes=1.5), "1.5 is no formula"),
            (with_launch(shared_bytes=True), "True is no formula"),
            (with_launch(shared_bytes=2**63), "9223372036854775808 does not fit 64 bits"),
            (with_launch(shared_bytes=()), "malformed formula []"),
            (with_launch(shared_bytes=(("mul",), 1, 2)), "malformed formula [('mul',), 1, 2]"),
            (with_launch(shared_bytes=("sub", 1, 2, 3)), "malformed formula ['sub', 1, 2, 3]"),
            (with_launch(shared_bytes=("mod", "M", 0)), "division by 0"),
            (with_guard(("lt", "M", MULTIPROCESSORS)),
             "variant vec4: guard: M < gpu.multiprocessors depends on the device"),
            (a_plan(facts=(PlanFact(symbol=MULTIPROCESSORS),)),
             "a fact is about 'gpu.multiprocessors', which is no dim of any input"),
            (a_plan(values=(msgspec.structs.replace(a_plan().values[0], shape=(MULTIPROCESSORS, 8)),
                            *a_plan().values[1:])), "value 0: gpu.multiprocessors depends on the device"),
            (with_guard(("aligned", 0, 12)), "malformed formula ['aligned', 0, 12]"),
            (with_guard(("aligned", 1, 16)), "malformed formula ['aligned', 1, 16]"),
        ],
    )  # fmt: skip
    def test_an_unsound_plan(self, plan: Plan, problem: str) -> None:
        found = validate_plan(plan)
        assert found is not None
        assert problem in found

    def test_a_formula_too_deep_for_any_stack(self) -> None:
        formula: object = 1
        for _ in range(65):
            formula = ("add", formula, 1)
        found = validate_plan(with_launch(shared_bytes=formula))
        assert found is not None
        assert found.endswith("a formula is nested deeper than 64")

    def test_the_order_of_a_fid_map_does_not_matter(self) -> None:
        shuffled = a_segment(fid_map={2: 3, 10: 0, 1: 1, 0: 0})
        ordered = a_segment(fid_map={0: 0, 1: 1, 2: 3, 10: 0})
        assert encode(with_segments(shuffled)) == encode(with_segments(ordered))
        assert decode(encode(with_segments(shuffled))).targets[0].segments[0].fid_map == ordered.fid_map

    @pytest.mark.parametrize(
        ("last", "problem"),
        [(2, None), (1, "sm_90: segment 2: fid 5 is read after its workspace slot ends with segment 1")],
    )
    def test_a_view_lives_as_long_as_the_memory_of_its_base(self, last: int, problem: str | None) -> None:
        view = PlanSegment(
            id=1, scheduler="alias", fid_map={0: 3, 1: 5}, inputs=(3,), outputs=(5,), views={5: 3}, variants=()
        )
        launch = Launch(kernel=KERNEL, grid=(1, 1, 1), block=(32, 1, 1), args=(TensorArg(5), TensorArg(4)))
        reader = PlanSegment(
            id=2,
            scheduler="pointwise",
            fid_map={0: 5, 1: 4},
            inputs=(5,),
            outputs=(4,),
            variants=(Variant(name="any", guard=(), launches=(launch,)),),
        )
        slots = (a_target().workspace[0], Slot(id=1, fid=3, bytes=("mul", 4, "M", "N"), first=0, last=last))
        target = a_target(segments=(a_segment(), view, reader), workspace=slots)
        flat = PlanValue(fid=5, name="t5", kind="tensor", dtype="float", shape=(("mul", "M", "N"),), strides=(1,))
        assert validate_plan(a_plan(values=(*a_plan().values, flat), targets=(target,))) == problem


class TestElf:
    def test_whole(self) -> None:
        assert elf.problem(tiny_elf(CUDA, "k"), cuda=True, symbol="k") == ""
        assert elf.problem(tiny_elf(X86_64, "k_entry"), cuda=False, symbol="k") == ""

    def test_every_truncation_is_found(self) -> None:
        data = tiny_elf(CUDA, "k")
        assert all(elf.problem(data[:length], cuda=True, symbol="k") for length in range(len(data)))

    def test_flips_never_raise_anything(self) -> None:
        data = tiny_elf(CUDA, "k")
        for position in range(len(data)):
            for value in (0x00, 0x7F, 0xFF):
                damaged = bytearray(data)
                damaged[position] = value
                elf.problem(bytes(damaged), cuda=True, symbol="k")

    @pytest.mark.parametrize(
        ("data", "reason"),
        [
            (b"", "it is truncated: 0 bytes hold no ELF header"),
            (b"x" * 200, "it is not a 64-bit little-endian ELF file"),
            (tiny_elf(3, "k"), "it is made for ELF machine 3, expected 190"),
            (tiny_elf(CUDA, "kk"), "it defines no symbol 'k'"),
        ],
    )
    def test_reasons(self, data: bytes, reason: str) -> None:
        assert elf.problem(data, cuda=True, symbol="k") == reason

    def test_a_name_that_depends_on_the_directory(self) -> None:
        name = "$k$_ZN28_INTERNAL_d608a09e_5_st_cu_k1hEf"
        assert elf.path_dependent_symbol(tiny_elf(CUDA, name)) == name
        assert elf.path_dependent_symbol(tiny_elf(CUDA, "k")) == ""


def test_opening_imports_no_compiler_and_no_yaml() -> None:
    heavy = ["yaml", "jinja2", "networkx", "torch", "tvm_ffi", "ninja", "click", "fusebuild.build.toolchain"]
    code = f"import sys, fusebuild.artifact.file; print([name for name in {heavy!r} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
