"""The walk as a whole: what is compiled and written when, what a dump holds, and that bytes do not depend on where."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from fusebuild.artifact.file import open_artifact
from fusebuild.artifact.plan import encode
from fusebuild.errors import CompileError, RecipeError, UsageError
from fusebuild.passes import PASSES
from fusebuild.pipeline import CompiledRecipes, compile_recipes, kernel_requests, plan_recipe, read_recipes
from fusebuild.target.table import TARGETS
from support.own_cache import copy_objects, own_cache
from support.small_recipes import PAIR, SUM_THEN_ADD, TINY, recipe_of, write_tiny_and_pair

SM_90, HOST = TARGETS["sm_90"], TARGETS["host"]


def snapshot(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Time of writing and bytes of every file that ninja does not keep for itself."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and not path.name.startswith(".ninja")]
    return {str(path.relative_to(folder)): (path.stat().st_mtime_ns, path.read_bytes()) for path in files}


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.fixture(scope="module")
def built(compilers: None, cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with ``recipes/``, the ``build/`` made from them for the host and sm_90, and a cache of its own."""
    folder = tmp_path_factory.mktemp("pipeline")
    write_tiny_and_pair(folder)
    own_cache(folder, cache)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FUSEBUILD_CACHE_DIR", str(folder / "cache"))
        report = compile_in(folder)
    assert [artifact.written for artifact in report.artifacts] == [True, True]
    return folder


@pytest.fixture
def work(built: Path, empty_store: Path, tmp_path: Path) -> Path:
    """A copy to change. What it holds is compiled already, and nothing else."""
    copy_objects(built / "cache", empty_store)
    return Path(shutil.copytree(built, tmp_path / "work", ignore=shutil.ignore_patterns("cache")))


def compile_in(folder: Path, *, dry_run: bool = False) -> CompiledRecipes:
    return compile_recipes([folder / "recipes"], [SM_90, HOST], folder / "build", jobs=2, dry_run=dry_run)


class TestCompile:
    def test_one_artifact_a_recipe_with_code_for_every_target(self, built: Path) -> None:
        artifact = open_artifact(built / "build" / "pair.fuse")
        assert artifact.targets == ("sm_90", "host")
        assert artifact.member("recipe.yaml").decode() == PAIR
        assert sorted(path.name for path in (built / "build").glob("*.fuse")) == ["pair.fuse", "tiny.fuse"]

    def test_doing_it_again_compiles_and_writes_nothing(self, work: Path) -> None:
        compile_in(work)  # compile_commands.json names the folder, which has changed
        before = snapshot(work)
        report = compile_in(work)
        assert (report.build.compiled, report.build.total) == (0, 6)
        assert [artifact.written for artifact in report.artifacts] == [False, False]
        assert snapshot(work) == before

    def test_changed_words_repack_and_compile_nothing(self, work: Path) -> None:
        write(work, "recipes/tiny.yaml", TINY.replace("Nothing much.", "Something else."))
        report = compile_in(work)
        assert report.build.compiled == 0
        assert {a.planned.plan.fusion: a.written for a in report.artifacts} == {"pair": False, "tiny": True}
        assert b"Something else." in open_artifact(work / "build" / "tiny.fuse").member("recipe.yaml")

    def test_one_changed_op_compiles_its_kernels_alone(self, work: Path) -> None:
        write(work, "recipes/pair.yaml", PAIR.replace("segment_set(total) * 2.0", "segment_set(total) * 3.0"))
        report = compile_in(work)
        assert report.build.compiled == 2  # the second segment's kernel, for each target
        assert {a.planned.plan.fusion: a.written for a in report.artifacts} == {"pair": True, "tiny": False}

    def test_a_dry_run_counts_and_writes_nothing(self, work: Path) -> None:
        write(work, "recipes/pair.yaml", PAIR.replace("* 2.0", "* 4.0"))
        before = snapshot(work)
        report = compile_in(work, dry_run=True)
        assert report.build.compiled == 2
        assert [artifact.written for artifact in report.artifacts] == [False, False]
        assert snapshot(work) == before

    def test_a_dry_run_from_nothing_makes_no_folder(self, compilers: None, empty_store: Path, tmp_path: Path) -> None:
        recipe = write(tmp_path, "tiny.yaml", TINY)
        report = compile_recipes([recipe], [SM_90], tmp_path / "build", dry_run=True)
        assert (report.build.compiled, report.build.total) == (1, 1)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["cache", "tiny.yaml"]

    def test_bytes_do_not_depend_on_the_folder(self, built: Path, empty_store: Path, tmp_path: Path) -> None:
        other = tmp_path / "quite another folder"
        other.mkdir()
        write_tiny_and_pair(other)
        report = compile_in(other)
        assert report.build.compiled == 6
        for name in ("tiny.fuse", "pair.fuse"):
            assert (other / "build" / name).read_bytes() == (built / "build" / name).read_bytes()


