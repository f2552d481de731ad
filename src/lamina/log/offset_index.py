"""The sparse offset index of a segment: `<20-digit base>.index`, docs/formats/index.md.

Eight bytes an entry, (relative offset, byte position) as ">II", about one every 4096 bytes of log, always one for
the first frame. The file holds nothing else: its size is the count, so a legal entry (0, 0) is never taken for
the end. It is written after the log is durable and can be rebuilt from it, so it is synced only on flush.
"""

from __future__ import annotations

import logging
import struct
from array import array
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self

import numpy as np

from lamina.disk import Disk, File, FileDisk
from lamina.errors import Closed, Corrupt, InvalidRequest, NotFound
from lamina.log.format import POSITION_MAX
from lamina.log.names import side_name

ENTRIES_MAX = 262_144
INTERVAL_BYTES = 4096
SUFFIX = ".index"

logger = logging.getLogger(__name__)
_ENTRY = struct.Struct(">II")


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """One sample: the frame that holds `relative_offset` starts at `position`."""

    SIZE: ClassVar[int] = _ENTRY.size
    FORMAT: ClassVar[str] = _ENTRY.format

    relative_offset: int
    position: int

    def __post_init__(self) -> None:
        for name, number in (("relative offset", self.relative_offset), ("position", self.position)):
            if not 0 <= number <= POSITION_MAX:
                raise InvalidRequest(f"{name} {number} does not fit an index entry (0 to {POSITION_MAX})")

    def to_bytes(self) -> bytes:
        return _ENTRY.pack(self.relative_offset, self.position)

    @classmethod
    def from_bytes(cls, data: bytes | memoryview) -> IndexEntry:
        if len(data) != _ENTRY.size:
            raise InvalidRequest(f"an index entry has {_ENTRY.size} bytes, not {len(data)}")
        return cls(*_ENTRY.unpack(data))


class OffsetIndex:
    """The index of one segment. One thread appends; any thread looks up meanwhile.

    Opening maps what is there, whatever `max_entries` it was written with, and takes the last entry as the point
    to go on from. Corrupt if the entries do not rise strictly or the file ends inside one.
    """

    def __init__(
        self,
        base_offset: int,
        directory: Path | str,
        max_entries: int = ENTRIES_MAX,
        interval_bytes: int = INTERVAL_BYTES,
        *,
        disk: Disk | None = None,
        read_only: bool = False,
    ) -> None:
        if max_entries < 1 or interval_bytes < 1:
            raise InvalidRequest(f"max_entries {max_entries} and interval_bytes {interval_bytes} must be positive")
        if disk is None:
            disk, directory = FileDisk(directory), ""
        self.base_offset = base_offset
        self.max_entries = max_entries
        self.interval_bytes = interval_bytes
        self.path = f"{directory}/{side_name(base_offset, SUFFIX)}".lstrip("/")
        self._closed = False
        self._file: File | None = _open(disk, self.path, read_only=read_only)
        try:
            self._load(self._file.map(self._file.size()))
        except Corrupt:
            self._file.close()
            raise

    @classmethod
    def of_bytes(
        cls,
        base_offset: int,
        data: memoryview | bytes = b"",
        *,
        max_entries: int = POSITION_MAX,
        interval_bytes: int = INTERVAL_BYTES,
        where: str = "",
    ) -> OffsetIndex:
        """An index in memory alone: to read a sealed one, or to build one anew."""
        index = cls.__new__(cls)
        index.base_offset = base_offset
        index.max_entries = max_entries
        index.interval_bytes = interval_bytes
        index.path = where
        index._closed = False
        index._file = None
        index._load(data)
        return index

    @property
    def entries_count(self) -> int:
        return len(self._relative)

    @property
    def is_full(self) -> bool:
        return len(self._relative) >= self.max_entries

    def wants(self, position: int) -> bool:
        """Whether a frame at `position` is far enough behind the last entry to become one."""
        positions = self._positions
        return not positions or position - positions[-1] >= self.interval_bytes

    def append(self, offset: int, position: int) -> bool:
        """Add an entry if `interval_bytes` of log went by since the last; the first is always taken.

        False if it was too near or the index is full (then the segment should roll).
        """
        if self._closed:
            raise Closed(f"index {self.path} is closed")
        entry = IndexEntry(offset - self.base_offset, position)
        if self._relative:
            if entry.relative_offset <= self._relative[-1] or position <= self._positions[-1]:
                raise InvalidRequest(f"index entries must rise: {entry} after {self._last()}")
            if not self.wants(position) or self.is_full:
                return False
        if self._file is not None:
            self._file.append([entry.to_bytes()])
        # Position first: a reader that sees the offset also finds its position.
        self._positions.append(position)
        self._relative.append(entry.relative_offset)
        return True

    def lookup(self, offset: int) -> tuple[int, int] | None:
        """The last entry at or before `offset`, as (offset, position); None if all entries are after it."""
        at = bisect_right(self._relative, offset - self.base_offset) - 1
        if at < 0:
            return None
        logger.debug("Using index for lookup offset=%s entry=%s", offset, at)
        return self._relative[at] + self.base_offset, self._positions[at]

    def entries(self) -> Iterator[IndexEntry]:
        return map(IndexEntry, self._relative, self._positions)

    def encode(self) -> bytes:
        """The file's bytes."""
        pairs = np.empty((len(self._relative), 2), ">u4")
        pairs[:, 0], pairs[:, 1] = self._relative, self._positions
        return pairs.tobytes()

    def truncate(self, entries: int) -> None:
        """Keep the first `entries` entries."""
        if not 0 <= entries <= self.entries_count:
            raise InvalidRequest(f"cannot keep {entries} of {self.entries_count} index entries")
        if self._file is not None:
            self._file.truncate(entries * _ENTRY.size)
        del self._relative[entries:]
        del self._positions[entries:]

    def flush(self) -> None:
        """Return when the entries survive a power loss. The log must have been synced before."""
        if self._file is not None:
            self._file.sync()

    def detach(self) -> None:
        """Go on in memory alone: the file could not be written and will be rebuilt."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def close(self) -> None:
        self._closed = True
        if self._file is not None:
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _load(self, data: memoryview | bytes) -> None:
        if len(data) % _ENTRY.size:
            raise Corrupt(f"{self.path}: {len(data)} bytes are not whole entries of {_ENTRY.size}")
        relative, positions = np.frombuffer(data, ">u4").astype(np.uint32).reshape(-1, 2).T
        if not ((relative[1:] > relative[:-1]).all() and (positions[1:] > positions[:-1]).all()):
            raise Corrupt(f"{self.path}: index entries do not rise; the index can be rebuilt from the log")
        # Read through the mapping once; entries appended from here on live in the two arrays alone.
        self._relative = array("I", relative.tobytes())
        self._positions = array("I", positions.tobytes())

    def _last(self) -> IndexEntry:
        return IndexEntry(self._relative[-1], self._positions[-1])


def _open(disk: Disk, path: str, *, read_only: bool) -> File:
    try:
        return disk.open(path, "read" if read_only else "write")
    except NotFound:
        if read_only:
            raise
        return disk.open(path, "create")
