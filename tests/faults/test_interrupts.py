"""Ctrl-C, bugs, forks and callbacks in the wrong moment: nothing is acknowledged wrongly and nobody hangs."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import lamina
from lamina.errors import Closed, Unavailable
from lamina.log import Entry, Partition, Pending
from lamina.testing import CrashDisk, FakeClock
from tests.models.ledger import NOW_US

WAIT = 20.0
FORK = """
import os, sys, lamina
store = lamina.open(sys.argv[1])
store.publish("t", b"0")
child = os.fork()
if child == 0:
    try:
        store.publish("t", b"child")
    except lamina.errors.Closed:
        os._exit(7)
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
assert store.publish("t", b"parent").offset == 1
store.close()
"""


@pytest.fixture
def store() -> lamina.Store:
    store = lamina.open("store", disk=CrashDisk(), clock=FakeClock(NOW_US, jump=False))
    store.create_stream("three", partitions=3)
    return store


def partitions(store: lamina.Store, stream: str = "three") -> list[Partition]:
    return list(store.appender(stream).partitions)


def messages(count: int) -> list[dict[str, object]]:
    return [{"topic": f"t/{n}", "value": b"%d" % n} for n in range(count)]


def in_time(call: Callable[[], object]) -> None:
    """Fail instead of hanging for ever."""
    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(WAIT)
    assert not thread.is_alive(), "it hangs"


def test_a_forked_child_cannot_write_into_its_parents_store(tmp_path: Path) -> None:
    script = [sys.executable, "-W", "ignore", "-c", FORK, str(tmp_path / "data")]
    subprocess.run(script, check=True, timeout=60)
    with lamina.open(tmp_path / "data") as store:
        assert [message.value for message in store.read()] == [b"0", b"parent"]


def test_a_numbered_call_and_its_retry_in_one_group_are_stored_once(store: lamina.Store) -> None:
    stream = store.appender("default")
    row = store.row("t", b"once", None, None, None, None, None)
    entries = [Entry(Pending.of_rows([row], ("p", 7))) for _ in range(3)]
    stream._commit(entries)
    assert [(entry.first, entry.error) for entry in entries] == [(0, None)] * 3
    assert [message.value for message in store.read()] == [b"once"]
    store.close()


def test_every_refused_call_gets_an_error_of_its_own(store: lamina.Store) -> None:
    partition = partitions(store, "default")[0]
    partition._refuse("tried out")
    errors = []
    for _ in range(2):
        with pytest.raises(Unavailable, match="tried out") as caught:
            store.publish("t", b"x")
        errors.append(caught.value)
    assert errors[0] is not errors[1]
    store.close()


def test_a_sync_that_ends_in_a_bug_acknowledges_nothing(store: lamina.Store) -> None:
    store.publish_many(messages(30), "three")
    active = partitions(store)[1]._active
    assert active is not None

    def broken() -> None:
        raise MemoryError

    active.sync = broken  # type: ignore[method-assign]
    before = [partition.latest for partition in store.stream("three").partitions]
    with pytest.raises(Unavailable, match="unknown"):
        store.publish_many(messages(30), "three")
    after = [partition.latest for partition in store.stream("three").partitions]
    assert after[1] == before[1]
    assert (after[0] > before[0], after[2] > before[2]) == (True, True)
    in_time(store.close)


@pytest.mark.parametrize("phase", ["begin", "finish"])
def test_an_interrupt_at_one_partition_lets_go_of_all(store: lamina.Store, phase: str) -> None:
    store.publish_many(messages(30), "three")
    partition = partitions(store)[1]
    original = getattr(partition, phase)

    def interrupted(argument: object) -> object:
        setattr(partition, phase, original)
        if phase == "finish":
            original(argument)
        raise KeyboardInterrupt

    setattr(partition, phase, interrupted)
    with pytest.raises(KeyboardInterrupt):
        store.publish_many(messages(30), "three")
    in_time(lambda: [_outcome(store, number) for number in range(3)])
    in_time(store.close)


def _outcome(store: lamina.Store, number: int) -> str:
    """Publishing to the partition ends, one way or the other."""
    topics = (f"t/{n}" for n in range(1000))
    topic = next(t for t in topics if store.appender("three").partition_of(store.row(t, b"", *[None] * 5)) == number)
    try:
        return store.publish(topic, b"again", stream="three").ref
    except Unavailable as error:
        return str(error)


def test_an_interrupt_while_lingering_passes_the_leadership_on(store: lamina.Store) -> None:
    queue = store.appender("default")._queue
    linger = queue._linger

    def interrupted() -> None:
        queue._linger = linger  # type: ignore[method-assign]
        raise KeyboardInterrupt

    queue._linger = interrupted  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        store.publish("t", b"left behind")
    in_time(lambda: store.publish("t", b"next"))
    in_time(store.close)
    with pytest.raises(Closed):
        store.publish("t", b"closed")


def test_a_callback_may_publish_again(store: lamina.Store) -> None:
    done = threading.Event()

    def again(_: object) -> None:
        store.publish("t", b"second")
        done.set()

    store.publish("t", b"first", wait=False).add_done_callback(again)
    assert done.wait(WAIT)
    assert [message.value for message in store.read()] == [b"first", b"second"]
    in_time(store.close)


def test_followers_see_what_was_written_while_a_flush_was_under_way() -> None:
    disk = CrashDisk()
    owner = lamina.open("store", disk=disk, clock=FakeClock(NOW_US, jump=False))
    owner.create_stream("s", durability="flush")
    owner.publish("t", b"1", stream="s")
    partition = partitions(owner, "s")[0]
    active = partition._active
    assert active is not None
    sync = active.sync

    def with_another_message() -> None:
        active.sync = sync  # type: ignore[method-assign]
        owner.publish("t", b"2", stream="s")
        sync()

    active.sync = with_another_message  # type: ignore[method-assign]
    partition.flush()
    partition.flush()
    with lamina.open("store", disk=disk, read_only=True) as follower:
        assert [message.value for message in follower.read(stream="s")] == [b"1", b"2"]
    owner.close()
