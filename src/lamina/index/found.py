"""The matches of a query in their order, and the way from there to messages or Arrow."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lamina.index.cursor import Cursor
from lamina.index.spans import Span
from lamina.model import READ_SCHEMA, Message

Ints = npt.NDArray[np.int64]
PAGE_SCHEMA = READ_SCHEMA.insert(0, pa.field("partition", pa.int32()))
"""What `Page.to_arrow` gives: a page may hold messages of several partitions."""


class Found:
    """Immutable. Match i is row `rows[i]` of span `owners[i]`; what it lies in stays readable as long as this lives."""

    def __init__(self, spans: Sequence[Span], owners: Ints, rows: Ints, *, descending: bool) -> None:
        self._spans = spans
        self._owners = owners
        self._rows = rows
        self._descending = descending

    def __len__(self) -> int:
        return len(self._rows)

    def first(self, count: int) -> Found:
        return Found(self._spans, self._owners[:count], self._rows[:count], descending=self._descending)

    def last(self) -> Cursor | None:
        """Where the last match stands; None if there is none."""
        if not len(self._rows):
            return None
        span, row = self._spans[int(self._owners[-1])], int(self._rows[-1])
        return Cursor(span.matcher.rows.time_of(row), span.partition, span.base + row, self._descending)

    def messages(self) -> list[Message]:
        """Read span by span, given in the order of the matches."""
        if len(self._spans) == 1:
            span = self._spans[0]
            return list(span.matcher.rows.messages(self._rows, span.matcher.stream, span.partition))
        parts = self._by_span()
        found: list[Message | None] = [None] * len(self)
        for span, places in parts:
            messages = span.matcher.rows.messages(self._rows[places], span.matcher.stream, span.partition)
            for place, message in zip(places.tolist(), messages, strict=True):
                found[place] = message
        return [message for message in found if message is not None]

    def to_arrow(self) -> pa.Table:
        """A table of PAGE_SCHEMA. Whole frames are not copied, unless their messages are not wanted in this order."""
        batches: list[pa.RecordBatch] = []
        given: list[Ints] = []
        for span, places in self._by_span():
            order = np.argsort(self._rows[places], kind="stable")
            given.append(places[order])
            batches += _batches(span, self._rows[places][order])
        table = pa.Table.from_batches(batches, PAGE_SCHEMA)
        place_of = np.concatenate(given) if given else np.empty(0, np.int64)
        if (place_of[1:] > place_of[:-1]).all():
            return table
        back = np.empty(len(place_of), np.int64)
        back[place_of] = np.arange(len(place_of))
        # Unified first: taking from batches with dictionaries of their own would compare them row by row.
        return table.unify_dictionaries().combine_chunks().take(pa.array(back))

    def _by_span(self) -> list[tuple[Span, Ints]]:
        """Each span with the places of its matches."""
        order = np.argsort(self._owners, kind="stable")
        owners = self._owners[order]
        starts = np.flatnonzero(np.diff(owners, prepend=-1))
        parts = np.split(order, starts[1:]) if len(order) else []
        return [(self._spans[int(owners[start])], part) for start, part in zip(starts.tolist(), parts, strict=True)]


def _batches(span: Span, rows: Ints) -> list[pa.RecordBatch]:
    """Batches of ascending rows of one span."""
    segment = span.matcher.rows
    found = []
    for number, some in segment.by_frame(rows):
        block = segment.block(number)
        if len(some) < len(block):
            places = block.rows_of(some + segment.base)
            first, end = int(places[0]), int(places[-1]) + 1
            block = block.slice(first, end) if end - first == len(places) else block.take(places)
        batch = block.arrow()
        number_column = pa.array(np.full(batch.num_rows, span.partition, np.int32))
        found.append(pa.RecordBatch.from_arrays([number_column, *batch.columns], schema=PAGE_SCHEMA))
    return found
