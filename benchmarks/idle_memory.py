"""Memory of a process that holds a store of many segments open and does nothing."""

from __future__ import annotations

from collections.abc import Iterator

import lamina
from benchmarks import fresh
from benchmarks.bench import BATCH_ROWS, STREAM, Bench, segments_of
from benchmarks.results import Result, Rival, at_most
from benchmarks.workload import fill

SEGMENT_BYTES = 4 << 20
SEGMENT_BATCHES = 2
"""Two batches fit into one segment, three do not."""


def measure(bench: Bench) -> Iterator[Result]:
    count = bench.scale.segments_idle
    with bench.directory() as path:
        bench.say(f"writing {count} segments")
        with lamina.open(path / "store", settings=segments_of(SEGMENT_BYTES)) as store:
            store.create_stream(STREAM)
            fill(store, count * SEGMENT_BATCHES, BATCH_ROWS)
            store.seal(STREAM)
            sealed = sum(segment.state == "sealed" for segment in store.segments(STREAM))
        if sealed != count:
            raise RuntimeError(f"{sealed} segments are sealed, expected {count}")
        facts = fresh.run("idle", path / "store", SEGMENT_BYTES)
    imported = Rival("lamina imported, nothing open", facts["imported"])
    yield Result(
        name=f"RSS, {count} segments open and idle",
        figure=facts["opened"],
        unit="B",
        rival=imported,
        target=at_most(120e6),
    )
    yield Result(name="RSS after reading one message of each segment", figure=facts["read"], unit="B", rival=imported)
    yield Result(name="  of it not pages of the segments' files", figure=facts["read_anonymous"], unit="B")
