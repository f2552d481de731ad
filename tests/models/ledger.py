"""The naive model of a stream: a list of messages for each partition, and everything that reading must agree with."""

from __future__ import annotations

import os
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import pyarrow as pa

import lamina
from lamina.log import Partition
from lamina.model import partition_of

SOAK = 20 if os.environ.get("LAMINA_SOAK") else 1
"""How many times more examples a soak run tries."""

NOW_US = 1_700_000_000_000_000
TOPICS = ("orders/eu", "orders/us", "jobs", "audit/λ", "t")
KEYS = (None, b"", b"a", b"b", b"\0\xff" * 9)


class Expected(NamedTuple):
    """A message without its place."""

    topic: str
    value: bytes | None
    key: bytes | None
    labels: tuple[tuple[str, str], ...]
    timestamp: int | None

    @classmethod
    def of(cls, message: lamina.Message) -> Expected:
        labels = tuple(sorted(message.labels.items()))
        return cls(message.topic, message.value, message.key, labels, message.timestamp)

    def message(self) -> lamina.Message:
        return lamina.Message(self.topic, self.value, self.key, dict(self.labels), self.timestamp)


def some_messages(count: int, seed: int, value_bytes: int = 24) -> list[Expected]:
    """Any messages: several topics and keys, tombstones, labels, timestamps out of order."""
    chance = random.Random(seed)
    found = []
    for number in range(count):
        value = None if chance.randrange(9) == 0 else f"{seed}.{number}.".encode() + chance.randbytes(value_bytes)
        labels = {f"l{at}": f"v{chance.randrange(5)}" for at in range(chance.randrange(3))}
        timestamp = NOW_US + chance.randrange(-50, 50) * 1_000_000
        topic, key = chance.choice(TOPICS), chance.choice(KEYS)
        found.append(Expected(topic, value, key, tuple(sorted(labels.items())), timestamp))
    return found


def arrow_of(messages: Sequence[Expected]) -> pa.RecordBatch:
    return pa.record_batch(
        {
            "topic": pa.array([m.topic for m in messages], pa.utf8()),
            "value": pa.array([m.value for m in messages], pa.binary()),
            "key": pa.array([m.key for m in messages], pa.binary()),
            "labels": pa.array([list(m.labels) for m in messages], pa.map_(pa.utf8(), pa.utf8())),
            "timestamp": pa.array([m.timestamp for m in messages], pa.int64()),
        }
    )


@dataclass(slots=True)
class PartitionLedger:
    """Messages by offset; calls of unknown outcome, which may be found whole behind them."""

    messages: list[Expected] = field(default_factory=list)
    start: int = 0
    unknown: list[list[Expected]] = field(default_factory=list)

    def acknowledge(self, first: int, end: int, messages: Sequence[Expected]) -> None:
        assert end - first == len(messages)
        if end <= len(self.messages):
            assert self.messages[first:end] == list(messages), "a receipt names the place of other messages"
            return
        assert first == len(self.messages), f"offset {first} was given out where {len(self.messages)} is next"
        self.messages += messages
        self.unknown.clear()

    def take_whole_calls(self, found: Sequence[Expected]) -> None:
        """The tail behind what is known must be whole calls of unknown outcome, in their order."""
        tail = list(found[len(self.messages) :])
        for call in self.unknown:
            if tail[: len(call)] == call:
                self.messages += call
                del tail[: len(call)]
        assert not tail, f"{len(tail)} messages that nobody published: {tail[:2]}"
        self.unknown.clear()


