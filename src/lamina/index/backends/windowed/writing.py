"""The write side of windows.

A write takes these steps, and a kill between any two leaves every entry in exactly one window that the catalog knows:
1. the catalog, in one step: new windows, where new refs will be, and each move with the whole entry;
2. moved entries are deleted from their old windows;
3. the entries are put, window by window;
4. the catalog: where the moved refs are now, and that the moves are over.
A move found at opening, or after a failure, is done again from step 2. A ref that stands in the catalog without an
entry in its window is no entry.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from lamina.errors import InvalidRequest, NotFound
from lamina.index.backends.entry import Entry
from lamina.index.backends.windowed.catalog import Catalog, Move, Window, WindowState, entry_of, move_of
from lamina.index.backends.windowed.pool import WindowPool
from lamina.index.backends.windowed.storage import WindowStorage

WINDOWS_MAX = 100_000
_SWEEP = 1000  # refs that one cleaning looks at


class WindowWriter:
    """Changes the catalog and the windows, one thread at a time."""

    def __init__(self, catalog: Catalog, pool: WindowPool, storage: WindowStorage, width_us: int) -> None:
        self._catalog = catalog
        self._pool = pool
        self._storage = storage
        self._width_us = width_us
        self._mutex = threading.Lock()  # one writer at a time
        self._is_settled = False  # written under mutex; a reader that sees False takes it

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Nobody else writes, and what a kill or a failure cut short is finished."""
        with self._mutex:
            self._finish_unsettled()
            yield

    def settle(self) -> None:
        """Wait for a move that is under way, and finish one that was cut short, so that a reader meets each entry."""
        if not self._is_settled:
            with self.exclusive():
                pass

    def put(self, entries: Sequence[Entry]) -> None:
        with self.exclusive():
            self._put(entries)

    def delete(self, refs: Sequence[str]) -> int:
        with self.exclusive():
            by_window: dict[int, list[str]] = {}
            for ref in dict.fromkeys(refs):
                window = self._catalog.window_of(ref)
                if window is not None:
                    by_window.setdefault(window.uid, []).append(ref)
            deleted = 0
            for uid, some in by_window.items():
                with self._pool.lease(self._catalog.windows[uid]) as backend:
                    deleted += backend.delete(some)
            self._catalog.forget_refs(refs)
            return deleted

    def delete_expired(self, now_us: int, limit: int) -> list[str]:
        """Also forgets, a little each time, refs of windows that are gone."""
        with self.exclusive():
            self._catalog.sweep(_SWEEP)
            deleted: list[str] = []
            for window in self._catalog.kept():
                if window.first_expiry is not None and window.first_expiry <= now_us and len(deleted) < limit:
                    deleted += self._expire(window, now_us, limit - len(deleted))
            return deleted

    def retire(self, number: int, state: WindowState) -> Path | None:
        """Take a window away: dropped, or archived, and then its new place. Conflict while it is read."""
        with self.exclusive():
            window = next((one for one in self._catalog.kept() if one.number == number), None)
            if window is None:
                raise NotFound(f"there is no window {number}")
            self._pool.retire(window)
            try:
                self._catalog.save_window(msgspec.structs.replace(window, state=state))
            except BaseException:
                self._pool.restore(window)
                raise
            self._is_settled = False
            path = self._finish_retiring(self._catalog.windows[window.uid])
            self._is_settled = True
            return path

    def close(self) -> None:
        """Idempotent. Unfinished moves are finished at the next opening."""
        with self._mutex:
            self._pool.close()
            self._catalog.close()
            self._storage.close()

    def _put(self, entries: Sequence[Entry]) -> None:
        windows = self._windows_for(entries)
        targets = {entry.ref: windows[entry.timestamp // self._width_us] for entry in entries}
        moves, placed = [], []
        for entry in entries:
            source, target = self._catalog.window_of(entry.ref), targets[entry.ref]
            if source is not None and source.uid != target.uid:
                moves.append(move_of(entry, source, target))
            else:
                placed.append((entry.ref, target))
        self._is_settled = not moves
        self._catalog.begin(windows.values(), placed, moves)
        self._delete_moved(moves)
        self._put_in_windows(entries, targets)
        self._end_moves(moves)

    def _windows_for(self, entries: Iterable[Entry]) -> dict[int, Window]:
        """The windows of a batch by number, as they have to stand in the catalog before it is put."""
        known = {window.number: window for window in self._catalog.kept()}
        needed: dict[int, Window] = {}
        for entry in entries:
            number = entry.timestamp // self._width_us
            window = needed.get(number) or known.get(number) or self._catalog.new_window(number)
            if entry.expires_at is not None:
                first = entry.expires_at if window.first_expiry is None else min(window.first_expiry, entry.expires_at)
                window = msgspec.structs.replace(window, first_expiry=first)
            needed[number] = window
        if len(known.keys() | needed.keys()) > WINDOWS_MAX:
            raise InvalidRequest(f"more than {WINDOWS_MAX} windows; drop or archive old ones, or make windows wider")
        return needed

    def _delete_moved(self, moves: Sequence[Move]) -> None:
        for uid in {move.source for move in moves}:
            with self._pool.lease(self._catalog.windows[uid]) as backend:
                backend.delete([move.entry[0] for move in moves if move.source == uid])

    def _put_in_windows(self, entries: Iterable[Entry], targets: dict[str, Window]) -> None:
        by_window: dict[int, list[Entry]] = {}
        for entry in entries:
            by_window.setdefault(targets[entry.ref].uid, []).append(entry)
        for uid, some in by_window.items():
            with self._pool.lease(self._catalog.windows[uid]) as backend:
                backend.put_batch(some)

    def _end_moves(self, moves: Sequence[Move]) -> None:
        if moves:
            self._catalog.finish(moves)
        self._is_settled = True

    def _expire(self, window: Window, now_us: int, limit: int) -> list[str]:
        with self._pool.lease(window) as backend:
            refs = backend.delete_expired(now_us, limit)
            if not refs:
                following = backend.stats().next_expiry
                self._catalog.save_window(msgspec.structs.replace(window, first_expiry=following))
        self._catalog.forget_refs(refs)
        return refs

    def _finish_unsettled(self) -> None:
        """Finish what a kill or a failure cut short."""
        if self._is_settled:
            return
        moves = self._catalog.moves()
        self._delete_moved(moves)
        self._put_in_windows(
            [entry_of(move) for move in moves], {move.entry[0]: self._catalog.windows[move.target] for move in moves}
        )
        for window in list(self._catalog.windows.values()):
            if window.state != "kept":
                self._finish_retiring(window)
        self._end_moves(moves)

    def _finish_retiring(self, window: Window) -> Path | None:
        path = None
        if window.state == "archiving":
            path = self._storage.archive(window.name)
        else:
            self._storage.drop(window.name)
        self._catalog.forget_window(window)
        return path
