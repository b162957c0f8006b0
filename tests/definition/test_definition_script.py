"""Scripts into recipes: what is recorded, what the recipe computes, and what is said when a script does not work."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from fusebuild.cli.main import cli
from fusebuild.definition.script import ImportedDefinition, import_script
from fusebuild.errors import FusebuildError, RecipeError, UsageError
from fusebuild.ir.fusion import Fusion
from fusebuild.oracle.reference import evaluate, random_inputs
from fusebuild.recipe.recipe import load_recipe, parse_recipe
from support.places import ROOT, TESTS
from support.recorded import recorded
from support.seed_003 import SEED_003, nvfuser_fusion_id1

SUBCLASSES = TESTS / "scripts" / "subclasses.py"
DOUBLED = """\
from nvfuser import FusionDefinition, DataType
with FusionDefinition() as fd:
    x = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.Float)
    fd.add_output(fd.ops.mul(x, 2.0))
"""


def imported(tmp_path: Path, text: str, **named: Any) -> tuple[ImportedDefinition, ...]:
    path = tmp_path / "script.py"
    path.write_text(text)
    return import_script(path, **named)


def fusion_of(definition: ImportedDefinition) -> Fusion:
    return parse_recipe(definition.text, f"{definition.name}.yaml").fusion


def message(tmp_path: Path, text: str, kind: type[FusebuildError] = RecipeError, **named: Any) -> str:
    """What importing the script says, with the script's path left out."""
    with pytest.raises(kind) as caught:
        imported(tmp_path, text, **named)
    return str(caught.value).replace(str(tmp_path), "")


class TestSeed003:
    """The script in NVIDIA/Fuser issue 2473, byte for byte."""

    def test_the_recipe(self) -> None:
        (found,) = import_script(SEED_003)
        fusion = fusion_of(found)
        assert (found.name, found.location.line) == ("seed_003", 143)
        assert [output.name for output in fusion.outputs] == ["t49", "t61", "t63", "t67", "t131"]
        assert [value.tensor.shape for value in fusion.tensor_inputs][-1] == (56, 1024, 1024)
        assert fusion.cases == ({},)

    def test_it_computes_what_the_definition_does(self, tmp_path: Path) -> None:
        torch = pytest.importorskip("torch")
        small = re.sub(r"\b1024\b(?!\.)", "8", re.sub(r"\b56\b", "3", SEED_003.read_text()))
        script, _ = small.split("inputs = [")
        assert "define_scalar(3, dtype=DataType.Int)" in script
        (found,) = imported(tmp_path, script)
        definition, fusion = recorded(lambda fd: nvfuser_fusion_id1(fd, 3, 8, 8)).fusion, fusion_of(found)
        arguments = random_inputs(definition, {}, seed=3)
        for got, want in zip(evaluate(fusion, arguments), evaluate(definition, arguments), strict=True):
            assert torch.equal(got, want)


