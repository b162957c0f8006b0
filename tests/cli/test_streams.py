"""What the command line says, and how it ends, whatever its streams are and whatever names it is given."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import jsonschema
import pytest

from fusebuild.cli.main import cli
from fusebuild.cli.schema import schema_of
from fusebuild.cli.streams import printable
from fusebuild.errors import one_line
from support.forkserver import commands
from support.sampled import sampled

GOOD = "fusion: doubled\ninputs:\n  x: float[M]\nbody: |\n  y = x * 2.0\noutputs:\n  y: float\ncases:\n  - {M: 3}\n"
CALLS = {
    "--help": 0,
    "--version": 0,
    "nonsense": 2,
    "compile": 2,
    "compile bad.yaml": 2,
    "compile bad.yaml --json": 2,
    "compile missing.yaml": 2,
    "compile good.yaml --arch host --dry-run": 0,
    "check good.yaml": 3,
    "check good.yaml --json": 3,
    "inspect good.yaml": 0,
    "inspect good.yaml --json": 0,
    "inspect bad.yaml": 2,
    "inspect bad.yaml --json": 2,
    "inspect bad.fuse": 4,
    "inspect bad.fuse --json": 4,
    "diff bad.fuse bad.fuse": 4,
    "verify bad.fuse": 4,
    "verify bad.fuse --json": 4,
    "import bad.py": 2,
    "import bad.py --json": 2,
    "tune good.yaml --arch host,sm_90": 2,
    "schema compile": 0,
    "schema nothing": 2,
    "compile good.yaml --nvcc missing/nvcc": 5,
}
"""Command lines and their exit codes."""
STREAMS = ("", "2>&-", ">&-", ">&- 2>&-", "<&-", "> /dev/full", "2> /dev/full", "| head -1", "| true")
"""What can be made of the streams, as a shell says it."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("streams")
    (folder / "good.yaml").write_text(GOOD)
    (folder / "bad.yaml").write_text(GOOD.replace("x * 2.0", "x * z"))
    (folder / "bad.fuse").write_bytes(b"PK")
    (folder / "bad.py").write_text("1 / 0\n")
    return folder


def environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("FUSEBUILD_")}


def shell(
    line: str, cwd: Path, environ: Mapping[str, str] | None = None, program: str = ""
) -> subprocess.CompletedProcess[str]:
    """``fusebuild LINE`` in bash; the exit code is fusebuild's own, not that of what it is piped into."""
    command = f'"{program or commands() / "fusebuild"}" {line}\nexit ${{PIPESTATUS[0]}}'
    return subprocess.run(
        ["bash", "-c", command], cwd=cwd, env=environ or environment(), capture_output=True, text=True, timeout=120
    )


@pytest.mark.parametrize("streams", STREAMS)
@pytest.mark.parametrize("call", sampled(CALLS, 9))
def test_every_verb_ends_as_it_should_whatever_its_streams_are(call: str, streams: str, folder: Path) -> None:
    done = shell(f"{call} {streams}", folder)
    ended, said = done.returncode, done.stdout + done.stderr
    assert "Traceback" not in said
    assert "Exception ignored" not in said
    loses_output = streams in (">&-", "> /dev/full", ">&- 2>&-")
    code = CALLS[call]
    assert ended in ({code, 1} if loses_output and code == 0 else {code}), said
    if streams not in (">&- 2>&-", "| true", "2> /dev/full"):
        assert said.strip()
    if loses_output and code == 0 and streams != ">&- 2>&-":
        assert ended == 1
        assert "error: stdout cannot be written to: " in said


@pytest.mark.parametrize("call", ["inspect bad.yaml --json", "schema compile"])
@pytest.mark.parametrize("streams", STREAMS)
def test_a_process_that_was_forked_ends_as_one_that_a_shell_starts(call: str, streams: str, folder: Path) -> None:
    forked = shell(f"{call} {streams}", folder)
    started = shell(f"{call} {streams}", folder, program=str(Path(sys.executable).with_name("fusebuild")))
    assert (forked.returncode, forked.stdout, forked.stderr) == (started.returncode, started.stdout, started.stderr)


