"""Opening a store with many sealed segments, in a fresh process, page cache warm."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

import lamina
from benchmarks import fresh
from benchmarks.bench import STREAM, Bench, segments_of
from benchmarks.results import Result, at_most
from benchmarks.workload import fill

SEGMENT_BYTES = 64 << 10
SEGMENT_ROWS = 300
"""Two frames of so many messages do not fit one segment, one does."""


def measure(bench: Bench) -> Iterator[Result]:
    count = bench.scale.segments_opened
    with bench.directory() as path:
        bench.say(f"writing {count:,} segments")
        with lamina.open(path / "store", settings=segments_of(SEGMENT_BYTES)) as store:
            store.create_stream(STREAM)
            fill(store, count, SEGMENT_ROWS)
            store.seal(STREAM)
            sealed = sum(segment.state == "sealed" for segment in store.segments(STREAM))
        if sealed != count:
            raise RuntimeError(f"{sealed} segments are sealed, expected {count}")
        bench.say(f"opening {count:,} segments")
        runs = [fresh.run("open-and-close", path / "store", SEGMENT_BYTES) for _ in range(bench.scale.opens + 1)]
    opens = [run["open"] for run in runs[1:]]
    yield Result(name=f"lamina.open, {count:,} sealed segments", figure=median(opens), unit="s", target=at_most(1.0))
    around = [run["wall"] - run["open"] for run in runs[1:]]
    yield Result(name="starting Python, importing lamina, closing", figure=median(around), unit="s")
