"""The store for asyncio: the same names, awaitable and async-iterable.

    async with lamina.aio.open("./data") as store:
        receipt = await store.publish("orders/eu", b"…")

Messages published in one turn of the loop are handed to the commit thread together, and their futures are resolved
by one call back into the loop per commit: a thousand waiting tasks cost one thread switch, not a thousand.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from functools import partial
from itertools import islice
from os import PathLike
from types import TracebackType
from typing import ParamSpec, Self, TypeVar

import pyarrow as pa

from lamina.errors import LaminaError
from lamina.log import Entry, Pending, Producer, Stream, pack_row
from lamina.model import Message, PublishReceipt, Receipt, Row
from lamina.settings import Settings
from lamina.store import PipelinedProducer, SegmentInfo, Store, StreamInfo, VerifyReport, open_store

P = ParamSpec("P")
T = TypeVar("T")
_THREADS = 8
_MESSAGES_FETCHED = 512

logger = logging.getLogger(__name__)


def open(path: str | PathLike[str], *, read_only: bool = False, settings: Settings | None = None) -> _Opening:
    """As `lamina.open`; use it with `async with`, or await it and close the store yourself."""
    return _Opening(partial(open_store, path, read_only=read_only, settings=settings))


class _Opening:
    """A store about to be opened."""

    def __init__(self, opener: Callable[[], Store]) -> None:
        self._opener = opener
        self._store: AsyncStore | None = None

    def __await__(self) -> Generator[object, None, AsyncStore]:
        return self._open().__await__()

    async def __aenter__(self) -> AsyncStore:
        self._store = await self._open()
        return self._store

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._store is not None:
            await self._store.close()

    async def _open(self) -> AsyncStore:
        return AsyncStore(await asyncio.get_running_loop().run_in_executor(None, self._opener))


class AsyncStore:
    """A Store used from one event loop. What can block runs in threads of its own."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="lamina-aio")
        self._publishers: dict[str, _Publisher] = {}

    # Publishing

    async def publish(
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
    ) -> PublishReceipt:
        """Store one message; returns when it is durable as the stream promises."""
        appender = self._store.appender(stream)
        row = self._store.row(topic, value, key, labels, timestamp, ttl, priority)
        publisher = self._publishers.get(stream)
        if publisher is None or publisher.stream is not appender:
            publisher = self._publishers[stream] = _Publisher(appender)
        return await publisher.send(row)

    async def publish_many(
        self, messages: object, stream: str = "default", producer: Producer | None = None
    ) -> Receipt:
        return await self._run(self._store.publish_many, messages, stream, producer)

    def producer(
        self, stream: str = "default", id: str | None = None, linger: float = 0.005, max_batch_bytes: int = 1 << 20
    ) -> AsyncProducer:
        """As `Store.producer`, with `async with` and an awaitable `send`."""
        return AsyncProducer(self._store.producer(stream, id, linger, max_batch_bytes), self._threads)

    # Reading

    async def read(
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
    ) -> AsyncIterator[Message]:
        """As `Store.read`; messages are fetched a few hundred at a time."""
        read = partial(self._store.read, start_time=start_time, end_time=end_time, descending=descending)
        found = await self._run(read, topic, stream, partition, start, end, limit)
        while messages := await self._run(_take, found, _MESSAGES_FETCHED):
            for message in messages:
                yield message

    async def read_arrow(
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
    ) -> AsyncIterator[pa.RecordBatch]:
        """As `Store.read_arrow`."""
        read = partial(self._store.read_arrow, start_time=start_time, end_time=end_time, descending=descending)
        found = await self._run(read, topic, stream, partition, start, end, limit)
        while batches := await self._run(_take, found, 1):
            for batch in batches:
                yield batch

    async def get(self, ref: str) -> Message:
        return await self._run(self._store.get, ref)

    async def latest(self, key: bytes, topic: str | None = None, stream: str = "default") -> Message | None:
        return await self._run(self._store.latest, key, topic, stream)

    async def contains_key(self, key: bytes, stream: str = "default", topic: str | None = None) -> bool:
        return await self._run(self._store.contains_key, key, stream, topic)

    async def offset_at(self, time: int | datetime, stream: str = "default", partition: int = 0) -> int:
        return await self._run(self._store.offset_at, time, stream, partition)

    # Streams and the store itself

    async def create_stream(self, name: str, **policy: object) -> None:
        await self._run(partial(self._store.create_stream, name, **policy))  # type: ignore[arg-type]

    async def update_stream(self, name: str, **changes: object) -> None:
        await self._run(partial(self._store.update_stream, name, **changes))

    async def delete_stream(self, name: str) -> None:
        await self._run(self._store.delete_stream, name)

    async def delete_before(self, stream: str = "default", partition: int = 0, offset: int = 0) -> None:
        await self._run(self._store.delete_before, stream, partition, offset)

    async def streams(self) -> list[str]:
        return await self._run(self._store.streams)

    async def stream(self, name: str = "default") -> StreamInfo:
        return await self._run(self._store.stream, name)

    async def topics(self, stream: str = "default", prefix: str = "") -> list[str]:
        return await self._run(self._store.topics, stream, prefix)

    async def segments(self, stream: str = "default") -> list[SegmentInfo]:
        return await self._run(self._store.segments, stream)

    async def seal(self, stream: str = "default") -> None:
        await self._run(self._store.seal, stream)

    async def verify(self) -> VerifyReport:
        return await self._run(self._store.verify)

    async def metrics(self) -> Mapping[str, float]:
        return await self._run(self._store.metrics)

    async def close(self) -> None:
        """Commit what is under way and let go of the directory. Idempotent."""
        for publisher in self._publishers.values():
            publisher.flush()
        await asyncio.get_running_loop().run_in_executor(None, self._store.close)
        self._threads.shutdown(wait=False)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, partial(call, *args, **kwargs))


