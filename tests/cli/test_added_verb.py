"""The new verb of docs/extending.md, from its file there and its name in ``VERBS`` to a terminal."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

from support.places import DOCS

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
text = Path(spec.origin).read_text(encoding="utf-8").replace('VERBS = (', 'VERBS = (\\n    "ranks",')
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
