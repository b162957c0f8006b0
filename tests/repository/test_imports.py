"""Imports run one way, start-up is light, tests lie where what they are about does, files and functions stay short."""

from __future__ import annotations

import ast
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from support.places import ROOT, TESTS
from support.side_tower import SIDE_TOWER, in_side_tower

PACKAGE = ROOT / "fusebuild"

LAYERS = (
    "errors", "system", "ir", "artifact", "ops", "recipe", "runtime", "target", "build", "kernels", "passes",
    "segmentation", "planning", "pipeline", "freshness", "oracle", "definition", "api", "bench", "report", "tuning",
    "cli", "__main__",
)  # fmt: skip
"""What lies in ``fusebuild/``, each a layer: it may import those before it, and its own."""

FAMILIES = (
    "common", "alias", "library", "pointwise", "scatter", "transpose", "reduction", "outer_persistent", "persistent",
    "order",
    "scan", "inner_outer", "families", "render",
)  # fmt: skip
"""The same for what lies in ``fusebuild/kernels/``."""

ABOUT_THE_WHOLE = {".", "repository", "end_to_end", "gpu", "device", "fuzzing"}
"""Folders of tests that are about no package: of what lies in ``fusebuild/`` itself, of the repository's own files, of
everything together, of what needs a GPU, of the device header, and of the fuzzers."""

HEAVY = {"torch", "tvm_ffi", "yaml", "jinja2", "networkx"}


def named(name: str) -> list[Path]:
    """The files of a module or a package, named as below ``fusebuild``."""
    path = PACKAGE.joinpath(*name.split("."))
    return sorted(path.rglob("*.py")) if path.is_dir() else [path.with_suffix(".py")]


