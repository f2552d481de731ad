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
        self._lock = threading.Lock()  # guards _streams, _thread
        self._working = threading.Lock()  # held during a round: a stream is removed between two
        self._streams: list[StreamIndex] = []
        self._thread: threading.Thread | None = None
        self._wanted = threading.Event()
        self._closing = threading.Event()

    def add(self, stream: StreamIndex) -> None:
        with self._lock:
            self._streams.append(stream)
        self.wake()

    def remove(self, stream: StreamIndex) -> None:
        """On return nothing of the stream is touched any more."""
        stream.stop()
        with self._lock:
            self._streams = [one for one in self._streams if one is not stream]
        with self._working:
            return

    def wake(self) -> None:
        """There may be something to do. Any thread, often: it costs next to nothing."""
        if self._wanted.is_set() or not self._settings.background:
            return
        self._wanted.set()
        if self._thread is None:
            with self._lock:
                if self._thread is None and not self._closing.is_set():
                    self._thread = threading.Thread(target=self._run, name="lamina-indexer", daemon=True)
                    self._thread.start()

    def close(self) -> None:
        with self._lock:
            self._closing.set()
            streams = self._streams
        for stream in streams:
            stream.stop()
        self._wanted.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while True:
            self._wanted.wait()
            self._wanted.clear()
            while (again := self._round()) is not None:
                if self._clock.wait(self._closing, again):
                    return
            if self._clock.wait(self._closing, self._settings.interval_seconds):
                return

    def _round(self) -> float | None:
        """The seconds after which another round is due, or None."""
        with self._lock:
            streams = list(self._streams)
        pauses = []
        for stream in streams:
            if self._closing.is_set():
                return None
            try:
                with self._working:
                    pauses.append(stream.step())
            except Exception:
                # This thread must live on for the other streams; queries go on without the files.
                logger.exception("indexing failed stream=%s", stream.name)
                pauses.append(RETRY_SECONDS)
        return min((pause for pause in pauses if pause is not None), default=None)
