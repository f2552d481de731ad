"""Streams: made, changed and removed without surprises."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import lamina
from lamina import LogSettings, StreamPolicy
from lamina.disk import MemoryDisk
from lamina.errors import Conflict, InvalidRequest, NotFound, OffsetOutOfRange
from tests.unit.store.stores import memory_store, values


def test_a_new_store_has_the_default_stream(store: lamina.Store) -> None:
    assert store.streams() == ["default"]
    assert store.stream().policy == StreamPolicy()
    assert store.stream("default").name == "default"


def test_a_stream_is_created_with_its_policy(store: lamina.Store) -> None:
    store.create_stream("events", partitions=3, durability="flush", retention_seconds=60, partition_by="key")
    info = store.stream("events")
    assert info.policy == StreamPolicy(partitions=3, durability="flush", retention_seconds=60, partition_by="key")
    assert [partition.partition for partition in info.partitions] == [0, 1, 2]
    assert (info.messages, store.streams()) == (0, ["default", "events"])


def test_creating_a_stream_again_is_fine_if_nothing_differs(store: lamina.Store) -> None:
    store.create_stream("events", retention_seconds=60)
    store.publish("t", b"kept", stream="events")
    store.create_stream("events", retention_seconds=60.0)
    assert values(store, "events") == [b"kept"]


@pytest.mark.parametrize(
    "change",
    [
        {"partitions": 2},
        {"durability": "memory"},
        {"durability": "flush"},
        {"retention_seconds": 5},
        {"retention_bytes": 5},
        {"compaction": "latest"},
        {"window_seconds": 60},
        {"partition_by": "key"},
    ],
    ids=str,
)
def test_creating_a_stream_again_with_another_policy_is_a_conflict(store: lamina.Store, change: dict[str, Any]) -> None:
    store.create_stream("events")
    with pytest.raises(Conflict, match=next(iter(change))):
        store.create_stream("events", **change)
    assert store.stream("events").policy == StreamPolicy()


@pytest.mark.parametrize(
    "policy",
    [
        {"partitions": 0},
        {"partitions": -1},
        {"partitions": 1025},
        {"partitions": True},
        {"partitions": "1"},
        {"partitions": 1.0},
        {"durability": "disk"},
        {"durability": None},
        {"durability": "object"},
        {"compaction": "all"},
        {"partition_by": "value"},
        {"window_seconds": 0},
        {"window_seconds": 1.5},
        {"retention_bytes": 0},
        {"retention_bytes": "1G"},
        {"retention_seconds": 0},
        {"retention_seconds": -1},
        {"retention_seconds": True},
        {"retention_seconds": "1d"},
        {"retention_seconds": float("nan")},
        {"retention_seconds": float("inf")},
    ],
    ids=str,
)
def test_a_policy_that_makes_no_sense_is_refused_by_name(store: lamina.Store, policy: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest, match=next(iter(policy))):
        store.create_stream("events", **policy)
    store.create_stream("other")
    with pytest.raises((InvalidRequest, Conflict), match=next(iter(policy))):
        store.update_stream("other", **policy)
    assert store.streams() == ["default", "other"]
    assert store.stream("other").policy == StreamPolicy()


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a/b", "a b", ".hidden", "-x", "ä", "a\0", "x" * 129, None, 5, b"x", ["x"]]
)
def test_a_bad_stream_name_is_refused(store: lamina.Store, name: Any) -> None:
    with pytest.raises(InvalidRequest, match="stream name"):
        store.create_stream(name)
    assert store.streams() == ["default"]


@pytest.mark.parametrize("name", ["a", "0", "A.b_c-1", "x" * 128])
def test_a_good_stream_name_is_taken(store: lamina.Store, name: str) -> None:
    store.create_stream(name)
    assert name in store.streams()


@pytest.mark.parametrize("name", ["lock", "lamina.json"])
def test_a_stream_cannot_take_the_name_of_a_file_of_the_store(tmp_path: Path, name: str) -> None:
    with lamina.open(tmp_path / "data") as store:
        with pytest.raises(InvalidRequest, match=name):
            store.create_stream(name)
        assert store.streams() == ["default"]
    with lamina.open(tmp_path / "data") as store:
        assert store.streams() == ["default"]
    assert not [path for path in (tmp_path / "data").iterdir() if path.name.startswith(".")]


def test_a_policy_changes_in_part(store: lamina.Store) -> None:
    store.create_stream("events", retention_seconds=60, window_seconds=10)
    store.update_stream("events", retention_seconds=90, retention_bytes=1000)
    assert store.stream("events").policy == StreamPolicy(retention_seconds=90, retention_bytes=1000, window_seconds=10)
    store.update_stream("events", retention_seconds=90)
    store.update_stream("events")
    store.create_stream("events", retention_seconds=90, retention_bytes=1000, window_seconds=10)


@pytest.mark.parametrize("change", [{"partitions": 2}, {"partition_by": "key"}, {"durability": "memory"}], ids=str)
def test_what_is_fixed_at_creation_cannot_change(store: lamina.Store, change: dict[str, Any]) -> None:
    store.create_stream("events")
    with pytest.raises(Conflict, match=next(iter(change))):
        store.update_stream("events", **change)
    assert store.stream("events").policy == StreamPolicy()


def test_an_unknown_part_of_a_policy_is_refused(store: lamina.Store) -> None:
    with pytest.raises(InvalidRequest, match="retention_hours"):
        store.update_stream("default", retention_hours=1)


def test_durability_changes_between_flush_and_local(store: lamina.Store) -> None:
    store.update_stream("default", durability="flush")
    store.publish("t", b"1")
    store.update_stream("default", durability="local")
    store.publish("t", b"2")
    assert values(store) == [b"1", b"2"]


def test_policies_and_streams_are_there_after_reopening() -> None:
    disk = MemoryDisk()
    with memory_store(disk=disk) as store:
        store.create_stream("events", partitions=2)
        store.update_stream("events", retention_bytes=500)
        store.create_stream("gone")
        store.delete_stream("gone")
    with memory_store(disk=disk) as store:
        assert store.streams() == ["default", "events"]
        assert store.stream("events").policy == StreamPolicy(partitions=2, retention_bytes=500)


def test_a_deleted_stream_is_gone_and_its_name_is_free(store: lamina.Store) -> None:
    store.create_stream("events")
    store.publish("t", b"old", stream="events")
    store.delete_stream("events")
    assert store.streams() == ["default"]
    with pytest.raises(NotFound):
        store.publish("t", b"x", stream="events")
    store.create_stream("events", partitions=2)
    assert store.stream("events").messages == 0


def test_a_message_that_was_read_outlives_its_stream(store: lamina.Store) -> None:
    store.create_stream("events")
    store.publish_many([{"topic": "t", "value": bytes(1000), "labels": {"a": "b"}}] * 100, stream="events")
    messages = list(store.read(stream="events"))
    store.delete_stream("events")
    assert [message.labels for message in messages] == [{"a": "b"}] * 100


@pytest.mark.parametrize(
    "call",
    [
        lambda s: s.stream("evnets"),
        lambda s: s.publish("t", b"", stream="evnets"),
        lambda s: s.publish("t", b"", stream="evnets", wait=False),
        lambda s: s.publish_many([], stream="evnets"),
        lambda s: s.producer("evnets"),
        lambda s: s.read(stream="evnets"),
        lambda s: s.read_arrow(stream="evnets"),
        lambda s: s.get("evnets/0/0"),
        lambda s: s.latest(b"k", stream="evnets"),
        lambda s: s.contains_key(b"k", stream="evnets"),
        lambda s: s.offset_at(0, stream="evnets"),
        lambda s: s.topics("evnets"),
        lambda s: s.segments("evnets"),
        lambda s: s.seal("evnets"),
        lambda s: s.update_stream("evnets"),
        lambda s: s.delete_stream("evnets"),
        lambda s: s.delete_before("evnets"),
    ],
)
def test_an_unknown_stream_is_not_found_with_a_hint(store: lamina.Store, call: Any) -> None:
    store.create_stream("events")
    with pytest.raises(NotFound, match="did you mean 'events'"):
        call(store)


@pytest.mark.parametrize("name", [None, 5, b"default", ["default"], {}])
def test_a_stream_is_named_by_text(store: lamina.Store, name: Any) -> None:
    for call in (store.stream, store.segments, store.seal, store.delete_stream, store.update_stream):
        with pytest.raises((NotFound, InvalidRequest)):
            call(name)
    with pytest.raises((NotFound, InvalidRequest)):
        store.read(stream=name)


def test_deleting_before_an_offset_forgets_what_was_below(store: lamina.Store) -> None:
    for n in range(10):
        store.publish("t", str(n).encode())
    store.delete_before("default", partition=0, offset=4)
    assert [message.offset for message in store.read()] == [4, 5, 6, 7, 8, 9]
    assert store.stream().messages == 6
    with pytest.raises(OffsetOutOfRange) as caught:
        store.read(start=3)
    assert (caught.value.earliest, caught.value.latest) == (4, 10)
    store.delete_before("default", offset=2)
    assert store.stream().partitions[0].earliest == 4


def test_deleting_beyond_the_end_empties_the_stream_and_offsets_go_on(store: lamina.Store) -> None:
    for _ in range(3):
        store.publish("t", b"")
    store.delete_before(offset=100)
    assert list(store.read()) == []
    assert store.stream().partitions[0].earliest == 3
    assert store.publish("t", b"next").offset == 3


def test_deleting_whole_segments_removes_their_files() -> None:
    disk = MemoryDisk()
    with memory_store(LogSettings(segment_bytes_max=4096), disk) as store:
        for n in range(20):
            store.publish("t", bytes(1500), key=str(n).encode())
        store.seal()
        before = len([name for name in disk.list("default/0") if name.endswith(".log")])
        store.delete_before(offset=15)
        assert len([name for name in disk.list("default/0") if name.endswith(".log")]) < before / 2
        assert [message.offset for message in store.read()] == list(range(15, 20))
        assert store.verify().ok
        assert store.latest(b"3") is None
    with memory_store(LogSettings(segment_bytes_max=4096), disk) as store:
        assert [message.offset for message in store.read()] == list(range(15, 20))


@pytest.mark.parametrize("offset", [-1, True, 1.5, "5", None])
def test_deleting_before_takes_an_offset(store: lamina.Store, offset: Any) -> None:
    store.publish("t", b"kept")
    with pytest.raises(InvalidRequest, match="offset"):
        store.delete_before(offset=offset)
    assert values(store) == [b"kept"]


def test_deleting_in_a_partition_that_is_not_there_is_not_found(store: lamina.Store) -> None:
    with pytest.raises(NotFound, match="no partition 1"):
        store.delete_before(partition=1, offset=0)


def test_topics_are_listed_once_and_by_prefix(store: lamina.Store) -> None:
    store.create_stream("events", partitions=4)
    for topic in ("orders/eu", "orders/us", "mail", "orders/eu", "ä"):
        store.publish(topic, b"", stream="events")
    assert store.topics("events") == ["mail", "orders/eu", "orders/us", "ä"]
    assert store.topics(stream="events", prefix="orders/") == ["orders/eu", "orders/us"]
    assert store.topics("events", "x") == []
    store.seal("events")
    store.publish("new", b"", stream="events")
    assert store.topics("events") == ["mail", "new", "orders/eu", "orders/us", "ä"]
    assert store.topics() == []


def test_segments_tell_what_they_hold(store: lamina.Store) -> None:
    store.publish("t", b"1", timestamp=50)
    store.publish("t", b"2", timestamp=20)
    store.seal()
    store.publish("t", b"3", timestamp=70)
    sealed, active = store.segments()
    assert (sealed.base, sealed.end, sealed.messages, sealed.state, sealed.tier) == (0, 2, 2, "sealed", "hot")
    assert (sealed.timestamp_min, sealed.timestamp_max, sealed.damage) == (20, 50, None)
    assert (active.base, active.end, active.messages, active.state) == (2, 3, 1, "active")
    assert store.stream().bytes == sealed.bytes + active.bytes


def test_sealing_twice_or_nothing_changes_nothing(store: lamina.Store) -> None:
    store.seal()
    store.publish("t", b"1")
    store.seal()
    before = store.segments()
    store.seal()
    assert store.segments() == before
    assert values(store) == [b"1"]


def test_metrics_count_what_happened(store: lamina.Store) -> None:
    store.publish("t", b"1")
    store.publish_many([{"topic": "t", "value": b"2"}] * 5)
    list(store.read(limit=4))
    store.seal()
    numbers = store.metrics()
    assert numbers["lamina_messages_published_total"] == 6
    assert numbers["lamina_commits_total"] == 2
    assert numbers["lamina_segments_sealed_total"] == 1
    assert numbers["lamina_streams"] == 1
    assert numbers["lamina_messages_read_total"] == 4
