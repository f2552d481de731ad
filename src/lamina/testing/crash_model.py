"""What a power loss does to files and names: the memory of CrashDisk, without handles, locks or threads.

The fault model is written in `crash_disk.py`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from lamina.disk import Directory, Tree

SECTOR_BYTES = 512
Keep = Literal["none", "all"] | random.Random


@dataclass(frozen=True, slots=True)
class Write:
    """Bytes that were written at a position."""

    position: int
    written: bytes

    def apply(self, content: bytearray) -> None:
        if self.written and self.position > len(content):
            content.extend(bytes(self.position - len(content)))
        content[self.position : self.position + len(self.written)] = self.written

    def sectors(self) -> Iterator[Write]:
        """The same write in the pieces that a device writes whole or not at all."""
        start = 0
        while start < len(self.written):
            end = start + SECTOR_BYTES - (self.position + start) % SECTOR_BYTES
            yield Write(self.position + start, self.written[start:end])
            start = end


@dataclass(frozen=True, slots=True)
class Resize:
    """A truncate or a preallocate: the file got this size, grown with zeros."""

    size: int

    def apply(self, content: bytearray) -> None:
        content.extend(bytes(max(0, self.size - len(content))))
        del content[self.size :]


@dataclass(eq=False, slots=True)
class Inode:
    """A file without a name: what programs see, what the device surely has, and what happened in between."""

    live: bytearray = field(default_factory=bytearray)
    durable: bytearray = field(default_factory=bytearray)
    pending: list[Write | Resize] = field(default_factory=list)

    def change(self, change: Write | Resize) -> None:
        change.apply(self.live)
        self.pending.append(change)

    def sync(self) -> None:
        for change in self.pending:
            change.apply(self.durable)
        self.pending.clear()

    def crash(self, keep: Keep) -> None:
        if keep == "all":
            self.sync()
        elif isinstance(keep, random.Random):
            self.durable = self._survivors(keep)
        self.pending.clear()
        self.live = bytearray(self.durable)

    def _survivors(self, chance: random.Random) -> bytearray:
        content = bytearray(self.durable)
        seen = bytearray(self.durable)  # what programs saw, step by step
        sizes = [len(seen)]  # the file sizes that the device may have recorded
        share = chance.choice((0.0, 0.1, 0.5, 0.9, 1.0))
        resizing = True
        for change in self.pending:
            change.apply(seen)
            if isinstance(change, Write):
                for piece in change.sectors():
                    if chance.uniform(0, 1) < share:
                        piece.apply(content)
            elif resizing := resizing and chance.uniform(0, 1) < share:
                change.apply(content)
                sizes.clear()
            sizes.append(len(seen))
        if chance.getrandbits(2) == 0:  # the size got there, the bytes did not
            content.extend(bytes(max(0, chance.choice(sizes) - len(content))))
        return content


Changes = Sequence[tuple[Directory[Inode], str, Directory[Inode] | Inode | None]]


class CrashTree(Tree[Inode]):
    """Names of which the device has some: those synced, and of the later changes a prefix for each directory."""

    def __init__(self) -> None:
        super().__init__()
        self._durable: dict[Directory[Inode], dict[str, Directory[Inode] | Inode]] = {}
        self._pending: list[Changes] = []

    def apply(self, changes: Changes) -> None:
        super().apply(changes)
        self._pending.append(changes)

    def sync(self, directory: Directory[Inode]) -> None:
        """A rename between two directories is one change, so it brings along what came before it in the other."""
        wanted = {directory}
        kept: list[Changes] = []
        left: list[Changes] = []
        for changes in reversed(self._pending):
            touched = _touched(changes)
            if touched & wanted:
                wanted |= touched
                kept.append(changes)
            else:
                left.append(changes)
        self._make_durable(reversed(kept))
        self._pending = left[::-1]

    def crash(self, keep: Keep) -> None:
        self._make_durable(self._surviving(_decision(keep)))
        self._pending.clear()
        self._restore(self.root, keep)

    def _surviving(self, survives: Callable[[], bool]) -> Iterator[Changes]:
        cut: set[Directory[Inode]] = set()  # directories that have lost a change, so lose all later ones
        for changes in self._pending:
            touched = _touched(changes)
            if touched & cut or not survives():
                cut |= touched
            else:
                yield changes

    def _make_durable(self, pending: Iterator[Changes]) -> None:
        for changes in pending:
            for directory, name, node in changes:
                entries = self._durable.setdefault(directory, {})
                if node is None:
                    del entries[name]
                else:
                    entries[name] = node

    def _restore(self, directory: Directory[Inode], keep: Keep) -> None:
        directory.entries = dict(self._durable.get(directory, {}))
        for _, node in sorted(directory.entries.items(), key=lambda entry: entry[0]):
            if isinstance(node, Directory):
                self._restore(node, keep)
            else:
                node.crash(keep)


def _touched(changes: Changes) -> set[Directory[Inode]]:
    return {directory for directory, _, _ in changes}


def _decision(keep: Keep) -> Callable[[], bool]:
    if isinstance(keep, random.Random):
        share = keep.choice((0.0, 0.5, 0.9, 1.0))
        return lambda: keep.uniform(0, 1) < share
    return lambda: keep == "all"
