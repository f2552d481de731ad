"""Reading the message at a random offset of one large sealed segment, beside scanning to it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from time import perf_counter

import lamina
from benchmarks.bench import BATCH_ROWS, STREAM, Bench, segments_of
from benchmarks.results import Result, Rival, at_most, percentile
from benchmarks.workload import Workload, fill

SEGMENT_BYTES = 1 << 30


def measure(bench: Bench) -> Iterator[Result]:
    """Page cache warm; each frame's checksum is verified when it is first met, within the measured reads."""
    rows = bench.scale.point_batches * BATCH_ROWS
    settings = segments_of(SEGMENT_BYTES)
    with bench.directory() as path:
        bench.say(f"publishing {rows:,} messages into one segment")
        with lamina.open(path / "store", settings=settings) as store:
            store.create_stream(STREAM)
            fill(store, bench.scale.point_batches, BATCH_ROWS)
            store.seal(STREAM)
            _check_segment(store, rows)
        with lamina.open(path / "store", settings=settings) as store:
            bench.say(f"reading at {bench.scale.point_reads:,} random offsets")
            refs = [f"{STREAM}/0/{offset}" for offset in Workload().offsets(bench.scale.point_reads, 0, rows)]
            gets = [_get_seconds(store, ref) for ref in refs]
            bench.say("scanning")
            middle = Workload().offsets(bench.scale.scans, rows * 49 // 100, rows * 51 // 100)
            scans = [_scan_seconds(store, offset) for offset in middle]
    scan = Rival(f"scan as Messages from the segment's start to about {rows // 2:,}", percentile(scans, 50))
    yield Result(
        name=f"get(ref) in a segment of {rows:,}, p50",
        figure=percentile(gets, 50),
        unit="s",
        rival=scan,
        target=at_most(100e-6),
        ratio_target=at_most(0.01),
    )
    yield Result(name=f"get(ref) in a segment of {rows:,}, p99", figure=percentile(gets, 99), unit="s")


def _check_segment(store: lamina.Store, rows: int) -> None:
    sealed = [segment.messages for segment in store.segments(STREAM) if segment.state == "sealed"]
    if sealed != [rows]:
        raise RuntimeError(f"expected one sealed segment of {rows} messages, found {sealed}")


def _get_seconds(store: lamina.Store, ref: str) -> float:
    start = perf_counter()
    store.get(ref)
    return perf_counter() - start


def _scan_seconds(store: lamina.Store, offset: int) -> float:
    start = perf_counter()
    (last,) = deque(store.read(stream=STREAM, start=0, end=offset + 1), maxlen=1)
    seconds = perf_counter() - start
    if last != store.get(last.ref) or last.offset != offset:
        raise RuntimeError(f"scanning to offset {offset} and getting it differ: {last!r}")
    return seconds
