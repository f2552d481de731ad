"""The segments of a partition as readers see them, from the oldest to the active one."""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum

from lamina.errors import Corrupt
from lamina.log.active import SegmentStats
from lamina.log.block import Block
from lamina.log.format import SEGMENT_HEADER_BYTES
from lamina.log.indexes import Indexes
from lamina.log.rows import SegmentRows
from lamina.log.segment import Frame, SegmentReader


class SegmentState(Enum):
    """active -> closed (rolled, grows no more) -> sealed; quarantined = in a damaged file, which is kept as it is."""

    ACTIVE = "active"
    CLOSED = "closed"
    SEALED = "sealed"
    QUARANTINED = "quarantined"


@dataclass(frozen=True, slots=True)
class OpenSegment:
    """A segment ready for reading."""

    reader: SegmentReader
    indexes: Indexes
    rows: SegmentRows = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", SegmentRows(self.reader))

    def frames_between(self, start: int, end: int, use_index: bool = True) -> Iterator[Frame]:
        """Frames that hold offsets of [start, end), in order."""
        return self.reader.frames_between(start, end, self._floor if use_index else lambda offset: None)

    def frames_backward(self, start: int, end: int) -> Iterator[Frame]:
        """The same frames, last first: each stretch between two index entries is walked forward and turned."""
        index = self.indexes.offsets()
        while start < end:
            entry = index.lookup(end - 1)
            low = max(entry[0] if entry else self.reader.base, self.reader.base)
            yield from reversed(list(self.frames_between(max(low, start), end)))
            end = low

    def first_at(self, timestamp: int) -> int | None:
        """The first offset whose message is at or after the time."""
        position = self.indexes.times().lookup(timestamp)
        for frame in self.reader.frames(position or SEGMENT_HEADER_BYTES):
            if frame.header.ts_max >= timestamp and frame.header.count:
                block = self.reader.block(frame)
                row = int((block.timestamps() >= timestamp).argmax())
                return int(block.offset_array()[row])
        return None

    def block_of(self, offset: int) -> Block | None:
        """The one message at `offset`, as a block; None if the segment is sparse there."""
        for frame in self.frames_between(offset, offset + 1):
            block = self.reader.block(frame).between(offset, offset + 1)
            return block if len(block) else None
        return None

    def _floor(self, offset: int) -> int | None:
        entry = self.indexes.offsets().lookup(offset)
        return entry[1] if entry else None


class SegmentHandle:
    """One segment: facts that never need opening it, and `open` for the rest.

    `end` and `bytes` of an active segment move; they are set by its partition's leader alone.
    """

    def __init__(
        self,
        base: int,
        end: int,
        size: int,
        state: SegmentState,
        stats: SegmentStats,
        opener: Callable[[], OpenSegment],
        damage: str | None = None,
        uid: bytes | None = None,
    ) -> None:
        self.uid = uid
        """Known without opening it if the segment is sealed."""
        self.base = base
        self.end = end
        self.bytes = size
        self.state = state
        self.stats = stats
        self.opener = opener
        self.damage = damage

    def open(self, cache: OpenSegments) -> OpenSegment:
        """Corrupt if the segment is quarantined."""
        if self.damage is not None:
            raise Corrupt(self.damage)
        return cache.get(self)


class OpenSegments:
    """The segments that are open now, least recently used first; bounded, since each holds a file descriptor.

    What is dropped here stays readable for whoever still reads from it.
    """

    def __init__(self, maximum: int) -> None:
        self._maximum = maximum
        self._lock = threading.Lock()
        self._open: OrderedDict[SegmentHandle, OpenSegment] = OrderedDict()

    def get(self, handle: SegmentHandle) -> OpenSegment:
        with self._lock:
            if (known := self._open.get(handle)) is not None:
                self._open.move_to_end(handle)
                return known
        opened = handle.opener()
        with self._lock:
            self._open[handle] = opened
            while len(self._open) > self._maximum:
                self._open.popitem(last=False)
        return opened

    def drop(self, handle: SegmentHandle) -> None:
        with self._lock:
            self._open.pop(handle, None)

    def __len__(self) -> int:
        return len(self._open)


class SegmentSet:
    """All segments of one partition. Readers take the tuple as it is; changes replace it whole."""

    def __init__(self, handles: tuple[SegmentHandle, ...] = ()) -> None:
        self._lock = threading.Lock()
        self.handles = handles

    def add(self, handle: SegmentHandle) -> None:
        with self._lock:
            self.handles = (*self.handles, handle)

    def replace(self, old: SegmentHandle, new: SegmentHandle) -> None:
        with self._lock:
            self.handles = tuple(new if handle is old else handle for handle in self.handles)

    def remove_before(self, offset: int) -> list[SegmentHandle]:
        """Take out the sealed segments that end at or before `offset` and return them."""
        with self._lock:
            gone = [h for h in self.handles if h.end <= offset and h.state is not SegmentState.ACTIVE]
            self.handles = self.handles[len(gone) :]
            return gone

    def from_offset(self, offset: int) -> tuple[SegmentHandle, ...]:
        """The segment that holds `offset` and all after it."""
        handles = self.handles
        at = bisect_right(handles, offset, key=lambda handle: handle.base) - 1
        return handles[max(at, 0) :]


def with_gaps(handles: Sequence[SegmentHandle], start: int, end: int, where: str) -> Iterator[SegmentHandle]:
    """The handles of [start, end) with a quarantined one for each range of offsets that none of them holds."""
    expected = start
    for handle in handles:
        if handle.base > expected:
            yield _missing(expected, handle.base, where)
        yield handle
        expected = max(expected, handle.end)
    if end > expected:
        yield _missing(expected, end, where)


def _missing(start: int, end: int, where: str) -> SegmentHandle:
    return quarantined(start, end, f"{where}: offsets [{start}, {end}) had been durable and are missing")


def quarantined(start: int, end: int, damage: str) -> SegmentHandle:
    return SegmentHandle(start, end, 0, SegmentState.QUARANTINED, SegmentStats(), unopenable, damage)


def unopenable() -> OpenSegment:
    """The opener of a quarantined segment, whose `damage` is raised before it would be called."""
    raise Corrupt("a quarantined segment cannot be opened")