class AsyncProducer:
    """A pipelined producer; `send` waits only while too much is queued."""

    def __init__(self, producer: PipelinedProducer, threads: ThreadPoolExecutor) -> None:
        self._producer = producer
        self._threads = threads

    @property
    def id(self) -> str:
        return self._producer.id

    async def send(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        labels: Mapping[str, str] | None = None,
        timestamp: int | datetime | None = None,
        ttl: float | None = None,
        priority: int | None = None,
    ) -> None:
        send = partial(
            self._producer.send, topic, value, key=key, labels=labels, timestamp=timestamp, ttl=ttl, priority=priority
        )
        if self._producer.has_room():
            send()
        else:
            await asyncio.get_running_loop().run_in_executor(self._threads, send)

    async def flush(self) -> None:
        await asyncio.get_running_loop().run_in_executor(self._threads, self._producer.flush)

    async def close(self) -> None:
        await asyncio.get_running_loop().run_in_executor(self._threads, self._producer.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


class _Publisher:
    """Collects the rows of one turn of the loop, submits them as one call per partition, and is the calls' sink."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self._loop = asyncio.get_running_loop()
        self._is_single = len(stream.partitions) == 1
        self._frame_bytes = stream.frame_bytes_target
        self._waiting: dict[int, _Run] = {}

    def send(self, row: Row) -> asyncio.Future[PublishReceipt]:
        if not self._waiting:
            self._loop.call_soon(self.flush)
        number = 0 if self._is_single else self.stream.partition_of(row)
        run = self._waiting.get(number)
        if run is None or run.bytes > self._frame_bytes:
            if run is not None:
                self._submit(number, run)
            run = self._waiting[number] = _Run()
        # Packed at once, while the message is in the processor's cache.
        packed = pack_row(row)
        future: asyncio.Future[PublishReceipt] = asyncio.Future(loop=self._loop)
        run.rows.append(packed)
        run.times.append(row.timestamp)
        run.futures.append(future)
        run.bytes += len(packed)
        return future

    def flush(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for number, run in waiting.items():
            self._submit(number, run)

    def settle(self, entries: Sequence[Entry]) -> None:
        """On the commit thread: one call into the loop for all that was committed together."""
        try:
            self._loop.call_soon_threadsafe(self._resolve, entries)
        except RuntimeError:
            count = sum(entry.pending.count for entry in entries)
            logger.warning("the event loop ended before its messages were committed count=%s", count)

    def _submit(self, number: int, run: _Run) -> None:
        run.close()
        try:
            self.stream.submit(run, self, number)
        except LaminaError as error:
            run.fail(error)

    def _resolve(self, entries: Sequence[Entry]) -> None:
        name = self.stream.name
        for entry in entries:
            run = entry.pending
            assert isinstance(run, _Run)
            if entry.error is not None:
                run.fail(entry.error)
                continue
            number, offset, epoch = entry.partition, entry.first, entry.epoch
            for time, future in zip(run.times, run.futures, strict=True):
                if not future.done():
                    future.set_result(PublishReceipt(name, number, offset, epoch, time))
                offset += 1


class _Run(Pending):
    """Packed rows for one partition, with their times and the futures of their tasks."""

    __slots__ = ("futures", "rows", "times")

    def __init__(self) -> None:
        self.rows: list[bytes] = []
        self.times: list[int] = []
        self.futures: list[asyncio.Future[PublishReceipt]] = []
        super().__init__(self.rows, 0, 0, 0)

    def close(self) -> None:
        """No more rows: say what they are together."""
        self.count = len(self.rows)
        self.ts_min, self.ts_max = min(self.times), max(self.times)

    def fail(self, error: Exception) -> None:
        for future in self.futures:
            if not future.done():
                future.set_exception(error)


def _take(items: Iterator[T], count: int) -> list[T]:
    return list(islice(items, count))
