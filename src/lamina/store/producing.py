"""A pipelined, idempotent producer: many single messages in, numbered batches out, in the background."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from copy import copy
from datetime import datetime
from types import TracebackType
from typing import Self

from lamina.clock import Clock, new_uid
from lamina.errors import Closed, InvalidRequest, LaminaError, Unavailable, WouldBlock
from lamina.log import Stream, check_timeout
from lamina.model import PRODUCER_ID_BYTES_MAX, Row, check_text, row_bytes

logger = logging.getLogger(__name__)
_ATTEMPTS = 4
_BACKOFF_SECONDS = 0.05
_WAITING_BATCHES_MAX = 8
"""`send` waits when this many batches' worth of bytes are not stored yet."""


class PipelinedProducer:
    """Sends in order, from any thread. A batch goes when it is full or `linger` seconds old.

    An error is raised by the next `send`, `flush` or by leaving the `with` block, and ends the producer.
    """

    def __init__(
        self,
        stream: Stream,
        make_row: Callable[..., Row],
        clock: Clock,
        id: str | None,
        linger: float,
        max_batch_bytes: int,
    ) -> None:
        if id is not None:
            check_text("producer id", id, PRODUCER_ID_BYTES_MAX)
        if isinstance(linger, bool) or not isinstance(linger, int | float) or not 0 <= linger <= 60:
            raise InvalidRequest(f"linger must be 0 to 60 seconds, not {linger!r}")
        is_int = isinstance(max_batch_bytes, int) and not isinstance(max_batch_bytes, bool)
        if not is_int or not 1 <= max_batch_bytes <= 32 << 20:
            raise InvalidRequest(f"max_batch_bytes must be 1 to 32 MiB, not {max_batch_bytes!r}")
        self.id = id or new_uid().hex()
        stream.claim_producer(self.id)
        self._stream = stream
        self._clock = clock
        self._make_row = make_row
        self._linger = linger
        self._max_batch_bytes = max_batch_bytes
        self._sequence: int | None = None  # of the last batch; the thread's
        self._changed = threading.Condition()
        # Guarded by _changed.
        self._rows: list[Row] = []
        self._bytes = 0
        self._sent = 0
        self._stored = 0
        self._flushing = False
        self._closing = False
        self._has_ended = False
        self._error: LaminaError | None = None
        self._thread = threading.Thread(target=self._run, name="lamina-producer", daemon=True)
        self._thread.start()

    def send(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        labels: Mapping[str, str] | None = None,
        timestamp: int | datetime | None = None,
        ttl: float | None = None,
        priority: int | None = None,
        timeout: float | None = None,
    ) -> None:
        """Queue one message; waits only while too much is queued.

        WouldBlock after `timeout` seconds: this message was not taken, and the producer is as it was.
        """
        timeout = check_timeout(timeout)
        row = self._make_row(topic, value, key, labels, timestamp, ttl, priority)
        with self._changed:
            if not self._changed.wait_for(lambda: self.has_room() or self._error, timeout):
                raise WouldBlock(
                    f"not sent: for {timeout:g} s {self._bytes >> 10} KiB waited to be stored; send it again later",
                    reason="room",
                )
            self._check()
            was_empty = not self._rows
            self._rows.append(row)
            self._sent += 1
            self._bytes += row_bytes(row)
            if was_empty or self._bytes >= self._max_batch_bytes:
                self._changed.notify_all()

    def has_room(self) -> bool:
        """Whether `send` would return at once."""
        return self._bytes < _WAITING_BATCHES_MAX * self._max_batch_bytes

    def flush(self, *, timeout: float | None = None) -> None:
        """Return when everything sent so far is stored.

        WouldBlock after `timeout` seconds: the producer goes on storing it, once, and can be flushed again.
        """
        timeout = check_timeout(timeout)
        with self._changed:
            self._flushing = True
            self._changed.notify_all()
            wanted = self._sent
            if not self._changed.wait_for(lambda: self._stored >= wanted or self._error, timeout):
                raise self._not_confirmed(timeout, "flush")
            self._check()

    def close(self, *, timeout: float | None = None) -> None:
        """Flush and end. Idempotent.

        WouldBlock after `timeout` seconds: nothing more can be sent, what was sent goes on being stored, and closing
        again waits for it; until then the id is in use.
        """
        timeout = check_timeout(timeout)
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._thread.join(timeout)
        if self._thread.is_alive():
            raise self._not_confirmed(timeout, "close")
        self._stream.release_producer(self.id)
        if self._error is not None and not self._has_ended:
            self._has_ended = True
            raise self._error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _check(self) -> None:
        if self._error is not None:
            raise copy(self._error)
        if self._closing:
            raise Closed("the producer is closed")

    def _not_confirmed(self, timeout: float | None, verb: str) -> WouldBlock:
        return WouldBlock(
            f"not confirmed within {timeout or 0:g} s: whether the last {self._sent - self._stored} messages are "
            f"stored is unknown; {verb} again to wait for them",
            reason="commit",
        )

    def _run(self) -> None:
        while (rows := self._next_batch()) is not None:
            try:
                error = self._store(rows)
            except Exception as unexpected:
                logger.exception("producer failed id=%s", self.id)
                error = Unavailable(
                    f"producer {self.id!r} failed ({unexpected!r}); whether its messages are stored is unknown"
                )
            with self._changed:
                self._stored += len(rows)
                self._error = error
                self._changed.notify_all()
            if error is not None:
                return

    def _next_batch(self) -> list[Row] | None:
        """Wait for a batch that is full, old enough, or wanted now; None at the end."""
        with self._changed:
            while not self._rows and not self._closing:
                self._flushing = False
                self._changed.wait()
            deadline = self._clock.monotonic() + self._linger
            while self._bytes < self._max_batch_bytes and not (self._closing or self._flushing):
                if (left := deadline - self._clock.monotonic()) <= 0:
                    break
                self._changed.wait(left)
            if not self._rows:
                return None
            rows = self._cut()
            self._changed.notify_all()
            return rows

    def _cut(self) -> list[Row]:
        """The oldest rows that make a batch; others that wait come with the next."""
        size = count = 0
        for row in self._rows:
            if count and size + row_bytes(row) > self._max_batch_bytes:
                break
            size += row_bytes(row)
            count += 1
        rows, self._rows = self._rows[:count], self._rows[count:]
        self._bytes -= size
        return rows

    def _store(self, rows: list[Row]) -> LaminaError | None:
        """Retry under the same sequence: an attempt that did go through is recognised, not repeated."""
        last = self._stream.last_sequence(self.id) if self._sequence is None else self._sequence
        self._sequence = 0 if last is None else last + 1
        for attempt in range(_ATTEMPTS):
            try:
                self._stream.append_rows(rows, (self.id, self._sequence))
                return None
            except Unavailable as error:
                if attempt == _ATTEMPTS - 1:
                    return error
                self._clock.wait(threading.Event(), _BACKOFF_SECONDS * 2**attempt)
            except LaminaError as error:
                return error
        return None
