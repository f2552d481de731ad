"""Messages that nobody waits for are bounded: `log.pending_bytes_max` of them, then publishing waits for room."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future

import pytest

import lamina
from lamina.errors import Closed, WouldBlock
from lamina.testing import Fault
from tests.unit.store.stores import Gate, real_time_store, values, within_patience

SHORT = 0.02
FOUR_FIT = lamina.LogSettings(pending_bytes_max=10_000)
VALUE = bytes(1000)  # with its topic, time and what is added for each message a little more than 2,000


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate()
    yield gate
    gate.open.set()


@pytest.fixture
def stuck(gate: Gate) -> Iterator[lamina.Store]:
    """A store whose disk is stuck until the gate opens."""
    store = real_time_store(gate.disk(), FOUR_FIT)
    gate.shut()
    yield store
    gate.open.set()
    within_patience(store.close)


def fill(store: lamina.Store) -> list[Future[lamina.PublishReceipt]]:
    """Publish until there is no room."""
    futures: list[Future[lamina.PublishReceipt]] = []

    def publish_all() -> None:
        for _ in range(100):
            futures.append(store.publish("t", VALUE, wait=False, timeout=SHORT))

    with pytest.raises(WouldBlock) as caught:
        publish_all()
    assert caught.value.reason == "room"
    assert str(caught.value).startswith("not stored: for 0.02 s as much as log.pending_bytes_max allows")
    return futures


def test_what_there_is_no_room_for_is_not_stored_and_the_rest_is(stuck: lamina.Store, gate: Gate) -> None:
    futures = fill(stuck)
    assert len(futures) == 4
    gate.open.set()
    assert [future.result(20).offset for future in futures] == [0, 1, 2, 3]
    assert stuck.publish("t", b"next", wait=False, timeout=SHORT).result(20).offset == 4
    assert values(stuck) == [VALUE] * 4 + [b"next"]


def test_publishing_without_waiting_waits_for_room(stuck: lamina.Store, gate: Gate) -> None:
    futures = fill(stuck)
    threads = [
        threading.Thread(target=lambda: futures.append(stuck.publish("t", VALUE, wait=False)), daemon=True)
        for _ in range(20)
    ]
    for thread in threads:
        thread.start()
    threads[0].join(SHORT)
    assert len(futures) == 4
    gate.open.set()
    for thread in threads:
        thread.join(20)
    assert sorted(future.result(20).offset for future in futures) == list(range(24))


def test_a_message_larger_than_the_bound_goes_alone(stuck: lamina.Store, gate: Gate) -> None:
    large = stuck.publish("t", bytes(100_000), wait=False, timeout=SHORT)
    assert fill(stuck) == []
    gate.open.set()
    large.result(20)
    assert len(values(stuck)) == 1


def test_large_and_small_messages_find_room_between_each_other() -> None:
    with real_time_store(log=FOUR_FIT) as store:
        futures = [store.publish("t", bytes(100_000 if n % 3 else 10), wait=False, timeout=20) for n in range(60)]
        assert sorted(future.result(20).offset for future in futures) == list(range(60))


def test_calls_that_gave_up_waiting_do_not_pile_up(stuck: lamina.Store, gate: Gate) -> None:
    reasons = []
    for _ in range(8):
        with pytest.raises(WouldBlock) as caught:
            stuck.publish("t", VALUE, timeout=0.005)
        reasons.append(caught.value.reason)
    assert reasons == ["commit"] * 4 + ["room"] * 4
    with pytest.raises(WouldBlock, match="not stored"):
        stuck.publish_many([{"topic": "t", "value": VALUE}], timeout=SHORT)
    gate.open.set()
    assert stuck.publish("t", b"next", timeout=20).offset == 4


def test_calls_that_wait_need_no_room_but_take_it(stuck: lamina.Store, gate: Gate) -> None:
    threads = [threading.Thread(target=lambda: stuck.publish("t", VALUE), daemon=True) for _ in range(20)]
    for thread in threads:
        thread.start()
    assert gate.waiting.wait(20)
    gate.open.set()
    for thread in threads:
        thread.join(20)
    assert len(values(stuck)) == 20
    assert stuck.publish("t", VALUE, wait=False, timeout=20).result(20).offset == 20


def test_closing_wakes_who_waits_for_room(stuck: lamina.Store, gate: Gate) -> None:
    fill(stuck)
    refused: list[BaseException] = []

    def publish() -> None:
        try:
            stuck.publish("t", VALUE, wait=False)
        except Closed as error:
            refused.append(error)

    thread = threading.Thread(target=publish, daemon=True)
    thread.start()
    thread.join(SHORT)
    with pytest.raises(WouldBlock):
        stuck.close(timeout=SHORT)
    thread.join(20)
    assert len(refused) == 1
    gate.open.set()
    within_patience(stuck.close)


def test_failed_messages_make_room_too(gate: Gate) -> None:
    disk = gate.disk()
    store = real_time_store(disk, FOUR_FIT)
    disk.add(Fault(operation="append", path="*.log", error="ENOSPC", times=None))
    futures = [store.publish("t", VALUE, wait=False, timeout=20) for _ in range(20)]
    assert all(future.exception(20) is not None for future in futures)
    disk.heal()
    assert store.publish("t", VALUE, wait=False, timeout=20).result(20).offset == 0
    within_patience(store.close)


def test_a_callback_may_publish_when_there_is_no_room(stuck: lamina.Store, gate: Gate) -> None:
    again: list[Future[lamina.PublishReceipt]] = []
    published = threading.Event()

    def publish(_: object) -> None:
        again.extend(stuck.publish("t", VALUE, wait=False) for _ in range(10))
        published.set()

    first = stuck.publish("t", VALUE, wait=False)
    assert gate.waiting.wait(20)
    first.add_done_callback(publish)
    fill(stuck)
    gate.open.set()
    assert published.wait(20)
    assert [future.result(20).offset for future in again] == list(range(4, 14))
