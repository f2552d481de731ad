"""What every bar is given: how much to do, where, and a line that says what is being done."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import lamina

STREAM = "bench"
BATCH_ROWS = 10_000
LOG_ONLY = lamina.Settings(index=lamina.IndexSettings(background=False))
"""For what is measured of the log alone; the label index has bars of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """How much each bar does."""

    batches_published: int = 150
    """As many as one segment of the default size takes."""
    batches_sustained: int = 100
    blocks: int = 20
    per_block: int = 200
    threads: int = 32
    seconds: float = 5.0
    tasks: int = 1000
    per_task: int = 400
    point_batches: int = 100
    point_reads: int = 20_000
    scans: int = 5
    read_batches: int = 200
    passes: int = 3
    recovery_bytes: int = 512 << 20
    segments_opened: int = 1000
    segments_idle: int = 100
    opens: int = 5
    sequential_bytes: int = 512 << 20
    query_rows: int = 1_000_000
    query_rows_many: int = 10_000_000
    entries: int = 100_000
    queries: int = 300
    rest_seconds: float = 5.0


QUICK = Scale(
    batches_published=8,
    batches_sustained=25,
    blocks=2,
    per_block=50,
    threads=32,
    seconds=0.25,
    tasks=200,
    per_task=20,
    point_batches=5,
    point_reads=1000,
    scans=2,
    read_batches=8,
    passes=2,
    recovery_bytes=26 << 20,
    segments_opened=50,
    segments_idle=5,
    opens=2,
    sequential_bytes=26 << 20,
    query_rows=100_000,
    query_rows_many=300_000,
    entries=5_000,
    queries=30,
    rest_seconds=0.0,
)


@dataclass(frozen=True, slots=True)
class Bench:
    """One run of the benchmarks."""

    root: Path
    scale: Scale
    say: Callable[[str], None]

    @contextmanager
    def directory(self) -> Iterator[Path]:
        """A new directory on the measured disk, gone afterwards."""
        path = Path(tempfile.mkdtemp(dir=self.root))
        try:
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)

    @contextmanager
    def store(self, partitions: int, settings: lamina.Settings | None = None) -> Iterator[lamina.Store]:
        """A new store with one empty stream, which indexes no labels unless told; gone afterwards."""
        with self.directory() as path, lamina.open(path / "store", settings=settings or LOG_ONLY) as store:
            store.create_stream(STREAM, partitions=partitions)
            yield store


def segments_of(segment_bytes_max: int) -> lamina.Settings:
    """Settings with another size of segments; labels are not indexed."""
    return replace(LOG_ONLY, log=lamina.LogSettings(segment_bytes_max=segment_bytes_max))
