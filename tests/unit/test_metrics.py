"""Metrics: names and meanings belong together, numbers add up, also from many threads."""

from __future__ import annotations

import re
import threading
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamina.metrics import (
    BUCKET_BOUNDS,
    METRICS,
    CounterName,
    GaugeName,
    HistogramName,
    MetricName,
    Metrics,
)


def test_every_name_has_a_meaning_and_every_meaning_a_name() -> None:
    assert set(METRICS) == set(get_args(MetricName))


def test_every_name_is_declared_under_its_kind() -> None:
    declared = {"counter": get_args(CounterName), "gauge": get_args(GaugeName), "histogram": get_args(HistogramName)}
    assert all(name in declared[spec.kind] for name, spec in METRICS.items())


def test_names_are_plain_and_only_counters_are_totals() -> None:
    for name, spec in METRICS.items():
        assert re.fullmatch(r"lamina_[a-z_]+", name)
        assert name.endswith("_total") == (spec.kind == "counter")
        assert spec.unit
        assert spec.meaning.endswith(".")


def test_everything_starts_at_zero() -> None:
    assert set(Metrics().snapshot().values()) == {0}


def test_counters_add_and_gauges_move_both_ways() -> None:
    metrics = Metrics()
    metrics.add("lamina_commits_total")
    metrics.add("lamina_commits_total", 4)
    metrics.set("lamina_streams", 7)
    metrics.add("lamina_streams", -2)
    numbers = metrics.snapshot()
    assert numbers["lamina_commits_total"] == 5
    assert numbers["lamina_streams"] == 5


def test_a_histogram_is_flattened_to_count_sum_and_max() -> None:
    metrics = Metrics()
    for messages in (3, 10, 7):
        metrics.observe("lamina_commit_messages", messages)
    numbers = metrics.snapshot()
    assert numbers["lamina_commit_messages_count"] == 3
    assert numbers["lamina_commit_messages_sum"] == 20
    assert numbers["lamina_commit_messages_max"] == 10
    assert "lamina_commit_messages" not in numbers


def test_a_snapshot_is_frozen() -> None:
    metrics = Metrics()
    before = metrics.snapshot()
    metrics.add("lamina_commits_total")
    assert before["lamina_commits_total"] == 0
    with pytest.raises(TypeError):
        before["lamina_commits_total"] = 1  # type: ignore[index]


@given(st.floats(0, 1e12))
def test_a_value_lands_in_the_bucket_that_holds_it(value: float) -> None:
    metrics = Metrics()
    metrics.observe("lamina_commit_seconds", value)
    buckets = metrics.distribution("lamina_commit_seconds").buckets
    assert sum(buckets) == 1
    at = buckets.index(1)
    assert at == 0 or value > BUCKET_BOUNDS[at - 1]
    assert at == len(BUCKET_BOUNDS) or value <= BUCKET_BOUNDS[at]


@pytest.mark.parametrize("at", range(len(BUCKET_BOUNDS)))
def test_a_bound_belongs_to_the_bucket_below_it(at: int) -> None:
    metrics = Metrics()
    metrics.observe("lamina_commit_seconds", BUCKET_BOUNDS[at])
    assert metrics.distribution("lamina_commit_seconds").buckets.index(1) == at


def test_no_update_is_lost_between_threads() -> None:
    metrics = Metrics()

    def work() -> None:
        for _ in range(2_000):
            metrics.add("lamina_messages_published_total", 2)
            metrics.observe("lamina_commit_messages", 1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    numbers = metrics.snapshot()
    assert numbers["lamina_messages_published_total"] == 16_000
    assert numbers["lamina_commit_messages_count"] == 8_000
