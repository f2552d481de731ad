"""What is known of all windows, open or not, in an ordered kv.

    f                -> format version and the width of a window, fixed when it was made
    w number uid     -> the window: its uid, state and first expiry
    r ref            -> uid of the window that holds the ref; one that is gone means no window
    m ref            -> a move that was begun: from which window to which, and the entry
    d name           -> a composite
    u name           -> a cursor
    n                -> the next uid
    s                -> where sweeping goes on

Numbers in keys are 8 bytes, big-endian. A uid is used once, so what still points to a dropped window points nowhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Literal

import msgspec

from lamina.errors import Conflict, Corrupt
from lamina.index.backends.entry import Entry
from lamina.index.backends.seam import Composite, CompositeState
from lamina.kv import Kv

FORMAT_VERSION = 1
_FORMAT, _NEXT_UID, _SWEEP = b"f", b"n", b"s"
_WINDOW, _REF, _MOVE, _COMPOSITE, _CURSOR = b"w", b"r", b"m", b"d", b"u"

WindowState = Literal["kept", "dropping", "archiving"]
Pair = tuple[bytes, bytes]


class Window(msgspec.Struct, frozen=True):
    """A span of time [start, end) in UTC microseconds. `number` counts such spans since 1970."""

    number: int
    uid: int
    width_us: int
    first_expiry: int | None = None
    """No entry in it expires before; None if none does."""
    state: WindowState = "kept"

    @property
    def start(self) -> int:
        return self.number * self.width_us

    @property
    def end(self) -> int:
        return self.start + self.width_us

    @property
    def name(self) -> str:
        return f"{self.number:012d}-{self.uid}"


class Move(msgspec.Struct, frozen=True):
    """An entry on its way from one window to another. `entry` is ref, labels, timestamp, expires_at."""

    source: int
    target: int
    entry: tuple[str, dict[str, str], int, int | None]


class CatalogComposite(msgspec.Struct, frozen=True):
    """A composite of all windows. `built` is the number of the last window that has it."""

    name: str
    keys: tuple[str, ...]
    state: CompositeState = "building"
    built: int = -1

    @property
    def composite(self) -> Composite:
        return Composite(self.name, self.keys, self.state)


class _Format(msgspec.Struct, frozen=True):
    version: int
    width_us: int


class Catalog:
    """Reads and writes the kv. The windows and composites are few and kept in memory; refs are looked up.

    Not safe by itself: the backend lets one thread write at a time, and reads are single gets and replaced values.
    """

    def __init__(self, kv: Kv, width_us: int) -> None:
        self._kv = kv
        stored = kv.get(_FORMAT)
        if stored is None:
            kv.put_batch([(_FORMAT, msgspec.msgpack.encode(_Format(FORMAT_VERSION, width_us)))])
        else:
            _check_format(msgspec.msgpack.decode(stored, type=_Format), width_us)
        windows = (msgspec.msgpack.decode(data, type=Window) for _, data in self._all(_WINDOW))
        self.windows: dict[int, Window] = {window.uid: window for window in windows}
        composites = (msgspec.msgpack.decode(data, type=CatalogComposite) for _, data in self._all(_COMPOSITE))
        self.composites: dict[str, CatalogComposite] = {one.name: one for one in composites}
        self._width_us = width_us
        self._next_uid = int.from_bytes(kv.get(_NEXT_UID) or b"", "big")

    def new_window(self, number: int) -> Window:
        """Not yet stored. The uid is spent all the same."""
        window = Window(number, self._next_uid, self._width_us)
        self._next_uid += 1
        return window

    def kept(self) -> tuple[Window, ...]:
        """The windows that are there, from the oldest on."""
        kept = [window for window in self.windows.values() if window.state == "kept"]
        return tuple(sorted(kept, key=lambda window: window.number))

    def window_of(self, ref: str) -> Window | None:
        """The window that holds the ref, or held it when the process died."""
        uid = self._kv.get(_REF + ref.encode())
        return None if uid is None else self._kept(uid)

    def begin(self, windows: Iterable[Window], refs: Iterable[tuple[str, Window]], moves: Iterable[Move]) -> None:
        """In one step: windows that are new or changed, where refs are, and which entries are about to move."""
        changed = list(windows)
        pairs: list[Pair] = [_window_pair(window) for window in changed]
        pairs.append((_NEXT_UID, self._next_uid.to_bytes(8, "big")))
        pairs += [(_REF + ref.encode(), _uid_bytes(window.uid)) for ref, window in refs]
        pairs += [(_MOVE + move.entry[0].encode(), msgspec.msgpack.encode(move)) for move in moves]
        self._kv.put_batch(pairs)
        self.windows = self.windows | {window.uid: window for window in changed}

    def finish(self, moves: Iterable[Move]) -> None:
        pairs, done = [], []
        for move in moves:
            ref = move.entry[0].encode()
            pairs.append((_REF + ref, _uid_bytes(move.target)))
            done.append(_MOVE + ref)
        self._kv.put_batch(pairs, done)

    def moves(self) -> list[Move]:
        """Those that were begun and not finished."""
        return [msgspec.msgpack.decode(data, type=Move) for _, data in self._all(_MOVE)]

    def save_window(self, window: Window) -> None:
        self.begin([window], (), ())

    def forget_window(self, window: Window) -> None:
        self._kv.put_batch((), [_WINDOW + window.number.to_bytes(8, "big") + _uid_bytes(window.uid)])
        self.windows = {uid: kept for uid, kept in self.windows.items() if uid != window.uid}

    def forget_refs(self, refs: Iterable[str]) -> None:
        self._kv.put_batch((), [_REF + ref.encode() for ref in refs])

    def refs(self, prefix: str) -> Iterator[str]:
        start = _REF + prefix.encode()
        for key, uid in self._kv.range(start, start + b"\xff"):
            if self._kept(uid) is not None:
                yield key[1:].decode()

    def sweep(self, limit: int) -> None:
        """Forget some refs that point to windows which are gone; a little each time, round and round."""
        start = self._kv.get(_SWEEP) or _REF
        rows = list(islice(self._kv.range(start, _REF + b"\xff"), limit))
        stale = [key for key, uid in rows if self._kept(uid) is None]
        following = rows[-1][0] + b"\0" if len(rows) == limit else _REF
        self._kv.put_batch([(_SWEEP, following)], stale)

    def save_composite(self, composite: CatalogComposite) -> None:
        self._kv.put_batch([(_COMPOSITE + composite.name.encode(), msgspec.msgpack.encode(composite))])
        self.composites = dict(sorted((self.composites | {composite.name: composite}).items()))

    def forget_composite(self, name: str) -> None:
        self._kv.put_batch((), [_COMPOSITE + name.encode()])
        self.composites = {key: value for key, value in self.composites.items() if key != name}

    def put_cursor(self, name: str, text: str) -> None:
        self._kv.put_batch([(_CURSOR + name.encode(), text.encode())])

    def get_cursor(self, name: str) -> str | None:
        found = self._kv.get(_CURSOR + name.encode())
        return None if found is None else found.decode()

    def delete_cursor(self, name: str) -> None:
        self._kv.put_batch((), [_CURSOR + name.encode()])

    def close(self) -> None:
        self._kv.close()

    def _kept(self, uid: bytes) -> Window | None:
        window = self.windows.get(int.from_bytes(uid, "big"))
        return window if window is not None and window.state == "kept" else None

    def _all(self, kind: bytes) -> Iterator[Pair]:
        return self._kv.range(kind, kind + b"\xff")


def move_of(entry: Entry, source: Window, target: Window) -> Move:
    return Move(source.uid, target.uid, (entry.ref, dict(entry.labels), entry.timestamp, entry.expires_at))


def entry_of(move: Move) -> Entry:
    return Entry(*move.entry)


def _window_pair(window: Window) -> Pair:
    return _WINDOW + window.number.to_bytes(8, "big") + _uid_bytes(window.uid), msgspec.msgpack.encode(window)


def _uid_bytes(uid: int) -> bytes:
    return uid.to_bytes(8, "big")


def _check_format(stored: _Format, width_us: int) -> None:
    if stored.version != FORMAT_VERSION:
        raise Corrupt(f"the catalog has format {stored.version}, this Lamina reads {FORMAT_VERSION}; upgrade it")
    if stored.width_us != width_us:
        made, asked = stored.width_us / 1e6, width_us / 1e6
        raise Conflict(
            f"these windows were made {made:g} s wide, not {asked:g} s; open them with window_seconds={made:g}"
        )
