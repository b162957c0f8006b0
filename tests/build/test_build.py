"""Building real kernels: what is compiled when, what the objects are called, and what happens when something breaks."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.bench_compile import bare_arguments
from fusebuild.artifact import elf
from fusebuild.build import job, ninja
from fusebuild.build.build_dir import BuildDir, write_if_changed
from fusebuild.build.job import Headers, KernelSource, read_headers
from fusebuild.build.object_store import ObjectStore
from fusebuild.build.objects import BuildError, BuildResult, build, object_name
from fusebuild.build.toolchain import Toolchain, find_toolchain
from fusebuild.errors import CompileError, ToolchainError, UsageError
from fusebuild.system import disk_space
from fusebuild.system.resources import ninja_template
from fusebuild.target.table import TARGETS, Target
from support.places import TESTS
from support.sampled import sampled

SM_90, HOST, ASAN = TARGETS["sm_90"], TARGETS["host"], TARGETS["host-asan"]
ODD_NAME = "a b$c'd\"e:f"


pytestmark = pytest.mark.usefixtures("empty_store")


@pytest.fixture(scope="session")
def toolchain(cache: Path) -> Toolchain:
    try:
        return find_toolchain([SM_90, HOST])
    except ToolchainError as error:
        pytest.skip(f"needs a CUDA toolkit: {error}")


@pytest.fixture
def build_dir(tmp_path: Path) -> BuildDir:
    return BuildDir(root=tmp_path / "out")


def build_all(kernels: list[KernelSource], targets: list[Target], *more: Any, **named: Any) -> BuildResult:
    """Each of ``kernels`` for each of ``targets``."""
    return build([(target, kernel) for target in targets for kernel in kernels], *more, **named)


def a_kernel(name: str, body: str = "y[0] = 1.0f;") -> KernelSource:
    """A kernel that compiles for both kinds of targets without any header of ours."""
    text = f"""
    #ifdef FUSEBUILD_HOST
    #define ENTRY extern "C" __attribute__((visibility("default"))) void
    #else
    #define ENTRY extern "C" __global__ void
    #endif
    ENTRY {name}(float* y) {{ {body} }}
    """
    return KernelSource(name=name, text=textwrap.dedent(text))


def forget(store: Path) -> None:
    """Leave no object in ``store``."""
    shutil.rmtree(store, ignore_errors=True)


class TestCompiling:
    def test_both_kinds_of_targets(self, toolchain: Toolchain, build_dir: BuildDir) -> None:
        progress: list[tuple[int, int]] = []
        kernels = [a_kernel("k1"), a_kernel("k2")]
        result = build_all(
            kernels, [SM_90, HOST], build_dir, toolchain, jobs=2, on_progress=lambda *step: progress.append(step)
        )
        assert list(result.objects) == [("sm_90", "k1"), ("sm_90", "k2"), ("host", "k1"), ("host", "k2")]
        assert progress == [(1, 4), (2, 4), (3, 4), (4, 4)]
        assert (result.compiled, result.total, result.spills) == (4, 4, {})
        assert result.resources["sm_90", "k1"].registers > 0
        for (target, kernel), data in result.objects.items():
            assert elf.problem(data, cuda=target == "sm_90", symbol=kernel) == ""

    def test_a_second_run_compiles_nothing(self, toolchain: Toolchain, build_dir: BuildDir) -> None:
        first = build_all([a_kernel("k1")], [SM_90, HOST], build_dir, toolchain)
        before = {path: path.stat().st_mtime_ns for path in build_dir.state.rglob("*") if path.is_file()}
        second = build_all([a_kernel("k1")], [SM_90, HOST], build_dir, toolchain)
        after = {path: path.stat().st_mtime_ns for path in build_dir.state.rglob("*") if path.is_file()}
        assert (second.compiled, second.objects) == (0, first.objects)
        assert after == before

    def test_a_changed_kernel_compiles_alone(self, toolchain: Toolchain, build_dir: BuildDir) -> None:
        first = build_all([a_kernel("k1"), a_kernel("k2")], [HOST], build_dir, toolchain)
        second = build_all([a_kernel("k1"), a_kernel("k2", "y[0] = 2.0f;")], [HOST], build_dir, toolchain)
        assert second.compiled == 1
        assert second.objects["host", "k1"] == first.objects["host", "k1"]
        assert second.objects["host", "k2"] != first.objects["host", "k2"]
        third = build_all([a_kernel("k1"), a_kernel("k2")], [HOST], build_dir, toolchain)
        assert third.objects == first.objects

    def test_kernels_may_come_and_go(self, toolchain: Toolchain, build_dir: BuildDir) -> None:
        for kernels, compiled in ((["k1"], 1), (["k2"], 1), (["k1", "k2"], 0), ([], 0)):
            result = build_all([a_kernel(name) for name in kernels], [HOST], build_dir, toolchain)
            assert result.compiled == compiled

    def test_another_folder_takes_what_is_compiled(self, toolchain: Toolchain, tmp_path: Path) -> None:
        kernels, targets = [a_kernel("k1"), a_kernel("k2")], [SM_90, HOST]
        first = build_all(kernels, targets, BuildDir(root=tmp_path / "first"), toolchain)
        second = build_all(kernels, targets, BuildDir(root=tmp_path / "second"), toolchain)
        assert (first.compiled, second.compiled) == (4, 0)
        assert (second.objects, second.resources) == (first.objects, first.resources)

    def test_bytes_do_not_depend_on_the_directory(
        self, toolchain: Toolchain, tmp_path: Path, empty_store: Path
    ) -> None:
        kernels, targets = [a_kernel("k1", "y[0] = 1.0f / y[1];")], [SM_90, HOST, ASAN]
        plain = build_all(kernels, targets, BuildDir(root=tmp_path / "plain"), toolchain)
        forget(empty_store)
        odd = build_all(kernels, targets, BuildDir(root=tmp_path / ODD_NAME / "deep"), toolchain)
        assert (odd.compiled, odd.objects) == (3, plain.objects)

    def test_an_odd_directory_of_headers(
        self, toolchain: Toolchain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        include = tmp_path / ODD_NAME / "include"
        (include / "fusebuild").mkdir(parents=True)
        (include / "fusebuild" / "one.cuh").write_text("#define ONE 1.0f\n")
        monkeypatch.setattr(job, "include_dir", lambda: include)
        kernel = KernelSource(name="k1", text='#include "fusebuild/one.cuh"\n' + a_kernel("k1", "y[0] = ONE;").text)
        build_dir = BuildDir(root=tmp_path / ODD_NAME)
        first = build_all([kernel], [SM_90, HOST], build_dir, toolchain)
        (include / "fusebuild" / "one.cuh").write_text("#define ONE (0.5f + 0.5f)\n")
        second = build_all([kernel], [SM_90, HOST], build_dir, toolchain)
        assert (first.compiled, second.compiled) == (2, 2)
        (include / "fusebuild" / "one.cuh").unlink()
        with pytest.raises(BuildError, match=r"fusebuild/one\.cuh"):
            build_all([kernel], [HOST], build_dir, toolchain)

    def test_spills_are_reported(self, toolchain: Toolchain, build_dir: BuildDir) -> None:
        text = """
        extern "C" __global__ void __launch_bounds__(1024, 2) spilly(float* p) {
          float a[64];
          #pragma unroll
          for (int i = 0; i < 64; i++) a[i] = p[i * 1024 + threadIdx.x];
          __syncthreads();
          #pragma unroll
          for (int i = 0; i < 64; i++) p[i * 1024 + threadIdx.x] = a[i] * a[(i + 7) % 64] + a[(i + 31) % 64];
        }"""
        result = build_all([KernelSource(name="spilly", text=textwrap.dedent(text))], [SM_90], build_dir, toolchain)
        assert result.spills["sm_90", "spilly"] > 0
        again = build_all([KernelSource(name="spilly", text=textwrap.dedent(text))], [SM_90], build_dir, toolchain)
        assert (again.compiled, again.spills) == (0, result.spills)

    def test_a_dry_run_writes_nothing(self, toolchain: Toolchain, build_dir: BuildDir) -> None:
        result = build_all([a_kernel("k1")], [SM_90, HOST], build_dir, toolchain, dry_run=True)
        assert (result.compiled, result.total) == (2, 2)
        assert not build_dir.root.exists()

    def test_bare_nvcc_is_measured_with_the_same_flags(self, toolchain: Toolchain, build_dir: BuildDir) -> None:
        build_all([a_kernel("k1")], [SM_90], build_dir, toolchain)
        (entry,) = json.loads(build_dir.compile_commands.read_text())
        ours, bare = entry["arguments"], bare_arguments(entry["arguments"], Path("elsewhere.cubin"))
        assert [word for word in ours if word not in bare] == ["-Xptxas", "-v", entry["output"]]
        assert [word for word in bare if word not in ours] == ["elsewhere.cubin"]

    def test_compile_commands(self, toolchain: Toolchain, build_dir: BuildDir) -> None:
        made = build_all([a_kernel("k1")], [HOST], build_dir, toolchain).objects["host", "k1"]
        (entry,) = json.loads(build_dir.compile_commands.read_text())
        assert entry["file"] == "kernels/k1.cu"
        output = Path(entry["directory"], entry["output"])
        output.parent.mkdir()
        environ = os.environ | {"PWD": "/proc/self/cwd"}
        subprocess.run(entry["arguments"], cwd=entry["directory"], env=environ, check=True)
        assert output.read_bytes() == made


class TestFailing:
    def test_the_message_has_all_there_is_to_know(self, toolchain: Toolchain, build_dir: BuildDir) -> None:
        kernels = [a_kernel("bad", "y[0] = undefined;"), a_kernel("good")]
        with pytest.raises(BuildError) as caught:
            build_all(kernels, [SM_90, HOST], build_dir, toolchain)
        assert caught.value.exit_code == 1
        device, host = caught.value.failures
        assert (device.target, device.kernel) == ("sm_90", "bad")
        assert (host.target, host.kernel) == ("host", "bad")
        lines = str(device).splitlines()
        assert lines[0] == "kernel bad does not compile for sm_90:"
        assert lines[1] == 'kernels/bad.cu(7): error: identifier "undefined" is undefined'
        assert lines[-1].startswith(f"{toolchain.nvcc} -ccbin {toolchain.cxx} -std=c++17 ")
        assert "kernels/bad.cu:7:30: error: 'undefined' was not declared in this scope" in str(host)

    def test_where_colors_are_forced(
        self, toolchain: Toolchain, build_dir: BuildDir, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("CLICOLOR_FORCE", "1")
        with pytest.raises(BuildError, match=r"^kernel bad does not compile for host:\n"):
            build_all([a_kernel("bad", "oops")], [HOST], build_dir, toolchain)

    def test_the_others_are_compiled(self, toolchain: Toolchain, build_dir: BuildDir) -> None:
        with pytest.raises(BuildError):
            build_all([a_kernel("bad", "oops"), a_kernel("good")], [HOST], build_dir, toolchain, jobs=1)
        assert build_all([a_kernel("good")], [HOST], build_dir, toolchain).compiled == 0

    def test_long_output_is_cut(self) -> None:
        failure = job.Failure(kernel="k", target="host", output="\n".join(map(str, range(100))), command="cc k")
        lines = str(failure).splitlines()
        assert len(lines) == 43
        assert lines[-2:] == ["… 60 more lines", "cc k"]

    def test_a_kernel_that_is_not_in_its_object(self, toolchain: Toolchain, build_dir: BuildDir) -> None:
        misnamed = KernelSource(name="other", text=a_kernel("k1").text)
        with pytest.raises(BuildError) as caught:
            build_all([misnamed], [HOST], build_dir, toolchain)
        assert str(caught.value) == (
            "kernel other does not compile for host:\nthe object is unusable: it defines no symbol 'other'"
        )

    def test_a_device_function_whose_name_depends_on_the_directory(
        self, toolchain: Toolchain, build_dir: BuildDir
    ) -> None:
        text = "static __device__ __noinline__ float f(float x) { return logf(x) * x; }\n"
        kernel = KernelSource(name="k1", text=text + a_kernel("k1", "y[0] = f(y[0]) + f(y[1]);").text)
        with pytest.raises(BuildError, match="was not inlined, so its bytes depend on the directory"):
            build_all([kernel], [SM_90], build_dir, toolchain)

    def test_a_full_disk_is_named(
        self, toolchain: Toolchain, build_dir: BuildDir, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(disk_space, "_ROOM_TO_COMPILE", 2**63)
        kernels = [a_kernel(f"bad{index}", "oops") for index in range(3)]
        with pytest.raises(BuildError) as caught:
            build_all(kernels, [HOST], build_dir, toolchain)
        first, second, *_, last = str(caught.value).splitlines()
        assert re.fullmatch(r"only \d+ bytes are free in .*/fusebuild-work-\w+", first)
        assert second == "kernel bad0 does not compile for host:"
        assert last == "… and 2 more kernels"
        assert [failure.kernel for failure in caught.value.failures] == ["bad0", "bad1", "bad2"]

    def test_so_is_one_that_was_full_while_compilers_wrote(self, toolchain: Toolchain, build_dir: BuildDir) -> None:
        full = KernelSource(name="full", text="#error No space left on device\n")
        with pytest.raises(BuildError, match=r"^compilers had no room in .*/fusebuild-work-\w+, where \d+ bytes are"):
            build_all([full, a_kernel("k1")], [HOST], build_dir, toolchain)

    def test_what_ninja_says_is_not_under_what_it_did(self, toolchain: Toolchain, build_dir: BuildDir) -> None:
        ninja = build_dir.root.parent / "ninja"
        ninja.write_text("#!/bin/sh\necho 'fusebuild 1/2 [1]'\necho 'ninja: error: No space left on device'\nexit 1\n")
        ninja.chmod(0o755)
        with pytest.raises(CompileError) as caught:
            build_all([a_kernel("k1")], [HOST], build_dir, replace(toolchain, ninja=ninja))
        first, *others = str(caught.value).splitlines()
        assert first.startswith("compilers had no room in ")
        assert [line.partition(" in ")[0] for line in others] == [
            "ninja failed", "ninja: error: No space left on device",
        ]  # fmt: skip

    def test_a_directory_that_cannot_be_written(self, toolchain: Toolchain, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        with pytest.raises(CompileError, match=r"^cannot build in .*/file: Not a directory"):
            build_all([a_kernel("k1")], [HOST], BuildDir(root=tmp_path / "file"), toolchain)

    def test_ninja_itself_fails(self, toolchain: Toolchain, build_dir: BuildDir) -> None:
        ninja = build_dir.root.parent / "ninja"
        ninja.write_text("#!/bin/sh\necho 'ninja: fatal: no luck'\nexit 1\n")
        ninja.chmod(0o755)
        with pytest.raises(CompileError, match=r"^ninja failed in .*/fusebuild-work-\w+:\nninja: fatal: no luck$"):
            build_all([a_kernel("k1")], [HOST], build_dir, replace(toolchain, ninja=ninja))

    @pytest.mark.parametrize("name", ["", "a-b", "../a", "a b", "a;b"])
    def test_kernel_names(self, name: str) -> None:
        with pytest.raises(UsageError, match=r"is no kernel name: only letters, digits and _ are$"):
            KernelSource(name=name, text="")

    def test_two_kernels_of_one_name(self, toolchain: Toolchain, build_dir: BuildDir) -> None:
        with pytest.raises(UsageError, match=r"^two different kernels are called k1$"):
            build_all([a_kernel("k1"), a_kernel("k1", "y[1] = 1;")], [HOST], build_dir, toolchain)
        assert build_all([a_kernel("k1"), a_kernel("k1")], [HOST, HOST], build_dir, toolchain).total == 1


class TestRepair:
    @pytest.mark.parametrize(("good_after", "attempts"), [(2, 2), (9, 2)])
    def test_a_compiler_that_exits_0_with_half_an_object(
        self, toolchain: Toolchain, tmp_path: Path, good_after: int, attempts: int
    ) -> None:
        """What nvcc does on a full disk; the second attempt finds room, or does not."""
        counter = tmp_path / "count"
        compiler = tmp_path / "cxx"
        compiler.write_text(
            f'#!/bin/sh\n"{toolchain.cxx}" "$@" || exit 1\necho >> "{counter}"\n'
            f'[ $(wc -l < "{counter}") -ge {good_after} ] && exit 0\n'
            'for word; do [ "$last" = -o ] && truncate -s 3000 "$word"; last=$word; done\nexit 0\n'
        )
        compiler.chmod(0o755)
        fake = Toolchain(
            nvcc=None,
            cxx=compiler,
            ninja=toolchain.ninja,
            cuda_include=toolchain.cuda_include,
            architectures=(),
            parts=toolchain.parts,
        )
        build_dir = BuildDir(root=tmp_path / "out")
        if good_after <= attempts:
            assert build_all([a_kernel("k1")], [HOST], build_dir, fake).compiled == 1
        else:
            with pytest.raises(BuildError, match="the object is unusable: it is truncated: "):
                build_all([a_kernel("k1")], [HOST], build_dir, fake)
            assert not list((tmp_path / "cache" / "objects").rglob("k1*"))
        assert len(counter.read_text().splitlines()) == attempts

    def test_an_edited_kernel_is_put_right(self, toolchain: Toolchain, build_dir: BuildDir) -> None:
        build_all([a_kernel("k1")], [HOST], build_dir, toolchain)
        (build_dir.state / "kernels" / "k1.cu").write_text("edited by hand")
        result = build_all([a_kernel("k1")], [HOST], build_dir, toolchain)
        assert (build_dir.state / "kernels" / "k1.cu").read_text() == a_kernel("k1").text
        assert result.compiled == 0

    def test_two_processes_at_once(self, toolchain: Toolchain, build_dir: BuildDir) -> None:
        code = f"""
        import sys
        from pathlib import Path
        sys.path[:0] = {[str(TESTS), str(TESTS / "build")]!r}
        from test_build import BuildDir, HOST, TARGETS, a_kernel, build_all, find_toolchain
        kernels = [a_kernel(name) for name in sys.argv[1:]]
        print(build_all(kernels, [HOST], BuildDir(root=Path({str(build_dir.root)!r})), find_toolchain([HOST])).compiled)
        """
        command = [sys.executable, "-c", textwrap.dedent(code)]
        runs = [
            subprocess.Popen([*command, *names], stdout=subprocess.PIPE, text=True)
            for names in (["k1", "k2", "k3"], ["k2", "k3", "k4"])
        ]
        counts = [int(run.communicate(timeout=120)[0]) for run in runs]
        assert [run.returncode for run in runs] == [0, 0]
        assert sum(counts) == 4
        assert build_all([a_kernel(f"k{i}") for i in (1, 2, 3, 4)], [HOST], build_dir, toolchain).compiled == 0


def kernels_of_ours(count: int) -> list[KernelSource]:
    """Kernels that need the device header."""
    text = """\
    #include <fusebuild/kernel.cuh>
    FUSEBUILD_KERNEL(32, 1) {name}(const __nv_bfloat16* x, float* y) {{ y[0] = fb::cast<float>(x[0]) + {index}; }}
    FUSEBUILD_ENTRY({name})
    """
    names = [f"k{index}" for index in range(count)]
    return [
        KernelSource(name=name, text=textwrap.dedent(text).format(name=name, index=index))
        for index, name in enumerate(names)
    ]


def telling(toolchain: Toolchain, folder: Path, but: str = "") -> Toolchain:
    """``toolchain`` with a compiler for the CPU that says which headers it reads, ``but`` does something before."""
    compiler = folder / "cxx"
    compiler.write_text(f'#!/bin/sh\n{but}\nexec "{toolchain.cxx}" "$@" -H\n')
    compiler.chmod(0o755)
    return replace(toolchain, cxx=compiler)


def logs(store: Path, target: Target) -> list[str]:
    """What compilers said of each object for ``target``."""
    objects = ObjectStore(root=store)
    found = [objects.get(f"{target.name}/{path.name}") for path in (store / target.name).iterdir()]
    return [each.log for each in found if each is not None]


def precompiled_for(target: Target) -> str:
    """What a :func:`telling` compiler says when it reads the precompiled header of ``target``."""
    return f"! precompiled/{target.name}/fusebuild/kernel.cuh.gch\n"


class TestHeaderReadOnce:
    """Where there are four kernels for the CPU, or more, to each compiler that runs at a time; and in later builds."""

    @pytest.fixture(autouse=True)
    def none_is_precompiled_yet(self, empty_store: Path) -> None:
        forget(empty_store)

    @pytest.mark.parametrize("target", sampled([HOST, ASAN], 2), ids=lambda target: target.name)
    def test_objects_are_the_same(
        self, toolchain: Toolchain, build_dir: BuildDir, tmp_path: Path, empty_store: Path, target: Target
    ) -> None:
        kernels = kernels_of_ours(4)
        progress: list[tuple[int, int]] = []
        at_once = build_all(
            kernels, [target], build_dir, telling(toolchain, tmp_path), jobs=1,
            on_progress=lambda *step: progress.append(step),
        )  # fmt: skip
        assert [precompiled_for(target) in log for log in logs(empty_store, target)] == [True] * 4
        assert (at_once.compiled, at_once.total) == (4, 4)
        assert progress == [(done, 4) for done in range(1, 5)]
        forget(empty_store)
        alone = build_all(kernels, [target], build_dir, telling(toolchain, tmp_path), jobs=2)
        assert (alone.compiled, alone.objects) == (4, at_once.objects)
        assert ["kernel.cuh.gch" in log for log in logs(empty_store, target)] == [False] * 4

    def test_later_builds_find_it(
        self, toolchain: Toolchain, build_dir: BuildDir, tmp_path: Path, empty_store: Path
    ) -> None:
        first, later = kernels_of_ours(4), kernels_of_ours(5)[4:]
        as_text = build_all(later, [HOST], build_dir, toolchain)
        forget(empty_store)
        build_all(first, [HOST], build_dir, toolchain, jobs=1)
        (kept,) = (empty_store / "precompiled").iterdir()
        assert kept.name.startswith("host-")
        elsewhere = BuildDir(root=tmp_path / "elsewhere")
        assert build_all(later, [HOST], elsewhere, telling(toolchain, tmp_path)).objects == as_text.objects
        assert sum(precompiled_for(HOST) in log for log in logs(empty_store, HOST)) == 1

    def test_one_that_was_damaged_is_not_read(
        self, toolchain: Toolchain, build_dir: BuildDir, tmp_path: Path, empty_store: Path
    ) -> None:
        build_all(kernels_of_ours(4), [HOST], build_dir, toolchain, jobs=1)
        (kept,) = (empty_store / "precompiled").iterdir()
        data = bytearray(kept.read_bytes())
        data[len(data) // 2] ^= 1
        kept.write_bytes(data)
        assert build_all(kernels_of_ours(5)[4:], [HOST], build_dir, telling(toolchain, tmp_path)).compiled == 1
        assert not any(precompiled_for(HOST) in log for log in logs(empty_store, HOST))

    def test_a_small_store_keeps_objects_instead(
        self, toolchain: Toolchain, build_dir: BuildDir, empty_store: Path
    ) -> None:
        store = ObjectStore(root=empty_store, limit=100 * 2**20)
        requests = [(HOST, kernel) for kernel in kernels_of_ours(4)]
        assert build(requests, build_dir, toolchain, jobs=1, store=store).compiled == 4
        assert not (empty_store / "precompiled").exists()

    def test_compilers_that_cannot_do_it(self, toolchain: Toolchain, build_dir: BuildDir, tmp_path: Path) -> None:
        but = 'case "$*" in *c++-header*) echo "no such language" >&2; exit 1;; esac'
        result = build_all(kernels_of_ours(4), [HOST], build_dir, telling(toolchain, tmp_path, but), jobs=1)
        assert result.compiled == 4

    def test_it_is_left_to_gcc(
        self, toolchain: Toolchain, build_dir: BuildDir, tmp_path: Path, empty_store: Path
    ) -> None:
        parts = tuple(
            replace(part, banner="version 14.0.6") if part.name == "g++" else part for part in toolchain.parts
        )
        like_clang = replace(telling(toolchain, tmp_path), parts=parts)
        assert (toolchain.has_gcc, like_clang.has_gcc) == (True, False)
        assert build_all(kernels_of_ours(4), [HOST], build_dir, like_clang, jobs=1).compiled == 4
        assert ["kernel.cuh.gch" in log for log in logs(empty_store, HOST)] == [False] * 4

    def test_a_header_that_does_not_compile_is_every_kernels_problem(
        self, toolchain: Toolchain, build_dir: BuildDir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        include = tmp_path / "include" / "fusebuild"
        include.mkdir(parents=True)
        (include / "kernel.cuh").write_text("#error no header\n")
        monkeypatch.setattr(job, "include_dir", lambda: include.parent)
        with pytest.raises(BuildError) as raised:
            build_all(kernels_of_ours(4), [HOST], build_dir, toolchain, jobs=1)
        assert [failure.kernel for failure in raised.value.failures] == ["k0", "k1", "k2", "k3"]
        assert all("#error no header" in failure.output for failure in raised.value.failures)


class TestNames:
    def test_what_an_object_is_named_by(self, toolchain: Toolchain) -> None:
        headers, kernel = Headers(files={}, digest="h"), a_kernel("k1")
        name = object_name(kernel, SM_90, toolchain, headers)
        assert name.startswith("k1-")
        assert name == object_name(kernel, SM_90, toolchain, headers)
        others = [
            object_name(a_kernel("k1", "y[1] = 1;"), SM_90, toolchain, headers),
            object_name(kernel, TARGETS["sm_80"], toolchain, headers),
            object_name(kernel, HOST, toolchain, headers),
            object_name(kernel, ASAN, toolchain, headers),
            object_name(kernel, SM_90, toolchain, Headers(files={}, digest="other")),
        ]
        assert len({name, *others}) == 6

    def test_flags_in_the_rules_are_part_of_it(self, toolchain: Toolchain, monkeypatch: pytest.MonkeyPatch) -> None:
        names = [object_name(a_kernel("k1"), target, toolchain) for target in (SM_90, HOST)]
        template = ninja_template()
        monkeypatch.setattr(ninja, "ninja_template", lambda: "# a comment\n" + template.replace("-O3", "-O2"))
        assert object_name(a_kernel("k1"), SM_90, toolchain) != names[0]
        assert object_name(a_kernel("k1"), HOST, toolchain) == names[1]

    def test_headers_are_digested_with_their_names(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(job, "include_dir", lambda: tmp_path)
        (tmp_path / "a.cuh").write_text("x")
        first = read_headers()
        (tmp_path / "a.cuh").rename(tmp_path / "b.cuh")
        assert first.files == {"a.cuh": b"x"}
        assert read_headers().digest != first.digest

    def test_every_path_is_inside(self, build_dir: BuildDir) -> None:
        assert build_dir.artifact("layernorm") == build_dir.root / "layernorm.fuse"
        for name in ("", "..", "a/b", "a b", "x."):
            with pytest.raises(UsageError, match="cannot name a file"):
                build_dir.artifact(name)

    def test_write_if_changed(self, tmp_path: Path) -> None:
        path = tmp_path / "new" / "file"
        assert write_if_changed(path, "text")
        os.utime(path, (1, 1))
        assert not write_if_changed(path, b"text")
        assert path.stat().st_mtime == 1
        assert write_if_changed(path, "other")
        assert os.listdir(path.parent) == ["file"]
