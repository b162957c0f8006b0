"""What of nvFuser's Python frontend a definition takes, as tables for ``docs/guide/nvfuser_ops.md``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from fusebuild.definition.nvfuser import DEFINITION_CALLS, OP_CALLS, NvfuserCall, Support


def nvfuser_tables() -> str:
    """The count, then a table of the ops and one of what a definition may be asked."""
    parts = [
        ("## Ops", [f"{share(OP_CALLS)} {counts(OP_CALLS)}", "", *_table("`fd.ops`", OP_CALLS)]),
        ("## Definitions", [counts(DEFINITION_CALLS), "", *_table("`fd`", DEFINITION_CALLS)]),
    ]
    return "\n\n".join("\n".join([title, "", *lines]) for title, lines in parts) + "\n"


def share(calls: Sequence[NvfuserCall]) -> str:
    """The part of ``calls`` that is taken, in percent rounded down."""
    whole = sum(each.support is Support.YES for each in calls)
    named = sum(each.support is not Support.NO for each in calls)
    return (
        f"{100 * whole // len(calls)} % of nvFuser's ops are taken with every argument, "
        f"{100 * named // len(calls)} % with all or all but some."
    )


def counts(calls: Sequence[NvfuserCall]) -> str:
    """How many of ``calls`` there are of each kind of support."""
    found = Counter(each.support for each in calls)
    return f"Of {len(calls)}: {', '.join(f'{support.value} {found[support]}' for support in Support)}."


def _table(title: str, calls: Sequence[NvfuserCall]) -> Iterator[str]:
    yield f"| {title} | taken | what is missing, and what to do |"
    yield "|---|---|---|"
    for each in calls:
        yield f"| `{each.signature}` | {each.support.value} | {each.lacks} |"
