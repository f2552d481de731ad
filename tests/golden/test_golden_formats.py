"""Golden bytes of each format by itself: today's encoder writes them, today's reader understands them.

Arrow payloads are only read: their bytes may differ between versions of pyarrow, their meaning may not.
"""

from __future__ import annotations

import pytest
from crc32c import crc32c

from lamina.disk import MemoryDisk
from lamina.index.build import build
from lamina.index.composites import Composite, Composites, with_composites
from lamina.index.label_file import check_header, decode_record, encode_header, encode_record
from lamina.log import IndexEntry, OffsetIndex, StreamPolicy
from lamina.log.active import ActiveSegment
from lamina.log.block import Block
from lamina.log.catalog import StoreDocument, StreamDocument
from lamina.log.codec import encode_batch, join_rows, pack_row
from lamina.log.documents import decode_document, encode_document
from lamina.log.format import (
    Codec,
    Flag,
    FrameHeader,
    ProducerEntry,
    decode_frame_header,
    decode_segment_header,
    decode_table,
    decode_trailer,
    encode_frame,
    encode_segment_header,
    encode_table,
    encode_trailer,
    frame_salt,
    payload_is_valid,
)
from lamina.log.framing import NO_TS_MAX, NO_TS_MIN
from lamina.log.head import Head, decode_head
from lamina.log.key_index import KeyFile, encode_keys
from lamina.log.lineage import PartitionState
from lamina.log.producers import AppendedRange, Producers
from lamina.log.seal import read_footer, seal
from lamina.log.settings import LogSettings
from lamina.log.time_index import BEFORE_ALL, TimeIndex
from lamina.model import Message, Row, batch_of_rows
from tests.golden.files import assert_golden, golden
from tests.unit.log.segments import key_entries

UID = bytes.fromhex("000102030405060708090a0b0c0d0e0f")
NOW_US = 1_700_000_000_000_000
ROWS = [
    Row(NOW_US, "orders/eu", b"42", b"two apples", {"app": "shop", "näme": "wért"}),
    Row(NOW_US - 5, "orders/us", None, None, {}, NOW_US + 60_000_000, NOW_US + 1, 7),
]
TABLE = [ProducerEntry("producer-a", 3, 0, 1), ProducerEntry("ü", 2**40, 1, 1)]


def frame(codec: Codec, payload: bytes, *, table: bytes = b"", flags: int = 0, count: int = 2) -> bytes:
    header = FrameHeader(
        codec,
        flags,
        len(table),
        len(payload),
        crc32c(payload),
        10,
        10 + count,
        count,
        NOW_US - 5,
        NOW_US,
        NOW_US + 9,
        640,
    )
    return b"".join(bytes(part) for part in encode_frame(header, table, payload))


def header_of(stored: bytes, salt: int = 0) -> FrameHeader:
    header = decode_frame_header(memoryview(stored), 0, salt)
    assert header is not None
    assert header.frame_bytes == len(stored)
    assert payload_is_valid(memoryview(stored), 0, header)
    return header


def payload_of(stored: bytes) -> bytes:
    header = header_of(stored)
    return stored[header.payload_start : header.payload_start + header.payload_bytes]


def assert_messages(stored: bytes) -> None:
    header = header_of(stored)
    block = Block.decode(header, memoryview(payload_of(stored)), 100)
    assert list(block.messages("s", 3)) == [
        Message(r.topic, r.value, r.key, r.labels, r.timestamp, r.expires_at, r.deliver_at, r.priority, "s", 3, 110 + n)
        for n, r in enumerate(ROWS)
    ]
    assert (header.first, header.end, header.count) == (10, 12, 2)
    assert (header.ts_min, header.ts_max, header.appended_at, header.synced_to) == (NOW_US - 5, NOW_US, NOW_US + 9, 640)


def test_the_segment_header() -> None:
    stored = assert_golden("segment-header-1.bin", encode_segment_header(UID))
    assert decode_segment_header(stored, "golden") == UID


def test_a_frame_of_packed_rows() -> None:
    assert_messages(
        assert_golden("frame-packed-1.bin", frame(Codec.PACKED, join_rows([pack_row(row) for row in ROWS])))
    )