class TestWhatIsRecorded:
    def test_sizes_that_a_call_gives_are_in_its_case(self, tmp_path: Path) -> None:
        script = """\
import torch
from nvfuser import FusionDefinition, DataType
with FusionDefinition() as fd:
    x = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.Float)
    n = fd.define_scalar(None, dtype=DataType.Int)
    y = fd.ops.uniform(0.0, 1.0, fd.ops.reshape(x, [n, -1]).shape())
    fd.add_output(fd.ops.pad(y, [n, 0]))
fd.execute([torch.randn(4, 6), SIZE])
"""
        (found,) = imported(tmp_path, script.replace("SIZE", "3"))
        fusion = fusion_of(found)
        sizes = {fusion.value(each.input).name: fusion.cases[0][str(each.extent)] for each in fusion.extents
                 if fusion.value(each.input).name.startswith("size_of")}  # fmt: skip
        assert fusion.cases[0]["i0"] == 4
        assert (sizes["size_of_s1"], sizes["size_of_t4"]) == (3, 8)
        (found,) = imported(tmp_path, script.replace("SIZE", "torch.sum(torch.randn(3))"))
        assert fusion_of(found).cases == ()

    def test_subclasses_and_the_sizes_that_they_are_called_with(self) -> None:
        softmax, scaled = import_script(SUBCLASSES)
        assert (softmax.name, scaled.name) == ("SoftmaxRows", "Scaled")  # executed three times, told once
        assert fusion_of(softmax).cases == ({"i0": 4, "i1": 8},)
        assert fusion_of(scaled).cases == ({"i0": 3, "i1": 5},)
        assert scaled.text == (
            "fusion: Scaled\n"
            "inputs:\n"
            "  t0: half[i0, i1]\n"
            "scalars:\n"
            "  s1: double\n"
            "body: |\n"
            "  t2 = mul(t0, s1)\n"
            "  t3 = cast(t2, dtype=half)\n"
            "outputs:\n"
            "  t3: half\n"
            "cases:\n"
            "  - {i0: 3, i1: 5}\n"
        )

    def test_a_subclass_computes_what_it_says(self) -> None:
        torch = pytest.importorskip("torch")
        softmax, _ = import_script(SUBCLASSES)
        (x,) = random_inputs(fusion_of(softmax), {"i0": 4, "i1": 8}, seed=0)
        (got,) = evaluate(fusion_of(softmax), [x])
        assert torch.allclose(got, torch.softmax(x, -1))

    def test_a_definition_is_named_after_the_script(self, tmp_path: Path) -> None:
        (found,) = imported(tmp_path, DOUBLED)
        assert (found.name, found.location.line, found.location.text) == ("script", 2, "with FusionDefinition() as fd:")

    def test_names(self, tmp_path: Path) -> None:
        text = "from nvfuser_direct import FusionDefinition\ndef record(fd, factor):\n    "
        text += "fd.add_output(fd.define_tensor([-1], True) * factor)\n"
        calls = [("FusionDefinition()", 1.5), ("FusionDefinition(name='mine')", 1.5), ("FusionDefinition()", 2.5),
                 ("FusionDefinition()", 1.5), ("FusionDefinition(name='mine')", 3.5)]  # fmt: skip
        for call, factor in calls:
            text += f"with {call} as fd:\n    record(fd, {factor})\n"
        assert [each.name for each in imported(tmp_path, text)] == ["script", "mine", "script_2", "mine_2"]

    @pytest.mark.parametrize("stem", ["my-script", "7th", "class", "float"])
    def test_file_names_that_no_recipe_may_have(self, tmp_path: Path, stem: str) -> None:
        path = tmp_path / f"{stem}.py"
        path.write_text(DOUBLED)
        (found,) = import_script(path)
        assert found.name == {"my-script": "my_script"}.get(stem, f"fusion_{stem}")

    def test_functions_that_nobody_calls(self, tmp_path: Path) -> None:
        text = (
            "from nvfuser import FusionDefinition\n"
            "def first(fd : FusionDefinition) -> None :\n"
            "    fd.add_output(fd.define_tensor([-1]) * 2.0)\n"
            "def helper(x): raise RuntimeError\n"
            "def second(definition: FusionDefinition, scale=3.0):\n"
            "    definition.add_output(definition.define_tensor([-1]) * scale)\n"
        )
        assert [(each.name, each.location.line) for each in imported(tmp_path, text)] == [("first", 2), ("second", 5)]

    def test_what_is_never_executed_is_recorded_too(self, tmp_path: Path) -> None:
        text = "from fusebuild import FusionDefinition\nclass Mine(FusionDefinition):\n    def definition(self):\n"
        text += "        self.add_output(self.define_tensor([-1], True) * 2.0)\nFusionDefinition()\nMine()\n"
        assert [each.name for each in imported(tmp_path, text)] == ["Mine"]

    def test_what_a_script_says_and_how_it_reads_tensors(self, tmp_path: Path) -> None:
        text = (
            "import torch\n"
            "import torch.nn.functional as F\n"
            "from torch.testing import assert_close\n"
            "from nvfuser import FusionDefinition, compute_contiguity\n"
            "from nvfuser.pytorch_utils import torch_dtype_to_nvfuser_dtype\n"
            "class Block(torch.nn.Module):\n"
            "    pass\n"
            "@torch.no_grad()\n"
            "def inputs():\n"
            "    return torch.empty_strided((4, 6), (8, 1), dtype=torch.bfloat16, device='cuda').t()\n"
            "x = inputs()\n"
            "assert x.shape == (6, 4) and x.stride() == (1, 8) and x.is_cuda and x.float().dtype is torch.float32\n"
            "assert compute_contiguity(x.shape, x.stride()) == [False, True]\n"
            "print(torch_dtype_to_nvfuser_dtype(x.dtype), torch.randint(0, 5, (2, 3)).dtype)\n"
            "with FusionDefinition() as fd:\n"
            "    t = fd.from_pytorch(x)\n"
            "    fd.add_output(fd.ops.sum(t, [0]))\n"
            "(y,) = fd.execute([x])\n"
            "assert_close(y, F.relu(x).sum(0))\n"
            "print(f'{(y - x.sum(0)).abs().max():.3f}', float(y[0]))\n"
        )
        (found,) = imported(tmp_path, text)
        (value,) = fusion_of(found).tensor_inputs
        assert str(value.type) == "bfloat16[i0, i1?] stride_order=[0, 1]"
        assert fusion_of(found).cases == ({"i0": 6, "i1": 4},)

    def test_torch_is_not_imported(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "torch.py").write_text("raise RuntimeError('torch was imported')\n")
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))
        (found,) = imported(tmp_path, "import torch\n" + DOUBLED + "fd.execute([torch.randn(2, 3)])\n")
        assert fusion_of(found).cases == ({"i0": 2, "i1": 3},)

    def test_a_script_that_stops_after_it_executed(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        (found,) = imported(tmp_path, DOUBLED + "a, b = fd.execute([3])[0]\n")
        assert found.name == "script"
        assert caplog.messages == [
            f"{tmp_path}/script.py:5:1: the script stopped here: TypeError: nothing is computed when a script is "
            "imported: this value has no items"
        ]


class TestErrors:
    def test_an_op_that_there_is_not(self, tmp_path: Path) -> None:
        assert message(tmp_path, DOUBLED.replace("ops.mul", "ops.mull")) == (
            "/script.py:4:19: error: unknown op 'mull'\n"
            "      fd.add_output(fd.ops.mull(x, 2.0))\n"
            "                    ^~~~~~~~~~~\n"
            "  hint: did you mean 'mul'?"
        )

    def test_a_failing_script(self, tmp_path: Path) -> None:
        assert message(tmp_path, "def fail():\n    return 1 / 0\nfail()\n" + DOUBLED) == (
            "/script.py:2:5: error: ZeroDivisionError: division by zero\n      return 1 / 0\n      ^~~~~~~~~~~~"
        )

    def test_what_nvfuser_has_and_this_has_not(self, tmp_path: Path) -> None:
        said = message(tmp_path, "from nvfuser import FusionDefinition, ParallelType\n")
        assert said.startswith("/script.py:1:1: error: ImportError: cannot import name 'ParallelType' from 'nvfuser'")

    def test_what_is_not_python(self, tmp_path: Path) -> None:
        assert message(tmp_path, "x = 1\ny = (\n") == (
            "/script.py:2:5: error: the script is not Python: '(' was never closed\n  y = (\n      ^"
        )

    def test_nothing_recorded(self, tmp_path: Path) -> None:
        assert message(tmp_path, "x = 1\n") == "/script.py:1:1: error: the script records no FusionDefinition"

    def test_no_outputs(self, tmp_path: Path) -> None:
        text = "from nvfuser import FusionDefinition\nfd = FusionDefinition()\nfd.define_tensor([-1])\n"
        assert message(tmp_path, text) == (
            "/script.py:2:6: error: the definition has no outputs\n"
            "  fd = FusionDefinition()\n"
            "       ^~~~~~~~~~~~~~~~~~\n"
            "  hint: end it with fd.add_output(tensor)"
        )

    def test_inputs_that_do_not_fit_the_definition(self, tmp_path: Path) -> None:
        assert message(tmp_path, "import torch\n" + DOUBLED + "fd.execute([torch.ones(3)])\n") == (
            "/script.py:6:1: error: execute: input t0 has 2 dims, got 1\n"
            "  fd.execute([torch.ones(3)])\n"
            "  ^~~~~~~~~~~~~~~~~~~~~~~~~~~"
        )

    def test_a_tensor_of_unknown_layout(self, tmp_path: Path) -> None:
        text = "import torch\nfrom nvfuser import FusionDefinition\nfd = FusionDefinition()\n"
        assert message(tmp_path, text + "fd.from_pytorch(torch.ones(3) + 1)\n") == (
            "/script.py:4:1: error: the layout of this tensor is not known when a script is imported\n"
            "  fd.from_pytorch(torch.ones(3) + 1)\n"
            "  ^~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~\n"
            "  hint: describe it with fd.define_tensor, or make it with a factory such as torch.randn"
        )

    def test_a_script_that_ends_itself(self, tmp_path: Path) -> None:
        assert len(imported(tmp_path, f"import sys\n{DOUBLED}sys.exit(0)\n")) == 1
        said = message(tmp_path, f"import sys\n{DOUBLED}sys.exit(3)\n")
        assert "RuntimeError: the script ended itself with status 3" in said

    def test_a_process_that_dies(self, tmp_path: Path) -> None:
        said = message(tmp_path, "import os\nprint('so long', flush=True)\nos._exit(9)\n", UsageError)
        assert said == "/script.py: its process ended with status 9 (so long)"

    def test_a_script_without_end_is_ended_with_what_it_started(self, tmp_path: Path) -> None:
        text = "import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        began = time.monotonic()
        said = message(tmp_path, text, UsageError, timeout=2.0)
        assert said == "/script.py: the script did not end within 2 s"
        assert time.monotonic() - began < 300


class TestCommand:
    @staticmethod
    def run(*args: object) -> Result:
        return CliRunner().invoke(cli, ["import", *map(str, args)])

    def test_to_stdout(self, tmp_path: Path) -> None:
        script = tmp_path / "doubled.py"
        script.write_text("print('noise')\n" + DOUBLED)
        done = self.run(script)
        assert done.exit_code == 0, done.output
        assert parse_recipe(done.stdout, "doubled.yaml").fusion.name == "doubled"

    def test_to_a_file(self, tmp_path: Path) -> None:
        done = self.run(SEED_003, "-o", tmp_path / "made" / "recipe.yaml")
        assert done.exit_code == 0, done.output
        assert load_recipe(tmp_path / "made" / "recipe.yaml").fusion.name == "seed_003"

    def test_to_a_folder(self, tmp_path: Path) -> None:
        done = self.run(SUBCLASSES, "-o", tmp_path / "made")
        assert done.stdout == (
            f"{tmp_path}/made/SoftmaxRows.yaml  from {SUBCLASSES}:26\n"
            f"{tmp_path}/made/Scaled.yaml  from {SUBCLASSES}:34\n"
        ).replace(f"{ROOT}/", "" if Path.cwd() == ROOT else f"{ROOT}/")
        assert sorted(path.name for path in (tmp_path / "made").iterdir()) == ["Scaled.yaml", "SoftmaxRows.yaml"]

    @pytest.mark.parametrize("out", [[], ["-o", "one.yaml"]])
    def test_several_need_a_folder(self, out: list[str]) -> None:
        done = self.run(SUBCLASSES, *out)
        assert isinstance(done.exception, UsageError)
        assert str(done.exception).endswith(
            "subclasses.py records 2 definitions (SoftmaxRows, Scaled): name a folder with -o"
        )

    def test_as_json(self) -> None:
        report = json.loads(self.run(SUBCLASSES, "--json").stdout)
        assert [(each["fusion"], each["line"], each["path"]) for each in report] == [
            ("SoftmaxRows", 26, None),
            ("Scaled", 34, None),
        ]
        assert parse_recipe(report[1]["recipe"], "scaled.yaml").fusion.name == "Scaled"

    def test_help_says_that_the_script_is_run(self) -> None:
        assert "import no script that you do not trust" in " ".join(self.run("--help").stdout.split())
