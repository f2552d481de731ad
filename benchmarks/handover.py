"""The machine's own limit for many writers: the same hand-over to one writer and one sync, with nothing else to do.

No messages, no offsets, no checksums, no indexes: fixed bytes go from threads or tasks into one raw file, and each
caller hears when they are synced.
"""

from __future__ import annotations

import asyncio
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from time import perf_counter, sleep

from benchmarks.raw_file import RawFile

RECORD = os.urandom(200)
GATHER_SECONDS = 0.0002
"""How long a leading thread waits for others to join it."""


def threads_rate(path: Path, threads: int, seconds: float) -> float:
    """Records per second of all threads together; each appends one after the other."""
    started = threading.Barrier(threads + 1)

    def append_until() -> int:
        started.wait()
        end = perf_counter() + seconds
        count = 0
        while perf_counter() < end:
            group.append(RECORD)
            count += 1
        return count

    with RawFile(path) as file, ThreadPoolExecutor(threads) as pool:
        group = _ThreadGroup(file)
        running = [pool.submit(append_until) for _ in range(threads)]
        started.wait()
        start = perf_counter()
        count = sum(thread.result() for thread in running)
        return count / (perf_counter() - start)


def tasks_rate(path: Path, tasks: int, per_task: int) -> float:
    """Records per second of all tasks together; each appends one after the other."""

    async def append_all(turns: _LoopTurns) -> None:
        for _ in range(per_task):
            await turns.append(RECORD)

    async def measure() -> float:
        turns = _LoopTurns(file)
        start = perf_counter()
        async with asyncio.TaskGroup() as group:
            for _ in range(tasks):
                group.create_task(append_all(turns))
        seconds = perf_counter() - start
        turns.close()
        return seconds

    with RawFile(path) as file:
        return tasks * per_task / asyncio.run(measure())


class _Call:
    __slots__ = ("gate", "is_written", "record")

    def __init__(self, record: bytes) -> None:
        self.record = record
        self.is_written = False
        self.gate = threading.Lock()
        self.gate.acquire()


class _ThreadGroup:
    """One of the waiting threads leads: it writes and syncs what is there, and lets all of them go."""

    def __init__(self, file: RawFile) -> None:
        self._file = file
        self._mutex = threading.Lock()
        self._calls: list[_Call] = []  # guarded by _mutex, as is the next
        self._has_leader = False

    def append(self, record: bytes) -> None:
        call = _Call(record)
        with self._mutex:
            self._calls.append(call)
            is_leader, self._has_leader = not self._has_leader, True
        if not is_leader:
            call.gate.acquire()
        if not call.is_written:  # this thread leads now
            self._lead()

    def _lead(self) -> None:
        sleep(GATHER_SECONDS)
        with self._mutex:
            calls, self._calls = self._calls, []
        self._file.write(b"".join([call.record for call in calls]))
        self._file.sync()
        for call in calls:
            call.is_written = True
        with self._mutex:
            self._has_leader = bool(self._calls)
            woken = [*self._calls[:1], *calls]
        for call in woken:
            call.gate.release()


class _LoopTurns:
    """What is appended in one turn of the loop goes to one thread, and comes back by one call into the loop."""

    def __init__(self, file: RawFile) -> None:
        self._file = file
        self._loop = asyncio.get_running_loop()
        self._calls: list[tuple[bytes, asyncio.Future[None]]] = []
        self._turns: SimpleQueue[list[tuple[bytes, asyncio.Future[None]]]] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="handover", daemon=True)
        self._thread.start()

    def append(self, record: bytes) -> asyncio.Future[None]:
        if not self._calls:
            self._loop.call_soon(self._hand_over)
        future = self._loop.create_future()
        self._calls.append((record, future))
        return future

    def close(self) -> None:
        self._turns.put([])
        self._thread.join()

    def _hand_over(self) -> None:
        calls, self._calls = self._calls, []
        self._turns.put(calls)

    def _run(self) -> None:
        while calls := self._turns.get():
            self._file.write(b"".join([record for record, _ in calls]))
            self._file.sync()
            self._loop.call_soon_threadsafe(_resolve, [future for _, future in calls])


def _resolve(futures: list[asyncio.Future[None]]) -> None:
    for future in futures:
        future.set_result(None)
