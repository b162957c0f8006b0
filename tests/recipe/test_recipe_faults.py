"""Recipes that are made to do harm: bombs, names and paths that mean something to a shell, to ninja, to a template or
to the file system, sizes beyond counting. Each is an error with a place, or means nothing but itself."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fusebuild.build.build_dir import BuildDir
from fusebuild.errors import RecipeError, UsageError
from fusebuild.recipe.files import MAX_BYTES
from fusebuild.recipe.recipe import MAX_ELEMENTS, load_recipe, parse_recipe
from fusebuild.recipe.text import MAX_NODES
from support.faults import fusebuild
from support.small_recipes import TINY

FUSION = "fusion: f\ninputs:\n  x: {type}\nbody: |\n  y = {body}\noutputs:\n  y: float\n"
ODD_NAMES = ["../up", "/tmp/f", "a/b", "..", "$(touch ran)", "`touch ran`", "a'b", 'a"b', "$HOME", "a:b", "a b", "-o",
             "{{ 7 * 7 }}", "{% raw %}", "a#b", "a;touch ran", "é", ""]  # fmt: skip
ODD_FILE = "r$(touch ran)`touch ran`'\"{{ 7*7 }}{% raw %}: $x #*\\\n*/ .yaml"


def problem_of(text: str) -> str:
    """The first line of what is said of ``text``."""
    with pytest.raises(RecipeError) as caught:
        parse_recipe(text, "r.yaml")
    return str(caught.value).splitlines()[0]


class TestBombs:
    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("[" * 100_000, "r.yaml:1:100000: error: the line has 100000 characters; 4096 are the limit"),
            ("[\n" * 100_000, "r.yaml:33:1: error: the YAML is nested more than 32 levels deep"),
            ("? " * 2_000, "r.yaml:1:65: error: the YAML is nested more than 32 levels deep"),
            ("- " * 2_000, "r.yaml:1:65: error: the YAML is nested more than 32 levels deep"),
            (FUSION.format(type="float[M]", body="abs(" * 800 + "x" + ")" * 800),
             "r.yaml:5:810: error: the body cannot be read: too many nested parentheses"),
            (FUSION.format(type="float[M]", body="-" * 4_000 + "x"),
             "r.yaml:5:3: error: the body is nested too deeply to be read"),
            (FUSION.format(type="float[M]", body="-" * 500 + "x"),
             "r.yaml:5:7: error: the expression is nested more than 100 deep"),
            (FUSION.format(type="float[M]", body="x" + " + x" * 900),
             "r.yaml:5:7: error: the expression is nested more than 100 deep"),
            (FUSION.format(type="float[M]", body="(\n" * 100_000),
             "r.yaml:7:1: error: not valid YAML: could not find expected ':'"),
            (FUSION.format(type="float[M]", body="(\n  " * 100_000),
             "r.yaml:205:3: error: the body cannot be read: too many nested parentheses"),
        ],
    )  # fmt: skip
    def test_of_depth(self, text: str, said: str) -> None:
        assert problem_of(text) == said

    def test_of_aliases(self) -> None:
        text = "a0: &a0 [x, x]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]\n" for i in range(1, 64))
        assert problem_of(text) == "r.yaml:1:5: error: anchor '&a0' is not accepted"

    def test_of_nodes(self) -> None:
        said = f"r.yaml:{MAX_NODES + 1}:3: error: the YAML has more than {MAX_NODES} values"
        assert problem_of("- a\n" * (MAX_NODES + 9)) == said

    def test_of_bytes(self, tmp_path: Path) -> None:
        path = tmp_path / "large.yaml"
        with path.open("w") as file:
            file.write('fusion: "')
            file.truncate(1 << 30)
        done = fusebuild("inspect", path)
        assert done.code == 2
        assert f":1:1: error: the recipe has more than {MAX_BYTES} bytes, which are the limit\n" in done.err

    def test_of_a_file_without_end(self) -> None:
        assert fusebuild("inspect", "/dev/zero").code != 0


class TestSizes:
    def test_beyond_any_memory(self) -> None:
        said = problem_of(FUSION.format(type="float[9223372036854775807, 2]", body="x + 1"))
        assert said == "r.yaml:3:12: error: the extent is 9223372036854775807, more than 1099511627776"

    @pytest.mark.parametrize("shape", ["[4294967296, 4294967296]", "[1099511627776, 1099511627776, 1099511627776]"])
    def test_that_nobody_can_count(self, shape: str) -> None:
        said = problem_of(FUSION.format(type=f"float{shape}", body="x + 1"))
        assert said.startswith("r.yaml:3:3: error: 'x' has ")
        assert said.endswith(f" elements; {MAX_ELEMENTS} are the limit")

    def test_that_overflow_only_after_broadcasting(self) -> None:
        text = FUSION.format(type="float[2147483648, 1]", body="x + full([1, 2147483648], 1.0)")
        assert problem_of(text).endswith(f"has {2**62} elements; {MAX_ELEMENTS} are the limit")

    def test_below_zero(self) -> None:
        said = problem_of(FUSION.format(type="float[M, -4]", body="x + 1"))
        assert said == "r.yaml:3:15: error: the extent is -4, less than 0"

    def test_of_zero_are_sizes(self) -> None:
        recipe = parse_recipe(FUSION.format(type="float[0, M]", body="x + 1"), "r.yaml")
        assert recipe.fusion.name == "f"


class TestNames:
    @pytest.mark.parametrize("name", [*ODD_NAMES, "a\\nb", "a\\0b"])
    def test_of_fusions_are_names(self, name: str) -> None:
        quoted = name.replace('"', '\\"')
        said = problem_of(FUSION.format(type="float[M]", body="x + 1").replace("fusion: f", f'fusion: "{quoted}"'))
        assert said.startswith("r.yaml:1:")

    @pytest.mark.parametrize("name", ODD_NAMES)
    def test_of_inputs_and_outputs_are_names(self, name: str) -> None:
        quoted = '"' + name.replace('"', '\\"') + '"'
        text = FUSION.format(type="float[M]", body="x + 1")
        assert problem_of(text.replace("  x:", f"  {quoted}:")).startswith("r.yaml:3:")
        assert problem_of(text.replace("  y:", f"  {quoted}:")).startswith("r.yaml:7:")


class TestPaths:
    @pytest.fixture(autouse=True)
    def folder(self, compilers: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        monkeypatch.chdir(tmp_path)
        return tmp_path

    def test_of_any_name_are_paths(self, folder: Path) -> None:
        """Of recipes, of what is built, of dumps."""
        (folder / ODD_FILE.rpartition("/")[0]).mkdir(parents=True)
        Path(ODD_FILE).write_text(TINY)
        out = ODD_FILE.replace("/", "_")
        done = fusebuild("compile", Path(ODD_FILE), "--arch", "host", "-o", out, "--dump", f"{out}/dump")
        assert (done.code, done.err) == (0, "")
        assert fusebuild("check", Path(ODD_FILE), "-o", out).code == 0
        assert fusebuild("verify", Path(out, "tiny.fuse"), "--target", "host").code == 0
        assert list(folder.rglob("ran")) == []
        assert not Path("/tmp/ran").exists()

    def test_with_a_nul_are_none(self) -> None:
        with pytest.raises(UsageError, match=r"cannot read 'recipe\\x00.yaml': embedded null byte"):
            load_recipe(Path("recipe\0.yaml"))
        with pytest.raises(UsageError, match=r"'out\\x00' names no folder: there is a NUL in it"):
            BuildDir(root=Path("out\0"))

    def test_links_are_followed_to_recipes_and_replaced_by_artifacts(self, folder: Path) -> None:
        (folder / "real.yaml").write_text(TINY)
        (folder / "link.yaml").symlink_to("real.yaml")
        (folder / "victim").write_text("precious")
        (folder / "out").mkdir()
        (folder / "out" / "tiny.fuse").symlink_to(folder / "victim")
        done = fusebuild("compile", "link.yaml", "--arch", "host", "-o", "out")
        assert (done.code, done.err) == (0, "")
        assert (folder / "victim").read_text() == "precious"
        assert not (folder / "out" / "tiny.fuse").is_symlink()

    def test_links_that_go_in_circles_are_errors(self, folder: Path) -> None:
        (folder / "a.yaml").symlink_to("b.yaml")
        (folder / "b.yaml").symlink_to("a.yaml")
        done = fusebuild("compile", "a.yaml", "--arch", "host")
        assert done.code == 2
        assert "Path 'a.yaml' does not exist" in done.err
        with pytest.raises(UsageError, match=re.escape("cannot read a.yaml: Too many levels of symbolic links")):
            load_recipe(Path("a.yaml"))

    def test_to_folders_are_none(self, folder: Path) -> None:
        (folder / "folder.yaml").mkdir()
        (folder / "recipes").mkdir()
        (folder / "recipes" / "folder.yaml").mkdir()
        for path in ("folder.yaml", "recipes"):
            assert fusebuild("compile", path, "--arch", "host").code == 2
