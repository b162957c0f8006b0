"""The published JSON schemas: editors are told what the parser says, and every report is what its schema says."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from jsonschema import Draft202012Validator

from fusebuild.cli.main import cli
from fusebuild.cli.schema import reporting, schema_of
from fusebuild.errors import RecipeError
from fusebuild.recipe.include import among
from fusebuild.recipe.recipe import Recipe, parse_recipe
from fusebuild.recipe.sections import SECTIONS
from support.faults import Done, fusebuild
from support.places import FUSIONS, RECIPES, ROOT
from support.seed_003 import SEED_003

GOOD = [*RECIPES, *FUSIONS]

EVERYTHING = {
    "fusion": "f",
    "doc": "All sections.",
    "include": ["common/more.yaml"],
    "extents": {"N": {"multiple_of": 4, "min": 4, "max": 64, "values": [8]}},
    "relations": ["N <= 4*M", "M >= 1"],
    "inputs": {
        "x": "float[M, N]",
        "w": {"type": "float[N]", "contiguity": [True], "stride_order": [0]},
        "i": {"dtype": "int64[M]", "range": [0, "N"]},
        "s": {"type": "float[]", "cpu": True},
    },
    "scalars": {"eps": "double", "two": {"dtype": "double", "value": 2.0}},
    "lambdas": {
        "total": {
            "left": {"a": "float"}, "right": {"b": "float"}, "body": "r = a + b", "results": ["r"],
            "ordered": False,
        }
    },
    "composites": {"twice": {"inputs": ["v"], "body": "r = v * 2.0\n", "results": ["r"]}},
    "body": "m = reduce(x, init=0.0, combine=total, dims=[1], keepdim=True)\ny = twice(x) + w * eps - m * s * two\n"
            "j = more(i)\n",
    "outputs": {"y": "float", "j": None},
    "cases": [{"M": 4, "N": 8}],
    "bench": {"reference": "x", "cases": [{"M": 4, "N": 8}]},
    "expect": {"segments": 3, "bytes": "4*M*N + 8"},
    "allow_spills": True,
}  # fmt: skip
"""A recipe with every section and key."""

INCLUDED = {"common/more.yaml": "composites:\n  more: {inputs: [v], body: 'r = v + 1', results: [r]}\n"}


def validator() -> Draft202012Validator:
    return Draft202012Validator(schema_of("recipe"))


class BlockDumper(yaml.SafeDumper):
    """Writes what has several lines as a literal block, which bodies have to be."""


def _text(dumper: BlockDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


BlockDumper.add_representer(str, _text)


def parsed(recipe: dict[str, Any]) -> Recipe:
    return parse_recipe(yaml.dump(recipe, Dumper=BlockDumper, sort_keys=False), "f.yaml", among(INCLUDED))


def changed(path: str, value: object) -> dict[str, Any]:
    """``EVERYTHING`` with ``value`` at ``path``, a dotted one."""
    *folders, last = path.split(".")
    whole = copy.deepcopy(EVERYTHING)
    place: Any = whole
    for folder in folders:
        place = place[int(folder) if folder.isdecimal() else folder]
    place[last] = value
    return whole


class TestRecipes:
    def test_the_schema_is_one(self) -> None:
        Draft202012Validator.check_schema(schema_of("recipe"))

    @pytest.mark.parametrize("path", GOOD, ids=lambda path: path.stem)
    def test_what_fusebuild_takes_is_valid(self, path: Path) -> None:
        validator().validate(yaml.safe_load(path.read_text()))

    def test_it_knows_every_section(self) -> None:
        assert {*schema_of("recipe")["properties"]} == {*SECTIONS}
        assert {*EVERYTHING} == {*SECTIONS}
        validator().validate(EVERYTHING)
        assert parsed(EVERYTHING).fusion.name == "f"

    @pytest.mark.parametrize(
        ("path", "value"),
        [
            ("fusion", "1st"),
            ("fusion", "a" * 65),
            ("doc", ["a"]),
            ("include", "common/more.yaml"),
            ("include", ["../more.yaml"]),
            ("include", ["/more.yaml"]),
            ("include", ["common/more.yml"]),
            ("extents.N", 8),
            ("extents.N.multiple_of", 0),
            ("extents.N.values", [-1]),
            ("extents.N.max", "many"),
            ("inputs.x", "float"),
            ("inputs.x", "single[M, N]"),
            ("inputs.x", {"contiguity": [True, True]}),
            ("inputs.w.dtype", "float[N]"),
            ("inputs.w.contiguity", ["yes"]),
            ("inputs.w.stride_order", [-1]),
            ("inputs.s.cpu", "on"),
            ("inputs.i.range", [0]),
            ("scalars.eps", "half"),
            ("scalars.two", {"value": 2.0}),
            ("lambdas.total.left", {"a": "half"}),
            ("lambdas.total", {"left": {"a": "float"}}),
            ("lambdas.total.ordered", 1),
            ("composites.twice.results", []),
            ("composites.twice", {"inputs": ["v"]}),
            ("body", ["y = x"]),
            ("outputs", {}),
            ("outputs.y", "single"),
            ("outputs.y", {"alias": ["x"]}),
            ("cases", {"M": 4, "N": 8}),
            ("cases.0.M", -1),
            ("cases.0.M", 2**40 + 1),
            ("cases.0.M", "4"),
            ("bench.reference", ["x"]),
            ("expect", 1),
            ("expect.segments", -1),
            ("expect.segments", "one"),
            ("expect.bytes", ["4*M"]),
            ("allow_spills", "true"),
        ],
    )
    def test_what_it_refuses_fusebuild_refuses_too(self, path: str, value: object) -> None:
        recipe = changed(path, value)
        assert not validator().is_valid(recipe)
        with pytest.raises(RecipeError) as caught:
            parsed(recipe)
        assert "literal block" not in str(caught.value)

    @pytest.mark.parametrize("section", ["fusion", "body", "outputs"])
    def test_what_is_missing(self, section: str) -> None:
        recipe = {key: value for key, value in EVERYTHING.items() if key != section}
        assert not validator().is_valid(recipe)
        with pytest.raises(RecipeError, match=f"the section '{section}' is missing"):
            parsed(recipe)

    @pytest.mark.parametrize(
        ("path", "definition"),
        [
            ("zzzz", ""),
            ("extents.N.zzzz", "facts"),
            ("inputs.w.zzzz", "input"),
            ("scalars.two.zzzz", "scalar"),
            ("lambdas.total.zzzz", "lambda"),
            ("composites.twice.zzzz", "composite"),
            ("outputs.y", "output"),
            ("bench.zzzz", "bench"),
        ],
    )
    def test_its_keys_are_those_of_the_parser(self, path: str, definition: str) -> None:
        recipe = changed(path, {"zzzz": 1} if path == "outputs.y" else 1)
        assert not validator().is_valid(recipe)
        with pytest.raises(RecipeError) as caught:
            parsed(recipe)
        keys = re.search(r"unknown key 'zzzz'\n.*\n.*\n  hint: keys here are (.*)", str(caught.value))
        assert keys is not None, str(caught.value)
        whole = schema_of("recipe")
        known = whole["properties"]["bench"] if definition == "bench" else whole["$defs"].get(definition, whole)
        assert keys[1].split(", ") == [*known["properties"]]


def strict(schema: Any) -> Any:
    """``schema`` without room for fields that it does not name."""
    if isinstance(schema, list):
        return [strict(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {key: strict(value) for key, value in schema.items()}
    if "properties" in closed and closed.get("type") == "object":
        closed["additionalProperties"] = False
    return closed


def report(done: Done, verb: str) -> Any:
    """What ``done`` printed, once it is known to be what the schema of ``verb`` says."""
    assert done.err == "" or done.code, done.err
    found = json.loads(done.out)
    jsonschema.validate(found, strict(schema_of(verb)), cls=Draft202012Validator)
    return found


RECIPES = {
    "cut": "fusion: cut\ninputs: {x: 'float[M, 8]'}\ncomposites:\n  twice:\n    inputs: [v]\n    body: |\n"
           "      r = v * 2.0\n    results: [r]\nbody: |\n  a = segment_set(twice(x))\n  y = sum(a, dims=[0])\n"
           "outputs:\n  y:\ncases:\n  - {M: 3}\n",
    "whole": "fusion: whole\ninputs: {x: 'float[M, 8]'}\nbody: |\n  y = exp(x)\noutputs:\n  y:\ncases:\n  - {M: 3}\n",
}  # fmt: skip


@pytest.fixture
def built(compilers: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where ``recipes`` are compiled into ``build``, for the CPU."""
    monkeypatch.chdir(tmp_path)
    Path("recipes").mkdir()
    for name, text in RECIPES.items():
        Path("recipes", f"{name}.yaml").write_text(text)
    done = fusebuild("compile", "recipes", "--arch", "host", "--json")
    assert [each["written"] for each in report(done, "compile")["artifacts"]] == [True, True]
    return tmp_path


