"""`head`: how far a partition is durable, for readers in other processes. 32 bytes, docs/formats/head.md.

Written by pwrite after each fsync of the log and never through a mapping: a torn record shows as a bad CRC and
the reader looks again.
"""

from __future__ import annotations

import struct

import msgspec
from crc32c import crc32c

from lamina.disk import Disk, File
from lamina.errors import Corrupt, NotFound
from lamina.log import names

_HEAD = struct.Struct(">QQQI")
_CRC = struct.Struct(">I")
HEAD_BYTES = 32
_CLEAN = 1
_READ_ATTEMPTS = 100


class Head(msgspec.Struct, frozen=True, gc=False):
    """Durable are all offsets below `end`, which is byte `byte_end` of the segment with base `segment`.

    `clean` is true only between a close and the next open.
    """

    end: int
    segment: int
    byte_end: int
    clean: bool = False

    def encode(self) -> bytes:
        record = _HEAD.pack(self.end, self.segment, self.byte_end, _CLEAN if self.clean else 0)
        return record + _CRC.pack(crc32c(record))


def decode_head(record: bytes) -> Head | None:
    """None for a record that is torn or damaged."""
    if len(record) != HEAD_BYTES or _CRC.unpack_from(record, 28)[0] != crc32c(record[:28]):
        return None
    end, segment, byte_end, flags = _HEAD.unpack_from(record)
    return Head(end, segment, byte_end, clean=bool(flags & _CLEAN))


class HeadFile:
    """The open `head` of one partition. One writer; readers in any process."""

    def __init__(self, file: File, where: str) -> None:
        self._file = file
        self._where = where

    @classmethod
    def create(cls, disk: Disk, directory: str, head: Head) -> HeadFile:
        """Write a missing or damaged head; the caller syncs the directory. Followers may have the file open."""
        path = f"{directory}/{names.HEAD}"
        try:
            file = disk.open(path, "write")
            file.truncate(HEAD_BYTES)
        except NotFound:
            file = disk.open(path, "create")
        file.pwrite(head.encode(), 0)
        file.sync()
        return cls(file, path)

    @classmethod
    def open(cls, disk: Disk, directory: str, *, write: bool) -> HeadFile:
        path = f"{directory}/{names.HEAD}"
        return cls(disk.open(path, "write" if write else "read"), path)

    def write(self, head: Head) -> None:
        self._file.pwrite(head.encode(), 0)

    def sync(self) -> None:
        self._file.sync()

    def read(self) -> Head:
        """The newest record. Corrupt if it stays unreadable, which a write in progress cannot cause."""
        for _ in range(_READ_ATTEMPTS):
            if (head := decode_head(self._file.pread(HEAD_BYTES, 0))) is not None:
                return head
        raise Corrupt(f"{self._where} is damaged; open the store as its owner to rebuild it from the log")

    def close(self) -> None:
        self._file.close()


def read_head(disk: Disk, directory: str) -> Head | None:
    """The head for recovery: None if there is none or it is damaged."""
    try:
        file = disk.open(f"{directory}/{names.HEAD}", "read")
    except NotFound:
        return None
    try:
        return decode_head(file.pread(HEAD_BYTES + 1, 0))
    finally:
        file.close()
