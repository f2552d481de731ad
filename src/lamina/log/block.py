"""Block: the messages of one frame, or some of them, with their offsets, whatever codec they were written in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lamina.errors import Corrupt
from lamina.log.codec import decode_batch, decode_rows
from lamina.log.format import Codec, FrameHeader
from lamina.model import Message, Row, batch_of_rows, complete, messages_of_batch, messages_of_rows

Offsets = range | npt.NDArray[np.int64]


class Block:
    """Immutable. Holds either packed rows or a stored batch that shares the segment's mapped memory."""

    __slots__ = ("batch", "offsets", "rows")

    def __init__(
        self, offsets: Offsets, rows: Sequence[Row] | None = None, batch: pa.RecordBatch | None = None
    ) -> None:
        self.offsets = offsets
        self.rows = rows
        self.batch = batch

    @classmethod
    def decode(cls, header: FrameHeader, payload: memoryview, base: int) -> Block:
        """The whole frame; Corrupt if its payload contradicts its header."""
        first = base + header.first
        if header.codec == Codec.PACKED:
            rows = decode_rows(payload)
            if len(rows) != header.count:
                raise Corrupt(f"{len(rows)} packed rows where the frame header says {header.count}")
            return cls(range(first, first + len(rows)), rows)
        if header.codec != Codec.ARROW:
            raise Corrupt(f"frame codec {header.codec} is unknown to this version; upgrade Lamina")
        batch = decode_batch(payload)
        if batch.num_rows != header.count:
            raise Corrupt(f"{batch.num_rows} rows where the frame header says {header.count}")
        if "offset" not in batch.schema.names:
            return cls(range(first, base + header.end), batch=batch)
        # A sparse frame keeps each row's distance from its first offset, so that re-basing leaves it alone.
        offsets = batch.column("offset").to_numpy() + first
        return cls(offsets, batch=batch.drop_columns(["offset"]))

    def __len__(self) -> int:
        return len(self.offsets)

    def between(self, start: int, end: int) -> Block:
        """The messages with offsets in [start, end)."""
        if isinstance(self.offsets, range):
            first = self.offsets.start
            return self.slice(max(start - first, 0), min(max(end - first, 0), len(self)))
        low, high = np.searchsorted(self.offsets, [start, end]).tolist()
        return self.slice(low, high)

    def row_of(self, offset: int) -> int:
        """Where the message at `offset`, which must be here, stands in this block."""
        if isinstance(self.offsets, range):
            return offset - self.offsets.start
        return int(np.searchsorted(self.offsets, offset))

    def rows_of(self, offsets: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The same for many offsets."""
        if isinstance(self.offsets, range):
            return offsets - self.offsets.start
        return np.searchsorted(self.offsets, offsets).astype(np.int64)

    def take(self, at: npt.NDArray[np.int64]) -> Block:
        """The messages at these places of the block, in this order."""
        offsets = self.offset_array()[at]
        if self.rows is not None:
            return Block(offsets, [self.rows[row] for row in at.tolist()])
        assert self.batch is not None
        return Block(offsets, batch=self.batch.take(pa.array(at)))

    def first(self, count: int) -> Block:
        return self.slice(0, min(count, len(self)))

    def last(self, count: int) -> Block:
        return self.slice(max(len(self) - count, 0), len(self))

    def where(self, mask: npt.NDArray[np.bool_]) -> Block:
        """The messages whose mask is true."""
        if mask.all():
            return self
        return self.take(np.flatnonzero(mask))

    def timestamps(self) -> npt.NDArray[np.int64]:
        if self.rows is not None:
            return np.fromiter((row.timestamp for row in self.rows), np.int64, len(self.rows))
        assert self.batch is not None
        times: npt.NDArray[np.int64] = self.batch.column("timestamp").to_numpy()
        return times

    def topic_mask(self, topic: str) -> npt.NDArray[np.bool_]:
        """Which messages are of this topic."""
        if self.rows is not None:
            return np.fromiter((row.topic == topic for row in self.rows), np.bool_, len(self.rows))
        assert self.batch is not None
        column = self.batch.column("topic")
        code = column.dictionary.index(topic).as_py()
        mask: npt.NDArray[np.bool_] = column.indices.to_numpy() == code
        return mask

    def offset_array(self) -> npt.NDArray[np.int64]:
        if isinstance(self.offsets, range):
            return np.arange(self.offsets.start, self.offsets.stop, dtype=np.int64)
        return self.offsets

    def stored(self) -> pa.RecordBatch:
        if self.batch is not None:
            return self.batch
        assert self.rows is not None
        return batch_of_rows(self.rows)

    def arrow(self) -> pa.RecordBatch:
        """The batch as readers see it."""
        return complete(self.stored(), self.offset_array())

    def messages(self, stream: str, partition: int) -> Iterator[Message]:
        offsets = self.offsets if isinstance(self.offsets, range) else self.offsets.tolist()
        if self.rows is not None:
            return messages_of_rows(self.rows, stream, partition, offsets)
        assert self.batch is not None
        return messages_of_batch(self.batch, stream, partition, offsets)

    def slice(self, low: int, high: int) -> Block:
        if low == 0 and high == len(self):
            return self
        if self.rows is not None:
            return Block(self.offsets[low:high], self.rows[low:high])
        assert self.batch is not None
        return Block(self.offsets[low:high], batch=self.batch.slice(low, max(high - low, 0)))
