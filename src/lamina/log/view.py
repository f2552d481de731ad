"""Reading one partition: by offset, by time, by key, forward and backward, while appends go on.

The owner and readers in other processes share this; they differ only in how they learn where the log ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from lamina.errors import Corrupt, NotFound, OffsetOutOfRange
from lamina.log.block import Block
from lamina.log.segments import OpenSegment, OpenSegments, SegmentHandle, SegmentSet
from lamina.model import Message, format_ref

_COALESCED_ROWS = 8192


@dataclass(frozen=True, slots=True)
class TimeRange:
    """Timestamps in [start, end); None is unbounded."""

    start: int | None = None
    end: int | None = None


class PartitionView:
    """The readable part of a partition. Any thread."""

    def __init__(
        self, stream: str, number: int, segments: SegmentSet, cache: OpenSegments, bounds: Callable[[], tuple[int, int]]
    ) -> None:
        self.stream = stream
        self.number = number
        self.segments = segments
        self._cache = cache
        self.bounds = bounds
        """(earliest, latest): offsets [earliest, latest) can be read. A follower looks at `head` first."""

    def open(self, handle: SegmentHandle) -> OpenSegment:
        """The segment, ready for reading. Corrupt if it is quarantined."""
        return handle.open(self._cache)

    def blocks(
        self,
        start: int | None = None,
        end: int | None = None,
        *,
        descending: bool = False,
        times: TimeRange | None = None,
        use_index: bool = True,
    ) -> Iterator[Block]:
        """Messages with offsets in [start, end), as the log is now; OffsetOutOfRange if `start` is not in it."""
        earliest, latest = self.bounds()
        start = earliest if start is None else start
        if not earliest <= start <= latest:
            raise OffsetOutOfRange(self._out_of_range(start, earliest, latest), earliest, latest)
        end = latest if end is None else min(end, latest)
        walk = self._backward(start, end) if descending else self._forward(start, end)
        return self._decoded(walk, times or TimeRange(), descending=descending, use_index=use_index)

    def get(self, offset: int) -> Message:
        """One message; OffsetOutOfRange outside the log, NotFound where compaction removed it."""
        earliest, latest = self.bounds()
        if not earliest <= offset < latest:
            raise OffsetOutOfRange(self._out_of_range(offset, earliest, latest), earliest, latest)
        handle = self._handle_at(offset)
        block = handle.open(self._cache).block_of(offset) if handle.base <= offset < handle.end else None
        if block is None:
            raise NotFound(f"no message {format_ref(self.stream, self.number, offset)}: compaction removed it")
        return next(block.messages(self.stream, self.number))

    def latest(self, key: bytes, topic: str | None) -> Message | None:
        """The newest message of the key (and topic)."""
        earliest, latest = self.bounds()
        for handle in reversed(self.segments.handles):
            if handle.end <= earliest or handle.base >= latest:
                continue
            opened = handle.open(self._cache)
            for relative in opened.indexes.keys().find(key, topic):
                offset = handle.base + relative
                if offset >= earliest and (found := self._message_if(opened, offset, key, topic)):
                    return found
        return None

    def offset_at(self, timestamp: int) -> int:
        """The first offset whose message is at or after the time; the end of the log if there is none."""
        earliest, latest = self.bounds()
        for handle in self.segments.from_offset(earliest):
            if handle.damage is None and handle.stats.ts_max < timestamp:
                continue
            found = handle.open(self._cache).first_at(timestamp)
            if found is not None and found >= latest:
                break
            if found is not None and found >= earliest:
                return found
            if found is not None:
                # The log begins inside this segment: look again behind its beginning.
                for block in self.blocks(earliest, min(handle.end, latest), times=TimeRange(start=timestamp)):
                    return int(block.offset_array()[0])
        return latest

    def topics(self) -> set[str]:
        """The distinct topics of what can be read; segments are not looked into below their own index."""
        earliest, latest = self.bounds()
        handles = [handle for handle in self.segments.handles if handle.end > earliest and handle.base < latest]
        return {topic for handle in handles for topic in handle.open(self._cache).indexes.keys().topics()}

    def _message_if(self, opened: OpenSegment, offset: int, key: bytes, topic: str | None) -> Message | None:
        block = opened.block_of(offset)
        if block is None:
            return None
        message = next(block.messages(self.stream, self.number))
        return message if message.key == key and topic in (None, message.topic) else None

    def _handle_at(self, offset: int) -> SegmentHandle:
        handle = next(iter(self.segments.from_offset(offset)), None)
        if handle is None or not handle.base <= offset < handle.end:
            earliest, latest = self.bounds()
            if not earliest <= offset < latest:
                raise OffsetOutOfRange(self._out_of_range(offset, earliest, latest), earliest, latest)
            where = format_ref(self.stream, self.number, offset)
            raise Corrupt(f"{where}: no segment holds this offset; a segment file is missing")
        return handle

    def _forward(self, start: int, end: int) -> Iterator[tuple[SegmentHandle, int, int]]:
        while start < end:
            handle = self._handle_at(start)
            stop = min(handle.end, end)
            yield handle, start, stop
            start = stop

    def _backward(self, start: int, end: int) -> Iterator[tuple[SegmentHandle, int, int]]:
        while start < end:
            handle = self._handle_at(end - 1)
            first = max(handle.base, start)
            yield handle, first, end
            end = first

    def _decoded(
        self, walk: Iterable[tuple[SegmentHandle, int, int]], times: TimeRange, *, descending: bool, use_index: bool
    ) -> Iterator[Block]:
        for handle, low, high in walk:
            if handle.damage is None and not _may_hold(handle.stats.ts_min, handle.stats.ts_max, times):
                continue
            opened = handle.open(self._cache)
            walked = opened.frames_backward(low, high) if descending else opened.frames_between(low, high, use_index)
            wanted = (frame for frame in walked if _may_hold(frame.header.ts_min, frame.header.ts_max, times))
            for frame in wanted:
                block = _within(opened.reader.block(frame).between(low, high), times)
                if len(block):
                    yield block

    def _out_of_range(self, offset: int, earliest: int, latest: int) -> str:
        held = f"it holds [{earliest}, {latest})" if latest > earliest else f"it is empty, the next offset is {latest}"
        return f"offset {offset} is not in {self.stream}/{self.number}: {held}"


def coalesced(blocks: Iterable[Block], *, descending: bool = False) -> Iterator[Block]:
    """The same messages, with runs of small packed blocks joined so that a batch is worth its overhead.

    Blocks that come newest first are joined in offset order too: the run as a whole is newest first.
    """
    run: list[Block] = []
    rows = 0
    for block in blocks:
        if block.rows is not None and rows + len(block) <= _COALESCED_ROWS:
            run.append(block)
            rows += len(block)
            continue
        if run:
            yield _joined(run[::-1] if descending else run)
        run, rows = ([block], len(block)) if block.rows is not None else ([], 0)
        if block.rows is None:
            yield block
    if run:
        yield _joined(run[::-1] if descending else run)


def _joined(run: list[Block]) -> Block:
    if len(run) == 1:
        return run[0]
    offsets = np.concatenate([block.offset_array() for block in run])
    return Block(offsets, [row for block in run for row in block.rows or ()])


def _may_hold(ts_min: int, ts_max: int, times: TimeRange) -> bool:
    return (times.start is None or ts_max >= times.start) and (times.end is None or ts_min < times.end)


def _within(block: Block, times: TimeRange) -> Block:
    if (times.start is None and times.end is None) or not len(block):
        return block
    stamps = block.timestamps()
    mask = np.ones(len(block), np.bool_)
    if times.start is not None:
        mask &= stamps >= times.start
    if times.end is not None:
        mask &= stamps < times.end
    return block.where(mask)
