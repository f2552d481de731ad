"""AsyncStore: what can block runs in threads of its own; publishing single messages does not need one each."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import datetime
from functools import partial
from itertools import islice
from os import PathLike
from types import TracebackType
from typing import ParamSpec, Self, TypeVar

import pyarrow as pa

from lamina.aio.publishing import Publisher
from lamina.errors import WouldBlock
from lamina.index import Composite, Page
from lamina.log import (
    Producer,
    check_timeout,
)
from lamina.model import Message, PublishReceipt, Receipt
from lamina.settings import Settings
from lamina.store import Choice, PipelinedProducer, SegmentInfo, Store, StreamInfo, VerifyReport, open_store

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
        thread = ThreadPoolExecutor(1, thread_name_prefix="lamina-aio-open")
        opening = thread.submit(self._opener)
        try:
            return AsyncStore(await asyncio.wrap_future(opening))
        except asyncio.CancelledError:
            thread.submit(_close_opened, opening)  # after the opening, which cannot be stopped
            raise
        finally:
            thread.shutdown(wait=False)


class AsyncStore:
    """A Store used from one event loop. What can block runs in threads of its own."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="lamina-aio")
        self._publishers: dict[str, Publisher] = {}

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
        timeout: float | None = None,
    ) -> PublishReceipt:
        """Store one message; returns when it is durable as the stream promises.

        While `log.pending_bytes_max` wait for the disk already, it waits its turn. WouldBlock after `timeout` seconds:
        the message may still be stored, unless the error says that it was not.
        """
        appender = self._store.appender(stream)
        row = self._store.row(topic, value, key, labels, timestamp, ttl, priority)
        publisher = self._publishers.get(stream)
        if publisher is None or publisher.stream is not appender:
            publisher = self._publishers[stream] = Publisher(appender)
        if timeout is not None:
            return await publisher.send_within(row, timeout)
        future: asyncio.Future[PublishReceipt] = asyncio.Future(loop=publisher.loop)
        publisher.send(row, future)
        try:
            return await future
        except asyncio.CancelledError:
            publisher.forget(future)
            raise

    async def publish_many(
        self,
        messages: object,
        stream: str = "default",
        producer: Producer | None = None,
        *,
        timeout: float | None = None,
    ) -> Receipt:
        """As `Store.publish_many`."""
        publish_many = partial(self._store.publish_many, messages, stream, producer)
        return await _in_thread(self._threads, timeout, lambda left: publish_many(timeout=left))

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

    async def query(
        self,
        where: str | None = None,
        stream: str = "default",
        topic: str | None = None,
        labels: Mapping[str, str] | None = None,
        any_of: Sequence[Choice] | None = None,
        start: int | datetime | None = None,
        end: int | datetime | None = None,
        limit: int | None = 1000,
        cursor: str | None = None,
        descending: bool = False,
        include_expired: bool = False,
    ) -> Page:
        """As Store.query; the page's messages are there already, so going through it blocks nothing."""
        return await self._run(
            _loaded,
            self._store,
            where,
            stream,
            topic,
            labels,
            any_of,
            start,
            end,
            limit,
            cursor,
            descending,
            include_expired,
        )

    async def count(
        self,
        where: str | None = None,
        stream: str = "default",
        topic: str | None = None,
        labels: Mapping[str, str] | None = None,
        any_of: Sequence[Choice] | None = None,
        start: int | datetime | None = None,
        end: int | datetime | None = None,
        include_expired: bool = False,
    ) -> int:
        return await self._run(self._store.count, where, stream, topic, labels, any_of, start, end, include_expired)

    async def create_composite(self, name: str, keys: Sequence[str], stream: str = "default") -> Composite:
        return await self._run(self._store.create_composite, name, keys, stream)

    async def drop_composite(self, name: str, stream: str = "default") -> None:
        await self._run(self._store.drop_composite, name, stream)

    async def composites(self, stream: str = "default") -> list[Composite]:
        return await self._run(self._store.composites, stream)

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

    async def seal(self, stream: str = "default", *, timeout: float | None = None) -> None:
        await _in_thread(self._threads, timeout, lambda left: self._store.seal(stream, timeout=left))

    async def verify(self) -> VerifyReport:
        return await self._run(self._store.verify)

    async def metrics(self) -> Mapping[str, float]:
        return await self._run(self._store.metrics)

    async def close(self, *, timeout: float | None = None) -> None:
        """Commit what is under way and let go of the directory. Idempotent.

        WouldBlock after `timeout` seconds: closing goes on in the background, and closing again waits for its end.
        """
        for publisher in self._publishers.values():
            publisher.flush()
        await asyncio.get_running_loop().run_in_executor(None, partial(self._store.close, timeout=timeout))
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
        timeout: float | None = None,
    ) -> None:
        send = partial(
            self._producer.send, topic, value, key=key, labels=labels, timestamp=timestamp, ttl=ttl, priority=priority
        )
        if self._producer.has_room():
            send(timeout=timeout)
        else:
            await _in_thread(self._threads, timeout, lambda left: send(timeout=left))

    async def flush(self, *, timeout: float | None = None) -> None:
        await _in_thread(self._threads, timeout, lambda left: self._producer.flush(timeout=left))

    async def close(self, *, timeout: float | None = None) -> None:
        await _in_thread(self._threads, timeout, lambda left: self._producer.close(timeout=left))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


async def _in_thread(threads: ThreadPoolExecutor, timeout: float | None, call: Callable[[float | None], T]) -> T:
    """The result of a call that is given the time that is left for it when a thread is free."""
    loop = asyncio.get_running_loop()
    if (timeout := check_timeout(timeout)) is None:
        return await loop.run_in_executor(threads, call, None)
    end = loop.time() + timeout
    running = threads.submit(lambda: call(max(0.0, end - loop.time())))
    ended = asyncio.wrap_future(running)
    try:
        await asyncio.wait([ended], timeout=timeout)
        if running.cancel():
            raise WouldBlock(f"not begun: no thread was free for {timeout:g} s; try again", reason="threads")
        return await ended
    finally:
        ended.cancel()


def _close_opened(opening: Future[Store]) -> None:
    """Nobody wants the store any more."""
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()


def _take(items: Iterator[T], count: int) -> list[T]:
    return list(islice(items, count))


def _loaded(store: Store, *question: object) -> Page:
    page = store.query(*question)  # type: ignore[arg-type]
    list(page)
    return page
