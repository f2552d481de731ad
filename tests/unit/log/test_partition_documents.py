"""The small files of a partition: head, documents, lineage and the memory of producers."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lamina.disk import MemoryDisk
from lamina.errors import Corrupt, Diverged
from lamina.log.documents import decode_document, encode_document, read_document, replace_file, write_document
from lamina.log.format import ProducerEntry
from lamina.log.head import HEAD_BYTES, Head, HeadFile, decode_head, read_head
from lamina.log.lineage import PartitionState
from lamina.log.producers import RANGES_KEPT, AppendedRange, Producers
from lamina.testing import Fault, FaultyDisk
from lamina.testing.faults import Operation
from tests.unit.log.segments import contents

BOUNDED = settings(max_examples=80, deadline=None)
U64 = st.integers(0, 2**64 - 1)


class Note(msgspec.Struct, frozen=True):
    """A document's contents."""

    text: str
    number: int = 0


# head


@BOUNDED
@given(U64, U64, U64, st.booleans())
def test_a_head_comes_back_from_its_32_bytes(end: int, segment: int, byte_end: int, clean: bool) -> None:
    head = Head(end, segment, byte_end, clean=clean)
    assert len(head.encode()) == HEAD_BYTES == 32
    assert decode_head(head.encode()) == head


@pytest.mark.parametrize("at", range(32))
def test_any_changed_byte_of_a_head_is_noticed(at: int) -> None:
    record = bytearray(Head(5, 0, 640).encode())
    record[at] ^= 1
    assert decode_head(bytes(record)) is None


@pytest.mark.parametrize("record", [b"", bytes(31), bytes(33), bytes(32)])
def test_a_record_of_another_size_or_of_zeros_is_no_head(record: bytes) -> None:
    assert decode_head(record) is None


def test_a_head_file_shows_its_newest_record() -> None:
    disk = MemoryDisk()
    disk.make_directory("p")
    assert read_head(disk, "p") is None
    file = HeadFile.create(disk, "p", Head(0, 0, 64))
    reader = HeadFile.open(disk, "p", write=False)
    file.write(Head(9, 0, 6400))
    assert reader.read() == read_head(disk, "p") == Head(9, 0, 6400)


def test_a_damaged_head_file_is_corrupt_for_readers_and_absent_for_recovery() -> None:
    disk = MemoryDisk()
    disk.make_directory("p")
    HeadFile.create(disk, "p", Head(1, 2, 3)).close()
    disk.open("p/head", "write").pwrite(b"\xff", 5)
    assert read_head(disk, "p") is None
    with pytest.raises(Corrupt, match="p/head"):
        HeadFile.open(disk, "p", write=False).read()


# documents


def test_a_document_is_readable_and_comes_back() -> None:
    data = encode_document("note", Note("hällo", 5))
    first, body = data.split(b"\n", 1)
    assert first.startswith(b"lamina note 1 crc32c=")
    assert b'  "text": "h' in body
    assert decode_document("note", data, Note, "x.json") == Note("hällo", 5)


@pytest.mark.parametrize("at", [0, 8, 12, 14, 25, 30, 40, -2])
def test_a_changed_byte_of_a_document_is_corrupt(at: int) -> None:
    data = bytearray(encode_document("note", Note("hello", 5)))
    data[at] ^= 1
    with pytest.raises(Corrupt, match=r"x\.json"):
        decode_document("note", bytes(data), Note, "x.json")


@pytest.mark.parametrize("data", [b"", b"{}", b"lamina note 1\n{}", encode_document("other", Note("x"))])
def test_what_is_not_such_a_document_is_corrupt(data: bytes) -> None:
    with pytest.raises(Corrupt, match=r"x\.json is not a Lamina note"):
        decode_document("note", data, Note, "x.json")


def test_a_document_of_a_newer_format_asks_for_an_upgrade() -> None:
    data = encode_document("note", Note("x")).replace(b"note 1 ", b"note 2 ")
    with pytest.raises(Corrupt, match="upgrade"):
        decode_document("note", data, Note, "x.json")


def test_a_document_is_replaced_whole_or_not_at_all() -> None:
    disk = FaultyDisk(MemoryDisk())
    write_document(disk, "x.json", "note", Note("old"))
    operations: list[Operation] = ["append", "sync", "rename"]
    for operation in operations:
        disk.add(Fault(operation=operation, error="EIO"))
        with pytest.raises(Exception, match="Input/output"):
            write_document(disk, "x.json", "note", Note("new" * 1000))
        assert read_document(disk, "x.json", "note", Note) == Note("old")
    write_document(disk, "x.json", "note", Note("new"))
    assert read_document(disk, "x.json", "note", Note) == Note("new")
    assert disk.list("") == ["x.json"]