def imports_of(path: Path, *, nested: bool) -> set[str]:
    """Names imported by the file, below ``fusebuild`` without the prefix; with ``nested`` those in functions too."""
    tree = ast.parse(path.read_text())
    found = set()
    for node in ast.walk(tree) if nested else _top_level(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            if node.module == "fusebuild":
                found |= {f"fusebuild.{alias.name}" for alias in node.names}
            else:
                found.add(node.module)
    return found


def _top_level(tree: ast.Module) -> list[ast.stmt]:
    """Statements that run at import time, those under ``if TYPE_CHECKING`` left out."""
    statements: list[ast.stmt] = []
    for node in tree.body:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        statements.append(node)
    return statements


def members(folder: Path) -> set[str]:
    """What lies in ``folder``: modules, and packages."""
    return {path.stem for path in folder.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}


def arrows(layer: str, folder: Path, prefix: str) -> set[str]:
    """The members of ``folder`` that ``layer``, one of them, imports; ``prefix`` is what ``folder`` is imported as."""
    files = sorted((folder / layer).rglob("*.py")) or [folder / f"{layer}.py"]
    names = {name for file in files for name in imports_of(file, nested=True)}
    return {name.removeprefix(prefix).split(".")[0] for name in names if name.startswith(prefix)} & members(folder)


@pytest.mark.parametrize(
    ("folder", "prefix", "layers"),
    [(PACKAGE, "fusebuild.", LAYERS), (PACKAGE / "kernels", "fusebuild.kernels.", FAMILIES)],
)
def test_imports_run_one_way(folder: Path, prefix: str, layers: tuple[str, ...]) -> None:
    assert members(folder) - {"__init__"} == {*layers}
    for own, layer in enumerate(layers):
        assert arrows(layer, folder, prefix) <= {*layers[: own + 1]}, f"{layer} imports what is above it"


@pytest.mark.parametrize("module", SIDE_TOWER)
def test_running_needs_no_compiler_side_module(module: str) -> None:
    for file in named(module):
        names = imports_of(file, nested=False)
        assert not {name.split(".")[0] for name in names} & HEAVY
        own = {name.removeprefix("fusebuild.") for name in names if name.startswith("fusebuild.")}
        assert [name for name in own if not in_side_tower(name)] == []


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def cpu_seconds(code: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run(code)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def cheapest(code: str) -> float:
    """CPU seconds of the cheapest of six processes: the others shared a core, or its caches."""
    return min(cpu_seconds(code) for _ in range(6))


def test_importing_the_package_is_light() -> None:
    assert cheapest("import fusebuild") - cheapest("pass") <= 0.050


COMMANDS = {
    "compile": ["compile", "recipes/silu_mul.yaml", "--arch", "sm_90", "--dry-run"],
    "check": ["check", "recipes/silu_mul.yaml"],
    "inspect": ["inspect", "recipes/adaln_backward.yaml"],
}


@pytest.mark.parametrize("verb", sorted(COMMANDS))
def test_building_never_imports_torch(verb: str) -> None:
    code = f"""
import sys
from fusebuild.cli.main import cli
try:
    cli.main({COMMANDS[verb]!r}, standalone_mode=False)
except (SystemExit, Exception) as stop:
    assert "oolchain" in type(stop).__name__ or isinstance(stop, SystemExit), stop
print(sorted({{"torch", "tvm_ffi"}} & {{*sys.modules}}))
"""
    assert run(code).splitlines()[-1] == "[]"


def test_a_dry_run_and_a_plan_take_no_torch_even_when_it_is_broken(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise RuntimeError('torch was imported')\n")
    done = subprocess.run(
        [sys.executable, "-m", "fusebuild.cli", "inspect", "recipes/softmax.yaml"],
        env={"PYTHONPATH": str(tmp_path), "PATH": "/usr/bin:/bin"}, cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_no_module_reads_what_could_hold_code() -> None:
    forbidden = {"pickle", "marshal", "shelve", "dill", "jinja2.bccache"}
    found = {path.name for path in PACKAGE.rglob("*.py") if imports_of(path, nested=True) & forbidden}
    assert found == set()


def test_text_is_run_in_two_places() -> None:
    """In a script that is imported, and in a plan's call, which is written of numbers."""
    running = {"eval", "exec", "compile", "__import__"}
    found = {
        (path.name, node.func.id)
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in running
    }
    assert found == {(name, ran) for name in ("script_process.py", "written.py") for ran in ("compile", "exec")}


def test_planning_keeps_no_bytecode_for_the_next_run(tmp_path: Path) -> None:
    """Who can change a file that holds bytecode changes kernels, and may run anything: there is none to change."""
    done = subprocess.run(
        [sys.executable, "-m", "fusebuild.cli", "inspect", "recipes/softmax.yaml"],
        env={"FUSEBUILD_CACHE_DIR": str(tmp_path), "PATH": "/usr/bin:/bin"}, cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert list(tmp_path.rglob("*")) == []


def test_inspecting_the_largest_recipe_is_quick() -> None:
    command = "cli.main(['inspect', 'recipes/adaln_backward.yaml'], standalone_mode=False)"
    code = f"from fusebuild.cli.main import cli; {command}"
    own = cheapest("from fusebuild.cli.main import cli")  # 0.15 s where a second is enough; a slower machine needs more
    assert cheapest(code) < max(1.0, 7 * own)  # a core that two processes share counts more for each


def test_tests_lie_in_the_folders_of_their_packages() -> None:
    folders = {path.parent.relative_to(TESTS).as_posix() for path in TESTS.rglob("test_*.py")}
    assert {folder for folder in folders - ABOUT_THE_WHOLE if not (PACKAGE / folder / "__init__.py").is_file()} == set()


def test_names_of_files_of_tests_are_unique() -> None:
    """``pytest -k`` and reports name a file by its last part."""
    names = [path.name for path in TESTS.rglob("test_*.py")]
    assert len(names) == len({*names})


def test_files_are_short() -> None:
    folders = (PACKAGE, TESTS, ROOT / "templates")
    endings = {".py", ".cc", ".h", ".cuh", ".cu", ".jinja"}
    files = [path for folder in folders for path in folder.rglob("*") if path.suffix in endings]
    long = {path.name: len(path.read_text().splitlines()) for path in files if "golden" not in path.parts}
    assert {name: lines for name, lines in long.items() if lines > 600} == {}


def test_functions_are_short() -> None:
    long = []
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and (node.end_lineno or 0) - node.lineno >= 60:
                long.append(f"{path.name}:{node.name}")
    assert long == []
