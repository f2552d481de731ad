"""Blocks and stores of small, known messages for tests of the label index."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import lamina
from lamina.disk import Disk, MemoryDisk
from lamina.index import StreamIndex
from lamina.log import Block
from lamina.model import Row, batch_of_rows
from lamina.testing import FakeClock

NOW_US = 1_700_000_000_000_000


def row(number: int, labels: dict[str, str], topic: str = "t", priority: int | None = None) -> Row:
    return Row(NOW_US + number, topic, None, b"v", labels, None, None, priority)


def block(rows: Sequence[Row], first: int = 0, base: int = 0) -> Block:
    return Block(range(base + first, base + first + len(rows)), batch=batch_of_rows(rows))


def open_store(
    disk: Disk | None = None, *, chunk_rows: int = 8, background: bool = False, read_only: bool = False
) -> lamina.Store:
    """A store whose clock stands still and which indexes in the background only when the test says so."""
    settings = lamina.Settings(index=lamina.IndexSettings(chunk_rows=chunk_rows, background=background))
    clock = FakeClock(NOW_US, jump=False)
    return lamina.open("store", disk=disk or MemoryDisk(), clock=clock, settings=settings, read_only=read_only)


def index_of(store: lamina.Store, stream: str = "default") -> StreamIndex:
    return store._stream(stream).index


def publish(store: lamina.Store, labels: Sequence[dict[str, str]], *, stream: str = "default") -> None:
    """One call for all, with timestamps a microsecond apart from where the stream ends."""
    first = store.stream(stream).messages
    store.publish_many(
        [
            lamina.Message(topic="t", value=b"v%d" % (first + at), labels=one, timestamp=NOW_US + first + at)
            for at, one in enumerate(labels)
        ],
        stream=stream,
    )


def offsets(page: lamina.Page) -> list[int]:
    return [message.offset for message in page]


def wait_until(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    """Poll with a pause that an event gives: nothing else tells that the worker has done its part."""
    pause = threading.Event()
    for _ in range(int(seconds / 0.01)):
        if condition():
            return
        pause.wait(0.01)
    raise AssertionError("it did not happen in time")
