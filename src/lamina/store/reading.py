"""A planned read of one partition: where, from where to where, and which messages of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

import numpy as np
import pyarrow as pa

from lamina.errors import InvalidRequest, NotFound
from lamina.log import Block, PartitionView, TimeRange, coalesced
from lamina.metrics import Metrics
from lamina.model import Message, parse_ref, time_us
from lamina.store.streams import OpenStream


@dataclass(frozen=True, slots=True)
class Reading:
    """All choices of one `read`, checked."""

    view: PartitionView
    topic: str | None
    start: int | None
    end: int | None
    limit: int | None
    times: TimeRange
    descending: bool
    use_index: bool
    metrics: Metrics

    @classmethod
    def plan(
        cls,
        stream: OpenStream,
        *,
        topic: str | None,
        partition: int | None,
        start: int | None,
        end: int | None,
        limit: int | None,
        start_time: int | datetime | None,
        end_time: int | datetime | None,
        descending: bool,
        use_index: bool,
        metrics: Metrics,
    ) -> Reading:
        for name, number in (("start", start), ("end", end), ("limit", limit)):
            if number is not None and (isinstance(number, bool) or not isinstance(number, int) or number < 0):
                raise InvalidRequest(f"{name} must be an int from 0 on or None, not {number!r}")
        if topic is not None and not isinstance(topic, str):
            raise InvalidRequest(f"topic must be str or None, not {type(topic).__name__}")
        times = TimeRange(
            None if start_time is None else time_us("start_time", start_time),
            None if end_time is None else time_us("end_time", end_time),
        )
        view = choose_view(stream, topic, partition)
        return cls(view, topic, start, end, limit, times, descending, use_index, metrics)

    @staticmethod
    def parse(ref: object) -> tuple[str, int, int]:
        return parse_ref(getattr(ref, "ref", ref))  # type: ignore[arg-type]

    def messages(self) -> Iterator[Message]:
        return self._messages(self._limited(self._blocks()))

    def batches(self) -> Iterator[pa.RecordBatch]:
        return self._batches(coalesced(self._limited(self._blocks()), descending=self.descending))

    def _messages(self, blocks: Iterator[Block]) -> Iterator[Message]:
        stream, number = self.view.stream, self.view.number
        for block in blocks:
            found = block.messages(stream, number)
            yield from reversed(list(found)) if self.descending else found

    def _batches(self, blocks: Iterator[Block]) -> Iterator[pa.RecordBatch]:
        for block in blocks:
            batch = block.arrow()
            yield batch.take(pa.array(np.arange(batch.num_rows)[::-1])) if self.descending else batch

    def _limited(self, blocks: Iterator[Block]) -> Iterator[Block]:
        """Cut to `limit` messages before any of them is decoded."""
        left = self.limit
        for block in blocks:
            if left is not None:
                block = block.last(left) if self.descending else block.first(left)
                left -= len(block)
            if len(block):
                self.metrics.add("lamina_messages_read_total", len(block))
                yield block
            if left == 0:
                return

    def _blocks(self) -> Iterator[Block]:
        # Planned now, so that a start outside the log raises here and not at the first message.
        blocks = self.view.blocks(
            self.start, self.end, descending=self.descending, times=self.times, use_index=self.use_index
        )
        return self._of_topic(blocks)

    def _of_topic(self, blocks: Iterator[Block]) -> Iterator[Block]:
        for block in blocks:
            if self.topic is not None:
                block = block.where(block.topic_mask(self.topic))
            if len(block):
                yield block


def choose_view(stream: OpenStream, topic: str | None, partition: int | None) -> PartitionView:
    """The partition asked for, else the topic's, else the only one."""
    if partition is not None:
        return partition_view(stream, partition)
    views = stream.views_for(topic, None)
    if len(views) > 1:
        raise InvalidRequest(
            f"stream {stream.name!r} has {len(views)} partitions; say which with partition=0 … {len(views) - 1}"
        )
    return views[0]


def partition_view(stream: OpenStream, number: int) -> PartitionView:
    views = stream.views()
    if isinstance(number, bool) or not isinstance(number, int):
        raise InvalidRequest(f"partition must be an int, not {number!r}")
    if not 0 <= number < len(views):
        raise NotFound(f"stream {stream.name!r} has no partition {number}; it has 0 to {len(views) - 1}")
    return views[number]
