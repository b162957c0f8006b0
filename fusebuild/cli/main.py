"""The command line: the verbs as one group, and how errors end it."""

from __future__ import annotations

import importlib
import logging
import os
import sys

import click

from fusebuild import __version__
from fusebuild.cli.streams import Output, open_outputs, printable
from fusebuild.cli.verb import Verb, log_handler, loudness
from fusebuild.errors import FusebuildError, LocatedError, counted


@click.group(params=loudness(), context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="fusebuild")
def cli() -> None:
    """Build, check and run GPU fusion artifacts, ahead of time."""


def main(command: click.Command = cli) -> None:
    """Run the command line; errors of fusebuild end it with their message and exit code."""
    stdout, stderr = open_outputs()
    logging.basicConfig(handlers=[log_handler()])
    code = _run(command, stderr)
    if stdout.problem:
        _complain(f"error: stdout cannot be written to: {stdout.problem}", stderr)
    sys.exit(code or int(bool(stdout.problem)))


def _run(command: click.Command, stderr: Output) -> int:
    """Run ``command``; its exit code."""
    color = False if os.environ.get("NO_COLOR") else None
    try:
        done = command.main(standalone_mode=False, color=color)
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except click.ClickException as error:
        usage = error.ctx.get_usage() + "\n" if isinstance(error, click.UsageError) and error.ctx else ""
        _complain(f"{usage}Error: {error.format_message()}", stderr)
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        _complain("aborted", stderr)
        return 130
    except FusebuildError as error:
        _complain(str(error) if isinstance(error, LocatedError) else f"error: {error}", stderr)
        return error.exit_code
    return done if isinstance(done, int) else 0


def _complain(text: str, stderr: Output) -> None:
    """Say on stderr what went wrong; on stdout where stderr cannot be written to."""
    click.echo(printable(text), err=True)
    if stderr.problem:
        click.echo(printable(text))


VERBS = (
    "compile", "check", "inspect", "diff", "verify", "bench", "tune", "import_script", "ops", "schema", "cache",
    "doctor",
)  # fmt: skip
"""A verb is a file of this folder, and its name here."""


def _verb(name: str) -> Verb:
    """The verb of the file called ``name``. Raises :class:`ValueError` where it has none or several, or where another
    verb is called so already."""
    file = importlib.import_module(f"fusebuild.cli.{name}")
    verbs = [each for each in vars(file).values() if isinstance(each, Verb)]
    if len(verbs) != 1:
        raise ValueError(f"fusebuild/cli/{name}.py has {counted(len(verbs), 'verb')}; a file has one")
    if verbs[0].name in cli.commands:
        raise ValueError(f"fusebuild/cli/{name}.py: there is a verb '{verbs[0].name}' already")
    return verbs[0]


for name in VERBS:
    cli.add_command(_verb(name))
