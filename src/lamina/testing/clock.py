"""A clock that moves when a test says so."""

from __future__ import annotations

import threading

_POLL_SECONDS = 0.001


class FakeClock:
    """Time for tests. Safe for many threads.

    With `jump` (the default) a `wait` on an event that is not set takes no real time: the clock itself moves on by
    the timeout. That suits code called by the test's own thread. A background thread that waits in a loop would
    make time race; give such code `jump=False`: then `wait` blocks until the event is set or the test has advanced
    the clock past the timeout.
    """

    def __init__(self, now_us: int = 1_700_000_000_000_000, *, jump: bool = True) -> None:
        self._mutex = threading.Lock()  # guards the two times
        self._now_us = now_us
        self._elapsed_us = 0
        self._jump = jump

    def advance(self, seconds: float) -> None:
        """Both times move on."""
        if seconds < 0:
            raise ValueError(f"time advances by 0 or more seconds, not {seconds}; `step` moves wall time back")
        with self._mutex:
            self._now_us += round(seconds * 1_000_000)
            self._elapsed_us += round(seconds * 1_000_000)

    def step(self, seconds: float) -> None:
        """Only the wall time moves, in either direction, as when an administrator sets it."""
        with self._mutex:
            self._now_us += round(seconds * 1_000_000)

    def now_us(self) -> int:
        with self._mutex:
            return self._now_us

    def monotonic(self) -> float:
        with self._mutex:
            return self._elapsed_us / 1_000_000

    def wait(self, event: threading.Event, timeout: float) -> bool:
        if event.is_set():
            return True
        if self._jump:
            self.advance(max(timeout, 0.0))
            return event.is_set()
        deadline = self.monotonic() + timeout
        while self.monotonic() < deadline:
            if event.wait(_POLL_SECONDS):
                return True
        return event.is_set()
