"""Kernels that begin while the one before them ends: which do, and what they must not do before that one has ended.

A launch that overlaps (CUDA's programmatic dependent launch) spares the time between two kernels. Its kernel **waits**,
every thread of it, before it reads or writes global memory, until the kernel before has ended and all that it wrote is
seen. As each waits for the one before it, what any of them wrote is seen then, and may be overwritten: intermediates
that share workspace, and inputs that are overwritten in place, need no more than that. Two launches never overlap what
is before them: the first one of a plan, since foreign kernels wait for nothing, and one after a library's call, since
nobody says that libraries' kernels all wait.

What kernels before may still write must not be read through ``const T* __restrict__``: a compiler takes it for constant
while the kernel runs and may load it before the kernel waits. What nobody writes, the inputs of a plan, may be loaded
whenever.

By itself the next kernel begins when all blocks of this one have ended. It may **start early**, as soon as all of them
have begun and some leave room: it takes no place from them, since all have one. That is good where its blocks are many,
one after another, or very short. It is not where they are as many as the GPU has places and stay: those that free early
would take more than their share, and work longer than the others.

    CUDA C++ Programming Guide, "Programmatic Dependent Launch and Synchronization"; PTX ISA, "griddepcontrol".
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from fusebuild.artifact.plan import TensorArg
from fusebuild.kernels.common.family import Family, Runs
from fusebuild.kernels.common.spec import KernelParameter, KernelSpec, LaunchSpec, VariantSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class RunsBeside:
    """What runs before and after a segment: whether a kernel does that it ``follows``, and whether the kernel after it
    may start early."""

    follows: bool = False
    starts_next_early: bool = False


def runs_beside(families: Sequence[Family]) -> list[RunsBeside]:
    """What runs before and after each of a plan's segments, whose ``families`` are given in run order."""
    running = [number for number, family in enumerate(families) if family.runs is not Runs.NOTHING]
    found = [RunsBeside() for _ in families]
    for number, following in pairwise(running):
        if Runs.LIBRARY in (families[number].runs, families[following].runs):
            continue
        found[number] = replace(found[number], starts_next_early=families[following].has_short_blocks)
        found[following] = replace(found[following], follows=True)
    return found


def overlapped(variant: VariantSpec, around: RunsBeside, written: Collection[int]) -> VariantSpec:
    """``variant`` with launches that overlap those before them, also across segments. ``written`` are the values of its
    task that kernels before it write; the launches after its own first one overlap where the scheduler says so."""
    launches = list[LaunchSpec]()
    for number, launch in enumerate(variant.launches):
        following = variant.launches[number + 1 : number + 2]
        overlaps = launch.overlaps or (number == 0 and around.follows)
        order = replace(
            launch.kernel.order,
            waits=overlaps,
            starts_next_early=any(each.overlaps for each in following) if following else around.starts_next_early,
        )
        kernel = replace(launch.kernel, order=order)
        launches.append(replace(launch, overlaps=overlaps, kernel=reading(kernel, written) if overlaps else kernel))
    return replace(variant, launches=tuple(launches))


def reading(kernel: KernelSpec, written: Collection[int]) -> KernelSpec:
    """``kernel``, which waits for those that write the values ``written``."""
    return replace(kernel, parameters=tuple(_changing(each, written) for each in kernel.parameters))


def _changing(parameter: KernelParameter, written: Collection[int]) -> KernelParameter:
    """``parameter`` as a pointer to what may change while the kernel runs, if it is one to a value of ``written``."""
    pointer, arg = parameter.pointer, parameter.arg
    if pointer is None or not pointer.const or not isinstance(arg, TensorArg) or arg.fid not in written:
        return parameter
    return replace(parameter, pointer=replace(pointer, restrict=False))
