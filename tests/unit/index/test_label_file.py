"""The `.labels` file: what is written is read, and what is damaged is never believed."""

from __future__ import annotations

import pytest

from lamina.errors import Corrupt
from lamina.index import label_file
from lamina.index.build import build
from lamina.index.composites import Composite, with_composites
from lamina.index.postings import Postings
from tests.unit.index.messages import block, row

UID = bytes(range(16))
ANCHOR = (4096, 0xDEADBEEF)


def postings() -> Postings:
    rows = [row(at, {"app": "dm", "user": f"u{at}"}, priority=at) for at in range(5)]
    return with_composites(build([block(rows)], 0, 0, 5), [Composite("c1", "n", ("app", "user"))])


def record() -> bytes:
    return b"".join(label_file.encode_record(postings(), ANCHOR))


def test_a_record_is_read_as_it_was_written() -> None:
    data = memoryview(label_file.encode_header(UID) + record())
    label_file.check_header(data, UID, "f")
    decoded = label_file.decode_record(data, label_file.HEADER_BYTES, "f")
    assert decoded is not None
    read, facts = decoded
    assert (facts.end_position, facts.anchor) == (len(data), ANCHOR)
    wanted = postings()
    assert (read.extent, read.fields, read.composites) == (wanted.extent, wanted.fields, wanted.composites)
    for field in wanted.fields:
        assert read.terms(field) == wanted.terms(field)
        for value in wanted.terms(field):
            assert read.find(field, value).tolist() == wanted.find(field, value).tolist()


def test_its_header_tells_what_it_covers_without_reading_the_rest() -> None:
    found = label_file.record_at(record()[: label_file.RECORD_HEADER_BYTES], 0)
    assert found is not None
    assert (found.first, found.end) == (0, 5)
    assert found.composites_digest == label_file.composites_digest(["c1"])
    assert found.end_position == len(record())


def test_every_flipped_byte_of_a_record_is_noticed() -> None:
    whole = record()
    padding = label_file.record_at(whole, 0)
    assert padding is not None
    end = label_file.RECORD_HEADER_BYTES + padding.length  # behind it are zeros that nobody reads
    for at in range(end):
        damaged = bytearray(whole)
        damaged[at] ^= 0x40
        assert label_file.decode_record(memoryview(bytes(damaged)), 0, "f") is None, at


def test_a_payload_that_was_compared_before_is_not_gone_through_again() -> None:
    whole = bytearray(record())
    facts = label_file.record_at(bytes(whole), 0)
    assert facts is not None
    whole[label_file.RECORD_HEADER_BYTES + facts.length - 1] ^= 1
    assert label_file.decode_record(memoryview(bytes(whole)), 0, "f") is None
    assert label_file.decode_record(memoryview(bytes(whole)), 0, "f", known_crc=facts.crc + 1) is None


def test_every_cut_of_a_record_is_noticed() -> None:
    whole = record()
    for length in range(len(whole)):
        assert label_file.decode_record(memoryview(whole[:length]), 0, "f") is None


@pytest.mark.parametrize("at", range(label_file.HEADER_BYTES))
def test_every_flipped_byte_of_the_header_is_refused(at: int) -> None:
    damaged = bytearray(label_file.encode_header(UID))
    damaged[at] ^= 0x40
    with pytest.raises(Corrupt):
        label_file.check_header(bytes(damaged), UID, "f")


def test_a_file_of_another_segment_or_of_a_newer_version_is_refused() -> None:
    with pytest.raises(Corrupt, match="another segment"):
        label_file.check_header(label_file.encode_header(bytes(16)), UID, "f")
    with pytest.raises(Corrupt, match="no label index"):
        label_file.check_header(b"LAMI", UID, "f")
