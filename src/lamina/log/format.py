"""The bytes of a segment: header, frame headers with their producer tables, footer. Pure; see docs/formats/segment.md.

Everything starts on a 64-byte boundary, so payloads can be mapped and re-based or merged without change.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from enum import IntEnum, IntFlag

import msgspec
from crc32c import crc32c

from lamina.errors import Corrupt

ALIGNMENT = 64
SEGMENT_HEADER_BYTES = 64
FRAME_HEADER_BYTES = 64
TRAILER_BYTES = 64
VERSION = 1
POSITION_MAX = 2**32 - 1
"""Positions and relative offsets are 32 bits wide in frames and in the offset index."""

SEGMENT_MAGIC = b"LAMINASG"
FRAME_MAGIC = b"LMFR"
TRAILER_MAGIC = b"LAMINAFT"
_PADDING = bytes(ALIGNMENT)

_SEGMENT = struct.Struct(">8sHH16s32xI")
_FRAME = struct.Struct(">4sBBHIIIIIIqqqI")
_CRC = struct.Struct(">I")
_TRAILER = struct.Struct(">8sQQ36xI")
_ENTRY_HEAD = struct.Struct(">H")
_ENTRY_TAIL = struct.Struct(">qII")


class Codec(IntEnum):
    """How a payload is written."""

    PACKED = 0
    ARROW = 1
    PRODUCERS = 2
    FOOTER = 3


class Flag(IntFlag):
    """Bits of a frame header."""

    MORE = 1
    """The append goes on in the next frame: neither counts without the other."""


class ProducerEntry(msgspec.Struct, frozen=True):
    """Which rows of a frame a producer's numbered call wrote."""

    producer: str
    sequence: int
    first_row: int
    count: int


class FrameHeader(msgspec.Struct, frozen=True, gc=False):
    """One frame. Offsets `first` and `end` (half-open) are relative to the segment's base."""

    codec: int
    flags: int
    table_bytes: int
    payload_bytes: int
    payload_crc: int
    first: int
    end: int
    count: int
    ts_min: int
    ts_max: int
    appended_at: int
    synced_to: int

    @property
    def payload_start(self) -> int:
        """Where the payload begins, counted from the frame's own start."""
        return FRAME_HEADER_BYTES + aligned(self.table_bytes)

    @property
    def frame_bytes(self) -> int:
        return FRAME_HEADER_BYTES + aligned(self.table_bytes) + aligned(self.payload_bytes)


class Footer(msgspec.Struct, frozen=True):
    """What a sealed segment says of itself; offsets are relative to its base."""

    uid: bytes
    count: int
    end: int
    ts_min: int
    ts_max: int
    appended_min: int
    appended_max: int
    frames: int
    body_crc: int
    index_interval_bytes: int
    side_files: dict[str, tuple[int, int]]
    """Suffix -> (bytes, CRC32C): a side file that differs belongs to another version of this segment."""


def aligned(size: int) -> int:
    return (size + ALIGNMENT - 1) & ~(ALIGNMENT - 1)


def padding(size: int) -> bytes:
    return _PADDING[: -size % ALIGNMENT]


def encode_segment_header(uid: bytes) -> bytes:
    head = _SEGMENT.pack(SEGMENT_MAGIC, VERSION, 0, uid, 0)[:-4]
    return head + _CRC.pack(crc32c(head))


def decode_segment_header(data: bytes | memoryview, where: str) -> bytes:
    """The segment's uid. Corrupt if damaged; a newer version says so."""
    if len(data) < SEGMENT_HEADER_BYTES:
        raise Corrupt(f"{where}: the segment header has {len(data)} of {SEGMENT_HEADER_BYTES} bytes")
    magic, version, _, uid, crc = _SEGMENT.unpack(data[:SEGMENT_HEADER_BYTES])
    if magic != SEGMENT_MAGIC:
        raise Corrupt(f"{where}: not a Lamina segment (starts with {magic!r})")
    if crc != crc32c(data[: SEGMENT_HEADER_BYTES - 4]):
        raise Corrupt(f"{where}: the segment header's checksum does not match")
    if version != VERSION:
        raise Corrupt(f"{where}: segment format {version}, this Lamina reads format {VERSION}; upgrade Lamina")
    return bytes(uid)


def frame_salt(uid: bytes) -> int:
    """What the CRCs of a segment's frame headers begin with: a frame inside a message's value is not one of ours."""
    return crc32c(uid)


