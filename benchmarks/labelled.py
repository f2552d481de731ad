"""Messages for queries: 100 bytes of value, five labels with 4, 50, 1,000, 100,000 and 10 different values. Seeded."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

import lamina
from benchmarks.bench import BATCH_ROWS, STREAM

VALUE_BYTES = 100
CARDINALITIES = {"app": 4, "region": 50, "thread": 1000, "user": 100_000, "level": 10}
FIRST_US = 1_700_000_000_000_000
TEXTS = {
    key: pa.array([f"{key}-{number:0{len(str(count - 1))}d}" for number in range(count)])
    for key, count in CARDINALITIES.items()
}
TOPICS = pa.array([f"orders/{number:02d}" for number in range(50)])


class Labelled:
    """A supply of batches whose timestamps are `step_us` apart."""

    def __init__(self, labels: int = 5, step_us: int = 1000, seed: int = 1) -> None:
        self._keys = list(CARDINALITIES)[:labels]
        self._step_us = step_us
        self._random = np.random.default_rng(seed)
        self._next = 0

    def batches(self, rows: int) -> Iterator[pa.RecordBatch]:
        for _ in range(0, rows, BATCH_ROWS):
            yield self.batch(BATCH_ROWS)

    def batch(self, rows: int) -> pa.RecordBatch:
        times = FIRST_US + (self._next + np.arange(rows)) * self._step_us
        self._next += rows
        values = pa.array(np.frombuffer(self._random.bytes(rows * VALUE_BYTES), f"S{VALUE_BYTES}"), pa.binary())
        topics = pa.DictionaryArray.from_arrays(self._codes(rows, len(TOPICS)), TOPICS)
        return pa.RecordBatch.from_pydict(
            {"timestamp": pa.array(times), "topic": topics, "value": values, "labels": self._labels(rows)}
        )

    def _codes(self, rows: int, count: int) -> pa.Array:
        return pa.array(self._random.integers(count, size=rows, dtype=np.int32))

    def _labels(self, rows: int) -> pa.MapArray:
        """As a client sends them: texts in use only, under codes."""
        columns = []
        for key in self._keys:
            coded = TEXTS[key].take(self._codes(rows, CARDINALITIES[key]))
            columns.append(coded)
        each = len(self._keys)
        items = pa.concat_arrays(columns).dictionary_encode()
        order = np.arange(rows * each).reshape(each, rows).T.ravel()
        keys = pa.DictionaryArray.from_arrays(pa.array(np.tile(np.arange(each, dtype=np.int32), rows)), self._keys)
        offsets = pa.array(np.arange(0, rows * each + 1, each, dtype=np.int32))
        return pa.MapArray.from_arrays(offsets, keys, items.take(pa.array(order)))


def fill(store: lamina.Store, rows: int, *, step_us: int = 1000) -> None:
    """Publish, seal, and wait for the index."""
    store.create_stream(STREAM)
    for batch in Labelled(step_us=step_us).batches(rows):
        store.publish_many(batch, stream=STREAM)
    store.seal(STREAM)
    wait_for_index(store)


def wait_for_index(store: lamina.Store, left: int = 0) -> None:
    """Until no more than so many messages are not in index files."""
    pause = threading.Event()
    while store.metrics()["lamina_index_backlog_messages"] > left:
        pause.wait(0.01)
