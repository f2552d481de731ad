"""Label indexes beside failing disks, damaged segments and copied directories: no answer is ever wrong."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

import pytest

import lamina
from lamina.disk import MemoryDisk
from lamina.errors import Closed, Corrupt, LaminaError
from lamina.testing import CrashDisk, FakeClock, Fault, FaultyDisk
from tests.unit.index.messages import NOW_US, index_of, offsets, open_store, wait_until

WHERE = 'labels["a"] == "x"'
FIRST_LABELS = f"{0:020d}.labels"


def publish(store: lamina.Store, times: range, label: str = "x", stream: str = "default") -> None:
    store.publish_many(
        [lamina.Message("t", b"v", labels={"a": label}, timestamp=NOW_US + at) for at in times], stream=stream
    )


@pytest.mark.parametrize("limit", [5, None])
@pytest.mark.parametrize("descending", [False, True])
def test_a_damaged_segment_is_never_passed_over_because_there_is_a_limit(limit: int | None, descending: bool) -> None:
    disk = MemoryDisk()
    with open_store(disk) as store:
        for first in (0, 10, 20):
            publish(store, range(first, first + 10))
            store.seal()
    file = disk.open(f"default/0/{10:020d}.log", "write")
    file.pwrite(b"\xff" * 8, 0)
    file.close()
    with open_store(disk) as store, pytest.raises(Corrupt):
        store.query(WHERE, limit=limit, descending=descending)


@pytest.mark.parametrize("at", range(0, 72, 8))
@pytest.mark.parametrize(
    "fault",
    [
        Fault(operation="map", path="*.labels*", error="EIO"),
        Fault(operation="open", path="*.labels", error="EMFILE"),
        Fault(operation="open", path="*.labels.tmp", error="ENOSPC"),
        Fault(operation="append", path="*.labels", error="ENOSPC"),
        Fault(operation="append", path="*.labels", error="ENOSPC", short=100),
        Fault(operation="append", path="*.labels", error="EIO", when="after"),
        Fault(operation="append", path="*.labels.tmp", error="ENOSPC", short=100),
        Fault(operation="rename", path="*.labels*", error="EIO"),
        Fault(operation="sync_directory", path="default/0", error="EIO"),
        Fault(operation="sync", path="*.labels*", error="EIO"),
    ],
    ids=lambda fault: f"{fault.operation} {fault.path} {fault.when}",
)
def test_an_index_write_that_fails_halfway_changes_no_answer(at: int, fault: Fault) -> None:
    disk = MemoryDisk()
    faulty = FaultyDisk(disk)
    with open_store(faulty) as store:
        for first in range(0, 72, 8):
            publish(store, range(first, first + 8))
            if first == at:
                faulty.add(fault)
            index_of(store).step()
            index_of(store).step()  # at rest: parts are merged
            faulty.heal()
            assert store.count(WHERE) == first + 8
        assert offsets(store.query(WHERE)) == list(range(72))
        assert not [name for name in disk.list("default/0") if name.endswith(".tmp")]
    for sealed in (False, True):
        with open_store(disk) as store:
            if sealed:
                store.seal()
            index_of(store).step()
            assert offsets(store.query(WHERE)) == list(range(72))
            assert store.count(WHERE) == 72


def test_times_that_go_back_between_parts_are_exact_after_sealing() -> None:
    disk = MemoryDisk()
    with open_store(disk) as store, open_store(disk, read_only=True) as reader:
        for at in [*range(1000, 1008), *range(100, 116)]:
            store.publish("t", bytes(100_000), labels={"a": "x"}, timestamp=NOW_US + at)
            index_of(store).step()
        between = {"start": NOW_US + 106, "end": NOW_US + 900}
        wanted = list(range(14, 24))
        assert offsets(reader.query(**between)) == wanted  # type: ignore[arg-type]
        store.seal()
        assert offsets(store.query(**between)) == wanted  # type: ignore[arg-type]
        assert store.count(**between) == 10  # type: ignore[arg-type]
        store.publish("t", b"", timestamp=NOW_US + 5000)
        index_of(store).step()
        for one in (store, reader):
            assert offsets(one.query(**between)) == wanted  # type: ignore[arg-type]
            assert offsets(one.query(**between, descending=True)) == wanted[::-1]  # type: ignore[arg-type]


def test_an_index_that_is_newer_than_its_log_is_not_believed(tmp_path: Path) -> None:
    """As a copy of a running store may be: the log first, its index last."""
    settings = lamina.Settings(index=lamina.IndexSettings(chunk_rows=8, background=False))
    first, copy = tmp_path / "first", tmp_path / "copy"
    with lamina.open(first, settings=settings) as store:
        publish(store, range(16), "old")
        index_of(store).step()
        shutil.copytree(first, copy)
        publish(store, range(16, 32), "old")
        index_of(store).step()
        shutil.copy(first / "default/0" / FIRST_LABELS, copy / "default/0" / FIRST_LABELS)
    with lamina.open(copy, settings=settings) as store:
        publish(store, range(16, 32), "new")
        for _ in range(2):
            assert store.count('labels["a"] == "old"') == 16
            assert [m.labels["a"] for m in store.query('labels["a"] == "new"')] == ["new"] * 16
            index_of(store).step()


def test_a_stricter_durability_makes_nothing_durable_that_is_not_synced() -> None:
    crash = CrashDisk()
    disk = FaultyDisk(crash)
    store = open_store(disk)
    store.create_stream("f", durability="flush")
    publish(store, range(16), stream="f")
    disk.add(Fault(operation="sync", path="f/0/*.log", error="EIO"))
    with pytest.raises(LaminaError):
        store.update_stream("f", durability="local")
    index_of(store, "f").step()
    assert FIRST_LABELS not in crash.list("f/0")
    store.close()


def test_a_read_error_makes_no_message_come_twice() -> None:
    for after in range(0, 63, 3):
        faulty = FaultyDisk(MemoryDisk())
        with open_store(faulty, chunk_rows=4) as store:
            for at in range(60):
                store.publish("t", b"v%d" % at, labels={"a": "x"}, timestamp=NOW_US + at)
            faulty.add(Fault(operation="pread", path="*.log", error="EIO", after=after))
            with suppress(LaminaError):
                store.query()
            faulty.heal()
            assert offsets(store.query()) == list(range(60))
            assert offsets(store.query("size > 0")) == list(range(60))


def test_damaged_definitions_cost_composites_and_nothing_else() -> None:
    disk = MemoryDisk()
    with open_store(disk) as store:
        publish(store, range(20))
        store.create_composite("c", ["a", "b"])
    file = disk.open("default/composites.json", "write")
    file.pwrite(b"?", 60)
    file.close()
    for read_only in (False, True):
        with open_store(disk, read_only=read_only) as store:
            assert store.count(WHERE) == 20
            with pytest.raises(Corrupt, match=r"composites\.json"):
                store.composites()
    with open_store(disk) as store, pytest.raises(Corrupt):
        store.create_composite("d", ["a", "b"])


def test_a_composite_gets_ready_beside_a_segment_that_cannot_be_sealed(tmp_path: Path) -> None:
    settings = lamina.Settings(index=lamina.IndexSettings(chunk_rows=8, background=False))
    clock = FakeClock(NOW_US, jump=False)
    with lamina.open(tmp_path, settings=settings, clock=clock) as store:
        for at in range(16):
            store.publish("t", bytes(100), labels={"a": "x", "b": "y"}, timestamp=NOW_US + at)
            index_of(store).step()
        view = store._stream("default").views()[0]
        frame = list(view.open(view.segments.handles[0]).reader.frames())[5]
        with (tmp_path / f"default/0/{0:020d}.log").open("r+b") as log:
            log.seek(frame.position + frame.header.payload_start + 30)
            log.write(b"\xff\xff")
        with pytest.raises(LaminaError):
            store.seal()
        store.create_composite("c", ["a", "b"])
        index_of(store).step()
        assert [one.state for one in store.composites()] == ["ready"]
        assert index_of(store).backlog() >= 0


def test_queries_between_publishes_do_not_keep_the_index_out_of_its_file() -> None:
    disk = MemoryDisk()
    with open_store(disk) as store:
        for first in range(0, 60, 5):
            publish(store, range(first, first + 5))
            assert store.count(WHERE) == first + 5
            index_of(store).step()
        assert index_of(store).backlog() < 8
        assert FIRST_LABELS in disk.list("default/0")


def test_an_index_whose_segment_is_gone_is_swept_away() -> None:
    disk = MemoryDisk()
    with open_store(disk) as store:
        publish(store, range(20))
    file = disk.open(f"default/0/{777:020d}.labels", "create")
    file.close()
    with open_store(disk) as store:
        index_of(store).step()
    assert f"{777:020d}.labels" not in disk.list("default/0")


def test_a_page_outlives_its_store() -> None:
    disk = MemoryDisk()
    with open_store(disk) as store:
        publish(store, range(100))
        reader = open_store(disk, read_only=True)
        page = reader.query(WHERE)
        reader.close()
        assert len(list(page)) == 100
        mine = store.query(WHERE)
    assert len(list(mine)) == 100


def test_composites_of_a_closed_stream_cannot_be_changed() -> None:
    store = open_store()
    store.create_stream("s")
    index = index_of(store, "s")
    store.delete_stream("s")
    with pytest.raises(Closed):
        index.create_composite("c", ["a", "b"])
    store.close()


def test_one_stream_that_cannot_be_indexed_does_not_hold_up_the_others(tmp_path: Path) -> None:
    faulty = FaultyDisk(MemoryDisk())
    settings = lamina.Settings(index=lamina.IndexSettings(chunk_rows=8, interval_seconds=0.001))
    with lamina.open("store", disk=faulty, settings=settings) as store:
        for name in ("bad", "good"):
            store.create_stream(name)
        faulty.add(Fault(operation="open", path="bad/0/*.labels*", error="ENOSPC", times=1000))
        publish(store, range(20), stream="bad")
        wait_until(lambda: faulty.calls["open"] > 0)
        publish(store, range(20), stream="good")
        wait_until(lambda: index_of(store, "good").backlog() < 8, seconds=4)
        assert store.count(WHERE, stream="bad") == 20
