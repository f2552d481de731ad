"""Looking at messages where postings alone do not decide: residuals, expiry, times, and rows without an index."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lamina.cel import Columns, Group
from lamina.index.postings import Rows
from lamina.log import Block, SegmentRows, coalesced

Mask = npt.NDArray[np.bool_]
_WHOLE_SHARE = 8
"""A frame of which at least one in so many rows is wanted is evaluated whole: taking rows out costs more."""


@dataclass(frozen=True, slots=True)
class Check:
    """What is left to be asked of a candidate."""

    group: Group
    start: int | None
    end: int | None
    """Timestamps, if the rows' order does not tell."""
    alive_at: int | None
    """Messages that expired before this are hidden."""

    @property
    def is_needed(self) -> bool:
        return bool(self.group.residual) or (self.start, self.end, self.alive_at) != (None, None, None)


class RowMatcher:
    """The messages of one segment, for queries. Counts the rows it has looked at."""

    def __init__(self, rows: SegmentRows, stream: str, partition: int) -> None:
        self.rows = rows
        self.stream = stream
        self.partition = partition
        self.scanned = 0

    def passing(self, rows: Rows, check: Check) -> Rows:
        """Those of the rows, ascending or descending, that pass."""
        if not check.is_needed or not len(rows):
            return rows
        ascending = rows if rows[0] <= rows[-1] else rows[::-1]
        mask: Mask = np.concatenate([self._mask(*some, check) for some in self._stretches(ascending)])
        return rows[mask if ascending is rows else mask[::-1]]

    def scan(self, low: int, high: int, check: Check, *, descending: bool) -> Iterator[Rows]:
        """Matching rows of [low, high) without any index, frame by frame."""
        group = check.group
        for block in coalesced(self._frames(low, high, group, descending=descending), descending=descending):
            self.scanned += len(block)
            mask = group_truth(group, self._columns(block)) & _passes_times(block.timestamps(), check.start, check.end)
            if check.alive_at is not None:
                mask &= _alive(block, check.alive_at)
            found = (block.offset_array()[mask] - self.rows.base).astype(np.uint32)
            if len(found):
                yield found[::-1] if descending else found

    def timestamps(self, rows: Rows) -> npt.NDArray[np.int64]:
        """The timestamps of ascending rows."""
        parts = [self._block_times(number, some) for number, some in self._by_frame(rows)]
        return np.concatenate(parts) if parts else np.empty(0, np.int64)

    def _block_times(self, number: int, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        block = self.rows.block(number)
        return block.timestamps()[block.rows_of(rows + self.rows.base)]

    def _frames(self, low: int, high: int, group: Group, *, descending: bool) -> Iterator[Block]:
        """The messages of [low, high), without frames whose times cannot match."""
        numbers = self.rows.frame_numbers(low, high)
        for number in reversed(numbers) if descending else numbers:
            ts_min, ts_max = self.rows.times(number)
            if (group.start is None or ts_max >= group.start) and (group.end is None or ts_min < group.end):
                block = self.rows.block(number).between(self.rows.base + low, self.rows.base + high)
                if len(block):
                    yield block

    def _stretches(self, rows: Rows) -> Iterator[tuple[Block, npt.NDArray[np.int64]]]:
        """Blocks and the wanted places in them, in the order of the rows; neighbouring packed messages as one block."""
        packed: list[Block] = []
        for number, some in self._by_frame(rows):
            block = self.rows.block(number)
            places = block.rows_of(some + self.rows.base)
            if block.rows is not None:
                packed.append(block.take(places))
                continue
            yield from _whole(packed)
            packed = []
            yield block, places
        yield from _whole(packed)

    def _mask(self, block: Block, places: npt.NDArray[np.int64], check: Check) -> Mask:
        self.scanned += len(places)
        if len(places) * _WHOLE_SHARE < len(block):
            block, places = block.take(places), np.arange(len(places))
        mask = _passes_times(block.timestamps(), check.start, check.end)
        if check.alive_at is not None:
            mask &= _alive(block, check.alive_at)
        if check.group.residual:
            columns = self._columns(block)
            for residual in check.group.residual:
                mask &= residual.truth(columns)
        return mask[places]

    def _columns(self, block: Block) -> Columns:
        return Columns(block.arrow(), self.stream, self.partition)

    def _by_frame(self, rows: Rows) -> Iterator[tuple[int, npt.NDArray[np.int64]]]:
        return self.rows.by_frame(rows.astype(np.int64))


def _whole(packed: list[Block]) -> Iterator[tuple[Block, npt.NDArray[np.int64]]]:
    return ((block, np.arange(len(block))) for block in coalesced(packed))


def group_truth(group: Group, columns: Columns) -> Mask:
    """Which rows match the group, by looking at all of them; its bounds of time are the caller's business."""
    mask = np.ones(len(columns), np.bool_)
    for key, values in group.labels.items():
        mask &= columns.label(key).among(sorted(values))
    for key in group.present:
        mask &= ~columns.label(key).missing
    for key in group.absent:
        mask &= columns.label(key).missing
    if group.topics is not None:
        mask &= columns.texts("topic").among(sorted(group.topics))
    if group.priorities is not None:
        priorities, missing = columns.ints("priority")
        mask &= np.isin(priorities, sorted(group.priorities))
        if missing is not None:
            mask &= ~missing
    for residual in group.residual:
        if not mask.any():
            break
        mask &= residual.truth(columns)
    return mask


def _passes_times(times: npt.NDArray[np.int64], start: int | None, end: int | None) -> Mask:
    mask = np.ones(len(times), np.bool_)
    if start is not None:
        mask &= times >= start
    if end is not None:
        mask &= times < end
    return mask


def _alive(block: Block, now_us: int) -> Mask:
    if block.rows is not None:
        expiries = (row.expires_at for row in block.rows)
        return np.fromiter((at is None or at > now_us for at in expiries), np.bool_, len(block))
    assert block.batch is not None
    if "expires_at" not in block.batch.schema.names:
        return np.ones(len(block), np.bool_)
    column = block.batch.column("expires_at")
    mask: Mask = column.fill_null(now_us + 1).to_numpy() > now_us
    return mask
