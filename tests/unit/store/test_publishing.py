"""Publishing: one, many, later, numbered; and nothing written when the call is wrong."""

from __future__ import annotations

from concurrent.futures import Future, wait
from datetime import UTC, datetime
from functools import partial
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa
import pytest

import lamina
from lamina.disk import MemoryDisk
from lamina.errors import Closed, Conflict, InvalidRequest, Unavailable
from lamina.testing import Fault, FaultyDisk
from tests.unit.store.stores import NOW_US, memory_store, values, within_patience


def test_a_receipt_says_where_the_message_is(store: lamina.Store) -> None:
    receipt = store.publish("orders/eu", b"1", key=b"42", labels={"app": "dm"})
    assert (receipt.stream, receipt.partition, receipt.offset, receipt.ref) == ("default", 0, 0, "default/0/0")
    assert receipt.epoch == store.stream().partitions[0].epoch
    assert receipt.timestamp == NOW_US
    assert store.publish("orders/eu", b"2").offset == 1


def test_every_field_is_read_back(store: lamina.Store) -> None:
    receipt = store.publish(
        "t", b"v", key=b"k", labels={"a": "b"}, timestamp=datetime(2023, 1, 1, tzinfo=UTC), ttl=1.5, priority=3
    )
    message = store.get(receipt.ref)
    assert message == lamina.Message(
        "t", b"v", b"k", {"a": "b"}, 1_672_531_200_000_000, NOW_US + 1_500_000, None, 3, "default", 0, 0
    )
    assert message.ref == receipt.ref


def test_a_tombstone_has_no_value_and_an_empty_value_is_one(store: lamina.Store) -> None:
    store.publish("t", None)
    store.publish("t", b"")
    assert values(store) == [None, b""]


def test_publishing_without_waiting_gives_futures_in_order(store: lamina.Store) -> None:
    futures = [store.publish("t", str(n).encode(), wait=False) for n in range(100)]
    assert all(isinstance(future, Future) for future in futures)
    assert [future.result(20).offset for future in futures] == list(range(100))
    assert values(store) == [str(n).encode() for n in range(100)]
    assert not futures[0].cancel()


def test_a_future_gets_the_error_of_its_commit() -> None:
    disk = FaultyDisk(MemoryDisk())
    store = memory_store(disk=disk)
    disk.add(Fault(operation="append", path="*.log", error="ENOSPC"))
    future = store.publish("t", b"1", wait=False)
    assert isinstance(future.exception(20), Unavailable)
    assert store.publish("t", b"2", wait=False).result(20).offset == 0
    store.close()


def test_closing_the_store_settles_every_future() -> None:
    store = memory_store()
    futures = [store.publish("t", b"", wait=False) for _ in range(50)]
    store.close()
    assert not wait(futures, 0).not_done
    assert sorted(future.result().offset for future in futures) == list(range(50))


def test_many_messages_and_dicts_get_one_receipt(store: lamina.Store) -> None:
    items = [
        lamina.Message("a", b"1", b"k", {"x": "y"}, 5, 6, 7, 8),
        {"topic": "b", "value": None, "labels": {"l": "m"}},
        {"topic": "c", "value": b"3", "offset": 99, "partition": 7, "stream": "elsewhere"},
    ]
    receipt = store.publish_many(item for item in items)
    assert (receipt.stream, receipt.count, receipt.ranges) == ("default", 3, {0: (0, 3)})
    assert [(m.topic, m.value, m.key, m.labels, m.timestamp, m.priority) for m in store.read()] == [
        ("a", b"1", b"k", {"x": "y"}, 5, 8),
        ("b", None, None, {"l": "m"}, NOW_US, None),
        ("c", b"3", None, {}, NOW_US, None),
    ]


