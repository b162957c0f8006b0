"""What a compiled kernel takes of the chip: what ptxas says, what a manifest keeps of it, and words for people."""

from __future__ import annotations

import re
from typing import Annotated

import msgspec
from msgspec import Meta

from fusebuild.artifact import elf

Count = Annotated[int, Meta(ge=0)]
ThreadBytes = Annotated[int, Meta(ge=0, description="of a thread")]


class KernelResources(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a kernel takes of a chip: registers of a thread; all others in bytes.

    ``spill_stores`` and ``spill_loads`` are bytes that move because registers ran out. ``stack`` is all of the local
    memory: what spills, and arrays that are indexed at run time or passed by address.
    """

    registers: Count
    shared: Annotated[int, Meta(ge=0, description="static shared memory of a block")]
    stack: ThreadBytes
    spill_stores: ThreadBytes
    spill_loads: ThreadBytes

    @property
    def spills(self) -> int:
        """Bytes spilled, stored and loaded."""
        return self.spill_stores + self.spill_loads


def resources_of(log: str, cubin: bytes) -> KernelResources | None:
    """What the kernels of ``cubin`` take, as ptxas says in ``log``; where it says nothing, as the cubin does.

    A cubin has its registers and its local memory. Spills lie in local memory: where there is none, nothing spills.
    Where there is some and nobody says what it is for, and where the two differ, it is not known, and None.
    """
    said, held = parse_resources(log), elf.cubin_resources(cubin)
    if said is not None:
        return said if held is None or bool(held.local) == bool(said.stack) else None
    if held is None or held.local:
        return None
    return KernelResources(registers=held.registers, shared=held.shared, stack=0, spill_stores=0, spill_loads=0)


def parse_resources(log: str) -> KernelResources | None:
    """The sums over all functions in ``ptxas -v``'s output; None when it does not report registers and spills."""
    registers = [int(count) for count in re.findall(r"Used (\d+) registers", log)]
    if not registers or not re.search(r"\d+ bytes spill stores, \d+ bytes spill loads", log):
        return None

    def total(what: str) -> int:
        return sum(int(count) for count in re.findall(rf"(\d+) bytes {what}", log))

    return KernelResources(
        registers=max(registers),
        shared=total("smem"),
        stack=total("stack frame"),
        spill_stores=total("spill stores"),
        spill_loads=total("spill loads"),
    )


def resources_text(resources: KernelResources) -> str:
    """``resources`` in words: ``40 registers, 4,224 bytes shared``. What is none is left out."""
    words = [f"{resources.registers} registers"]
    if resources.shared:
        words.append(f"{resources.shared:,} bytes shared")
    if resources.stack:
        words.append(f"{resources.stack:,} bytes of local memory")
    if resources.spills:
        words.append(f"spills {resources.spill_stores:,} bytes out and {resources.spill_loads:,} in")
    return ", ".join(words)
