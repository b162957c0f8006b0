"""What verbs print: for people, who may have asked for quiet, and for programs."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import click

from fusebuild.artifact.json_types import json_value
from fusebuild.cli.streams import printable


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a verb has found: the ``report`` of ``--json``, what ``tell`` prints for people, and the exit code."""

    report: object
    tell: Callable[[], None]
    exit_code: int = 0

    def give(self) -> None:
        """Print it, and end the verb where its exit code is not 0."""
        if wants_json():
            print_json(self.report)
        else:
            self.tell()
        if self.exit_code:
            sys.exit(self.exit_code)


@contextmanager
def progress(label: str) -> Iterator[Callable[[int, int], None] | None]:
    """A progress bar on stderr when a person watches, unless steps are told there; nothing in a pipe."""
    if not sys.stderr.isatty() or is_quiet() or logging.getLogger().isEnabledFor(logging.INFO):
        yield None
        return
    with click.progressbar(length=1, label=label, file=sys.stderr, show_eta=False) as bar:

        def advance(done: int, total: int) -> None:
            bar.length = total
            bar.update(done - bar.pos)

        yield advance
        bar.update((bar.length or 0) - bar.pos)  # also where nothing had to be done


def is_quiet() -> bool:
    return bool(click.get_current_context().find_root().obj.get("quiet"))


def wants_json() -> bool:
    """Whether the verb was given ``--json``."""
    return bool(click.get_current_context().find_root().obj.get("json"))


def print_json(report: object) -> None:
    """Print ``report``, a struct or several, on stdout."""
    click.echo(json.dumps(json_value(report), indent=2, allow_nan=False))


def print_text(text: str) -> None:
    """Print lines for people; each ends with a line break."""
    click.echo(printable(text), nl=False)


def say(text: str) -> None:
    if not is_quiet():
        print_text(f"{text}\n")
