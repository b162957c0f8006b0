"""A zip that has exactly one spelling: stored members, sorted names, fixed dates and permissions, nothing else.

Any zip tool reads it. :func:`decode` accepts only what :func:`encode` writes, byte for byte, so truncation, junk before
or after, and a flip of any bit outside the members' data are all found here; CRCs find the rest.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping

_LOCAL = struct.Struct("<4sHHHHHIIIHH")
_CENTRAL = struct.Struct("<4sBBHHHHHIIIHHHHHII")
_END = struct.Struct("<4sHHHHIIH")
_DATE_1980_01_01 = 0x21
_VERSION = 20
_UNIX = 3
_REGULAR_FILE_0644 = 0o100644 << 16

MAGIC = b"PK\3\4"
"""What every archive begins with."""

MAX_BYTES = 2**31 - 1
"""The largest archive; an artifact is some hundred KiB, so this only bounds memory and keeps clear of zip64."""


class ArchiveError(Exception):
    """Why some bytes are not one of our archives, or its members no artifact; ``member`` is empty when the archive
    itself is at fault."""

    def __init__(self, reason: str, member: str = "") -> None:
        self.reason, self.member = reason, member
        super().__init__(reason)


def encode(members: Mapping[str, bytes]) -> bytes:
    """The archive of ``members``, names in ASCII. Raises :class:`ArchiveError` when it would be too large."""
    if len(members) > 0xFFFF or sum(map(len, members.values())) + 256 * len(members) > MAX_BYTES:
        raise ArchiveError("too many or too large members for one artifact")
    bodies, directory, offset = [], [], 0
    for name in sorted(members):
        data, stored_name = members[name], name.encode("ascii")
        crc, size = zlib.crc32(data), len(data)
        local = _LOCAL.pack(
            MAGIC, _VERSION, 0, 0, 0, _DATE_1980_01_01, crc, size, size, len(stored_name), 0
        )  # fmt: skip
        directory += [
            _CENTRAL.pack(
                b"PK\1\2", _VERSION, _UNIX, _VERSION, 0, 0, 0, _DATE_1980_01_01, crc, size, size,
                len(stored_name), 0, 0, 0, 0, _REGULAR_FILE_0644, offset,
            ),
            stored_name,
        ]  # fmt: skip
        bodies += [local, stored_name, data]
        offset += len(local) + len(stored_name) + size
    size = sum(map(len, directory))
    end = _END.pack(b"PK\5\6", 0, 0, len(members), len(members), size, offset, 0)
    return b"".join([*bodies, *directory, end])


def decode(data: bytes) -> dict[str, bytes]:
    """The members of the archive ``data``. Raises :class:`ArchiveError` unless it is what :func:`encode` writes."""
    if data[:4] != MAGIC:
        raise ArchiveError("it is not a zip file" if data else "it is empty")
    if len(data) < _END.size or data[-_END.size :][:4] != b"PK\5\6":
        raise ArchiveError("it is truncated, or something follows the end of the zip")
    _, _, _, _, count, size, start, _ = _END.unpack_from(data, len(data) - _END.size)
    if start + size + _END.size != len(data):
        raise ArchiveError("the zip directory does not fit the file: it is truncated or has something before it")
    members: dict[str, bytes] = {}
    position = start
    for _ in range(count):
        name, body, position = _read_entry(data, position, start)
        if name in members:
            raise ArchiveError("it occurs twice", name)
        members[name] = body
    if encode(members) != data:
        raise ArchiveError("its zip headers are damaged, or another tool rewrote it")
    return members


def _read_entry(data: bytes, position: int, directory: int) -> tuple[str, bytes, int]:
    """One directory entry: name, data and the position of the next entry."""
    if position + _CENTRAL.size > len(data) - _END.size or data[position : position + 4] != b"PK\1\2":
        raise ArchiveError("the zip directory is damaged")
    fields = _CENTRAL.unpack_from(data, position)
    flags, method, crc, packed, size, name_size = fields[4], fields[5], fields[8], fields[9], fields[10], fields[11]
    extra_size, comment_size, offset = fields[12], fields[13], fields[17]
    stored_name = data[position + _CENTRAL.size : position + _CENTRAL.size + name_size]
    if not stored_name.isascii():
        raise ArchiveError("a member's name is not ASCII")
    name = stored_name.decode("ascii")
    if flags & 1:
        raise ArchiveError("it is encrypted", name)
    if method or packed != size:
        raise ArchiveError("it is compressed; members are stored", name)
    body_start = offset + _LOCAL.size + name_size
    if body_start + size > directory:
        raise ArchiveError("it does not fit the file", name)
    body = data[body_start : body_start + size]
    if zlib.crc32(body) != crc:
        raise ArchiveError("its CRC does not fit its data", name)
    return name, body, position + _CENTRAL.size + name_size + extra_size + comment_size
