"""Which compiler is chosen, what is said of one whose parts do not fit, and that the probe is compiled once."""

from __future__ import annotations

import logging
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from fusebuild.build.compiler import Part, compiler_environment, find_cxx
from fusebuild.build.cuda_toolkit import FIX, choose_nvcc, nvcc_candidates
from fusebuild.build.toolchain import Toolchain, find_toolchain
from fusebuild.errors import NoRoomError, ToolchainError
from fusebuild.report import doctor
from fusebuild.target.table import TARGETS

SM_90, HOST = TARGETS["sm_90"], TARGETS["host"]

NVCC = """#!/bin/sh
here=$(dirname "$0")
case "$*" in
*--version*) echo "Cuda compilation tools, release 13.0, V{version}" ;;
*--list-gpu-code*) echo sm_90; echo sm_100 ;;
*--dryrun*)
  echo "#\\$ TOP=$here/.."
  echo "#\\$ CICC_PATH=$here/../nvvm/bin"
  echo "#\\$ NVVMIR_LIBRARY_DIR=$here/../nvvm/libdevice"
  echo "#\\$ PATH=$here/../nvvm/bin:$here:/nonexistent"
  echo "#\\$ INCLUDES=\\"-I$here/../include\\" " ;;
*)
  echo "$*" >> "$here/../compiled"
  while [ "$1" != -o ]; do shift; done
  cat "$here/../probe.elf" > "$2" 2>/dev/null || {{ echo "no licence to compile"; exit 1; }} ;;
esac
"""
PTXAS = '#!/bin/sh\necho "Cuda compilation tools, release 13.0, V{version}"\n'
CICC = """#!/bin/sh
while [ "$1" != -o ]; do shift; done
printf '//\\n// Compiler Build ID: CL-1\\n// Cuda compilation tools, release 0.0, V{version}\\n' > "$2"
"""


