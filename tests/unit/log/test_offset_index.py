"""The sparse offset index: its entries, its file, and the corrected rules of its design."""

from __future__ import annotations

import logging
import struct
from bisect import bisect_right
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lamina.disk import FileDisk, MemoryDisk
from lamina.errors import Closed, Corrupt, InvalidRequest, NotFound, Unavailable
from lamina.log import IndexEntry, OffsetIndex
from lamina.testing import Fault, FaultyDisk

MARKS = [(0, 0), (20, 2048), (40, 4096), (60, 6144), (80, 8192)]


def filled(directory: Path, *entries: tuple[int, int], base: int = 0, interval_bytes: int = 1) -> OffsetIndex:
    index = OffsetIndex(base, directory, interval_bytes=interval_bytes)
    for offset, position in entries:
        assert index.append(offset, position)
    return index


def pairs(index: OffsetIndex) -> list[tuple[int, int]]:
    return [(entry.relative_offset, entry.position) for entry in index.entries()]


def file_of(directory: Path, base: int = 0) -> Path:
    return directory / f"{base:020d}.index"


# Entries


def test_an_index_entry_is_eight_bytes_big_endian() -> None:
    assert IndexEntry.SIZE == 8
    assert IndexEntry.FORMAT == ">II"
    assert IndexEntry(1, 2).to_bytes() == b"\0\0\0\x01\0\0\0\x02"
    assert IndexEntry(2**32 - 1, 2**32 - 1).to_bytes() == b"\xff" * 8


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1))
def test_an_index_entry_comes_back_from_its_bytes(relative_offset: int, position: int) -> None:
    entry = IndexEntry(relative_offset, position)
    assert IndexEntry.from_bytes(entry.to_bytes()) == entry
    assert IndexEntry.from_bytes(memoryview(struct.pack(">II", relative_offset, position))) == entry


@pytest.mark.parametrize(("relative_offset", "position"), [(-1, 0), (0, -1), (2**32, 0), (0, 2**32)])
def test_an_index_entry_refuses_what_does_not_fit(relative_offset: int, position: int) -> None:
    with pytest.raises(InvalidRequest, match="does not fit"):
        IndexEntry(relative_offset, position)


@pytest.mark.parametrize("size", [0, 7, 9, 16])
def test_an_index_entry_refuses_bytes_of_another_size(size: int) -> None:
    with pytest.raises(InvalidRequest, match=f"8 bytes, not {size}"):
        IndexEntry.from_bytes(bytes(size))


# Appending and looking up


def test_the_first_index_entry_is_taken_a_near_one_refused_and_a_far_one_taken(tmp_path: Path) -> None:
    with OffsetIndex(0, tmp_path) as index:
        assert index.append(0, 0)
        assert not index.append(1, 100)
        assert index.append(2, 5000)
        assert index.entries_count == 2
    with OffsetIndex(0, tmp_path) as index:
        assert pairs(index) == [(0, 0), (2, 5000)]


def test_the_index_takes_its_defaults_from_the_design(tmp_path: Path) -> None:
    with OffsetIndex(0, tmp_path) as index:
        assert (index.max_entries, index.interval_bytes) == (262_144, 4096)
        assert index.append(0, 0)
        assert not index.append(1, 4095)
        assert index.append(2, 4096)


