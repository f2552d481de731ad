"""Sequential reading with a warm page cache: as Arrow, as Message objects, and with every field looked at.

Each pass opens the store anew, so that every checksum is verified in every pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from time import perf_counter

import lamina
from benchmarks.bench import BATCH_ROWS, LOG_ONLY, STREAM, Bench
from benchmarks.results import Result, at_least
from benchmarks.workload import fill

Reader = Callable[[lamina.Store, int], int]


def measure(bench: Bench) -> Iterator[Result]:
    rows = bench.scale.read_batches * BATCH_ROWS
    for partitions in (1, 8):
        case = f"partitions={partitions}"
        with bench.directory() as path:
            bench.say(f"publishing {rows:,} messages, {case}")
            with lamina.open(path / "store", settings=LOG_ONLY) as store:
                store.create_stream(STREAM, partitions=partitions)
                fill(store, bench.scale.read_batches, BATCH_ROWS)
                store.seal(STREAM)
            bench.say(f"reading {rows:,} messages, {case}")
            for name, read, target in (
                ("verified Arrow", _read_arrow, 40e6),
                ("Messages, labels not looked at", _read_messages, 1e6),
                ("Messages, every field read", _read_fields, 400e3),
            ):
                seconds = [_seconds(path / "store", partitions, read, rows) for _ in range(bench.scale.passes + 1)]
                # The first pass only warms the page cache.
                rate = rows / median(seconds[1:])
                yield Result(name=f"{name}, {case}", figure=rate, unit="msg/s", target=at_least(target))


def _seconds(path: Path, partitions: int, read: Reader, rows: int) -> float:
    """Seconds to read everything, without opening the store; segments and indexes are opened within."""
    with lamina.open(path, settings=LOG_ONLY) as store:
        start = perf_counter()
        count = sum(read(store, partition) for partition in range(partitions))
        seconds = perf_counter() - start
    if count != rows:
        raise RuntimeError(f"read {count} of {rows} messages")
    return seconds


def _read_arrow(store: lamina.Store, partition: int) -> int:
    return sum(batch.num_rows for batch in store.read_arrow(stream=STREAM, partition=partition))


def _read_messages(store: lamina.Store, partition: int) -> int:
    count = 0
    for _message in store.read(stream=STREAM, partition=partition):
        count += 1
    return count


def _read_fields(store: lamina.Store, partition: int) -> int:
    count = 0
    for m in store.read(stream=STREAM, partition=partition):
        fields = (
            m.stream, m.partition, m.offset, m.ref, m.timestamp, m.time, m.topic,
            m.key, m.value, m.labels, m.expires_at, m.deliver_at, m.priority,
        )  # fmt: skip
        count += bool(fields)
    return count
