"""What a store counts about itself: named counters, gauges and histograms.

`Metrics` is a component: whoever opens a store makes one and passes it down; there is no global. The names are typed,
so that a misspelt one fails the type check, and `METRICS` says what each of them means.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

CounterName = Literal[
    "lamina_messages_published_total",
    "lamina_bytes_written_total",
    "lamina_commits_total",
    "lamina_publish_failures_total",
    "lamina_messages_read_total",
    "lamina_segments_sealed_total",
    "lamina_recovery_dropped_bytes_total",
    "lamina_recovery_side_files_rebuilt_total",
    "lamina_query_rows_scanned_total",
]
GaugeName = Literal[
    "lamina_quarantined_segments",
    "lamina_streams",
    "lamina_partitions",
    "lamina_segments_open",
    "lamina_index_backlog_messages",
]
HistogramName = Literal[
    "lamina_commit_seconds",
    "lamina_commit_messages",
    "lamina_query_seconds",
]
MetricName = Literal[CounterName, GaugeName, HistogramName]
Kind = Literal["counter", "gauge", "histogram"]


@dataclass(frozen=True, slots=True)
class MetricSpec:
    """What a metric measures: a counter only grows, a gauge moves both ways, a histogram sorts values by size."""

    kind: Kind
    unit: str
    meaning: str


METRICS: dict[MetricName, MetricSpec] = {
    "lamina_messages_published_total": MetricSpec("counter", "messages", "Messages acknowledged to their publishers."),
    "lamina_bytes_written_total": MetricSpec("counter", "bytes", "Bytes of frames written to segments."),
    "lamina_commits_total": MetricSpec("counter", "commits", "Group commits, each of one stream."),
    "lamina_publish_failures_total": MetricSpec("counter", "calls", "Publish calls that ended in an error."),
    "lamina_messages_read_total": MetricSpec("counter", "messages", "Messages handed to readers."),
    "lamina_segments_sealed_total": MetricSpec("counter", "segments", "Segments closed for writing, for good."),
    "lamina_recovery_dropped_bytes_total": MetricSpec("counter", "bytes", "Bytes of torn tails cut off at recovery."),
    "lamina_recovery_side_files_rebuilt_total": MetricSpec(
        "counter", "files", "Index files rebuilt from their segment because they were missing or stale."
    ),
    "lamina_quarantined_segments": MetricSpec("gauge", "segments", "Damaged segments set aside and not read."),
    "lamina_streams": MetricSpec("gauge", "streams", "Streams in the store."),
    "lamina_partitions": MetricSpec("gauge", "partitions", "Partitions of all streams."),
    "lamina_segments_open": MetricSpec("gauge", "segments", "Segments whose files are open now."),
    "lamina_index_backlog_messages": MetricSpec(
        "gauge", "messages", "Messages that are not in index files yet; queries look at them all the same."
    ),
    "lamina_query_rows_scanned_total": MetricSpec("counter", "messages", "Messages that queries had to look at."),
    "lamina_query_seconds": MetricSpec("histogram", "seconds", "Time to find a page or a count."),
    "lamina_commit_seconds": MetricSpec("histogram", "seconds", "Duration of a group commit, write and fsync."),
    "lamina_commit_messages": MetricSpec("histogram", "messages", "Messages per group commit."),
}

# Powers of two from a microsecond (2^-20 s) to a million messages (2^20): one set of buckets serves both units.
_EXPONENT_MIN = -20
_EXPONENT_MAX = 20
BUCKET_BOUNDS: tuple[float, ...] = tuple(2.0**exponent for exponent in range(_EXPONENT_MIN, _EXPONENT_MAX + 1))


@dataclass(frozen=True, slots=True)
class Distribution:
    """A histogram at one moment. `buckets[i]` counts values in (BUCKET_BOUNDS[i-1], BUCKET_BOUNDS[i]].

    The first bucket also holds all smaller values; one more, at the end, holds all larger ones.
    """

    count: int
    sum: float
    max: float
    buckets: tuple[int, ...]


class Metrics:
    """All numbers of one store. Every method may be called from any thread and does not block on I/O."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # owns every number below; held for one update or one copy
        self._numbers: dict[str, float] = {name: 0 for name, spec in METRICS.items() if spec.kind != "histogram"}
        self._histograms = {name: _Histogram() for name, spec in METRICS.items() if spec.kind == "histogram"}

    def add(self, name: CounterName | GaugeName, amount: float = 1) -> None:
        """Move a counter up, or a gauge by a difference."""
        with self._lock:
            self._numbers[name] += amount

    def set(self, name: GaugeName, value: float) -> None:
        with self._lock:
            self._numbers[name] = value

    def observe(self, name: HistogramName, value: float) -> None:
        with self._lock:
            self._histograms[name].observe(value)

    def snapshot(self) -> Mapping[str, float]:
        """All numbers as they were at one moment; a histogram gives `<name>_count`, `<name>_sum` and `<name>_max`."""
        with self._lock:
            numbers = dict(self._numbers)
            for name, histogram in self._histograms.items():
                numbers[f"{name}_count"] = histogram.count
                numbers[f"{name}_sum"] = histogram.sum
                numbers[f"{name}_max"] = histogram.max
        return MappingProxyType(numbers)

    def distribution(self, name: HistogramName) -> Distribution:
        with self._lock:
            histogram = self._histograms[name]
            return Distribution(histogram.count, histogram.sum, histogram.max, tuple(histogram.buckets))


class _Histogram:
    """Guarded by the lock of its `Metrics`."""

    __slots__ = ("buckets", "count", "max", "sum")

    def __init__(self) -> None:
        self.count = 0
        self.sum = 0.0
        self.max = 0.0
        self.buckets = [0] * (len(BUCKET_BOUNDS) + 1)

    def observe(self, value: float) -> None:
        self.count += 1
        self.sum += value
        if value > self.max:
            self.max = value
        self.buckets[_bucket(value)] += 1


def _bucket(value: float) -> int:
    if value <= BUCKET_BOUNDS[0]:
        return 0
    if value > BUCKET_BOUNDS[-1]:
        return len(BUCKET_BOUNDS)
    mantissa, exponent = math.frexp(value)  # value = mantissa * 2^exponent, mantissa in [0.5, 1)
    if mantissa == 0.5:
        exponent -= 1  # a power of two belongs to the bucket that it bounds
    return exponent - _EXPONENT_MIN
