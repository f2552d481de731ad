"""Matches in the making: runs of rows that follow each other in time, or are merged when they do not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lamina.index.cursor import Cursor
from lamina.index.postings import Rows
from lamina.index.spans import Span
from lamina.model import READ_SCHEMA, Message

Ints = npt.NDArray[np.int64]
PAGE_SCHEMA = READ_SCHEMA.insert(0, pa.field("partition", pa.int32()))
"""What `Page.to_arrow` gives: a page may hold messages of several partitions."""


@dataclass(frozen=True, slots=True)
class Run:
    """Matches of one span that stand together in the result, in its order."""

    span: Span
    rows: Rows


class Hits:
    """Adds spans in the order they begin at; keeps at most `wanted` matches. One thread."""

    def __init__(self, *, descending: bool, wanted: int | None) -> None:
        self._descending = descending
        self._wanted = wanted
        self._runs: list[Run] = []
        self._count = 0

    def add(self, span: Span, rows: Rows) -> None:
        if not len(rows):
            return
        if span.is_sorted and (not self._runs or self._follows(self._runs[-1].span, span)):
            self._runs.append(Run(span, rows))
            self._count += len(rows)
        else:
            self._merge(Run(span, rows))

    def is_enough_before(self, key: int) -> bool:
        """Whether what is wanted is there, and all of it comes before whatever begins at `key`."""
        if self._wanted is None or self._count < self._wanted:
            return False
        place = self._wanted - 1
        for run in self._runs:
            if place < len(run.rows):
                time = _time_of(run, place)
                return (-time if self._descending else time) < key
            place -= len(run.rows)
        raise AssertionError("runs hold fewer rows than were counted")

    def cut(self, count: int) -> None:
        """Keep the first `count` only."""
        kept, left = [], count
        for run in self._runs:
            if left <= 0:
                break
            kept.append(Run(run.span, run.rows[:left]))
            left -= len(run.rows)
        self._runs, self._count = kept, min(self._count, count)

    def __len__(self) -> int:
        return self._count

    def last(self) -> Cursor | None:
        """Where the last match stands; None if there is none."""
        if not self._runs:
            return None
        run = self._runs[-1]
        place = len(run.rows) - 1
        return Cursor(_time_of(run, place), run.span.partition, run.span.base + int(run.rows[place]), self._descending)

    def messages(self) -> list[Message]:
        found: list[Message] = []
        for run in self._runs:
            matcher = run.span.matcher
            found += matcher.rows.messages(run.rows, matcher.stream, matcher.partition)
        return found

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The same as Arrow, in PAGE_SCHEMA."""
        for run in self._runs:
            for batch in self._run_batches(run):
                number = pa.array(np.full(batch.num_rows, run.span.partition, np.int32))
                yield pa.RecordBatch.from_arrays([number, *batch.columns], schema=PAGE_SCHEMA)

    def _run_batches(self, run: Run) -> Iterator[pa.RecordBatch]:
        if len(run.rows) > 1 and not (run.rows[1:] > run.rows[:-1]).all():
            # Not ascending: read in the order of the log, give in the order asked for.
            order = np.argsort(run.rows, kind="stable")
            back = np.empty(len(order), np.int64)
            back[order] = np.arange(len(order))
            found = pa.Table.from_batches(_arrow(run, run.rows[order]), READ_SCHEMA).combine_chunks()
            yield from found.take(pa.array(back)).to_batches()
            return
        yield from _arrow(run, run.rows)

    def _follows(self, before: Span, span: Span) -> bool:
        """Whether all rows of the span come after all rows of the one before."""
        if self._descending:
            before, span = span, before
        if before.ts_max != span.ts_min:
            return before.ts_max < span.ts_min
        places = ((one.partition, one.base + one.low) for one in (before, span))
        return before.partition == span.partition and next(places) < next(places)

    def _merge(self, run: Run) -> None:
        """All matches so far in one order again."""
        runs = [*self._runs, run]
        times = np.concatenate([_times(one) for one in runs])
        rows = np.concatenate([one.rows.astype(np.int64) for one in runs])
        owners = np.repeat(np.arange(len(runs)), [len(one.rows) for one in runs])
        partitions = np.array([one.span.partition for one in runs])[owners]
        offsets = np.array([one.span.base for one in runs])[owners] + rows
        order = np.lexsort((offsets, partitions, times))
        if self._descending:
            order = order[::-1]
        order = order[: self._wanted]
        self._count = len(order)
        self._runs = [
            Run(runs[owners[part[0]]].span, rows[part].astype(np.uint32)) for part in _stretches(owners, order)
        ]


def _stretches(owners: Ints, order: Ints) -> list[Ints]:
    """The order, cut where the owner changes."""
    if not len(order):
        return []
    changes = np.flatnonzero(np.diff(owners[order])) + 1
    return np.split(order, changes)


def _time_of(run: Run, place: int) -> int:
    return run.span.matcher.rows.time_of(int(run.rows[place]))


def _times(run: Run) -> Ints:
    """The timestamps of a run's rows."""
    order = np.argsort(run.rows, kind="stable")
    found = np.empty(len(order), np.int64)
    found[order] = run.span.matcher.timestamps(run.rows[order])
    return found


def _arrow(run: Run, rows: Rows) -> list[pa.RecordBatch]:
    """Batches of ascending rows; whole frames are not copied."""
    segment = run.span.matcher.rows
    found = []
    for number, some in segment.by_frame(rows.astype(np.int64)):
        block = segment.block(number)
        if len(some) < len(block):
            places = block.rows_of(some + segment.base)
            first, end = int(places[0]), int(places[-1]) + 1
            block = block.slice(first, end) if end - first == len(places) else block.take(places)
        found.append(block.arrow())
    return found
