"""The disk of a real machine: files below a root directory, on any local POSIX file system.

A view from `map` is shared memory of the file: it shows later `pwrite`s, and touching it where the file was
truncated away kills the process (SIGBUS). So nobody truncates below what is mapped.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import stat
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from lamina.disk.refusals import DiskErrors, entry_parts, path_parts, rename_parts
from lamina.disk.seam import Bytes, File, Lock, OpenMode
from lamina.errors import Closed, Conflict, InvalidRequest, Unavailable

_FLAGS: dict[OpenMode, int] = {
    "read": os.O_RDONLY,
    "write": os.O_RDWR,
    "create": os.O_RDWR | os.O_CREAT | os.O_EXCL,
}
_PARTS_MAX = os.sysconf("SC_IOV_MAX")  # the kernel refuses a longer list of parts


class FileDisk:
    """Files below `root`, which need not exist before `make_directory("")`. Safe to call from many threads."""

    def __init__(self, root: Path | str) -> None:
        self._root = Path(root).absolute()  # a later chdir must not move the store

    def open(self, path: str, mode: OpenMode) -> File:
        place = self._root.joinpath(*entry_parts(path))
        with DiskErrors(str(place)):
            descriptor = _Descriptor(os.open(place, _FLAGS[mode], 0o644))
            status = os.fstat(descriptor.number)
        if stat.S_ISDIR(status.st_mode):
            raise Conflict(f"{place}: Is a directory")
        return OpenFile(descriptor, str(place), end=status.st_size)

    def list(self, directory: str) -> list[str]:
        place = self._root.joinpath(*path_parts(directory))
        with DiskErrors(str(place)), os.scandir(place) as entries:
            return sorted(f"{entry.name}/" if entry.is_dir() else entry.name for entry in entries)

    def make_directory(self, path: str) -> None:
        place = self._root.joinpath(*path_parts(path))
        with DiskErrors(str(place)):
            _make_root(self._root)
            place.mkdir(0o755, parents=True, exist_ok=True)

    def rename(self, old: str, new: str) -> None:
        old_parts, new_parts = rename_parts(old, new)
        source, target = self._root.joinpath(*old_parts), self._root.joinpath(*new_parts)
        with DiskErrors(f"{source} -> {target}"):
            # The kernel would let a directory replace an empty one.
            if source != target and source.exists() and target.is_dir():
                raise Conflict(f"{target}: Is a directory")
            source.rename(target)

    def unlink(self, path: str) -> None:
        place = self._root.joinpath(*entry_parts(path))
        with DiskErrors(str(place)), contextlib.suppress(FileNotFoundError):
            if place.is_dir() and not place.is_symlink():
                place.rmdir()
            else:
                place.unlink()

    def sync_directory(self, path: str) -> None:
        place = self._root.joinpath(*path_parts(path))
        with DiskErrors(str(place)):
            _sync_directory(place)

    def lock(self, path: str) -> Lock:
        place = self._root.joinpath(*entry_parts(path))
        with DiskErrors(str(place)):
            descriptor = os.open(place, os.O_RDWR | os.O_CREAT, 0o644)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                owner = os.pread(descriptor, 20, 0).decode("ascii", "replace").strip() or "unknown"
                os.close(descriptor)
                raise Conflict(f"{place}: locked by process {owner}; stop it or close its store first") from error
            except OSError:
                os.close(descriptor)
                raise
        # The pid only serves the message above, so a full disk must not cost us the lock.
        with contextlib.suppress(OSError):
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        return FileLock(descriptor)


class OpenFile:
    """An open file of a FileDisk. It knows where the file ends, so only one handle may write at a time."""

    __slots__ = ("_descriptor", "_end", "_errors", "_path")

    def __init__(self, descriptor: _Descriptor, path: str, *, end: int) -> None:
        self._descriptor: _Descriptor | None = descriptor
        self._end = end
        self._errors = DiskErrors(path)
        self._path = path

    def append(self, parts: Sequence[Bytes]) -> int:
        descriptor = self._open()
        position = self._end
        total = 0
        for part in parts:
            total += part.nbytes if isinstance(part, memoryview) else len(part)
        with self._errors:
            if len(parts) <= _PARTS_MAX and os.pwritev(descriptor.number, parts, position) == total:
                self._end = position + total
            else:
                self._write_in_steps(descriptor, parts, position)
        return position

    def pwrite(self, data: Bytes, position: int) -> None:
        descriptor = self._open()
        if position < 0:  # the kernel would take -1 for "here"
            raise InvalidRequest(f"{self._path}: cannot write at the negative position {position}")
        with self._errors:
            self._write_in_steps(descriptor, [data], position)

    def pread(self, length: int, position: int) -> bytes:
        descriptor = self._open()
        with self._errors:
            found = os.pread(descriptor.number, length, position)
            while found and len(found) < length:
                more = os.pread(descriptor.number, length - len(found), position + len(found))
                if not more:
                    break
                found += more
        return found

    def map(self, length: int) -> memoryview:
        descriptor = self._open()
        size = self.size()
        if not 0 <= length <= size:
            raise InvalidRequest(f"{self._path}: cannot map {length} bytes of a file of {size}")
        if length == 0:
            return memoryview(b"")
        with self._errors:
            if sys.version_info >= (3, 13):  # before, each map holds a descriptor of its own
                return memoryview(mmap.mmap(descriptor.number, length, access=mmap.ACCESS_READ, trackfd=False))
            return memoryview(mmap.mmap(descriptor.number, length, access=mmap.ACCESS_READ))

    def size(self) -> int:
        descriptor = self._open()
        with self._errors:
            return os.fstat(descriptor.number).st_size

    def truncate(self, size: int) -> None:
        descriptor = self._open()
        with self._errors:
            os.ftruncate(descriptor.number, size)
        self._end = size

    def preallocate(self, size: int) -> None:
        descriptor = self._open()
        if 0 <= size <= self._end:
            return
        with self._errors:
            try:
                _reserve(descriptor.number, size)
            except OSError:
                # A refused reservation may have made the file longer already.
                with contextlib.suppress(OSError):
                    os.ftruncate(descriptor.number, self._end)
                raise
        self._end = size

    def sync(self) -> None:
        descriptor = self._open()
        with self._errors:
            _sync(descriptor.number)

    def close(self) -> None:
        self._descriptor = None

    def _open(self) -> _Descriptor:
        descriptor = self._descriptor
        if descriptor is None:
            raise Closed(f"{self._path}: the file was closed")
        return descriptor

    def _write_in_steps(self, descriptor: _Descriptor, parts: Sequence[Bytes], position: int) -> None:
        """Write whatever the kernel takes at a time; a byte may be written twice, with the same value."""
        left = [view for part in parts if (view := memoryview(part).cast("B"))]
        while left:
            written = os.pwritev(descriptor.number, left[:_PARTS_MAX], position)
            if written == 0:
                raise Unavailable(f"{self._path}: the disk took none of the bytes at position {position}")
            position += written
            self._end = max(self._end, position)  # also when the next step fails: these bytes are there
            left = _without_first(left, written)


class FileLock:
    """A held `flock`. A child forked while it is held keeps it too, unless `close` is called first."""

    __slots__ = ("_descriptor",)

    def __init__(self, descriptor: int) -> None:
        self._descriptor: int | None = descriptor

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            fcntl.flock(descriptor, fcntl.LOCK_UN)
            os.close(descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _Descriptor:
    """Closes its number when the last user lets go of it.

    So a `close` during another thread's read cannot hand the number, in the middle of the read, to another file.
    """

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number

    def __del__(self) -> None:
        # Whoever needs to know that the bytes arrived has called sync.
        with contextlib.suppress(OSError):
            os.close(self.number)


def _without_first(views: list[memoryview], count: int) -> list[memoryview]:
    for index, view in enumerate(views):
        if count < len(view):
            return [view[count:], *views[index + 1 :]]
        count -= len(view)
    return []


def _sync(descriptor: int) -> None:
    if sys.platform == "darwin":
        fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)  # its fsync stops at the drive's cache
    else:
        os.fdatasync(descriptor)


def _reserve(descriptor: int, size: int) -> None:
    if sys.platform == "darwin":
        os.ftruncate(descriptor, size)
    else:
        os.posix_fallocate(descriptor, 0, size)


def _sync_directory(place: Path) -> None:
    descriptor = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _make_root(place: Path) -> None:
    """The caller has no path for what is above the root, so those names are made durable here."""
    if not place.is_dir():
        _make_root(place.parent)
        place.mkdir(0o755, exist_ok=True)
        _sync_directory(place.parent)