def script(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


@pytest.fixture(scope="session")
def probe_object(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """What a fake nvcc answers with: a whole object that says it is a cubin."""
    folder = tmp_path_factory.mktemp("probe")
    (folder / "p.cc").write_text('extern "C" int fusebuild_probe() { return 0; }')
    subprocess.run(["g++", "-shared", "-fPIC", "-o", "p.so", "p.cc"], cwd=folder, check=True)
    data = (folder / "p.so").read_bytes()
    return data[:18] + (190).to_bytes(2, "little") + data[20:]


class Tree:
    """A toolkit made of shell scripts."""

    def __init__(self, root: Path, probe: bytes, nvcc: str = "13.0.88", cicc: str = "13.0.88", ptxas: str = "13.0.88"):
        self.root, self.nvcc = root, root / "bin" / "nvcc"
        script(self.nvcc, NVCC.format(version=nvcc))
        script(root / "bin" / "ptxas", PTXAS.format(version=ptxas))
        script(root / "nvvm" / "bin" / "cicc", CICC.format(version=cicc))
        for name, text in {
            "nvvm/libdevice/libdevice.10.bc": "",
            "include/cuda_runtime.h": "",
            "include/cuda_runtime_api.h": "#define CUDART_VERSION  13000\n",
            "include/cuda_bf16.h": "static float __bfloat162float(float x) { return x; }\n"
            "static float __float2bfloat16(float x) { return x; }\n",
            "include/crt/host_config.h": "",
            "include/cccl/nv/target": "",
            "include/cccl/cuda/std/__cccl/version.h": "#define CCCL_VERSION 3000001\n",
        }.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text, encoding="utf-8")
        (root / "probe.elf").write_bytes(probe)

    def compilations(self) -> int:
        record = self.root / "compiled"
        return len(record.read_text().splitlines()) if record.exists() else 0


@pytest.fixture
def tree(tmp_path: Path, probe_object: bytes) -> Tree:
    return Tree(tmp_path / "toolkit", probe_object)


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """An environment in which no nvcc is found by accident."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("g++", "sh", "cat", "dirname", "as", "ld"):
        found = next(path for folder in os.defpath.split(":") if (path := Path(folder, name)).exists())
        (tools / name).symlink_to(found)
    return {"PATH": str(tools), "FUSEBUILD_CACHE_DIR": str(tmp_path / "cache")}


def find(environ: Mapping[str, str], nvcc: Path | None = None, *, host: bool = False) -> Toolchain:
    return find_toolchain([HOST if host else SM_90], nvcc=nvcc, environ=environ, site_packages=[])


class TestDiscovery:
    def test_the_order(self, tmp_path: Path, environ: dict[str, str], probe_object: bytes) -> None:
        trees = {name: Tree(tmp_path / name, probe_object) for name in ("flag", "variable", "home", "path", "onpath")}
        pip = Tree(tmp_path / "site" / "nvidia" / "cu13", probe_object)
        environ |= {
            "FUSEBUILD_NVCC": str(trees["variable"].nvcc),
            "CUDA_HOME": str(trees["home"].root),
            "CUDA_PATH": str(trees["path"].root),
        }
        environ["PATH"] += f":{trees['onpath'].nvcc.parent}"
        candidates = nvcc_candidates(trees["flag"].nvcc, environ, [tmp_path / "site"])
        assert [(candidate.source, candidate.path) for candidate in candidates] == [
            ("--nvcc", trees["flag"].nvcc),
            ("FUSEBUILD_NVCC", trees["variable"].nvcc),
            ("CUDA_HOME", trees["home"].nvcc),
            ("CUDA_PATH", trees["path"].nvcc),
            ("site-packages", pip.nvcc),
            ("PATH", trees["onpath"].nvcc),
        ]
        for index, candidate in enumerate(candidates):
            assert choose_nvcc(candidates[index:]) == candidate

    def test_site_packages_are_this_interpreters(self) -> None:
        (candidate, *_) = nvcc_candidates(None, {"PATH": ""})
        assert candidate.source == "site-packages"
        assert candidate.path.is_relative_to(sys.prefix)

    @pytest.mark.parametrize("source", ["--nvcc", "FUSEBUILD_NVCC"])
    def test_a_demanded_compiler_is_never_passed_over(self, environ: dict[str, str], tree: Tree, source: str) -> None:
        gone = tree.root / "gone"
        environ["CUDA_HOME"] = str(tree.root)
        if source == "FUSEBUILD_NVCC":
            environ[source] = str(gone)
        with pytest.raises(ToolchainError) as caught:
            find(environ, gone if source == "--nvcc" else None)
        assert str(caught.value) == f"{source} names {gone}, which is no executable file"
        assert caught.value.exit_code == 5

    def test_a_stale_cuda_home_is_passed_over(self, environ: dict[str, str], tree: Tree, tmp_path: Path) -> None:
        environ |= {"CUDA_HOME": str(tmp_path / "gone"), "CUDA_PATH": str(tree.root)}
        assert find(environ).nvcc == tree.nvcc

    def test_none_at_all(self, environ: dict[str, str], tmp_path: Path) -> None:
        with pytest.raises(ToolchainError) as caught:
            find(environ)
        assert str(caught.value) == f"no nvcc found\n  hint: {FIX}"
        environ["CUDA_HOME"] = str(tmp_path)
        with pytest.raises(ToolchainError) as caught:
            find(environ)
        assert str(caught.value) == f"no nvcc found; tried\n  CUDA_HOME: {tmp_path}/bin/nvcc\n  hint: {FIX}"

    def test_a_wrapper_is_asked_where_its_toolkit_is(self, environ: dict[str, str], tree: Tree, tmp_path: Path) -> None:
        wrapper = tmp_path / "bin" / "nvcc"
        script(wrapper, f'#!/bin/sh\nexec "{tree.nvcc}" "$@"\n')
        found = find(environ, wrapper)
        assert found.nvcc == wrapper
        assert found.cuda_include == tree.root / "include"

    def test_what_is_no_nvcc(self, environ: dict[str, str], tmp_path: Path) -> None:
        script(tmp_path / "nvcc", "#!/bin/sh\necho hello\n")
        with pytest.raises(ToolchainError, match=r"nvcc does not answer as nvcc does:\nhello\nhello"):
            find(environ, tmp_path / "nvcc")

    def test_what_cannot_be_run(self, environ: dict[str, str], tmp_path: Path) -> None:
        script(tmp_path / "nvcc", "\0")
        with pytest.raises(ToolchainError, match=r"nvcc cannot be run: Exec format error"):
            find(environ, tmp_path / "nvcc")


class TestCoherence:
    def test_what_is_found(self, environ: dict[str, str], tree: Tree) -> None:
        found = find(environ, tree.nvcc)
        versions = {"nvcc": "13.0.88", "ptxas": "13.0.88", "cicc": "13.0.88", "cudart": "13.0", "cccl": "3.0.1"}
        assert found.versions == versions | {"g++": find_cxx(environ).version}
        assert found.architectures == ("sm_90", "sm_100")

    @pytest.mark.parametrize("part", ["cicc", "ptxas"])
    def test_parts_of_two_releases(
        self, environ: dict[str, str], tmp_path: Path, probe_object: bytes, part: str
    ) -> None:
        tree = Tree(tmp_path / "mixed", probe_object, **{part: "13.5.20"})
        with pytest.raises(ToolchainError) as caught:
            find(environ, tree.nvcc)
        path = tree.root / ("nvvm/bin/cicc" if part == "cicc" else "bin/ptxas")
        assert str(caught.value) == (
            f"nvcc 13.0.88 ({tree.nvcc}) and {part} 13.5.20 ({path}) do not fit each other\n  hint: {FIX}"
        )

    def test_a_patch_level_apart_is_fine(self, environ: dict[str, str], tmp_path: Path, probe_object: bytes) -> None:
        tree = Tree(tmp_path / "patched", probe_object, cicc="13.0.99")
        assert find(environ, tree.nvcc).versions["cicc"] == "13.0.99"

    def test_headers_of_another_release(self, environ: dict[str, str], tree: Tree) -> None:
        api = tree.root / "include" / "cuda_runtime_api.h"
        api.write_text("#define CUDART_VERSION 13050\n")
        with pytest.raises(ToolchainError) as caught:
            find(environ, tree.nvcc)
        assert str(caught.value) == (
            f"nvcc 13.0.88 ({tree.nvcc}) and cudart 13.5 ({api}) do not fit each other\n  hint: {FIX}"
        )

    @pytest.mark.parametrize(
        ("missing", "message"),
        [
            ("nvvm/bin/cicc", "lacks a working cicc: {root}/nvvm/bin/cicc does not exist (pip package nvidia-nvvm)"),
            ("bin/ptxas", "lacks a working ptxas: {root}/bin/ptxas does not exist (pip package nvidia-cuda-nvcc)"),
            (
                "nvvm/libdevice/libdevice.10.bc",
                "lacks libdevice.10.bc in {root}/nvvm/libdevice (pip package nvidia-nvvm)",
            ),
            ("include/crt/host_config.h", ": {root}/include lacks crt/host_config.h (pip package nvidia-cuda-crt)"),
            ("include/cccl/nv/target", ": {root}/include lacks nv/target (pip package nvidia-cuda-cccl)"),
            ("include/cuda_bf16.h", ": {root}/include lacks cuda_bf16.h (pip package nvidia-cuda-runtime)"),
        ],
    )
    def test_a_missing_part(self, environ: dict[str, str], tree: Tree, missing: str, message: str) -> None:
        (tree.root / missing).unlink()
        with pytest.raises(ToolchainError) as caught:
            find(environ, tree.nvcc)
        label = f"nvcc 13.0.88 ({tree.nvcc})"
        separator = "" if message.startswith(":") else " "
        assert str(caught.value) == f"{label}{separator}{message.format(root=tree.root)}\n  hint: {FIX}"

    def test_an_architecture_it_does_not_know(self, environ: dict[str, str], tree: Tree) -> None:
        with pytest.raises(ToolchainError) as caught:
            find_toolchain([TARGETS["sm_120"]], nvcc=tree.nvcc, environ=environ, site_packages=[])
        assert str(caught.value) == f"nvcc 13.0.88 ({tree.nvcc}) does not compile for sm_120, only for sm_90, sm_100"

    def test_no_host_compiler(self, environ: dict[str, str], tree: Tree) -> None:
        environ["CXX"] = "no-such-compiler"
        with pytest.raises(ToolchainError, match=r"^CXX names no-such-compiler, which is not on PATH"):
            find(environ, tree.nvcc)

    def test_a_host_compiler_that_links_no_cpp(self, environ: dict[str, str], tree: Tree) -> None:
        """Its objects would have other bytes under the same names."""
        gcc = shutil.which("gcc") or pytest.skip("there is no gcc")
        (Path(environ["PATH"]) / "cc-of-mine").symlink_to(gcc)
        for variable in ("CXX", "FUSEBUILD_CXX"):
            environ[variable] = "cc-of-mine"
            for host in (False, True):
                with pytest.raises(ToolchainError) as caught:
                    find(environ, tree.nvcc, host=host)
                assert str(caught.value) == (
                    f"{variable} names cc-of-mine, which links nothing of C++'s library\n"
                    f"  hint: name the C++ compiler that belongs to it, as in {variable}=g++"
                )

    def test_a_host_compiler_of_any_name(self, environ: dict[str, str], tree: Tree) -> None:
        (Path(environ["PATH"]) / "mine").symlink_to(shutil.which("g++") or "")
        environ["CXX"] = "mine"
        assert find(environ, tree.nvcc).cxx.name == "mine"


class TestHost:
    def test_a_relative_cuda_home(
        self, environ: dict[str, str], tree: Tree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        environ["CUDA_HOME"] = "toolkit"
        (tree.root / "include" / "cuda_bf16.h").write_text(
            "typedef float __nv_bfloat16;\n"
            "inline float __bfloat162float(float x) { return x; }\n"
            "inline float __float2bfloat16(float x) { return x; }\n"
        )
        assert find(environ).nvcc == tree.nvcc
        tree.nvcc.unlink()
        assert find(environ, host=True).cuda_include == tree.root / "include"

    def test_no_room_to_ask_nvcc_is_not_taken_for_no_nvcc(
        self, environ: dict[str, str], tree: Tree, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tree.root / "nvvm/bin/cicc").write_text("#!/bin/sh\necho 'No space left on device'; exit 1\n")
        environ["CUDA_HOME"] = str(tree.root)
        with pytest.raises(NoRoomError, match=r"^compilers had no room in \S+, where \d+ bytes are free now\n"):
            find(environ, host=True)

    def test_it_needs_no_nvcc(self, environ: dict[str, str], tree: Tree) -> None:
        tree.nvcc.unlink()
        environ["CUDA_HOME"] = str(tree.root)
        found = find(environ, host=True)
        assert (found.nvcc, found.cuda_include) == (None, tree.root / "include")
        assert list(found.versions) == ["g++", "cudart", "cccl"]

    def test_a_broken_nvcc_does_not_matter(self, environ: dict[str, str], tree: Tree) -> None:
        (tree.root / "nvvm/bin/cicc").unlink()
        environ["CUDA_HOME"] = str(tree.root)
        assert find(environ, host=True).nvcc is None

    def test_it_needs_the_headers(self, environ: dict[str, str]) -> None:
        with pytest.raises(ToolchainError, match=r"^no CUDA headers found, which the host target needs too\n  hint: "):
            find(environ, host=True)


class TestProbe:
    def test_once_for_each_identity(self, environ: dict[str, str], tree: Tree) -> None:
        for _ in range(2):
            find(environ, tree.nvcc)
            assert tree.compilations() == 1
        os.utime(tree.root / "bin" / "ptxas", ns=(1, 1))
        find(environ, tree.nvcc)
        assert tree.compilations() == 2

    def test_a_cache_that_cannot_be_written_is_only_slower(
        self, environ: dict[str, str], tree: Tree, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        (tmp_path / "file").touch()
        environ["FUSEBUILD_CACHE_DIR"] = str(tmp_path / "file" / "cache")
        with caplog.at_level(logging.DEBUG):
            find(environ, tree.nvcc)
            find(environ, tree.nvcc)
        assert tree.compilations() == 2
        assert "the probe's result is not cached" in caplog.text

    def test_a_compiler_that_fails(self, environ: dict[str, str], tree: Tree) -> None:
        (tree.root / "probe.elf").unlink()
        for _ in range(2):  # a failure is not cached
            with pytest.raises(ToolchainError) as caught:
                find(environ, tree.nvcc)
            lines = str(caught.value).splitlines()
            assert lines[0] == "the probe does not compile for sm_90:"
            assert lines[1].startswith(f"{tree.nvcc} -ccbin ")
            assert lines[2:] == ["no licence to compile"]

    def test_a_compiler_that_writes_half_an_object(self, environ: dict[str, str], tree: Tree) -> None:
        whole = (tree.root / "probe.elf").read_bytes()
        (tree.root / "probe.elf").write_bytes(whole[: len(whole) // 2])
        with pytest.raises(ToolchainError, match="it is truncated: a "):
            find(environ, tree.nvcc)


class TestDigests:
    def toolchain(self, folder: Path, ptxas: str = "13.0.88") -> Toolchain:
        banners = {"nvcc": "n", "ptxas": ptxas, "cicc": "c", "g++": "g", "cudart": "13.0", "cccl": "3.0.1"}
        for name in banners:
            script(folder / name, "")
        parts = tuple(Part(name=n, path=folder / n, version=b, banner=b) for n, b in banners.items())
        return Toolchain(
            nvcc=folder / "nvcc", cxx=folder / "g++", ninja=folder, cuda_include=folder, architectures=(), parts=parts
        )

    def test_equal_tools_elsewhere_have_equal_digests(self, tmp_path: Path) -> None:
        one, two = self.toolchain(tmp_path / "one"), self.toolchain(tmp_path / "two")
        assert one.digest_for(SM_90) == two.digest_for(SM_90)
        assert one.identity != two.identity

    def test_a_swapped_tool_changes_them(self, tmp_path: Path) -> None:
        one, two = self.toolchain(tmp_path / "one"), self.toolchain(tmp_path / "two", ptxas="13.0.99")
        assert one.digest_for(SM_90) != two.digest_for(SM_90)
        assert one.digest_for(HOST) == two.digest_for(HOST)
        assert one.versions_for([HOST]) == two.versions_for([HOST])
        assert {*one.versions} == {*one.versions_for([HOST, SM_90])} > {*one.versions_for([HOST])}


def test_variables_that_add_flags_are_not_passed_on() -> None:
    given = {"NVCC_APPEND_FLAGS": "-G", "NVCC_PREPEND_FLAGS": "-g", "CPATH": "/evil", "HOME": "/h", "LC_ALL": "de_DE"}
    given |= dict.fromkeys(("CPLUS_INCLUDE_PATH", "C_INCLUDE_PATH", "GCC_EXEC_PREFIX", "LD_RUN_PATH"), "/evil")
    assert compiler_environment(given) == {"HOME": "/h", "LC_ALL": "C", "PWD": "/proc/self/cwd"}


class TestDoctor:
    def test_a_sound_toolchain(self, environ: dict[str, str], tree: Tree) -> None:
        findings = doctor.diagnose(environ=environ, nvcc=tree.nvcc, site_packages=[])
        found = {finding.name: finding for finding in findings}
        assert found["nvcc from --nvcc"].found == f"{tree.nvcc}: chosen: the first that exists"
        assert found["cicc"].found == f"13.0.88 at {tree.root}/nvvm/bin/cicc"
        for name in ("nvcc", "ptxas", "cudart", "cccl", "g++", "ninja", "device compile", "host compile", "cache"):
            assert found[name].status == "ok", found[name]

    def test_an_incoherent_one(self, environ: dict[str, str], tmp_path: Path, probe_object: bytes) -> None:
        tree = Tree(tmp_path / "mixed", probe_object, cicc="13.5.20")
        environ |= {"CUDA_HOME": str(tmp_path / "gone"), "CUDA_PATH": str(tree.root)}
        found = {finding.name: finding for finding in doctor.diagnose(environ=environ, site_packages=[])}
        assert found["nvcc from CUDA_HOME"].status == "warn"
        assert found["nvcc from CUDA_HOME"].advice == "unset CUDA_HOME, or point it at a toolkit"
        assert (found["toolkit"].status, found["toolkit"].advice) == ("error", FIX)
        assert "cicc 13.5.20" in found["toolkit"].found
        assert found["device compile"].status == "error"
        assert found["host compile"].status == "ok"

    def test_nothing_at_all(self, tmp_path: Path) -> None:
        environ = {"PATH": str(tmp_path), "FUSEBUILD_CACHE_DIR": str(tmp_path)}
        found = {finding.name: finding for finding in doctor.diagnose(environ=environ, site_packages=[])}
        assert (found["nvcc"].status, found["nvcc"].found, found["nvcc"].advice) == ("error", "no nvcc found", FIX)
        assert (found["g++"].status, found["g++"].advice) == ("error", "install a C++17 compiler")

    def test_it_imports_neither_torch_nor_tvm_ffi(self) -> None:
        code = (
            "import sys; from fusebuild.report.doctor import diagnose\n"
            "diagnose(environ={'PATH': ''}, site_packages=[])\n"
            "print([name for name in ('torch', 'tvm_ffi', 'yaml', 'jinja2') if name in sys.modules])"
        )
        result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert result.stdout.strip() == "[]"