def test_a_frame_with_a_producer_table() -> None:
    encoded = frame(Codec.PACKED, join_rows([pack_row(row) for row in ROWS]), table=encode_table(TABLE))
    stored = assert_golden("frame-packed-table-1.bin", encoded)
    assert_messages(stored)
    assert decode_table(stored[64 : 64 + header_of(stored).table_bytes]) == TABLE


@pytest.mark.parametrize(
    ("name", "table", "flags"),
    [("frame-arrow-1.bin", [], 0), ("frame-arrow-table-1.bin", TABLE, 0), ("frame-arrow-more-1.bin", TABLE, Flag.MORE)],
)
def test_a_frame_of_an_arrow_batch(name: str, table: list[ProducerEntry], flags: int) -> None:
    encoded_table = encode_table(table)

    def make(payload: bytes) -> bytes:
        return frame(Codec.ARROW, payload, table=encoded_table, flags=flags)

    stored = golden(name, lambda: make(bytes(encode_batch(batch_of_rows(ROWS)))))
    assert_messages(stored)
    assert header_of(stored).flags == flags
    assert decode_table(stored[64 : 64 + header_of(stored).table_bytes]) == table
    assert make(payload_of(stored)) == stored, "all around the payload is our own format"


def test_a_frame_without_messages_that_uses_up_a_sequence() -> None:
    encoded = frame(Codec.PACKED, join_rows([]), table=encode_table([ProducerEntry("p", 1, 0, 0)]), count=0)
    stored = assert_golden("frame-empty-1.bin", encoded)
    assert len(Block.decode(header_of(stored), memoryview(payload_of(stored)), 0)) == 0


def test_a_new_segment_begins_with_what_is_known_of_producers() -> None:
    producers = Producers()
    for sequence in range(7):
        producers.record(ProducerEntry("producer-a", sequence, 0, 2), 1000 + 2 * sequence, NOW_US + sequence)
    producers.record(ProducerEntry("ü", 2**40, 0, 1), 1014, NOW_US + 9)
    disk = MemoryDisk()
    disk.make_directory("p")
    ActiveSegment.create(disk, "p", 1015, UID, producers, NOW_US + 10, LogSettings()).close()
    file = disk.open(f"p/{1015:020d}.log", "read")
    stored = assert_golden("segment-producers-1.bin", file.pread(file.size(), 0))
    assert decode_segment_header(stored, "golden") == UID
    header = header_of(stored[64:], frame_salt(UID))
    assert (header.codec, header.count, header.ts_min, header.ts_max) == (Codec.PRODUCERS, 0, NO_TS_MIN, NO_TS_MAX)
    at = header.payload_start
    found = Producers.decode(stored[64:][at : at + header.payload_bytes], 1015)
    assert [found.find("producer-a", n) for n in (1, 2, 6)] == [
        None,
        AppendedRange(2, 1004, 2),
        AppendedRange(6, 1012, 2),
    ]
    assert found.find("ü", 2**40) == AppendedRange(2**40, 1014, 1)


def test_the_trailer() -> None:
    stored = assert_golden("trailer-1.bin", encode_trailer(4096, 5000))
    assert decode_trailer(stored, 5000) == 4096


def test_the_offset_index() -> None:
    index = OffsetIndex.of_bytes(0)
    for offset, position in ((0, 64), (20, 5000), (4_000_000_000, 4_294_967_295)):
        assert index.append(offset, position)
    stored = assert_golden("offset-1.index", index.encode())
    assert list(OffsetIndex.of_bytes(0, stored).entries()) == list(index.entries())
    assert IndexEntry.from_bytes(stored[8:16]) == IndexEntry(20, 5000)


def test_the_time_index() -> None:
    index = TimeIndex()
    for before, offset, position in (
        (BEFORE_ALL, 0, 64),
        (NOW_US, 20, 5000),
        (NOW_US + 7, 4_000_000_000, 4_294_967_295),
    ):
        index.append(before, offset, position)
    stored = assert_golden("time-1.timeindex", index.encode())
    assert TimeIndex(data=stored).lookup(NOW_US + 7) == 5000


def test_the_key_index() -> None:
    keys = [b"42", None, b"43", b"42", b""]
    topics = ["orders/eu", "orders/us", "orders/eu", "ü", "orders/us"]
    stored = assert_golden("keys-1.keys", encode_keys(key_entries(keys, topics, [0, 1, 2, 3, 4_294_967_295]), topics))
    file = KeyFile(memoryview(stored), "golden")
    assert list(file.find(b"42", None)) == [3, 0]
    assert list(file.find(b"42", "orders/eu")) == [0]
    assert list(file.find(b"", None)) == [4_294_967_295]
    assert not file.may_contain(b"absent")
    assert file.topics() == ["orders/eu", "orders/us", "ü"]


