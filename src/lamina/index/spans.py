"""From a plan to the stretches of rows that have to be searched: everything else is pruned unseen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lamina.cel import Group, Plan
from lamina.errors import NotFound
from lamina.index.composites import Composite
from lamina.index.explain import Trace
from lamina.index.matching import RowMatcher
from lamina.index.partition_index import PartitionIndex
from lamina.index.postings import Postings
from lamina.log import OpenSegment, SegmentHandle

_SCANNED_ROWS = 16_384
_ANY_TIME = 1 << 63


@dataclass(frozen=True, slots=True)
class Span:
    """Rows [low, high) of one segment that are searched together. `postings` None: by looking at each of them."""

    matcher: RowMatcher
    postings: Postings | None
    low: int
    high: int
    ts_min: int
    ts_max: int
    is_sorted: bool

    @property
    def partition(self) -> int:
        return self.matcher.partition

    @property
    def base(self) -> int:
        return self.matcher.rows.base


@dataclass(frozen=True, slots=True)
class Stretch:
    """A segment that may hold matches, not opened yet."""

    index: PartitionIndex
    handle: SegmentHandle
    low: int
    high: int

    @property
    def ts_min(self) -> int:
        """Of a damaged segment nothing is known: its turn comes first, whatever the direction, and it raises."""
        return self.handle.stats.ts_min if self.handle.damage is None else -_ANY_TIME

    @property
    def ts_max(self) -> int:
        return self.handle.stats.ts_max if self.handle.damage is None else _ANY_TIME

    def spans(self, composites: Sequence[Composite]) -> Iterator[Span]:
        """Open it. Corrupt if it is quarantined: what is unknown is never taken for absent."""
        try:
            opened = self.index.view.open(self.handle)
        except NotFound:
            if self.handle.end <= self.index.view.bounds()[0]:
                return  # deleted since we looked
            raise
        opened.rows.catch_up()
        matcher = RowMatcher(opened.rows, self.index.view.stream, self.index.view.number)
        covered = 0
        for part in self.index.parts(self.handle, opened, self.high, composites):
            extent = part.extent
            covered = extent.end
            low, high = max(extent.first, self.low), min(extent.end, self.high)
            if low < high:
                yield Span(matcher, part, low, high, extent.ts_min, extent.ts_max, extent.is_sorted)
        yield from _unindexed(opened, matcher, max(covered, self.low), self.high)


def stretches(plan: Plan, partitions: Sequence[PartitionIndex], trace: Trace) -> Iterator[Stretch]:
    """The segments that any group may have matches in, by what is known without opening them."""
    for index in partitions:
        groups = [g for g in plan.groups if g.partitions is None or index.view.number in g.partitions]
        earliest, latest = index.view.bounds()
        for handle in index.view.segments.handles:
            if handle.end <= earliest or handle.base >= latest:
                continue
            trace.segments += 1
            low, high = max(earliest - handle.base, 0), min(handle.end, latest) - handle.base
            if not groups:
                trace.prune("partition" if plan.groups else "contradiction")
            elif not any(_has_offsets(group, handle.base + low, handle.base + high) for group in groups):
                trace.prune("offset")
            elif handle.damage is None and not any(_has_times(group, handle) for group in groups):
                trace.prune("time")
            else:
                yield Stretch(index, handle, low, high)


def _has_offsets(group: Group, start: int, end: int) -> bool:
    return (group.offset_start is None or group.offset_start < end) and (
        group.offset_end is None or group.offset_end > start
    )


def _has_times(group: Group, handle: SegmentHandle) -> bool:
    return (group.start is None or handle.stats.ts_max >= group.start) and (
        group.end is None or handle.stats.ts_min < group.end
    )


def _unindexed(opened: OpenSegment, matcher: RowMatcher, low: int, high: int) -> Iterator[Span]:
    """Runs of frames that make a span worth its overhead, each with its own range of times."""
    rows = opened.rows
    start, end, ts_min, ts_max = low, low, _ANY_TIME, -_ANY_TIME
    for number in rows.frame_numbers(low, high):
        end = min(rows.end_of(number), high)
        frame_min, frame_max = rows.times(number)
        ts_min, ts_max = min(ts_min, frame_min), max(ts_max, frame_max)
        if end - start >= _SCANNED_ROWS:
            yield Span(matcher, None, start, end, ts_min, ts_max, is_sorted=False)
            start, ts_min, ts_max = end, _ANY_TIME, -_ANY_TIME
    if end > start:
        yield Span(matcher, None, start, end, ts_min, ts_max, is_sorted=False)
