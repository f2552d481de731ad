"""Any interleaving of publishing, sealing, deleting, indexing, crashes and reopening: queries answer as a list does."""

from __future__ import annotations

import random
from contextlib import suppress
from typing import ClassVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

import lamina
from lamina.errors import Conflict, LaminaError, NotFound
from lamina.testing import CrashDisk, FakeClock, Fault, FaultyDisk
from tests.faults.hooked_disk import HookedDisk
from tests.models.ledger import SOAK
from tests.models.query_ledger import NOW_US, expected, paged, some_messages, some_question

STREAM = "s"
SETTINGS = lamina.Settings(
    log=lamina.LogSettings(segment_bytes_max=16_384, frame_bytes_target=2048),
    index=lamina.IndexSettings(chunk_rows=16, background=False),
)
SEEDS = st.integers(0, 2**16)


class QueryMachine(RuleBasedStateMachine):
    """One stream; the test decides when background indexing takes a step."""

    partitions: ClassVar[int] = 1
    durability: ClassVar[str] = "local"

    def __init__(self) -> None:
        super().__init__()
        self.clock = FakeClock(NOW_US, jump=False)
        self.crash_disk = CrashDisk()
        self.chance = random.Random(0)
        self.messages: list[lamina.Message] = []
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

    @rule(count=st.sampled_from([1, 5, 40, 100]), orderly=st.sampled_from([True, True, True, False]))
    def publish(self, count: int, orderly: bool) -> None:
        newest = max((m.timestamp or 0 for m in self.messages), default=NOW_US)
        sent = some_messages(count, self.chance, start_us=newest if orderly else None)
        receipt = self.store.publish_many(sent, stream=STREAM)
        fresh = [m for part, (first, end) in receipt.ranges.items() for m in self.read(part, first, end)]
        assert len(fresh) == count
        self.messages += fresh

    def read(self, partition: int, start: int, end: int) -> list[lamina.Message]:
        return list(self.store.read(stream=STREAM, partition=partition, start=start, end=end))

    @rule()
    def index(self) -> None:
        self.store._stream(STREAM).index.step()

    @rule(operation=st.sampled_from(["append", "rename", "open", "sync", "map"]), short=st.sampled_from([None, 100]))
    def index_on_a_failing_disk(self, operation: str, short: int | None) -> None:
        wanted = short if operation == "append" else None
        self.faulty.add(Fault(operation=operation, path="*.labels*", error="ENOSPC", short=wanted))  # type: ignore[arg-type]
        self.store._stream(STREAM).index.step()
        self.faulty.heal()

    @rule()
    def seal(self) -> None:
        self.store.seal(STREAM)

    @rule()
    def delete_a_few(self) -> None:
        part = self.chance.randrange(self.partitions)
        mine = [m.offset for m in self.messages if m.partition == part]
        if mine:
            offset = self.chance.choice(mine)
            self.store.delete_before(STREAM, part, offset)
            self.messages = [m for m in self.messages if m.partition != part or m.offset >= offset]

    @rule(micros=st.sampled_from([1, 300_000]))
    def let_time_pass(self, micros: int) -> None:
        self.clock.advance(micros / 1e6)

    @rule(kind=st.sampled_from(["close", "kill", "power loss"]))
    def reopen(self, kind: str) -> None:
        if kind != "close":
            self.disk.die()
            if kind == "kill":
                self.crash_disk.kill()
            else:
                self.crash_disk.crash(self.chance if self.chance.random() < 0.5 else "none")
        with suppress(LaminaError):
            self.store.close()  # also of a process that is dead: its threads would wait for ever
        self.open()

    @rule(name=st.sampled_from(["one", "two"]), swap=st.booleans())
    def create_composite(self, name: str, swap: bool) -> None:
        keys = ["thread", "app"] if swap else ["app", "thread"]
        try:
            self.store.create_composite(name, keys, STREAM)
        except Conflict:
            assert self.store.composites(STREAM)

    @rule(name=st.sampled_from(["one", "two"]))
    def drop_composite(self, name: str) -> None:
        try:
            self.store.drop_composite(name, STREAM)
        except NotFound:
            assert name not in [one.name for one in self.store.composites(STREAM)]

    @rule(seed=SEEDS, descending=st.booleans(), show_expired=st.booleans(), follow=st.booleans())
    def query(self, seed: int, descending: bool, show_expired: bool, follow: bool) -> None:
        chance = random.Random(seed)
        question = some_question(chance)
        now_us = None if show_expired else self.clock.now_us()
        wanted = expected(self.messages, question, now_us=now_us, descending=descending)
        limits = [chance.choice([1, 2, 7, 50, 1000]) for _ in range(3)]
        stores = [self.store]
        if follow:
            stores.append(lamina.open("store", disk=self.disk, clock=self.clock, settings=SETTINGS, read_only=True))
        for store in stores:
            found = paged(store, STREAM, question, limits, descending=descending, expired=show_expired)
            assert found == wanted, question.where
            count = store.count(
                question.where,
                stream=STREAM,
                include_expired=show_expired,
                **question.narrowed,  # type: ignore[arg-type]
            )
            assert count == len(wanted)
        for store in stores[1:]:
            store.close()


class ManyPartitions(QueryMachine):
    partitions = 3


def _settings(examples: int) -> settings:
    return settings(
        max_examples=examples * SOAK,
        stateful_step_count=25,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        print_blob=False,
    )


TestOnePartition = QueryMachine.TestCase
TestOnePartition.settings = _settings(120)
TestManyPartitions = ManyPartitions.TestCase
TestManyPartitions.settings = _settings(60)