def test_publishing_nothing_gives_an_empty_receipt(store: lamina.Store) -> None:
    empty = pa.table({"topic": pa.array([], pa.utf8()), "value": pa.array([], pa.binary())})
    sources: list[object] = [[], empty]
    for nothing in sources:
        receipt = store.publish_many(nothing)
        assert (receipt.count, receipt.ranges) == (0, {})
    assert values(store) == []


@pytest.mark.parametrize("count", [1, 63, 64, 1000])
def test_rows_and_arrow_are_stored_alike(store: lamina.Store, count: int) -> None:
    rows = [{"topic": f"t{n % 3}", "value": str(n).encode(), "labels": {"n": str(n)}} for n in range(count)]
    table = pa.table(
        {
            "topic": [row["topic"] for row in rows],
            "value": [row["value"] for row in rows],
            "labels": pa.StructArray.from_arrays([pa.array([str(n) for n in range(count)])], ["n"]),
        }
    )
    store.publish_many(rows)
    assert store.publish_many(table).ranges == {0: (count, 2 * count)}
    found = [(m.topic, m.value, m.labels) for m in store.read()]
    assert found[:count] == found[count:] == [(r["topic"], r["value"], r["labels"]) for r in rows]


def test_a_table_of_many_chunks_is_one_call(store: lamina.Store) -> None:
    chunk = pa.record_batch({"topic": ["t"] * 10, "value": [b"v"] * 10})
    table = pa.Table.from_batches([chunk] * 7)
    assert store.publish_many(table).ranges == {0: (0, 70)}
    assert store.publish_many(table.slice(5, 20)).ranges == {0: (70, 90)}
    assert store.publish_many(table.to_reader()).ranges == {0: (90, 160)}
    assert store.metrics()["lamina_commits_total"] == 3


def test_a_bad_row_of_a_later_chunk_is_named_by_its_row_in_the_table(store: lamina.Store) -> None:
    good = pa.record_batch({"topic": ["t"] * 10, "value": [b"v"] * 10})
    bad = pa.record_batch({"topic": ["t", ""], "value": [b"v"] * 2})
    with pytest.raises(InvalidRequest, match="row 11"):
        store.publish_many(pa.Table.from_batches([good, bad]))
    assert values(store) == []


def test_a_topic_that_its_dictionary_holds_twice_is_found_again(store: lamina.Store) -> None:
    topics = pa.DictionaryArray.from_arrays(pa.array([0, 1] * 50, pa.int32()), pa.array(["same", "same"]))
    store.publish_many(pa.table({"topic": topics, "value": [b"v"] * 100}))
    assert len(list(store.read(topic="same"))) == 100


def test_a_large_table_is_cut_into_frames_and_stays_one_call(store: lamina.Store) -> None:
    table = pa.table({"topic": ["t"] * 50, "value": [bytes([n]) * 200_000 for n in range(50)]})
    assert store.publish_many(table).ranges == {0: (0, 50)}
    assert values(store) == [bytes([n]) * 200_000 for n in range(50)]
    assert store.metrics()["lamina_commits_total"] == 1


@pytest.mark.parametrize("by", ["topic", "key"])
def test_partitions_are_chosen_by_crc32(store: lamina.Store, by: str) -> None:
    store.create_stream("events", partitions=5, partition_by=by)
    for n in range(40):
        topic, key = f"topic-{n}", f"key-{n % 7}".encode() if n % 3 else None
        receipt = store.publish(topic, b"", key=key, stream="events")
        hashed = crc32(key if by == "key" and key is not None else topic.encode())
        assert receipt.partition == hashed % 5


def test_many_messages_are_spread_over_partitions_in_order(store: lamina.Store) -> None:
    store.create_stream("events", partitions=3)
    rows = [{"topic": f"t{n % 10}", "value": str(n).encode()} for n in range(500)]
    receipt = store.publish_many(rows, stream="events")
    table = pa.table({"topic": [row["topic"] for row in rows], "value": [row["value"] for row in rows]})
    again = store.publish_many(table, stream="events")
    assert receipt.count == again.count == 500
    for partition, (first, end) in receipt.ranges.items():
        wanted = [row["value"] for row in rows if crc32(str(row["topic"]).encode()) % 3 == partition]
        found = [message.value for message in store.read(stream="events", partition=partition)]
        assert found == wanted * 2
        assert again.ranges[partition] == (end, 2 * end - first)


