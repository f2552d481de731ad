"""Bounded waits: how long a call may wait for others, and what it is told when that was not enough."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from lamina.clock import Clock, SystemClock
from lamina.errors import InvalidRequest, WouldBlock

_LONGEST_SECONDS = 1e9
"""Locks refuse longer waits; nobody will notice."""


class Deadline:
    """The end of one call's patience, over all its waits; without a timeout it never comes. Any thread."""

    __slots__ = ("_at", "_clock", "timeout")

    def __init__(self, clock: Clock, timeout: float | None) -> None:
        self.timeout = check_timeout(timeout)
        self._clock = clock
        self._at = None if self.timeout is None else clock.monotonic() + self.timeout

    def left(self) -> float | None:
        """Seconds that may still be waited; None for as long as it takes."""
        return None if self._at is None else max(0.0, self._at - self._clock.monotonic())

    @contextmanager
    def holding(self, lock: threading.Lock, waited_for: str) -> Iterator[None]:
        """Hold the lock; WouldBlock if somebody else does for too long."""
        left = self.left()
        if not lock.acquire(timeout=-1 if left is None else left):
            raise WouldBlock(f"not confirmed: waited {self.timeout:g} s for {waited_for}; try again", reason="busy")
        try:
            yield
        finally:
            lock.release()


def check_timeout(timeout: float | None) -> float | None:
    """A timeout that every kind of wait takes; InvalidRequest if it is none."""
    if timeout is None:
        return None
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not timeout >= 0:
        raise InvalidRequest(f"timeout must be None or seconds from 0 on, not {timeout!r}")
    return min(timeout, _LONGEST_SECONDS)


FOREVER = Deadline(SystemClock(), None)


def not_confirmed(timeout: float | None) -> WouldBlock:
    return WouldBlock(
        f"not confirmed within {timeout or 0:g} s; it may still be stored: publish again with the same producer "
        "sequence to be sure that it is there once",
        reason="commit",
    )


def no_room(timeout: float | None) -> WouldBlock:
    return WouldBlock(
        f"not stored: for {timeout or 0:g} s as much as log.pending_bytes_max allows was waiting for the disk; "
        "publish again later",
        reason="room",
    )
