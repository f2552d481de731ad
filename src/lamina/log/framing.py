"""From waiting calls to frames: packed rows of many small calls share a frame, batches are Arrow. Pure.

A call's messages are encoded by the thread that publishes them, so that the one who commits for all only joins bytes.
Sealing turns packed frames into Arrow later.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from lamina.log.codec import encode_batch, join_rows, pack_row
from lamina.log.format import Codec, Flag, ProducerEntry
from lamina.model import Row

NO_TS_MIN, NO_TS_MAX = 2**63 - 1, -(2**63)
"""Smallest and largest timestamp of no messages: neutral in min and max."""


@dataclass(slots=True)
class Draft:
    """A frame without its place."""

    codec: Codec
    payload: bytes | memoryview
    count: int
    ts_min: int
    ts_max: int
    table: list[ProducerEntry] = field(default_factory=list)
    flags: int = 0


class Pending:
    """What one call wants appended to one partition: packed rows that fit one frame, or whole Arrow frames."""

    __slots__ = ("bytes", "count", "drafts", "packed", "producer", "ts_max", "ts_min")

    def __init__(
        self, packed: Sequence[bytes], bytes: int, ts_min: int, ts_max: int, producer: tuple[str, int] | None = None
    ) -> None:
        self.packed = packed
        self.drafts: list[Draft] = []
        self.count = len(packed)
        self.bytes = bytes
        self.ts_min = ts_min
        self.ts_max = ts_max
        self.producer = producer

    @classmethod
    def of_row(cls, row: Row) -> Pending:
        packed = pack_row(row)
        return cls((packed,), len(packed), row.timestamp, row.timestamp)

    @classmethod
    def of_rows(cls, rows: Sequence[Row], producer: tuple[str, int] | None = None) -> Pending:
        packed = [pack_row(row) for row in rows]
        ts_min = min((row.timestamp for row in rows), default=NO_TS_MIN)
        ts_max = max((row.timestamp for row in rows), default=NO_TS_MAX)
        return cls(packed, sum(map(len, packed)), ts_min, ts_max, producer)

    @classmethod
    def of_batches(cls, batches: Sequence[pa.RecordBatch], producer: tuple[str, int] | None = None) -> Pending:
        """Stored batches, one frame each, that are durable together or not at all."""
        pending = cls((), 0, NO_TS_MIN, NO_TS_MAX, producer)
        for number, batch in enumerate(batches):
            table = [ProducerEntry(*producer, 0, batch.num_rows)] if producer else []
            flags = Flag.MORE if number < len(batches) - 1 else 0
            pending.drafts.append(draft_of_batch(batch, table, flags))
        pending.count = sum(draft.count for draft in pending.drafts)
        pending.bytes = sum(len(draft.payload) for draft in pending.drafts)
        return pending


def draft_frames(group: Sequence[Pending], frame_bytes: int) -> list[Draft]:
    """Frames for a group, in its order; rows of neighbouring calls share frames up to about `frame_bytes`."""
    drafts: list[Draft] = []
    run: list[Pending] = []
    size = 0
    for pending in group:
        if pending.drafts or (run and size + pending.bytes > frame_bytes):
            drafts += _packed_draft(run)
            run, size = [], 0
        if pending.drafts:
            drafts += pending.drafts
        else:
            run.append(pending)
            size += pending.bytes
    return drafts + _packed_draft(run)


def draft_of_batch(batch: pa.RecordBatch, table: list[ProducerEntry], flags: int = 0) -> Draft:
    times = batch.column("timestamp").to_numpy()
    return Draft(Codec.ARROW, encode_batch(batch), batch.num_rows, int(times.min()), int(times.max()), table, flags)


def _packed_draft(run: Sequence[Pending]) -> list[Draft]:
    """One frame for a run of calls; a numbered call without messages still uses up its sequence, and a frame."""
    if not run:
        return []
    rows: list[bytes] = []
    table: list[ProducerEntry] = []
    for pending in run:
        if pending.producer is not None:
            table.append(ProducerEntry(*pending.producer, len(rows), pending.count))
        rows += pending.packed
    ts_min, ts_max = min(p.ts_min for p in run), max(p.ts_max for p in run)
    return [Draft(Codec.PACKED, join_rows(rows), len(rows), ts_min, ts_max, table)] if rows or table else []
