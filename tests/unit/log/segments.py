"""Segments and partitions to test with: small, on any disk, without a store around them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from lamina.clock import Clock
from lamina.disk import Disk, MemoryDisk
from lamina.log import Entry, LogSettings, OpenSegments, Partition, PartitionContext, Pending, StreamPolicy, names
from lamina.log import open_partition as open_in_context
from lamina.log.active import ActiveSegment
from lamina.log.documents import write_document
from lamina.log.framing import draft_frames
from lamina.log.key_index import Entries, entries_of
from lamina.log.lineage import PartitionState
from lamina.log.producers import Producers
from lamina.metrics import Metrics
from lamina.model import Message, Row
from lamina.testing import FakeClock

UID = bytes(range(16))
NOW_US = 1_700_000_000_000_000


def row(number: int = 0, *, size: int = 8, **fields: object) -> Row:
    """A row whose value begins with its number."""
    value = f"{number:08d}".encode().ljust(size, b".")
    made = {"timestamp": NOW_US + number, "topic": "t", "key": None, "value": value, "labels": {}} | fields
    return Row(**made)  # type: ignore[arg-type]


def pending(*rows: Row, producer: tuple[str, int] | None = None) -> Pending:
    return Pending.of_rows(rows, producer)


def write_segment(
    disk: Disk, directory: str, base: int, groups: Sequence[Sequence[Pending]], settings: LogSettings | None = None
) -> ActiveSegment:
    """A new segment with one write per group, synced and still open."""
    settings = settings or LogSettings()
    active = ActiveSegment.create(disk, directory, base, UID, Producers(), NOW_US, settings)
    for number, group in enumerate(groups):
        active.write(draft_frames(group, settings.frame_bytes_target), NOW_US + number)
        active.sync()
        active.reader.limit = active.size
    return active


def write_log(directory: Path, count: int, *, base: int = 0, size: int = 1000, interval_bytes: int = 4096) -> Path:
    """A `.log` with one synced frame for each of `count` messages, closed, and its side files beside it."""
    disk = MemoryDisk()  # real syncs would cost more than all else here
    disk.make_directory("s")
    settings = LogSettings(index_interval_bytes=interval_bytes)
    groups = [[pending(row(number, size=size))] for number in range(count)]
    active = write_segment(disk, "s", base, groups, settings)
    active.reader.close()
    active.close()
    place = directory / "s"
    place.mkdir(parents=True)
    for name in disk.list("s"):
        (place / name).write_bytes(contents(disk, f"s/{name}"))
    return place / f"{base:020d}.log"


def contents(disk: Disk, path: str) -> bytes:
    file = disk.open(path, "read")
    try:
        return file.pread(file.size(), 0)
    finally:
        file.close()


def key_entries(keys: Sequence[bytes | None], topics: Sequence[str], offsets: Iterable[int]) -> Entries:
    """Entries of the key index for messages given as plain lists."""
    coded = pa.array(topics, pa.utf8()).dictionary_encode()
    return entries_of(pa.array(keys, pa.binary()), coded, np.array(list(offsets), np.int64))


def new_partition(
    disk: Disk | None = None, settings: LogSettings | None = None, clock: Clock | None = None
) -> Partition:
    """A fresh partition `s/0`; a new disk in memory if none is given."""
    disk = disk or MemoryDisk()
    disk.make_directory("s/0")
    write_document(disk, f"s/0/{names.STATE}", "partition", PartitionState())
    return reopened(disk, settings, clock)


def reopened(disk: Disk, settings: LogSettings | None = None, clock: Clock | None = None) -> Partition:
    settings = settings or LogSettings()
    context = PartitionContext(
        "s", 0, "s/0", disk, disk, clock or FakeClock(), settings, Metrics(), OpenSegments(8), lambda _: None
    )
    return open_in_context(context, StreamPolicy())


def append(partition: Partition, *rows: Row) -> int:
    """Append the rows in one call; the first offset."""
    entry = Entry(pending(*rows))
    written = partition.begin([entry])
    if written is not None:
        partition.sync(written)
        partition.finish(written)
    if entry.error is not None:
        raise entry.error
    return entry.first


def read(partition: Partition, start: int | None = None, end: int | None = None) -> list[Message]:
    return [message for block in partition.view.blocks(start, end) for message in block.messages("s", 0)]