def test_a_leftover_of_a_crash_does_not_stop_a_replacement() -> None:
    disk = MemoryDisk()
    disk.open("x.json.tmp", "create").append([b"half a docum"])
    replace_file(disk, "x.json", b"whole")
    assert contents(disk, "x.json") == b"whole"


# lineage

CRASHES = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=8)


@BOUNDED
@given(CRASHES)
def test_a_position_is_valid_exactly_if_what_it_saw_is_still_there(crashes: list[tuple[int, int]]) -> None:
    """Each step writes some messages and then loses some; every position that a reader held is kept."""
    state, log, seen = PartitionState(), list[tuple[int, int]](), list[tuple[int, int, list[tuple[int, int]]]]()
    for written, lost in crashes:
        log = [*log, *((state.epoch, len(log) + n) for n in range(written))]
        seen += [(state.epoch, offset, log[:offset]) for offset in range(len(log) + 1)]
        log = log[: max(len(log) - lost, 0)]
        state = state.with_new_epoch(len(log))
    firsts = [first for _, first in state.lineage]
    assert firsts == sorted(set(firsts))
    for epoch, offset, prefix in seen:
        shared_end = divergence(state, epoch, offset, len(log))
        assert (shared_end is None) == (log[:offset] == prefix)
        if shared_end is not None:
            assert log[:shared_end] == prefix[:shared_end]


def divergence(state: PartitionState, epoch: int, offset: int, end: int) -> int | None:
    """Where the shared history of a position ends; None if all of it is shared."""
    try:
        state.check(epoch, offset, end)
    except Diverged as error:
        return error.at
    return None


def test_a_position_of_an_epoch_to_come_has_diverged() -> None:
    with pytest.raises(Diverged) as caught:
        PartitionState().check(2, 0, 10)
    assert caught.value.at == 10


def test_a_position_beyond_the_end_has_diverged() -> None:
    PartitionState().check(1, 10, 10)
    with pytest.raises(Diverged) as caught:
        PartitionState().check(1, 11, 10)
    assert caught.value.at == 10


def test_the_start_of_a_partition_only_rises() -> None:
    state = PartitionState().with_start(5)
    assert state.with_start(3).start == 5
    assert state.with_start(8).start == 8
    assert state.with_new_epoch(9).start == 5


# producers


def test_the_last_five_calls_of_a_producer_are_remembered() -> None:
    producers = Producers()
    for sequence in range(8):
        producers.record(ProducerEntry("p", sequence, 0, 2), sequence * 2, 100 + sequence)
    assert RANGES_KEPT == 5
    assert producers.last_sequence("p") == 7
    assert [producers.find("p", sequence) is not None for sequence in range(9)] == [False] * 3 + [True] * 5 + [False]
    assert producers.find("p", 6) == AppendedRange(6, 12, 2)


def test_an_unknown_producer_has_done_nothing() -> None:
    assert Producers().find("p", 0) is None
    assert Producers().last_sequence("p") is None


def test_a_call_that_spans_frames_is_remembered_as_one() -> None:
    producers = Producers()
    producers.update([ProducerEntry("p", 1, 3, 4)], 10, 5)
    producers.update([ProducerEntry("p", 1, 0, 6)], 17, 5)
    assert producers.find("p", 1) == AppendedRange(1, 13, 10)


def test_producers_come_back_relative_to_their_segment() -> None:
    producers = Producers()
    producers.record(ProducerEntry("ä", 3, 1, 2), 1000, 77)
    payload = producers.encode(500)
    assert Producers.decode(payload, 500).find("ä", 3) == AppendedRange(3, 1001, 2)
    assert Producers.decode(payload, 9000).find("ä", 3) == AppendedRange(3, 9501, 2)
    with pytest.raises(Corrupt):
        Producers.decode(b"\xc1", 0)


def test_idle_producers_are_forgotten_and_so_are_too_many() -> None:
    producers = Producers()
    for number in range(10):
        producers.record(ProducerEntry(f"p{number}", 0, 0, 1), number, number)
    producers.record(ProducerEntry("p0", 1, 0, 1), 20, 20)
    producers.forget(before=3, keep_max=100)
    assert sorted(n for n in range(10) if producers.last_sequence(f"p{n}") is None) == [1, 2]
    producers.forget(before=0, keep_max=3)
    assert [n for n in range(10) if producers.last_sequence(f"p{n}") is not None] == [0, 8, 9]