def test_errors_go_to_stdout_where_stderr_is_closed(folder: Path) -> None:
    done = shell("inspect bad.yaml 2>&-", folder)
    assert (done.returncode, done.stderr) == (2, "")
    assert "undefined name 'z'" in done.stdout


@pytest.mark.parametrize("verb", ["compile", "check", "inspect"])
def test_a_recipe_error_is_a_report(verb: str, folder: Path) -> None:
    done = shell(f"{verb} bad.yaml --json", folder)
    assert done.returncode == 2
    report = json.loads(done.stdout)
    jsonschema.validate(report, schema_of(verb))
    assert report == {
        "error": "RecipeError",
        "exit_code": 2,
        "diagnostics": [{"file": "bad.yaml", "line": 5, "column": 11, "end_column": 12,
                         "message": "undefined name 'z'", "hint": "", "severity": "error"}],
    }  # fmt: skip
    assert "bad.yaml:5:11: error: undefined name 'z'" in done.stderr


@pytest.mark.parametrize(
    "call",
    [
        "verify bad.fuse",
        "inspect bad.fuse",
        "diff bad.fuse bad.fuse",
        "import bad.py",
        "compile good.yaml --nvcc missing/nvcc",
        "tune good.yaml --arch host,sm_90",
        "compile nowhere.yaml",
        "compile good.yaml --arch sm_9",
        "check good.yaml --rebild",
        "inspect",
        "doctor more",
    ],
)
def test_every_error_is_a_report(call: str, folder: Path) -> None:
    done = shell(f"{call} --json", folder)
    report = json.loads(done.stdout)
    jsonschema.validate(report, schema_of(call.split()[0]))
    assert report["exit_code"] == done.returncode
    assert report["diagnostics"][0]["message"]


@pytest.mark.parametrize("verb", sorted(cli.commands))
def test_loudness_is_said_after_the_verb_too(verb: str, folder: Path) -> None:
    done = shell(f"{verb} --help -q -v", folder)
    assert done.returncode == 0
    assert "--quiet" in done.stdout
    assert "--verbose" in done.stdout


def test_quiet_after_the_verb(folder: Path) -> None:
    done = shell("compile good.yaml --arch host --dry-run -q", folder)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_names_are_shown_and_not_obeyed(folder: Path) -> None:
    name = "\x1b[31mred\u202e.fuse"
    (folder / name).write_bytes(b"PK")
    done = shell(f"inspect '{name}'", folder)
    assert done.returncode == 4
    assert done.stderr.startswith("error: \\x1b[31mred\\u202e.fuse: ")


FORGED = "x\nprod.yaml:1:1: error: forged\r\v\f\x85\u2028\u2029."
SHOWN = "x\\nprod.yaml:1:1: error: forged\\r\\x0b\\x0c\\x85\\u2028\\u2029."
FORGERIES = {
    "compile '{bad}.yaml'": 2,
    "compile -k '{bad}.yaml' '{good}.yaml' --dry-run": 2,
    "compile '{good}.yaml' --arch host --dry-run -v": 0,
    "compile '{good}.yaml' '{same}.yaml'": 2,
    "compile '{bad}d'": 2,
    "compile good.yaml --nvcc '{bad}.yaml'": 5,
    "check '{bad}.yaml'": 2,
    "check '{good}.yaml' --arch host -v -o '{bad}.out'": 3,
    "check '{good}.yaml' -o orphans": 3,
    "inspect '{bad}.yaml'": 2,
    "inspect '{bad}.fuse'": 4,
    "inspect '{bad}.fuse' --segmentation exact": 2,
    "inspect '{good}.yaml' --arch host --html '{bad}d'": 2,
    "inspect tuned.yaml --arch host": 2,
    "diff '{bad}.fuse' '{bad}.fuse'": 4,
    "verify '{bad}.fuse' --target host": 4,
    "verify '{bad}d' --target host": 2,
    "tune '{bad}.yaml' --arch host": 2,
    "import '{bad}.py'": 2,
    "import '{good}.py' -o '{bad}.none.yaml/a'": 0,
    "import '{good}.py' -o '{good}.yaml'": 2,
    "import '{good}.py' -o '{bad}.new.yaml' --force": 0,
    "cache": 0,
    "doctor --nvcc '{bad}.yaml'": 5,
    "schema '{bad}'": 2,
    "inspect '{bad}.missing'": 2,
}
"""What is said of files with a name that holds lines, and the exit code."""


