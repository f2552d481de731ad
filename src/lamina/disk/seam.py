"""What the store asks of a disk. Paths are relative to the disk's root and separated by "/".

Errors, from every method: NotFound (no such file or directory), Conflict (the name is taken, or the lock is
held), Denied (permissions, read-only file system), InvalidRequest (a path that could leave the root), Unavailable
(any other refusal: full, I/O error).
"""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Literal, Protocol, Self

Bytes = bytes | bytearray | memoryview
OpenMode = Literal["read", "write", "create"]


class File(Protocol):
    """One open file. One thread, by one handle, may write at a time; any thread may read meanwhile.

    Also: Closed after `close`, InvalidRequest for a write to a file opened with "read" or a negative number.
    """

    def append(self, parts: Sequence[Bytes]) -> int:
        """Write all parts at the end, in one go, and return the position where they begin.

        After an error a part of the bytes may be in the file: truncate back to the size before.
        """

    def pwrite(self, data: Bytes, position: int) -> None:
        """Write all of `data` at `position`."""

    def pread(self, length: int, position: int) -> bytes:
        """At most `length` bytes; fewer at the end of the file."""

    def map(self, length: int) -> memoryview:
        """A read-only view of the first `length` bytes, without copying where the disk can.

        The view outlives the file handle, a rename and an unlink. `length` must not pass the size.
        """

    def size(self) -> int: ...

    def truncate(self, size: int) -> None:
        """Cut the file, or grow it with zeros. Never below what is mapped: reading such a view may kill the process."""

    def preallocate(self, size: int) -> None:
        """Reserve room up to `size` bytes; the file becomes that long, filled with zeros."""

    def sync(self) -> None:
        """Return when the contents survive a power loss. The NAME needs `Disk.sync_directory`."""

    def close(self) -> None:
        """Idempotent. Does not sync."""


class Lock(Protocol):
    """A held lock; closing it, or the death of the process, lets it go."""

    def close(self) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Disk(Protocol):
    """Files and directories below one root. Safe to call from many threads."""

    def open(self, path: str, mode: OpenMode) -> File:
        """Modes "read" and "write" need the file (else NotFound); "create" refuses an existing one (Conflict)."""

    def list(self, directory: str) -> list[str]:
        """Sorted names; directories end with "/". The root is ""."""

    def make_directory(self, path: str) -> None:
        """Idempotent, with parents. The root itself too ("")."""

    def rename(self, old: str, new: str) -> None:
        """Atomic; replaces a file of the new name; a directory of the new name is a Conflict."""

    def unlink(self, path: str) -> None:
        """Remove a file, or an EMPTY directory. Idempotent: an absent name is fine."""

    def sync_directory(self, path: str) -> None:
        """Return when creations, renames and removals in this directory survive a power loss."""

    def lock(self, path: str) -> Lock:
        """Take the lock file without waiting; Conflict if another holder has it (also in this process)."""
