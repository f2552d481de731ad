"""From waiting calls to frames: packed rows of many small calls share a frame, batches are Arrow. Pure.

A single message is packed by the thread that publishes it, so that the one who commits for all only joins bytes.
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
    """What one call wants appended: packed rows that fit one frame, or stored batches, one frame each."""

    __slots__ = ("batches", "bytes", "count", "packed", "producer", "ts_max", "ts_min")

    def __init__(
        self,
        packed: Sequence[bytes] | None,
        batches: Sequence[pa.RecordBatch],
        bytes: int,
        ts_min: int,
        ts_max: int,
        producer: tuple[str, int] | None = None,
    ) -> None:
        self.packed = packed
        self.batches = batches
        self.bytes = bytes
        self.ts_min = ts_min
        self.ts_max = ts_max
        self.count = len(packed) if packed is not None else sum(batch.num_rows for batch in batches)
        self.producer = producer

    @classmethod
    def of_row(cls, row: Row) -> Pending:
        packed = pack_row(row)
        return cls((packed,), (), len(packed), row.timestamp, row.timestamp)

    @classmethod
    def of_rows(cls, rows: Sequence[Row], producer: tuple[str, int] | None = None) -> Pending:
        packed = [pack_row(row) for row in rows]
        times = [row.timestamp for row in rows] or [NO_TS_MIN, NO_TS_MAX]
        size = sum(map(len, packed))
        return cls(packed, (), size, min(times) if rows else NO_TS_MIN, max(times) if rows else NO_TS_MAX, producer)

    @classmethod
    def of_batches(
        cls, batches: Sequence[pa.RecordBatch], bytes: int, producer: tuple[str, int] | None = None
    ) -> Pending:
        return cls(None, batches, bytes, NO_TS_MIN, NO_TS_MAX, producer)


def draft_frames(group: Sequence[Pending], frame_bytes: int) -> list[Draft]:
    """Frames for a group, in its order; rows of neighbouring calls share frames up to about `frame_bytes`."""
    drafts: list[Draft] = []
    run: list[Pending] = []
    size = 0
    for pending in group:
        if pending.packed is None or (run and size + pending.bytes > frame_bytes):
            drafts += _packed_draft(run)
            run, size = [], 0
        if pending.packed is None:
            drafts += _batch_drafts(pending)
        else:
            run.append(pending)
            size += pending.bytes
    return drafts + _packed_draft(run)


def draft_of_batch(batch: pa.RecordBatch, table: list[ProducerEntry], flags: int = 0) -> Draft:
    times = batch.column("timestamp").to_numpy()
    return Draft(Codec.ARROW, encode_batch(batch), batch.num_rows, int(times.min()), int(times.max()), table, flags)


def _batch_drafts(pending: Pending) -> list[Draft]:
    last = len(pending.batches) - 1
    return [
        draft_of_batch(
            batch,
            [ProducerEntry(*pending.producer, 0, batch.num_rows)] if pending.producer else [],
            Flag.MORE if number < last else 0,
        )
        for number, batch in enumerate(pending.batches)
    ]


def _packed_draft(run: Sequence[Pending]) -> list[Draft]:
    """One frame for a run of calls; a numbered call without messages still uses up its sequence, and a frame."""
    if not run:
        return []
    rows: list[bytes] = []
    table: list[ProducerEntry] = []
    for pending in run:
        if pending.producer is not None:
            table.append(ProducerEntry(*pending.producer, len(rows), pending.count))
        rows += pending.packed or ()
    ts_min, ts_max = min(p.ts_min for p in run), max(p.ts_max for p in run)
    return [Draft(Codec.PACKED, join_rows(rows), len(rows), ts_min, ts_max, table)] if rows or table else []