class TestReports:
    @pytest.mark.parametrize("name", ["recipe", *reporting()])
    def test_every_name_prints_its_schema(self, name: str) -> None:
        done = fusebuild("schema", name)
        assert (done.code, done.err) == (0, "")
        Draft202012Validator.check_schema(json.loads(done.out))

    def test_every_verb_that_has_a_report_has_a_schema(self) -> None:
        with_json = {verb for verb, command in cli.commands.items() if "--json" in
                     {option for parameter in command.params for option in parameter.opts}}  # fmt: skip
        assert {*reporting()} == with_json

    def test_an_unknown_name(self) -> None:
        done = fusebuild("schema", "reciepe")
        assert done.code == 2
        assert "'reciepe' is not one of 'recipe', 'bench', " in done.err

    def test_compile_check_and_frozen(self, built: Path) -> None:
        assert [each["fresh"] for each in report(fusebuild("check", "recipes", "--json"), "check")] == [True, True]
        Path("recipes", "cut.yaml").write_text(RECIPES["cut"].replace("2.0", "3.0"))
        frozen = fusebuild("compile", "recipes", "--arch", "host", "--frozen", "--json")
        assert frozen.code == 3
        assert [each["fresh"] for each in report(frozen, "compile")] == [False, True]

    def test_inspect(self, built: Path) -> None:
        found = report(fusebuild("inspect", "build/cut.fuse", "--json"), "inspect")
        assert len(found["segments"]) == 2
        assert found["composites"][0]["name"] == "twice"
        several = report(fusebuild("inspect", "recipes/whole.yaml", "--arch", "sm_90,host", "--json"), "inspect")
        assert [each["target"] for each in several] == ["sm_90", "host"]

    @pytest.mark.parametrize("name", ["mlp", "composites"])
    def test_inspect_what_has_products_and_tasks(self, name: str) -> None:
        (path,) = [path for path in GOOD if path.stem == name]
        report(fusebuild("inspect", path, "--json"), "inspect")

    def test_diff(self, built: Path) -> None:
        found = report(fusebuild("diff", "build/whole.fuse", "build/cut.fuse", "--json"), "diff")
        assert found["targets"]["host"]["segments"] == [1, 2]

    def test_import(self, tmp_path: Path) -> None:
        found = report(fusebuild("import", SEED_003, "--json"), "import")
        assert [each["path"] for each in found] == [None] * len(found) != []
        written = report(fusebuild("import", SEED_003, "-o", tmp_path, "--json"), "import")
        assert all(Path(each["path"]).read_text() == each["recipe"] for each in written)

    def test_verify(self, built: Path) -> None:
        pytest.importorskip("torch")
        assert all(each["ok"] for each in report(fusebuild("verify", "build", "--target", "host", "--json"), "verify"))

    def test_tune(self, built: Path) -> None:
        pytest.importorskip("torch")
        arguments = ("recipes/cut.yaml", "--arch", "host", "--budget", "1", "--json")
        assert report(fusebuild("tune", *arguments), "tune")["target"] == "host"

    def test_ops(self) -> None:
        assert [each["name"] for each in report(fusebuild("ops", "add", "imag", "--json"), "ops")] == ["add", "imag"]

    def test_doctor(self, compilers: None) -> None:
        assert "nvcc" in {each["name"] for each in report(fusebuild("doctor", "--json"), "doctor")}

    def test_bench(self) -> None:
        measured = json.loads((ROOT / "recipes" / "bench.json").read_text())
        jsonschema.validate(measured, strict(schema_of("bench")), cls=Draft202012Validator)
        del measured["driver"]
        assert not Draft202012Validator(schema_of("bench")).is_valid(measured)
