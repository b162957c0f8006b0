"""What all verbs have in common: how much they say, and how ``--json`` says errors."""

from __future__ import annotations

import logging
import sys
from copy import copy
from pathlib import Path
from pkgutil import resolve_name
from types import GenericAlias
from typing import Any

import click

from fusebuild.cli.output import Answer, print_json, wants_json
from fusebuild.cli.streams import printable
from fusebuild.errors import FusebuildError, UsageError, one_line
from fusebuild.system.failure import failure_report


class PrintableFormatter(logging.Formatter):
    """Log lines that no terminal obeys; paths among what they tell of stay on their line."""

    def format(self, record: logging.LogRecord) -> str:
        shown = copy(record)
        if isinstance(record.args, tuple):
            shown.args = tuple(one_line(each) if isinstance(each, Path) else each for each in record.args)
        return printable(super().format(shown))


def log_handler() -> logging.Handler:
    """Log lines on stderr: fusebuild's own, and what others warn of."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(PrintableFormatter("%(name)s: %(message)s"))
    handler.addFilter(lambda record: record.levelno >= logging.WARNING or record.name.partition(".")[0] == "fusebuild")
    return handler


def _set_loudness(context: click.Context, parameter: click.Parameter, value: bool | int) -> None:
    """``-q`` and ``-v`` count before the verb and after it alike."""
    state = context.find_root().ensure_object(dict)
    name = parameter.name or ""
    state[name] = state.get(name, 0) + value
    verbose = state.get("verbose", 0)
    level = logging.DEBUG if verbose > 1 else logging.INFO if verbose else logging.WARNING
    logging.getLogger().setLevel(logging.ERROR if state.get("quiet") else level)


def loudness() -> list[click.Parameter]:
    """The options ``-q`` and ``-v``."""
    return [
        click.Option(["-q", "--quiet"], is_flag=True, expose_value=False, callback=_set_loudness,
                     help="Say only what went wrong."),
        click.Option(["-v", "--verbose"], count=True, expose_value=False, callback=_set_loudness,
                     help="Say each step and why it is done; twice for the commands of compilers, too."),
    ]  # fmt: skip


def _set_json(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    context.find_root().ensure_object(dict)["json"] = value


class Verb(click.Command):
    """A verb: it takes ``-q`` and ``-v`` too, and ``--json``, with which its errors are a report on stdout as well. Its
    function returns an :class:`~fusebuild.cli.output.Answer`, which is printed here.

    ``report`` is the type of what ``--json`` prints, from which its schema is made; None for a verb without ``--json``.
    A verb that has an option ``--json`` of its own gets no other one.
    Where importing the type takes time, ``report`` is its name: ``package.module:Type``, a ``list[...]`` of one, or
    several of these with `` | `` between them.
    """

    def __init__(self, *arguments: Any, report: Any = None, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.report = report
        self.prints_json = report is not None and not any("--json" in each.opts for each in self.params)
        if self.prints_json:
            self.params.append(click.Option(["--json"], is_flag=True, expose_value=False, callback=_set_json,
                                            help="Print a JSON report on stdout."))  # fmt: skip
        self.params += loudness()

    def report_types(self) -> tuple[Any, ...]:
        """The type that ``report`` is, or those that it names."""
        if not isinstance(self.report, str):
            return (self.report,)
        return tuple(map(_named_type, self.report.split(" | ")))

    def make_context(self, info_name: str | None, args: list[str], *more: Any, **extra: Any) -> click.Context:
        """The options that were given; what is wrong with them is an error as others are."""
        as_json = "--json" in args and self.prints_json
        try:
            return super().make_context(info_name, args, *more, **extra)
        except click.UsageError as error:
            if as_json:
                print_json(failure_report(UsageError(error.format_message())))
            raise

    def invoke(self, ctx: click.Context) -> None:
        try:
            answer = super().invoke(ctx)
        except FusebuildError as error:
            if wants_json():
                print_json(failure_report(error))
            raise
        if isinstance(answer, Answer):
            answer.give()


def _named_type(name: str) -> Any:
    """The type called ``name``: ``package.module:Type``, or ``list[package.module:Type]``."""
    item = name.removeprefix("list[").removesuffix("]")
    found = resolve_name(item)
    return found if item == name else GenericAlias(list, found)
