"""The active segment: the one file of a partition that grows.

Written by the leading thread alone. A failed write is cut back, so the file never holds part of a frame below `size`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from crc32c import crc32c

from lamina.disk import Disk, File
from lamina.errors import Corrupt, LaminaError, NotFound
from lamina.log import offset_index, time_index
from lamina.log.format import (
    POSITION_MAX,
    SEGMENT_HEADER_BYTES,
    Codec,
    FrameHeader,
    encode_frame,
    encode_segment_header,
    encode_table,
    frame_salt,
)
from lamina.log.framing import NO_TS_MAX, NO_TS_MIN, Draft
from lamina.log.indexes import PlaceIndexes
from lamina.log.names import log_name, side_name
from lamina.log.offset_index import OffsetIndex
from lamina.log.producers import Producers
from lamina.log.segment import Frame, SegmentReader
from lamina.log.settings import LogSettings
from lamina.log.time_index import TimeIndex


@dataclass(slots=True)
class SegmentStats:
    """What is known of a segment's messages; `end` is relative to its base."""

    count: int = 0
    end: int = 0
    frames: int = 0
    ts_min: int = NO_TS_MIN
    ts_max: int = NO_TS_MAX
    appended_min: int = NO_TS_MIN
    appended_max: int = NO_TS_MAX

    def add(self, header: FrameHeader) -> None:
        self.count += header.count
        self.end = header.end
        self.frames += 1
        self.ts_min = min(self.ts_min, header.ts_min)
        self.ts_max = max(self.ts_max, header.ts_max)
        self.appended_min = min(self.appended_min, header.appended_at)
        self.appended_max = max(self.appended_max, header.appended_at)


class ActiveSegment:
    """Appends frames and their index entries. `size` bytes are written, `synced` of them durable."""

    def __init__(
        self, file: File, base: int, size: int, stats: SegmentStats, places: PlaceIndexes, reader: SegmentReader
    ) -> None:
        self.base = base
        self.size = size
        self.synced = size
        self.stats = stats
        self.places = places
        self.reader = reader
        self.broken: str | None = None
        self._file = file
        self._salt = frame_salt(reader.uid)

    @classmethod
    def create(
        cls, disk: Disk, directory: str, base: int, uid: bytes, producers: Producers, now_us: int, settings: LogSettings
    ) -> ActiveSegment:
        """A new segment, durable with its name; it begins with what is remembered of producers."""
        path = f"{directory}/{log_name(base)}"
        parts: list[bytes | memoryview] = [encode_segment_header(uid)]
        if len(producers):
            parts += _state_frame(producers.encode(base), now_us, frame_salt(uid))
        file = disk.open(path, "create")
        try:
            file.append(parts)
            file.sync()
            places = open_places(disk, directory, base, settings, anew=True)
            disk.sync_directory(directory)
            size = sum(len(part) for part in parts)
            return cls(file, base, size, SegmentStats(), places, SegmentReader(disk, directory, base, size))
        except LaminaError:
            file.close()
            raise

    def fits(self, drafts: Sequence[Draft], count: int, settings: LogSettings) -> bool:
        """Whether these frames may be added, or the segment is to be rolled first. An empty one takes anything."""
        if self.stats.end == 0:
            return True
        wanted = self.size + sum(len(draft.payload) for draft in drafts)
        return (
            wanted <= settings.segment_bytes_max
            and self.stats.end + count <= POSITION_MAX
            and self.places.offsets.entries_count + len(drafts) <= settings.index_entries_max
        )

    def write(self, drafts: Sequence[Draft], appended_at: int) -> None:
        """Append the frames in one write. After an error the file is as before, or the error says it is not."""
        frames, parts, position = self._place(drafts, appended_at)
        try:
            self._file.append(parts)
        except LaminaError as error:
            self._cut_back(error)
            raise
        self.size = position
        for frame in frames:
            self.stats.add(frame.header)
            self.places.add(frame)

    def sync(self) -> None:
        """Make everything written so far durable."""
        size = self.size
        self._file.sync()
        self.synced = max(self.synced, size)  # another thread may have synced more meanwhile

    def close(self) -> None:
        self._file.close()
        self.places.close()

    def _cut_back(self, cause: LaminaError) -> None:
        try:
            self._file.truncate(self.size)
        except LaminaError as error:
            self.broken = f"a failed write ({cause}) could not be taken back ({error})"

    def _place(self, drafts: Sequence[Draft], appended_at: int) -> tuple[list[Frame], list[bytes | memoryview], int]:
        frames: list[Frame] = []
        parts: list[bytes | memoryview] = []
        position, first = self.size, self.stats.end
        for draft in drafts:
            table = encode_table(draft.table) if draft.table else b""
            header = FrameHeader(
                draft.codec,
                draft.flags,
                len(table),
                len(draft.payload),
                crc32c(draft.payload),
                first,
                first + draft.count,
                draft.count,
                draft.ts_min,
                draft.ts_max,
                appended_at,
                self.synced,
            )
            parts += encode_frame(header, table, draft.payload, self._salt)
            frames.append(Frame(position, header))
            position += header.frame_bytes
            first = header.end
        return frames, parts, position


def open_places(disk: Disk, directory: str, base: int, settings: LogSettings, *, anew: bool) -> PlaceIndexes:
    """The growing side files; `anew` starts them empty. Corrupt if what is there cannot be gone on from."""
    times_path = f"{directory}/{side_name(base, time_index.SUFFIX)}"
    if anew:
        disk.unlink(f"{directory}/{side_name(base, offset_index.SUFFIX)}")
        disk.unlink(times_path)
    offsets = OffsetIndex(base, directory, settings.index_entries_max, settings.index_interval_bytes, disk=disk)
    try:
        try:
            file = disk.open(times_path, "write")
        except NotFound:
            file = disk.open(times_path, "create")
        return PlaceIndexes(offsets, TimeIndex(file, file.map(file.size()), times_path))
    except Corrupt:
        offsets.close()
        raise


def _state_frame(payload: bytes, appended_at: int, salt: int) -> list[bytes | memoryview]:
    header = FrameHeader(
        Codec.PRODUCERS,
        0,
        0,
        len(payload),
        crc32c(payload),
        0,
        0,
        0,
        NO_TS_MIN,
        NO_TS_MAX,
        appended_at,
        SEGMENT_HEADER_BYTES,
    )
    return encode_frame(header, b"", payload, salt)
