"""The time index: where the first message at or after a time is, in whatever order timestamps come."""

from __future__ import annotations

import struct

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lamina.disk import MemoryDisk
from lamina.errors import Corrupt
from lamina.log import LogSettings, TimeRange
from lamina.log.time_index import BEFORE_ALL, TimeIndex
from tests.unit.log.segments import append, new_partition, reopened, row

GROUPS = st.lists(st.lists(st.integers(0, 60), min_size=1, max_size=5), min_size=1, max_size=12)
SETTINGS = LogSettings(index_interval_bytes=200, index_entries_max=4)


def naive_offset_at(times: list[int], wanted: int, start: int = 0) -> int:
    return next((offset for offset, time in enumerate(times) if offset >= start and time >= wanted), len(times))


@settings(max_examples=60, deadline=None)
@given(GROUPS, st.integers(0, 3), st.booleans())
@example([[50], [10], [60], [0]], 0, True)
def test_the_time_index_agrees_with_a_scan(groups: list[list[int]], dropped: int, is_sealed: bool) -> None:
    partition = new_partition(settings=SETTINGS)
    for group in groups:
        append(partition, *(row(timestamp=time) for time in group))
    if is_sealed:
        partition.roll()
        partition.seal_closed()
    times = [time for group in groups for time in group]
    start = min(dropped, len(times))
    partition.delete_before(start)
    for wanted in range(62):
        assert partition.view.offset_at(wanted) == naive_offset_at(times, wanted, start)


@settings(max_examples=40, deadline=None)
@given(GROUPS, st.integers(0, 61), st.integers(0, 61))
def test_a_range_of_times_agrees_with_a_scan(groups: list[list[int]], low: int, high: int) -> None:
    partition = new_partition(settings=SETTINGS)
    for group in groups:
        append(partition, *(row(timestamp=time) for time in group))
    times = [time for group in groups for time in group]
    blocks = partition.view.blocks(times=TimeRange(low, high))
    found = [int(offset) for block in blocks for offset in block.offset_array()]
    assert found == [offset for offset, time in enumerate(times) if low <= time < high]


def test_the_time_index_goes_on_after_reopening() -> None:
    disk = MemoryDisk()
    times = [50, 10, 60, 20, 70, 5]
    for time in times:
        partition = reopened(disk, SETTINGS) if disk.list("") else new_partition(disk, SETTINGS)
        append(partition, row(timestamp=time))
        partition.close()
    view = reopened(disk, SETTINGS).view
    assert [view.offset_at(t) for t in range(72)] == [naive_offset_at(times, t) for t in range(72)]


def test_the_first_entry_of_a_time_index_has_nothing_before_it() -> None:
    index = TimeIndex()
    index.append(BEFORE_ALL, 0, 64)
    index.append(500, 10, 5000)
    assert index.lookup(0) == 64
    assert index.lookup(500) == 64
    assert index.lookup(501) == 5000
    assert index.encode() == struct.pack(">qIIqII", BEFORE_ALL, 0, 64, 500, 10, 5000)
    assert TimeIndex(data=index.encode()).encode() == index.encode()


def test_an_empty_time_index_finds_nothing() -> None:
    assert TimeIndex().lookup(5) is None
    assert len(TimeIndex()) == 0


@pytest.mark.parametrize("size", [1, 15, 17])
def test_a_time_index_that_ends_inside_an_entry_is_corrupt(size: int) -> None:
    with pytest.raises(Corrupt, match="whole entries"):
        TimeIndex(data=bytes(size), where="x.timeindex")


@pytest.mark.parametrize("entries", [[(5, 0, 64), (4, 1, 128)], [(5, 0, 64), (6, 1, 64)], [(5, 0, 128), (6, 1, 64)]])
def test_a_time_index_whose_entries_do_not_rise_is_corrupt(entries: list[tuple[int, int, int]]) -> None:
    with pytest.raises(Corrupt, match="rise"):
        TimeIndex(data=b"".join(struct.pack(">qII", *entry) for entry in entries))
