"""Keeping `.labels` files: in the background, after sealing, after damage, beside readers."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

import lamina
from lamina.disk import MemoryDisk
from lamina.index import label_file
from tests.unit.index.messages import index_of, offsets, open_store, publish, wait_until

LABELS = [{"app": "dm", "thread": str(at % 5)} for at in range(40)]
WHERE = 'labels["thread"] == "3"'
WANTED = [at for at in range(40) if at % 5 == 3]
FIRST = f"default/0/{0:020d}.labels"


def contents(disk: MemoryDisk, path: str = FIRST) -> bytes:
    file = disk.open(path, "read")
    try:
        return file.pread(file.size(), 0)
    finally:
        file.close()


def replace(disk: MemoryDisk, data: bytes, path: str = FIRST) -> None:
    disk.unlink(path)
    file = disk.open(path, "create")
    file.append([data])
    file.close()


def records(data: bytes) -> list[tuple[int, int]]:
    found, position = [], label_file.HEADER_BYTES
    while (record := label_file.record_at(data, position)) is not None:
        found.append((record.first, record.end))
        position = record.end_position
    return found


def test_a_growing_segment_gets_a_record_for_each_chunk() -> None:
    disk = MemoryDisk()
    with open_store(disk) as store:
        for _ in range(3):
            publish(store, LABELS[:7])
            index_of(store).step()
        assert records(contents(disk)) == [(0, 14)]


def test_a_sealed_segment_gets_one_record_for_all() -> None:
    disk = MemoryDisk()
    with open_store(disk) as store:
        for at in range(0, 40, 10):
            publish(store, LABELS[at : at + 10])
            index_of(store).step()
        assert len(records(contents(disk))) > 1
        store.seal()
        assert offsets(store.query(WHERE)) == WANTED
        index_of(store).step()
        assert records(contents(disk)) == [(0, 40)]
        assert offsets(store.query(WHERE)) == WANTED


def test_nothing_is_written_twice() -> None:
    disk = MemoryDisk()
    with open_store(disk) as store:
        publish(store, LABELS)
        store.seal()
        index_of(store).step()
        written = contents(disk)
        assert index_of(store).step() is None
    with open_store(disk) as store:
        index_of(store).step()
    assert contents(disk) == written


def test_a_growing_segment_of_many_parts_is_merged_when_it_rests() -> None:
    disk = MemoryDisk()
    with open_store(disk) as store:
        for at in range(0, 40, 8):
            publish(store, LABELS[at : at + 8])
            again = index_of(store).step()
        assert len(records(contents(disk))) == 5
        assert again is not None
        assert index_of(store).step() is None
        assert records(contents(disk)) == [(0, 40)]
        publish(store, LABELS)
        index_of(store).step()
        assert len(store.query(WHERE)) == 16


@pytest.mark.parametrize("place", ["header", "record header", "payload", "cut", "empty", "gone", "foreign"])
def test_a_damaged_file_changes_no_answer_and_is_made_anew(place: str) -> None:
    disk = MemoryDisk()
    with open_store(disk) as store:
        publish(store, LABELS)
        store.seal()
        index_of(store).step()
    whole = contents(disk)
    at = {"header": 3, "record header": 70, "payload": 400}.get(place)
    if at is not None:
        damaged = bytearray(whole)
        damaged[at] ^= 0x10
        replace(disk, bytes(damaged))
    elif place == "gone":
        disk.unlink(FIRST)
    else:
        replace(disk, {"cut": whole[:-100], "empty": b"", "foreign": label_file.encode_header(bytes(16))}[place])
    with open_store(disk, read_only=True) as reader:
        assert offsets(reader.query(WHERE)) == WANTED
    with open_store(disk) as store:
        assert offsets(store.query(WHERE)) == WANTED
        index_of(store).step()
        assert offsets(store.query(WHERE)) == WANTED
    assert contents(disk) == whole


def test_a_torn_record_is_written_again_in_a_new_file() -> None:
    disk = MemoryDisk()
    with open_store(disk) as store:
        for at in (0, 8):
            publish(store, LABELS[at : at + 8])
            index_of(store).step()
    whole = contents(disk)
    replace(disk, whole[:-50])
    with open_store(disk) as store:
        assert offsets(store.query(WHERE)) == [3, 8, 13]
        publish(store, LABELS[16:32])
        index_of(store).step()
        assert records(contents(disk))[-1][1] == 32
        assert offsets(store.query(WHERE)) == [3, 8, 13, 18, 23, 28]


def test_a_deleted_segment_takes_its_index_along() -> None:
    disk = MemoryDisk()
    with open_store(disk) as store:
        publish(store, LABELS)
        store.seal()
        index_of(store).step()
        store.delete_before(offset=40)
        assert FIRST not in disk.list("default/0")
        assert store.count() == 0
        publish(store, LABELS)
        assert len(store.query(WHERE)) == 8


def test_messages_that_a_power_loss_may_take_are_not_in_files() -> None:
    disk = MemoryDisk()
    with open_store(disk) as store:
        store.create_stream("f", durability="flush")
        publish(store, LABELS, stream="f")
        index_of(store, "f").step()
        assert f"{0:020d}.labels" not in disk.list("f/0")
        assert len(store.query(WHERE, stream="f")) == 8
        for partition in store._owned().get("f").owned_partitions():
            partition.flush()
        index_of(store, "f").step()
        assert f"{0:020d}.labels" in disk.list("f/0")


def test_readers_beside_the_owner_use_what_it_has_written_and_see_the_rest() -> None:
    disk = MemoryDisk()
    with open_store(disk) as store, open_store(disk, read_only=True) as reader:
        for at in range(0, 40, 10):
            publish(store, LABELS[at : at + 10])
            assert offsets(reader.query(WHERE)) == [one for one in WANTED if one < at + 10]
            index_of(store).step()
            assert offsets(reader.query(WHERE)) == [one for one in WANTED if one < at + 10]
        store.seal()
        index_of(store).step()
        assert offsets(reader.query(WHERE)) == WANTED
        files = {name for name in disk.list("default/0") if name.endswith(".labels")}
        assert files == {f"{0:020d}.labels"}


def test_more_segments_than_may_be_open_are_all_searched() -> None:
    settings = lamina.Settings(index=lamina.IndexSettings(chunk_rows=8, open_indexes_max=2, background=False))
    with lamina.open("memory:", settings=settings) as store:
        for _ in range(6):
            publish(store, LABELS)
            store.seal()
        index_of(store).step()
        for _ in range(2):
            assert store.count(WHERE) == 48
            assert len(store.query(WHERE)) == 48
        loaded = [one for one in index_of(store).partitions[0]._segments.values() if one.is_loaded]
        assert len(loaded) == 2


def test_the_worker_indexes_by_itself_and_ends_with_the_store(tmp_path: Path) -> None:
    settings = lamina.Settings(index=lamina.IndexSettings(chunk_rows=1000, interval_seconds=0.001))
    with lamina.open(tmp_path, settings=settings) as store:
        store.create_stream("s", partitions=2)
        for at in range(20):
            store.publish_many(
                [lamina.Message(f"t{row % 7}", b"v", labels={"n": str(row % 10)}) for row in range(500)], stream="s"
            )
            assert store.count('labels["n"] == "3"', stream="s") == 50 * (at + 1)
        store.seal("s")
        store.create_composite("c", ["n", "m"], "s")
        wait_until(lambda: all(one.state == "ready" for one in store.composites("s")))
        wait_until(lambda: len(list(tmp_path.rglob("*.labels"))) == 2)
    assert not [thread for thread in threading.enumerate() if thread.name == "lamina-indexer"]


def test_a_stream_can_be_deleted_while_it_is_indexed(tmp_path: Path) -> None:
    settings = lamina.Settings(index=lamina.IndexSettings(chunk_rows=100, interval_seconds=0.001))
    with lamina.open(tmp_path, settings=settings) as store:
        for _ in range(10):
            store.create_stream("s")
            store.publish_many([lamina.Message("t", b"v", labels={"n": "1"})] * 500, stream="s")
            store.seal("s")
            store.delete_stream("s")
            assert not (tmp_path / "s").exists()
