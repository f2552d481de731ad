"""A whole store as version 1 wrote it: sealed and active segments, side files, head and documents, opened today."""

from __future__ import annotations

import itertools
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

import lamina
from lamina.disk import Disk, MemoryDisk
from lamina.log import IndexRecovery, OffsetIndex, catalog, partition
from lamina.log.seal import read_footer
from lamina.testing import FakeClock
from tests.golden.files import golden_tree, load_tree

NOW_US = 1_700_000_000_000_000
STORE = "store-1"
SEALED = f"events/0/{0:020d}"
PACKED_COUNT, BATCH_COUNT, TAIL_COUNT = 5, 100, 3


def message(number: int) -> lamina.Message:
    """What the store holds at each offset."""
    return lamina.Message(
        f"topic/{number % 3}",
        None if number % 7 == 3 else f"value {number}".encode(),
        f"key-{number % 4}".encode() if number % 5 else None,
        {"n": str(number), "näme": "wért"} if number % 2 else {},
        NOW_US - (number * 37) % 101,
        NOW_US + number if number % 6 == 0 else None,
        None,
        number % 128 if number % 4 == 0 else None,
        "events",
        0,
        number,
    )


def messages(start: int, end: int) -> list[lamina.Message]:
    return [message(number) for number in range(start, end)]


def write_store() -> Disk:
    """Packed and Arrow frames in a sealed segment; packed frames with a numbered call in the active one."""
    uids = itertools.count(1)
    patch = pytest.MonkeyPatch()
    for module in (catalog, partition):
        patch.setattr(module, "new_uid", lambda: next(uids).to_bytes(16, "big"))
    disk = MemoryDisk()
    try:
        with lamina.open(
            "golden",
            disk=disk,
            clock=FakeClock(NOW_US, jump=False),
            settings=lamina.Settings(index=lamina.IndexSettings(background=False)),
        ) as store:
            store.create_stream("events", retention_seconds=86400)
            for each in messages(0, PACKED_COUNT):
                store.publish_many([each], stream="events")
            rows = messages(PACKED_COUNT, PACKED_COUNT + BATCH_COUNT)
            store.publish_many(rows, stream="events", producer=("golden", 7))
            store.seal("events")
            end = PACKED_COUNT + BATCH_COUNT
            store.publish_many(messages(end, end + TAIL_COUNT), stream="events", producer=("golden", 8))
    finally:
        patch.undo()
    return disk


@pytest.fixture
def place() -> Path:
    return golden_tree(STORE, write_store)


@pytest.fixture
def disk(place: Path) -> Disk:
    disk = MemoryDisk()
    load_tree(place, disk)
    return disk


def opened(disk: Disk, *, read_only: bool = False) -> lamina.Store:
    return lamina.open("golden", disk=disk, clock=FakeClock(NOW_US, jump=False), read_only=read_only)


@pytest.mark.parametrize("read_only", [False, True])
def test_every_message_of_yesterday_is_read_today(disk: Disk, read_only: bool) -> None:
    with opened(disk, read_only=read_only) as store:
        assert store.streams() == ["default", "events"]
        wanted = messages(0, PACKED_COUNT + BATCH_COUNT + TAIL_COUNT)
        assert list(store.read(stream="events")) == wanted
        table = pa.Table.from_batches(store.read_arrow(stream="events"))
        assert table.column("value").to_pylist() == [each.value for each in wanted]
        report = store.verify()
        assert report.ok, report.problems
        assert (report.dropped_bytes, report.rebuilt) == (0, [])


def test_the_side_files_of_yesterday_are_used_as_they_are(disk: Disk) -> None:
    with opened(disk, read_only=True) as store:
        wanted = messages(0, PACKED_COUNT + BATCH_COUNT + TAIL_COUNT)
        for key in {each.key for each in wanted if each.key is not None}:
            assert store.latest(key, stream="events") == [each for each in wanted if each.key == key][-1]
        for time in range(NOW_US - 102, NOW_US + 2):
            first = next((each.offset for each in wanted if (each.timestamp or 0) >= time), len(wanted))
            assert store.offset_at(time, stream="events") == first
        assert store.topics(stream="events") == ["topic/0", "topic/1", "topic/2"]


def test_a_numbered_call_of_yesterday_is_recognised_today(disk: Disk) -> None:
    with opened(disk) as store:
        end = PACKED_COUNT + BATCH_COUNT
        again = store.publish_many(messages(PACKED_COUNT, end), stream="events", producer=("golden", 7))
        assert again.ranges == {0: (PACKED_COUNT, end)}
        again = store.publish_many(messages(end, end + TAIL_COUNT), stream="events", producer=("golden", 8))
        assert again.ranges == {0: (end, end + TAIL_COUNT)}
        assert store.stream("events").messages == end + TAIL_COUNT


def test_the_policy_and_the_epoch_of_yesterday_are_kept(disk: Disk) -> None:
    with opened(disk) as store:
        info = store.stream("events")
        assert info.policy.retention_seconds == 86400
        assert info.partitions[0].epoch == 1, "a store that was closed goes on in its epoch"
        store.create_stream("events", retention_seconds=86400)


def test_messages_of_today_follow_those_of_yesterday(disk: Disk) -> None:
    with opened(disk) as store:
        count = PACKED_COUNT + BATCH_COUNT + TAIL_COUNT
        assert store.publish("topic/0", b"new", stream="events").offset == count
        store.seal("events")
        assert [each.offset for each in store.read(stream="events")] == list(range(count + 1))


def test_the_offset_index_of_yesterday_fits_its_log(place: Path) -> None:
    with OffsetIndex(0, place / "events" / "0", read_only=True) as index:
        assert IndexRecovery.validate_index(index, place / f"{SEALED}.log")


def test_the_footer_of_yesterday_is_what_its_encoder_writes_today(place: Path, disk: Disk) -> None:
    sealed = read_footer(disk, "events/0", 0)
    assert sealed is not None
    assert sealed.footer.count == PACKED_COUNT + BATCH_COUNT
    stored = (place / f"{SEALED}.log").read_bytes()
    start = sealed.footer_position + 64
    encoded = msgspec.msgpack.encode(sealed.footer)
    assert stored[start : start + len(encoded)] == encoded
