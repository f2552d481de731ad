"""The keys of an index in Redis. Each starts with the index's prefix.

    entries            hash: ref -> msgpack [timestamp, labels, expires_at?]
    refs               sorted set: ref by 0, for prefixes
    time               sorted set: ref by timestamp
    expires            sorted set: ref by expires_at
    label:…            sorted set: ref by timestamp, one per label and value
    composite:…        sorted set: ref by timestamp, one per composite and values
    sets               set: the names of all `label:` and `composite:` keys, so that an index is dropped without a scan
    composites         hash: name -> msgpack {number, keys, state, timestamp, ref}
    number             the number of the next composite
    cursors            hash: name -> text
    temporary:…        sorted sets of one running query

A text inside a name carries its length before it, so no two lists of texts share a key. Scores are doubles, exact for
integers below 2^53: for microseconds, until the year 2255. Members of equal score stand in the order of their bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from lamina.errors import InvalidRequest
from lamina.index.backends.entry import Entry, Position
from lamina.index.backends.seam import Composite, CompositeState

SCORE_MAX = 2**53 - 1
TEMPORARY = "temporary:"

_decode = msgspec.msgpack.Decoder(list[Any]).decode
_encode = msgspec.msgpack.Encoder().encode


class Definition(msgspec.Struct, frozen=True):
    """A composite as it is stored. `timestamp` and `ref` are the last entry that building has reached."""

    number: int
    keys: tuple[str, ...]
    state: CompositeState
    timestamp: int = -1
    ref: str = ""


def label_name(key: str, value: str) -> str:
    return f"label:{_text(key)}{_text(value)}"


def composite_name(number: int, values: Sequence[str]) -> str:
    return f"composite:{number}:{''.join(map(_text, values))}"


def encode_entry(entry: Entry) -> bytes:
    for name, time in (("timestamp", entry.timestamp), ("expires_at", entry.expires_at or 0)):
        if time > SCORE_MAX:
            raise InvalidRequest(f"{name} {time} is after the year 2255, beyond which Redis cannot order microseconds")
    fields: list[object] = [entry.timestamp, entry.labels]
    if entry.expires_at is not None:
        fields.append(entry.expires_at)
    return _encode(fields)


def decode_entry(ref: str, data: bytes) -> Entry:
    return _entry(ref, _decode(data))


def decode_page(data: bytes) -> tuple[list[Entry | None], Position | None]:
    """The entries of a page, None for those deleted since their set was made, and the position it ends with."""
    if not data:
        return [], None
    *fields, score = _decode(data)
    refs, found = fields[::2], fields[1::2]
    entries = [None if one is None else _entry(ref, one) for ref, one in zip(refs, found, strict=True)]
    return entries, Position(score, refs[-1])


def decode_definitions(stored: dict[bytes, bytes]) -> dict[str, Definition]:
    """By name, in order."""
    return {name.decode(): msgspec.msgpack.decode(data, type=Definition) for name, data in sorted(stored.items())}


def encode_definition(definition: Definition) -> bytes:
    return msgspec.msgpack.encode(definition)


def composite_of(name: str, definition: Definition) -> Composite:
    return Composite(name, definition.keys, definition.state)


def _entry(ref: str, fields: list[Any]) -> Entry:
    return Entry(ref, fields[1], fields[0], fields[2] if len(fields) > 2 else None)


def _text(text: str) -> str:
    return f"{len(text.encode())}:{text}:"
