"""What the conformance suite of indexes asks of its subject, and the subject that every pluggable backend is.

To let another index join, write a Subject and name it in SUBJECTS of test_index_backends.py. Entries of equal
timestamp are always put in the order of their refs, so a subject may order them by arrival.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple, Protocol, TypedDict, Unpack

from lamina.clock import new_uid
from lamina.index.backends import (
    Entry,
    IndexBackend,
    IndexStore,
    KvBackend,
    MemoryWindows,
    RedisBackend,
    RedisWindows,
    SqliteBackend,
    WindowedBackend,
    WindowStorage,
    rocks_windows,
    sqlite_windows,
)
from lamina.kv import Kv, MemoryKv, RocksKv, SqliteKv
from lamina.testing import FakeClock
from tests.conformance.index_backends_redis import RedisServer, redis_server

MINUTE = 60_000_000
BASE = 28_333_334 * MINUTE
"""The begin of a minute, and so of a window, in November 2023."""
KINDS = ("memory", "rocksdb", "sqlite", "redis")


class Asked(TypedDict, total=False):
    """The selection of a query."""

    labels: Mapping[str, str] | None
    any_of: Sequence[Mapping[str, str] | Sequence[tuple[str, str]]] | None
    start: int | None
    end: int | None
    include_expired: bool


class PageAsked(Asked, total=False):
    """A selection and how to page through it."""

    limit: int
    cursor: str | None
    descending: bool


class Found(NamedTuple):
    """A page, by the refs that were put."""

    refs: list[str]
    cursor: str | None
    has_more: bool
    is_fully_pushed: bool


class Subject(Protocol):
    """An index under test."""

    clock: FakeClock
    can_replace: bool
    """Whether entries may be put again, deleted and cleaned up; a log cannot."""

    def put(self, entries: Sequence[Entry]) -> None: ...

    def query(self, filter: str | None = None, **asked: Unpack[PageAsked]) -> Found: ...

    def count(self, filter: str | None = None, **asked: Unpack[Asked]) -> int: ...

    def register_composite(self, name: str, keys: Sequence[str]) -> None:
        """Returns when it is ready."""

    def drop_composite(self, name: str) -> None: ...

    def composites(self) -> dict[str, tuple[str, ...]]:
        """The ready ones: keys by name."""

    def delete(self, *refs: str) -> int: ...

    def cleanup(self) -> int: ...

    def restart(self) -> None:
        """Close and open again what was kept."""

    def close(self) -> None: ...


class StoreSubject:
    """An IndexStore over a backend that can be opened again."""

    can_replace = True

    def __init__(self, opener: Callable[[], IndexBackend], clock: FakeClock) -> None:
        self.clock = clock
        self._opener = opener
        self.backend = opener()
        self.store = IndexStore(self.backend, clock=clock)

    def put(self, entries: Sequence[Entry]) -> None:
        self.store.index_many(entries)

    def query(self, filter: str | None = None, **asked: Unpack[PageAsked]) -> Found:
        page = self.store.query(filter, **asked)
        refs = [entry.ref for entry in page.entries]
        return Found(refs, page.cursor, page.has_more, page.explain.is_fully_pushed)

    def count(self, filter: str | None = None, **asked: Unpack[Asked]) -> int:
        return self.store.count(filter, **asked)

    def register_composite(self, name: str, keys: Sequence[str]) -> None:
        self.store.register_composite(name, keys)

    def drop_composite(self, name: str) -> None:
        self.store.drop_composite(name)

    def composites(self) -> dict[str, tuple[str, ...]]:
        return {one.name: one.keys for one in self.store.composites() if one.state == "ready"}

    def delete(self, *refs: str) -> int:
        return self.store.delete(*refs)

    def cleanup(self) -> int:
        return self.store.cleanup()

    def restart(self) -> None:
        self.close()
        self.backend = self._opener()
        self.store = IndexStore(self.backend, clock=self.clock)

    def close(self) -> None:
        self.store.close()


class Openers:
    """Makes backends of every kind, bare or windowed, that find their contents again. One Redis server serves all."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._server: RedisServer | None = None

    def server(self) -> RedisServer:
        if self._server is None:
            self._server = self._stack.enter_context(redis_server())
        return self._server

    def bare(self, kind: str, place: Path) -> Callable[[], IndexBackend]:
        if kind == "memory":
            kvs = _MemoryKvs()
            return lambda: KvBackend(kvs.open())
        if kind == "rocksdb":
            return lambda: KvBackend(RocksKv(place / "rocks", sync=False))
        if kind == "sqlite":
            return lambda: SqliteBackend(place / "index.sqlite")
        url, prefix = self.server().url, f"test:{new_uid().hex()}:"
        return lambda: RedisBackend(url, prefix=prefix)

    def windowed(
        self, kind: str, place: Path, clock: FakeClock, *, max_open: int = 2, window_seconds: float = 60
    ) -> Callable[[], WindowedBackend]:
        storage, catalog = self._windows(kind, place)
        return lambda: WindowedBackend(
            storage(), catalog(), window_seconds=window_seconds, max_open=max_open, clock=clock
        )

    def subject(self, name: str, place: Path) -> StoreSubject:
        """By a name such as "sqlite" or "sqlite-windowed"."""
        kind, _, form = name.partition("-")
        clock = FakeClock(BASE + 10 * MINUTE)
        return StoreSubject(self.windowed(kind, place, clock) if form else self.bare(kind, place), clock)

    def close(self) -> None:
        self._stack.close()

    def _windows(self, kind: str, place: Path) -> tuple[Callable[[], WindowStorage], Callable[[], Kv]]:
        if kind == "memory":
            storage, kvs = MemoryWindows(), _MemoryKvs()
            return lambda: storage, kvs.open
        if kind == "rocksdb":
            return lambda: rocks_windows(place, sync=False), lambda: RocksKv(place / "catalog", sync=False)
        if kind == "sqlite":
            return lambda: sqlite_windows(place), lambda: SqliteKv(place / "catalog.sqlite")
        url, prefix = self.server().url, f"test:{new_uid().hex()}:"
        return lambda: RedisWindows(url, prefix=prefix), lambda: SqliteKv(place / "catalog.sqlite")


class _MemoryKvs:
    """A memory kv that is opened again and again."""

    def __init__(self) -> None:
        self._kv: MemoryKv | None = None

    def open(self) -> Kv:
        self._kv = MemoryKv() if self._kv is None else self._kv.reopen()
        return self._kv


def pages(subject: Subject, filter: str | None = None, **asked: Unpack[PageAsked]) -> list[str]:
    """Every page of a query, one after the other. Only the last may be short."""
    refs: list[str] = []
    while True:
        page = subject.query(filter, **asked)
        refs += page.refs
        if not page.has_more:
            return refs
        assert len(page.refs) == asked.get("limit", 1000)
        asked["cursor"] = page.cursor
