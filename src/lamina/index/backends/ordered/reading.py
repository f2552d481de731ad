"""Queries as ranges of keys, merged in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from heapq import merge
from itertools import islice
from operator import itemgetter
from typing import Protocol, TypeVar

from lamina.cel import Group
from lamina.index.backends.entry import Entry
from lamina.index.backends.matching import (
    PROBE_POSITIONS,
    Probe,
    best_composite,
    best_label,
    combinations,
    describe,
    matches_labels,
)
from lamina.index.backends.ordered import keys
from lamina.index.backends.seam import Composite, Query
from lamina.kv import KvView

T = TypeVar("T")
Found = tuple[bytes, bytes]
"""The position of an entry, and the value that stands there."""


class _Scan(Protocol):
    def __call__(self, prefix: bytes) -> Iterator[Found]: ...


@dataclass(frozen=True, slots=True)
class Way:
    """How the entries of one group are found: `found` in order, `holds_entry` if the values are whole entries."""

    step: str
    found: Callable[[], Iterator[Found]]
    holds_entry: bool
    is_exact: bool
    """Whether everything found matches, so that no entry must be looked at."""


def group_ways(view: KvView, query: Query, definitions: Sequence[keys.Definition]) -> list[Way]:
    return [_way(view, query, group, definitions) for group in query.groups]


def entries(view: KvView, query: Query, ways: Sequence[Way]) -> Iterator[Entry]:
    """The entries of all groups in order, each once."""
    streams = [_entries_of(view, query, group, way) for group, way in zip(query.groups, ways, strict=True)]
    for _, entry in _once(streams, descending=query.descending):
        yield entry


def count(view: KvView, query: Query, ways: Sequence[Way]) -> int:
    if all(way.is_exact for way in ways):
        return sum(1 for _ in _once([_shown(query, way) for way in ways], descending=query.descending))
    return sum(1 for _ in entries(view, query, ways))


def _once(streams: Sequence[Iterator[tuple[bytes, T]]], *, descending: bool) -> Iterator[tuple[bytes, T]]:
    """All streams in order; what several groups found, once."""
    if len(streams) == 1:
        yield from streams[0]
        return
    last = None
    for found in merge(*streams, key=itemgetter(0), reverse=descending):
        if found[0] != last:
            last = found[0]
            yield found


def _way(view: KvView, query: Query, group: Group, definitions: Sequence[keys.Definition]) -> Way:
    scan = _scanner(view, query, group)
    composite = best_composite(group, [Composite(one.name, one.keys, one.state) for one in definitions])
    if composite is not None:
        number = next(one.number for one in definitions if one.name == composite.name)
        prefixes = [keys.composite_prefix(number, values) for values in combinations(group, composite.keys)]
        step, used = f"composite {composite.name!r}", frozenset(composite.keys)
    elif group.labels:
        key = _driving_label(scan, query, group)
        prefixes = [keys.label_prefix(key, value) for value in sorted(group.labels[key])]
        step, used = f"label {key!r}", frozenset([key])
    else:
        prefixes, step, used = [keys.TIME], "time", frozenset()
    rest = (group.labels.keys() | group.present | group.absent) - used
    return Way(
        describe(group, step),
        lambda: _merged([scan(prefix) for prefix in prefixes], descending=query.descending),
        holds_entry=composite is not None,
        is_exact=not rest,
    )


def _driving_label(scan: _Scan, query: Query, group: Group) -> str:
    if len(group.labels) == 1:
        return next(iter(group.labels))
    probes = []
    for key, values in sorted(group.labels.items()):
        found = _merged([scan(keys.label_prefix(key, value)) for value in values], descending=query.descending)
        seen = [position for position, _ in islice(found, PROBE_POSITIONS)]
        last = keys.position_of(seen[-1]) if len(seen) == PROBE_POSITIONS else None
        probes.append(Probe(key, len(seen), last))
    return best_label(probes, descending=query.descending)


def _scanner(view: KvView, query: Query, group: Group) -> _Scan:
    low = b"" if group.start is None else keys.bound_bytes(group.start)
    high = keys.TIME_END if group.end is None else keys.bound_bytes(group.end)
    if query.after is not None:
        after = keys.position_bytes(query.after)
        if query.descending:
            high = min(high, after)
        else:
            low = max(low, after + b"\0")  # the next possible key

    def scan(prefix: bytes) -> Iterator[Found]:
        length = len(prefix)
        for key, value in view.range(prefix + low, prefix + high, reverse=query.descending):
            yield key[length:], value

    return scan


def _entries_of(view: KvView, query: Query, group: Group, way: Way) -> Iterator[tuple[bytes, Entry]]:
    for position, value in way.found():
        if not way.holds_entry:
            if not _is_shown(query, way, (position, value)):
                continue
            stored = view.get(keys.ENTRY + position[8:])
            assert stored is not None, "a view holds the entry of every position in it"
            value = stored
        entry = keys.decode_entry(position[8:].decode(), value)
        if way.holds_entry and query.now_us is not None and entry.is_expired(query.now_us):
            continue
        if way.is_exact or matches_labels(group, entry):
            yield position, entry


def _shown(query: Query, way: Way) -> Iterator[Found]:
    return (found for found in way.found() if _is_shown(query, way, found))


def _is_shown(query: Query, way: Way, found: Found) -> bool:
    position, value = found
    if query.now_us is None:
        return True
    if way.holds_entry:
        return not keys.decode_entry(position[8:].decode(), value).is_expired(query.now_us)
    return not value or int.from_bytes(value, "big") > query.now_us


def _merged(streams: list[Iterator[Found]], *, descending: bool) -> Iterator[Found]:
    return streams[0] if len(streams) == 1 else merge(*streams, key=itemgetter(0), reverse=descending)
