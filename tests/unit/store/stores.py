"""Stores to test with, and a bounded wait for work in threads."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

import lamina
from lamina import LogSettings, Settings
from lamina.clock import SystemClock
from lamina.disk import Disk, MemoryDisk
from lamina.testing import FakeClock, FaultyDisk

T = TypeVar("T")
NOW_US = 1_700_000_000_000_000
PATIENCE_SECONDS = 20.0


def memory_store(log: LogSettings | None = None, disk: Disk | None = None) -> lamina.Store:
    """A store whose clock stands still."""
    settings = Settings(log=log or LogSettings())
    return lamina.open("memory:", settings=settings, clock=FakeClock(NOW_US, jump=False), disk=disk or MemoryDisk())


def real_time_store(disk: Disk | None = None, log: LogSettings | None = None) -> lamina.Store:
    return lamina.open("memory:", settings=Settings(log=log or LogSettings()), disk=disk or MemoryDisk())


class Gate(SystemClock):
    """A clock whose waits last while the gate is shut: given to a slow disk, it holds writes up."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.open.set()
        self.waiting = threading.Event()

    def shut(self) -> None:
        self.open.clear()
        self.waiting.clear()

    def wait(self, event: threading.Event, timeout: float) -> bool:
        self.waiting.set()
        return self.open.wait(PATIENCE_SECONDS)

    def disk(self) -> FaultyDisk:
        """A disk in memory whose syncs last while the gate is shut."""
        return FaultyDisk(MemoryDisk(), slow_seconds={"sync": 1}, clock=self)


def within_patience(work: Callable[[], T]) -> T:
    """The work's result or its error; fails if it does not end, where a plain call would hang for ever."""
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:  # noqa: BLE001
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(PATIENCE_SECONDS)
    assert not thread.is_alive(), "still waiting"
    if errors:
        raise errors[0]
    return results[0]


def values(store: lamina.Store, stream: str = "default") -> list[bytes | None]:
    return [message.value for message in store.read(stream=stream)]
