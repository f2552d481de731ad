"""The bytes of a segment: what is written comes back, and whatever is changed is noticed."""

from __future__ import annotations

import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from lamina.errors import Corrupt
from lamina.log.format import (
    ALIGNMENT,
    Codec,
    FrameHeader,
    ProducerEntry,
    aligned,
    decode_frame_header,
    decode_segment_header,
    decode_table,
    decode_trailer,
    encode_frame,
    encode_frame_header,
    encode_segment_header,
    encode_table,
    encode_trailer,
    padding,
    payload_is_valid,
    valid_frame_after,
)
from tests.unit.log.segments import UID

BOUNDED = settings(max_examples=60, deadline=None)
U32 = st.integers(0, 2**32 - 1)
I64 = st.integers(-(2**63), 2**63 - 1)


def frame(
    payload: bytes = b"payload", table: bytes = b"", *, first: int = 0, count: int = 1, synced_to: int = 0
) -> bytes:
    header = FrameHeader(
        Codec.PACKED, 0, len(table), len(payload), crc32c(payload), first, first + count, count, 5, 6, 7, synced_to
    )
    return b"".join(bytes(part) for part in encode_frame(header, table, payload))


def test_a_segment_header_gives_its_uid_back() -> None:
    data = encode_segment_header(UID)
    assert len(data) == ALIGNMENT
    assert decode_segment_header(data, "x.log") == UID
    assert decode_segment_header(memoryview(data + b"frames"), "x.log") == UID


@pytest.mark.parametrize("at", range(64))
def test_any_changed_byte_of_a_segment_header_is_corrupt(at: int) -> None:
    data = bytearray(encode_segment_header(UID))
    data[at] ^= 1
    with pytest.raises(Corrupt, match=r"x\.log"):
        decode_segment_header(bytes(data), "x.log")


def test_a_segment_of_a_newer_format_asks_for_an_upgrade() -> None:
    data = bytearray(encode_segment_header(UID))
    data[8:10] = (2).to_bytes(2, "big")
    data[60:] = crc32c(bytes(data[:60])).to_bytes(4, "big")
    with pytest.raises(Corrupt, match="upgrade"):
        decode_segment_header(bytes(data), "x.log")


@BOUNDED
@given(
    st.sampled_from(Codec), st.integers(0, 65535), st.binary(max_size=100), st.binary(max_size=300), U32, U32, I64, I64
)
def test_a_frame_comes_back_from_its_bytes(
    codec: Codec, flags: int, table: bytes, payload: bytes, first: int, end: int, ts: int, appended_at: int
) -> None:
    header = FrameHeader(
        codec, flags, len(table), len(payload), crc32c(payload), first, end, 3, ts, ts, appended_at, first
    )
    data = memoryview(b"x" * 64 + b"".join(bytes(part) for part in encode_frame(header, table, payload)))
    assert len(data) - 64 == header.frame_bytes
    assert header.frame_bytes % ALIGNMENT == 0
    assert header.payload_start % ALIGNMENT == 0
    assert decode_frame_header(data, 64) == header
    assert payload_is_valid(data, 64, header)
    start = 64 + header.payload_start
    assert bytes(data[start : start + len(payload)]) == payload


@pytest.mark.parametrize("at", range(70))
def test_any_changed_byte_of_a_frame_header_or_its_table_is_noticed(at: int) -> None:
    data = bytearray(frame(table=b"table!"))
    data[at] ^= 0x10
    assert decode_frame_header(memoryview(data), 0) is None


@pytest.mark.parametrize("at", range(7))
def test_any_changed_byte_of_a_payload_is_noticed(at: int) -> None:
    data = bytearray(frame())
    data[64 + at] ^= 0x10
    header = decode_frame_header(memoryview(data), 0)
    assert header is not None
    assert not payload_is_valid(memoryview(data), 0, header)


@pytest.mark.parametrize("size", [0, 3, 63, 64, 100, 127])
def test_a_frame_that_is_cut_is_no_frame(size: int) -> None:
    data = memoryview(frame(table=bytes(100)))[:size]
    assert decode_frame_header(data, 0) is None


def test_a_payload_that_is_cut_is_invalid() -> None:
    data = memoryview(frame(bytes(200)))
    header = decode_frame_header(data, 0)
    assert header is not None
    assert not payload_is_valid(data[: 64 + 199], 0, header)


def test_a_frame_of_a_newer_format_asks_for_an_upgrade() -> None:
    data = bytearray(frame())
    data[4] = 2
    data[60:64] = crc32c(bytes(data[:60])).to_bytes(4, "big")
    with pytest.raises(Corrupt, match="upgrade"):
        decode_frame_header(memoryview(data), 0)


ENTRIES = st.builds(ProducerEntry, st.text("aé日-", max_size=20), I64, U32, U32)


@BOUNDED
@given(st.lists(ENTRIES, max_size=6))
def test_a_producer_table_comes_back_from_its_bytes(entries: list[ProducerEntry]) -> None:
    assert decode_table(encode_table(entries)) == entries
    assert decode_table(memoryview(encode_table(entries))) == entries


def test_a_trailer_says_where_the_footer_begins() -> None:
    data = encode_trailer(4096, 8192)
    assert len(data) == 64
    assert decode_trailer(data, 8192) == 4096


def test_a_trailer_of_a_file_of_another_size_ends_nothing() -> None:
    assert decode_trailer(encode_trailer(4096, 8192), 8193) is None


@pytest.mark.parametrize("at", [0, 8, 15, 16, 23, 24, 59, 60, 63])
def test_a_changed_trailer_ends_nothing(at: int) -> None:
    data = bytearray(encode_trailer(4096, 8192))
    data[at] ^= 1
    assert decode_trailer(bytes(data), 8192) is None


@pytest.mark.parametrize("size", [0, 63, 65])
def test_a_trailer_has_64_bytes(size: int) -> None:
    assert decode_trailer(encode_trailer(0, 0).ljust(65, b"\0")[:size], 0) is None


@pytest.mark.parametrize("size", range(130))
def test_padding_fills_up_to_the_next_boundary(size: int) -> None:
    assert size + len(padding(size)) == aligned(size)
    assert aligned(size) % ALIGNMENT == 0
    assert 0 <= aligned(size) - size < ALIGNMENT


def test_a_later_frame_proves_damage_only_if_the_bytes_before_it_were_synced() -> None:
    torn = bytes(128)
    unsynced, synced = memoryview(torn + frame(synced_to=0)), memoryview(torn + frame(synced_to=128))
    assert valid_frame_after(unsynced, 0, len(unsynced)) is None
    assert valid_frame_after(synced, 0, len(synced)) == 128
    assert valid_frame_after(synced, 0, 128 + 64) is None


def test_a_header_alone_is_64_bytes() -> None:
    header = FrameHeader(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
    assert len(encode_frame_header(header, b"")) == 64