class Ledger:
    """What one stream must hold."""

    def __init__(self, stream: str = "default", partitions: int = 1) -> None:
        self.stream = stream
        self.partitions = [PartitionLedger() for _ in range(partitions)]

    def split(self, messages: Iterable[Expected]) -> dict[int, list[Expected]]:
        parts: dict[int, list[Expected]] = {}
        for message in messages:
            number = partition_of(message.topic, message.key, len(self.partitions), "topic")
            parts.setdefault(number, []).append(message)
        return parts

    def acknowledge(self, ranges: Mapping[int, tuple[int, int]], messages: Sequence[Expected]) -> None:
        parts = self.split(messages)
        assert {number: end - first for number, (first, end) in ranges.items() if end > first} == {
            number: len(part) for number, part in parts.items()
        }
        for number, part in parts.items():
            self.partitions[number].acknowledge(*ranges[number], part)

    def attempted(self, messages: Sequence[Expected]) -> None:
        """A call failed, or was under way at a crash: each partition has its part whole or not at all."""
        for number, part in self.split(messages).items():
            self.partitions[number].unknown.append(part)

    def settle(self, store: lamina.Store, durable: Sequence[int] | None = None) -> None:
        """After a reopen: take what is there of calls of unknown outcome.

        Where `durable` gives an offset per partition, messages behind it may be gone, the newest first.
        """
        for number, ledger in enumerate(self.partitions):
            found = read_all(store, self.stream, number)
            end = store.stream(self.stream).partitions[number].latest
            if durable is not None and end < len(ledger.messages):
                assert durable[number] <= end, f"{durable[number]} messages were durable, {end} are left"
                del ledger.messages[end:]
                ledger.unknown.clear()
            ledger.take_whole_calls([*ledger.messages[: ledger.start], *found])

    def check(self, store: lamina.Store, chance: random.Random) -> None:
        """Every way of reading agrees with the model."""
        for number, ledger in enumerate(self.partitions):
            self._check_partition(store, number, ledger, chance)
        self._check_keys(store)
        here = {m.topic for ledger in self.partitions for m in ledger.messages[ledger.start :]}
        ever = {m.topic for ledger in self.partitions for m in ledger.messages}
        assert here <= set(store.topics(self.stream)) <= ever
        report = store.verify()
        assert report.ok, report.problems

    def _check_partition(
        self, store: lamina.Store, number: int, ledger: PartitionLedger, chance: random.Random
    ) -> None:
        name, start, end = self.stream, ledger.start, len(ledger.messages)
        wanted = ledger.messages[start:]
        info = store.stream(name).partitions[number]
        assert (info.earliest, info.latest) == (start, end)
        assert read_all(store, name, number) == wanted
        backward = list(store.read(stream=name, partition=number, descending=True))
        assert [m.offset for m in backward] == list(range(end - 1, start - 1, -1))
        assert [Expected.of(m) for m in backward] == wanted[::-1]
        _check_arrow(store, name, number, ledger)
        for offset in {chance.randrange(start, end) for _ in range(4)} if end > start else set():
            message = store.get(f"{name}/{number}/{offset}")
            assert (message.offset, Expected.of(message)) == (offset, ledger.messages[offset])
        for time_us in (NOW_US + chance.randrange(-60, 60) * 1_000_000 for _ in range(4)):
            naive = (start + at for at, m in enumerate(wanted) if m.timestamp is not None and m.timestamp >= time_us)
            assert store.offset_at(time_us, name, number) == next(naive, end)

    def _check_keys(self, store: lamina.Store) -> None:
        for key in KEYS:
            if key is None:
                continue
            for topic in (None, *TOPICS):
                wanted = self._latest(key, topic)
                found = store.latest(key, topic, self.stream)
                assert (found.offset if found else None) == (wanted[1] if wanted else None), (key, topic)
                assert (Expected.of(found) if found else None) == (wanted[2] if wanted else None)

    def _latest(self, key: bytes, topic: str | None) -> tuple[int, int, Expected] | None:
        newest = []
        for ledger in self.partitions:
            for offset in range(len(ledger.messages) - 1, ledger.start - 1, -1):
                message = ledger.messages[offset]
                if message.key == key and topic in (None, message.topic):
                    newest.append((message.timestamp or 0, offset, message))
                    break
        return max(newest, key=lambda found: found[:2], default=None)


def read_all(store: lamina.Store, stream: str = "default", partition: int = 0) -> list[Expected]:
    """All messages; their offsets are checked to be without gaps."""
    messages = list(store.read(stream=stream, partition=partition))
    info = store.stream(stream).partitions[partition]
    assert [m.offset for m in messages] == list(range(info.earliest, info.latest))
    return [Expected.of(message) for message in messages]


def owned(store: lamina.Store, stream: str = "default") -> Sequence[Partition]:
    """The partitions themselves, for their state."""
    return store._owned().get(stream).owned_partitions()


def _check_arrow(store: lamina.Store, stream: str, number: int, ledger: PartitionLedger) -> None:
    batches = list(store.read_arrow(stream=stream, partition=number))
    rows = [row for batch in batches for row in batch.to_pylist()]
    assert [row["offset"] for row in rows] == list(range(ledger.start, len(ledger.messages)))
    found = [
        Expected(row["topic"], row["value"], row["key"], tuple(sorted(row["labels"])), row["timestamp"]) for row in rows
    ]
    assert found == ledger.messages[ledger.start :]
    backward = store.read_arrow(stream=stream, partition=number, descending=True)
    offsets = [offset for batch in backward for offset in batch.column("offset").to_pylist()]
    assert offsets == list(range(len(ledger.messages) - 1, ledger.start - 1, -1))
