"""A partition owned by another process, read through `head`: never anything that is not durable.

No lock is taken. The owner may roll, seal and delete meanwhile: the directory is listed again when head moves to
another segment, and a segment that vanished is looked for once more.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress

from lamina.disk import Disk
from lamina.errors import Corrupt, LaminaError, NotFound
from lamina.log import names
from lamina.log.active import SegmentStats
from lamina.log.documents import read_document
from lamina.log.format import SEGMENT_HEADER_BYTES
from lamina.log.head import Head, HeadFile
from lamina.log.indexes import LiveIndexes, PlaceIndexes
from lamina.log.lineage import PartitionState
from lamina.log.offset_index import OffsetIndex
from lamina.log.recovery import scan
from lamina.log.sealed import sealed_handle
from lamina.log.segment import SegmentReader
from lamina.log.segments import (
    OpenSegment,
    OpenSegments,
    SegmentHandle,
    SegmentSet,
    SegmentState,
    quarantined,
    with_gaps,
)
from lamina.log.settings import LogSettings
from lamina.log.time_index import TimeIndex
from lamina.log.view import PartitionView

_LIST_ATTEMPTS = 5


class FollowedPartition:
    """A reader's picture of the partition, refreshed whenever its bounds are asked for. Any thread."""

    def __init__(
        self, disk: Disk, directory: str, stream: str, number: int, settings: LogSettings, cache: OpenSegments
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._settings = settings
        self._cache = cache
        self._lock = threading.Lock()
        self._segments = SegmentSet()
        self._head: Head | None = None
        self._tail: _Tail | None = None
        self.state = PartitionState()
        self.view = PartitionView(stream, number, self._segments, cache, self.bounds)

    def bounds(self) -> tuple[int, int]:
        """Look at head; (earliest, latest)."""
        with self._lock:
            end = self._catch_up()
            self.state = self._read_state()
            return min(self.state.start, end), end

    @property
    def epoch(self) -> int:
        return self.state.epoch

    def close(self) -> None:
        with self._lock:
            if self._tail is not None:
                with suppress(LaminaError):
                    self._tail.reader.freeze()  # reads that have begun may end
                self._tail.reader.close()

    def _catch_up(self) -> int:
        """Follow head; its owner may roll and seal a segment between our looking at head and opening the file."""
        while True:
            head = self._read_head()
            if head is None:
                return 0
            try:
                if self._head is None or (head.end, head.segment) != (self._head.end, self._head.segment):
                    self._follow(head)
                return head.end
            except Corrupt:
                if self._read_head() == head:
                    raise

    def _read_head(self) -> Head | None:
        """By name each time: an owner that finds no head makes a new file."""
        try:
            file = HeadFile.open(self._disk, self._directory, write=False)
        except NotFound:
            return None  # one that is just being created
        try:
            return file.read()
        finally:
            file.close()

    def _read_state(self) -> PartitionState:
        return read_document(self._disk, f"{self._directory}/{names.STATE}", "partition", PartitionState)

    def _follow(self, head: Head) -> None:
        if self._tail is not None and self._tail.base == head.segment:
            self._tail.extend(head)
        else:
            if self._tail is not None:
                self._tail.reader.freeze()
                self._tail = None
            self._list(head)
        self._head = head

    def _list(self, head: Head) -> None:
        """Take stock of the directory; a segment deleted meanwhile means taking stock again."""
        for attempt in range(_LIST_ATTEMPTS):
            try:
                found = with_gaps(list(self._handles(head)), self._read_state().start, head.end, self._directory)
                self._segments.handles = tuple(found)
                return
            except NotFound:
                if attempt == _LIST_ATTEMPTS - 1:
                    raise

    def _handles(self, head: Head) -> Iterator[SegmentHandle]:
        known = {handle.base: handle for handle in self._segments.handles if handle.state is SegmentState.SEALED}
        found = (names.base_of(name) for name in self._disk.list(self._directory))
        bases = [base for base in found if base is not None and base <= head.segment]
        for base, following in zip(bases, [*bases[1:], head.end], strict=False):
            handle = known.get(base) or sealed_handle(self._disk, self._directory, base, None)
            if handle is not None and handle.end == following:
                yield handle
            elif base == head.segment:
                self._tail = _Tail(self._disk, self._directory, base, head, self._settings)
                yield self._tail.handle
            else:
                yield _closed_handle(self._disk, self._directory, base, following, self._settings)


class _Tail:
    """The active segment of another process, below head."""

    def __init__(self, disk: Disk, directory: str, base: int, head: Head, settings: LogSettings) -> None:
        self.base = base
        self.reader = SegmentReader(disk, directory, base, head.byte_end)
        self._stats = SegmentStats()
        self._places = _no_places(base, settings)
        self._position = SEGMENT_HEADER_BYTES
        opened = OpenSegment(self.reader, LiveIndexes(self._places, self.reader))
        self.handle = SegmentHandle(base, base, 0, SegmentState.ACTIVE, self._stats, lambda: opened)
        self.extend(head)

    def extend(self, head: Head) -> None:
        """Take in the frames that have become durable."""
        self.reader.limit = head.byte_end
        for frame in self.reader.frames(self._position):
            self._stats.add(frame.header)
            self._places.add(frame)
            self._position = frame.end_position
        self.handle.bytes = head.byte_end
        self.handle.end = head.end


def _closed_handle(disk: Disk, directory: str, base: int, end: int, settings: LogSettings) -> SegmentHandle:
    """A segment that its owner has rolled and not sealed yet: its whole frames must reach the next segment."""
    reader = SegmentReader(disk, directory, base, None)
    places = _no_places(base, settings)
    found = scan(reader.whole(), base, reader.path, visit=places.add)
    reader.limit = found.end_position
    reader.freeze()
    if base + found.stats.end != end:
        damage = f"{reader.path}: whole frames end at offset {base + found.stats.end}, the next segment begins at {end}"
        return quarantined(base, end, damage)
    opened = OpenSegment(reader, LiveIndexes(places, reader))
    return SegmentHandle(base, end, found.end_position, SegmentState.CLOSED, found.stats, lambda: opened)


def _no_places(base: int, settings: LogSettings) -> PlaceIndexes:
    return PlaceIndexes(OffsetIndex.of_bytes(base, interval_bytes=settings.index_interval_bytes), TimeIndex())
