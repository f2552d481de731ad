"""Which calls fail, and how: the plan that FaultyDisk and FaultyBlobs follow."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal

from lamina.clock import Clock, SystemClock

DiskOperation = Literal[
    "open", "list", "make_directory", "rename", "unlink", "sync_directory", "lock",
    "append", "pwrite", "pread", "map", "size", "truncate", "preallocate", "sync",
]  # fmt: skip
BlobOperation = Literal["put_new", "get", "stat", "list", "delete"]
Operation = DiskOperation | BlobOperation
ErrorName = Literal["ENOSPC", "EIO", "EDQUOT", "EACCES", "EROFS", "EMFILE"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Make calls of one operation fail: let `after` calls pass, then fail the next `times` (None: all of them).

    `path` is a glob over the path (a file's path when it was opened; either path of a rename) or the blob's name.
    With when="after" the call does its work and fails nevertheless, so the caller cannot know the outcome.
    `short`, for append and pwrite, writes that many bytes for real before the failure.
    """

    operation: Operation
    error: ErrorName = "EIO"
    path: str = "*"
    after: int = 0
    times: int | None = 1
    short: int | None = None
    when: Literal["before", "after"] = "before"

    def __post_init__(self) -> None:
        if self.short is not None and self.operation not in ("append", "pwrite"):
            raise ValueError(f"only append and pwrite can be short, not {self.operation}")


class FaultPlan:
    """Counts the calls, holds them up, and picks the fault for each. Safe for many threads."""

    def __init__(
        self,
        faults: Iterable[Fault] = (),
        slow_seconds: Mapping[Operation, float] | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.calls: Counter[Operation] = Counter()
        self.slow_seconds: dict[Operation, float] = dict(slow_seconds or {})
        self._clock = clock or SystemClock()
        self._mutex = threading.Lock()  # guards the calls and what follows
        self._faults = list(faults)
        self._seen: Counter[int] = Counter()  # matching calls so far, by the fault's index

    def add(self, fault: Fault) -> None:
        with self._mutex:
            self._faults.append(fault)

    def clear(self) -> None:
        with self._mutex:
            self._faults.clear()
            self._seen.clear()

    def begin(self, operation: Operation, *paths: str) -> Fault | None:
        """Count a call and hold it up as asked; the fault that it must suffer, if any."""
        with self._mutex:
            self.calls[operation] += 1
            chosen = self._choose(operation, paths)
        seconds = self.slow_seconds.get(operation, 0.0)
        if seconds > 0:
            self._clock.wait(threading.Event(), seconds)
        return chosen

    def _choose(self, operation: Operation, paths: tuple[str, ...]) -> Fault | None:
        chosen = None
        for index, fault in enumerate(self._faults):
            if fault.operation != operation or not any(fnmatchcase(path, fault.path) for path in paths):
                continue
            call = self._seen[index]
            self._seen[index] += 1
            due = call >= fault.after and (fault.times is None or call < fault.after + fault.times)
            if due and chosen is None:
                chosen = fault
        return chosen
