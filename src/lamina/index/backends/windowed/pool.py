"""Open windows: leased while in use, closed when there are too many, least recently used first."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from lamina.errors import Closed, Conflict, NotFound
from lamina.index.backends.seam import IndexBackend
from lamina.index.backends.windowed.catalog import Window


class WindowGone(NotFound):
    """The window was dropped or archived meanwhile: to a reader, it is not there."""


@dataclass(slots=True)
class _Open:
    backend: IndexBackend
    leases: int = 0


class WindowPool:
    """At most `max_open` windows at rest (0: no limit); while more are in use at once, more are open."""

    def __init__(self, opener: Callable[[Window], IndexBackend], max_open: int) -> None:
        self._opener = opener
        self._max_open = max_open
        # Held while a window is opened or closed, since no directory may be opened twice at once.
        self._mutex = threading.Lock()  # guards the three below
        self._open: OrderedDict[int, _Open] = OrderedDict()  # least recently used first
        self._retired: set[int] = set()
        self._is_closed = False

    @contextmanager
    def lease(self, window: Window) -> Iterator[IndexBackend]:
        """The window's backend, which stays open meanwhile."""
        with self._mutex:
            if self._is_closed:
                raise Closed("the index is closed")
            if window.uid in self._retired:
                raise WindowGone(f"window {window.number} is gone")
            held = self._open.get(window.uid)
            if held is None:
                held = self._open[window.uid] = _Open(self._opener(window))
            self._open.move_to_end(window.uid)
            held.leases += 1
            self._evict()
        try:
            yield held.backend
        finally:
            self._give_back(held)

    def open_uids(self) -> set[int]:
        with self._mutex:
            return set(self._open)

    def retire(self, window: Window) -> None:
        """Close it and lease it no more. Conflict if somebody uses it."""
        with self._mutex:
            held = self._open.get(window.uid)
            if held is not None:
                if held.leases:
                    raise Conflict(f"window {window.number} is being read; retry when its readers are done")
                del self._open[window.uid]
                held.backend.close()
            self._retired.add(window.uid)

    def restore(self, window: Window) -> None:
        """Lease it again."""
        with self._mutex:
            self._retired.discard(window.uid)

    def close(self) -> None:
        """Windows in use are closed as soon as they are given back."""
        with self._mutex:
            self._is_closed = True
            while self._open:
                _, held = self._open.popitem()
                if not held.leases:
                    held.backend.close()

    def _give_back(self, held: _Open) -> None:
        with self._mutex:
            held.leases -= 1
            if self._is_closed and not held.leases:
                held.backend.close()
            self._evict()

    def _evict(self) -> None:
        if not self._max_open or len(self._open) <= self._max_open:
            return
        idle = [uid for uid, held in self._open.items() if not held.leases]
        for uid in idle[: len(self._open) - self._max_open]:
            self._open.pop(uid).backend.close()
