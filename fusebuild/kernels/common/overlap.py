"""Launches that overlap: each kernel begins while the one before it ends, and some of them earlier.

A launch that overlaps (CUDA's programmatic dependent launch) spares the time between two kernels: about 1 us behind
one of ours, 0.1 us behind one of torch's (H100, 2026-11-27). Its kernel **waits**, every thread of it, before it reads
or writes global memory, until the kernel before has ended and all that it wrote is seen. Every kernel waits, and every
launch overlaps, the first one of a plan as well. So whatever ran before has ended, too: what is before the kernel
before either waits in its turn, or was launched to begin when all before it had ended. That holds for kernels of
others: one that is launched to overlap and reads or writes memory has to wait itself, whoever wrote it. What any of
them wrote is seen then, and may be overwritten: intermediates that share workspace, and inputs that are overwritten in
place, need no more than that.

What a kernel reads must not be declared ``const T* __restrict__``: a compiler takes it for constant while the kernel
runs and may load it before the kernel waits.

By itself the next kernel begins when all blocks of this one have ended. It may **start early**, as soon as all of them
have begun and some leave room: it takes no place from them, since all have one. That is good where its blocks are many,
one after another, or very short. It is not where they are as many as the GPU has places and stay: those that free early
would take more than their share, and work longer than the others. Behind a plan's last kernel nothing starts early, for
nobody knows what comes. (H100, 2026-11-27: of 73 random sizes, each called one after another, 27 took up to a quarter
less when it did, and 8 up to a quarter more; silu_mul of 64 x 4096 took 2.8 us instead of 2.2, and between kernels of
torch's 3.0 instead of 2.1.)

    CUDA C++ Programming Guide, "Programmatic Dependent Launch and Synchronization"; PTX ISA, "griddepcontrol".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from fusebuild.kernels.common.family import Family, Runs
from fusebuild.kernels.common.spec import LaunchSpec, VariantSpec


def starting_next_early(families: Sequence[Family]) -> list[bool]:
    """Whether the kernel after each of a plan's segments, whose ``families`` are given in run order, may start
    early."""
    running = [number for number, family in enumerate(families) if family.runs is not Runs.NOTHING]
    found = [False for _ in families]
    for number, following in pairwise(running):
        found[number] = families[number].runs is Runs.KERNELS and families[following].has_short_blocks
    return found


def overlapped(variant: VariantSpec, starts_next_early: bool) -> VariantSpec:
    """``variant`` with kernels that let the next one start early where its launch says that it does, and the last one
    where the segment ``starts_next_early``."""
    next_early = [*(launch.starts_early for launch in variant.launches[1:]), starts_next_early]
    return replace(variant, launches=tuple(map(_starting_next, variant.launches, next_early)))


def _starting_next(launch: LaunchSpec, early: bool) -> LaunchSpec:
    kernel = launch.kernel
    return replace(launch, kernel=replace(kernel, order=replace(kernel.order, starts_next_early=early)))
