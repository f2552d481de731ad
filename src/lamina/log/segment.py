"""Reading one segment: its frames by offset and by time, verified, without copying.

A SegmentReader knows the bytes below `limit` and nothing above: the owner raises the limit of its active segment
as frames become durable; a reader in another process takes it from `head`.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from lamina.disk import Disk, File
from lamina.errors import Closed, Corrupt
from lamina.log.block import Block
from lamina.log.format import (
    FRAME_HEADER_BYTES,
    SEGMENT_HEADER_BYTES,
    Codec,
    FrameHeader,
    decode_frame_header,
    decode_segment_header,
    frame_salt,
    payload_is_valid,
)
from lamina.log.names import log_name

_REMAP_BYTES = 4 << 20
"""Below this much new data a tail is read by pread: a new mapping costs more."""
_BLOCKS_KEPT = 32
_VERIFIED_KEPT = 65_536

Floor = Callable[[int], int | None]


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame header and where it is."""

    position: int
    header: FrameHeader

    @property
    def end_position(self) -> int:
        return self.position + self.header.frame_bytes


class SegmentReader:
    """Frames of one segment. Any thread may read. Corrupt names file and byte."""

    def __init__(self, disk: Disk, directory: str, base: int, limit: int | None, path: str | None = None) -> None:
        self.base = base
        self.path = path or f"{directory}/{log_name(base)}"
        self._file: File = disk.open(self.path, "read")
        self.limit = self._file.size() if limit is None else limit
        self._mapped = memoryview(b"")
        self._mapping = threading.Lock()  # held by whoever replaces _mapped
        self._verified: set[int] = set()
        self._blocks: OrderedDict[int, Block] = OrderedDict()
        try:
            self.uid = decode_segment_header(self._file.pread(SEGMENT_HEADER_BYTES, 0), self.path)
        except Corrupt:
            self._file.close()
            raise
        self._salt = frame_salt(self.uid)

    def frame(self, position: int) -> Frame:
        """The valid frame at `position`, whole below the limit."""
        for length in (FRAME_HEADER_BYTES, min(self.limit - position, _REMAP_BYTES)):
            if (window := self._window(position, length)) is None:
                break
            try:
                header = decode_frame_header(*window, self._salt)
            except Corrupt as error:
                raise Corrupt(f"{self.path}, byte {position}: {error}") from error
            if header is not None:
                if position + header.frame_bytes > self.limit:
                    break
                return Frame(position, header)
        raise Corrupt(f"{self.path}, byte {position}: no valid frame where one should begin")

    def frames(self, position: int = SEGMENT_HEADER_BYTES) -> Iterator[Frame]:
        """Frames of messages from `position` to the limit as it is now."""
        limit = self.limit
        while position < limit:
            frame = self.frame(position)
            if frame.header.codec == Codec.FOOTER:
                return
            if frame.header.codec != Codec.PRODUCERS:
                yield frame
            position = frame.end_position

    def verify(self, frame: Frame) -> None:
        """Check the payload's CRC, once for as long as this segment is open. Any thread."""
        if frame.position in self._verified:
            return
        data, at = self._whole(frame)
        if not payload_is_valid(data, at, frame.header):
            raise Corrupt(f"{self.path}, byte {frame.position}: the frame's checksum does not match")
        if len(self._verified) >= _VERIFIED_KEPT:
            self._verified.clear()
        self._verified.add(frame.position)

    def block(self, frame: Frame) -> Block:
        """The messages of a frame; its CRC is verified the first time it is read from this open segment."""
        if (known := self._blocks.get(frame.position)) is not None:
            return known
        self.verify(frame)
        data, at = self._whole(frame)
        start = at + frame.header.payload_start
        try:
            block = Block.decode(frame.header, data[start : start + frame.header.payload_bytes], self.base)
        except Corrupt as error:
            raise Corrupt(f"{self.path}, byte {frame.position}: {error}") from error
        self._blocks[frame.position] = block
        while len(self._blocks) > _BLOCKS_KEPT:
            self._blocks.popitem(last=False)
        return block

    def table(self, frame: Frame) -> memoryview:
        """The producer table behind a frame header."""
        data, at = self._whole(frame)
        return data[at + FRAME_HEADER_BYTES : at + FRAME_HEADER_BYTES + frame.header.table_bytes]

    def payload(self, frame: Frame) -> memoryview:
        """The raw payload, verified."""
        data, at = self._whole(frame)
        if not payload_is_valid(data, at, frame.header):
            raise Corrupt(f"{self.path}, byte {frame.position}: the frame's checksum does not match")
        start = at + frame.header.payload_start
        return data[start : start + frame.header.payload_bytes]

    def frames_between(self, start: int, end: int, floor: Floor) -> Iterator[Frame]:
        """Frames that hold offsets of [start, end), in order; `floor` finds where to start looking."""
        for frame in self.frames(floor(start) or SEGMENT_HEADER_BYTES):
            if self.base + frame.header.first >= end:
                return
            if self.base + frame.header.end > start:
                yield frame

    def whole(self) -> memoryview:
        """All bytes below the limit."""
        return self._map(self.limit)[: self.limit]

    def file_bytes(self) -> int:
        return self._file.size()

    def freeze(self) -> None:
        """Map everything below the limit and let the file go: the segment grows no more.

        Mappings live as long as somebody reads from them, so nothing needs closing after this.
        """
        self._map(self.limit)
        self._file.close()

    def close(self) -> None:
        self._file.close()
        self._blocks.clear()

    def _whole(self, frame: Frame) -> tuple[memoryview, int]:
        window = self._window(frame.position, frame.header.frame_bytes)
        if window is None:
            raise Corrupt(f"{self.path}, byte {frame.position}: the file ends inside a frame")
        return window

    def _window(self, position: int, length: int) -> tuple[memoryview, int] | None:
        """(bytes, where `position` is in them), or None if that lies beyond the limit."""
        limit = self.limit
        if position + length > limit:
            return None
        mapped = self._mapped
        if position + length > len(mapped):
            if limit - len(mapped) < _REMAP_BYTES and position >= len(mapped) and length < _REMAP_BYTES:
                return self._tail(position, min(limit - position, max(length, 4096)))
            mapped = self._map(limit)
        return mapped, position

    def _tail(self, position: int, length: int) -> tuple[memoryview, int]:
        try:
            data = self._file.pread(length, position)
        except Closed:
            # Frozen by another thread since we looked: everything is mapped now.
            if position + length > len(self._mapped):
                raise
            return self._mapped, position
        if len(data) < length:
            raise Corrupt(f"{self.path}, byte {position}: the file ends {length - len(data)} bytes too early")
        return memoryview(data), 0

    def _map(self, length: int) -> memoryview:
        """A mapping of at least `length` bytes; it only ever grows, and a frozen segment has all it needs."""
        with self._mapping:
            if len(self._mapped) < length:
                if (size := self._file.size()) < length:
                    raise Corrupt(f"{self.path}: has {size} of the {length} bytes it should have")
                self._mapped = self._file.map(length)
            return self._mapped