@pytest.mark.parametrize("clean", [False, True])
def test_the_head(clean: bool) -> None:
    head = Head(2**40, 2**39, 123_456, clean=clean)
    stored = assert_golden(f"head-{'clean' if clean else 'in-use'}-1.bin", head.encode())
    assert decode_head(stored) == head


def test_the_document_of_a_store() -> None:
    document = StoreDocument(UID.hex(), NOW_US)
    stored = assert_golden("lamina-1.json", encode_document("store", document))
    assert decode_document("store", stored, StoreDocument, "golden") == document


@pytest.mark.parametrize(
    ("name", "policy"),
    [
        ("stream-1.json", StreamPolicy()),
        (
            "stream-full-1.json",
            StreamPolicy(
                partitions=8,
                durability="flush",
                retention_seconds=86400.5,
                retention_bytes=1 << 40,
                compaction="latest",
                window_seconds=60,
                partition_by="key",
            ),
        ),
    ],
)
def test_the_document_of_a_stream(name: str, policy: StreamPolicy) -> None:
    document = StreamDocument(UID.hex(), policy)
    stored = assert_golden(name, encode_document("stream", document))
    assert decode_document("stream", stored, StreamDocument, "golden") == document


def test_the_document_of_a_partition() -> None:
    state = PartitionState(start=5000, lineage=[(1, 0), (2, 4096), (7, 2**40)])
    stored = assert_golden("partition-1.json", encode_document("partition", state))
    assert decode_document("partition", stored, PartitionState, "golden") == state


def test_the_footer_and_trailer_of_a_sealed_segment() -> None:
    """A segment that knows producers and holds no messages: all of its bytes are our own format."""
    producers = Producers()
    producers.record(ProducerEntry("producer-a", 3, 0, 2), 5, NOW_US)
    disk = MemoryDisk()
    disk.make_directory("p")
    active = ActiveSegment.create(disk, "p", 7, UID, producers, NOW_US, LogSettings())
    active.close()
    sealed = seal(disk, "p", 7, active.size, 4096, bytes(16))
    file = disk.open(f"p/{7:020d}.log", "read")
    stored = assert_golden("segment-sealed-empty-1.bin", file.pread(file.size(), 0))
    file.close()
    assert decode_trailer(stored[-64:], len(stored)) == sealed.footer_position
    found = read_footer(disk, "p", 7)
    assert found is not None
    assert found.footer == sealed.footer
    assert (found.footer.uid, found.footer.count, found.footer.frames) == (UID, 0, 0)
    assert found.footer.body_crc == crc32c(stored[: sealed.footer_position])
    assert sorted(found.footer.side_files) == [".index", ".keys", ".timeindex"]


def test_label_index() -> None:
    postings = with_composites(
        build([Block(range(2), batch=batch_of_rows(ROWS))], 0, 0, 2), [Composite("c1", "pair", ("app", "näme"))]
    )
    head = assert_golden("labels-header-1.bin", encode_header(UID))
    check_header(head, UID, "golden")
    stored = golden("labels-record-1.bin", lambda: b"".join(encode_record(postings, (64, 0xC0FFEE))))
    decoded = decode_record(memoryview(stored), 0, "golden")
    assert decoded is not None
    read, facts = decoded
    assert (facts.end_position, facts.anchor) == (len(stored), (64, 0xC0FFEE))
    assert (read.extent, read.composites) == (postings.extent, frozenset({"c1"}))
    assert {field: read.terms(field) for field in read.fields} == {
        "composite:c1": ["4:shop4:wért"],
        "label:app": ["shop"],
        "label:näme": ["wért"],
        "priority": ["7"],
        "topic": ["orders/eu", "orders/us"],
    }
    assert read.find("topic", "orders/us").tolist() == [1]


def test_composites_document() -> None:
    definitions = Composites((Composite("00ff", "dm_thread", ("app", "thread"), "ready"),))
    stored = assert_golden("composites-1.json", encode_document("composites", definitions))
    assert decode_document("composites", stored, Composites, "golden") == definitions
