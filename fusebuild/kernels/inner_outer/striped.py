"""Odd rows that follow each other, as those of a sample do, of which each thread has the same columns.

A block, or each block of a cluster its part, copies a row to shared memory as it lies, by the aligned vectors around
it. A thread takes single elements there, as many apart as threads share the row, so that no bank has two of a warp's:
its columns are the same wherever rows begin, nothing is moved over, and it keeps nothing but sums and what stays for
them. The result takes the place of an input there, and goes out by aligned vectors.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator

from fusebuild.kernels.common.registers import Registers
from fusebuild.kernels.common.rows import WARP, rows_beside
from fusebuild.kernels.inner_outer.shape import InnerOuterChoice

RUNGS = (512, 1280, 2560, 5120, 10240, 20480, 40960, 131072)
"""Elements of the longest rows of a kernel of its own: 20 columns of each thread, with which ptxas 13.0 spills nothing
of adaln's backward pass, 4 of the shortest, and 32 of the longest. A thread leaves out what its block has no columns
for, but has registers for them: 111 x 2407 x 303 took 321 us on the rung of 1280 and 206 on that of 512. What each row
costs it beside its columns is as much as ten of them or more. (H100, adaln's backward pass, 40 x 300 x 5003: 0.39 of a
copy's bandwidth with five columns for each thread of four blocks, where 100 x 500 x 1001 had 0.78 with 16.)"""
TOGETHER = 4
"""Elements that a thread works on together, but for the longest rows, which leave it registers for one."""
STRIPED = Registers(most=224, base=32)
"""Registers beside what a thread keeps for its columns, at least; it gains from more, in which it keeps rows."""
BLOCK = 128
"""Threads of a block whose rows ask for fewer."""
THREADS = (WARP, 64, 128, 256, 512)
"""Threads of a block that may share a row."""
MULTIPROCESSOR_THREADS = 512
"""Threads on a multiprocessor whose warps hide each other's waits. More would have too few registers."""


def choices(clusters: Iterable[int], stages: int) -> Iterator[InnerOuterChoice]:
    """All, by blocks or by ``clusters`` of so many: no two rows share a warp, and the next ones wait in shared memory,
    as many groups of them as there are ``stages``."""
    for per_row, cluster in itertools.product(THREADS, clusters):
        yield InnerOuterChoice(
            threads_per_row=per_row, cluster=cluster, rows_per_block=rows_beside(per_row, BLOCK), at_once=1,
            stages=stages, unpacks=True, min_blocks=1,
        )  # fmt: skip


def together(elements: int) -> int:
    """So many elements of rows that are as long as that."""
    return TOGETHER if elements <= RUNGS[-2] else 1


def most_blocks(choice: InnerOuterChoice) -> int:
    """The blocks of a multiprocessor beyond which more gain nothing."""
    return max(1, MULTIPROCESSOR_THREADS // choice.threads.block)


def preference(choice: InnerOuterChoice) -> tuple[int, ...]:
    """Less for choices that are faster, as predicted: enough threads, in blocks that do not all wait at once, then few
    that have to meet, with many columns each."""
    blocks = choice.min_blocks
    is_thin = blocks * choice.threads.block < MULTIPROCESSOR_THREADS
    return (is_thin, blocks == 1, choice.cluster, choice.threads_per_row)


def places_of_outputs(
    outputs: Iterable[int], inputs: Iterable[int], bytes_of: Callable[[Iterable[int]], int]
) -> Iterator[tuple[int, int]]:
    """``(output, input)`` for outputs that are as wide as an input on chip, and may lie in its place; no two share
    one."""
    free = [*inputs]
    for fid in outputs:
        same = [each for each in free if bytes_of([each]) == bytes_of([fid])]
        if same:
            free.remove(same[0])
            yield fid, same[0]
