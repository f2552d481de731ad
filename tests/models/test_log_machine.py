"""Any interleaving of publishing, rolling, deleting, faults, crashes and reopening, against a naive list."""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import suppress
from typing import ClassVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

import lamina
from lamina.errors import Conflict, Diverged, LaminaError, Unavailable
from lamina.log.head import read_head
from lamina.testing import CrashDisk, FakeClock, Fault, FaultyDisk
from tests.faults.hooked_disk import HookedDisk
from tests.models.ledger import NOW_US, SOAK, Expected, Ledger, arrow_of, owned, some_messages

STREAM = "s"
SETTINGS = lamina.Settings(
    log=lamina.LogSettings(segment_bytes_max=8192, index_interval_bytes=256, frame_bytes_target=2048),
    index=lamina.IndexSettings(background=False),
)
SEEDS = st.integers(0, 2**16)
FAULTS = st.sampled_from(
    [
        Fault(operation="append", path="*.log", error="ENOSPC"),
        Fault(operation="append", path="*.log", error="ENOSPC", short=100),
        Fault(operation="append", path="*.log", error="EIO", when="after"),
        Fault(operation="append", path="*index", error="ENOSPC"),
        Fault(operation="pwrite", path="*/head"),
        Fault(operation="sync", path="*.log"),
        Fault(operation="sync", path="*.log", when="after"),
        Fault(operation="open", path="*.log", error="ENOSPC"),
        Fault(operation="open", path="*index", error="EMFILE"),
        Fault(operation="sync_directory"),
        Fault(operation="rename", error="ENOSPC"),
        Fault(operation="unlink"),
        Fault(operation="truncate", path="*.log"),
    ]
)