def encode_frame(
    header: FrameHeader, table: bytes, payload: bytes | memoryview, salt: int = 0
) -> list[bytes | memoryview]:
    """The parts to write for one frame, in order."""
    return [encode_frame_header(header, table, salt) + table + padding(len(table)), payload, padding(len(payload))]


def encode_frame_header(header: FrameHeader, table: bytes, salt: int = 0) -> bytes:
    """The 64 bytes whose CRC covers the segment's uid, them and the table behind them."""
    head = _FRAME.pack(
        FRAME_MAGIC,
        VERSION,
        header.codec,
        header.flags,
        header.table_bytes,
        header.payload_bytes,
        header.payload_crc,
        header.first,
        header.end,
        header.count,
        header.ts_min,
        header.ts_max,
        header.appended_at,
        header.synced_to,
    )
    return head + _CRC.pack(crc32c(table, crc32c(head, salt)))


def decode_frame_header(data: memoryview, position: int, salt: int = 0) -> FrameHeader | None:
    """The header at `position` of `data`, or None if header and table are not whole and valid there.

    Whether the payload is there too is for the caller to ask. A newer version is Corrupt, never "no frame".
    """
    table_start = position + FRAME_HEADER_BYTES
    if table_start > len(data) or data[position : position + 4] != FRAME_MAGIC:
        return None
    _, version, *fields = _FRAME.unpack_from(data, position)
    header = FrameHeader(*fields)
    crc = crc32c(data[position : table_start - 4], salt)
    if header.table_bytes:
        if table_start + header.table_bytes > len(data):
            return None
        crc = crc32c(data[table_start : table_start + header.table_bytes], crc)
    if crc != _CRC.unpack_from(data, table_start - 4)[0]:
        return None
    if version != VERSION:
        raise Corrupt(f"frame format {version}, this Lamina reads format {VERSION}; upgrade Lamina")
    return header


def encode_table(entries: Sequence[ProducerEntry]) -> bytes:
    parts = []
    for entry in entries:
        name = entry.producer.encode()
        parts += [_ENTRY_HEAD.pack(len(name)), name, _ENTRY_TAIL.pack(entry.sequence, entry.first_row, entry.count)]
    return b"".join(parts)


def decode_table(table: bytes | memoryview) -> list[ProducerEntry]:
    """The producers' entries; the frame header's CRC has vouched for the bytes."""
    entries, at = [], 0
    while at < len(table):
        (size,) = _ENTRY_HEAD.unpack_from(table, at)
        at += _ENTRY_HEAD.size
        name = bytes(table[at : at + size]).decode()
        entries.append(ProducerEntry(name, *_ENTRY_TAIL.unpack_from(table, at + size)))
        at += size + _ENTRY_TAIL.size
    return entries


def encode_trailer(footer_position: int, file_bytes: int) -> bytes:
    head = _TRAILER.pack(TRAILER_MAGIC, footer_position, file_bytes, 0)[:-4]
    return head + _CRC.pack(crc32c(head))


def decode_trailer(data: bytes | memoryview, file_bytes: int) -> int | None:
    """Where the footer frame begins, or None if these 64 bytes do not end a sealed segment of this size."""
    if len(data) != TRAILER_BYTES or data[:8] != TRAILER_MAGIC:
        return None
    _, footer_position, stated_bytes, crc = _TRAILER.unpack(data)
    if crc != crc32c(data[: TRAILER_BYTES - 4]) or stated_bytes != file_bytes:
        return None
    return int(footer_position)


def valid_frame_after(data: memoryview, position: int, limit: int, salt: int = 0) -> int | None:
    """Where a later valid frame proves that the bytes at `position` had been durable, or None.

    A frame names the byte up to which the file was synced when it was written. One that says so beyond
    `position` was written after the bytes there were safe: they are damaged, not torn.
    """
    at = aligned(position + 1)
    view = data[:limit]
    while (found := _find(view, at)) is not None:
        header = decode_frame_header(view, found, salt)
        if header is not None and header.synced_to > position and payload_is_valid(view, found, header):
            return found
        at = found + ALIGNMENT
    return None


def payload_is_valid(data: memoryview, position: int, header: FrameHeader) -> bool:
    """Whether the whole payload is in `data` and matches its CRC."""
    start = position + header.payload_start
    payload = data[start : start + header.payload_bytes]
    return len(payload) == header.payload_bytes and crc32c(payload) == header.payload_crc


def _find(data: memoryview, start: int) -> int | None:
    for at in range(start, len(data) - FRAME_HEADER_BYTES + 1, ALIGNMENT):
        if data[at : at + 4] == FRAME_MAGIC:
            return at
    return None
