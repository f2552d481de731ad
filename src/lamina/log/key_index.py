"""The key index: which message is the last of a (topic, key). `<20-digit base>.keys`, docs/formats/keys.md.

Entries are (key hash, topic hash, relative offset), sorted; one for each distinct (topic, key) of the segment.
Hashes only narrow: the caller reads the message and compares. A Bloom filter over the key hashes answers most
"not here" questions from one or two cache lines.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from zlib import crc32

import numpy as np
import numpy.typing as npt
from crc32c import crc32c

from lamina.errors import Corrupt
from lamina.log.format import aligned, padding

SUFFIX = ".keys"
ENTRY = np.dtype([("key", "<u8"), ("topic", "<u4"), ("offset", "<u4")])
Entries = npt.NDArray[np.void]

_MAGIC = b"LAMINAKY"
_VERSION = 1
_HEADER = struct.Struct(">8sHHIQQQI16xI")
HEADER_BYTES = 64
BITS_PER_KEY = 10
PROBES = 7


def key_hash(key: bytes) -> int:
    """64 bits from two unrelated CRC polynomials: stable for ever and computed in native code."""
    return crc32c(key) << 32 | crc32(key)


def topic_hash(topic: str) -> int:
    return crc32c(topic.encode())


def entries_of(keys: Sequence[bytes | None], topics: Sequence[str], offsets: Iterable[int]) -> Entries:
    """Sorted entries of messages in offset order, the last of each (topic, key) only."""
    last: dict[tuple[str, bytes], int] = {}
    for key, topic, offset in zip(keys, topics, offsets, strict=True):
        if key is not None:
            last[topic, key] = offset
    entries = np.empty(len(last), ENTRY)
    entries["key"] = np.fromiter((key_hash(key) for _, key in last), np.uint64, len(last))
    hashes = {topic: topic_hash(topic) for topic in {topic for topic, _ in last}}
    entries["topic"] = np.fromiter((hashes[topic] for topic, _ in last), np.uint32, len(last))
    entries["offset"] = np.fromiter(last.values(), np.uint32, len(last))
    return _sorted(entries)


def merge(runs: Sequence[Entries]) -> Entries:
    """One sorted run. Superseded entries may stay: a look-up takes the largest matching offset."""
    return _sorted(np.concatenate(runs)) if runs else np.empty(0, ENTRY)


def find(entries: Entries, key: bytes, topic: str | None) -> Iterator[int]:
    """Relative offsets that may be messages of this key (and topic), newest first."""
    wanted = np.uint64(key_hash(key))
    first = int(np.searchsorted(entries["key"], wanted, side="left"))
    end = int(np.searchsorted(entries["key"], wanted, side="right"))
    found = entries[first:end]
    if topic is not None:
        found = found[found["topic"] == topic_hash(topic)]
    return iter(np.sort(found["offset"])[::-1].tolist())


class KeyFile:
    """A `.keys` file's contents over its mapped bytes. Immutable."""

    def __init__(self, data: memoryview, where: str) -> None:
        if len(data) < HEADER_BYTES:
            raise Corrupt(f"{where}: {len(data)} bytes are no key index")
        magic, version, probes, body_crc, count, bloom_bytes, topics_bytes, _, crc = _HEADER.unpack_from(data)
        if magic != _MAGIC or version != _VERSION or crc != crc32c(data[: HEADER_BYTES - 4]):
            raise Corrupt(f"{where}: the key index's header is damaged")
        entry_bytes = count * ENTRY.itemsize
        bloom_at = HEADER_BYTES + aligned(entry_bytes)
        topics_at = bloom_at + aligned(bloom_bytes)
        if len(data) != topics_at + topics_bytes or crc32c(data[HEADER_BYTES:]) != body_crc:
            raise Corrupt(f"{where}: the key index's checksum does not match")
        self.entries: Entries = np.frombuffer(data[HEADER_BYTES : HEADER_BYTES + entry_bytes], ENTRY)
        self._bloom = data[bloom_at : bloom_at + bloom_bytes]
        self._probes = probes
        self._topics = data[topics_at:]

    def may_contain(self, key: bytes) -> bool:
        """False is certain; True is wrong for about one absent key in a hundred."""
        bits = len(self._bloom) * 8
        if not bits:
            return False
        return all(self._bloom[bit >> 3] & (1 << (bit & 7)) for bit in _probe_bits(key_hash(key), bits, self._probes))

    def find(self, key: bytes, topic: str | None) -> Iterator[int]:
        return find(self.entries, key, topic) if self.may_contain(key) else iter(())

    def topics(self) -> list[str]:
        """The distinct topics of the segment, sorted."""
        return bytes(self._topics).decode().split("\0") if len(self._topics) else []


def encode_keys(entries: Entries, topics: Iterable[str]) -> bytes:
    """The file's bytes. Topics hold no NUL, so NUL parts them."""
    bloom = build_bloom(entries["key"])
    names = "\0".join(sorted(set(topics))).encode()
    entry_bytes = entries.tobytes()
    body = b"".join([entry_bytes, padding(len(entry_bytes)), bloom, padding(len(bloom)), names])
    head = _HEADER.pack(_MAGIC, _VERSION, PROBES, crc32c(body), len(entries), len(bloom), len(names), 0, 0)[:-4]
    return head + struct.pack(">I", crc32c(head)) + body


def build_bloom(hashes: npt.NDArray[np.uint64]) -> bytes:
    """A Bloom filter of about BITS_PER_KEY bits for each distinct hash."""
    distinct = np.unique(hashes)
    if not len(distinct):
        return b""
    bits = aligned(max(64, len(distinct) * BITS_PER_KEY // 8)) * 8
    low = distinct & np.uint64(0xFFFFFFFF)
    high = (distinct >> np.uint64(32)) | np.uint64(1)
    filled = np.zeros(bits, np.bool_)
    for probe in range(PROBES):
        filled[(low + np.uint64(probe) * high) % np.uint64(bits)] = True
    return np.packbits(filled, bitorder="little").tobytes()


def _probe_bits(hashed: int, bits: int, probes: int) -> Iterator[int]:
    low, high = hashed & 0xFFFFFFFF, hashed >> 32 | 1
    return ((low + probe * high) % bits for probe in range(probes))


def _sorted(entries: Entries) -> Entries:
    return entries[np.lexsort((entries["offset"], entries["topic"], entries["key"]))]
