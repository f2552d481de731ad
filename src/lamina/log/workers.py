"""Background work of the log: fsync of streams with durability "flush", and sealing. One thread each, with an end."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from queue import SimpleQueue

from lamina.clock import Clock
from lamina.log.partition import Partition

logger = logging.getLogger(__name__)


class Flusher:
    """Calls `flush` of the given partitions every interval until closed."""

    def __init__(self, partitions: Callable[[], Iterable[Partition]], clock: Clock, interval_seconds: float) -> None:
        self._partitions = partitions
        self._clock = clock
        self._interval_seconds = interval_seconds
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lamina-flusher", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._closing.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._clock.wait(self._closing, self._interval_seconds):
            for partition in self._partitions():
                try:
                    partition.flush()
                except Exception:
                    logger.exception("flush failed unexpectedly partition=%s", partition.context.directory)


class Sealer:
    """Seals closed segments of the partitions it is given, one after the other. The thread starts when needed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._wanted: SimpleQueue[Partition | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._closed = False

    def request(self, partition: Partition) -> None:
        with self._lock:
            if self._closed:
                return
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="lamina-sealer", daemon=True)
                self._thread.start()
        self._wanted.put(partition)

    def close(self) -> None:
        """Finish what was asked for; what cannot be finished is sealed after the next open."""
        with self._lock:
            self._closed = True
        if self._thread is not None:
            self._wanted.put(None)
            self._thread.join()

    def _run(self) -> None:
        while (partition := self._wanted.get()) is not None:
            try:
                partition.seal_closed()
            except Exception:
                logger.exception("sealing failed partition=%s", partition.context.directory)
