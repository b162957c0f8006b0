"""Libraries that recipes include: what they mean, what is said where they mean nothing, and how artifacts hold them."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from fusebuild.artifact.file import INCLUDED, decode_artifact, open_artifact
from fusebuild.artifact.stored_zip import encode
from fusebuild.errors import ArtifactError, RecipeError, UsageError
from fusebuild.freshness.check import check_recipes
from fusebuild.pipeline import compile_recipes
from fusebuild.planning.assembly import fusion_digest
from fusebuild.recipe.files import recipe_files
from fusebuild.recipe.inside import recipe_in
from fusebuild.recipe.recipe import load_recipe, parse_recipe
from fusebuild.target.table import TARGETS

HOST = [TARGETS["host"]]
LIBRARY = """\
doc: what our recipes share
lambdas:
  add_up: {left: {a: float}, right: {b: float}, body: "r = a + b", results: [r]}
  multiply: {left: {a: float}, right: {b: float}, body: "r = a * b", results: [r]}
composites:
  total:
    inputs: [x]
    body: |
      y = reduce(x, init=0.0, combine=add_up, dims=[1])
    results: [y]
  squared:
    inputs: [x]
    body: |
      y = x * x
    results: [y]
"""
RECIPE = """\
fusion: f
include: [common/sums.yaml]
inputs: {x: "float[M, N]"}
body: |
  y = total(squared(x))
