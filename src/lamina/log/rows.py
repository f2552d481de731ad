"""Any messages of one segment by their relative offset: where their frames are, and what is in single rows.

Queries find rows far apart. A table of all frames, kept while the segment is open, saves walking headers for each.
"""

from __future__ import annotations

import threading
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator

import numpy as np
import numpy.typing as npt

from lamina.errors import Corrupt
from lamina.log.block import Block
from lamina.log.format import SEGMENT_HEADER_BYTES
from lamina.log.segment import SegmentReader
from lamina.model import BatchPicker, Message, RowPicker

Rows = npt.NDArray[np.int64]
_PICKS_KEPT = 1024
_FEW = 32
"""Below so many rows of a frame they are picked one by one."""

_Pick = tuple[int | None, Block, Callable[[int, str, int, int], Message]]
"""A frame's first row (None: sparse), its messages, and how to make one of them an object."""


class SegmentRows:
    """Rows are relative offsets. Any thread. Grows with its segment: `catch_up` takes in new frames."""

    def __init__(self, reader: SegmentReader) -> None:
        self._reader = reader
        self._lock = threading.Lock()
        self._next = SEGMENT_HEADER_BYTES
        # One entry per frame. Only ever appended to, `_firsts` last, so a reader sees whole entries below its length.
        self._positions = array("q")
        self._ends = array("q")
        self._ts_min = array("q")
        self._ts_max = array("q")
        self._firsts = array("q")
        self._first_array: Rows = np.empty(0, np.int64)
        self._picks: dict[int, _Pick] = {}

    @property
    def base(self) -> int:
        return self._reader.base

    def catch_up(self) -> None:
        """Take in the frames that the segment has now."""
        if self._next >= self._reader.limit:
            return
        with self._lock:
            limit = self._reader.limit
            for frame in self._reader.frames(self._next):
                if frame.position >= limit:
                    break
                self._next = frame.end_position  # at once: a read error must not make a frame come twice
                if frame.header.count:
                    self._positions.append(frame.position)
                    self._ends.append(frame.header.end)
                    self._ts_min.append(frame.header.ts_min)
                    self._ts_max.append(frame.header.ts_max)
                    self._firsts.append(frame.header.first)
            self._next = limit

    def frame_numbers(self, start: int, end: int) -> range:
        """Frames that hold rows of [start, end)."""
        if start >= end or not len(self._firsts):
            return range(0)
        return range(max(bisect_right(self._firsts, start) - 1, 0), bisect_right(self._firsts, end - 1))

    def block(self, number: int) -> Block:
        """All messages of a frame, verified."""
        return self._reader.block(self._reader.frame(self._positions[number]))

    def end_of(self, number: int) -> int:
        """The row behind the last one of a frame."""
        return self._ends[number]

    def times(self, number: int) -> tuple[int, int]:
        """The smallest and largest timestamp of a frame."""
        return self._ts_min[number], self._ts_max[number]

    def anchor(self, end: int) -> tuple[int, int]:
        """Position and payload CRC of the last frame that begins before row `end`: they tell this log from others."""
        self.catch_up()
        number = bisect_right(self._firsts, end - 1) - 1
        frame = self._reader.frame(self._positions[number])
        return frame.position, frame.header.payload_crc

    def is_anchored(self, end: int, position: int, crc: int) -> bool:
        """Whether `anchor(end)` was taken of this log; False also if the log does not reach as far."""
        try:
            header = self._reader.frame(position).header
        except Corrupt:
            return False
        return header.payload_crc == crc and header.first < end

    def by_frame(self, rows: Rows) -> Iterator[tuple[int, Rows]]:
        """(frame number, its rows) for rows in ascending order."""
        at = 0
        while at < len(rows):
            number = bisect_right(self._firsts, int(rows[at])) - 1
            end = int(np.searchsorted(rows, self._ends[number]))
            yield number, rows[at:end]
            at = end

    def messages(self, rows: npt.NDArray[np.integer], stream: str, partition: int) -> Iterable[Message]:
        """The messages of these rows, in their order."""
        if len(rows) >= _FEW:
            first, last = int(rows[0]), int(rows[-1])
            frames = len(self.frame_numbers(min(first, last), max(first, last) + 1))
            if len(rows) >= _FEW * frames:
                steps = np.diff(rows.astype(np.int64))
                if (steps > 0).all() or (steps < 0).all():
                    return self._bulk_messages(rows.astype(np.int64), stream, partition)
        return self._single_messages(rows, stream, partition)

    def _single_messages(self, rows: npt.NDArray[np.integer], stream: str, partition: int) -> list[Message]:
        base, known, pick = self.base, self._picks, self._pick
        # All at once: asking bisect a hundred times costs as much as making the messages.
        numbers = np.searchsorted(self._first_rows(), rows, side="right") - 1
        found = []
        for row, number in zip(rows.tolist(), numbers.tolist(), strict=True):
            first, block, message = known.get(number) or pick(number)
            place = row - first if first is not None else block.row_of(base + row)
            found.append(message(place, stream, partition, base + row))
        return found

    def _first_rows(self) -> Rows:
        """The frames' first rows as an array; made again when frames have come."""
        if len(self._first_array) != len(self._firsts):
            self._first_array = np.array(self._firsts, np.int64)
        return self._first_array

    def _bulk_messages(self, rows: Rows, stream: str, partition: int) -> Iterator[Message]:
        """Frame by frame: where many rows of a frame are wanted, decoding it as a whole is quicker."""
        descending = rows[0] > rows[-1]
        found = self.by_frame(rows[::-1] if descending else rows)
        for number, some in reversed(list(found)) if descending else found:
            if len(some) < _FEW:
                yield from self._single_messages(some[::-1] if descending else some, stream, partition)
                continue
            block = self.block(number)
            if len(some) < len(block):
                block = block.take(block.rows_of(some + self.base))
            messages = block.messages(stream, partition)
            yield from reversed(list(messages)) if descending else messages

    def time_of(self, row: int) -> int:
        """The timestamp of one message."""
        number = bisect_right(self._firsts, row) - 1
        _, block, _ = self._picks.get(number) or self._pick(number)
        return int(block.timestamps()[block.row_of(self.base + row)])

    def first_at(self, timestamp: int, start: int, end: int) -> int:
        """The first row of [start, end) at or after the time, if timestamps never go back there; `end` if none is."""
        numbers = self.frame_numbers(start, end)
        if not numbers:
            return end
        # The first frame may begin before `start`, with later times: only its rows of the range tell.
        found = self._first_in(numbers.start, timestamp, start, end)
        if found is not None:
            return found
        low, high = numbers.start + 1, numbers.stop
        while low < high:
            middle = (low + high) // 2
            if self._ts_max[middle] < timestamp:
                low = middle + 1
            else:
                high = middle
        found = self._first_in(low, timestamp, start, end) if low < numbers.stop else None
        return end if found is None else found

    def _first_in(self, number: int, timestamp: int, start: int, end: int) -> int | None:
        _, block, _ = self._picks.get(number) or self._pick(number)
        block = block.between(self.base + start, self.base + end)
        at = int(np.searchsorted(block.timestamps(), timestamp))
        return int(block.offsets[at]) - self.base if at < len(block) else None

    def _pick(self, number: int) -> _Pick:
        block = self.block(number)
        picker = RowPicker(block.rows) if block.rows is not None else BatchPicker(block.stored())
        first = block.offsets.start - self.base if isinstance(block.offsets, range) else None
        if len(self._picks) >= _PICKS_KEPT:
            self._picks.clear()
        found = self._picks[number] = (first, block, picker.message)
        return found
