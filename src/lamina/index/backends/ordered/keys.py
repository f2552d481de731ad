"""The keys and values of an index in an ordered kv.

    v                                         -> format version
    n                                         -> number of entries, 8 bytes
    e ref                                     -> timestamp, expires_at, labels
    t time ref                                -> expires_at, or nothing
    l key value time ref                      -> expires_at, or nothing
    x expires_at ref                          -> nothing
    c                                         -> number of the next composite
    c number values time ref                  -> as `e`
    d name of a composite                     -> its number, keys, state and how far it is built
    u name of a cursor                        -> its text

Numbers are 8 bytes, big-endian. Texts inside a key carry their length before them, so no two lists of texts share a
key; a text at the end needs none. (time, ref) at the end, the position, is compared as bytes and gives the order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from lamina.index.backends.entry import Entry, Position
from lamina.index.backends.matching import composite_values
from lamina.index.backends.seam import CompositeState

FORMAT_VERSION = 1
VERSION_KEY = b"v"
COUNT_KEY = b"n"
ENTRY, TIME, LABEL, EXPIRY, COMPOSITE, DEFINITION, CURSOR = b"e", b"t", b"l", b"x", b"c", b"d", b"u"
TIME_END = b"\xff"
"""Above every position: a timestamp begins with a byte below 0x80."""

_Payload = tuple[int, int | None, dict[str, str]]
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Payload).decode


class Definition(msgspec.Struct, frozen=True):
    """A composite as it is stored. `built` is the last position that older entries were added up to."""

    name: str
    number: int
    keys: tuple[str, ...]
    state: CompositeState
    built: bytes = b""


def encode_definition(definition: Definition) -> bytes:
    return msgspec.msgpack.encode(definition)


def decode_definition(data: bytes) -> Definition:
    return msgspec.msgpack.decode(data, type=Definition)


def number_bytes(number: int) -> bytes:
    return number.to_bytes(8, "big")


def bound_bytes(number: int) -> bytes:
    """A bound of a range, which may lie outside of what a timestamp can be."""
    return number_bytes(min(max(number, 0), 1 << 62))


def position_bytes(position: Position) -> bytes:
    return number_bytes(position.timestamp) + position.ref.encode()


def position_of(data: bytes) -> Position:
    return Position(int.from_bytes(data[:8], "big"), data[8:].decode())


def entry_key(ref: str) -> bytes:
    return ENTRY + ref.encode()


def label_prefix(key: str, value: str) -> bytes:
    return LABEL + _text(key) + _text(value)


def composite_prefix(number: int, values: Iterable[str] = ()) -> bytes:
    return COMPOSITE + number_bytes(number) + b"".join(map(_text, values))


def encode_entry(entry: Entry) -> bytes:
    return _encode((entry.timestamp, entry.expires_at, entry.labels))


def decode_entry(ref: str, data: bytes) -> Entry:
    timestamp, expires_at, labels = _decode(data)
    return Entry(ref, labels, timestamp, expires_at)


def index_pairs(entry: Entry, payload: bytes, definitions: Sequence[Definition]) -> list[tuple[bytes, bytes]]:
    """Everything that finds the entry, beside its own key."""
    position = position_bytes(entry.position)
    expiry = b"" if entry.expires_at is None else number_bytes(entry.expires_at)
    pairs = [(TIME + position, expiry)]
    pairs += [(label_prefix(key, value) + position, expiry) for key, value in entry.labels.items()]
    if expiry:
        pairs.append((EXPIRY + expiry + position[8:], b""))
    for definition in definitions:
        pairs += composite_pair(entry, payload, definition)
    return pairs


def composite_pair(entry: Entry, payload: bytes, definition: Definition) -> list[tuple[bytes, bytes]]:
    """The entry's place in a composite, if it has every key."""
    values = composite_values(definition.keys, entry)
    if values is None:
        return []
    return [(composite_prefix(definition.number, values) + position_bytes(entry.position), payload)]


def _text(text: str) -> bytes:
    data = text.encode()
    return len(data).to_bytes(2, "big") + data