outputs: {y: }
cases: [{M: 3, N: 5}]
"""


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    """A recipe beside the library that it includes."""
    (tmp_path / "common").mkdir()
    (tmp_path / "common" / "sums.yaml").write_text(LIBRARY)
    (tmp_path / "f.yaml").write_text(RECIPE)
    return tmp_path / "f.yaml"


def message(recipe: Path) -> str:
    with pytest.raises(RecipeError) as caught:
        load_recipe(recipe, root=recipe.parent)
    return str(caught.value)


def test_what_is_included_means_what_it_would_in_the_recipe(recipe: Path) -> None:
    own = RECIPE.replace("include: [common/sums.yaml]\n", LIBRARY.partition("\n")[2])
    own = own.replace("  multiply:", "  # multiply:")
    included, written = load_recipe(recipe).fusion, parse_recipe(own, "f.yaml").fusion
    assert fusion_digest(included) == fusion_digest(written)
    assert [*included.lambdas] == ["add_up"]
    assert [each.name for each in included.composites] == ["squared", "total"]


def test_ops_stand_where_the_library_has_them(recipe: Path) -> None:
    fusion = load_recipe(recipe, root=recipe.parent).fusion
    assert [str(expr.location) for expr in fusion.exprs] == ["common/sums.yaml:14:11", "common/sums.yaml:9:11"]
    assert [str(each.location) for each in fusion.composites] == ["f.yaml:5:13", "f.yaml:5:7"]


def test_a_recipe_in_no_file_includes_nothing() -> None:
    with pytest.raises(RecipeError, match=r"^f.yaml:2:11: error: cannot read 'common/sums.yaml': the recipe is in no"):
        parse_recipe(RECIPE, "f.yaml")


def written(*parts: tuple[str, str]) -> Callable[[Path], None]:
    """Changes a recipe, and the library where a part begins with ``library``."""

    def change(recipe: Path) -> None:
        for old, new in parts:
            library = recipe.parent / "common" / "sums.yaml"
            file = library if old in LIBRARY else recipe
            assert old in file.read_text()
            file.write_text(file.read_text().replace(old, new))

    return change


def linked_out(recipe: Path) -> None:
    library = recipe.parent / "common" / "sums.yaml"
    outside = recipe.parent.parent / f"{recipe.parent.name}_outside.yaml"
    outside.write_text(library.read_text())
    library.unlink()
    library.symlink_to(outside)


BAD: dict[str, tuple[Callable[[Path], object], str]] = {
    "missing": (lambda recipe: (recipe.parent / "common" / "sums.yaml").unlink(),
        "f.yaml:2:11: error: cannot read 'common/sums.yaml': No such file or directory\n"
        "  include: [common/sums.yaml]\n"
        "            ^~~~~~~~~~~~~~~\n"
        "  hint: a path leads from the recipe's folder to a file in it"),
    "folder": (written(("common/sums.yaml", "common.yaml"), ("doc:", "doc:")),
        "f.yaml:2:11: error: cannot read 'common.yaml': No such file or directory\n"
        "  include: [common.yaml]\n"
        "            ^~~~~~~~~~~\n"
        "  hint: a path leads from the recipe's folder to a file in it"),
    "absolute": (written(("common/sums.yaml", "/common/sums.yaml")),
        "f.yaml:2:11: error: '/common/sums.yaml' is an absolute path\n"
        "  include: [/common/sums.yaml]\n"
        "            ^~~~~~~~~~~~~~~~\n"
        "  hint: a path leads from the recipe's folder to a file in it"),
    "out of the folder": (written(("common/sums.yaml", "../sums.yaml")),
        "f.yaml:2:11: error: '../sums.yaml' leads out of the recipe's folder\n"
        "  include: [../sums.yaml]\n"
        "            ^~~~~~~~~~~~\n"
        "  hint: put what recipes share into a folder beside them"),
    "out of the folder by a link": (linked_out,
        "f.yaml:2:11: error: cannot read 'common/sums.yaml': it leads out of the recipe's folder\n"
        "  include: [common/sums.yaml]\n"
        "            ^~~~~~~~~~~~~~~\n"
        "  hint: a path leads from the recipe's folder to a file in it"),
    "no yaml": (written(("common/sums.yaml", "common/sums.txt")),
        "f.yaml:2:11: error: 'common/sums.txt' is no *.yaml file\n"
        "  include: [common/sums.txt]\n"
        "            ^~~~~~~~~~~~~~"),
    "no path": (written(("common/sums.yaml", "'common\\sums.yaml'")),
        "f.yaml:2:11: error: 'common\\sums.yaml' is no path of a library\n"
        "  include: ['common\\sums.yaml']\n"
        "            ^~~~~~~~~~~~~~~~~~\n"
        "  hint: for example common/activations.yaml: letters, digits, '_', '-', '.'"),
    "no list": (written(("[common/sums.yaml]", "common/sums.yaml")),
        "f.yaml:2:10: error: expected a list of files, such as [activations.yaml], not 'common/sums.yaml'\n"
        "  include: common/sums.yaml\n"
        "           ^~~~~~~~~~~~~~~~"),
    "twice": (written(("[common/sums.yaml]", "[common/sums.yaml, common/sums.yaml]")),
        "f.yaml:2:29: error: 'common/sums.yaml' is included twice\n"
        "  include: [common/sums.yaml, common/sums.yaml]\n"
        "                              ^~~~~~~~~~~~~~~~"),
    "itself": (written(("common/sums.yaml", "f.yaml")),
        "f.yaml:1:1: error: 'f.yaml' is a recipe, not a library\n"
        "  fusion: f\n"
        "  ^~~~~~\n"
        "  hint: a library has composites and lambdas alone"),
    "what includes": (written(("doc: what", "include: [f.yaml]\ndoc: what")),
        "common/sums.yaml:1:1: error: a library includes nothing\n"
        "  include: [f.yaml]\n"
        "  ^~~~~~~\n"
        "  hint: include the file in the recipe"),
    "unused": (written(("total(squared(x))", "x * x")),
        "f.yaml:2:11: error: nothing of 'common/sums.yaml' is used\n"
        "  include: [common/sums.yaml]\n"
        "            ^~~~~~~~~~~~~~~~\n"
        "  hint: remove it"),
    "clash": (written(("body: |\n  y =", 
                       "composites:\n  total: {inputs: [x], body: 'y = x', results: [y]}\nbody: |\n  y =")),
        "f.yaml:5:3: error: 'total' is already a composite\n"
        "    total: {inputs: [x], body: 'y = x', results: [y]}\n"
        "    ^~~~~\n"
        "  hint: common/sums.yaml:6:3 has it first"),
    "unknown key": (written(("doc: what", "cases: []\ndoc: what")),
        "common/sums.yaml:1:1: error: unknown key 'cases'\n"
        "  cases: []\n"
        "  ^~~~~\n"
        "  hint: keys here are doc, lambdas, composites"),
    "a wrong op inside": (written(("y = x * x", "y = x * rsqr(x)")),
        "common/sums.yaml:14:15: error: unknown op 'rsqr'\n"
        "        y = x * rsqr(x)\n"
        "                ^~~~\n"
        "  hint: did you mean 'rsqrt'?"),
    "a wrong type inside": (written(("dims=[1]", "dims=[2]")),
        "common/sums.yaml:9:11: error: reduce: dim 2 is out of range for a tensor of rank 2, in the call of "
        "total on line 5 of f.yaml\n"
        "        y = reduce(x, init=0.0, combine=add_up, dims=[2])\n"
        "            ^~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~\n"
        "  hint: valid dims are -2 to 1"),
    "no yaml inside": (written(("doc: what", "doc: [what")),
        "common/sums.yaml:2:8: error: not valid YAML: expected ',' or ']', but got ':'\n"
        "  lambdas:\n"
        "         ^"),
    "empty": (lambda recipe: (recipe.parent / "common" / "sums.yaml").write_text("# none yet\n\n"),
        "common/sums.yaml:1:1: error: the library is empty\n"
        "  hint: a library has composites or lambdas"),
    "no utf-8": (lambda recipe: (recipe.parent / "common" / "sums.yaml").write_bytes(b"doc: \xff"),
        "common/sums.yaml:1:6: error: the library is not UTF-8: byte 5 is 0xff"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_included_is_said_where_it_stands(name: str, recipe: Path) -> None:
    change, said = BAD[name]
    change(recipe)
    assert message(recipe).replace("~", "") == said.replace("~", "")


def test_a_library_is_no_recipe(recipe: Path) -> None:
    beside = recipe.parent / "beside.yaml"
    beside.write_text(LIBRARY)
    assert recipe_files([recipe.parent]) == (recipe,)
    with pytest.raises(RecipeError) as caught:
        load_recipe(beside, root=recipe.parent)
    assert str(caught.value).splitlines()[0] == "beside.yaml:1:1: error: this is a library of composites, not a recipe"
    recipe.unlink()
    with pytest.raises(UsageError, match=r"holds no \*.yaml recipe$"):
        recipe_files([recipe.parent])


def test_a_recipe_without_a_name_is_no_library(recipe: Path) -> None:
    recipe.write_text(RECIPE.replace("fusion: f\n", "composites: {}\n"))
    assert recipe_files([recipe.parent]) == (recipe,)


def test_libraries_are_told_of_where_more_is_told(recipe: Path, caplog: pytest.LogCaptureFixture) -> None:
    beside = recipe.parent / "beside.yaml"
    beside.write_text(LIBRARY)
    with caplog.at_level("INFO", logger="fusebuild"):
        recipe_files([recipe.parent])
    assert caplog.messages == [f"{beside}: a library for recipes that include it, and no recipe"]


class TestArtifacts:
    def test_an_artifact_holds_what_its_recipe_includes(self, recipe: Path) -> None:
        artifact = self._compiled(recipe)
        (recipe.parent / "common" / "sums.yaml").unlink()
        assert open_artifact(artifact).included == {"common/sums.yaml": LIBRARY}
        found = recipe_in(open_artifact(artifact))
        assert found.included == {"common/sums.yaml": LIBRARY}
        assert found.fusion.exprs[0].location.path == f"{artifact}/common/sums.yaml"

    def test_without_include_there_is_no_such_member(self, recipe: Path) -> None:
        recipe.write_text(RECIPE.replace("include: [common/sums.yaml]\n", "").replace("total(squared(x))", "x * x"))
        assert INCLUDED not in open_artifact(self._compiled(recipe)).members

    def test_a_changed_library_makes_the_artifact_stale(self, recipe: Path) -> None:
        self._compiled(recipe)
        out, library = recipe.parent / "build", recipe.parent / "common" / "sums.yaml"
        (found,) = check_recipes([recipe], out)
        assert found.fresh
        library.write_text(LIBRARY + "# a comment\n")
        (found,) = check_recipes([recipe], out)
        assert found.why == ("included common/sums.yaml changed",)
        self._compiled(recipe)
        assert check_recipes([recipe], out)[0].fresh
        library.write_text(LIBRARY)
        (out / ".fusebuild.json").unlink(missing_ok=True)
        assert "included common/sums.yaml changed" in check_recipes([recipe], out)[0].why

    def test_a_library_that_is_gone_is_an_error(self, recipe: Path) -> None:
        self._compiled(recipe)
        (recipe.parent / "common" / "sums.yaml").unlink()
        with pytest.raises(RecipeError, match=r"cannot read 'common/sums.yaml'"):
            check_recipes([recipe], recipe.parent / "build")

    @pytest.mark.parametrize(
        ("included", "said"),
        [
            (None, "recipe.yaml: it is no recipe\n.*cannot read 'common/sums.yaml': it is not there"),
            (
                {"common/sums.yaml": LIBRARY, "other.yaml": ""},
                "included.json: the recipe does not include 'other.yaml'$",
            ),
            ({"common/sums.yaml": "doc: none"}, "recipe.yaml: it is no recipe\n"),
        ],
    )
    def test_an_artifact_that_lacks_them_is_refused(
        self, included: dict[str, str] | None, said: str, recipe: Path
    ) -> None:
        artifact = open_artifact(self._compiled(recipe))
        members = {name: data for name, data in artifact.members.items() if name != INCLUDED}
        if included is not None:
            members[INCLUDED] = msgspec.json.encode(included)
        manifest = msgspec.json.decode(members.pop("manifest.json"))
        from hashlib import sha256

        manifest["members"] = {
            name: manifest["members"].get(name, {}) | {"sha256": sha256(data).hexdigest(), "size": len(data)}
            for name, data in members.items()
        }
        members["manifest.json"] = _spelled(artifact.members["manifest.json"], manifest)
        with pytest.raises(ArtifactError, match=said):
            recipe_in(decode_artifact(encode(members), artifact.path))

    @staticmethod
    def _compiled(recipe: Path) -> Path:
        (built,) = compile_recipes([recipe], HOST, recipe.parent / "build").artifacts
        return built.path


def _spelled(old: bytes, manifest: dict[str, object]) -> bytes:
    """``manifest`` as artifacts spell theirs."""
    from fusebuild.artifact.file import Manifest, _encode_manifest

    return _encode_manifest(msgspec.convert(manifest, Manifest))


def test_broken_libraries_give_located_errors_and_never_anything_else(recipe: Path) -> None:
    """Three hundred libraries with characters and lines lost, doubled and put elsewhere."""
    drawn = random.Random(20)
    library = recipe.parent / "common" / "sums.yaml"
    refused, places = 0, []
    for _ in range(300):
        library.write_bytes(_broken(drawn, LIBRARY.encode()))
        if drawn.random() < 0.2:
            recipe.write_bytes(_broken(drawn, RECIPE.encode()))
        try:
            load_recipe(recipe, root=recipe.parent)
        except RecipeError as error:
            refused += 1
            places += [each.location for each in error.diagnostics]
        recipe.write_text(RECIPE)
    assert 100 < refused < 300
    assert {place.path for place in places} == {"f.yaml", "common/sums.yaml"}
    assert all(place.line > 0 and place.column > 0 for place in places)


def _broken(drawn: random.Random, text: bytes) -> bytes:
    for _ in range(drawn.choice([1, 1, 2, 5])):
        lines = text.split(b"\n")
        place, other = drawn.randrange(len(lines)), drawn.randrange(len(lines))
        match drawn.randrange(5):
            case 0:
                lines.pop(place)
            case 1:
                lines.insert(other, lines[place])
            case 2:
                at = drawn.randrange(len(text))
                lines = [
                    text[:at] + drawn.choice([b"", b"[", b":", b"\x00", b"\xff", b"  ", b"&a ", b"#"]) + text[at + 1 :]
                ]
            case 3:
                lines[place] = lines[place].replace(drawn.choice([b"a", b"y", b"x", b"1"]), b"zz")
            case 4:
                lines[place], lines[other] = lines[other], lines[place]
        text = b"\n".join(lines)
        if not text:
            break
    return text


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_library_that_may_not_be_read(recipe: Path) -> None:
    (recipe.parent / "common" / "sums.yaml").chmod(0)
    assert "cannot read 'common/sums.yaml': Permission denied" in message(recipe)
