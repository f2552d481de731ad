"""What is published: 100 bytes of value, 50 topics, three labels with 4, 1000 and 10 different values. Seeded."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

import lamina
from benchmarks.bench import STREAM
from lamina.model import Now, stored_batch

VALUE_BYTES = 100
KEY_BYTES = 16
TOPICS = [f"orders/{number:02d}" for number in range(50)]
LABELS = {
    "app": [f"app-{number}" for number in range(4)],
    "customer": [f"customer-{number:04d}" for number in range(1000)],
    "region": [f"region-{number}" for number in range(10)],
}
Single = tuple[str, bytes, dict[str, str]]


class Workload:
    """An endless supply of messages; no two batches hold the same values."""

    def __init__(self, seed: int = 1) -> None:
        self._random = np.random.default_rng(seed)

    def coded(self, rows: int, *, keyed: bool = False) -> pa.RecordBatch:
        """A batch whose topics and labels are dictionary codes already."""
        columns = {
            "topic": self._codes(rows, TOPICS),
            "value": self._bytes(rows, VALUE_BYTES),
            "labels": self._labels(rows),
        }
        if keyed:
            columns["key"] = self._bytes(rows, KEY_BYTES)
        return pa.RecordBatch.from_pydict(columns)

    def singles(self, count: int) -> list[Single]:
        """Messages to publish one by one: topic, value, labels."""
        topics = self._random.integers(len(TOPICS), size=count).tolist()
        picks = [self._random.integers(len(values), size=count).tolist() for values in LABELS.values()]
        return [
            (
                TOPICS[topic],
                self._random.bytes(VALUE_BYTES),
                {name: LABELS[name][at] for name, at in zip(LABELS, codes, strict=True)},
            )
            for topic, *codes in zip(topics, *picks, strict=True)
        ]

    def offsets(self, count: int, start: int, end: int) -> list[int]:
        """Random offsets of [start, end)."""
        found: list[int] = self._random.integers(start, end, size=count).tolist()
        return found

    def _codes(self, rows: int, texts: list[str]) -> pa.DictionaryArray:
        codes = self._random.integers(len(texts), size=rows, dtype=np.int32)
        return pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(texts))

    def _bytes(self, rows: int, length: int) -> pa.Array:
        ends = pa.py_buffer(np.arange(rows + 1, dtype=np.int32) * np.int32(length))
        return pa.Array.from_buffers(pa.binary(), rows, [None, ends, pa.py_buffer(self._random.bytes(rows * length))])

    def _labels(self, rows: int) -> pa.MapArray:
        sizes = [len(values) for values in LABELS.values()]
        firsts = np.cumsum([0, *sizes[:-1]])
        items = np.column_stack(
            [self._random.integers(f, f + n, size=rows) for f, n in zip(firsts, sizes, strict=True)]
        )
        keys = np.tile(np.arange(len(LABELS), dtype=np.int32), rows)
        texts = [text for values in LABELS.values() for text in values]
        return pa.MapArray.from_arrays(
            pa.array(np.arange(rows + 1, dtype=np.int32) * np.int32(len(LABELS))),
            pa.DictionaryArray.from_arrays(pa.array(keys), pa.array(list(LABELS))),
            pa.DictionaryArray.from_arrays(pa.array(items.astype(np.int32).ravel()), pa.array(texts)),
        )


def plain(coded: pa.RecordBatch) -> pa.RecordBatch:
    """The same messages as most programs have them: topic string, labels map<string, string>."""
    columns = dict(zip(coded.schema.names, coded.columns, strict=True))
    labels = columns["labels"]
    columns["topic"] = columns["topic"].dictionary_decode()
    columns["labels"] = pa.MapArray.from_arrays(
        labels.offsets, labels.keys.dictionary_decode(), labels.items.dictionary_decode()
    )
    return pa.RecordBatch.from_pydict(columns)


def ready(coded: pa.RecordBatch) -> pa.RecordBatch:
    """The same messages exactly as the log keeps them."""
    return stored_batch(coded, Now(time.time_ns() // 1000, 0))


def fill(store: lamina.Store, batches: int, rows: int, *, keyed: bool = False) -> None:
    """Publish that many batches to the benchmarks' stream."""
    for batch in supply(batches, rows, keyed=keyed):
        store.publish_many(batch, stream=STREAM)


def supply(batches: int, rows: int, *, keyed: bool = False) -> Iterator[pa.RecordBatch]:
    workload = Workload()
    for _ in range(batches):
        yield workload.coded(rows, keyed=keyed)
