"""An index cut into windows of time: reading across them, composites of all of them, and their ends."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path

import msgspec

from lamina.clock import Clock, SystemClock
from lamina.errors import InvalidRequest, NotFound
from lamina.index.backends.entry import Entry
from lamina.index.backends.matching import check_composite
from lamina.index.backends.plans import time_span
from lamina.index.backends.seam import Answer, BackendStats, Composite, IndexBackend, Query, last_of_each
from lamina.index.backends.windowed.catalog import Catalog, CatalogComposite, Window
from lamina.index.backends.windowed.pool import WindowGone, WindowPool
from lamina.index.backends.windowed.storage import WindowStorage
from lamina.index.backends.windowed.writing import WindowWriter
from lamina.kv import Kv

FUTURE_SECONDS = 86_400.0
_STEP = 1000  # entries that one step of building touches


class WindowedBackend:
    """A backend per window, behind one. Owns the storage and the catalog, and closes them.

    `max_open` is how many windows stay open (0: all). A timestamp more than `future_seconds` ahead is refused, since
    each new window costs a directory, for good.
    """

    def __init__(
        self,
        storage: WindowStorage,
        catalog: Kv,
        *,
        window_seconds: float,
        max_open: int = 0,
        future_seconds: float = FUTURE_SECONDS,
        clock: Clock | None = None,
    ) -> None:
        self._width_us = round(window_seconds * 1_000_000)
        if self._width_us < 1 or max_open < 0:
            raise InvalidRequest(f"windows of {window_seconds} s, {max_open} of them open: neither can be so small")
        self._storage = storage
        self._clock = SystemClock() if clock is None else clock
        self._future_us = round(future_seconds * 1_000_000)
        self._pool = WindowPool(self._opened, max_open)
        try:
            self._catalog = Catalog(catalog, self._width_us)
            self._writer = WindowWriter(self._catalog, self._pool, storage, self._width_us)
            self._writer.settle()
        except BaseException:
            self._pool.close()
            catalog.close()
            storage.close()
            raise

    def put_batch(self, entries: Sequence[Entry]) -> None:
        latest = list(last_of_each(entries).values())
        horizon = self._clock.now_us() + self._future_us
        for entry in latest:
            if entry.timestamp > horizon:
                raise InvalidRequest(
                    f"entry {entry.ref!r}: its timestamp {entry.timestamp} is too far in the future; "
                    "times are UTC microseconds: check the unit and the clock, or raise future_seconds"
                )
        self._writer.put(latest)

    def get(self, ref: str) -> Entry | None:
        while True:
            self._writer.settle()
            window = self._catalog.window_of(ref)
            if window is None:
                return None
            for _, backend in self._leased([window]):
                entry = backend.get(ref)
                if entry is not None:
                    return entry
            self._writer.settle()  # it may be on its way to another window
            now = self._catalog.window_of(ref)
            if now is None or now.uid == window.uid:
                return None

    def delete(self, refs: Sequence[str]) -> int:
        return self._writer.delete(refs)

    def query(self, query: Query) -> Answer:
        self._writer.settle()
        answer = Answer(iter(()))
        answer.entries = self._read(query, answer.steps)
        return answer

    def count(self, query: Query) -> int:
        self._writer.settle()
        return sum(backend.count(query) for _, backend in self._leased(self._overlapping(query)))

    def delete_expired(self, now_us: int, limit: int) -> list[str]:
        return self._writer.delete_expired(now_us, limit)

    def refs(self, prefix: str, limit: int) -> list[str]:
        self._writer.settle()
        return list(islice(self._catalog.refs(prefix), limit))

    def composites(self) -> tuple[Composite, ...]:
        return tuple(one.composite for one in self._catalog.composites.values())

    def define_composite(self, name: str, label_keys: Sequence[str]) -> None:
        with self._writer.exclusive():
            checked = check_composite(name, label_keys, self.composites())
            self._catalog.save_composite(CatalogComposite(name, checked.keys))

    def build_composite(self, name: str, limit: int) -> bool:
        """A whole window at a time. Windows that are opened later build it for themselves."""
        with self._writer.exclusive():
            definition = self._composite(name)
            window = next((one for one in self.windows() if one.number > definition.built), None)
            if definition.state == "ready" or window is None:
                self._catalog.save_composite(msgspec.structs.replace(definition, state="ready"))
                return True
            with self._pool.lease(window) as backend:
                self._align(backend)
            self._catalog.save_composite(msgspec.structs.replace(definition, built=window.number))
            return False

    def drop_composite(self, name: str) -> None:
        with self._writer.exclusive():
            self._composite(name)
            self._catalog.forget_composite(name)
            for uid in self._pool.open_uids():
                with self._pool.lease(self._catalog.windows[uid]) as backend:
                    self._align(backend)

    def put_cursor(self, name: str, text: str) -> None:
        self._catalog.put_cursor(name, text)

    def get_cursor(self, name: str) -> str | None:
        return self._catalog.get_cursor(name)

    def delete_cursor(self, name: str) -> None:
        self._catalog.delete_cursor(name)

    def stats(self) -> BackendStats:
        """Asks every window, so it opens them one after the other."""
        self._writer.settle()
        parts = [backend.stats() for _, backend in self._leased(self.windows())]
        expiries = [part.next_expiry for part in parts if part.next_expiry is not None]
        return BackendStats(
            entries=sum(part.entries for part in parts),
            oldest=min((part.oldest for part in parts if part.oldest is not None), default=None),
            newest=max((part.newest for part in parts if part.newest is not None), default=None),
            next_expiry=min(expiries, default=None),
            composites=self.composites(),
            windows=len(parts),
            windows_open=len(self._pool.open_uids()),
        )

    def windows(self) -> tuple[Window, ...]:
        """All of them, open or not, from the oldest on."""
        return self._catalog.kept()

    def open_windows(self) -> tuple[Window, ...]:
        uids = self._pool.open_uids()
        return tuple(window for window in self.windows() if window.uid in uids)

    def drop_window(self, number: int) -> None:
        """Delete a whole window without reading it. NotFound if there is none; Conflict while it is read."""
        self._writer.retire(number, "dropping")

    def archive_window(self, number: int) -> Path:
        """Take a whole window out of the index and tell where it is now; it is a complete index of its own."""
        if not self._storage.can_archive:
            raise InvalidRequest("only windows in directories can be archived; drop this one")
        path = self._writer.retire(number, "archiving")
        assert path is not None
        return path

    def close(self) -> None:
        self._writer.close()

    def _read(self, query: Query, steps: list[str]) -> Iterator[Entry]:
        windows = self._overlapping(query)
        with closing(self._leased(reversed(windows) if query.descending else windows)) as leased:
            for window, backend in leased:
                answer = backend.query(query)
                steps.append(f"window {window.number}")
                own = len(steps)
                for entry in answer.entries:
                    if len(steps) == own:
                        steps += answer.steps
                    yield entry

    def _leased(self, windows: Iterable[Window]) -> Generator[tuple[Window, IndexBackend], None, None]:
        """One after the other, without those that are dropped before their turn."""
        for window in windows:
            try:
                with self._pool.lease(window) as backend:
                    yield window, backend
            except WindowGone:
                continue

    def _overlapping(self, query: Query) -> list[Window]:
        start, end = time_span(query.groups)
        if query.after is not None:
            if query.descending:
                end = query.after.timestamp + 1 if end is None else min(end, query.after.timestamp + 1)
            else:
                start = query.after.timestamp if start is None else max(start, query.after.timestamp)
        return [
            window
            for window in self.windows()
            if (start is None or window.end > start) and (end is None or window.start < end)
        ]

    def _opened(self, window: Window) -> IndexBackend:
        backend = self._storage.open(window.name)
        try:
            self._align(backend)
        except BaseException:
            backend.close()
            raise
        return backend

    def _align(self, backend: IndexBackend) -> None:
        """Make the composites of a window those of the catalog: it may have been closed when they changed."""
        wanted = {one.name: one.keys for one in self._catalog.composites.values()}
        there = {one.name: one for one in backend.composites()}
        for name, composite in there.items():
            if wanted.get(name) != composite.keys:
                backend.drop_composite(name)
        for name, keys in wanted.items():
            if name not in there or there[name].keys != keys:
                backend.define_composite(name, keys)
            while not backend.build_composite(name, _STEP):
                pass

    def _composite(self, name: str) -> CatalogComposite:
        definition = self._catalog.composites.get(name)
        if definition is None:
            raise NotFound(f"there is no composite {name!r}")
        return definition
