"""A disk in memory that forgets, as a real one does when the power fails.

Fault model of `crash`, stricter than any one file system:

- What a file's `sync` returned for is never lost, under whatever name the file has afterwards.
- Of the writes since, any subset may be there, in any order, and of one write any subset of its 512-byte sectors.
  Where a write was lost, older bytes or zeros are read. The size may be recorded without the bytes: zeros.
- Truncates and preallocations since the sync survive in order: if one is lost, so are the later ones.
- A name belongs to its directory: creations, renames and removals since that directory's `sync_directory` survive
  as a prefix of their order there. So a synced file may have no name, a removed one may be back, and a file that
  was renamed over another before its bytes were synced may be empty. A rename is never half done.
- Synced bytes do not rot, and nothing is written to the wrong place.

`kill` is the death of the process alone: what was written stays (still unsynced), handles and locks are gone.
Views from `map` are copies: they outlive everything and never change.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Sequence

from lamina.disk import Bytes, File, HeldLock, Lock, OpenMode
from lamina.errors import Closed, Conflict, InvalidRequest
from lamina.testing.crash_model import CrashTree, Inode, Keep, Resize, Write


class CrashDisk:
    """Files in memory until `crash`. Safe to call from many threads; the root exists and is durable."""

    def __init__(self) -> None:
        self.mutex = threading.RLock()  # guards all below, and the files' contents
        self.life = object()  # another one after each crash; handles of an earlier life are closed
        self._tree = CrashTree()
        self._locked: set[Inode] = set()

    def crash(self, keep: Keep = "none") -> None:
        """Lose the power: of all that was not synced keep "none", "all", or what a seeded Random picks."""
        with self.mutex:
            self.kill()
            self._tree.crash(keep)

    def kill(self) -> None:
        """Lose the process: all handles and locks."""
        with self.mutex:
            self.life = object()
            self._locked.clear()

    def fork(self) -> CrashDisk:
        """A copy in the same state, synced or not, without handles and locks: to try another crash from here."""
        twin = CrashDisk()
        with self.mutex:
            twin._tree = copy.deepcopy(self._tree)
        return twin

    def open(self, path: str, mode: OpenMode) -> File:
        with self.mutex:
            if mode == "create":
                inode = Inode()
                self._tree.create(path, inode)
            else:
                inode = self._tree.file(path)
            return CrashFile(self, inode, path, writable=mode != "read")

    def list(self, directory: str) -> list[str]:
        with self.mutex:
            return self._tree.list(directory)

    def make_directory(self, path: str) -> None:
        with self.mutex:
            self._tree.make_directory(path)

    def rename(self, old: str, new: str) -> None:
        with self.mutex:
            self._tree.rename(old, new)

    def unlink(self, path: str) -> None:
        with self.mutex:
            self._tree.unlink(path)

    def sync_directory(self, path: str) -> None:
        with self.mutex:
            self._tree.sync(self._tree.directory(path))

    def lock(self, path: str) -> Lock:
        with self.mutex:
            inode = self._tree.file_or_new(path, Inode)
            if inode in self._locked:
                raise Conflict(f"{path}: locked by another holder in this process; close that one first")
            self._locked.add(inode)
            life = self.life
        return HeldLock(lambda: self._release(inode, life))

    def _release(self, inode: Inode, life: object) -> None:
        with self.mutex:
            if self.life is life:
                self._locked.discard(inode)


class CrashFile:
    """An open file of a CrashDisk; Closed once the disk has crashed."""

    def __init__(self, disk: CrashDisk, inode: Inode, path: str, *, writable: bool) -> None:
        self._disk = disk
        self._mutex = disk.mutex
        self._life: object | None = disk.life
        self._inode = inode
        self._path = path
        self._writable = writable

    def append(self, parts: Sequence[Bytes]) -> int:
        with self._mutex:
            inode = self._for_writing(0)
            position = len(inode.live)
            inode.change(Write(position, b"".join(parts)))
            return position

    def pwrite(self, data: Bytes, position: int) -> None:
        with self._mutex:
            self._for_writing(position).change(Write(position, bytes(data)))

    def pread(self, length: int, position: int) -> bytes:
        with self._mutex:
            return bytes(self._checked(length, position).live[position : position + length])

    def map(self, length: int) -> memoryview:
        with self._mutex:
            live = self._checked(length).live
            if length > len(live):
                raise InvalidRequest(f"{self._path}: cannot map {length} bytes of a file of {len(live)}")
            return memoryview(bytes(live[:length]))

    def size(self) -> int:
        with self._mutex:
            return len(self._checked().live)

    def truncate(self, size: int) -> None:
        with self._mutex:
            self._for_writing(size).change(Resize(size))

    def preallocate(self, size: int) -> None:
        with self._mutex:
            inode = self._for_writing(size)
            if size > len(inode.live):
                inode.change(Resize(size))

    def sync(self) -> None:
        with self._mutex:
            self._checked().sync()

    def close(self) -> None:
        self._life = None

    def _checked(self, *numbers: int) -> Inode:
        if self._life is not self._disk.life:
            raise Closed(f"{self._path}: the file was closed, or its disk crashed")
        if numbers and min(numbers) < 0:
            raise InvalidRequest(f"{self._path}: a position, length or size is negative")
        return self._inode

    def _for_writing(self, number: int) -> Inode:
        inode = self._checked(number)
        if not self._writable:
            raise InvalidRequest(f"{self._path}: the file was opened for reading only")
        return inode
