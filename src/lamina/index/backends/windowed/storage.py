"""Where windows are kept: a backend per window, by the window's name, which is never used twice."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from lamina.disk import Disk, FileDisk
from lamina.errors import InvalidRequest, NotFound
from lamina.index.backends.ordered import KvBackend
from lamina.index.backends.redis import Connection, RedisBackend
from lamina.index.backends.seam import IndexBackend
from lamina.index.backends.sqlite import SqliteBackend
from lamina.kv import MemoryKv, RocksKv


class WindowStorage(Protocol):
    """Makes, drops and archives the backends of windows. One call at a time."""

    @property
    def can_archive(self) -> bool: ...

    def open(self, name: str) -> IndexBackend:
        """What was kept under the name, or a new one."""

    def drop(self, name: str) -> None:
        """Remove it whole, without reading it. It is closed. Idempotent."""

    def archive(self, name: str) -> Path:
        """Move it aside and tell where it is now. It is closed. Idempotent; only if `can_archive`."""

    def close(self) -> None:
        """Idempotent. The windows are closed."""


class MemoryWindows:
    """Windows in memory: they live as long as this object."""

    can_archive = False

    def __init__(self) -> None:
        self._mutex = threading.Lock()  # guards the kvs
        self._kvs: dict[str, MemoryKv] = {}

    def open(self, name: str) -> IndexBackend:
        with self._mutex:
            old = self._kvs.get(name)
            self._kvs[name] = MemoryKv() if old is None else old.reopen()
            return KvBackend(self._kvs[name])

    def drop(self, name: str) -> None:
        with self._mutex:
            self._kvs.pop(name, None)

    def archive(self, name: str) -> Path:
        raise InvalidRequest(f"window {name} is in memory and has no place to be archived to; drop it")

    def close(self) -> None:
        return None


class DirectoryWindows:
    """A directory per window below `root`: windows/<name>, and archive/<name> once archived."""

    can_archive = True

    def __init__(self, root: Path | str, opener: Callable[[Path], IndexBackend]) -> None:
        self._root = Path(root).absolute()
        self._opener = opener
        self._disk: Disk = FileDisk(self._root)

    def open(self, name: str) -> IndexBackend:
        self._disk.make_directory(f"windows/{name}")
        self._disk.sync_directory("windows")  # the window outlives a power loss, as its contents do
        self._disk.sync_directory("")
        return self._opener(self._root / "windows" / name)

    def drop(self, name: str) -> None:
        _remove_tree(self._disk, f"windows/{name}")

    def archive(self, name: str) -> Path:
        self._disk.make_directory("archive")
        try:
            self._disk.rename(f"windows/{name}", f"archive/{name}")
        except NotFound:
            self._disk.list(f"archive/{name}")  # moved before; NotFound if it is nowhere
        self._disk.sync_directory("archive")
        self._disk.sync_directory("windows")
        return self._root / "archive" / name

    def close(self) -> None:
        return None


class RedisWindows:
    """Windows in one Redis server, each below a key prefix of its own."""

    can_archive = False

    def __init__(self, server: str | Connection, *, prefix: str = "lamina:windows:") -> None:
        self._is_owner = isinstance(server, str)
        self._connection = Connection(server) if isinstance(server, str) else server
        self._prefix = prefix

    def open(self, name: str) -> IndexBackend:
        return self._window(name)

    def drop(self, name: str) -> None:
        self._window(name).erase()

    def archive(self, name: str) -> Path:
        raise InvalidRequest(f"window {name} is in Redis and has no file to be archived; drop it")

    def close(self) -> None:
        if self._is_owner:
            self._connection.close()

    def _window(self, name: str) -> RedisBackend:
        return RedisBackend(self._connection, prefix=f"{self._prefix}{name}:")


def rocks_windows(root: Path | str, *, sync: bool = True) -> DirectoryWindows:
    """A RocksDB directory per window."""
    return DirectoryWindows(root, lambda place: KvBackend(RocksKv(place, sync=sync)))


def sqlite_windows(root: Path | str) -> DirectoryWindows:
    """An SQLite file per window: windows/<name>/index.sqlite."""
    return DirectoryWindows(root, lambda place: SqliteBackend(place / "index.sqlite"))


def _remove_tree(disk: Disk, path: str) -> None:
    try:
        names = disk.list(path)
    except NotFound:
        return
    for name in names:
        if name.endswith("/"):
            _remove_tree(disk, f"{path}/{name.removesuffix('/')}")
        else:
            disk.unlink(f"{path}/{name}")
    disk.unlink(path)
