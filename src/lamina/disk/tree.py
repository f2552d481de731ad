"""The names of a disk that lives in memory: directories, and in them files of any kind.

All changes go through `Tree.apply`, so that a disk which must remember them (as one that forgets does) has one
place to listen. Not safe for threads by itself: the disk that owns a tree holds its lock around each call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Generic, Self, TypeVar

from lamina.disk.refusals import entry_parts, path_parts, rename_parts
from lamina.errors import Conflict, NotFound

FileT = TypeVar("FileT")


class Directory(Generic[FileT]):
    """A directory, equal only to itself, whatever its name is now."""

    __slots__ = ("entries",)

    def __init__(self) -> None:
        self.entries: dict[str, Directory[FileT] | FileT] = {}


class Tree(Generic[FileT]):
    """A root directory and what can be done to the names below it."""

    def __init__(self) -> None:
        self.root: Directory[FileT] = Directory()

    def apply(self, changes: Sequence[tuple[Directory[FileT], str, Directory[FileT] | FileT | None]]) -> None:
        """Set (or with None, remove) names, all at once."""
        for directory, name, node in changes:
            if node is None:
                del directory.entries[name]
            else:
                directory.entries[name] = node

    def create(self, path: str, file: FileT) -> None:
        parent, name = self._place(entry_parts(path))
        if name in parent.entries:
            raise Conflict(f"{path}: File exists")
        self.apply([(parent, name, file)])

    def make_directory(self, path: str) -> None:
        directory = self.root
        for name in path_parts(path):
            inner = directory.entries.get(name)
            if inner is None:
                inner = Directory()
                self.apply([(directory, name, inner)])
            directory = _as_directory(inner, path)

    def rename(self, old: str, new: str) -> None:
        source, target = rename_parts(old, new)
        old_parent, old_name = self._place(source)
        node = _present(old_parent.entries.get(old_name), old)
        new_parent, new_name = self._place(target)
        if source == target:
            return
        replaced = new_parent.entries.get(new_name)
        if isinstance(replaced, Directory):
            raise Conflict(f"{new}: Is a directory")
        if replaced is not None and isinstance(node, Directory):
            raise Conflict(f"{new}: Not a directory")
        self.apply([(old_parent, old_name, None), (new_parent, new_name, node)])

    def unlink(self, path: str) -> None:
        parts = entry_parts(path)
        try:
            parent, name = self._place(parts)
        except NotFound:
            return
        node = parent.entries.get(name)
        if isinstance(node, Directory) and node.entries:
            raise Conflict(f"{path}: Directory not empty")
        if node is not None:
            self.apply([(parent, name, None)])

    def file(self, path: str) -> FileT:
        parent, name = self._place(entry_parts(path))
        node = _present(parent.entries.get(name), path)
        if isinstance(node, Directory):
            raise Conflict(f"{path}: Is a directory")
        return node

    def file_or_new(self, path: str, make: Callable[[], FileT]) -> FileT:
        parent, name = self._place(entry_parts(path))
        if name not in parent.entries:
            self.create(path, make())
        return self.file(path)

    def directory(self, path: str) -> Directory[FileT]:
        directory = self.root
        for name in path_parts(path):
            directory = _as_directory(_present(directory.entries.get(name), path), path)
        return directory

    def list(self, path: str) -> list[str]:
        entries = self.directory(path).entries
        return sorted(f"{name}/" if isinstance(node, Directory) else name for name, node in entries.items())

    def _place(self, parts: tuple[str, ...]) -> tuple[Directory[FileT], str]:
        return self.directory("/".join(parts[:-1])), parts[-1]


class HeldLock:
    """A lock inside one process: `release` runs once, at the first close."""

    def __init__(self, release: Callable[[], None]) -> None:
        self._release: Callable[[], None] | None = release

    def close(self) -> None:
        release, self._release = self._release, None
        if release is not None:
            release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _present(node: Directory[FileT] | FileT | None, path: str) -> Directory[FileT] | FileT:
    if node is None:
        raise NotFound(f"{path}: No such file or directory")
    return node


def _as_directory(node: Directory[FileT] | FileT, path: str) -> Directory[FileT]:
    if not isinstance(node, Directory):
        raise Conflict(f"{path}: Not a directory")
    return node
