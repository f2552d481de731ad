"""Waits that end: WouldBlock says what is known, nothing acknowledged is lost, and going on stores everything once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

import lamina
from lamina.errors import Closed, Conflict, InvalidRequest, WouldBlock
from lamina.store import PipelinedProducer
from tests.unit.store.stores import Gate, real_time_store, values, within_patience

SHORT = 0.02
MESSAGE = {"topic": "t", "value": b"1"}


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate()
    yield gate
    gate.open.set()


@pytest.fixture
def stuck(gate: Gate) -> Iterator[lamina.Store]:
    """A store whose disk is stuck in a commit of `held` until the gate opens."""
    store = real_time_store(gate.disk())
    gate.shut()
    store.publish("t", b"held", wait=False)
    assert gate.waiting.wait(20)
    yield store
    gate.open.set()
    within_patience(store.close)


def test_a_message_not_confirmed_in_time_may_still_be_stored(stuck: lamina.Store, gate: Gate) -> None:
    with pytest.raises(WouldBlock, match=r"not confirmed within 0\.02 s; it may still be stored") as caught:
        stuck.publish("t", b"1", timeout=SHORT)
    assert caught.value.reason == "commit"
    with pytest.raises(WouldBlock):
        stuck.publish("t", b"2", timeout=0)
    gate.open.set()
    assert stuck.publish("t", b"3", timeout=20).offset == 3
    assert values(stuck) == [b"held", b"1", b"2", b"3"]


def test_many_messages_not_confirmed_in_time_may_still_be_stored(stuck: lamina.Store, gate: Gate) -> None:
    with pytest.raises(WouldBlock, match="may still be stored"):
        stuck.publish_many([MESSAGE] * 3, timeout=SHORT)
    gate.open.set()
    assert stuck.publish_many([MESSAGE], timeout=20).ranges == {0: (4, 5)}


def test_a_numbered_call_that_ran_out_of_time_is_stored_once(gate: Gate) -> None:
    with real_time_store(gate.disk()) as store:
        gate.shut()
        call = partial(store.publish_many, [MESSAGE] * 2, producer=("p", 0))
        with pytest.raises(WouldBlock, match="may still be stored"):
            call(timeout=SHORT)
        for _ in range(3):
            with pytest.raises(WouldBlock, match=r"not confirmed: waited 0\.02 s for an earlier call of producer 'p'"):
                call(timeout=SHORT)
        gate.open.set()
        assert within_patience(call).ranges == {0: (0, 2)}
        assert call(timeout=20).ranges == {0: (0, 2)}
        assert values(store) == [b"1", b"1"]
        assert not store.appender()._producer_locks


def test_the_next_sequence_waits_for_a_call_that_ran_out_of_time(gate: Gate) -> None:
    with real_time_store(gate.disk()) as store:
        gate.shut()
        with pytest.raises(WouldBlock):
            store.publish_many([MESSAGE], producer=("p", 0), timeout=SHORT)
        with pytest.raises(WouldBlock, match="earlier call"):
            store.publish_many([MESSAGE], producer=("p", 1), timeout=SHORT)
        gate.open.set()
        assert within_patience(lambda: store.publish_many([MESSAGE], producer=("p", 1))).ranges == {0: (1, 2)}
        with pytest.raises(Conflict):
            store.publish_many([MESSAGE], producer=("p", 3), timeout=SHORT)


def test_a_numbered_call_does_not_wait_longer_for_the_commit_of_others(stuck: lamina.Store, gate: Gate) -> None:
    with pytest.raises(WouldBlock, match="a commit of others"):
        stuck.publish_many([MESSAGE], producer=("p", 0), timeout=SHORT)
    gate.open.set()
    assert stuck.publish_many([MESSAGE], producer=("p", 0), timeout=20).ranges == {0: (1, 2)}


def test_a_numbered_call_over_partitions_that_ran_out_of_time_is_stored_once(gate: Gate) -> None:
    with real_time_store(gate.disk()) as store:
        store.create_stream("events", partitions=3)
        rows = [{"topic": f"t{n}", "value": b""} for n in range(30)]
        gate.shut()
        with pytest.raises(WouldBlock):
            store.publish_many(rows, stream="events", producer=("p", 0), timeout=SHORT)
        gate.open.set()
        assert within_patience(lambda: store.publish_many(rows, stream="events", producer=("p", 0))).count == 30
        assert store.stream("events").messages == 30


def test_a_flush_that_ran_out_of_time_can_be_repeated(stuck: lamina.Store, gate: Gate) -> None:
    producer = stuck.producer(id="p", linger=0)
    producer.send("t", b"1", timeout=SHORT)
    for _ in range(2):
        with pytest.raises(WouldBlock, match="whether the last 1 messages are stored is unknown; flush again"):
            producer.flush(timeout=SHORT)
    producer.send("t", b"2")
    gate.open.set()
    producer.flush(timeout=20)
    producer.send("t", b"3")
    producer.close(timeout=20)
    assert values(stuck) == [b"held", b"1", b"2", b"3"]


def test_a_producer_that_was_not_closed_in_time_is_closed_later(stuck: lamina.Store, gate: Gate) -> None:
    producer = stuck.producer(id="p", linger=60)
    producer.send("t", b"1")
    for _ in range(2):
        with pytest.raises(WouldBlock, match="close again"):
            producer.close(timeout=SHORT)
    with pytest.raises(Closed):
        producer.send("t", b"2")
    with pytest.raises(Conflict, match="in use"):
        stuck.producer(id="p")
    gate.open.set()
    within_patience(producer.close)
    with stuck.producer(id="p") as again:
        again.send("t", b"3")
    assert values(stuck) == [b"held", b"1", b"3"]


def test_a_message_that_a_full_producer_does_not_take_is_not_sent(stuck: lamina.Store, gate: Gate) -> None:
    producer = stuck.producer(linger=0, max_batch_bytes=1000)
    sent: list[int] = []

    def send_all() -> None:
        for n in range(100):
            producer.send("t", bytes(400), timeout=SHORT)
            sent.append(n)

    with pytest.raises(WouldBlock, match="not sent") as caught:
        send_all()
    assert caught.value.reason == "room"
    gate.open.set()
    producer.send("t", bytes(400), timeout=20)
    within_patience(producer.close)
    assert len(values(stuck)) == 1 + len(sent) + 1


def test_sealing_does_not_wait_longer_for_a_commit(stuck: lamina.Store, gate: Gate) -> None:
    with pytest.raises(WouldBlock, match=r"not confirmed: waited 0\.02 s for a commit of others"):
        stuck.seal(timeout=SHORT)
    gate.open.set()
    stuck.seal(timeout=20)
    assert [segment.state for segment in stuck.segments()] == ["sealed", "active"]


def test_sealing_does_not_wait_longer_for_sealing_under_way(gate: Gate) -> None:
    with real_time_store() as store:
        store.publish("t", b"1")
        with store.appender().partitions[0]._sealing, pytest.raises(WouldBlock, match="sealing in the background"):
            store.seal(timeout=SHORT)
        store.seal(timeout=20)
        assert [segment.state for segment in store.segments()] == ["sealed", "active"]


def test_a_store_that_was_not_closed_in_time_goes_on_closing(gate: Gate) -> None:
    disk = gate.disk()
    store = real_time_store(disk)
    gate.shut()
    future = store.publish("t", b"1", wait=False)
    for _ in range(2):
        with pytest.raises(WouldBlock, match=r"not closed within 0\.02 s; close again"):
            store.close(timeout=SHORT)
    with pytest.raises(Closed):
        store.publish("t", b"2")
    with pytest.raises(Conflict, match="in use"):
        real_time_store(disk)
    gate.open.set()
    within_patience(store.close)
    store.close(timeout=SHORT)
    assert future.result(0).offset == 0
    with real_time_store(disk) as again:
        assert values(again) == [b"1"]


def test_closing_does_not_wait_longer_for_a_change_of_the_streams() -> None:
    store = real_time_store()
    with store._changing, pytest.raises(WouldBlock, match="another change of the store"):
        store.close(timeout=SHORT)
    assert store.publish("t", b"1").offset == 0
    store.close(timeout=20)


def test_what_closing_raises_reaches_whoever_waits_for_it() -> None:
    store = real_time_store()
    close = store._streams.close

    def broken() -> None:
        close()
        raise TimeoutError("not ours")

    store._streams.close = broken  # type: ignore[method-assign]
    with pytest.raises(TimeoutError, match="not ours"):
        store.close(timeout=20)


def by_producer(store: lamina.Store, call: Callable[[PipelinedProducer], None]) -> None:
    with store.producer() as producer:
        call(producer)


CALLS: dict[str, Callable[[lamina.Store, Any], object]] = {
    "publish": lambda s, t: s.publish("t", b"", timeout=t),
    "publish without waiting": lambda s, t: s.publish("t", b"", wait=False, timeout=t),
    "publish_many": lambda s, t: s.publish_many([MESSAGE], timeout=t),
    "send": lambda s, t: by_producer(s, lambda p: p.send("t", b"", timeout=t)),
    "flush": lambda s, t: by_producer(s, lambda p: p.flush(timeout=t)),
    "close producer": lambda s, t: by_producer(s, lambda p: p.close(timeout=t)),
    "seal": lambda s, t: s.seal(timeout=t),
    "close": lambda s, t: s.close(timeout=t),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("timeout", [-1, "1", True, float("nan")], ids=repr)
def test_a_timeout_is_seconds(store: lamina.Store, call: str, timeout: Any) -> None:
    with pytest.raises(InvalidRequest, match="timeout must be None or seconds"):
        CALLS[call](store, timeout)
    assert values(store) == []


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("timeout", [30, 1e300, float("inf")], ids=repr)
def test_a_timeout_may_be_long(call: str, timeout: float) -> None:
    with real_time_store() as store:
        within_patience(lambda: CALLS[call](store, timeout))


def test_a_call_without_time_to_wait_is_settled_all_the_same() -> None:
    """Whether the receipt was in time or not: never twice, never lost."""
    with real_time_store() as store:
        for sequence in range(50):
            try:
                store.publish_many([MESSAGE], producer=("p", sequence), timeout=0.0001)
            except WouldBlock:
                within_patience(partial(store.publish_many, [MESSAGE], producer=("p", sequence)))
        assert len(values(store)) == 50


def test_threads_that_retry_numbered_calls_with_short_timeouts_store_each_once() -> None:
    with real_time_store() as store:

        def work(name: str) -> None:
            for sequence in range(20):
                while True:
                    try:
                        store.publish_many([MESSAGE], producer=(name, sequence), timeout=0.001)
                        break
                    except WouldBlock:
                        pass

        threads = [threading.Thread(target=work, args=(f"p{n}",), daemon=True) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        assert not any(thread.is_alive() for thread in threads)
        assert len(values(store)) == 4 * 20
