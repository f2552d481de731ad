"""Reading: by offset, time, topic and key, forward and backward, as messages and as Arrow."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

import lamina
from lamina import LogSettings
from lamina.errors import InvalidRequest, NotFound, OffsetOutOfRange
from lamina.model import READ_SCHEMA
from tests.unit.store.stores import NOW_US, memory_store


def fill(store: lamina.Store, count: int = 10) -> None:
    for n in range(count):
        store.publish(f"t{n % 2}", str(n).encode(), key=f"k{n % 3}".encode(), timestamp=1000 + n)


def offsets(store: lamina.Store, **choices: Any) -> list[int]:
    """The offsets that `read` gives, after `read_arrow` has given the same."""
    found = [message.offset for message in store.read(**choices)]
    batches = list(store.read_arrow(**choices))
    assert [offset for batch in batches for offset in batch.column("offset").to_pylist()] == found
    assert all(batch.schema.equals(READ_SCHEMA) and batch.num_rows for batch in batches)
    return found


@pytest.mark.parametrize(
    ("choices", "wanted"),
    [
        ({}, range(10)),
        ({"start": 4}, range(4, 10)),
        ({"end": 4}, range(4)),
        ({"start": 3, "end": 6}, range(3, 6)),
        ({"start": 6, "end": 3}, []),
        ({"start": 10}, []),
        ({"end": 1000}, range(10)),
        ({"end": 0}, []),
        ({"limit": 3}, range(3)),
        ({"limit": 0}, []),
        ({"limit": 1000}, range(10)),
        ({"limit": 2**80}, range(10)),
        ({"topic": "t1"}, [1, 3, 5, 7, 9]),
        ({"topic": "t1", "start": 4, "limit": 2}, [5, 7]),
        ({"topic": "absent"}, []),
        ({"start_time": 1004}, range(4, 10)),
        ({"end_time": 1004}, range(4)),
        ({"start_time": 1002, "end_time": 1005}, [2, 3, 4]),
        ({"start_time": 1005, "end_time": 1002}, []),
        ({"descending": True}, range(9, -1, -1)),
        ({"descending": True, "limit": 3}, [9, 8, 7]),
        ({"descending": True, "start": 2, "end": 6}, [5, 4, 3, 2]),
        ({"descending": True, "topic": "t0", "limit": 2}, [8, 6]),
        ({"descending": True, "start_time": 1003, "end_time": 1006}, [5, 4, 3]),
        ({"partition": 0, "start": 8}, [8, 9]),
    ],
    ids=str,
)
@pytest.mark.parametrize("is_sealed", [False, True])
def test_a_read_gives_what_it_was_asked_for(
    store: lamina.Store, choices: dict[str, Any], wanted: range | list[int], is_sealed: bool
) -> None:
    fill(store, 5)
    if is_sealed:
        store.seal()
    for n in range(5, 10):
        store.publish(f"t{n % 2}", str(n).encode(), timestamp=1000 + n)
    assert offsets(store, **choices) == list(wanted)


def test_arguments_may_come_in_their_order(store: lamina.Store) -> None:
    fill(store)
    assert [m.offset for m in store.read("t1", "default", 0, 2, 9, 2)] == [3, 5]


def test_times_may_be_datetimes(store: lamina.Store) -> None:
    fill(store)
    start = datetime.fromtimestamp(0.001005, UTC)
    assert offsets(store, start_time=start) == list(range(5, 10))
    assert store.offset_at(start) == 5


@pytest.mark.parametrize("name", ["start", "end", "limit"])
@pytest.mark.parametrize("bad", [-1, "x", 1.5, True, b"1", [0]])
def test_a_wrong_number_is_refused_by_name(store: lamina.Store, name: str, bad: Any) -> None:
    for read in (store.read, store.read_arrow):
        with pytest.raises(InvalidRequest, match=name):
            read(**{name: bad})


@pytest.mark.parametrize("name", ["start_time", "end_time"])
@pytest.mark.parametrize("bad", [-1, "now", 1.5, True, datetime(2023, 1, 1)])  # noqa: DTZ001
def test_a_wrong_time_is_refused_by_name(store: lamina.Store, name: str, bad: Any) -> None:
    with pytest.raises(InvalidRequest, match=name):
        store.read(**{name: bad})


@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("bad", [5, b"t", ["t"]])
def test_a_wrong_topic_is_refused(store: lamina.Store, partitions: int, bad: Any) -> None:
    store.create_stream("events", partitions=partitions)
    store.publish("t", b"", stream="events")
    with pytest.raises(InvalidRequest, match="topic"):
        list(store.read(topic=bad, stream="events"))


@pytest.mark.parametrize("bad", ["0", 1.5, True])
def test_a_wrong_partition_is_refused(store: lamina.Store, bad: Any) -> None:
    with pytest.raises(InvalidRequest, match="partition"):
        store.read(partition=bad)


@pytest.mark.parametrize("number", [1, -1, 100])
def test_a_partition_that_is_not_there_is_not_found(store: lamina.Store, number: int) -> None:
    with pytest.raises(NotFound, match="partition"):
        store.read(partition=number)
    with pytest.raises(NotFound, match="partition"):
        store.offset_at(0, partition=number)


def test_a_start_outside_the_log_is_out_of_range_at_once(store: lamina.Store) -> None:
    fill(store)
    store.delete_before(offset=4)
    for start in (0, 3, 11, 10**12):
        for read in (store.read, store.read_arrow):
            with pytest.raises(OffsetOutOfRange) as caught:
                read(start=start)
            assert (caught.value.earliest, caught.value.latest) == (4, 10)


def test_a_stream_of_many_partitions_asks_which_one(store: lamina.Store) -> None:
    store.create_stream("events", partitions=4)
    with pytest.raises(InvalidRequest, match="partition=0"):
        store.read(stream="events")


def test_a_topic_chooses_its_partition(store: lamina.Store) -> None:
    store.create_stream("events", partitions=4)
    for n in range(20):
        store.publish(f"t{n % 5}", str(n).encode(), stream="events")
    for topic in range(5):
        found = [m.value for m in store.read(f"t{topic}", stream="events")]
        assert found == [str(n).encode() for n in range(topic, 20, 5)]


def test_a_topic_may_be_anywhere_where_keys_choose_the_partition(store: lamina.Store) -> None:
    store.create_stream("events", partitions=4, partition_by="key")
    with pytest.raises(InvalidRequest, match="partition"):
        store.read("t", stream="events")


def test_a_read_goes_on_from_where_the_last_one_ended(store: lamina.Store) -> None:
    fill(store, 25)
    found: list[int] = []
    while page := list(store.read(start=len(found), limit=7)):
        found += [message.offset for message in page]
    assert found == list(range(25))


def test_a_read_shows_the_log_as_it_was_when_asked(store: lamina.Store) -> None:
    fill(store, 3)
    found = store.read()
    fill(store, 3)
    assert [message.offset for message in found] == [0, 1, 2]


def test_changing_a_message_changes_nothing_in_the_store(store: lamina.Store) -> None:
    store.publish("t", b"v", labels={"a": "b"})
    store.publish_many([{"topic": "t", "value": b"v", "labels": {"a": "b"}}] * 100)
    for message in store.read():
        message.labels["a"] = "changed"
        message.topic = "changed"
    assert {(m.topic, m.labels["a"]) for m in store.read()} == {("t", "b")}


def test_a_message_is_got_by_its_ref(store: lamina.Store) -> None:
    fill(store)
    for n in range(10):
        assert store.get(f"default/0/{n}").value == str(n).encode()
    message = store.get("default/0/3")
    assert store.get(message.ref) == message


@pytest.mark.parametrize("ref", ["default/0/10", "default/0/99999999999999999999"])
def test_a_ref_beyond_the_log_is_out_of_range(store: lamina.Store, ref: str) -> None:
    fill(store)
    with pytest.raises(OffsetOutOfRange):
        store.get(ref)


@pytest.mark.parametrize("ref", ["", "default", "default/0", "default/0/x", "default/0/-1", None, 5, b"default/0/0"])
def test_a_wrong_ref_is_refused(store: lamina.Store, ref: Any) -> None:
    with pytest.raises(InvalidRequest, match="ref"):
        store.get(ref)


@pytest.mark.parametrize("is_sealed", [False, True])
def test_the_newest_message_of_a_key_is_found(store: lamina.Store, is_sealed: bool) -> None:
    for n in range(30):
        store.publish(f"t{n % 2}", None if n == 29 else str(n).encode(), key=f"k{n % 5}".encode())
    if is_sealed:
        store.seal()
    assert {k: getattr(store.latest(f"k{k}".encode()), "offset", None) for k in range(6)} == {
        0: 25, 1: 26, 2: 27, 3: 28, 4: 29, 5: None
    }  # fmt: skip
    newest = store.latest(b"k4", topic="t0")
    assert newest is not None
    assert newest.offset == 24
    assert store.contains_key(b"k4")
    assert not store.contains_key(b"absent")
    tombstone = store.latest(b"k4")
    assert tombstone is not None
    assert tombstone.value is None


def test_a_key_is_found_in_any_partition(store: lamina.Store) -> None:
    for by in ("topic", "key"):
        store.create_stream(by, partitions=4, partition_by=by)
        for n in range(40):
            store.publish(f"t{n % 7}", str(n).encode(), key=f"k{n % 3}".encode(), stream=by, timestamp=1000 + n)
        for k in range(3):
            newest = store.latest(f"k{k}".encode(), stream=by)
            assert newest is not None
            assert newest.value == str(max(n for n in range(40) if n % 3 == k)).encode()
            in_topic = store.latest(f"k{k}".encode(), "t2", by)
            assert in_topic is not None
            assert in_topic.value == str(max(n for n in range(40) if n % 3 == k and n % 7 == 2)).encode()


@pytest.mark.parametrize("key", ["k", 5, None])
def test_a_key_is_bytes(store: lamina.Store, key: Any) -> None:
    with pytest.raises(InvalidRequest, match="key"):
        store.latest(key)
    with pytest.raises(InvalidRequest, match="key"):
        store.contains_key(key)


def test_an_offset_is_found_by_time(store: lamina.Store) -> None:
    fill(store)
    assert [store.offset_at(time) for time in (0, 1000, 1001, 1009, 1010)] == [0, 0, 1, 9, 10]
    with pytest.raises(InvalidRequest, match="time"):
        store.offset_at("yesterday")  # type: ignore[arg-type]


def test_small_messages_are_joined_into_batches_worth_their_overhead(store: lamina.Store) -> None:
    fill(store, 300)
    assert len(list(store.read_arrow())) == 1


def test_a_batch_that_was_read_can_be_published_again(store: lamina.Store) -> None:
    fill(store, 100)
    store.create_stream("copy")
    store.publish_many(pa.Table.from_batches(store.read_arrow()), stream="copy")
    for original, copy in zip(store.read(), store.read(stream="copy"), strict=True):
        assert (original.topic, original.value, original.key) == (copy.topic, copy.value, copy.key)


def test_reading_a_store_of_many_small_segments() -> None:
    with memory_store(LogSettings(segment_bytes_max=4096, open_segments_max=2)) as store:
        fill(store, 400)
        assert len(store.segments()) > 5
        assert offsets(store) == list(range(400))
        assert offsets(store, start=123, end=321) == list(range(123, 321))
        assert offsets(store, descending=True, limit=250) == list(range(399, 149, -1))
        assert store.metrics()["lamina_segments_open"] <= 3


def test_the_time_of_a_message_is_the_clocks_unless_it_says_otherwise(store: lamina.Store) -> None:
    store.publish("t", b"")
    assert next(store.read()).timestamp == NOW_US