class TestDump:
    def test_holds_every_intermediate(self, compilers: None, tmp_path: Path) -> None:
        recipe = write(tmp_path, "tiny.yaml", TINY)
        compile_recipes([recipe], [SM_90], tmp_path / "build", dump=tmp_path / "dump", dry_run=True)
        folder = tmp_path / "dump" / "tiny"
        planned = plan_recipe(recipe_of(TINY, "tiny.yaml"), [SM_90])
        (kernel,) = planned.kernels["sm_90"].values()
        files = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
        passes = {f"{number:02}-{each.__name__}.txt" for number, each in enumerate(PASSES, start=1)}
        assert files == {"00-recipe.txt", "plan.json", f"kernels/{kernel.name}.cu", *passes}
        assert (folder / "plan.json").read_bytes() == encode(planned.plan)
        assert (folder / f"kernels/{kernel.name}.cu").read_text() == kernel.text
        assert (folder / "00-recipe.txt").read_text().startswith("fusion tiny\n  input  %0 x: float[3, 5]\n")


class TestReading:
    def test_errors_of_all_recipes_come_at_once(self, tmp_path: Path) -> None:
        first = write(tmp_path, "a.yaml", TINY.replace("x * 2.0", "z * 2.0"))
        second = write(tmp_path, "b.yaml", PAIR.replace("sum(x", "summ(x"))
        write(tmp_path, "c.yaml", SUM_THEN_ADD)
        with pytest.raises(RecipeError) as caught:
            read_recipes([tmp_path])
        places = [diagnostic.location.path for diagnostic in caught.value.diagnostics]
        assert sorted({*places}) == [str(first), str(second)]

    def test_two_recipes_of_one_name(self, tmp_path: Path) -> None:
        first, second = write(tmp_path, "a.yaml", TINY), write(tmp_path, "b.yaml", TINY)
        with pytest.raises(UsageError) as caught:
            read_recipes([tmp_path])
        assert str(caught.value) == f"{first} and {second} both define fusion 'tiny'"

    def test_a_folder_without_recipes(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError) as caught:
            read_recipes([tmp_path])
        assert str(caught.value) == f"{tmp_path} holds no *.yaml recipe"

    def test_a_recipe_named_twice_is_read_once(self, tmp_path: Path) -> None:
        recipe = write(tmp_path, "a.yaml", TINY)
        assert len(read_recipes([tmp_path, recipe])) == 1


def test_equal_kernels_of_many_recipes_are_requested_once() -> None:
    twin = TINY.replace("fusion: tiny", "fusion: twin")
    planned = [plan_recipe(recipe_of(text), [SM_90, HOST]) for text in (TINY, twin, PAIR)]
    requests = kernel_requests(planned)
    keys = [(target.name, kernel.name) for target, kernel in requests]
    assert keys == sorted({*keys})
    assert len(keys) == 6


def test_a_compiler_that_fails_is_an_error_and_leaves_no_artifact(
    compilers: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fusebuild.kernels import render

    monkeypatch.setattr(render, "strip_comments", lambda text: text.replace("fb::store", "fb::no_such_function"))
    layout = TINY.replace("float[3, 5]", "float[4, 4]")
    recipe = write(tmp_path, "tiny.yaml", layout)
    with pytest.raises(CompileError, match="no_such_function"):
        compile_recipes([recipe], [HOST], tmp_path / "build")
    assert not list((tmp_path / "build").glob("*.fuse"))
