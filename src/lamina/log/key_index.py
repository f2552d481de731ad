"""The key index: which message is the last of a (topic, key). `<20-digit base>.keys`, docs/formats/keys.md.

Entries are (key hash, topic hash, relative offset) as three columns, sorted; one for each distinct (topic, key) of a
frame. Hashes only narrow: the caller reads the message and compares. A Bloom filter over the key hashes answers most
"not here" questions from one or two cache lines.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from zlib import crc32

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from crc32c import crc32c

from lamina.errors import Corrupt
from lamina.log.format import aligned, padding

SUFFIX = ".keys"
ENTRY_BYTES = 16

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


@dataclass(frozen=True, slots=True)
class Entries:
    """Columns of equal length, sorted by key hash."""

    keys: npt.NDArray[np.uint64]
    topics: npt.NDArray[np.uint32]
    offsets: npt.NDArray[np.uint32]

    def __len__(self) -> int:
        return len(self.keys)


NO_ENTRIES = Entries(np.empty(0, np.uint64), np.empty(0, np.uint32), np.empty(0, np.uint32))


def entries_of(keys: pa.Array, topics: pa.Array, offsets: npt.NDArray[np.int64]) -> Entries:
    """Entries of messages in offset order: of each (topic, key) the last. Null keys have none.

    `topics` is dictionary-coded. Only distinct keys and topics are hashed, by native code.
    """
    coded = keys.dictionary_encode()
    has_key = coded.indices.is_valid().to_numpy(zero_copy_only=False)
    if not has_key.any():
        return NO_ENTRIES
    names = topics.dictionary.to_pylist()
    key_codes = coded.indices.fill_null(0).to_numpy().astype(np.int64)[has_key]
    topic_codes = topics.indices.to_numpy().astype(np.int64)[has_key]
    pairs = key_codes * len(names) + topic_codes
    # The first of the reversed ones is the last: np.unique keeps first occurrences.
    _, first = np.unique(pairs[::-1], return_index=True)
    last = len(pairs) - 1 - first
    hashes = _key_hashes(coded.dictionary.to_pylist())
    topic_hashes = np.fromiter(map(topic_hash, names), np.uint32, len(names))
    relative = offsets[has_key][last].astype(np.uint32)
    return _sorted(hashes[key_codes[last]], topic_hashes[topic_codes[last]], relative)


def merge(runs: Sequence[Entries]) -> Entries:
    """One sorted run. Superseded entries may stay: a look-up takes the largest matching offset."""
    if not runs:
        return NO_ENTRIES
    return _sorted(
        np.concatenate([run.keys for run in runs]),
        np.concatenate([run.topics for run in runs]),
        np.concatenate([run.offsets for run in runs]),
    )


def find(entries: Entries, key: bytes, topic: str | None) -> Iterator[int]:
    """Relative offsets that may be messages of this key (and topic), newest first."""
    wanted = np.uint64(key_hash(key))
    first = int(np.searchsorted(entries.keys, wanted, side="left"))
    end = int(np.searchsorted(entries.keys, wanted, side="right"))
    found = entries.offsets[first:end]
    if topic is not None:
        found = found[entries.topics[first:end] == topic_hash(topic)]
    return iter(np.sort(found)[::-1].tolist())


class KeyFile:
    """A `.keys` file's contents over its mapped bytes. Immutable."""

    def __init__(self, data: memoryview, where: str) -> None:
        if len(data) < HEADER_BYTES:
            raise Corrupt(f"{where}: {len(data)} bytes are no key index")
        magic, version, probes, body_crc, count, bloom_bytes, topics_bytes, _, crc = _HEADER.unpack_from(data)
        if magic != _MAGIC or crc != crc32c(data[: HEADER_BYTES - 4]):
            raise Corrupt(f"{where}: the key index's header is damaged")
        if version != _VERSION:
            raise Corrupt(f"{where}: key index format {version}, this Lamina reads format {_VERSION}; upgrade Lamina")
        entry_bytes = count * ENTRY_BYTES
        bloom_at = HEADER_BYTES + aligned(entry_bytes)
        topics_at = bloom_at + aligned(bloom_bytes)
        if len(data) != topics_at + topics_bytes or crc32c(data[HEADER_BYTES:]) != body_crc:
            raise Corrupt(f"{where}: the key index's checksum does not match")
        columns = np.split(
            np.frombuffer(data[HEADER_BYTES : HEADER_BYTES + entry_bytes], "<u4"), [2 * count, 3 * count]
        )
        self.entries = Entries(columns[0].view("<u8"), columns[1], columns[2])
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
    bloom = build_bloom(entries.keys)
    names = "\0".join(sorted(set(topics))).encode()
    entry_bytes = b"".join(
        [
            entries.keys.astype("<u8").tobytes(),
            entries.topics.astype("<u4").tobytes(),
            entries.offsets.astype("<u4").tobytes(),
        ]
    )
    body = b"".join([entry_bytes, padding(len(entry_bytes)), bloom, padding(len(bloom)), names])
    head = _HEADER.pack(_MAGIC, _VERSION, PROBES, crc32c(body), len(entries), len(bloom), len(names), 0, 0)[:-4]
    return head + struct.pack(">I", crc32c(head)) + body


def build_bloom(hashes: npt.NDArray[np.uint64]) -> bytes:
    """A Bloom filter of about BITS_PER_KEY bits for each distinct hash of the sorted ones given."""
    if not len(hashes):
        return b""
    distinct = hashes[np.concatenate(([True], hashes[1:] != hashes[:-1]))]
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


def _key_hashes(keys: Sequence[bytes]) -> npt.NDArray[np.uint64]:
    """`key_hash` of each, without a Python step per key."""
    high = np.fromiter(map(crc32c, keys), np.uint64, len(keys))
    low = np.fromiter(map(crc32, keys), np.uint64, len(keys))
    return high << np.uint64(32) | low


def _sorted(keys: npt.NDArray[np.uint64], topics: npt.NDArray[np.uint32], offsets: npt.NDArray[np.uint32]) -> Entries:
    # Stable, so that a file that is rebuilt is the same to the byte; and quick on runs that are sorted already.
    order = np.argsort(keys, kind="stable")
    return Entries(keys[order], topics[order], offsets[order])