BAD_CALLS: list[dict[str, Any]] = [
    {"topic": ""},
    {"topic": 5},
    {"value": "text"},
    {"value": 5},
    {"key": "text"},
    {"labels": [("a", "b")]},
    {"labels": {"a": 1}},
    {"labels": {"": "v"}},
    {"timestamp": -1},
    {"timestamp": "now"},
    {"timestamp": 1.5},
    {"timestamp": datetime(2023, 1, 1)},  # noqa: DTZ001
    {"timestamp": NOW_US + 10 * 86_400_000_000},
    {"ttl": 0},
    {"ttl": -1},
    {"ttl": "1h"},
    {"ttl": True},
    {"ttl": float("nan")},
    {"ttl": float("inf")},
    {"ttl": 5e11},
    {"priority": 128},
    {"priority": True},
]


@pytest.mark.parametrize("bad", BAD_CALLS, ids=str)
def test_a_wrong_call_is_refused_and_nothing_is_written(store: lamina.Store, bad: dict[str, Any]) -> None:
    call = {"topic": "t", "value": b"v"} | bad
    with pytest.raises(InvalidRequest):
        store.publish(**call)
    with pytest.raises(InvalidRequest):
        store.publish(**call, wait=False)
    if "ttl" not in bad:
        with pytest.raises(InvalidRequest, match="message 1"):
            store.publish_many([{"topic": "t", "value": b"v"}, call])
    assert values(store) == []
    assert store.metrics()["lamina_commits_total"] == 0


@pytest.mark.parametrize(
    "messages", ["text", b"bytes", {"topic": "t", "value": b"v"}, 5, None, lamina.Message("t", b"v")]
)
def test_many_messages_come_in_an_iterable(store: lamina.Store, messages: Any) -> None:
    with pytest.raises(InvalidRequest, match="publish_many"):
        store.publish_many(messages)


@pytest.mark.parametrize(
    "producer",
    [
        ("a",),
        ("a", 1, 2),
        "a",
        ["a", 1],
        ("", 1),
        (5, 1),
        ("a", -1),
        ("a", "1"),
        ("a", True),
        ("a", 2**63),
        ("x" * 257, 0),
        ("\0", 0),
    ],
    ids=repr,
)
@pytest.mark.parametrize("count", [0, 2])
def test_a_wrong_producer_is_refused_and_nothing_is_written(store: lamina.Store, producer: Any, count: int) -> None:
    with pytest.raises(InvalidRequest, match="producer"):
        store.publish_many([{"topic": "t", "value": b"v"}] * count, producer=producer)
    assert values(store) == []


def test_text_from_numpy_is_text() -> None:
    store = memory_store()
    within_patience(lambda: store.publish(np.str_("t"), b"v", labels={np.str_("a"): np.str_("b")}))
    message = next(store.read(topic="t"))
    assert (message.topic, message.labels) == ("t", {"a": "b"})
    within_patience(store.close)


def test_a_message_that_cannot_be_stored_harms_no_other() -> None:
    store = memory_store()
    futures = [store.publish(np.str_("t") if n == 5 else "t", b"v", wait=False) for n in range(10)]
    failed = [n for n, future in enumerate(futures) if within_patience(partial(future.exception, 20)) is not None]
    assert set(failed) <= {5}
    assert within_patience(lambda: store.publish("t", b"next")).offset == 10 - len(failed)
    within_patience(store.close)


