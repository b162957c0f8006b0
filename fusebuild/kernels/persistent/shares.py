"""What each block has of a long row, and which of the ways to share one is the best."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

BYTES_IN_FLIGHT = 48 * 1024
"""Bytes of rows that a multiprocessor shall have at a time."""

FEW_BLOCKS = 2
"""Blocks on a multiprocessor, at least: one loads and stores while another one reduces."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What each of ``cluster`` blocks of ``per_row`` threads has of a row, in ``bytes`` of what is kept of it.
    ``blocks`` of them have room on a multiprocessor. There are ``walkers`` where they stay and walk many rows, the next
    one loaded ``ahead`` or not, else 0."""

    cluster: int
    per_row: int
    bytes: int
    blocks: int
    walkers: int
    ahead: bool

    def preference(self) -> tuple[int, ...]:
        """Less for shares that are better: several blocks on a multiprocessor, enough bytes for it, none that stay and
        wait for the next row, then few blocks to wait for and few threads."""
        has_too_few = self.blocks * self.bytes < BYTES_IN_FLIGHT
        waits = self.walkers > 0 and not self.ahead
        return self.blocks < FEW_BLOCKS, has_too_few, waits, self.cluster, self.per_row

    @property
    def threads(self) -> int:
        """Those of all walkers."""
        return self.walkers * self.cluster * self.per_row


def best_share(shares: Sequence[Share]) -> Share | None:
    """The best of ``shares``, if there are any. Pairs of blocks run on all multiprocessors, each of which may have one:
    they are better where that makes more threads. (H200, layernorm of 50257 columns: 56 walkers of 4 blocks of 256
    threads take 149 us, 64 of 2 of 512 take 140; of 33001 columns 88 of the first take 142, 64 of the others 155.)"""
    best = min(shares, key=Share.preference, default=None)
    pairs = [share for share in shares if share.cluster == 2 and share.ahead]
    pair = min(pairs, key=Share.preference, default=None)
    return pair if best and pair and best.threads < pair.threads and best.ahead else best
