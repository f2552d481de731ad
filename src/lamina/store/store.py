"""Store: the embedded store that users hold. It wires the rooms and owns their lifetimes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from datetime import datetime
from types import TracebackType
from typing import Literal, Self, overload

import msgspec
import pyarrow as pa

from lamina.clock import Clock
from lamina.errors import Closed, Conflict, Denied, InvalidRequest, Unavailable, WouldBlock
from lamina.log import Deadline, Partition, Producer, Stream, StreamPolicy, check_policy_change, check_stream_name
from lamina.metrics import Metrics
from lamina.model import (
    Message,
    Now,
    PublishReceipt,
    Receipt,
    Row,
    arrow_batches,
    make_row,
    rows_of,
    stored_batch,
    time_us,
)
from lamina.store.closing import Closing
from lamina.store.futures import FutureSink, wait_for
from lamina.store.infos import SegmentInfo, StreamInfo, VerifyReport
from lamina.store.producing import PipelinedProducer
from lamina.store.queries import Queries
from lamina.store.reading import Reading, partition_view
from lamina.store.streams import FollowedStreams, OpenStream, OwnedStreams
from lamina.store.surveys import segment_infos, stream_info, verify


class Store(Queries):
    """A store in this process. Any thread may use it. Close it, or use it in a `with` block.

    Every method raises Closed after `close`, and NotFound for a stream that does not exist.
    """

    def __init__(self, streams: OwnedStreams | FollowedStreams, clock: Clock, future_us: int, metrics: Metrics) -> None:
        self._streams = streams
        self._clock = clock
        self._future_us = future_us
        self._metrics = metrics
        self._changing = threading.Lock()  # one change of the set of streams at a time
        self._closed = False
        self._closing: Closing | None = None  # guarded by _changing

    # Streams

    def create_stream(
        self,
        name: str,
        *,
        partitions: int = 1,
        durability: str = "local",
        retention_seconds: float | None = None,
        retention_bytes: int | None = None,
        compaction: str = "none",
        window_seconds: int = 3600,
        partition_by: str = "topic",
    ) -> None:
        """Idempotent if the stream exists with this policy; Conflict if it differs."""
        policy = StreamPolicy(
            partitions=partitions,
            durability=durability,  # type: ignore[arg-type]
            retention_seconds=retention_seconds,
            retention_bytes=retention_bytes,
            compaction=compaction,  # type: ignore[arg-type]
            window_seconds=window_seconds,
            partition_by=partition_by,  # type: ignore[arg-type]
        )
        check_stream_name(name)
        policy.check()
        with self._changing:
            owned = self._owned()
            if (existing := owned.find(name)) is None:
                owned.create(name, policy)
            elif existing.policy != policy:
                raise Conflict(f"stream {name!r} exists with another policy: {_difference(existing.policy, policy)}")

    def update_stream(self, name: str, **changes: object) -> None:
        """Change parts of the policy, e.g. `retention_seconds=86400`. Conflict for what is fixed at creation."""
        with self._changing:
            owned = self._owned()
            old = owned.get(name).policy
            if unknown := set(changes) - set(StreamPolicy.__struct_fields__):
                known = ", ".join(StreamPolicy.__struct_fields__)
                raise InvalidRequest(f"a stream's policy has no {sorted(unknown)[0]!r}; it has {known}")
            new = msgspec.structs.replace(old, **changes)
            new.check()
            check_policy_change(name, old, new)
            owned.update(name, new)

    def delete_stream(self, name: str) -> None:
        """The stream and all its messages are gone when this returns."""
        with self._changing:
            self._owned().delete(name)

    def delete_before(self, stream: str = "default", partition: int = 0, offset: int = 0) -> None:
        """Forget the messages below `offset`; their offsets are never used again."""
        if isinstance(offset, bool) or not isinstance(offset, int) or offset < 0:
            raise InvalidRequest(f"offset must be an int from 0 on, not {offset!r}")
        with self._changing:
            self._partition(stream, partition).delete_before(offset)

    def streams(self) -> list[str]:
        return self._open_streams().names()

    def stream(self, name: str = "default") -> StreamInfo:
        return stream_info(self._stream(name))

    def topics(self, stream: str = "default", prefix: str = "") -> list[str]:
        """The distinct topics that begin with `prefix`, sorted."""
        found = {topic for view in self._stream(stream).views() for topic in view.topics()}
        return sorted(topic for topic in found if topic.startswith(prefix))

    # Publishing

    @overload
    def publish(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        labels: Mapping[str, str] | None = None,
        timestamp: int | datetime | None = None,
        ttl: float | None = None,
        priority: int | None = None,
        stream: str = "default",
        wait: Literal[True] = True,
        timeout: float | None = None,
    ) -> PublishReceipt: ...

    @overload
    def publish(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        labels: Mapping[str, str] | None = None,
        timestamp: int | datetime | None = None,
        ttl: float | None = None,
        priority: int | None = None,
        stream: str = "default",
        wait: Literal[False],
        timeout: float | None = None,
    ) -> Future[PublishReceipt]: ...

    def publish(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        labels: Mapping[str, str] | None = None,
        timestamp: int | datetime | None = None,
        ttl: float | None = None,
        priority: int | None = None,
        stream: str = "default",
        wait: bool = True,
        timeout: float | None = None,
    ) -> PublishReceipt | Future[PublishReceipt]:
        """Store one message; returns when it is durable as the stream promises. `value` None is a tombstone.

        `wait=False` returns a Future of the receipt, at once unless `log.pending_bytes_max` wait for the disk already.
        `ttl` is seconds from now until the message expires. WouldBlock after `timeout` seconds: the message may still
        be stored, unless the error says that it was not.
        """
        target = self.appender(stream)
        row = self.row(topic, value, key, labels, timestamp, ttl, priority)
        if not wait or timeout is not None:
            deadline = Deadline(self._clock, timeout)
            future = FutureSink.publish(target, row, deadline)
            return wait_for(future, deadline) if wait else future
        entry = target.append_row(row)
        return PublishReceipt(stream, entry.partition, entry.first, entry.epoch, row.timestamp)

    def publish_many(
        self,
        messages: object,
        stream: str = "default",
        producer: Producer | None = None,
        *,
        timeout: float | None = None,
    ) -> Receipt:
        """Store many messages: an iterable of Message or dict, or any Arrow table or batch.

        Those of one partition become durable together or not at all (up to 64 MiB). `producer=("id", sequence)`
        makes a retry safe: the same call again gets its original receipt. WouldBlock after `timeout` seconds: the
        messages may still be stored.
        """
        target = self.appender(stream)
        now = Now(self._clock.now_us(), self._future_us)
        batches = arrow_batches(messages)
        if batches is not None:
            stored = [stored_batch(batch, now) for batch in batches if batch.num_rows]
            return target.append_batches(stored, _producer(producer), timeout)
        if isinstance(messages, str | bytes | Mapping) or not isinstance(messages, Iterable):
            raise InvalidRequest(
                f"publish_many takes an iterable of Messages or dicts, or an Arrow table, not {type(messages).__name__}"
            )
        return target.append_rows(rows_of(messages, now), _producer(producer), timeout)

    def producer(
        self, stream: str = "default", id: str | None = None, linger: float = 0.005, max_batch_bytes: int = 1 << 20
    ) -> PipelinedProducer:
        """A pipeline for many single messages: exactly once, batched in the background; leaving it flushes."""
        return PipelinedProducer(self.appender(stream), self.row, self._clock, id, linger, max_batch_bytes)

    # Reading

    def read(
        self,
        topic: str | None = None,
        stream: str = "default",
        partition: int | None = None,
        start: int | None = None,
        end: int | None = None,
        limit: int | None = None,
        *,
        start_time: int | datetime | None = None,
        end_time: int | datetime | None = None,
        descending: bool = False,
        use_index: bool = True,
    ) -> Iterator[Message]:
        """Messages by offset [start, end), optionally of one topic and with timestamps in [start_time, end_time).

        Reads what is there now, oldest first (or newest first); to go on, start at the last offset + 1.
        OffsetOutOfRange if `start` is not in the log any more, or not yet. `use_index=False` walks each segment from
        its beginning: for measuring what the index is worth.
        """
        return self._reading(
            topic, stream, partition, start, end, limit, start_time, end_time, descending, use_index
        ).messages()

    def read_arrow(
        self,
        topic: str | None = None,
        stream: str = "default",
        partition: int | None = None,
        start: int | None = None,
        end: int | None = None,
        limit: int | None = None,
        *,
        start_time: int | datetime | None = None,
        end_time: int | datetime | None = None,
        descending: bool = False,
        use_index: bool = True,
    ) -> Iterator[pa.RecordBatch]:
        """The same as `read`, as record batches that share the segments' memory where they can."""
        return self._reading(
            topic, stream, partition, start, end, limit, start_time, end_time, descending, use_index
        ).batches()

    def get(self, ref: str) -> Message:
        """The message with this ref ('default/0/42'); NotFound if it is not there."""
        name, number, offset = Reading.parse(ref)
        return partition_view(self._stream(name), number).get(offset)

    def latest(self, key: bytes, topic: str | None = None, stream: str = "default") -> Message | None:
        """The newest message of the key (in the topic, or in any), a tombstone included; None if there is none."""
        found = [
            message
            for view in self._stream(stream).views_for(topic, _key(key))
            if (message := view.latest(key, topic)) is not None
        ]
        return max(found, key=lambda m: (m.timestamp or 0, m.offset), default=None)

    def contains_key(self, key: bytes, stream: str = "default", topic: str | None = None) -> bool:
        """Whether a message of this key is stored. Exact; mostly answered by Bloom filters."""
        return self.latest(key, topic, stream) is not None

    def offset_at(self, time: int | datetime, stream: str = "default", partition: int = 0) -> int:
        """The first offset whose timestamp is at or after `time`; the end of the log if there is none."""
        return partition_view(self._stream(stream), partition).offset_at(time_us("time", time))

    # The store itself

    def segments(self, stream: str = "default") -> list[SegmentInfo]:
        return segment_infos(self._stream(stream))

    def seal(self, stream: str = "default", *, timeout: float | None = None) -> None:
        """Close the active segments of the stream and seal them; returns when they are immutable.

        WouldBlock after `timeout` seconds of waiting for commits or for sealing under way, which go on.
        """
        deadline = Deadline(self._clock, timeout)
        for partition in self._owned().get(stream).owned_partitions():
            partition.roll(deadline)
            if not partition.seal_closed(deadline):
                raise Unavailable(
                    f"a segment of stream {stream!r} could not be sealed; the log says why, then seal again"
                )

    def verify(self, progress: Callable[[int, int], None] | None = None) -> VerifyReport:
        """Check every byte of every segment against its checksums. Changes nothing.

        `progress` is called with the bytes checked so far and the bytes in all.
        """
        return verify(self._open_streams(), progress)

    def metrics(self) -> Mapping[str, float]:
        """All counters and gauges now; names and meanings are in `lamina.metrics.METRICS`."""
        self._open_streams().gauge(self._metrics)
        return self._metrics.snapshot()

    def abandon(self) -> None:
        """In a forked child: the store belongs to the parent, whose file positions and threads are not here."""
        self._closed = True
        self._closing = None
        self._streams.appenders.clear()

    def close(self, *, timeout: float | None = None) -> None:
        """Commit what is under way and let go of the directory. Idempotent.

        WouldBlock after `timeout` seconds: closing goes on in the background, and closing again waits for its end.
        """
        deadline = Deadline(self._clock, timeout)
        with deadline.holding(self._changing, "another change of the store"):
            if not self._closed:
                self._closed = True
                if timeout is None:
                    self._streams.close()
                    return
                self._closing = Closing(self._streams.close)
            if self._closing is not None and not self._closing.wait(deadline.left()):
                raise WouldBlock(f"not closed within {timeout or 0:g} s; close again to wait for it", reason="close")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def appender(self, stream: str = "default") -> Stream:
        """The way into the log for rows that are checked already: `lamina.aio` commits through it."""
        try:
            return self._streams.appenders[stream]
        except (KeyError, TypeError):
            return self._owned().get(stream).appender()

    def row(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        labels: Mapping[str, str] | None,
        timestamp: int | datetime | None,
        ttl: float | None,
        priority: int | None,
    ) -> Row:
        """A message checked and stamped, ready for `appender`."""
        now_us = self._clock.now_us()
        return make_row(
            topic,
            value,
            key,
            labels,
            timestamp,
            now_us=now_us,
            future_us=self._future_us,
            expires_at=None if ttl is None else _expiry_us(ttl, now_us),
            priority=priority,
        )

    def _open_streams(self) -> OwnedStreams | FollowedStreams:
        if self._closed:
            raise Closed("the store is closed (or this process was forked from its owner); open it again")
        return self._streams

    def _owned(self) -> OwnedStreams:
        streams = self._open_streams()
        if not isinstance(streams, OwnedStreams):
            raise Denied("the store is open read-only; open it without read_only=True to change it")
        return streams

    def _stream(self, name: str) -> OpenStream:
        return self._open_streams().get(name)

    def _partition(self, stream: str, number: int) -> Partition:
        partitions = self._owned().get(stream).owned_partitions()
        partition_view(self._stream(stream), number)
        return partitions[number]

    def _reading(
        self,
        topic: str | None,
        stream: str,
        partition: int | None,
        start: int | None,
        end: int | None,
        limit: int | None,
        start_time: int | datetime | None,
        end_time: int | datetime | None,
        descending: bool,
        use_index: bool,
    ) -> Reading:
        return Reading.plan(
            self._stream(stream),
            topic=topic,
            partition=partition,
            start=start,
            end=end,
            limit=limit,
            start_time=start_time,
            end_time=end_time,
            descending=descending,
            use_index=use_index,
            metrics=self._metrics,
        )


def _expiry_us(ttl: object, now_us: int) -> int:
    """When a message expires that lives for `ttl` seconds."""
    if isinstance(ttl, bool) or not isinstance(ttl, int | float) or not 0 < ttl < 1e12:
        raise InvalidRequest(f"ttl must be a positive number of seconds, not {ttl!r}")
    return now_us + int(ttl * 1e6)


def _key(key: object) -> bytes:
    if not isinstance(key, bytes):
        raise InvalidRequest(f"key must be bytes, not {type(key).__name__}")
    return key


def _producer(producer: object) -> Producer | None:
    if producer is None or (isinstance(producer, tuple) and len(producer) == 2):
        return producer
    raise InvalidRequest(f"producer must be a tuple (id, sequence), not {producer!r:.80}")


def _difference(old: StreamPolicy, new: StreamPolicy) -> str:
    fields = [name for name in StreamPolicy.__struct_fields__ if getattr(old, name) != getattr(new, name)]
    return ", ".join(f"{name} is {getattr(old, name)!r}, not {getattr(new, name)!r}" for name in fields)
