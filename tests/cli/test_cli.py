"""The command line: every exit code for real, reports that programs can read, errors said once."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import pty
import re
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

from fusebuild.artifact.file import open_artifact
from fusebuild.cli.main import cli
from fusebuild.cli.verb import log_handler
from support.forkserver import commands

RECIPE = """\
fusion: doubled
doc: Twice the input.
inputs:
  x: float[M, 5]
body: |
  y = x * 2.0
outputs:
  y: float
cases:
  - {M: 3}
"""


OPINION = re.compile(r"NO_COLOR|FUSEBUILD_(?!CACHE_DIR$)")
"""Variables that change what is done; the cache is the tests' own."""


def fusebuild(*arguments: str | Path, cwd: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    clean = {key: value for key, value in os.environ.items() if not OPINION.match(key)}
    return subprocess.run(
        [commands() / "fusebuild", *map(str, arguments)],
        cwd=cwd, env=clean | environ, capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL,
    )  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "doubled.yaml").write_text(RECIPE)
    return tmp_path


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with ``doubled.yaml`` compiled for the CPU into ``build/``."""
    folder = tmp_path_factory.mktemp("built")
    (folder / "doubled.yaml").write_text(RECIPE)
    done = fusebuild("compile", "doubled.yaml", "--arch", "host", cwd=folder)
    if done.returncode == 5:
        pytest.skip(done.stderr)
    assert done.returncode == 0, done.stderr
    return folder


def on_a_terminal(*arguments: str, cwd: Path, **environ: str) -> str:
    """What a person sees who types ``fusebuild ARGUMENTS``: stdout and stderr are one terminal."""
    clean = {key: value for key, value in os.environ.items() if not OPINION.match(key)}
    ours, terminal = pty.openpty()
    child = subprocess.Popen([commands() / "fusebuild", *arguments], cwd=cwd, env=clean | environ,
                             stdin=subprocess.DEVNULL, stdout=terminal, stderr=terminal)  # fmt: skip
    os.close(terminal)
    seen = b""
    with open(ours, "rb", buffering=0) as file, contextlib.suppress(OSError):  # EIO: the other end was closed
        while part := file.read(4096):
            seen += part
    assert child.wait(timeout=60) == 0, seen
    return seen.decode()


@pytest.mark.parametrize("verb", sorted(cli.commands))
def test_every_verb_has_help(verb: str, tmp_path: Path) -> None:
    done = fusebuild(verb, "--help", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"Usage: fusebuild {verb} ")
    command = cli.commands[verb]
    assert command.help
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert parameter.help, parameter.name
            assert parameter.opts[-1] in done.stdout
        else:
            assert (parameter.metavar or parameter.name or "").upper().rstrip("S") in command.help, parameter.name
    assert re.search(rf"^  {verb} +[A-Z]", fusebuild("--help", cwd=tmp_path).stdout, re.MULTILINE)


@pytest.mark.parametrize(
    ("command", "name"),
    [([sys.executable, "-m", "fusebuild.cli"], "python -m fusebuild.cli"),
     ([sys.executable, "-m", "fusebuild"], "python -m fusebuild"),
     ([Path(sys.executable).with_name("fusebuild")], "fusebuild")],
)  # fmt: skip
def test_it_starts_by_any_name(command: list[str | Path], name: str) -> None:
    def said(*arguments: str) -> str:
        return subprocess.run([*command, *arguments], capture_output=True, text=True, check=True).stdout

    assert said("--version") == f"{name.split()[-1].split('.')[0]}, version 0.1.0\n"
    assert said("--help").startswith(f"Usage: {name} [OPTIONS] COMMAND")


def test_success_is_0(built: Path) -> None:
    done = fusebuild("check", "doubled.yaml", cwd=built)
    assert (done.returncode, done.stdout, done.stderr) == (0, "1 fresh, 0 stale\n", "")


def test_a_failing_compiler_is_1(folder: Path, empty_store: Path) -> None:
    compiler = folder / "failing"
    compiler.write_text('#!/bin/sh\ncase "$*" in *--version*|*-dumpmachine*) exec g++ "$@";; esac\n'
                        'case "$*" in *kernels/*) echo "boom" >&2; exit 1;; esac\nexec g++ "$@"\n')  # fmt: skip
    compiler.chmod(0o755)
    done = fusebuild("compile", "doubled.yaml", "--arch", "host", cwd=folder, FUSEBUILD_CXX=str(compiler))
    assert done.returncode == 1, done.stderr
    assert "boom" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_wrong_recipe_is_2(folder: Path) -> None:
    (folder / "doubled.yaml").write_text(RECIPE.replace("x * 2.0", "x * z"))
    done = fusebuild("compile", "doubled.yaml", cwd=folder)
    assert done.returncode == 2
    assert done.stderr == "doubled.yaml:6:11: error: undefined name 'z'\n    y = x * z\n            ^\n"


def test_a_wrong_option_is_2(folder: Path) -> None:
    done = fusebuild("compile", "doubled.yaml", "--arch", "sm_9", cwd=folder)
    assert done.returncode == 2
    assert "unknown target 'sm_9'; did you mean 'sm_90'?" in done.stderr


def test_a_stale_artifact_is_3(folder: Path) -> None:
    done = fusebuild("check", "doubled.yaml", cwd=folder)
    assert done.returncode == 3
    assert done.stderr == "doubled.yaml: stale: build/doubled.fuse is missing\n"


def test_a_broken_artifact_is_4(folder: Path) -> None:
    (folder / "broken.fuse").write_bytes(b"PK")
    done = fusebuild("inspect", "broken.fuse", cwd=folder)
    assert done.returncode == 4
    assert done.stderr.startswith("error: broken.fuse: ")


def test_an_artifact_is_one_whatever_it_is_called(built: Path, tmp_path: Path) -> None:
    shown = fusebuild("inspect", built / "build" / "doubled.fuse", cwd=tmp_path).stdout
    for name in ("some.xyz", "some", "some.yaml"):
        shutil.copy(built / "build" / "doubled.fuse", tmp_path / name)
        done = fusebuild("inspect", name, cwd=tmp_path)
        assert (done.returncode, done.stdout, done.stderr) == (0, shown, "")
    done = fusebuild("inspect", "some.xyz", "--segmentation", "exact", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (2, "error: some.xyz is cut already; --segmentation is for recipes\n")
    (tmp_path / "cut.xyz").write_bytes((tmp_path / "some").read_bytes()[:99])
    done = fusebuild("inspect", "cut.xyz", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (
        4, "error: cut.xyz: it is truncated, or something follows the end of the zip\n"
    )  # fmt: skip


def test_a_missing_compiler_is_5(folder: Path) -> None:
    done = fusebuild("compile", "doubled.yaml", "--nvcc", "nowhere/nvcc", cwd=folder)
    assert done.returncode == 5
    assert "nowhere/nvcc" in done.stderr


def test_reports_go_to_stdout_and_logs_to_stderr(built: Path) -> None:
    done = fusebuild("-v", "compile", "doubled.yaml", "--arch", "host", "--json", cwd=built)
    report = json.loads(done.stdout)
    assert report["artifacts"] == [
        {"fusion": "doubled", "recipe": "doubled.yaml", "path": "build/doubled.fuse", "written": False}
    ]
    assert report["compiled"] == 0
    assert json.loads(fusebuild("check", "doubled.yaml", "--json", cwd=built).stdout) == [
        {
            "recipe": "doubled.yaml",
            "artifact": "build/doubled.fuse",
            "fresh": True,
            "why": [],
            "machine_code": "as recorded",
            "orphaned": False,
        }
    ]
    assert json.loads(fusebuild("doctor", "--json", cwd=built).stdout)[0].keys() == {
        "name", "status", "found", "advice"
    }  # fmt: skip


def test_quiet_says_nothing(built: Path) -> None:
    done = fusebuild("-q", "compile", "doubled.yaml", "--arch", "host", cwd=built)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_no_colors_in_a_pipe_nor_with_no_color(built: Path) -> None:
    assert "\x1b" not in fusebuild("doctor", cwd=built).stdout
    assert "\x1b" not in fusebuild("doctor", cwd=built, NO_COLOR="1").stdout


def test_progress_and_colors_on_a_terminal(built: Path, empty_store: Path, tmp_path: Path) -> None:
    shutil.copy(built / "doubled.yaml", tmp_path)
    seen = on_a_terminal("compile", "doubled.yaml", "--arch", "host", cwd=tmp_path)
    assert "compiling  [" in seen
    assert "100%" in seen
    assert "\x1b[32mok" in on_a_terminal("doctor", cwd=tmp_path)
    assert "\x1b[3" not in on_a_terminal("doctor", cwd=tmp_path, NO_COLOR="1")


def test_no_progress_in_a_pipe_nor_when_quiet(built: Path, tmp_path: Path) -> None:
    shutil.copy(built / "doubled.yaml", tmp_path)
    assert fusebuild("compile", "doubled.yaml", "--arch", "host", cwd=tmp_path).stderr == ""
    shutil.rmtree(tmp_path / "build")
    assert on_a_terminal("-q", "compile", "doubled.yaml", "--arch", "host", cwd=tmp_path) == ""


class TestVerbose:
    """What ``-v`` promises: each step, and why it is done; ``-vv``: the commands of compilers, too."""

    def steps(self, folder: Path, *arguments: str, **environ: str) -> list[str]:
        done = fusebuild("compile", "doubled.yaml", *arguments, cwd=folder, **environ)
        assert done.returncode == 0, done.stderr
        return done.stderr.splitlines()

    def test_each_step_and_why(self, folder: Path) -> None:
        host = ("--arch", "host", "-v")
        first = self.steps(folder, *host)
        why, compilers, planned, stored, written = first
        why_text = "doubled.yaml: it is compiled: nothing was compiled in build before"
        assert why == f"fusebuild.freshness.incremental: {why_text}"
        assert re.match(r"fusebuild\.build\.toolchain: compilers: .*g\+\+ \d[\d.]* \(/.*\), cudart ", compilers)
        assert re.fullmatch(r"fusebuild\.pipeline: doubled\.yaml: planned for host: 1 segment, \d kernels", planned)
        assert re.match(r"fusebuild\.build\.objects: \d of \d objects are in /.*/objects", stored)
        assert written == "fusebuild.pipeline: build/doubled.fuse: written"
        _, fresh = self.steps(folder, *host)
        assert fresh == "fusebuild.freshness.incremental: doubled.yaml: as it was built, by the record"
        assert self.steps(folder, *host[:2]) == []

    def test_why_it_is_compiled_again(self, folder: Path) -> None:
        self.steps(folder, "--arch", "host")
        other = folder / "other-g++"
        other.write_text('#!/bin/sh\n[ "$*" = --version ] && echo \'g++ (another) 99\' && exit\nexec g++ "$@"\n')
        other.chmod(0o755)

        def why(*arguments: str, **environ: str) -> str:
            lines = self.steps(folder, "-n", "-v", *arguments, **environ)
            (line,) = [line for line in lines if line.startswith("fusebuild.freshness.incremental: ")]
            return line.removeprefix("fusebuild.freshness.incremental: doubled.yaml: it is compiled: ")

        assert why("--arch", "host-asan") == "targets differ: host, host-asan"
        assert why("--arch", "host", "--segmentation", "exact") == "segmentation changed"
        assert why("--arch", "host", FUSEBUILD_CXX=str(other)) == "toolchain of host changed"
        assert why("--arch", "host", "-o", "elsewhere") == "nothing was compiled in elsewhere before"
        (folder / "build" / "doubled.fuse").write_bytes(b"PK")
        assert why("--arch", "host") == "it is not the artifact that was built here"
        (folder / "build" / "doubled.fuse").unlink()
        assert why("--arch", "host") == "build/doubled.fuse is missing"

    @pytest.mark.parametrize("way", [("-vv",), ("-v", "-v")])
    def test_twice_for_commands(self, folder: Path, empty_store: Path, way: tuple[str, ...]) -> None:
        lines = self.steps(folder, "--arch", "host", *way)
        asked = [line for line in lines if line.startswith("fusebuild.build.compiler: /")]
        assert any(line.endswith(" --version") for line in asked)
        compiled = [
            line for line in lines if re.match(r"fusebuild\.build\.objects: \S*g\+\+ .* -o host/\S+ kernels/\S+", line)
        ]
        assert len(compiled) == len(list((folder / "build" / ".fusebuild" / "kernels").iterdir()))
        again = self.steps(folder, "--arch", "host", *way)
        assert [line for line in again if line.startswith("fusebuild.build.objects: ")] == []

    def test_check_and_verify_tell_theirs(self, built: Path) -> None:
        done = fusebuild("check", "-v", "doubled.yaml", cwd=built)
        assert "fusebuild.freshness.check: doubled.yaml: as it was built, by the record\n" in done.stderr
        pytest.importorskip("torch")
        done = fusebuild("-v", "verify", "build", "--target", "host", cwd=built)
        assert "fusebuild.oracle.verification: build/doubled.fuse: run on host\n" in done.stderr

    def test_steps_are_not_told_amid_a_progress_bar(self, built: Path, tmp_path: Path) -> None:
        shutil.copy(built / "doubled.yaml", tmp_path)
        assert "%" not in on_a_terminal("compile", "doubled.yaml", "--arch", "host", "-v", cwd=tmp_path)

    def test_others_only_warn(self) -> None:
        tells = log_handler().filter
        assert tells(logging.LogRecord("fusebuild.build.objects", logging.DEBUG, "", 1, "", (), None))
        assert tells(logging.LogRecord("matplotlib", logging.WARNING, "", 1, "", (), None))
        assert not tells(logging.LogRecord("matplotlib.font_manager", logging.INFO, "", 1, "", (), None))


def test_verify_tells_what_ran(built: Path) -> None:
    pytest.importorskip("torch")
    done = fusebuild("verify", "build", "--target", "host", cwd=built)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].endswith(" passed, 0 failed")
    rows = json.loads(fusebuild("verify", "build", "--target", "host", "--json", cwd=built).stdout)
    assert {row["fusion"] for row in rows} == {"doubled"}
    assert all(row["ok"] for row in rows)
    again = fusebuild("verify", "build", "--target", "host", "--runs", "3", "--json", cwd=built)
    assert json.loads(again.stdout) == rows
    assert fusebuild("verify", "build", "--runs", "0", cwd=built).returncode == 2


def test_inspecting_an_artifact_equals_inspecting_its_recipe(built: Path) -> None:
    artifact = fusebuild("inspect", "build/doubled.fuse", "--json", cwd=built)
    recipe = fusebuild("inspect", "doubled.yaml", "--arch", "host", "--json", cwd=built)
    assert json.loads(artifact.stdout) == json.loads(recipe.stdout)
    assert open_artifact(built / "build" / "doubled.fuse").targets == ("host",)


def test_progress_with_nothing_to_do_is_done(built: Path) -> None:
    assert "100%" in on_a_terminal("compile", "doubled.yaml", "--arch", "host", cwd=built)


def test_targets_in_any_order_give_the_same_bytes(compilers: None, folder: Path) -> None:
    made = []
    for index, order in enumerate(("host,sm_90,sm_80", "sm_80,host,sm_90", "sm_90, host,sm_80,host")):
        done = fusebuild("compile", "doubled.yaml", "--arch", order, "-o", f"b{index}", cwd=folder)
        assert done.returncode == 0, done.stderr
        made.append((folder / f"b{index}" / "doubled.fuse").read_bytes())
        frozen = fusebuild("compile", "doubled.yaml", "--arch", order, "-o", "b0", "--dry-run", cwd=folder)
        assert "would compile 0 of" in frozen.stdout
    assert made[0] == made[1] == made[2]
    again = fusebuild("compile", "doubled.yaml", "--arch", "sm_80,host,sm_90", "-o", "b0", cwd=folder)
    assert "unchanged" in again.stdout
