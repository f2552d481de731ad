"""An index over an ordered kv: in memory, or on disk with RocksDB."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

import msgspec

from lamina.errors import Closed, Corrupt, NotFound
from lamina.index.backends.entry import Entry, Position
from lamina.index.backends.matching import check_composite
from lamina.index.backends.ordered import keys, reading
from lamina.index.backends.seam import Answer, BackendStats, Composite, Query, last_of_each
from lamina.kv import Kv, KvView, MemoryKv


@dataclass(slots=True)
class _Changes:
    """What one batch writes."""

    puts: list[tuple[bytes, bytes]] = field(default_factory=list)
    deletes: list[bytes] = field(default_factory=list)
    added: int = 0


class KvBackend:
    """Entries in a kv, which it owns and closes. Without one, they are in memory."""

    def __init__(self, kv: Kv | None = None) -> None:
        self._kv: Kv = MemoryKv() if kv is None else kv
        self._mutex = threading.Lock()  # one writer at a time: a write reads what it replaces
        self._is_closed = False
        self._definitions: list[keys.Definition] = []  # guarded by mutex; readers look into their view
        try:
            self._load()
        except BaseException:
            self._kv.close()
            raise

    def put_batch(self, entries: Sequence[Entry]) -> None:
        changes = _Changes()
        with self._mutex:
            for entry in last_of_each(entries).values():
                self._remove(entry.ref, changes)
                payload = keys.encode_entry(entry)
                changes.puts.append((keys.entry_key(entry.ref), payload))
                changes.puts += keys.index_pairs(entry, payload, self._definitions)
                changes.added += 1
            self._apply(changes)

    def get(self, ref: str) -> Entry | None:
        found = self._kv.get(keys.entry_key(ref))
        return None if found is None else keys.decode_entry(ref, found)

    def delete(self, refs: Sequence[str]) -> int:
        with self._mutex:
            return self._delete(refs)

    def query(self, query: Query) -> Answer:
        answer = Answer(iter(()))
        answer.entries = self._read(query, answer.steps)
        return answer

    def count(self, query: Query) -> int:
        with self._kv.view() as view:
            return reading.count(view, query, reading.group_ways(view, query, _definitions(view)))

    def delete_expired(self, now_us: int, limit: int) -> list[str]:
        end = keys.EXPIRY + keys.bound_bytes(now_us + 1)
        with self._mutex:
            due = [key[9:].decode() for key, _ in islice(self._kv.range(keys.EXPIRY, end), limit)]
            self._delete(due)
        return due

    def refs(self, prefix: str, limit: int) -> list[str]:
        start = keys.entry_key(prefix)
        found = self._kv.range(start, start + b"\xff")  # no UTF-8 text holds this byte
        return [key[1:].decode() for key, _ in islice(found, limit)]

    def composites(self) -> tuple[Composite, ...]:
        self._check_open()
        with self._mutex:
            return tuple(Composite(one.name, one.keys, one.state) for one in self._definitions)

    def define_composite(self, name: str, label_keys: Sequence[str]) -> None:
        others = self.composites()
        with self._mutex:
            checked = check_composite(name, label_keys, others)
            number = int.from_bytes(self._kv.get(keys.COMPOSITE) or b"", "big")
            self._save(
                keys.Definition(name, number, checked.keys, "building"), (keys.COMPOSITE, keys.number_bytes(number + 1))
            )

    def build_composite(self, name: str, limit: int) -> bool:
        with self._mutex:
            definition = self._definition(name)
            if definition.state == "ready":
                return True
            puts: list[tuple[bytes, bytes]] = []
            position = definition.built
            start = keys.TIME + (position + b"\0" if position else b"")
            with self._kv.view() as view:
                for key, _ in islice(view.range(start, keys.TIME + keys.TIME_END), limit):
                    position = key[1:]
                    payload = view.get(keys.ENTRY + position[8:])
                    assert payload is not None, "a view holds the entry of every position in it"
                    entry = keys.decode_entry(position[8:].decode(), payload)
                    puts += keys.composite_pair(entry, payload, definition)
            is_done = position == definition.built
            state = "ready" if is_done else "building"
            self._save(msgspec.structs.replace(definition, state=state, built=position), *puts)
        return is_done

    def drop_composite(self, name: str) -> None:
        with self._mutex:
            definition = self._definition(name)
            # First nobody may use it, then it goes; if we die in between, the next opening sweeps.
            self._kv.put_batch((), [keys.DEFINITION + name.encode()])
            self._definitions = [one for one in self._definitions if one.name != name]
            self._sweep_composite(definition.number)

    def put_cursor(self, name: str, text: str) -> None:
        self._kv.put_batch([(keys.CURSOR + name.encode(), text.encode())])

    def get_cursor(self, name: str) -> str | None:
        found = self._kv.get(keys.CURSOR + name.encode())
        return None if found is None else found.decode()

    def delete_cursor(self, name: str) -> None:
        self._kv.put_batch((), [keys.CURSOR + name.encode()])

    def stats(self) -> BackendStats:
        with self._kv.view() as view:
            span = keys.TIME, keys.TIME + keys.TIME_END
            oldest, newest = _first(view, *span), _first(view, *span, reverse=True)
            expiry = _first(view, keys.EXPIRY, keys.EXPIRY + keys.TIME_END)
            return BackendStats(
                entries=_entry_count(view),
                oldest=None if oldest is None else oldest.timestamp,
                newest=None if newest is None else newest.timestamp,
                next_expiry=None if expiry is None else expiry.timestamp,
                composites=self.composites(),
            )

    def close(self) -> None:
        with self._mutex:
            self._is_closed = True
            self._kv.close()

    def _load(self) -> None:
        version = self._kv.get(keys.VERSION_KEY)
        if version is None:
            self._kv.put_batch([(keys.VERSION_KEY, bytes([keys.FORMAT_VERSION]))])
        elif version != bytes([keys.FORMAT_VERSION]):
            raise Corrupt(f"the index has format {version.hex()}, this Lamina reads {keys.FORMAT_VERSION}; upgrade it")
        with self._kv.view() as view:
            self._definitions = _definitions(view)
        self._sweep_composites()

    def _read(self, query: Query, steps: list[str]) -> Iterator[Entry]:
        with self._kv.view() as view:
            ways = reading.group_ways(view, query, _definitions(view))
            steps += [way.step for way in ways]
            yield from reading.entries(view, query, ways)

    def _remove(self, ref: str, changes: _Changes) -> None:
        payload = self._kv.get(keys.entry_key(ref))
        if payload is None:
            return
        old = keys.decode_entry(ref, payload)
        changes.deletes.append(keys.entry_key(ref))
        changes.deletes += [key for key, _ in keys.index_pairs(old, payload, self._definitions)]
        changes.added -= 1

    def _delete(self, refs: Sequence[str]) -> int:
        changes = _Changes()
        for ref in dict.fromkeys(refs):
            self._remove(ref, changes)
        self._apply(changes)
        return -changes.added

    def _apply(self, changes: _Changes) -> None:
        if changes.added:
            total = int.from_bytes(self._kv.get(keys.COUNT_KEY) or b"", "big") + changes.added
            changes.puts.append((keys.COUNT_KEY, keys.number_bytes(total)))
        self._kv.put_batch(changes.puts, changes.deletes)

    def _save(self, definition: keys.Definition, *pairs: tuple[bytes, bytes]) -> None:
        stored = (keys.DEFINITION + definition.name.encode(), keys.encode_definition(definition))
        self._kv.put_batch([stored, *pairs])
        others = [one for one in self._definitions if one.name != definition.name]
        self._definitions = sorted([*others, definition], key=lambda one: one.name)

    def _definition(self, name: str) -> keys.Definition:
        for definition in self._definitions:
            if definition.name == name:
                return definition
        raise NotFound(f"there is no composite {name!r}")

    def _sweep_composites(self) -> None:
        known = {definition.number for definition in self._definitions}
        for number in range(int.from_bytes(self._kv.get(keys.COMPOSITE) or b"", "big")):
            if number not in known:
                self._sweep_composite(number)

    def _sweep_composite(self, number: int) -> None:
        span = keys.composite_prefix(number), keys.composite_prefix(number + 1)
        if next(iter(self._kv.range(*span)), None) is not None:
            self._kv.delete_range(*span)

    def _check_open(self) -> None:
        if self._is_closed:
            raise Closed("the index is closed")


def _definitions(view: KvView) -> list[keys.Definition]:
    return [keys.decode_definition(data) for _, data in view.range(keys.DEFINITION, keys.DEFINITION + b"\xff")]


def _entry_count(view: KvView) -> int:
    return int.from_bytes(view.get(keys.COUNT_KEY) or b"", "big")


def _first(view: KvView, start: bytes, end: bytes, *, reverse: bool = False) -> Position | None:
    for key, _ in view.range(start, end, reverse=reverse):
        return keys.position_of(key[1:])
    return None
