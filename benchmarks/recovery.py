"""Recovery of a store whose process died with a large active segment: the scan of its frames, the parts, the whole."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from time import perf_counter

from crc32c import crc32c

from benchmarks import fresh
from benchmarks.bench import BATCH_ROWS, STREAM, Bench
from benchmarks.results import Result, Rival, at_least
from lamina.disk import FileDisk
from lamina.log.indexes import build_keys, build_places
from lamina.log.names import SIDE_SUFFIXES, log_name, side_name
from lamina.log.offset_index import INTERVAL_BYTES
from lamina.log.recovery import scan
from lamina.log.segment import SegmentReader

SEGMENT_BYTES = 1 << 30
MESSAGE_BYTES = 165
"""About what a stored message with a key takes."""


def measure(bench: Bench) -> Iterator[Result]:
    batches = bench.scale.recovery_bytes // (BATCH_ROWS * MESSAGE_BYTES) + 1
    with bench.directory() as path:
        bench.say(f"publishing {bench.scale.recovery_bytes >> 20} MiB in a process that dies")
        fresh.run("fill", path / "store", SEGMENT_BYTES, batches)
        partition = path / "store" / STREAM / "0"
        bench.say("scanning")
        yield _scan(partition, bench.scale.passes)
        yield from _rebuild(partition, bench.scale.passes)
        bench.say("opening the store")
        opens = [fresh.run("open", path / "store", SEGMENT_BYTES)["open"] for _ in range(bench.scale.opens)]
        yield Result(name="lamina.open after a crash, side files intact", figure=median(opens), unit="s")
        opens = [_open_without_side_files(path / "store", partition) for _ in range(bench.scale.opens)]
        yield Result(name="lamina.open after a crash, side files lost", figure=median(opens), unit="s")


def _scan(partition: Path, passes: int) -> Result:
    with (partition / log_name(0)).open("rb") as file:
        data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    size = len(data)

    def scan_whole() -> None:
        found = scan(data, 0, "the segment")
        if found.end_position != size or found.damage:
            raise RuntimeError(f"the scan ended at byte {found.end_position} of {size}: {found.damage}")

    return Result(
        name=f"scan of an active segment of {size / 1e6:.0f} MB",
        figure=size / _seconds(scan_whole, passes),
        unit="B/s",
        rival=Rival("CRC32C of the same bytes", size / _seconds(lambda: crc32c(data), passes)),
        target=at_least(1e9),
    )


def _rebuild(partition: Path, passes: int) -> Iterator[Result]:
    """What the side files cost apart from the scan."""
    size = (partition / log_name(0)).stat().st_size
    reader = SegmentReader(FileDisk(partition.parent), partition.name, 0, size)
    try:
        places = _seconds(lambda: build_places(reader, INTERVAL_BYTES), passes)
        keys = _seconds(lambda: build_keys(reader), 1)
    finally:
        reader.close()
    yield Result(name="building .index and .timeindex", figure=places, unit="s")
    yield Result(name="building .keys (when sealing), all with keys", figure=keys, unit="s")


def _open_without_side_files(store: Path, partition: Path) -> float:
    for suffix in SIDE_SUFFIXES:
        (partition / side_name(0, suffix)).unlink(missing_ok=True)
    return fresh.run("open", store, SEGMENT_BYTES)["open"]


def _seconds(work: Callable[[], object], passes: int) -> float:
    """The median of `passes`, after one that warms the page cache."""
    times = []
    for _ in range(passes + 1):
        start = perf_counter()
        work()
        times.append(perf_counter() - start)
    return median(times[1:])
