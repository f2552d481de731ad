"""publish_many of Arrow batches, beside the least that any durable log must do with them.

Batches come plain (topic string, labels map<string, string>) or coded (dictionaries). The rival gets the same
messages in their stored form, ready made and ready split: it serialises them to Arrow IPC, takes the CRC32C, appends
and syncs, each partition's part to a file of its own, in turn with the store. What the same costs in a single file is
reported beside it. The batches stay within one segment, since sealing in the background would slow the rival as much
as the store; with sealing the store is measured alone.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from time import perf_counter

import pyarrow as pa
from crc32c import crc32c

import lamina
from benchmarks.bench import BATCH_ROWS, STREAM, Bench, segments_of
from benchmarks.raw_file import RawFile
from benchmarks.results import Result, Rival, at_least, percentile
from benchmarks.workload import Workload, plain, ready
from lamina.model import split_batch

BLOCK_BATCHES = 20
SUSTAINED_SEGMENT_BYTES = 32 << 20
RIVAL = "serialise + CRC32C + append + fdatasync"
Shape = Callable[[pa.RecordBatch], pa.RecordBatch]


def measure(bench: Bench) -> Iterator[Result]:
    for partitions in (1, 8):
        yield from _beside_rival(bench, "plain batches", partitions, plain, is_headline=True)
    for partitions in (1, 8):
        yield from _beside_rival(bench, "coded batches", partitions, _as_it_is, is_headline=False)
    for name, keyed in (("no keys", False), ("with keys", True)):
        bench.say(f"sustained, {name}")
        publishing, sealing = _sustained(bench, keyed=keyed)
        rows = bench.scale.batches_sustained * BATCH_ROWS
        yield Result(name=f"plain batches, sealing beside, {name}", figure=rows / publishing, unit="msg/s")
        yield Result(
            name=f"  sustained, until all is sealed, {name}", figure=rows / (publishing + sealing), unit="msg/s"
        )


def _beside_rival(bench: Bench, name: str, partitions: int, shape: Shape, *, is_headline: bool) -> Iterator[Result]:
    ours, rival, single = _seconds(bench, partitions, shape)
    rows = len(ours) * BATCH_ROWS
    yield Result(
        name=f"{name}, partitions={partitions}",
        figure=rows / sum(ours),
        unit="msg/s",
        rival=Rival(f"{RIVAL}, {partitions} files" if partitions > 1 else RIVAL, rows / sum(rival)),
        target=at_least(1_200_000) if is_headline else None,
        ratio_target=at_least(0.4) if is_headline else None,
    )
    if partitions > 1:
        yield Result(
            name=f"  {name}, partitions={partitions}",
            figure=rows / sum(ours),
            unit="msg/s",
            rival=Rival(f"{RIVAL}, 1 file", rows / sum(single)),
        )
    yield Result(
        name=f"  one of {name}, p50, partitions={partitions}",
        figure=percentile(ours, 50),
        unit="s",
        rival=Rival(RIVAL, percentile(rival, 50)),
    )


def _seconds(bench: Bench, partitions: int, shape: Shape) -> tuple[list[float], list[float], list[float]]:
    """Seconds of each batch: the store's, the rival's, and in a single file. Making batches is not timed."""
    workload = Workload()
    ours: list[float] = []
    rival: list[float] = []
    single: list[float] = []
    with bench.store(partitions) as store, bench.directory() as path, ExitStack() as stack:
        files = [stack.enter_context(RawFile(path / f"rival-{number}")) for number in range(partitions)]
        while (left := bench.scale.batches_published - len(ours)) > 0:
            bench.say(f"{left} batches to go, partitions={partitions}")
            block = [workload.coded(BATCH_ROWS) for _ in range(min(BLOCK_BATCHES, left))]
            for given, stored in [(shape(coded), ready(coded)) for coded in block]:
                parts = split_batch(stored, partitions, "topic")
                start = perf_counter()
                store.publish_many(given, stream=STREAM)
                ours.append(perf_counter() - start)
                rival.append(sum(_rival_seconds(files[number], part) for number, part in parts.items()))
                single.append(_rival_seconds(files[0], stored) if partitions > 1 else rival[-1])
        _check(store, len(ours) * BATCH_ROWS)
    return ours, rival, single


def _sustained(bench: Bench, *, keyed: bool) -> tuple[float, float]:
    """Seconds of publishing through several segments, and of what sealing had left to do after it."""
    workload = Workload()
    batches = [plain(workload.coded(BATCH_ROWS, keyed=keyed)) for _ in range(bench.scale.batches_sustained)]
    with bench.store(1, segments_of(SUSTAINED_SEGMENT_BYTES)) as store:
        start = perf_counter()
        for batch in batches:
            store.publish_many(batch, stream=STREAM)
        published = perf_counter()
        pause = threading.Event()
        while any(segment.state == "closed" for segment in store.segments(STREAM)):
            pause.wait(0.001)
        sealed = perf_counter()
        _check(store, len(batches) * BATCH_ROWS)
    return published - start, sealed - published


def _rival_seconds(file: RawFile, batch: pa.RecordBatch) -> float:
    start = perf_counter()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    data = memoryview(sink.getvalue())
    crc32c(data)
    file.write(data)
    file.sync()
    return perf_counter() - start


def _check(store: lamina.Store, rows: int) -> None:
    if (found := store.stream(STREAM).messages) != rows:
        raise RuntimeError(f"{found} messages are stored of {rows} published")


def _as_it_is(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch
