"""Work that is Python alone, of which a process does one thing at a time, shared by several processes."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TypeVar

from fusebuild.errors import FusebuildError

Item = TypeVar("Item")
Result = TypeVar("Result")

_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG of prctl


def processors() -> int:
    """How many of them this process may run on."""
    return len(os.sched_getaffinity(0))


def mapped(work: Callable[[Item], Result], items: Sequence[Item], *, processes: int) -> list[Result]:
    """``[work(item) for item in items]``, done by at most ``processes`` that are forked from this one.

    ``work``, ``items`` and results are pickled. What ``work`` raises for the first item that it fails for is raised
    here, by trying that item again: errors know more than pickles keep. A process that others can see half of the
    state of, because it has threads or torch, which does, is not forked: it does everything itself.
    """
    workers = min(processes, len(items))
    if workers < 2 or threading.active_count() > 1 or "torch" in sys.modules:
        return [work(item) for item in items]
    return _in_processes(work, items, workers)


def _in_processes(work: Callable[[Item], Result], items: Sequence[Item], workers: int) -> list[Result]:
    # These bring twenty modules, and most commands need no second process.
    from concurrent.futures import ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool
    from multiprocessing import get_context

    try:
        with ProcessPoolExecutor(workers, get_context("fork"), _follow_parent, (os.getpid(),)) as pool:
            with _interrupts_held():
                pool.submit(os.getpid)  # the first of all work is what the processes are forked for
            tried = list(pool.map(partial(_tried, work), items))
    except BrokenProcessPool:  # the system killed one: it is short of memory
        return [work(item) for item in items]
    return [work(item) if done is None else done[0] for item, done in zip(items, tried, strict=True)]


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Ctrl-C is heard when this is over: what Python runs around a fork drops the exception that it raises there."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _tried(work: Callable[[Item], Result], item: Item) -> tuple[Result] | None:
    try:
        return (work(item),)
    except FusebuildError:
        return None


def _follow_parent(parent: int) -> None:
    """End when the parent does: Ctrl-C is for it to hear, and should it be killed, nobody else would tell."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)  # it was killed before that
