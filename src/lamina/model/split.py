"""Which partition a message lives in: crc32 of its topic (or key), the same in Spark SQL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal
from zlib import crc32

import numpy as np
import pyarrow as pa

from lamina.model.rows import Row
from lamina.model.schema import slice_compact

PartitionBy = Literal["topic", "key"]


def partition_of(topic: str, key: bytes | None, partitions: int, by: PartitionBy) -> int:
    """A message without a key goes by its topic, also where the policy says key."""
    if partitions == 1:
        return 0
    return crc32(key if by == "key" and key is not None else topic.encode()) % partitions


def split_rows(rows: Sequence[Row], partitions: int, by: PartitionBy) -> dict[int, list[Row]]:
    """Rows by partition, each in the order given."""
    parts: dict[int, list[Row]] = {}
    for row in rows:
        parts.setdefault(partition_of(row.topic, row.key, partitions, by), []).append(row)
    return parts


def split_batch(batch: pa.RecordBatch, partitions: int, by: PartitionBy) -> dict[int, pa.RecordBatch]:
    """Stored batches by partition, each in the order given."""
    if partitions == 1:
        return {0: batch}
    topics = batch.column("topic")
    of_code = np.fromiter((crc32(t.encode()) % partitions for t in topics.dictionary.to_pylist()), np.int64)
    part_of_row = of_code[topics.indices.to_numpy()]
    if by == "key" and "key" in batch.schema.names:
        keys = batch.column("key").to_pylist()
        part_of_row = np.fromiter(
            (
                int(part) if key is None else crc32(key) % partitions
                for key, part in zip(keys, part_of_row, strict=True)
            ),
            np.int64,
        )
    counts = np.bincount(part_of_row, minlength=partitions)
    present = np.flatnonzero(counts).tolist()
    if len(present) == 1:
        return {present[0]: batch}
    # One gather puts the parts behind each other in their own order; each is then a slice of it.
    gathered = batch.take(pa.array(np.argsort(part_of_row, kind="stable")))
    ends = np.cumsum(counts).tolist()
    return {part: slice_compact(gathered.slice(ends[part] - counts[part], counts[part])) for part in present}
