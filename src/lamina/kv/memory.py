"""An ordered map in memory, for indexes that need not last and for tests."""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import NamedTuple, Self

from lamina.errors import Closed, Conflict

_BLOCK_KEYS = 512
"""A write copies the blocks it touches: smaller ones copy less, larger ones make the list of blocks shorter."""


class _Block(NamedTuple):
    keys: list[bytes]
    values: list[bytes]


class _State(NamedTuple):
    """The whole contents. Never changed, only replaced: a view is a reference to it."""

    firsts: list[bytes]
    blocks: list[_Block]


class _Table:
    """What handles share, so that it can be closed and opened again as a directory can."""

    def __init__(self) -> None:
        self.mutex = threading.Lock()  # one writer at a time
        self.state = _State([], [])
        self.is_open = False  # guarded by mutex


class MemoryKv:
    """Sorted blocks, copied when they are written, so that readers need no lock."""

    def __init__(self) -> None:
        self._table = _Table()
        self._closed = False
        self._acquire()

    def reopen(self) -> MemoryKv:
        """A new handle on the same contents once this one is closed, as a directory can be opened again."""
        other = MemoryKv.__new__(MemoryKv)
        other._table = self._table
        other._closed = False
        other._acquire()
        return other

    def put_batch(self, puts: Iterable[tuple[bytes, bytes]], deletes: Iterable[bytes] = ()) -> None:
        changes: dict[bytes, bytes | None] = dict.fromkeys(deletes)
        changes.update(puts)
        with self._table.mutex:
            self._table.state = _changed(self._state(), changes)

    def delete_range(self, start: bytes, end: bytes) -> None:
        with self._table.mutex:
            state = self._state()
            doomed = [key for key, _ in _walk(state, start, end)]
            self._table.state = _changed(state, dict.fromkeys(doomed))

    def get(self, key: bytes) -> bytes | None:
        return _find(self._state(), key)

    def range(self, start: bytes, end: bytes, *, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        return self.view().range(start, end, reverse=reverse)

    def view(self) -> MemoryView:
        return MemoryView(self, self._state())

    def close(self) -> None:
        with self._table.mutex:
            if not self._closed:
                self._closed = True
                self._table.is_open = False

    @property
    def is_closed(self) -> bool:
        return self._closed

    def _acquire(self) -> None:
        with self._table.mutex:
            if self._table.is_open:
                raise Conflict("this memory kv is open already; close the other handle first")
            self._table.is_open = True

    def _state(self) -> _State:
        if self._closed:
            raise Closed("the memory kv is closed")
        return self._table.state


class MemoryView:
    """A reference to one state."""

    def __init__(self, kv: MemoryKv, state: _State) -> None:
        self._kv = kv
        self._state: _State | None = state

    def get(self, key: bytes) -> bytes | None:
        return _find(self._current(), key)

    def range(self, start: bytes, end: bytes, *, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        walk = _walk_back if reverse else _walk
        for pair in walk(self._current(), start, end):
            yield pair
            self._current()

    def close(self) -> None:
        self._state = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _current(self) -> _State:
        if self._state is None or self._kv.is_closed:
            raise Closed("the view of the memory kv is closed")
        return self._state


def _find(state: _State, key: bytes) -> bytes | None:
    number = bisect_right(state.firsts, key) - 1
    if number < 0:
        return None
    keys, values = state.blocks[number]
    at = bisect_left(keys, key)
    return values[at] if at < len(keys) and keys[at] == key else None


def _walk(state: _State, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
    number = max(0, bisect_right(state.firsts, start) - 1)
    while number < len(state.blocks) and state.firsts[number] < end:
        keys, values = state.blocks[number]
        low, high = bisect_left(keys, start), bisect_left(keys, end)
        yield from zip(keys[low:high], values[low:high], strict=True)
        number += 1


def _walk_back(state: _State, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
    number = bisect_left(state.firsts, end) - 1
    while number >= 0:
        keys, values = state.blocks[number]
        low, high = bisect_left(keys, start), bisect_left(keys, end)
        yield from zip(reversed(keys[low:high]), reversed(values[low:high]), strict=True)
        if low > 0:
            return
        number -= 1


def _changed(state: _State, changes: dict[bytes, bytes | None]) -> _State:
    """A new state; blocks without a change are shared with the old one."""
    firsts, blocks = state.firsts.copy(), state.blocks.copy()
    ordered = sorted(changes)
    end = len(ordered)
    # From the last block to the first, so that replacing one does not move those still to be done.
    for number in range(len(blocks) - 1, -1, -1):
        begin = 0 if number == 0 else bisect_left(ordered, firsts[number], 0, end)
        if begin < end:
            parts = _split(_merged(blocks[number], ordered[begin:end], changes))
            firsts[number : number + 1] = [part.keys[0] for part in parts]
            blocks[number : number + 1] = parts
            end = begin
        if end == 0:
            break
    if end:
        blocks = _split(_merged(_Block([], []), ordered[:end], changes))
        firsts = [part.keys[0] for part in blocks]
    return _State(firsts, blocks)


def _merged(block: _Block, ordered: list[bytes], changes: dict[bytes, bytes | None]) -> _Block:
    if len(ordered) * 8 > len(block.keys):
        content: dict[bytes, bytes | None] = dict(zip(block.keys, block.values, strict=True))
        content.update((key, changes[key]) for key in ordered)
        pairs = sorted((key, value) for key, value in content.items() if value is not None)
        return _Block([key for key, _ in pairs], [value for _, value in pairs])
    keys, values = block.keys.copy(), block.values.copy()
    for key in ordered:
        at, value = bisect_left(keys, key), changes[key]
        is_there = at < len(keys) and keys[at] == key
        if value is None:
            if is_there:
                del keys[at], values[at]
        elif is_there:
            values[at] = value
        else:
            keys.insert(at, key)
            values.insert(at, value)
    return _Block(keys, values)


def _split(block: _Block) -> list[_Block]:
    keys, values = block
    if len(keys) <= 2 * _BLOCK_KEYS:
        return [block] if keys else []
    starts = range(0, len(keys), _BLOCK_KEYS)
    return [_Block(keys[at : at + _BLOCK_KEYS], values[at : at + _BLOCK_KEYS]) for at in starts]
