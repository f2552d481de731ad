"""A disk that is full or broken: typed errors, nothing half visible, and the next call works where it can."""

from __future__ import annotations

import random
from contextlib import suppress

import pytest
from crc32c import crc32c

import lamina
from lamina.disk import Disk
from lamina.errors import Unavailable
from lamina.log.format import POSITION_MAX, Codec, FrameHeader, encode_frame
from lamina.testing import CrashDisk, FakeClock, Fault, FaultyDisk
from lamina.testing.faults import DiskOperation, ErrorName
from tests.models.ledger import NOW_US, Ledger, owned, some_messages

SETTINGS = lamina.Settings(
    log=lamina.LogSettings(segment_bytes_max=4096, index_interval_bytes=64),
    index=lamina.IndexSettings(background=False),
)


LARGE = lamina.Settings(log=lamina.LogSettings(index_interval_bytes=64), index=lamina.IndexSettings(background=False))


def open_on(disk: Disk, settings: lamina.Settings = SETTINGS) -> lamina.Store:
    return lamina.open("store", disk=disk, clock=FakeClock(NOW_US, jump=False), settings=settings)


def values(store: lamina.Store, stream: str = "default") -> list[bytes | None]:
    return [message.value for message in store.read(stream=stream)]


@pytest.fixture
def crash_disk() -> CrashDisk:
    return CrashDisk()


@pytest.fixture
def disk(crash_disk: CrashDisk) -> FaultyDisk:
    return FaultyDisk(crash_disk)


@pytest.mark.parametrize("error", ["ENOSPC", "EIO", "EDQUOT"])
@pytest.mark.parametrize("short", [None, 0, 1, 63, 64, 100])
def test_a_failed_write_is_unavailable_and_the_next_publish_works(
    disk: FaultyDisk, crash_disk: CrashDisk, error: ErrorName, short: int | None
) -> None:
    store = open_on(disk)
    store.publish("t", b"before")
    disk.add(Fault(operation="append", path="*.log", error=error, short=short))
    with pytest.raises(Unavailable):
        store.publish("t", b"failed")
    assert values(store) == [b"before"]
    assert store.publish("t", b"after").offset == 1
    assert values(store) == [b"before", b"after"]
    crash_disk.crash()
    with open_on(crash_disk) as reopened:
        assert values(reopened) == [b"before", b"after"]
    store.close()


def test_a_write_that_cannot_be_taken_back_closes_the_partition_for_writing(
    disk: FaultyDisk, crash_disk: CrashDisk
) -> None:
    store = open_on(disk)
    store.publish("t", b"before")
    disk.add(Fault(operation="append", path="*.log", short=70))
    disk.add(Fault(operation="truncate", path="*.log"))
    with pytest.raises(Unavailable):
        store.publish("t", b"failed")
    for _ in range(2):
        with pytest.raises(Unavailable, match="closed for writing"):
            store.publish("t", b"refused")
    assert values(store) == [b"before"]
    store.close()
    with open_on(crash_disk) as reopened:
        assert values(reopened) == [b"before"]
        assert reopened.publish("t", b"after").offset == 1


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_failed_fsync_refuses_further_writes_and_reopening_recovers(
    disk: FaultyDisk, crash_disk: CrashDisk, when: str
) -> None:
    store = open_on(disk)
    store.publish("t", b"before")
    disk.add(Fault(operation="sync", path="*.log", when="before" if when == "before" else "after"))
    with pytest.raises(Unavailable, match="unknown"):
        store.publish("t", b"unknown")
    for _ in range(3):
        with pytest.raises(Unavailable, match="closed for writing"):
            store.publish("t", b"refused")
    with pytest.raises(Unavailable):
        store.seal()
    assert values(store) == [b"before"]
    assert store.get("default/0/0").value == b"before"
    store.close()
    crash_disk.crash()
    with open_on(crash_disk) as reopened:
        assert values(reopened) in ([b"before"], [b"before", b"unknown"])
        reopened.publish("t", b"after")
        assert reopened.verify().ok


