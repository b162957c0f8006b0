"""Rows in blocks that stay: how much of a row a block has, how many rows are on their way to it, how many blocks there
are.

A multiprocessor that has one long row, or a few, has no loads in flight while it reduces and stores them, unless it has
begun to copy the next ones. By Little's law an H200 wants about 48 KB on their way to each multiprocessor at all times.
So a block has room in shared memory for its share of the next rows, while that of the row at hand is in registers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fusebuild.schedule.rows import MAX_THREADS, WARP, RowThreads, next_power_of_two, row_threads
from fusebuild.target import Target

STAGED_ROW_BYTES = 32 * 1024
"""Bytes of a row's inputs from which blocks stay: a multiprocessor has many shorter ones, which do not all wait."""

SHARE_BYTES = 64 * 1024
"""Bytes of a row that one block keeps, where so many blocks may be in a cluster."""

THREAD_BYTES = 128
"""Bytes of a row that a thread keeps, a quarter of its registers where there are ``THREADS``; twice as many at most."""

THREADS = 512
"""Threads on a multiprocessor, which leaves each 128 registers."""

STAGES = 2
"""Rows on their way, where shared memory has room for so many."""

COPIED_BYTES = (4, 8, 16)
"""What can be copied to shared memory while threads go on, aligned to its size; wider vectors are several such."""

RESERVED_BYTES = 2048
"""Shared memory that a block takes beside what a row and its reductions do."""

SYSTEM_BYTES = 1024
"""Shared memory of a multiprocessor that each block on it takes unasked, and that is not in what one block may use."""

CLUSTER_BUFFER_BYTES = 8 * 1024
"""What partial results of one reduction may take, one of each warp of a cluster: cluster.cuh's kClusterBufferBytes."""

PARTIAL_BYTES = 8
"""Bytes of a partial result at most, and of each part of a lambda's state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What one of ``cluster`` blocks of ``threads`` has of a row: ``chunks`` vectors of each input to a thread, which
    take ``bytes``; together they hold rows of ``held`` elements. ``reserved`` bytes of shared memory are for other
    things."""

    threads: RowThreads
    cluster: int
    chunks: int
    bytes: int
    held: int
    reserved: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedRows:
    """Rows of ``size`` elements on ``target``: a vector of ``vec`` elements of each input takes ``vector_bytes``, and
    each reduction exchanges so many ``parts``."""

    target: Target
    size: int
    vec: int
    vector_bytes: int
    parts: tuple[int, ...]

    @property
    def bytes(self) -> int:
        """Bytes of one row of each input."""
        return -(-self.size // self.vec) * self.vector_bytes

    def share(self, threads: RowThreads, cluster: int) -> Share:
        """What a block has of a row; less than all of it where its threads have no registers for more."""
        vectors = -(-self.size // (cluster * threads.per_row * self.vec))
        half_of_registers = 4 * self.target.registers // (2 * threads.per_row)
        most = min(2 * THREAD_BYTES, half_of_registers) // self.vector_bytes
        chunks = min(max(1, most), next_power_of_two(vectors))
        slots = cluster * next_power_of_two(-(-threads.per_row // WARP))
        return Share(
            threads=threads,
            cluster=cluster,
            chunks=chunks,
            bytes=threads.per_row * chunks * self.vector_bytes,
            held=cluster * threads.per_row * chunks * self.vec,
            # Reductions take turns with two buffers, whose sizes are powers of two.
            reserved=RESERVED_BYTES + 2 * sum(next_power_of_two(PARTIAL_BYTES * slots * part) for part in self.parts),
        )

    def exchanges(self, share: Share) -> bool:
        """Whether the partial results of each reduction, one of each warp of a cluster, have room where they meet."""
        slots = share.cluster * share.threads.per_row // WARP
        return share.cluster == 1 or PARTIAL_BYTES * max(self.parts) * slots <= CLUSTER_BUFFER_BYTES

    def stages(self, share: Share, blocks: int) -> int:
        """The rows for whose shares there is shared memory where so many ``blocks`` are on a multiprocessor."""
        available = (self.target.shared_bytes + SYSTEM_BYTES) // blocks - SYSTEM_BYTES
        return max(0, available - share.reserved) // share.bytes

    def shares(self) -> Iterator[Share]:
        """What blocks may have, from as few of them as ``SHARE_BYTES`` allows."""
        cluster = min(self.target.cluster, next_power_of_two(-(-self.bytes // SHARE_BYTES)))
        while cluster <= self.target.cluster:
            wanted = max(1, THREAD_BYTES // self.vector_bytes)
            threads = row_threads(-(-self.size // cluster), self.vec, wanted, MAX_THREADS)
            share = self.share(RowThreads(per_row=max(WARP, threads.per_row), rows=1), cluster)
            if share.held >= self.size and self.exchanges(share):
                yield share
            cluster *= 2

    def best(self) -> Share | None:
        """The first of them that leaves room for the most rows on their way, ``STAGES`` at most; None where there is
        room for none."""
        shares = [share for share in self.shares() if self.stages(share, 1)]
        return max(shares, key=lambda share: min(STAGES, self.stages(share, 1)), default=None)

    def blocks(self, share: Share, stages: int) -> int:
        """Blocks on a multiprocessor that have room for so many rows on their way."""
        most = max(1, THREADS // share.threads.block)
        return max(blocks for blocks in range(1, most + 1) if blocks == 1 or self.stages(share, blocks) >= stages)


def walkers(target: Target, cluster: int, blocks: int) -> int:
    """Clusters (blocks, where ``cluster`` is 1) that run at a time where a multiprocessor has so many ``blocks``.

    More would begin when others end, with nothing on its way. All blocks of a cluster are in one GPC; two are on
    neighbouring multiprocessors, of which a GPC has a whole number of pairs.
    """
    groups = target.gpcs if cluster > 2 else 1
    return max(1, groups * (target.multiprocessors // groups * blocks // cluster))
