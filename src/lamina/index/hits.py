"""Matches in the making: runs of rows that follow each other in time, or are merged when they do not."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lamina.index.found import Found
from lamina.index.postings import Rows
from lamina.index.spans import Span

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Merged:
    """Matches of several spans in one order: their times, the spans' numbers, and rows."""

    times: Ints
    owners: Ints
    rows: Ints


class Hits:
    """Takes in spans in the order they begin at; `wanted` None is all there are. One thread."""

    def __init__(self, *, descending: bool, wanted: int | None) -> None:
        self._descending = descending
        self._wanted = wanted
        self._spans: list[Span] = []
        self._rows: list[Rows] = []  # of each span, in its order; taken over by `_merged` once spans overlap
        self._merged: _Merged | None = None
        self._unmerged = 0  # the spans from this number on are not in `_merged` yet
        self._overlap = False
        self._count = 0

    def add(self, span: Span, rows: Rows) -> None:
        if not len(rows):
            return
        follows = span.is_sorted and (not self._spans or self._follows(self._spans[-1], span))
        self._overlap = self._overlap or not follows
        self._spans.append(span)
        self._rows.append(rows)
        self._count += len(rows)

    def is_enough_before(self, key: int) -> bool:
        """Whether what is wanted is there, and all of it comes before whatever begins at `key`."""
        if self._wanted is None or self._count < self._wanted:
            return False
        time = self._merge().times[self._wanted - 1] if self._overlap else self._time_at(self._wanted - 1)
        return bool((-time if self._descending else time) < key)

    def found(self) -> Found:
        """All matches in order, no more than wanted."""
        if self._overlap:
            merged = self._merge()
            return Found(self._spans, merged.owners, merged.rows, descending=self._descending)
        if len(self._rows) == 1:
            only = self._rows[0][: self._wanted].astype(np.int64)
            return Found(self._spans, np.zeros(len(only), np.int64), only, descending=self._descending)
        owners = np.repeat(np.arange(len(self._rows)), [len(rows) for rows in self._rows])[: self._wanted]
        rows = np.concatenate(self._rows).astype(np.int64) if self._rows else np.empty(0, np.int64)
        return Found(self._spans, owners, rows[: self._wanted], descending=self._descending)

    def _time_at(self, place: int) -> int:
        for span, rows in zip(self._spans, self._rows, strict=True):
            if place < len(rows):
                return span.matcher.rows.time_of(int(rows[place]))
            place -= len(rows)
        raise AssertionError("there are fewer rows than were counted")

    def _follows(self, before: Span, span: Span) -> bool:
        """Whether all rows of the span come after all rows of the one before."""
        if self._descending:
            before, span = span, before
        if before.ts_max != span.ts_min:
            return before.ts_max < span.ts_min
        return before.partition == span.partition and before.base + before.low < span.base + span.low

    def _merge(self) -> _Merged:
        """What came since the last time joins the rest; each time is read once."""
        merged, fresh = self._merged, range(self._unmerged, len(self._spans))
        if merged is None:
            merged = _Merged(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int64))
        if not fresh:
            return merged
        times = np.concatenate([merged.times, *(_times(self._spans[at], self._rows[at]) for at in fresh)])
        rows = np.concatenate([merged.rows, *(self._rows[at].astype(np.int64) for at in fresh)])
        owners = np.concatenate([merged.owners, np.repeat(list(fresh), [len(self._rows[at]) for at in fresh])])
        partitions = np.array([span.partition for span in self._spans])[owners]
        offsets = np.array([span.base for span in self._spans])[owners] + rows
        order = np.lexsort((offsets, partitions, times))
        order = (order[::-1] if self._descending else order)[: self._wanted]
        self._merged = _Merged(times[order], owners[order], rows[order])
        self._unmerged = len(self._spans)
        return self._merged


def _times(span: Span, rows: Rows) -> Ints:
    """The timestamps of rows in any order."""
    order = np.argsort(rows, kind="stable")
    found = np.empty(len(order), np.int64)
    found[order] = span.matcher.timestamps(rows[order])
    return found
