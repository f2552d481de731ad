"""A disk that fails on demand, around any other disk.

Fault model: each call may be refused before it does anything, fail after it did everything, or (append, pwrite)
fail with a part of the bytes written; any call may be slow. A failed `sync` with when="before" leaves the bytes
unsynced in the inner disk: with a CrashDisk inside, they can still be lost.
"""

from __future__ import annotations

import errno
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from lamina.clock import Clock
from lamina.disk import Bytes, Disk, File, Lock, OpenMode, disk_error
from lamina.errors import LaminaError
from lamina.testing.faults import DiskOperation, Fault, FaultPlan, Operation


class FaultyDisk:
    """Passes all calls to `inner`, except as the faults say. `calls` counts them by operation.

    `slow_seconds` holds up each call of an operation, by the given clock's `wait`.
    """

    def __init__(
        self,
        inner: Disk,
        faults: Iterable[Fault] = (),
        *,
        slow_seconds: Mapping[Operation, float] | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._inner = inner
        self._plan = FaultPlan(faults, slow_seconds, clock)

    @property
    def calls(self) -> Counter[Operation]:
        return self._plan.calls

    def add(self, fault: Fault) -> None:
        self._plan.add(fault)

    def heal(self) -> None:
        """Forget all faults."""
        self._plan.clear()

    def open(self, path: str, mode: OpenMode) -> File:
        with _failing(self._plan, "open", path):
            return FaultyFile(self._inner.open(path, mode), self._plan, path)

    def list(self, directory: str) -> list[str]:
        with _failing(self._plan, "list", directory):
            return self._inner.list(directory)

    def make_directory(self, path: str) -> None:
        with _failing(self._plan, "make_directory", path):
            self._inner.make_directory(path)

    def rename(self, old: str, new: str) -> None:
        with _failing(self._plan, "rename", old, new):
            self._inner.rename(old, new)

    def unlink(self, path: str) -> None:
        with _failing(self._plan, "unlink", path):
            self._inner.unlink(path)

    def sync_directory(self, path: str) -> None:
        with _failing(self._plan, "sync_directory", path):
            self._inner.sync_directory(path)

    def lock(self, path: str) -> Lock:
        with _failing(self._plan, "lock", path):
            return self._inner.lock(path)


class FaultyFile:
    """An open file of a FaultyDisk, known to the faults by the path it was opened with."""

    def __init__(self, inner: File, plan: FaultPlan, path: str) -> None:
        self._inner = inner
        self._plan = plan
        self._path = path

    def append(self, parts: Sequence[Bytes]) -> int:
        fault = self._plan.begin("append", self._path)
        if fault is None:
            return self._inner.append(parts)
        if fault.short is not None:
            self._inner.append([b"".join(parts)[: fault.short]])
        elif fault.when == "after":
            self._inner.append(parts)
        raise _error(fault, self._path)

    def pwrite(self, data: Bytes, position: int) -> None:
        fault = self._plan.begin("pwrite", self._path)
        if fault is None:
            self._inner.pwrite(data, position)
            return
        if fault.short is not None:
            self._inner.pwrite(bytes(data)[: fault.short], position)
        elif fault.when == "after":
            self._inner.pwrite(data, position)
        raise _error(fault, self._path)

    def pread(self, length: int, position: int) -> bytes:
        with _failing(self._plan, "pread", self._path):
            return self._inner.pread(length, position)

    def map(self, length: int) -> memoryview:
        with _failing(self._plan, "map", self._path):
            return self._inner.map(length)

    def size(self) -> int:
        with _failing(self._plan, "size", self._path):
            return self._inner.size()

    def truncate(self, size: int) -> None:
        with _failing(self._plan, "truncate", self._path):
            self._inner.truncate(size)

    def preallocate(self, size: int) -> None:
        with _failing(self._plan, "preallocate", self._path):
            self._inner.preallocate(size)

    def sync(self) -> None:
        with _failing(self._plan, "sync", self._path):
            self._inner.sync()

    def close(self) -> None:
        self._inner.close()


@contextmanager
def _failing(plan: FaultPlan, operation: DiskOperation, *paths: str) -> Iterator[None]:
    """Fail before or after the body, as the plan says."""
    fault = plan.begin(operation, *paths)
    if fault is not None and fault.when == "before":
        raise _error(fault, " -> ".join(paths))
    yield
    if fault is not None:
        raise _error(fault, " -> ".join(paths))


def _error(fault: Fault, path: str) -> LaminaError:
    number = getattr(errno, fault.error)
    return disk_error(OSError(number, os.strerror(number)), path)
