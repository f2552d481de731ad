"""Idempotent producers: a numbered call is in the log exactly once, whatever happens between its attempts."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

import lamina
from lamina.disk import Disk
from lamina.errors import Conflict, Unavailable
from lamina.testing import CrashDisk, FakeClock, Fault, FaultyDisk
from tests.models.ledger import NOW_US, Expected, Ledger, some_messages

SETTINGS = lamina.Settings(
    log=lamina.LogSettings(segment_bytes_max=8192, frame_bytes_target=2048),
    index=lamina.IndexSettings(background=False),
)
DAY = 86400.0


class Session:
    """A store on a disk that can crash, and a producer's calls."""

    def __init__(self, partitions: int = 1) -> None:
        self.crash_disk = CrashDisk()
        self.disk = FaultyDisk(self.crash_disk)
        self.clock = FakeClock(NOW_US, jump=False)
        self.store = self.open(self.disk)
        self.store.create_stream("s", partitions=partitions)
        self.ledger = Ledger("s", partitions)

    def open(self, disk: Disk) -> lamina.Store:
        return lamina.open("store", disk=disk, clock=self.clock, settings=SETTINGS)

    def send(self, sequence: int, count: int = 3, producer: str = "p") -> lamina.Receipt:
        messages = self.messages(sequence, count)
        receipt = self.store.publish_many([m.message() for m in messages], "s", (producer, sequence))
        self.ledger.acknowledge(receipt.ranges, messages)
        return receipt

    def messages(self, sequence: int, count: int) -> list[Expected]:
        return some_messages(count, 100 + sequence)

    def reopen(self) -> None:
        self.store.close()
        self.store = self.open(self.disk)

    def crash(self) -> None:
        self.crash_disk.crash(random.Random(1))
        self.store.close()
        self.store = self.open(self.disk)

    def seal(self) -> None:
        self.store.seal("s")

    def fill(self) -> None:
        """Make the segment roll by its size."""
        for number in range(4):
            filler = some_messages(1, 7000 + number, 3000)
            self.ledger.acknowledge(self.store.publish_many([m.message() for m in filler], "s").ranges, filler)

    def delete_all(self) -> None:
        for number, part in enumerate(self.ledger.partitions):
            self.store.delete_before("s", number, len(part.messages))
            part.start = len(part.messages)


EVENTS: dict[str, Callable[[Session], None]] = {
    "nothing": lambda session: None,
    "reopen": Session.reopen,
    "crash": Session.crash,
    "seal": Session.seal,
    "roll": Session.fill,
    "delete": Session.delete_all,
}


@pytest.mark.parametrize("first", EVENTS)
@pytest.mark.parametrize("second", EVENTS)
@pytest.mark.parametrize("partitions", [1, 3])
def test_a_retried_call_gets_its_original_receipt(first: str, second: str, partitions: int) -> None:
    session = Session(partitions)
    counts = (3, 0, 90, 1, 20)  # packed, empty, several frames, one message, packed
    receipts = [session.send(sequence, count) for sequence, count in enumerate(counts)]
    EVENTS[first](session)
    EVENTS[second](session)
    for sequence, count in enumerate(counts):
        assert session.send(sequence, count).ranges == receipts[sequence].ranges
    session.send(len(counts))
    session.ledger.settle(session.store)
    session.ledger.check(session.store, random.Random(0))
    session.store.close()


@pytest.mark.parametrize("event", EVENTS)
def test_a_sequence_must_be_the_last_plus_one(event: str) -> None:
    session = Session()
    session.send(7)
    session.send(8)
    EVENTS[event](session)
    for wrong in (0, 6, 10, 2**62):
        with pytest.raises(Conflict):
            session.send(wrong)
    session.send(9)
    session.store.close()


@pytest.mark.parametrize("event", EVENTS)
def test_the_last_five_calls_are_remembered_and_no_more(event: str) -> None:
    session = Session()
    receipts = [session.send(sequence) for sequence in range(8)]
    EVENTS[event](session)
    for sequence in range(3, 8):
        assert session.send(sequence).ranges == receipts[sequence].ranges
    for sequence in range(3):
        with pytest.raises(Conflict):
            session.send(sequence)
    session.store.close()


@pytest.mark.parametrize("event", EVENTS)
def test_a_retry_with_other_messages_is_a_conflict(event: str) -> None:
    session = Session()
    session.send(0, 3)
    EVENTS[event](session)
    with pytest.raises(Conflict):
        session.send(0, 4)
    session.store.close()


def test_producers_do_not_know_of_each_other() -> None:
    session = Session()
    for producer in ("p", "q", "r" * 200):
        session.send(0, producer=producer)
    session.reopen()
    session.send(1, producer="q")
    with pytest.raises(Conflict):
        session.send(2, producer="p")
    session.store.close()


@pytest.mark.parametrize("event", ["nothing", "seal", "reopen", "crash"])
def test_a_producer_idle_for_more_than_seven_days_is_forgotten(event: str) -> None:
    session = Session()
    session.send(41)
    session.clock.advance(7 * DAY + 60)
    EVENTS[event](session)
    session.send(0)
    session.send(1)
    session.store.close()


@pytest.mark.parametrize("event", EVENTS)
def test_a_producer_idle_for_less_than_seven_days_is_remembered(event: str) -> None:
    session = Session()
    receipt = session.send(41)
    session.clock.advance(6.9 * DAY)
    EVENTS[event](session)
    assert session.send(41).ranges == receipt.ranges
    session.send(42)
    session.store.close()


@pytest.mark.parametrize("number", [0, 1, 2])
@pytest.mark.parametrize(
    "fault",
    [Fault(operation="append", error="ENOSPC"), Fault(operation="append", short=80), Fault(operation="sync")],
    ids=["refused", "short", "fsync"],
)
@pytest.mark.parametrize("event", EVENTS)
def test_a_call_that_failed_in_one_partition_is_completed_by_its_retry(number: int, fault: Fault, event: str) -> None:
    session = Session(partitions=3)
    session.send(0, 40)
    session.disk.add(Fault(operation=fault.operation, error=fault.error, short=fault.short, path=f"s/{number}/*.log"))
    with pytest.raises(Unavailable):
        session.send(1, 40)
    session.disk.heal()
    session.ledger.attempted(session.messages(1, 40))
    if fault.operation == "sync":
        session.reopen()
    session.ledger.settle(session.store)
    if event != "delete":
        EVENTS[event](session)
    session.send(1, 40)
    session.send(2, 40)
    session.ledger.settle(session.store)
    session.ledger.check(session.store, random.Random(0))
    session.store.close()


def test_empty_numbered_calls_can_be_sealed_and_grow_old() -> None:
    """They use up sequences and no offsets, so a segment of nothing else has nothing to roll to."""
    session = Session()
    session.send(0, 0)
    session.seal()
    session.send(1, 0)
    session.clock.advance(8 * DAY)
    session.ledger.acknowledge(
        session.store.publish_many([m.message() for m in some_messages(2, 5)], "s").ranges, some_messages(2, 5)
    )
    session.reopen()
    session.ledger.check(session.store, random.Random(0))
    session.store.close()
