"""Random publishing and random reads of a store, against a plain list of messages."""

from __future__ import annotations

from dataclasses import dataclass, field
from zlib import crc32

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lamina
from lamina import LogSettings, Settings
from lamina.errors import OffsetOutOfRange
from lamina.testing import FakeClock

NOW_US = 1_700_000_000_000_000
PARTITIONS = 2
BOUNDED = settings(max_examples=40, deadline=None)
SMALL = Settings(log=LogSettings(segment_bytes_max=4096, index_interval_bytes=300, frame_bytes_target=1500))


@dataclass(frozen=True)
class Written:
    """What was published."""

    topic: str
    value: bytes | None
    key: bytes | None
    timestamp: int
    labels: dict[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class Choices:
    """What a read asks for."""

    topic: str | None
    start: int | None
    end: int | None
    limit: int | None
    start_time: int | None
    end_time: int | None
    descending: bool


MESSAGES = st.builds(
    Written,
    st.sampled_from(["a", "b", "c", "ä"]),
    st.none() | st.binary(max_size=30),
    st.none() | st.sampled_from([b"", b"k", b"l"]),
    st.integers(0, 50),
    st.dictionaries(st.sampled_from(["x", "y"]), st.sampled_from(["1", ""])),
)
STEPS = st.lists(
    st.tuples(st.sampled_from(["one by one", "rows", "arrow"]), st.lists(MESSAGES, min_size=1, max_size=6))
    | st.tuples(st.just("arrow"), st.lists(MESSAGES, min_size=64, max_size=70))
    | st.tuples(st.sampled_from(["seal", "delete"]), st.just([])),
    max_size=8,
)
NUMBERS = st.none() | st.integers(0, 80)
TIMES = st.none() | st.integers(0, 52)
CHOICES = st.builds(
    Choices, st.none() | st.sampled_from(["a", "b", "z"]), NUMBERS, NUMBERS, NUMBERS, TIMES, TIMES, st.booleans()
)


class Model:
    """The same stream as lists, one for each partition."""

    def __init__(self) -> None:
        self.partitions: list[list[Written]] = [[] for _ in range(PARTITIONS)]
        self.earliest = [0] * PARTITIONS

    def publish(self, message: Written) -> None:
        self.partitions[crc32(message.topic.encode()) % PARTITIONS].append(message)

    def read(self, partition: int, choices: Choices) -> list[tuple[int, Written]] | None:
        """None where the start is out of range."""
        log, earliest = self.partitions[partition], self.earliest[partition]
        start = earliest if choices.start is None else choices.start
        if not earliest <= start <= len(log):
            return None
        found = [
            (offset, message)
            for offset, message in enumerate(log)
            if start <= offset < (len(log) if choices.end is None else choices.end)
            and choices.topic in (None, message.topic)
            and (choices.start_time is None or message.timestamp >= choices.start_time)
            and (choices.end_time is None or message.timestamp < choices.end_time)
        ]
        return (found[::-1] if choices.descending else found)[: choices.limit]


def perform(store: lamina.Store, model: Model, step: str, messages: list[Written]) -> None:
    if step == "seal":
        store.seal("s")
    elif step == "delete":
        for partition, log in enumerate(model.partitions):
            model.earliest[partition] = max(model.earliest[partition], len(log) // 3)
            store.delete_before("s", partition, model.earliest[partition])
    elif step == "one by one":
        for m in messages:
            store.publish(m.topic, m.value, key=m.key, timestamp=m.timestamp, labels=m.labels, stream="s")
    elif step == "rows":
        items = [lamina.Message(m.topic, m.value, m.key, m.labels, m.timestamp) for m in messages]
        store.publish_many(items, stream="s")
    else:
        columns = {
            "topic": pa.array([m.topic for m in messages]),
            "value": pa.array([m.value for m in messages], pa.binary()),
            "key": pa.array([m.key for m in messages], pa.binary()),
            "timestamp": pa.array([m.timestamp for m in messages]),
            "labels": pa.array([list(m.labels.items()) for m in messages], pa.map_(pa.utf8(), pa.utf8())),
        }
        store.publish_many(pa.table(columns), stream="s")
    for message in messages:
        model.publish(message)


def seen(message: lamina.Message) -> tuple[int, Written]:
    assert message.timestamp is not None
    return message.offset, Written(message.topic, message.value, message.key, message.timestamp, message.labels)


def check_read(store: lamina.Store, model: Model, partition: int, choices: Choices) -> None:
    wanted = model.read(partition, choices)
    arguments = vars(choices) | {"stream": "s", "partition": partition}
    try:
        found = [seen(message) for message in store.read(**arguments)]
        batches = list(store.read_arrow(**arguments))
    except OffsetOutOfRange as error:
        assert wanted is None
        assert (error.earliest, error.latest) == (model.earliest[partition], len(model.partitions[partition]))  # noqa: PT017
        return
    assert wanted is not None
    assert found == wanted
    columns = [(b.column("offset").to_pylist(), b.column("value").to_pylist()) for b in batches]
    pairs = [pair for offsets, values in columns for pair in zip(offsets, values, strict=True)]
    assert pairs == [(offset, message.value) for offset, message in wanted]


def check_queries(store: lamina.Store, model: Model) -> None:
    for partition, log in enumerate(model.partitions):
        kept = list(enumerate(log))[model.earliest[partition] :]
        for time in (0, 10, 25, 51):
            first = next((offset for offset, m in kept if m.timestamp >= time), len(log))
            assert store.offset_at(time, "s", partition) == first
        for offset, message in kept[:: max(len(kept) // 5, 1)]:
            assert seen(store.get(f"s/{partition}/{offset}")) == (offset, message)
    for key in (b"", b"k", b"l", b"absent"):
        for topic in ("a", "b", "ä"):
            partition = crc32(topic.encode()) % PARTITIONS
            log, earliest = model.partitions[partition], model.earliest[partition]
            offsets = [n for n, m in enumerate(log) if n >= earliest and (m.key, m.topic) == (key, topic)]
            newest = store.latest(key, topic, "s")
            assert (newest.offset if newest else None) == max(offsets, default=None)
        anywhere = any(m.key == key for p, log in enumerate(model.partitions) for m in log[model.earliest[p] :])
        assert store.contains_key(key, stream="s") == anywhere


@pytest.mark.slow
@BOUNDED
@given(STEPS, st.lists(CHOICES, min_size=1, max_size=6))
def test_every_read_agrees_with_a_list(steps: list[tuple[str, list[Written]]], choices: list[Choices]) -> None:
    model = Model()
    with lamina.open("memory:", settings=SMALL, clock=FakeClock(NOW_US, jump=False)) as store:
        store.create_stream("s", partitions=PARTITIONS)
        for step, messages in steps:
            perform(store, model, step, messages)
        for partition in range(PARTITIONS):
            for each in choices:
                check_read(store, model, partition, each)
        check_queries(store, model)
        assert store.verify().ok
        kept = sum(len(log) - first for log, first in zip(model.partitions, model.earliest, strict=True))
        assert store.stream("s").messages == kept