def test_one_gib_of_log_needs_two_mib_of_index() -> None:
    numbers = np.arange((1 << 30) // 4096)
    index = OffsetIndex.of_bytes(0, np.column_stack([numbers, numbers * 4096]).astype(">u4").tobytes())
    assert index.entries_count == 262_144
    assert len(index.encode()) == 2 << 20
    assert index.lookup(200_000) == (200_000, 200_000 * 4096)


def test_the_index_finds_the_last_mark_at_or_before_an_offset(tmp_path: Path) -> None:
    with filled(tmp_path, *MARKS) as index:
        assert index.lookup(55) == (40, 4096)
        assert index.lookup(40) == (40, 4096)
        assert index.lookup(39) == (20, 2048)
        assert index.lookup(0) == (0, 0)
        assert index.lookup(10**12) == (80, 8192)


def test_the_index_counts_from_its_base_offset(tmp_path: Path) -> None:
    with filled(tmp_path, (1000, 64), (1050, 5000), base=1000) as index:
        assert file_of(tmp_path, 1000).exists()
        assert pairs(index) == [(0, 64), (50, 5000)]
        assert index.lookup(1049) == (1000, 64)
        assert index.lookup(1050) == (1050, 5000)
        assert index.lookup(999) is None


def test_an_empty_index_finds_nothing(tmp_path: Path) -> None:
    with OffsetIndex(0, tmp_path) as index:
        assert index.entries_count == 0
        assert index.lookup(0) is None


def test_an_index_that_begins_later_finds_nothing_before(tmp_path: Path) -> None:
    with filled(tmp_path, (10, 64)) as index:
        assert index.lookup(9) is None


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 50), max_size=40), st.lists(st.integers(0, 3000), max_size=20))
def test_index_lookups_agree_with_a_sorted_list(steps: list[int], wanted: list[int]) -> None:
    index, offsets, at = OffsetIndex.of_bytes(100, interval_bytes=1), [], 100
    for step in steps:
        index.append(at, at * 7)
        offsets.append(at)
        at += step
    for offset in wanted:
        floor = bisect_right(offsets, offset) - 1
        assert index.lookup(offset) == (None if floor < 0 else (offsets[floor], offsets[floor] * 7))


@pytest.mark.parametrize(("offset", "position"), [(40, 9000), (39, 9000), (50, 4096), (50, 4000)])
def test_index_entries_must_rise(tmp_path: Path, offset: int, position: int) -> None:
    with filled(tmp_path, *MARKS[:3]) as index:
        with pytest.raises(InvalidRequest, match="rise"):
            index.append(offset, position)
        assert index.entries_count == 3


@pytest.mark.parametrize(("offset", "position"), [(99, 64), (100, -1), (100 + 2**32, 64), (100, 2**32)])
def test_the_index_refuses_what_its_entries_cannot_say(tmp_path: Path, offset: int, position: int) -> None:
    with OffsetIndex(100, tmp_path) as index:
        with pytest.raises(InvalidRequest):
            index.append(offset, position)
        assert file_of(tmp_path, 100).stat().st_size == 0


@pytest.mark.parametrize(("max_entries", "interval_bytes"), [(0, 4096), (-1, 4096), (10, 0), (10, -5)])
def test_index_limits_must_be_positive(tmp_path: Path, max_entries: int, interval_bytes: int) -> None:
    with pytest.raises(InvalidRequest, match="positive"):
        OffsetIndex(0, tmp_path, max_entries, interval_bytes)