def test_a_numbered_call_is_stored_once(store: lamina.Store) -> None:
    rows = [{"topic": "t", "value": b"1"}, {"topic": "t", "value": b"2"}]
    first = store.publish_many(rows, producer=("p", 0))
    assert store.publish_many(rows, producer=("p", 0)) == first
    assert store.publish_many(rows, producer=("p", 1)).ranges == {0: (2, 4)}
    assert store.publish_many(rows, producer=("p", 0)) == first
    assert values(store) == [b"1", b"2"] * 2


def test_a_numbered_call_is_recognised_in_other_forms_and_after_reopening() -> None:
    disk = MemoryDisk()
    rows = [{"topic": "t", "value": b"v"}] * 100
    table = pa.table({"topic": ["t"] * 100, "value": [b"v"] * 100})
    with memory_store(disk=disk) as store:
        first = store.publish_many(rows, producer=("p", 0))
        assert store.publish_many(table, producer=("p", 0)) == first
        store.seal()
    with memory_store(disk=disk) as store:
        assert store.publish_many(table, producer=("p", 0)).ranges == first.ranges
        assert len(values(store)) == 100


@pytest.mark.parametrize("sequence", [2, 5, 10**9])
def test_a_gap_in_the_sequence_is_a_conflict(store: lamina.Store, sequence: int) -> None:
    store.publish_many([{"topic": "t", "value": b"1"}], producer=("p", 0))
    with pytest.raises(Conflict, match="the next is 1"):
        store.publish_many([{"topic": "t", "value": b"2"}], producer=("p", sequence))
    assert values(store) == [b"1"]


def test_a_call_older_than_what_is_remembered_is_a_conflict(store: lamina.Store) -> None:
    for sequence in range(7):
        store.publish_many([{"topic": "t", "value": b""}], producer=("p", sequence))
    assert store.publish_many([{"topic": "t", "value": b""}], producer=("p", 2)).ranges == {0: (2, 3)}
    with pytest.raises(Conflict):
        store.publish_many([{"topic": "t", "value": b""}], producer=("p", 1))
    assert len(values(store)) == 7


def test_a_sequence_with_another_count_is_a_conflict(store: lamina.Store) -> None:
    store.publish_many([{"topic": "t", "value": b"1"}], producer=("p", 0))
    with pytest.raises(Conflict, match="1 messages"):
        store.publish_many([{"topic": "t", "value": b"1"}] * 2, producer=("p", 0))
    assert values(store) == [b"1"]


def test_an_empty_numbered_call_uses_up_its_sequence(store: lamina.Store) -> None:
    assert store.publish_many([], producer=("p", 0)).count == 0
    with pytest.raises(Conflict):
        store.publish_many([], producer=("p", 2))
    assert store.publish_many([{"topic": "t", "value": b"1"}], producer=("p", 1)).count == 1


def test_a_numbered_call_over_partitions_is_stored_once(store: lamina.Store) -> None:
    store.create_stream("events", partitions=4)
    rows = [{"topic": f"t{n}", "value": str(n).encode()} for n in range(100)]
    first = store.publish_many(rows, stream="events", producer=("p", 0))
    assert len(first.ranges) > 1
    assert store.publish_many(rows, stream="events", producer=("p", 0)) == first
    assert store.stream("events").messages == 100


def test_a_failed_write_is_retried_under_its_number() -> None:
    disk = FaultyDisk(MemoryDisk())
    with memory_store(disk=disk) as store:
        rows = [{"topic": "t", "value": b"1"}]
        disk.add(Fault(operation="append", path="*.log", error="ENOSPC", short=10))
        with pytest.raises(Unavailable):
            store.publish_many(rows, producer=("p", 0))
        assert store.publish_many(rows, producer=("p", 0)).ranges == {0: (0, 1)}
        assert values(store) == [b"1"]


def test_publishing_to_a_closed_store_is_refused() -> None:
    store = memory_store()
    store.close()
    for call in (
        lambda: store.publish("t", b""),
        lambda: store.publish("t", b"", wait=False),
        lambda: store.publish_many([]),
        lambda: store.producer(),
    ):
        with pytest.raises(Closed):
            call()
