"""One life of a store that does everything once, and a diary of what it was told: for faults at each single step."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

import lamina
from lamina.disk import Disk
from lamina.errors import LaminaError
from lamina.testing import FakeClock
from tests.models.ledger import NOW_US, Expected, Ledger, arrow_of, some_messages

SETTINGS = lamina.Settings(
    log=lamina.LogSettings(segment_bytes_max=8192, index_interval_bytes=256, frame_bytes_target=2048),
    index=lamina.IndexSettings(background=False),
)
PARTITIONS = {"default": 1, "three": 3, "late": 2}


@dataclass(slots=True)
class Diary:
    """What must be there: streams surely there (True), surely not (False), or in between (None), and their ledgers."""

    streams: dict[str, bool | None] = field(default_factory=dict)
    retention: set[float | None] = field(default_factory=lambda: {None})
    ledgers: dict[str, Ledger] = field(default_factory=dict)
    starts: set[int] = field(default_factory=set)
    """Where the default stream may begin after a delete_before of unknown outcome."""
    failures: int = 0

    def check(self, store: lamina.Store, chance: random.Random) -> None:
        """The store holds all that was acknowledged, and of the rest whole calls only."""
        self.settle(store)
        names = set(store.streams())
        for name, there in self.streams.items():
            assert there is None or (name in names) == there, f"stream {name}: {there}"
            if name in names:
                assert store.stream(name).policy.partitions == PARTITIONS[name]
                self.ledgers[name].check(store, chance)
        assert store.stream("default").policy.retention_seconds in self.retention
        for name in names:
            ledger = self.ledgers.setdefault(name, Ledger(name, PARTITIONS[name]))
            more = some_messages(1, 999)
            ledger.acknowledge(store.publish_many([m.message() for m in more], name).ranges, more)
            ledger.settle(store)

    def settle(self, store: lamina.Store) -> None:
        """After a reopen: learn how the calls of unknown outcome ended."""
        start = self.ledgers["default"].partitions[0].start
        earliest = store.stream("default").partitions[0].earliest
        assert earliest in {start, *self.starts}, f"the log begins at {earliest}, not at {start} or {self.starts}"
        self.ledgers["default"].partitions[0].start = earliest
        for name in set(store.streams()) & set(self.ledgers):
            self.ledgers[name].settle(store)


class Life:
    """Runs the scenario; each step writes into the diary before and after it."""

    def __init__(self, disk: Disk) -> None:
        self.diary = Diary()
        self.clock = FakeClock(NOW_US, jump=False)
        self._disk = disk
        self._store: lamina.Store | None = None

    def run(self) -> None:
        """All steps. A step that fails is noted as of unknown outcome, and the next one is tried."""
        for step in self._steps():
            try:
                step()
            except LaminaError:
                self.diary.failures += 1
        if self._store is not None:
            with suppress(LaminaError):
                self._store.close()

    def snapshot(self) -> Diary:
        return copy.deepcopy(self.diary)

    def _steps(self) -> list[Callable[[], None]]:
        return [
            self._open,
            lambda: self._create("three"),
            lambda: self._publish("three", 1, seed=1),
            lambda: self._publish("three", 5, seed=2, sequence=0),
            lambda: self._publish("three", 80, seed=3, sequence=1),
            lambda: self._publish("default", 3, seed=4),
            lambda: self._publish("default", 100, seed=5, arrow=True),
            lambda: self._publish("default", 1, seed=6, value_bytes=4000),
            lambda: self._publish("default", 1, seed=7, value_bytes=5000),
            lambda: self._publish("default", 2, seed=8, sequence=0),
            lambda: self._seal("default"),
            lambda: self._publish("default", 2, seed=9, sequence=1),
            lambda: self._delete_before("default", 40),
            lambda: self._delete_before("default", 105),
            self._update,
            lambda: self._create("late"),
            lambda: self._publish("late", 4, seed=10),
            lambda: self._delete("late"),
            self._reopen,
            lambda: self._publish("three", 3, seed=11, sequence=2),
            lambda: self._seal("three"),
            lambda: self._publish("default", 1, seed=12),
        ]

    @property
    def store(self) -> lamina.Store:
        if self._store is None:
            self._open()
        assert self._store is not None
        return self._store

    def _open(self) -> None:
        self.diary.streams.setdefault("default", None)
        self.diary.ledgers.setdefault("default", Ledger("default", 1))
        self._store = lamina.open("store", disk=self._disk, clock=self.clock, settings=SETTINGS)
        self.diary.settle(self._store)
        self.diary.streams["default"] = True

    def _reopen(self) -> None:
        self.store.close()
        self._store = None
        self._open()

    def _create(self, name: str) -> None:
        self.diary.streams[name] = None
        self.diary.ledgers[name] = Ledger(name, PARTITIONS[name])
        self.store.create_stream(name, partitions=PARTITIONS[name])
        self.diary.streams[name] = True

    def _delete(self, name: str) -> None:
        self.diary.streams[name] = None
        self.store.delete_stream(name)
        self.diary.streams[name] = False

    def _update(self) -> None:
        self.diary.retention.add(60.0)
        self.store.update_stream("default", retention_seconds=60.0)
        self.diary.retention = {60.0}

    def _publish(
        self,
        name: str,
        count: int,
        *,
        seed: int,
        sequence: int | None = None,
        arrow: bool = False,
        value_bytes: int = 24,
    ) -> None:
        messages = some_messages(count, seed, value_bytes)
        ledger = self.diary.ledgers[name]
        store = self.store
        ledger.attempted(messages)
        content = arrow_of(messages) if arrow else [message.message() for message in messages]
        producer = None if sequence is None else ("p", sequence)
        try:
            receipt = store.publish_many(content, name, producer)
        except LaminaError:
            self._note_failure(name, messages)
            raise
        for part in ledger.partitions:
            part.unknown = part.unknown[:-1] if part.unknown else []
        ledger.acknowledge(receipt.ranges, messages)

    def _note_failure(self, name: str, messages: list[Expected]) -> None:
        """Of a failed call over several partitions, what is visible stays."""
        ledger = self.diary.ledgers[name]
        with suppress(LaminaError):
            infos = self.store.stream(name).partitions
            for number, part in ledger.split(messages).items():
                known = ledger.partitions[number]
                if infos[number].latest > len(known.messages):
                    known.acknowledge(len(known.messages), infos[number].latest, part)

    def _seal(self, name: str) -> None:
        self.store.seal(name)

    def _delete_before(self, name: str, offset: int) -> None:
        self.diary.starts.add(offset)
        self.store.delete_before(name, 0, offset)
        ledger = self.diary.ledgers[name].partitions[0]
        ledger.start = max(ledger.start, min(offset, len(ledger.messages)))
