"""Is an object file whole, and what is in it? 64-bit little-endian ELF, the format of cubins and shared objects.

A compiler on a full disk can exit 0 and leave a truncated object (measured with ``nvcc -cubin``), so nothing here
trusts a header: every offset is checked against the length of the data before it is followed.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

CUDA_MACHINE = 190
HOST_MACHINES = (62, 183)
"""x86-64 and AArch64."""

_HEADER = struct.Struct("<4sBBBB8xHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_ABI_VERSION, _CUDA_13 = 8, 8  # where it is, and the one whose flags are known
_SYMBOL_TABLES = (2, 11)  # SHT_SYMTAB, SHT_DYNSYM
_STRING_TABLE, _NO_BITS, _NULL = 3, 8, 0
_LOCAL_BINDING, _FILE_TYPE = 0, 4
_PROGRAM, _LOADED = 1, 2  # SHT_PROGBITS, SHF_ALLOC
_WITH_SIZE = 4  # EIFMT_SVAL: an attribute whose value is so many bytes, and not the two in the place of their number
_FUNCTION_AND_NUMBER = struct.Struct("<II")
_REGISTER_COUNT, _FRAME_SIZE = 0x2F, 0x11  # EIATTR_REGCOUNT, EIATTR_FRAME_SIZE
_PARAMETER = struct.Struct("<IHHI")  # EIATTR_KPARAM_INFO: an index, which parameter, its offset, its size and more
_PARAMETER_INFO, _PARAMETER_SIZE_SHIFT = 0x17, 18
_LARGE_PARAMETER_INFO = 0x45  # EIATTR_KPARAM_INFO_V2, of kernels with more than 4 KiB of them: the size alone
_RESERVES_SHARED, _RESERVED_SHARED = 90, 1024  # from which compute capability on sections of shared memory have more


class _NotWholeError(Exception):
    """The reason, as :func:`problem` returns it."""


def problem(data: bytes, *, cuda: bool, symbol: str = "") -> str:
    """Why ``data`` is no whole object that defines ``symbol``; empty when it is one.

    ``cuda`` says which machine to expect. An empty ``symbol`` is not looked for. A host object may define more than one
    function for a kernel, so there a name that contains ``symbol`` is enough.
    """
    try:
        symbols = _defined_symbols(data, (CUDA_MACHINE,) if cuda else HOST_MACHINES)
    except _NotWholeError as reason:
        return str(reason)
    exported = {name for name, binding in symbols if binding != _LOCAL_BINDING}
    if symbol and symbol not in exported and (cuda or not any(symbol in name for name in exported)):
        return f"it defines no symbol '{symbol}'"
    return ""


def compute_capability(data: bytes) -> int | None:
    """90 for code that was compiled for compute capability 9.0; None where the ABI is another than CUDA 13's, or the
    code is no GPU's. ``data`` must be whole."""
    header = _HEADER.unpack_from(data)
    machine, flags = header[6], header[11]
    return flags >> 8 & 0xFF if machine == CUDA_MACHINE and data[_ABI_VERSION] == _CUDA_13 else None


def path_dependent_symbol(data: bytes) -> str:
    """A device function with internal linkage that outlived inlining, or an empty string.

    Its mangled name carries a hash of the directory it was compiled in, and so makes the object's bytes depend on it.
    ``data`` must be whole.
    """
    return next((name for name, _ in sorted(_defined_symbols(data, (CUDA_MACHINE,))) if "_INTERNAL_" in name), "")


def loaded_sections(data: bytes) -> tuple[bytes, ...]:
    """The contents of the sections of ``data`` that a program runs or reads: instructions and constants, and no names.

    Two kernels that have the same, and as many registers, do the same in the same time. ``data`` must be whole.
    """
    sections = [section for _, section in _sections(data)]
    return tuple(_contents(data, each) for each in sections if each[1] == _PROGRAM and each[2] & _LOADED)


class CubinResources(NamedTuple):
    """Registers of a thread, bytes of static shared memory of a block, and bytes of local memory of a thread, the most
    of any function."""

    registers: int
    shared: int
    local: int


def cubin_resources(data: bytes) -> CubinResources | None:
    """What the kernels of the cubin ``data`` take of the chip; None where it does not say so in a way that is known.
    ``data`` must be whole."""
    capability = compute_capability(data)
    if capability is None:
        return None
    found: dict[int, list[int]] = {_REGISTER_COUNT: [], _FRAME_SIZE: []}
    shared = 0
    for name, section in _sections(data):
        if name == ".nv.info":
            for attribute, value in _attributes(_contents(data, section)):
                if len(value) == _FUNCTION_AND_NUMBER.size:
                    found.setdefault(attribute, []).append(_FUNCTION_AND_NUMBER.unpack(value)[1])
        elif name.startswith(".nv.shared.") and not name.startswith(".nv.shared.reserved."):
            reserved = _RESERVED_SHARED if capability >= _RESERVES_SHARED else 0
            shared += max(0, section[5] - reserved)
    if not found[_REGISTER_COUNT] or not found[_FRAME_SIZE]:
        return None
    return CubinResources(registers=max(found[_REGISTER_COUNT]), shared=shared, local=max(found[_FRAME_SIZE]))


