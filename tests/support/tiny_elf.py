"""Objects that hold nothing but a symbol."""

from __future__ import annotations

import struct

CUDA, X86_64 = 190, 62
"""ELF machines."""


def tiny_elf(machine: int, symbol: str) -> bytes:
    """The smallest object that our checks take for whole: section names, strings, and one defined symbol."""
    strings = b"\0" + symbol.encode() + b"\0"
    symbols = struct.pack("<IBBHQQ", 0, 0, 0, 0, 0, 0) + struct.pack("<IBBHQQ", 1, 0x12, 0, 1, 0, 0)
    names = b"\0.text\0.strtab\0.symtab\0.shstrtab\0"
    body, sections, offset = b"", [(0, 0, 0, 0, 0, 0)], 64
    for name, kind, data, link, entry in (
        (1, 1, b"\x90" * 16, 0, 0),
        (7, 3, strings, 0, 0),
        (15, 2, symbols, 2, 24),
        (23, 3, names, 0, 0),
    ):
        sections.append((name, kind, offset + len(body), len(data), link, entry))
        body += data
    table = b"".join(
        struct.pack("<IIQQQQIIQQ", name, kind, 0, 0, start, size, link, 0, 1, entry)
        for name, kind, start, size, link, entry in sections
    )
    header = struct.pack(
        "<4sBBBB8xHHIQQQIHHHHHH", b"\x7fELF", 2, 1, 1, 0, 2, machine, 1, 0, 0, offset + len(body), 0, 64, 0, 0, 64, 5, 4
    )
    return header + body + table
