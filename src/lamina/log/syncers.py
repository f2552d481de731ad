"""Waiting for several files at the same time: threads that do nothing but fsync."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from queue import SimpleQueue

_THREADS_MAX = 7

logger = logging.getLogger(__name__)


class Syncers:
    """Runs calls that block side by side. For one caller at a time; threads start when needed.

    A call leaves its own outcome; one that raises all the same only ends up in the log.
    """

    def __init__(self) -> None:
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._running: list[_Call] = []

    def start(self, call: Callable[[], None], *, here: bool) -> None:
        """Let the call run on a thread of its own, or on this one if there is nothing else to do meanwhile."""
        if here or not self._has_thread():
            call()
            return
        running = _Call(call)
        self._running.append(running)
        self._calls.put(running)

    def wait(self) -> None:
        """Return when all calls that were started have returned. After an interrupt, waiting again is right."""
        for running in self._running:
            running.done.wait()
        self._running = []

    def close(self) -> None:
        for _ in self._threads:
            self._calls.put(None)
        for thread in self._threads:
            thread.join()

    def _has_thread(self) -> bool:
        if len(self._threads) < min(len(self._running) + 1, _THREADS_MAX):
            thread = threading.Thread(target=self._work, name="lamina-sync", daemon=True)
            try:
                thread.start()
            except RuntimeError:
                return bool(self._threads)
            self._threads.append(thread)
        return True

    def _work(self) -> None:
        while (running := self._calls.get()) is not None:
            try:
                running.call()
            except Exception:
                logger.exception("sync failed unexpectedly")
            finally:
                running.done.set()


class _Call:
    __slots__ = ("call", "done")

    def __init__(self, call: Callable[[], None]) -> None:
        self.call = call
        self.done = threading.Event()
