"""Running a query: the first `limit` matches in the order (timestamp, partition, offset), from either end.

Segments and their parts wait in a heap by the time they begin (or end) at. Each is searched when its turn comes, and
the search ends as soon as nothing that waits can come before the matches already found: so messages whose timestamps
are out of order cost more, and are never missed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np
import numpy.typing as npt

from lamina.cel import Group, Plan
from lamina.index.candidates import access, union
from lamina.index.composites import Composite
from lamina.index.cursor import Cursor
from lamina.index.explain import Trace
from lamina.index.found import Found
from lamina.index.hits import Hits
from lamina.index.matching import Check
from lamina.index.partition_index import PartitionIndex
from lamina.index.postings import NO_ROWS, Rows
from lamina.index.spans import Span, Stretch, stretches


@dataclass(frozen=True, slots=True)
class Query:
    """All choices of one query, checked."""

    plan: Plan
    limit: int | None
    cursor: Cursor | None
    descending: bool
    alive_at: int | None
    """Messages that expired by then are hidden; None shows them too."""
    asked: Callable[[], str]
    """The query in words: a cursor goes on with the same query only."""


class Search:
    """One run of a query over the partitions of a stream. One thread."""

    def __init__(
        self, query: Query, partitions: Sequence[PartitionIndex], composites: Sequence[Composite], trace: Trace
    ) -> None:
        self._query = query
        self._partitions = partitions
        self._composites = [one for one in composites if one.state == "ready"]
        self._every_composite = composites
        self._trace = trace
        self._wanted = None if query.limit is None else query.limit + 1  # one more tells whether there are more

    def found(self) -> Found:
        """The matches, one more than the limit if there are so many."""
        hits = Hits(descending=self._query.descending, wanted=self._wanted)
        waiting: list[tuple[int, int, Stretch | Span]] = []
        for stretch in stretches(self._query.plan, self._partitions, self._trace):
            heappush(waiting, (self._key(stretch), len(waiting), stretch))
        pushed = len(waiting)
        while waiting:
            key, _, next_one = heappop(waiting)
            if hits.is_enough_before(key):
                break
            if isinstance(next_one, Span):
                hits.add(next_one, self._rows(next_one))
                continue
            for span in next_one.spans(self._every_composite):
                pushed += 1
                heappush(waiting, (self._key(span), pushed, span))
        return hits.found()

    def count(self) -> int:
        total = 0
        for stretch in stretches(self._query.plan, self._partitions, self._trace):
            for span in stretch.spans(self._every_composite):
                total += self._count(span)
        return total

    def _key(self, waiting: Stretch | Span) -> int:
        return -waiting.ts_max if self._query.descending else waiting.ts_min

    def _count(self, span: Span) -> int:
        groups = self._groups(span)
        if len(groups) == 1 and span.postings is not None:
            low, high, check = self._bounds(span, groups[0])
            if not check.is_needed:
                found = access(groups[0], span.postings, self._composites)
                self._trace.spans_indexed += 1
                if found is not None:
                    self._trace.use(found.used)
                return 0 if found is None else found.count(low, high)
        return len(self._rows(span, everything=True))

    def _rows(self, span: Span, *, everything: bool = False) -> Rows:
        """The span's matches in order; no more than wanted if the order of rows is that of times."""
        wanted = None if everything or not span.is_sorted else self._wanted
        if span.postings is None:
            self._trace.spans_scanned += 1
        else:
            self._trace.spans_indexed += 1
        before = span.matcher.scanned
        found = [self._group_rows(span, group, wanted) for group in self._groups(span)]
        looked_at = span.matcher.scanned - before
        self._trace.rows_scanned += looked_at or sum(map(len, found))
        filled = [rows for rows in found if len(rows)]
        if len(filled) <= 1:
            return filled[0] if filled else NO_ROWS
        rows = union(filled)
        rows = rows[::-1] if self._query.descending else rows
        return rows if wanted is None else rows[:wanted]

    def _groups(self, span: Span) -> list[Group]:
        return [
            group
            for group in self._query.plan.groups
            if (group.partitions is None or span.partition in group.partitions)
            and (group.start is None or span.ts_max >= group.start)
            and (group.end is None or span.ts_min < group.end)
        ]

    def _group_rows(self, span: Span, group: Group, wanted: int | None) -> Rows:
        low, high, check = self._bounds(span, group)
        descending = self._query.descending
        if low >= high:
            return NO_ROWS
        if span.postings is None:
            pieces = span.matcher.scan(low, high, check, descending=descending)
        else:
            found = access(group, span.postings, self._composites)
            if found is None:
                return NO_ROWS
            self._trace.use(found.used)
            pieces = found.candidates(low, high, descending=descending, first_piece=wanted and 4 * wanted)
        passed: list[Rows] = []
        missing = wanted
        for piece in pieces:
            rows = self._behind_cursor(span, span.matcher.passing(piece, check) if span.postings is not None else piece)
            if missing is not None:
                rows = rows[:missing]
                missing -= len(rows)
            passed.append(rows)
            if missing == 0:
                break
        return np.concatenate(passed) if passed else NO_ROWS

    def _bounds(self, span: Span, group: Group) -> tuple[int, int, Check]:
        """Rows [low, high) to look at, and what is left to be checked of them."""
        low, high = span.low, span.high
        if group.offset_start is not None:
            low = max(low, group.offset_start - span.base)
        if group.offset_end is not None:
            high = min(high, group.offset_end - span.base)
        start, end = _tighter(group, self._query.cursor, span.partition)
        has_expiry = span.postings is None or span.postings.extent.has_expiry
        alive_at = self._query.alive_at if has_expiry else None
        if not span.is_sorted:
            return low, high, Check(group, start, end, alive_at)
        rows = span.matcher.rows
        if start is not None and start > span.ts_min:
            low = rows.first_at(start, low, high)
        if end is not None and end <= span.ts_max:
            high = rows.first_at(end, low, high)
        cursor = self._query.cursor
        if cursor is not None and cursor.partition == span.partition:
            # Of the messages of the cursor's own time, which are neighbours here, those up to its offset are done.
            place = cursor.offset - span.base
            if self._query.descending:
                high = max(min(high, place), rows.first_at(cursor.timestamp, low, high))
            else:
                low = min(max(low, place + 1), rows.first_at(cursor.timestamp + 1, low, high))
        return low, high, Check(group, None, None, alive_at)

    def _behind_cursor(self, span: Span, rows: Rows) -> Rows:
        """Unless the order of rows has seen to it: only what comes after the last message returned."""
        cursor = self._query.cursor
        if cursor is None or span.is_sorted or not len(rows):
            return rows
        ascending = rows[::-1] if self._query.descending else rows
        times = span.matcher.timestamps(ascending)
        places = ascending.astype(np.int64) + span.base
        mask = _is_after(times, span.partition, places, cursor, descending=self._query.descending)
        return rows[mask[::-1] if self._query.descending else mask]


def _tighter(group: Group, cursor: Cursor | None, partition: int) -> tuple[int | None, int | None]:
    """The group's bounds of time, narrowed to what can come after the cursor in this partition."""
    start, end = group.start, group.end
    if cursor is None:
        return start, end
    if cursor.descending:
        bound = cursor.timestamp + (1 if partition <= cursor.partition else 0)
        return start, bound if end is None else min(end, bound)
    bound = cursor.timestamp + (1 if partition < cursor.partition else 0)
    return bound if start is None else max(start, bound), end


def _is_after(
    times: npt.NDArray[np.int64], partition: int, offsets: npt.NDArray[np.int64], cursor: Cursor, *, descending: bool
) -> npt.NDArray[np.bool_]:
    same = times == cursor.timestamp
    after: npt.NDArray[np.bool_]
    if descending:
        tie = (partition < cursor.partition) | ((partition == cursor.partition) & (offsets < cursor.offset))
        after = (times < cursor.timestamp) | (same & tie)
    else:
        tie = (partition > cursor.partition) | ((partition == cursor.partition) & (offsets > cursor.offset))
        after = (times > cursor.timestamp) | (same & tie)
    return after
