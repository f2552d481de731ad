"""The store's own label index as a subject of the conformance suite: an entry is a message, its ref the value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

import lamina
from lamina.disk import MemoryDisk
from lamina.index.backends import Entry
from lamina.testing import FakeClock
from tests.conformance.index_backends_subject import Asked, Found, PageAsked


class NativeSubject:
    """A store on a disk in memory. Small chunks and segments, so that a query meets several of each."""

    can_replace = False

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self._disk = MemoryDisk()
        self._settings = lamina.Settings(
            log=lamina.LogSettings(segment_bytes_max=1 << 20),
            index=lamina.IndexSettings(chunk_rows=256, background=False),
        )
        self._store = self._open()

    def put(self, entries: Sequence[Entry]) -> None:
        messages = [
            lamina.Message("entries", e.ref.encode(), None, e.labels, e.timestamp, e.expires_at) for e in entries
        ]
        self._store.publish_many(messages)
        self._store._stream("default").index.step()

    def query(self, filter: str | None = None, **asked: Unpack[PageAsked]) -> Found:
        page = self._store.query(filter, **asked)
        refs = [(message.value or b"").decode() for message in page]
        return Found(refs, page.cursor, page.has_more, not page.explain()["residual"])

    def count(self, filter: str | None = None, **asked: Unpack[Asked]) -> int:
        return self._store.count(filter, **asked)

    def register_composite(self, name: str, keys: Sequence[str]) -> None:
        self._store.create_composite(name, keys)
        self._store._stream("default").index.step()

    def drop_composite(self, name: str) -> None:
        self._store.drop_composite(name)

    def composites(self) -> dict[str, tuple[str, ...]]:
        return {one.name: one.keys for one in self._store.composites() if one.state == "ready"}

    def delete(self, *refs: str) -> int:
        raise NotImplementedError("a log keeps what it has")

    def cleanup(self) -> int:
        raise NotImplementedError("a log keeps what it has")

    def restart(self) -> None:
        self.close()
        self._store = self._open()

    def close(self) -> None:
        self._store.close()

    def _open(self) -> lamina.Store:
        return lamina.open("store", disk=self._disk, clock=self.clock, settings=self._settings)