def test_a_failed_fsync_of_one_partition_leaves_the_others_working(disk: FaultyDisk) -> None:
    with open_on(disk) as store:
        store.create_stream("three", partitions=3)
        messages = some_messages(30, 1)
        parts = Ledger("three", 3).split(messages)
        assert len(parts) == 3
        disk.add(Fault(operation="sync", path="three/1/*.log"))
        with pytest.raises(Unavailable):
            store.publish_many([m.message() for m in messages], "three")
        assert [p.latest for p in store.stream("three").partitions] == [len(parts[0]), 0, len(parts[2])]
        for number in (0, 2):
            topic = parts[number][0].topic
            assert store.publish(topic, b"x", stream="three").partition == number


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("operation", ["append", "sync"])
@pytest.mark.parametrize("error", ["ENOSPC", "EIO"])
def test_a_side_file_that_cannot_be_written_costs_no_message(
    disk: FaultyDisk, crash_disk: CrashDisk, suffix: str, operation: DiskOperation, error: ErrorName
) -> None:
    store = open_on(disk)
    disk.add(Fault(operation=operation, path=f"*{suffix}", error=error, after=1))
    wanted: list[bytes | None] = []
    for number in range(6):
        wanted.append(b"%d" % number)
        assert store.publish("t", wanted[-1], timestamp=NOW_US - number).offset == number
        assert values(store) == wanted
    assert store.offset_at(NOW_US) == 0
    assert store.get("default/0/3").value == b"3"
    store.close()
    crash_disk.crash()
    with open_on(crash_disk) as reopened:
        assert values(reopened) == wanted
        assert reopened.verify().ok


def test_a_head_that_cannot_be_written_costs_no_message(disk: FaultyDisk, crash_disk: CrashDisk) -> None:
    store = open_on(disk)
    disk.add(Fault(operation="pwrite", path="*/head", times=None))
    for number in range(4):
        store.publish("t", b"%d" % number)
    crash_disk.crash()
    store.close()
    with open_on(crash_disk) as reopened:
        assert values(reopened) == [b"0", b"1", b"2", b"3"]


ROLL_FAULTS = [
    Fault(operation="open", path="*1.log", error="ENOSPC"),
    Fault(operation="append", path="*1.log", error="ENOSPC"),
    Fault(operation="append", path="*1.log", error="ENOSPC", short=10),
    Fault(operation="sync", path="*1.log"),
    Fault(operation="sync", path="*1.log", when="after"),
    Fault(operation="open", path="*1.index", error="EMFILE"),
    Fault(operation="open", path="*1.timeindex", error="EMFILE"),
    Fault(operation="unlink", path="*1.index"),
    Fault(operation="sync_directory", path="default/0"),
    Fault(operation="sync_directory", path="default/0", when="after"),
    Fault(operation="map", path="*.log"),
]


@pytest.mark.parametrize("fault", ROLL_FAULTS, ids=lambda f: f"{f.operation}-{f.path}-{f.when}-{f.short}")
def test_a_failed_roll_leaves_the_old_segment_working(fault: Fault) -> None:
    """Small messages still fit the old segment; the large one is taken when the disk is well again."""
    for seed in range(12):
        crash_disk = CrashDisk()
        disk = FaultyDisk(crash_disk)
        store = open_on(disk)
        store.publish("t", b"a" * 1000)
        disk.add(fault)
        with pytest.raises(Unavailable):
            store.publish("t", b"b" * 3500)
        disk.heal()
        assert values(store) == [b"a" * 1000]
        wanted: list[bytes | None] = [b"a" * 1000, b"c"]
        assert store.publish("t", b"c").offset == 1
        if seed % 2:
            assert store.publish("t", b"d" * 3500).offset == 2
            wanted.append(b"d" * 3500)
        crash_disk.crash(random.Random(seed))
        store.close()
        with open_on(crash_disk) as reopened:
            assert reopened.verify().ok, reopened.verify().problems
            assert values(reopened) == wanted
            assert reopened.publish("t", b"e").offset == len(wanted)
            assert values(reopened) == [*wanted, b"e"]


def test_a_new_segment_that_cannot_be_taken_back_does_not_stop_writing_for_ever(disk: FaultyDisk) -> None:
    """Neither the new file's directory entry nor its removal works once; later both would."""
    with open_on(disk) as store:
        store.publish("t", b"a" * 1000)
        disk.add(Fault(operation="sync_directory", path="default/0"))
        disk.add(Fault(operation="unlink", path="*1.log"))
        with pytest.raises(Unavailable):
            store.publish("t", b"b" * 3500)
        disk.heal()
        if owned(store)[0].refusal is None:
            store.publish("t", b"b" * 3500)
            assert values(store) == [b"a" * 1000, b"b" * 3500]
        else:
            with pytest.raises(Unavailable, match="closed for writing"):
                store.publish("t", b"b" * 3500)


def test_a_seal_that_fails_is_tried_again_and_loses_nothing(disk: FaultyDisk) -> None:
    messages = some_messages(40, 3)
    ledger = Ledger()
    with open_on(disk) as store:
        ledger.acknowledge(store.publish_many([m.message() for m in messages]).ranges, messages)
        for fault in (
            Fault(operation="append", path="*.log.tmp", error="ENOSPC"),
            Fault(operation="sync", path="*.log.tmp"),
            Fault(operation="rename", path="*.log.tmp"),
            Fault(operation="append", path="*.keys.tmp", error="ENOSPC"),
            Fault(operation="rename", path="*.index.tmp"),
        ):
            disk.add(fault)
            with suppress(Unavailable):
                store.seal()
            ledger.check(store, random.Random(0))
        disk.heal()
        store.seal()
        ledger.check(store, random.Random(0))
        assert "closed" not in {segment.state for segment in store.segments()}


