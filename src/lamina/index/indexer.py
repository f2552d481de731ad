"""The background worker that keeps `.labels` files up to date. Publishers never wait for it."""

from __future__ import annotations

import logging
import threading

from lamina.clock import Clock
from lamina.index.partition_index import RETRY_SECONDS
from lamina.index.settings import IndexSettings
from lamina.index.stream_index import StreamIndex

logger = logging.getLogger(__name__)


class Indexer:
    """One thread for all streams of a store; it starts when there is something to do."""

    def __init__(self, clock: Clock, settings: IndexSettings) -> None:
        self._clock = clock
        self._settings = settings
        self._lock = threading.Lock()  # guards _due, _thread
        self._working = threading.Lock()  # held during a stream's step: a stream is removed between two
        self._due: dict[StreamIndex, float] = {}  # the earliest time of each stream's next step
        self._thread: threading.Thread | None = None
        self._wanted = threading.Event()
        self._closing = threading.Event()

    def add(self, stream: StreamIndex) -> None:
        with self._lock:
            self._due[stream] = 0.0
        self.wake()

    def remove(self, stream: StreamIndex) -> None:
        """On return nothing of the stream is touched any more."""
        stream.stop()
        with self._lock:
            self._due.pop(stream, None)
        with self._working:
            return

    def wake(self) -> None:
        """There may be something to do. Any thread, often: it costs next to nothing."""
        if self._wanted.is_set() or not self._settings.background:
            return
        self._wanted.set()
        if self._thread is None:
            self._start()

    def close(self) -> None:
        with self._lock:
            self._closing.set()
            streams = list(self._due)
        for stream in streams:
            stream.stop()
        self._wanted.set()
        if self._thread is not None:
            self._thread.join()

    def _start(self) -> None:
        with self._lock:
            if self._thread is not None or self._closing.is_set():
                return
            thread = threading.Thread(target=self._run, name="lamina-indexer", daemon=True)
            try:
                thread.start()
            except RuntimeError as error:
                logger.warning("no thread for indexing, queries go on without index files error=%s", error)
                return
            self._thread = thread

    def _run(self) -> None:
        pause: float | None = None
        while True:
            self._wanted.wait(pause)
            self._wanted.clear()
            if self._closing.is_set():
                return
            pause = self._round()
            if self._clock.wait(self._closing, self._settings.interval_seconds):
                return

    def _round(self) -> float | None:
        """Every stream whose time has come; the seconds until the next one has something left to do, or None."""
        with self._lock:
            due = dict(self._due)
        now = self._clock.monotonic()
        pauses = []
        for stream, at in due.items():
            if self._closing.is_set():
                return None
            again = max(at - now, 0.0) if at > now else self._step(stream)
            if again is not None:
                pauses.append(again)
        return min(pauses, default=None)

    def _step(self, stream: StreamIndex) -> float | None:
        again: float | None
        try:
            with self._working:
                again = stream.step()
        except Exception:
            # This thread must live on for the other streams; queries go on without the files.
            logger.exception("indexing failed stream=%s", stream.name)
            again = RETRY_SECONDS
        if again == RETRY_SECONDS:
            # What failed is not tried at every commit; the other streams do not wait for it.
            with self._lock:
                if stream in self._due:
                    self._due[stream] = self._clock.monotonic() + again
        return again
