"""Waiting for several files at the same time: threads that do nothing but fsync."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from queue import SimpleQueue

_THREADS_MAX = 7

Call = Callable[[], None]


class Syncers:
    """Runs calls that block and never raise side by side. For one caller at a time; threads start when needed."""

    def __init__(self) -> None:
        self._calls: SimpleQueue[Call | None] = SimpleQueue()
        self._done: SimpleQueue[None] = SimpleQueue()
        self._threads: list[threading.Thread] = []

    def run(self, calls: Sequence[Call]) -> None:
        """Return when all have returned; the first runs on this thread."""
        while len(self._threads) < min(len(calls) - 1, _THREADS_MAX):
            thread = threading.Thread(target=self._work, name="lamina-sync", daemon=True)
            thread.start()
            self._threads.append(thread)
        for call in calls[1:]:
            self._calls.put(call)
        for call in calls[:1]:
            call()
        for _ in calls[1:]:
            self._done.get()

    def close(self) -> None:
        for _ in self._threads:
            self._calls.put(None)
        for thread in self._threads:
            thread.join()

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            try:
                call()
            finally:
                self._done.put(None)
