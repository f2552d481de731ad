"""Blobs as files below a directory: a shared or a local one that stands in for an object store.

An object is written under a fresh name in `.staging`, synced, and then linked to its own name. The link fails if
the name is taken, so of many writers, also on several machines, one wins. A crash can leave a file in `.staging`;
it is no object and may be removed when nobody writes. A name cannot also be the folder of another.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lamina.blobs.names import check_name, check_range
from lamina.blobs.seam import BlobInfo
from lamina.clock import new_uid
from lamina.errors import Conflict, Denied, LaminaError, NotFound, Unavailable

_STAGING = ".staging"
_DENIED = (errno.EACCES, errno.EPERM, errno.EROFS)
_NO_OBJECT = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR)


@contextmanager
def blob_errors(name: str) -> Iterator[None]:
    """Translate what the file system says about an object; nothing above sees OSError."""
    try:
        yield
    except OSError as error:
        raise _blob_error(error, name) from error


class FileBlobs:
    """Objects as files below `root`, which is made at the first put. Safe for many threads and processes."""

    def __init__(self, root: Path | str) -> None:
        self._root = Path(root).absolute()

    def put_new(self, name: str, data: bytes | memoryview) -> None:
        check_name(name)
        place = self._root / name
        staged = self._root / _STAGING / new_uid().hex()
        with blob_errors(name):
            _make_directory(staged.parent)
            try:
                _write_synced(staged, data)
                _make_directory(place.parent)
                os.link(staged, place)
            except (FileExistsError, NotADirectoryError) as error:
                raise Conflict(f"blob {name!r}: the name is taken") from error
            finally:
                staged.unlink(missing_ok=True)
            self._sync_up(place.parent)

    def get(self, name: str, start: int = 0, end: int | None = None) -> bytes:
        check_name(name)
        check_range(name, start, end)
        with blob_errors(name), (self._root / name).open("rb", buffering=0) as file:
            size = os.fstat(file.fileno()).st_size
            end = size if end is None else min(end, size)
            found = bytearray()
            while start + len(found) < end:
                more = os.pread(file.fileno(), end - start - len(found), start + len(found))
                if not more:
                    raise Unavailable(f"blob {name!r}: the file became shorter while it was read")
                if len(more) == end - start:
                    return more
                found += more
        return bytes(found)

    def stat(self, name: str) -> BlobInfo:
        check_name(name)
        with blob_errors(name):
            status = (self._root / name).stat()
        if stat.S_ISDIR(status.st_mode):
            raise NotFound(f"no blob {name!r}")
        return BlobInfo(name, status.st_size)

    def list(self, prefix: str = "") -> Iterator[BlobInfo]:
        return self._walk("", prefix)

    def delete(self, name: str) -> None:
        check_name(name)
        place = self._root / name
        with blob_errors(name):
            if place.is_dir():
                return
            try:
                place.unlink()
            except (FileNotFoundError, NotADirectoryError):
                return
            _sync_directory(place.parent)

    def _walk(self, folder: str, prefix: str) -> Iterator[BlobInfo]:
        """Folders sort with their "/", which gives the order of the whole names."""
        try:
            with blob_errors(folder), os.scandir(self._root / folder) as entries:
                labels = sorted(f"{entry.name}/" if entry.is_dir() else entry.name for entry in entries)
        except NotFound:
            return
        for label in labels:
            name = folder + label
            if label.startswith(".") or not (name.startswith(prefix) or prefix.startswith(name)):
                continue
            if label.endswith("/"):
                yield from self._walk(name, prefix)
            elif name.startswith(prefix):
                with contextlib.suppress(NotFound):  # deleted meanwhile
                    yield self.stat(name)

    def _sync_up(self, directory: Path) -> None:
        """Every level, since another writer may have made one and not yet synced it."""
        while directory != self._root.parent:
            _sync_directory(directory)
            directory = directory.parent


def _blob_error(error: OSError, name: str) -> LaminaError:
    if error.errno in _NO_OBJECT:
        return NotFound(f"no blob {name!r}")
    message = f"blob {name!r}: {error.strerror}"
    if error.errno in _DENIED:
        return Denied(message)
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        message += "; free some space on the file system of the blobs, then retry"
    return Unavailable(message)


def _write_synced(place: Path, data: bytes | memoryview) -> None:
    with place.open("xb", buffering=0) as file:
        left = memoryview(data).cast("B")
        while left:
            left = left[file.write(left) :]
        os.fsync(file.fileno())


def _make_directory(place: Path) -> None:
    """With parents, each name durable on return if it was made here."""
    if place.is_dir():
        return
    _make_directory(place.parent)
    place.mkdir(0o755, exist_ok=True)
    _sync_directory(place.parent)


def _sync_directory(place: Path) -> None:
    descriptor = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