class LogMachine(RuleBasedStateMachine):
    """One stream on a disk that can crash."""

    durability: ClassVar[str] = "local"
    partitions: ClassVar[int] = 1

    def __init__(self) -> None:
        super().__init__()
        self.clock = FakeClock(NOW_US, jump=False)
        self.crash_disk = CrashDisk()
        self.ledger = Ledger(STREAM, self.partitions)
        self.sequence = 0
        self.numbered: list[tuple[int, list[Expected], lamina.Receipt]] = []
        self.chance = random.Random(0)
        self.open()
        self.store.create_stream(STREAM, partitions=self.partitions, durability=self.durability)

    def open(self) -> None:
        self.faulty = FaultyDisk(self.crash_disk)
        self.disk = HookedDisk(self.faulty)
        self.store = lamina.open("store", disk=self.disk, clock=self.clock, settings=SETTINGS)

    def teardown(self) -> None:
        self.store.close()

    @initialize(seed=SEEDS)
    def choose(self, seed: int) -> None:
        self.chance = random.Random(seed)

    # Publishing

    @rule(seed=SEEDS, size=st.sampled_from([0, 20, 3000]))
    def publish(self, seed: int, size: int) -> None:
        (one,) = some_messages(1, seed, size)
        receipt = self.store.publish(
            one.topic, one.value, key=one.key, labels=dict(one.labels), timestamp=one.timestamp, stream=STREAM
        )
        self.ledger.acknowledge({receipt.partition: (receipt.offset, receipt.offset + 1)}, [one])

    @rule(count=st.integers(0, 6) | st.integers(60, 90), seed=SEEDS, arrow=st.booleans(), numbered=st.booleans())
    def publish_many(self, count: int, seed: int, arrow: bool, numbered: bool) -> None:
        messages = some_messages(count, seed)
        sequence = self.sequence if numbered else None
        receipt = self.send(messages, arrow=arrow and count > 0, sequence=sequence)
        self.ledger.acknowledge(receipt.ranges, messages)
        if numbered:
            self.remember(messages, receipt)

    @precondition(lambda self: self.numbered)
    @rule(back=st.integers(0, 4), arrow=st.booleans())
    def retry_a_numbered_call(self, back: int, arrow: bool) -> None:
        sequence, messages, receipt = self.numbered[-1 - back % len(self.numbered)]
        again = self.send(messages, arrow=arrow and bool(messages), sequence=sequence)
        assert again.ranges == receipt.ranges

    @precondition(lambda self: self.sequence > 0)
    @rule(ahead=st.integers(1, 5), seed=SEEDS)
    def skip_a_sequence(self, ahead: int, seed: int) -> None:
        with pytest.raises(Conflict):
            self.send(some_messages(2, seed), arrow=False, sequence=self.sequence + ahead)

    @precondition(lambda self: self.durability == "local")
    @rule(fault=FAULTS, after=st.integers(0, 2), count=st.sampled_from([1, 3, 70]), seed=SEEDS, numbered=st.booleans())
    def publish_on_a_failing_disk(self, fault: Fault, after: int, count: int, seed: int, numbered: bool) -> None:
        messages = some_messages(count, seed)
        sequence = self.sequence if numbered else None
        self.faulty.add(Fault(**{name: getattr(fault, name) for name in fault.__slots__} | {"after": after}))
        try:
            receipt = self.send(messages, arrow=False, sequence=sequence)
        except Unavailable:
            self.faulty.heal()
            self.after_failure(messages)
            if sequence is None:
                return
            receipt = self.send(messages, arrow=False, sequence=sequence)
        self.faulty.heal()
        self.ledger.acknowledge(receipt.ranges, messages)
        if sequence is not None:
            self.remember(messages, receipt)

    # Upkeep

    @rule()
    def seal(self) -> None:
        self.store.seal(STREAM)

    @rule(number=st.integers(0, 2), share=st.floats(0, 1))
    def delete_before(self, number: int, share: float) -> None:
        number %= self.partitions
        ledger = self.ledger.partitions[number]
        offset = int(len(ledger.messages) * share)
        self.store.delete_before(STREAM, number, offset)
        ledger.start = max(ledger.start, offset)

    @rule(seconds=st.sampled_from([0.2, 3600.0]))
    def wait(self, seconds: float) -> None:
        self.clock.advance(seconds)

    # Ends of a process

    @rule()
    def close_and_reopen(self) -> None:
        epochs = [partition.epoch for partition in owned(self.store, STREAM)]
        self.store.close()
        self.open()
        assert self.durability == "memory" or [p.epoch for p in owned(self.store, STREAM)] == epochs
        self.reopened(lost=[] if self.durability != "memory" else [0] * self.partitions)

    @rule()
    def kill(self) -> None:
        self.end_process()
        self.crash_disk.kill()
        self.open()
        self.reopened(lost=[] if self.durability != "memory" else [0] * self.partitions)

    @rule(keep=st.sampled_from(["none", "all"]) | SEEDS)
    def crash(self, keep: str | int) -> None:
        durable = [self.durable_end(number) for number in range(self.partitions)]
        self.end_process()
        if isinstance(keep, int):
            self.crash_disk.crash(random.Random(keep))
        else:
            self.crash_disk.crash("all" if keep == "all" else "none")
        self.open()
        self.reopened(lost=[] if self.durability == "local" else durable)

    # Parts of the rules

    def send(self, messages: Sequence[Expected], *, arrow: bool, sequence: int | None) -> lamina.Receipt:
        content = arrow_of(messages) if arrow else [message.message() for message in messages]
        return self.store.publish_many(content, STREAM, None if sequence is None else ("p", sequence))

    def remember(self, messages: list[Expected], receipt: lamina.Receipt) -> None:
        self.numbered = [*self.numbered[-4:], (self.sequence, messages, receipt)]
        self.sequence += 1

    def after_failure(self, messages: Sequence[Expected]) -> None:
        """Each partition shows its part whole or not at all; a partition that refuses to write is reopened."""
        self.ledger.attempted(messages)
        for number, ledger in enumerate(self.ledger.partitions):
            end = self.store.stream(STREAM).partitions[number].latest
            assert end == len(ledger.messages) or len(self.partitions_of(messages)) > 1, "a failed call is visible"
            if end > len(ledger.messages):
                ledger.messages += ledger.unknown.pop()
        if any(p.refusal is not None or (p._active and p._active.broken) for p in owned(self.store, STREAM)):
            self.store.close()
            self.open()
            self.reopened(lost=[])

    def partitions_of(self, messages: Sequence[Expected]) -> dict[int, list[Expected]]:
        return self.ledger.split(messages)

    def durable_end(self, number: int) -> int:
        head = read_head(self.crash_disk, f"{STREAM}/{number}") if self.durability == "flush" else None
        return head.end if head is not None else 0

    def end_process(self) -> None:
        self.disk.die()
        with suppress(LaminaError):
            self.store.close()

    def reopened(self, lost: list[int]) -> None:
        """Compare all; `lost` gives for each partition how much must be left where the rest may be gone."""
        before = [len(ledger.messages) for ledger in self.ledger.partitions]
        self.ledger.settle(self.store, lost or None)
        self.ledger.check(self.store, self.chance)
        for number, (partition, end_before) in enumerate(zip(owned(self.store, STREAM), before, strict=True)):
            end = len(self.ledger.partitions[number].messages)
            partition.state.check(partition.epoch, end, end)
            if end < end_before:
                with pytest.raises(Diverged):
                    partition.state.check(partition.epoch - 1, end + 1, end)
        if lost:
            self.ask_for_the_sequence()

    def ask_for_the_sequence(self) -> None:
        """Numbered calls may be lost too: go on from what the partitions remember."""
        self.numbered = []
        seen = [last for p in owned(self.store, STREAM) if (last := p.last_sequence("p")) is not None]
        self.sequence = max(seen, default=-1) + 1


class ThreePartitions(LogMachine):
    """As above; calls spread over partitions."""

    partitions = 3


class FlushMachine(LogMachine):
    """A power loss may cost the newest messages, never more."""

    durability = "flush"


class MemoryMachine(LogMachine):
    """Everything is gone with the process, and positions know it."""

    durability = "memory"


def _settings(examples: int) -> settings:
    return settings(
        max_examples=examples * SOAK,
        stateful_step_count=20,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        print_blob=False,
    )


TestOnePartition = LogMachine.TestCase
TestOnePartition.settings = _settings(70)
TestThreePartitions = ThreePartitions.TestCase
TestThreePartitions.settings = _settings(40)
TestFlush = FlushMachine.TestCase
TestFlush.settings = _settings(60)
TestMemory = MemoryMachine.TestCase
TestMemory.settings = _settings(20)
