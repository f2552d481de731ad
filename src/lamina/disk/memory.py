"""A disk in memory: the disk of `lamina.open("memory:")`, gone when the process ends.

A file is one buffer with room to grow. A view pins its buffer, so the buffer is never resized: when it is full, a
copy twice as large takes its place and the views keep the old one. Bytes below a view's length therefore stay as
they were, except that a `pwrite` may or may not show in it. A truncated file moves to a new buffer, so a view
taken before goes on showing what it showed.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

from lamina.disk.seam import Bytes, File, Lock, OpenMode
from lamina.disk.tree import HeldLock, Tree
from lamina.errors import Closed, Conflict, InvalidRequest

_CAPACITY_MIN = 512


class Contents:
    """The bytes of a file, whatever its names and handles. One thread at a time writes; any thread reads.

    A writer puts the bytes in place before it moves `size`, and a reader looks at `size` before `buffer`, so a
    reader needs no lock. Beyond `size` the buffer is all zeros.
    """

    __slots__ = ("buffer", "size")

    def __init__(self) -> None:
        self.buffer = bytearray()
        self.size = 0

    def write(self, written: Bytes, position: int) -> None:
        length = written.nbytes if isinstance(written, memoryview) else len(written)
        if length == 0:
            return  # as on a real disk, writing nothing does not make a file longer
        end = position + length
        if end > len(self.buffer):
            self._reserve(end)
        self.buffer[position:end] = written
        if end > self.size:
            self.size = end

    def resize(self, size: int) -> None:
        if size < self.size:
            self.buffer = self.buffer[:size]
        else:
            self._reserve(size)
        self.size = size

    def view(self, start: int, end: int) -> memoryview:
        end = min(end, self.size)
        return memoryview(self.buffer)[start:end].toreadonly()

    def _reserve(self, size: int) -> None:
        capacity = len(self.buffer)
        if size > capacity:
            larger = bytearray(max(size, 2 * capacity, _CAPACITY_MIN))
            larger[:capacity] = self.buffer
            self.buffer = larger


class MemoryFile:
    """An open file of a MemoryDisk."""

    __slots__ = ("_contents", "_path", "_writable")

    def __init__(self, contents: Contents, path: str, *, writable: bool) -> None:
        self._contents: Contents | None = contents
        self._path = path
        self._writable = writable

    def append(self, parts: Sequence[Bytes]) -> int:
        contents = self._for_writing(0)
        position = contents.size
        contents.write(b"".join(parts), position)
        return position

    def pwrite(self, data: Bytes, position: int) -> None:
        self._for_writing(position).write(data, position)

    def pread(self, length: int, position: int) -> bytes:
        return self._checked(length, position).view(position, position + length).tobytes()

    def map(self, length: int) -> memoryview:
        contents = self._checked(length)
        if length > contents.size:
            raise InvalidRequest(f"{self._path}: cannot map {length} bytes of a file of {contents.size}")
        return contents.view(0, length)

    def size(self) -> int:
        return self._checked().size

    def truncate(self, size: int) -> None:
        self._for_writing(size).resize(size)

    def preallocate(self, size: int) -> None:
        contents = self._for_writing(size)
        contents.resize(max(size, contents.size))

    def sync(self) -> None:
        self._checked()

    def close(self) -> None:
        self._contents = None

    def _checked(self, *numbers: int) -> Contents:
        contents = self._contents  # read once: another thread may close the file meanwhile
        if contents is None:
            raise Closed(f"{self._path}: the file was closed")
        if numbers and min(numbers) < 0:
            raise InvalidRequest(f"{self._path}: a position, length or size is negative")
        return contents

    def _for_writing(self, number: int) -> Contents:
        contents = self._checked(number)
        if not self._writable:
            raise InvalidRequest(f"{self._path}: the file was opened for reading only")
        return contents


class MemoryDisk:
    """Files and directories in memory. Safe to call from many threads; the root exists from the start."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()  # guards the two below
        self._tree: Tree[Contents] = Tree()
        self._locked: set[Contents] = set()

    def open(self, path: str, mode: OpenMode) -> File:
        with self._mutex:
            if mode == "create":
                contents = Contents()
                self._tree.create(path, contents)
            else:
                contents = self._tree.file(path)
        return MemoryFile(contents, path, writable=mode != "read")

    def list(self, directory: str) -> list[str]:
        with self._mutex:
            return self._tree.list(directory)

    def make_directory(self, path: str) -> None:
        with self._mutex:
            self._tree.make_directory(path)

    def rename(self, old: str, new: str) -> None:
        with self._mutex:
            self._tree.rename(old, new)

    def unlink(self, path: str) -> None:
        with self._mutex:
            self._tree.unlink(path)

    def sync_directory(self, path: str) -> None:
        with self._mutex:
            self._tree.directory(path)

    def lock(self, path: str) -> Lock:
        with self._mutex:
            contents = self._tree.file_or_new(path, Contents)
            if contents in self._locked:
                raise Conflict(f"{path}: locked by another holder in this process; close that one first")
            self._locked.add(contents)
        return HeldLock(lambda: self._release(contents))

    def _release(self, contents: Contents) -> None:
        with self._mutex:
            self._locked.discard(contents)
