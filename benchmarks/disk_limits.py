"""What the disk itself can do, measured in the same run as everything else."""

from __future__ import annotations

import os
from collections.abc import Iterator
from time import perf_counter

from benchmarks.bench import Bench
from benchmarks.raw_file import RawFile
from benchmarks.results import Result, percentile

CHUNK_BYTES = 1 << 20


def measure(bench: Bench) -> Iterator[Result]:
    """Reported only: no target can be set for somebody's disk."""
    with bench.directory() as path:
        with RawFile(path / "small") as file:
            appends = [file.append_seconds() for _ in range(bench.scale.blocks * bench.scale.per_block)]
        yield Result(name="append 4 KiB + fdatasync, p50", figure=percentile(appends, 50), unit="s")
        yield Result(name="append 4 KiB + fdatasync, p99", figure=percentile(appends, 99), unit="s")
        chunk = os.urandom(CHUNK_BYTES)
        with RawFile(path / "large") as file:
            start = perf_counter()
            for _ in range(bench.scale.sequential_bytes // CHUNK_BYTES):
                file.write(chunk)
            file.sync()
            seconds = perf_counter() - start
        yield Result(
            name="sequential write, one fdatasync at the end", figure=bench.scale.sequential_bytes / seconds, unit="B/s"
        )