@pytest.mark.parametrize("operation", ["rename", "sync_directory"])
def test_a_stream_whose_deletion_failed_is_still_there(disk: FaultyDisk, operation: DiskOperation) -> None:
    with open_on(disk) as store:
        store.create_stream("s")
        store.publish("t", b"1", stream="s")
        disk.add(Fault(operation=operation, when="before"))
        with pytest.raises(Unavailable):
            store.delete_stream("s")
        if "s" in store.streams():
            assert values(store, "s") == [b"1"]
            store.publish("t", b"2", stream="s")
        else:
            store.create_stream("s")
            assert values(store, "s") == []


def test_a_stream_whose_creation_failed_can_be_created_again(disk: FaultyDisk) -> None:
    operations: list[DiskOperation] = ["make_directory", "append", "sync", "rename", "sync_directory", "open"]
    with open_on(disk) as store:
        for operation in operations:
            for after in range(4):
                name = f"{operation}-{after}"
                disk.add(Fault(operation=operation, path="*", after=after, error="ENOSPC"))
                try:
                    store.create_stream(name, partitions=2)
                except Unavailable:
                    assert name not in store.streams()
                disk.heal()
                store.create_stream(name, partitions=2)
                store.publish("t", b"x", stream=name)


def test_a_stream_made_stricter_is_durable_at_once(crash_disk: CrashDisk) -> None:
    store = open_on(crash_disk)
    store.create_stream("s", durability="flush")
    store.publish("t", b"1", stream="s")
    store.update_stream("s", durability="local")
    crash_disk.crash()
    store.close()
    with open_on(crash_disk) as reopened:
        assert values(reopened, "s") == [b"1"]


def test_an_acknowledged_message_is_readable_also_where_a_deleted_tail_was_lost(crash_disk: CrashDisk) -> None:
    """delete_before is durable, the messages below it were not yet: new offsets must not fall below the start."""
    store = open_on(crash_disk)
    store.create_stream("s", durability="flush")
    for number in range(5):
        store.publish("t", b"%d" % number, stream="s")
    store.delete_before("s", 0, 5)
    crash_disk.crash()
    store.close()
    with open_on(crash_disk) as reopened:
        receipt = reopened.publish("t", b"new", stream="s")
        assert receipt.offset >= 5
        assert values(reopened, "s") == [b"new"]
        assert reopened.get(receipt.ref).value == b"new"


def test_a_store_whose_first_opening_was_interrupted_can_be_opened(crash_disk: CrashDisk) -> None:
    disk = FaultyDisk(crash_disk, [Fault(operation="rename", path="lamina.json*")])
    with pytest.raises(Unavailable):
        open_on(disk)
    crash_disk.crash("all")
    with open_on(crash_disk) as store:
        store.publish("t", b"x")


def test_deleted_segments_that_stayed_behind_are_no_damage(disk: FaultyDisk, crash_disk: CrashDisk) -> None:
    store = open_on(disk)
    for number in range(12):
        store.publish("t", b"%d" % number * 1500)
    store.seal()
    disk.add(Fault(operation="unlink", path="*/00000000000000000000.log"))
    with pytest.raises(Unavailable):
        store.delete_before("default", 0, 10)
    disk.heal()
    store.delete_before("default", 0, 10)
    store.close()
    with open_on(crash_disk) as reopened:
        assert reopened.verify().ok, reopened.verify().problems
        assert [m.offset for m in reopened.read()] == [10, 11]
        assert reopened.segments()[0].base > 0, "what was deleted is still there"


def test_a_torn_message_that_carries_frames_is_torn_and_not_damage(disk: FaultyDisk, crash_disk: CrashDisk) -> None:
    """Somebody keeps a segment as a message: frames inside an unfinished frame prove nothing about the log."""
    payload = b"\x90"
    header = FrameHeader(Codec.PACKED, 0, 0, 1, crc32c(payload), 0, 0, 0, 0, 0, 0, POSITION_MAX)
    frame = b"".join(encode_frame(header, b"", payload))
    store = open_on(disk, LARGE)
    store.publish("t", b"before")
    disk.add(Fault(operation="append", path="*.log", short=len(frame) * 70))
    disk.add(Fault(operation="truncate", path="*.log", times=None))
    with pytest.raises(Unavailable):
        store.publish("t", (frame + b"\0") * 80)  # one byte more than aligned, so that some of them are
    crash_disk.crash("all")
    store.close()
    with open_on(crash_disk) as reopened:
        assert values(reopened) == [b"before"]
        reopened.publish("t", b"after")
        assert values(reopened) == [b"before", b"after"]
