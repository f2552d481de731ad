"""The offset index inside a partition: it rolls segments, survives refusals, and answers for every offset."""

from __future__ import annotations

import struct

import pytest

from lamina.disk import MemoryDisk
from lamina.errors import OffsetOutOfRange, Unavailable
from lamina.log import LogSettings
from lamina.testing import Fault, FaultyDisk
from tests.unit.log.segments import append, contents, new_partition, read, reopened, row

SMALL = LogSettings(index_entries_max=3, index_interval_bytes=1)


def test_a_full_index_rolls_the_segment() -> None:
    disk = MemoryDisk()
    partition = new_partition(disk, SMALL)
    assert [append(partition, row(n)) for n in range(10)] == list(range(10))
    bases = [handle.base for handle in partition.view.segments.handles]
    assert bases == [0, 3, 6, 9]
    for base in bases:
        assert len(contents(disk, f"s/0/{base:020d}.index")) <= 3 * 8
    assert [message.offset for message in read(partition)] == list(range(10))
    partition.close()


def test_a_full_index_rolls_the_segment_again_after_reopening() -> None:
    disk = MemoryDisk()
    partition = new_partition(disk, SMALL)
    for n in range(2):
        append(partition, row(n))
    partition.close()
    partition = reopened(disk, SMALL)
    for n in range(2, 5):
        append(partition, row(n))
    assert [handle.base for handle in partition.view.segments.handles] == [0, 3]
    partition.close()


def test_a_segment_that_is_large_enough_is_rolled() -> None:
    partition = new_partition(settings=LogSettings(segment_bytes_max=8192))
    for n in range(12):
        append(partition, row(n, size=3000))
    handles = partition.view.segments.handles
    assert len(handles) > 3
    assert all(handle.bytes <= 8192 + 1024 for handle in handles)
    assert [message.offset for message in read(partition)] == list(range(12))


def test_a_message_larger_than_a_segment_gets_one_of_its_own() -> None:
    partition = new_partition(settings=LogSettings(segment_bytes_max=4096))
    for size in (10, 50_000, 10):
        append(partition, row(size=size))
    assert [len(message.value or b"") for message in read(partition)] == [10, 50_000, 10]
    assert len(partition.view.segments.handles) == 3


@pytest.mark.parametrize("offset", [-1, 10, 11, 10**12])
def test_an_offset_beyond_the_log_is_out_of_range(offset: int) -> None:
    partition = new_partition(settings=SMALL)
    for n in range(10):
        append(partition, row(n))
    with pytest.raises(OffsetOutOfRange) as caught:
        partition.view.get(offset)
    assert (caught.value.earliest, caught.value.latest) == (0, 10)


@pytest.mark.parametrize("offset", [0, 3, 6])
def test_an_offset_that_retention_took_away_is_out_of_range(offset: int) -> None:
    partition = new_partition(settings=SMALL)
    for n in range(10):
        append(partition, row(n))
    partition.delete_before(7)
    with pytest.raises(OffsetOutOfRange) as caught:
        partition.view.get(offset)
    assert (caught.value.earliest, caught.value.latest) == (7, 10)
    with pytest.raises(OffsetOutOfRange):
        partition.view.blocks(offset)
    assert partition.view.get(7).offset == 7


def test_an_empty_log_says_that_it_is_empty() -> None:
    with pytest.raises(OffsetOutOfRange, match="empty") as caught:
        new_partition().view.get(0)
    assert (caught.value.earliest, caught.value.latest) == (0, 0)


def test_the_index_is_written_after_the_log_and_synced_when_the_partition_closes() -> None:
    disk = FaultyDisk(MemoryDisk())
    partition = new_partition(disk, SMALL)
    append(partition, row())
    position = struct.unpack(">II", contents(disk, f"s/0/{0:020d}.index"))[1]
    assert position < len(contents(disk, f"s/0/{0:020d}.log"))
    before = disk.calls["sync"]
    partition.close()
    assert disk.calls["sync"] >= before + 3, "log, index, time index and head are synced"


@pytest.mark.parametrize("short", [0, 1, 64, 100])
def test_a_partial_write_is_cut_back_and_the_next_one_lands_where_it_should(short: int) -> None:
    disk = FaultyDisk(MemoryDisk())
    partition = new_partition(disk, SMALL)
    append(partition, row(0))
    size = len(contents(disk, f"s/0/{0:020d}.log"))
    disk.add(Fault(operation="append", path="*.log", error="ENOSPC", short=short))
    with pytest.raises(Unavailable):
        append(partition, row(1))
    assert len(contents(disk, f"s/0/{0:020d}.log")) == size
    assert append(partition, row(2)) == 1
    assert [message.value for message in read(partition)] == [b"00000000", b"00000002"]


@pytest.mark.parametrize("suffix", ["index", "timeindex"])
@pytest.mark.parametrize("short", [None, 3])
def test_a_side_file_that_cannot_be_written_costs_nothing_but_itself(suffix: str, short: int | None) -> None:
    disk = FaultyDisk(MemoryDisk())
    settings = LogSettings(index_interval_bytes=1)
    partition = new_partition(disk, settings)
    append(partition, row(0))
    disk.add(Fault(operation="append", path=f"*.{suffix}", error="ENOSPC", short=short, times=None))
    assert [append(partition, row(n)) for n in range(1, 6)] == [1, 2, 3, 4, 5]
    assert [message.offset for message in read(partition, 3)] == [3, 4, 5]
    assert partition.view.offset_at(row(4).timestamp) == 4
    partition.close()
    disk.heal()
    partition = reopened(disk, settings)
    assert [message.offset for message in read(partition)] == list(range(6))
    assert len(contents(disk, f"s/0/{0:020d}.index")) == 6 * 8


@pytest.mark.parametrize("damage", [b"", b"torn", bytes(800), b"\xff" * 16])
@pytest.mark.parametrize("suffix", ["index", "timeindex"])
def test_a_damaged_index_is_rebuilt_when_the_partition_opens(suffix: str, damage: bytes) -> None:
    disk = MemoryDisk()
    partition = new_partition(disk, LogSettings(index_interval_bytes=1))
    for n in range(5):
        append(partition, row(n))
    partition.close()
    path = f"s/0/{0:020d}.{suffix}"
    wanted = contents(disk, path)
    disk.unlink(path)
    disk.open(path, "create").append([damage])
    partition = reopened(disk, LogSettings(index_interval_bytes=1))
    assert contents(disk, path) == wanted
    assert partition.report.rebuilt == [path]
    assert append(partition, row(5)) == 5
    assert partition.view.get(4).value == b"00000004"


def test_a_clean_partition_rebuilds_no_index() -> None:
    disk = MemoryDisk()
    partition = new_partition(disk, SMALL)
    for n in range(7):
        append(partition, row(n))
    partition.roll()
    partition.seal_closed()
    append(partition, row(7))
    partition.close()
    assert reopened(disk, SMALL).report.rebuilt == []


def test_another_interval_after_reopening_serves_old_and_new_messages() -> None:
    disk = MemoryDisk()
    partition = new_partition(disk, LogSettings(index_interval_bytes=1))
    for n in range(5):
        append(partition, row(n))
    partition.close()
    partition = reopened(disk, LogSettings(index_interval_bytes=8192))
    for n in range(5, 10):
        append(partition, row(n))
    for n in range(10):
        assert partition.view.get(n).value == f"{n:08d}".encode()