def parameter_sizes(data: bytes, kernel: str) -> tuple[int, ...] | None:
    """The bytes of each parameter of ``kernel``, in order; None where the cubin ``data`` does not say so in a way that
    is known. ``data`` must be whole."""
    if compute_capability(data) is None:
        return None
    infos = (section for name, section in _sections(data) if name == f".nv.info.{kernel}")
    return next((_parameter_sizes(_contents(data, section)) for section in infos), None)


def _parameter_sizes(info: bytes) -> tuple[int, ...]:
    shifts = {_PARAMETER_INFO: _PARAMETER_SIZE_SHIFT, _LARGE_PARAMETER_INFO: 0}
    found = [
        (_PARAMETER.unpack(value), shifts[attribute])
        for attribute, value in _attributes(info)
        if attribute in shifts and len(value) == _PARAMETER.size
    ]
    return tuple(sizes >> shift for (_, _, _, sizes), shift in sorted(found, key=lambda each: each[0][1]))


def _contents(data: bytes, section: tuple[int, ...]) -> bytes:
    return data[section[4] : section[4] + section[5]]


def _sections(data: bytes) -> Iterator[tuple[str, tuple[int, ...]]]:
    """The sections of ``data``, which must be whole, by name."""
    header = _HEADER.unpack_from(data)
    table = list(_entries(data, _SECTION, header[10], header[16]))
    for section in table:
        start = table[header[17]][4] + section[0]
        yield data[start : max(start, data.find(b"\0", start))].decode("utf-8", "replace"), section


def _attributes(info: bytes) -> Iterator[tuple[int, bytes]]:
    """Kind and value of the attributes of a section ``.nv.info`` that have a value of so many bytes."""
    offset = 0
    while offset + 4 <= len(info):
        form, attribute, size = struct.unpack_from("<BBH", info, offset)
        offset += 4
        if form == _WITH_SIZE:
            yield attribute, info[offset : offset + size]
            offset += size


def _defined_symbols(data: bytes, machines: tuple[int, ...]) -> set[tuple[str, int]]:
    """Name and binding of all that the symbol tables define, after all bounds have been checked."""
    if len(data) < _HEADER.size:
        raise _NotWholeError(f"it is truncated: {len(data)} bytes hold no ELF header")
    header = _HEADER.unpack_from(data)
    magic, width, order, version, machine = *header[:4], header[6]
    segments, sections = header[9:11]
    segment_size, segment_count, section_size, section_count, names = header[13:]
    if magic != b"\x7fELF" or (width, order, version) != (2, 1, 1) or header[12] != _HEADER.size:
        raise _NotWholeError("it is not a 64-bit little-endian ELF file")
    if machine not in machines:
        raise _NotWholeError(f"it is made for ELF machine {machine}, expected {' or '.join(map(str, machines))}")
    for offset, entry_size, count, expected in (
        (segments, segment_size, segment_count, _SEGMENT),
        (sections, section_size, section_count, _SECTION),
    ):
        if count and entry_size != expected.size:
            raise _NotWholeError("its header tables have an unknown entry size")
        _check_range(data, offset, entry_size * count, "a header table")
    for fields in _entries(data, _SEGMENT, segments, segment_count):
        _check_range(data, fields[2], fields[5], "a segment")
    table = list(_entries(data, _SECTION, sections, section_count))
    if not table or not 0 < names < section_count or table[names][1] != _STRING_TABLE:
        raise _NotWholeError("it has no section names")
    for fields in table:
        if fields[1] not in (_NO_BITS, _NULL):
            _check_range(data, fields[4], fields[5], "a section")
    return {symbol for fields in table if fields[1] in _SYMBOL_TABLES for symbol in _table_symbols(data, table, fields)}


def _table_symbols(data: bytes, table: list[tuple[int, ...]], symbols: tuple[int, ...]) -> Iterator[tuple[str, int]]:
    offset, size, link, entry_size = symbols[4], symbols[5], symbols[6], symbols[9]
    if entry_size != _SYMBOL.size or link >= len(table) or table[link][1] != _STRING_TABLE:
        raise _NotWholeError("its symbol table is malformed")
    start, length = table[link][4], table[link][5]
    strings = data[start : start + length]
    for name, info, _, section, _, _ in _entries(data, _SYMBOL, offset, size // entry_size):
        if name >= length:
            raise _NotWholeError("its symbol table is malformed")
        if section and name and info & 15 != _FILE_TYPE:
            yield strings[name : strings.find(b"\0", name)].decode("utf-8", "replace"), info >> 4


def _entries(data: bytes, entry: struct.Struct, offset: int, count: int) -> Iterator[tuple[int, ...]]:
    return (entry.unpack_from(data, offset + index * entry.size) for index in range(count))


def _check_range(data: bytes, offset: int, size: int, what: str) -> None:
    if offset + size > len(data):
        raise _NotWholeError(f"it is truncated: {what} ends at byte {offset + size} of {len(data)}")
