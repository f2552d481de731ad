"""The pipelined producer: order, batches, retries, and errors that are never swallowed."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import lamina
from lamina.disk import MemoryDisk
from lamina.errors import Closed, InvalidRequest, Unavailable
from lamina.testing import Fault, FaultyDisk
from tests.unit.store.stores import Gate, memory_store, real_time_store, values, within_patience


def test_leaving_a_producer_flushes_it() -> None:
    with real_time_store() as store:
        with store.producer(linger=60) as producer:
            for n in range(1000):
                producer.send("t", str(n).encode(), key=b"k", labels={"n": str(n)}, priority=1)
        assert values(store) == [str(n).encode() for n in range(1000)]
        assert store.metrics()["lamina_commits_total"] < 20


def test_a_flush_returns_when_everything_sent_is_stored() -> None:
    with real_time_store() as store, store.producer(linger=60) as producer:
        for n in range(3):
            producer.send("t", str(n).encode())
            within_patience(producer.flush)
            assert len(values(store)) == n + 1
        within_patience(producer.flush)


def test_a_batch_goes_when_it_is_old_enough() -> None:
    with real_time_store() as store, store.producer(linger=0) as producer:
        producer.send("t", b"1")
        reached = threading.Event()

        def look() -> None:
            while not values(store):
                reached.wait(0.001)

        within_patience(look)


def test_a_batch_goes_when_it_is_full() -> None:
    with real_time_store() as store, store.producer(linger=60, max_batch_bytes=1000) as producer:
        for _ in range(20):
            producer.send("t", bytes(500))
        pause = threading.Event()

        def look() -> None:
            while not values(store):
                pause.wait(0.001)

        within_patience(look)


def test_messages_keep_the_order_of_each_thread() -> None:
    with real_time_store() as store:
        with store.producer(linger=0.001, max_batch_bytes=2000) as producer:

            def send(name: int) -> None:
                for n in range(300):
                    producer.send(f"t{name}", str(n).encode())

            threads = [threading.Thread(target=send, args=(name,)) for name in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        for name in range(4):
            assert [m.value for m in store.read(f"t{name}")] == [str(n).encode() for n in range(300)]


def test_a_producer_with_an_id_goes_on_from_its_last_sequence() -> None:
    disk = MemoryDisk()
    for run in range(3):
        with real_time_store(disk) as store, store.producer(id="p") as producer:
            assert producer.id == "p"
            producer.send("t", str(run).encode())
    with real_time_store(disk) as store:
        assert values(store) == [b"0", b"1", b"2"]


def test_a_write_that_fails_for_a_while_is_retried_and_stored_once() -> None:
    disk = FaultyDisk(MemoryDisk())
    with real_time_store(disk) as store:
        disk.add(Fault(operation="append", path="*.log", error="ENOSPC", times=2))
        with store.producer() as producer:
            producer.send("t", b"1")
        assert values(store) == [b"1"]


def test_an_error_is_raised_when_leaving_and_ends_the_producer() -> None:
    disk = FaultyDisk(MemoryDisk())
    store = real_time_store(disk)
    disk.add(Fault(operation="append", path="*.log", error="ENOSPC", times=None))
    producer = store.producer(linger=0)
    producer.send("t", b"1")
    with pytest.raises(Unavailable):
        within_patience(producer.flush)
    with pytest.raises(Unavailable):
        producer.send("t", b"2")
    with pytest.raises(Unavailable):
        within_patience(producer.close)
    disk.heal()
    store.close()


def test_messages_lost_to_a_closed_store_are_not_lost_in_silence() -> None:
    store = real_time_store()
    producer = store.producer(linger=60)
    producer.send("t", b"1")
    store.close()
    with pytest.raises(Closed):
        within_patience(producer.close)


def test_a_closed_producer_refuses_messages_and_closes_again() -> None:
    with real_time_store() as store:
        producer = store.producer()
        producer.close()
        producer.close()
        with pytest.raises(Closed):
            producer.send("t", b"")


def test_what_waits_for_a_slow_disk_is_bounded_and_then_stored() -> None:
    gate = Gate()
    store = real_time_store(FaultyDisk(MemoryDisk(), slow_seconds={"sync": 1}, clock=gate))
    gate.shut()
    producer = store.producer(linger=0, max_batch_bytes=1000)
    sent = []

    def send() -> None:
        for n in range(200):
            producer.send("t", bytes(400))
            sent.append(n)

    sender = threading.Thread(target=send, daemon=True)
    sender.start()
    assert gate.waiting.wait(20)
    sender.join(0.1)
    assert len(sent) < 100, "send waits while too much is queued"
    gate.open.set()
    sender.join(20)
    within_patience(producer.close)
    assert len(values(store)) == 200
    store.close()


def test_large_batches_that_pile_up_behind_a_slow_disk_are_stored() -> None:
    gate = Gate()
    store = real_time_store(FaultyDisk(MemoryDisk(), slow_seconds={"sync": 1}, clock=gate))
    gate.shut()
    producer = store.producer(linger=0, max_batch_bytes=32 << 20)
    value = bytes(15 << 20)
    producer.send("t", b"first")
    assert gate.waiting.wait(20)
    for _ in range(6):
        producer.send("t", value)
    gate.open.set()
    within_patience(producer.close)
    assert store.stream().messages == 7
    store.close()


@pytest.mark.parametrize(
    "bad",
    [
        {"linger": -1},
        {"linger": 61},
        {"linger": "x"},
        {"linger": None},
        {"linger": float("nan")},
        {"max_batch_bytes": 0},
        {"max_batch_bytes": 1 << 30},
        {"max_batch_bytes": "1M"},
        {"max_batch_bytes": 1.5},
        {"id": ""},
        {"id": 5},
        {"id": "x" * 257},
    ],
    ids=str,
)
def test_a_wrong_producer_is_refused_by_name(store: lamina.Store, bad: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest, match=next(iter(bad))):
        store.producer(**bad)


def test_a_wrong_message_is_refused_and_the_producer_goes_on() -> None:
    with real_time_store() as store:
        with store.producer() as producer:
            producer.send("t", b"1")
            with pytest.raises(InvalidRequest):
                producer.send("", b"2")
            with pytest.raises(InvalidRequest):
                producer.send("t", "text")  # type: ignore[arg-type]
            producer.send("t", b"3")
        assert values(store) == [b"1", b"3"]


def test_a_producer_spreads_over_partitions() -> None:
    with memory_store() as store:
        store.create_stream("events", partitions=4)
        with store.producer("events") as producer:
            for n in range(200):
                producer.send(f"t{n}", b"")
        info = store.stream("events")
        assert info.messages == 200
        assert all(partition.messages for partition in info.partitions)
