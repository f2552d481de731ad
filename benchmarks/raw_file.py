"""The disk's own limit: a file that is only appended to and synced, without a store around it."""

from __future__ import annotations

import os
from pathlib import Path
from time import perf_counter
from types import TracebackType
from typing import Self

SMALL = os.urandom(4096)
_sync = getattr(os, "fdatasync", os.fsync)


class RawFile:
    """One thread. Use it in a `with` block."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)

    def write(self, data: bytes | memoryview) -> None:
        written = os.write(self._file, data)
        if written != len(data):
            raise OSError(f"the disk took {written} of {len(data)} bytes; is it full?")

    def sync(self) -> None:
        _sync(self._file)

    def append_seconds(self, data: bytes | memoryview = SMALL) -> float:
        """How long it takes to append the bytes durably."""
        start = perf_counter()
        self.write(data)
        self.sync()
        return perf_counter() - start

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._file)
