"""Time, waiting and randomness: the only module that asks the machine for them.

Everything else receives a `Clock`, so that tests decide what time it is.
"""

from __future__ import annotations

import threading
import time
import uuid
from typing import Protocol


class Clock(Protocol):
    """Wall time in int64 UTC microseconds, and a monotonic time for durations."""

    def now_us(self) -> int:
        """UTC microseconds since 1970."""

    def monotonic(self) -> float:
        """Seconds that never run backwards."""

    def wait(self, event: threading.Event, timeout: float) -> bool:
        """Wait until the event is set or the time is over; True if it was set."""


class SystemClock:
    """The machine's clock."""

    def now_us(self) -> int:
        return time.time_ns() // 1000

    def monotonic(self) -> float:
        return time.monotonic()

    def wait(self, event: threading.Event, timeout: float) -> bool:
        return event.wait(timeout)


def new_uid() -> bytes:
    """Sixteen random bytes that name one thing for ever."""
    return uuid.uuid4().bytes