def test_every_index_lookup_leaves_a_debug_message(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with filled(tmp_path, *MARKS) as index, caplog.at_level(logging.DEBUG, logger="lamina"):
        index.lookup(55)
    assert any("Using index for lookup" in message for message in caplog.messages)


# The file


def test_the_index_file_holds_exactly_its_entries(tmp_path: Path) -> None:
    filled(tmp_path, *MARKS).close()
    assert file_of(tmp_path).read_bytes() == b"".join(struct.pack(">II", *mark) for mark in MARKS)


def test_an_index_entry_of_zeros_is_not_taken_for_the_end(tmp_path: Path) -> None:
    filled(tmp_path, (0, 0)).close()
    with OffsetIndex(0, tmp_path) as index:
        assert index.entries_count == 1
        assert index.lookup(5) == (0, 0)


def test_a_reopened_index_goes_on_from_its_last_entry(tmp_path: Path) -> None:
    filled(tmp_path, (0, 0), (9, 5000), interval_bytes=4096).close()
    with OffsetIndex(0, tmp_path) as index:
        assert not index.append(10, 9000)
        assert index.append(11, 9096)
        assert pairs(index) == [(0, 0), (9, 5000), (11, 9096)]


@pytest.mark.parametrize("tail", [b"\0", b"\0\0\0\x05", b"\xff" * 7])
def test_an_index_that_ends_inside_an_entry_is_corrupt(tmp_path: Path, tail: bytes) -> None:
    filled(tmp_path, (0, 0)).close()
    with file_of(tmp_path).open("ab") as file:
        file.write(tail)
    with pytest.raises(Corrupt, match="whole entries"):
        OffsetIndex(0, tmp_path)


@pytest.mark.parametrize(
    "entries",
    [
        [(0, 0), (0, 0)],
        [(0, 64), (5, 5000), (5, 9000)],
        [(0, 64), (5, 5000), (6, 5000)],
        [*((n, n * 100) for n in range(20)), (3, 9000)],
        [(1, 64), (0, 0), (0, 0), (0, 0)],
    ],
)
def test_an_index_whose_entries_do_not_rise_to_the_end_is_corrupt(
    tmp_path: Path, entries: list[tuple[int, int]]
) -> None:
    file_of(tmp_path).write_bytes(b"".join(struct.pack(">II", *entry) for entry in entries))
    with pytest.raises(Corrupt, match="rise"):
        OffsetIndex(0, tmp_path)


def test_a_full_index_refuses_more_and_keeps_what_it_has(tmp_path: Path) -> None:
    with OffsetIndex(0, tmp_path, max_entries=3, interval_bytes=1) as index:
        assert [index.append(n, n * 10) for n in range(5)] == [True, True, True, False, False]
        assert index.is_full
        assert index.lookup(4) == (2, 20)


@pytest.mark.parametrize(("written_with", "opened_with"), [(3, 10), (10, 3), (5, 5)])
def test_an_index_opens_with_another_maximum_than_it_was_written_with(
    tmp_path: Path, written_with: int, opened_with: int
) -> None:
    with OffsetIndex(0, tmp_path, max_entries=written_with, interval_bytes=1) as index:
        for number in range(5):
            index.append(number, number * 10)
        kept = pairs(index)
    with OffsetIndex(0, tmp_path, max_entries=opened_with, interval_bytes=1) as index:
        assert pairs(index) == kept
        assert index.append(9, 1000) == (len(kept) < opened_with)
        assert index.lookup(4) == (kept[-1][0], kept[-1][1])


def test_a_truncated_index_forgets_its_end_and_goes_on_from_there(tmp_path: Path) -> None:
    with filled(tmp_path, *MARKS) as index:
        index.truncate(2)
        assert pairs(index) == MARKS[:2]
        assert index.lookup(55) == (20, 2048)
        assert index.append(30, 3000)
    with OffsetIndex(0, tmp_path) as index:
        assert pairs(index) == [*MARKS[:2], (30, 3000)]


@pytest.mark.parametrize("entries", [-1, 6])
def test_an_index_is_truncated_to_what_it_has_only(tmp_path: Path, entries: int) -> None:
    with filled(tmp_path, *MARKS) as index, pytest.raises(InvalidRequest):
        index.truncate(entries)


def test_flushing_an_index_syncs_its_file() -> None:
    disk = FaultyDisk(MemoryDisk())
    with OffsetIndex(0, "", disk=disk) as index:
        index.append(0, 0)
        assert disk.calls["sync"] == 0
        index.flush()
        assert disk.calls["sync"] == 1


def test_a_closed_index_refuses_entries(tmp_path: Path) -> None:
    index = filled(tmp_path, (0, 0))
    index.close()
    index.close()
    with pytest.raises(Closed):
        index.append(1, 5000)


def test_a_read_only_index_is_never_created(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        OffsetIndex(0, tmp_path, read_only=True)
    assert not file_of(tmp_path).exists()


def test_a_refused_index_entry_is_not_remembered() -> None:
    disk = FaultyDisk(MemoryDisk(), [Fault(operation="append", error="ENOSPC", after=1)])
    index = OffsetIndex(0, "", interval_bytes=1, disk=disk)
    index.append(0, 0)
    with pytest.raises(Unavailable):
        index.append(1, 100)
    assert pairs(index) == [(0, 0)]


def test_an_index_without_its_file_goes_on_in_memory(tmp_path: Path) -> None:
    index = filled(tmp_path, (0, 0))
    index.detach()
    assert index.append(1, 5000)
    index.flush()
    index.close()
    assert file_of(tmp_path).read_bytes() == bytes(8)


def test_an_index_lies_below_the_root_of_its_disk(tmp_path: Path) -> None:
    disk = FileDisk(tmp_path)
    disk.make_directory("events/0")
    with OffsetIndex(7, "events/0", disk=disk) as index:
        index.append(7, 64)
    assert file_of(tmp_path / "events" / "0", 7).stat().st_size == 8
