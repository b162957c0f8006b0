"""Many command lines of fusebuild, each in a process of its own, without starting Python for each.

``python forked_cli.py`` reads pairs of arguments and streams as JSON, such as ``["inspect a.yaml", "2>&-"]``, and
prints for each pair the exit code and all that was said. It imports what verbs import once and then forks: a child has
the streams that a shell would have given it, and ends as any process of Python does, with all that is flushed then.
"""

from __future__ import annotations

import importlib
import json
import os
import shlex
import sys
import tempfile

from fusebuild.cli.main import main

STREAMS = ("", "2>&-", ">&-", ">&- 2>&-", "<&-", "> /dev/full", "2> /dev/full", "| head -1", "| true")
"""What can be made of the streams, as a shell says it."""

_IMPORTED = (
    "report.diff", "freshness.check", "definition.script", "freshness.incremental", "report.inspection", "pipeline",
    "recipe.schema", "tuning.tune", "oracle.verification",
)  # fmt: skip
"""What verbs import when they run."""


def run_all(calls: list[tuple[str, str]]) -> list[tuple[int, str]]:
    """The exit code of each of ``calls``, and what it said."""
    for module in _IMPORTED:
        importlib.import_module(f"fusebuild.{module}")
    return [_run(arguments, streams) for arguments, streams in calls]


def _run(arguments: str, streams: str) -> tuple[int, str]:
    reader, writer = os.pipe()
    with tempfile.TemporaryFile() as said:
        child = os.fork()
        if child == 0:
            os.close(reader)
            os.dup2(said.fileno(), 1)
            os.dup2(said.fileno(), 2)
            _redirect(streams, writer)
            sys.argv = ["fusebuild", *shlex.split(arguments)]
            main()  # ends in SystemExit, and with it this process
        os.close(writer)
        with os.fdopen(reader, "rb") as pipe:
            if streams == "| head -1":
                os.write(said.fileno(), pipe.readline())
        _, status = os.waitpid(child, 0)
        said.seek(0)
        return os.waitstatus_to_exitcode(status), said.read().decode()


def _redirect(streams: str, pipe: int) -> None:
    """What a shell and the start of Python make of ``streams``; ``pipe`` is where those with a ``|`` lead."""
    if streams.startswith("|"):
        os.dup2(pipe, 1)
    os.close(pipe)
    if streams.endswith("> /dev/full"):
        full = os.open("/dev/full", os.O_WRONLY)
        os.dup2(full, 2 if streams.startswith("2") else 1)
        os.close(full)
    closed = {"<&-": "stdin", ">&-": "stdout", "2>&-": "stderr"}
    for name in [closed[each] for each in streams.split() if each in closed]:
        os.close(getattr(sys, name).fileno())
        setattr(sys, name, None)
        setattr(sys, f"__{name}__", None)


if __name__ == "__main__":
    print(json.dumps(run_all(json.load(sys.stdin))))
