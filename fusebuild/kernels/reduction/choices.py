"""What may be tuned of a reduction: its blocks, and what each of their threads loads at a time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from fusebuild.kernels.common.choice import Choice, fewer_blocks


@dataclass(frozen=True, slots=True, kw_only=True)
class InnerChoice(Choice):
    """Blocks of ``threads``, each of which loads ``unroll`` vectors before it uses one. Where rows are few, so many
    share them that each multiprocessor has ``blocks``; it shall have the registers of ``min_blocks``."""

    FEWER = ("unroll", "threads")

    threads: int
    unroll: int
    blocks: int
    min_blocks: int

    def stepped(self, knob: str, value: int) -> Self:
        """A multiprocessor has the registers of as many threads as before."""
        changed = replace(self, **{knob: value})
        if knob == "min_blocks":
            return changed
        return replace(changed, min_blocks=fewer_blocks(self.min_blocks, self.threads, changed.threads))


@dataclass(frozen=True, slots=True, kw_only=True)
class OuterChoice(InnerChoice):
    """As :class:`InnerChoice` for columns. ``block_y`` threads of a block share columns, or more where there are not
    columns enough for the others."""

    block_y: int
