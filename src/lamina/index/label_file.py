"""The `.labels` file beside a segment: a header and one record per Postings (docs/formats/labels.md).

A record's payload is an Arrow IPC stream of one batch, a term a row, that any Arrow library can read.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass

import msgspec
import numpy as np
import pyarrow as pa
from crc32c import crc32c

from lamina.errors import Corrupt
from lamina.index.postings import Extent, Postings

HEADER_BYTES = 64
RECORD_HEADER_BYTES = 64

_MAGIC = b"LAMINALB"
_VERSION = 1
_HEADER = struct.Struct(">8sH2x16s32xI")
_RECORD = struct.Struct(">4sIQQQIIQ12xI")
_RECORD_MAGIC = b"POST"
_SCHEMA = pa.schema(
    [
        pa.field("field", pa.dictionary(pa.int32(), pa.utf8())),
        pa.field("value", pa.utf8()),
        pa.field("rows", pa.large_list(pa.field("row", pa.uint32(), nullable=False))),
    ]
)


class _Facts(msgspec.Struct, frozen=True):
    extent: Extent
    composites: list[str]


def encode_header(uid: bytes) -> bytes:
    """The file speaks of the segment with this uid and of no other."""
    head = _HEADER.pack(_MAGIC, _VERSION, uid, 0)[:-4]
    return head + struct.pack(">I", crc32c(head))


def composites_digest(uids: Iterable[str]) -> int:
    """A number that tells one set of composites from another."""
    return crc32c(" ".join(sorted(uids)).encode())


def encode_record(postings: Postings, anchor: tuple[int, int]) -> list[bytes | memoryview]:
    """The record's bytes, in parts; a multiple of 64 in all.

    `anchor` is (byte position, payload CRC) of the log's last frame that the postings speak of.
    """
    names = sorted(postings.fields)
    counts = [postings.fields[name][1] - postings.fields[name][0] for name in names]
    fields = pa.DictionaryArray.from_arrays(
        pa.array(np.repeat(np.arange(len(names), dtype=np.int32), counts)), pa.array(names, pa.utf8())
    )
    rows = pa.LargeListArray.from_arrays(pa.array(postings.ends), pa.array(postings.rows), type=_SCHEMA.field(2).type)
    facts = msgspec.json.encode(_Facts(postings.extent, sorted(postings.composites)))
    schema = _SCHEMA.with_metadata({"lamina": facts})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays([fields, postings.values, rows], schema=schema))
    payload = memoryview(sink.getvalue())
    extent = postings.extent
    digest = composites_digest(postings.composites)
    position, crc = anchor
    head = _RECORD.pack(
        _RECORD_MAGIC, crc32c(payload), len(payload), extent.first, extent.end, digest, crc, position, 0
    )[:-4]
    return [head + struct.pack(">I", crc32c(head)), payload, bytes(-len(payload) % 64)]


@dataclass(frozen=True, slots=True)
class Record:
    """What a record's header says, and where the record ends."""

    crc: int
    length: int
    first: int
    end: int
    composites_digest: int
    anchor: tuple[int, int]
    end_position: int


def check_header(data: bytes | memoryview, uid: bytes, where: str) -> None:
    """Corrupt if this is not the beginning of a label index of this segment."""
    if len(data) < HEADER_BYTES:
        raise Corrupt(f"{where}: {len(data)} bytes are no label index")
    magic, version, owner, crc = _HEADER.unpack_from(data)
    if magic != _MAGIC or crc != crc32c(data[: HEADER_BYTES - 4]):
        raise Corrupt(f"{where}: the label index's header is damaged")
    if version != _VERSION:
        raise Corrupt(f"{where}: label index format {version}, this Lamina reads format {_VERSION}; upgrade Lamina")
    if owner != uid:
        raise Corrupt(f"{where}: the label index is of another segment")


def record_at(data: bytes | memoryview, position: int) -> Record | None:
    """The header at `position`; None if there is none that is whole."""
    if position + RECORD_HEADER_BYTES > len(data):
        return None
    magic, payload_crc, length, first, end, digest, anchor_crc, anchor_at, crc = _RECORD.unpack_from(data, position)
    if magic != _RECORD_MAGIC or crc != crc32c(data[position : position + RECORD_HEADER_BYTES - 4]):
        return None
    end_position = position + RECORD_HEADER_BYTES + length + (-length % 64)
    return Record(payload_crc, length, first, end, digest, (anchor_at, anchor_crc), end_position)


def decode_record(
    data: memoryview, position: int, where: str, *, known_crc: int | None = None
) -> tuple[Postings, Record] | None:
    """The record at `position`; None if it is not whole: then it can be made again.

    A payload whose CRC was compared before (`known_crc`) is not gone through again.
    """
    record = record_at(data, position)
    if record is None or record.end_position > len(data):
        return None
    start = position + RECORD_HEADER_BYTES
    payload = data[start : start + record.length]
    if record.crc != known_crc and crc32c(payload) != record.crc:
        return None
    return _decode(payload, where), record


def _decode(payload: memoryview, where: str) -> Postings:
    try:
        batch = pa.ipc.open_stream(pa.py_buffer(payload)).read_next_batch()
        facts = msgspec.json.decode(batch.schema.metadata[b"lamina"], type=_Facts)
    except (pa.ArrowException, KeyError, TypeError, msgspec.MsgspecError) as error:
        raise Corrupt(f"{where}: a record of the label index cannot be understood: {error}") from error
    fields, values, rows = batch.columns
    codes = fields.indices.to_numpy()
    starts = np.flatnonzero(np.diff(codes, prepend=-1)).tolist()
    names = fields.dictionary.to_pylist()
    ranges = zip(starts, [*starts[1:], len(codes)], strict=True)
    return Postings(
        facts.extent,
        {names[codes[first]]: (first, end) for first, end in ranges},
        values,
        rows.offsets.to_numpy(),
        rows.values.to_numpy(),
        frozenset(facts.composites),
    )
