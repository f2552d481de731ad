"""Blobs in memory, for stores in memory and for tests."""

from __future__ import annotations

import threading
from bisect import bisect_left, insort
from collections.abc import Iterator

from lamina.blobs.names import check_name, check_range
from lamina.blobs.seam import BlobInfo
from lamina.errors import Conflict, NotFound


class MemoryBlobs:
    """Objects in a dict. As in a file system, a name cannot also be the folder of another."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()  # guards the two below
        self._objects: dict[str, bytes] = {}
        self._names: list[str] = []  # the same names, sorted

    def put_new(self, name: str, data: bytes | memoryview) -> None:
        check_name(name)
        copy = bytes(data)
        with self._mutex:
            if name in self._objects or self._is_folder(name) or self._is_inside_object(name):
                raise Conflict(f"blob {name!r}: the name is taken")
            self._objects[name] = copy
            insort(self._names, name)

    def get(self, name: str, start: int = 0, end: int | None = None) -> bytes:
        check_range(name, start, end)
        return self._object(name)[start:end]

    def stat(self, name: str) -> BlobInfo:
        return BlobInfo(name, len(self._object(name)))

    def list(self, prefix: str = "") -> Iterator[BlobInfo]:
        with self._mutex:
            names = self._names[bisect_left(self._names, prefix) :]
        for name in names:
            if not name.startswith(prefix):
                return
            found = self._objects.get(name)
            if found is not None:
                yield BlobInfo(name, len(found))

    def delete(self, name: str) -> None:
        check_name(name)
        with self._mutex:
            if self._objects.pop(name, None) is not None:
                del self._names[bisect_left(self._names, name)]

    def _object(self, name: str) -> bytes:
        check_name(name)
        found = self._objects.get(name)
        if found is None:
            raise NotFound(f"no blob {name!r}")
        return found

    def _is_folder(self, name: str) -> bool:
        folder = f"{name}/"
        index = bisect_left(self._names, folder)
        return index < len(self._names) and self._names[index].startswith(folder)

    def _is_inside_object(self, name: str) -> bool:
        return any(name[:index] in self._objects for index, letter in enumerate(name) if letter == "/")
