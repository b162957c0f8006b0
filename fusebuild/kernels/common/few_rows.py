"""How threads walk rows that are too few for all multiprocessors: what counts then is how long one row takes.

Many threads share a row, and load all that they need of it at once. Where each has two vectors at most, it asks for
them before it knows whether they are in the row: loads then wait for nothing but addresses, and those of vectors beyond
the row, which take its last one again, cost less than a test before each would. With more vectors they cost more.
"""

from __future__ import annotations

from dataclasses import dataclass

FEW_ROWS_THREADS = 512
"""Threads that walk a row: many, each with little to do in turn."""

LOADED_BYTES = 192
"""Bytes of inputs that such a thread loads at once: nobody else needs its multiprocessor's registers."""

UNTESTED_VECTORS = 2
"""Vectors of each input that it loads without a test whether they are in the row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FewRows:
    """One way to walk them: ``chunks`` are the vectors of a row that a thread has, which are ``clamped`` where the load
    of one beyond the row takes the row's last one."""

    name: str
    chunks: int
    clamped: bool


def ways_of_few_rows(vector_bytes: int) -> tuple[FewRows, ...]:
    """From those for the shortest rows on; none where one vector of each input, ``vector_bytes`` of registers, is too
    much."""
    most = LOADED_BYTES // vector_bytes
    if not most:
        return ()
    chunks = 1 << (most.bit_length() - 1)
    clamped = FewRows(name="few_rows", chunks=min(chunks, UNTESTED_VECTORS), clamped=True)
    if chunks == clamped.chunks:
        return (clamped,)
    return (clamped, FewRows(name="few_long_rows", chunks=chunks, clamped=False))
