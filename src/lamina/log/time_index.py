"""The time index of a segment: `<20-digit base>.timeindex`, docs/formats/timeindex.md.

Sixteen bytes an entry, (largest timestamp of all messages BEFORE the frame, relative offset, position) as ">qII",
written beside each entry of the offset index. The first column never falls, whatever order timestamps come in,
so a binary search finds where the first message at or after a time can be.
"""

from __future__ import annotations

import struct
from bisect import bisect_left

import numpy as np

from lamina.disk import File
from lamina.errors import Corrupt

SUFFIX = ".timeindex"
BEFORE_ALL = -(2**63)
"""What the first entry says: there is nothing before it."""

_ENTRY = struct.Struct(">qII")
_DTYPE = np.dtype([("before", ">i8"), ("relative", ">u4"), ("position", ">u4")])


class TimeIndex:
    """Entries in memory; `file` takes them too where given. One thread appends; any thread looks up."""

    def __init__(self, file: File | None = None, data: memoryview | bytes = b"", where: str = "") -> None:
        if len(data) % _ENTRY.size:
            raise Corrupt(f"{where}: {len(data)} bytes are not whole entries of {_ENTRY.size}")
        entries = np.frombuffer(data, _DTYPE)
        self._file = file
        self._before: list[int] = entries["before"].tolist()
        self._relative: list[int] = entries["relative"].tolist()
        self._positions: list[int] = entries["position"].tolist()
        if not (sorted(self._before) == self._before and sorted(set(self._positions)) == self._positions):
            raise Corrupt(f"{where}: time index entries do not rise; the index will be rebuilt from the log")

    def __len__(self) -> int:
        return len(self._before)

    def append(self, before: int, relative: int, position: int) -> bool:
        """Add an entry; True as it always is one."""
        if self._file is not None:
            self._file.append([_ENTRY.pack(before, relative, position)])
        self._positions.append(position)
        self._relative.append(relative)
        self._before.append(before)
        return True

    def lookup(self, timestamp: int) -> int | None:
        """The position to scan from for the first message at or after `timestamp`."""
        at = bisect_left(self._before, timestamp) - 1
        return self._positions[at] if at >= 0 else None

    def encode(self) -> bytes:
        entries = np.empty(len(self._before), _DTYPE)
        entries["before"], entries["relative"], entries["position"] = self._before, self._relative, self._positions
        return entries.tobytes()

    def sync(self) -> None:
        if self._file is not None:
            self._file.sync()

    def detach(self) -> None:
        """Go on in memory alone: the file could not be written and will be rebuilt."""
        self.close()
        self._file = None

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
