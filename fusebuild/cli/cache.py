"""``fusebuild cache``."""

from __future__ import annotations

import os

import click

from fusebuild.cli.output import Answer, say
from fusebuild.cli.verb import Verb


@click.command(cls=Verb, report="fusebuild.report.cache:CacheReport")
@click.option("--prune", is_flag=False, flag_value="", metavar="[SIZE]",
              help="Remove compiled objects, those first that were not used for longest, until there are at most SIZE "
                   "bytes, such as 500M or 0 (default: the limit).")  # fmt: skip
def cache(prune: str | None) -> Answer:
    """Show what the cache holds, or prune it.

    Compiled objects are kept there, so that none is compiled twice, up to FUSEBUILD_CACHE_BYTES (default: 2G); after a
    build that compiled something those go that were not used for longest. Removing any of it only makes builds slower.
    """
    from fusebuild.report.cache import cache_report

    report = cache_report(os.environ, prune)
    return Answer(report=report, tell=lambda: say(report.as_text()))
