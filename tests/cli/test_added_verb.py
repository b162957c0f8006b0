"""The new verb of docs/extending.md, from its file there and its name in ``VERBS`` to a terminal."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

from fusebuild.cli.main import VERBS
from support.places import DOCS, ROOT

RECIPE = """\
fusion: scaled
inputs:
  x: float[M, N]
  w: float[N]
body: |
  y = x * w
outputs:
  y: float
"""
RUN = """\
import sys
import types
from importlib.util import find_spec
from pathlib import Path

import fusebuild.cli

fusebuild.cli.__path__.append(".")  # where the new file is
spec = find_spec("fusebuild.cli.main")
text = Path(spec.origin).read_text(encoding="utf-8").replace('    "doctor",\\n', '    "doctor", "ranks",\\n')
module = sys.modules[spec.name] = types.ModuleType(spec.name)
exec(compile(text, spec.origin, "exec"), module.__dict__)
module.main()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    page = (DOCS / "extending.md").read_text(encoding="utf-8")
    (file,) = re.findall(r'^```python\n("""The verb ``ranks``.*?)^```$', page, re.MULTILINE | re.DOTALL)
    (tmp_path / "ranks.py").write_text(file, encoding="utf-8")
    (tmp_path / "scaled.yaml").write_text(RECIPE, encoding="utf-8")
    (tmp_path / "wrong.yaml").write_text(RECIPE.replace("x * w", "x * v"), encoding="utf-8")
    return tmp_path


def fusebuild(folder: Path, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-c", RUN, *arguments], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == code, done.stderr
    return done


def test_it_has_help(folder: Path) -> None:
    assert re.search(r"^  ranks +Say how many dims", fusebuild(folder, "--help").stdout, re.MULTILINE)
    own = fusebuild(folder, "ranks", "-h").stdout
    assert "Usage: -c ranks [OPTIONS] RECIPE" in own
    assert all(option in own for option in ("--json", "--quiet", "--verbose"))


def test_it_runs(folder: Path) -> None:
    assert fusebuild(folder, "ranks", "scaled.yaml").stdout == "x: 2\nw: 1\n"


def test_its_report_is_what_its_schema_says(folder: Path) -> None:
    report = json.loads(fusebuild(folder, "ranks", "scaled.yaml", "--json").stdout)
    failure = json.loads(fusebuild(folder, "ranks", "wrong.yaml", "--json", code=2).stdout)
    schema = json.loads(fusebuild(folder, "schema", "ranks").stdout)
    assert report == {"x": 2, "w": 1}
    assert schema["title"] == "The report of fusebuild ranks --json"
    for each in (report, failure):
        jsonschema.validate(each, schema)


def test_its_errors_end_it_with_their_exit_codes(folder: Path) -> None:
    assert "wrong.yaml:6:11: error: undefined name 'v'" in fusebuild(folder, "ranks", "wrong.yaml", code=2).stderr
    assert "does not exist" in fusebuild(folder, "ranks", "nowhere.yaml", code=2).stderr


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("def ranks(", "def check(", "fusebuild/cli/ranks.py: there is a verb 'check' already"),
        ("cls=Verb, report=dict[str, int]", "", "fusebuild/cli/ranks.py has 0 verbs; a file has one"),
        ("@click.command", "more = Verb('more')\n\n\n@click.command",
         "fusebuild/cli/ranks.py has 2 verbs; a file has one"),
    ],
    ids=["another's name", "none", "two"],
)  # fmt: skip
def test_a_file_has_one_verb_of_its_own_name(folder: Path, old: str, new: str, message: str) -> None:
    file = folder / "ranks.py"
    file.write_text(file.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")
    assert f"ValueError: {message}\n" in fusebuild(folder, "--help", code=1).stderr


def test_every_file_that_has_a_verb_is_one() -> None:
    files = (ROOT / "fusebuild" / "cli").glob("*.py")
    assert {file.stem for file in files if "cls=Verb" in file.read_text(encoding="utf-8")} == {*VERBS}