@pytest.fixture(scope="module")
def forged(folder: Path) -> Path:
    """A folder with files of all kinds that are called so."""
    (folder / f"{FORGED}d").mkdir()
    (folder / f"{FORGED}.yaml").write_text(GOOD.replace("x * 2.0", "x * z"))
    for name in ("good.yaml", "same.yaml"):
        (folder / f"{FORGED}{name}").write_text(GOOD)
    (folder / "orphans").mkdir()
    for path in (folder / f"{FORGED}.fuse", folder / "orphans" / f"{FORGED}.fuse"):
        path.write_bytes(b"PK")
    (folder / f"{FORGED}.py").write_text("1 / 0\n")
    (folder / f"{FORGED}good.py").write_text(
        "from nvfuser import FusionDefinition, DataType\n"
        "with FusionDefinition() as fd:\n"
        "    x = fd.define_tensor(shape=[-1], dtype=DataType.Float)\n"
        "    fd.add_output(fd.ops.neg(x))\n"
    )
    (folder / "tuned.yaml").write_text(GOOD)
    (folder / "tuned.tuned.json").write_text(json.dumps({"format": 1, "fusion": FORGED, "entries": []}))
    return folder


@pytest.mark.parametrize("call", FORGERIES)
def test_names_are_no_lines(call: str, forged: Path) -> None:
    names = {"bad": FORGED, "good": f"{FORGED}good", "same": f"{FORGED}same"}
    environ = environment() | {"FUSEBUILD_CACHE_DIR": str(forged / f"{FORGED}cache")}
    done = shell(call.format(**names), forged, environ)
    said = done.stdout + done.stderr
    assert done.returncode == FORGERIES[call], said
    assert "prod.yaml:1:1" in said
    assert not [line for line in said.splitlines() if line.startswith(("prod.yaml", "."))]


def test_names_of_what_is_built_are_no_lines(compilers: None, forged: Path) -> None:
    source, out = f"{FORGED}good.yaml", f"{FORGED}built"
    artifact = f"{out}/doubled.fuse"
    calls = {
        f"compile '{source}' --arch host -v -o '{out}'": 0,
        f"check '{source}' -v -o '{out}'": 0,
        f"verify '{out}' --target host -v": 0,
        f"verify '{artifact}' --target host --max-elements 0": 6,
        f"diff '{artifact}' '{artifact}' -v": 0,
        f"inspect '{artifact}' -v": 0,
        f"inspect '{artifact}' --segmentation exact": 2,
    }
    for call, code in calls.items():
        done = shell(call, forged)
        said = done.stdout + done.stderr
        assert done.returncode == code, said
        assert not [line for line in said.splitlines() if line.startswith(("prod.yaml", "."))]


def test_names_in_reports_are_exact(forged: Path) -> None:
    done = shell(f"compile '{FORGED}.yaml' --json", forged)
    assert [each["file"] for each in json.loads(done.stdout)["diagnostics"]] == [f"{FORGED}.yaml"]
    assert f"{SHOWN}.yaml:5:11: error: undefined name 'z'" in done.stderr


def test_one_line() -> None:
    assert one_line(Path(FORGED)) == SHOWN
    assert one_line("größer\t\x1b") == "größer\t\x1b"


def test_printable() -> None:
    assert printable("a\tb\nβ\x07\x9b\ud800") == "a\tb\nβ\\x07\\x9b\\ud800"


def test_a_seed_of_many_digits_is_a_usage_error(folder: Path) -> None:
    done = shell(f"verify bad.fuse --seed {'9' * 23}", folder)
    assert done.returncode == 2
    assert "--seed" in done.stderr


def test_targets_are_taken_in_one_order(folder: Path) -> None:
    ways = [shell(f"inspect good.yaml --arch {arch} --json", folder).stdout for arch in ("host,sm_90", "sm_90,host")]
    assert ways[0]
    assert ways[0] == ways[1]
