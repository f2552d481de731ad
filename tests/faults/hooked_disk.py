"""A process's view of a disk, for tests: each change can be watched, refused, or be the last thing the process did."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from lamina.disk import Bytes, Disk, File, Lock, OpenMode
from lamina.errors import Unavailable

Hook = Callable[[str, str], None]


class HookedDisk:
    """Calls `hook(operation, path)` before each change; what the hook raises, the caller gets.

    After `die` every call is refused, so threads of a store that has "crashed" cannot touch what comes after it.
    """

    def __init__(self, inner: Disk, hook: Hook = lambda operation, path: None) -> None:
        self.inner = inner
        self.mutex = threading.RLock()  # makes a call and the death of the process exclude each other
        self.hook = hook
        self.dead = False

    def die(self) -> None:
        with self.mutex:
            self.dead = True

    def before(self, operation: str, path: str, *, changes: bool = True) -> None:
        if self.dead:
            raise Unavailable(f"{path}: the process is dead")
        if changes:
            self.hook(operation, path)

    def open(self, path: str, mode: OpenMode) -> File:
        with self.mutex:
            self.before("open", path, changes=mode == "create")
            return HookedFile(self, self.inner.open(path, mode), path)

    def list(self, directory: str) -> list[str]:
        with self.mutex:
            self.before("list", directory, changes=False)
            return self.inner.list(directory)

    def make_directory(self, path: str) -> None:
        with self.mutex:
            self.before("make_directory", path)
            self.inner.make_directory(path)

    def rename(self, old: str, new: str) -> None:
        with self.mutex:
            self.before("rename", new)
            self.inner.rename(old, new)

    def unlink(self, path: str) -> None:
        with self.mutex:
            self.before("unlink", path)
            self.inner.unlink(path)

    def sync_directory(self, path: str) -> None:
        with self.mutex:
            self.before("sync_directory", path)
            self.inner.sync_directory(path)

    def lock(self, path: str) -> Lock:
        with self.mutex:
            self.before("lock", path, changes=False)
            return self.inner.lock(path)


class HookedFile:
    """An open file of a HookedDisk."""

    def __init__(self, disk: HookedDisk, inner: File, path: str) -> None:
        self._disk = disk
        self._inner = inner
        self._path = path

    def append(self, parts: Sequence[Bytes]) -> int:
        with self._disk.mutex:
            self._disk.before("append", self._path)
            return self._inner.append(parts)

    def pwrite(self, data: Bytes, position: int) -> None:
        with self._disk.mutex:
            self._disk.before("pwrite", self._path)
            self._inner.pwrite(data, position)

    def pread(self, length: int, position: int) -> bytes:
        with self._disk.mutex:
            self._disk.before("pread", self._path, changes=False)
            return self._inner.pread(length, position)

    def map(self, length: int) -> memoryview:
        with self._disk.mutex:
            self._disk.before("map", self._path, changes=False)
            return self._inner.map(length)

    def size(self) -> int:
        with self._disk.mutex:
            self._disk.before("size", self._path, changes=False)
            return self._inner.size()

    def truncate(self, size: int) -> None:
        with self._disk.mutex:
            self._disk.before("truncate", self._path)
            self._inner.truncate(size)

    def preallocate(self, size: int) -> None:
        with self._disk.mutex:
            self._disk.before("preallocate", self._path)
            self._inner.preallocate(size)

    def sync(self) -> None:
        with self._disk.mutex:
            self._disk.before("sync", self._path)
            self._inner.sync()

    def close(self) -> None:
        self._inner.close()
