"""Filters: how many messages a second a filter looks at, and how long it takes to compile one.

Messages have three labels (10, 1000 and many values), stored as the log stores them: a map of codes. "Stored" means
that the columns are taken out of the map each time; "cached" that another filter has looked at them before.
The rival is the official runtime, asked message by message with its variables ready.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from time import perf_counter

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from benchmarks.bench import Bench
from benchmarks.results import Result, Rival, at_least, percentile
from lamina.cel import Columns, Compiler, Filter, compile
from lamina.cel.official import Programs
from lamina.model import READ_SCHEMA, complete

ROWS = 1_000_000
SMALL = 10_000
LARGE = 100_000
RIVAL_ROWS = 5_000
STREAM = "bench"
START_US = 1_700_000_000_000_000
SPAN_US = 1_000_000_000
HEADLINE = f'labels["app"] == "dm" && timestamp > {START_US + SPAN_US // 2}'
SHAPES = {
    "in-list of 5": "labels.tenant in [" + ", ".join(f'"tenant-{number}"' for number in range(5)) + "]",
    "startsWith": 'labels.tenant.startsWith("tenant-1")',
    "regex": 'labels.tenant.matches("^tenant-[0-4]+$")',
    "integer arithmetic": "timestamp % 1000 + size * 2 == 7",
    "negation and or": '!(labels.app == "dm") || labels.tenant == "tenant-7"',
    "macro over labels": 'labels.exists(k, labels[k] == "dm")',
}
BY_MESSAGE = 'labels.app.replace("d", "x") == "xm"'
COMPILED = 'labels["app"] == "dm-{0}" && labels.tenant in ["a{0}", "b"] && timestamp > {0} && size < 4096'


def measure(bench: Bench) -> Iterator[Result]:
    bench.say("making a million messages")
    alike = [batch_of(LARGE, seed, missing=0.0) for seed in range(ROWS // LARGE)]
    mixed = [batch_of(LARGE, seed, missing=0.1) for seed in range(ROWS // LARGE)]
    bench.say("the official runtime")
    rival = Rival("official runtime, message by message", _official_rate(mixed[0]))
    headline = compile(HEADLINE)
    for name, batches in (("same keys in every message", alike), ("10 % without the key", mixed)):
        for rows in (LARGE, SMALL):
            bench.say(f"{name}, batches of {rows:,}")
            parts = [batch.slice(at, rows) for batch in batches for at in range(0, LARGE, rows)]
            stored, cached = _rates(headline, parts, bench.scale.passes)
            yield Result(
                name=f"label == and timestamp >, stored, batches of {rows:,}, {name}",
                figure=stored,
                unit="msg/s",
                rival=rival,
                target=at_least(100e6) if rows == LARGE else None,
                ratio_target=at_least(300),
            )
            yield Result(
                name=f"label == and timestamp >, cached, batches of {rows:,}, {name}",
                figure=cached,
                unit="msg/s",
                rival=rival,
                target=at_least(100e6),
                ratio_target=at_least(300),
            )
    for name, text in {**SHAPES, "without a vector form": BY_MESSAGE}.items():
        bench.say(name)
        stored, cached = _rates(compile(text), mixed, bench.scale.passes)
        yield Result(name=f"{name}, stored, batches of {LARGE:,}", figure=stored, unit="msg/s")
        yield Result(name=f"{name}, cached, batches of {LARGE:,}", figure=cached, unit="msg/s")
    bench.say("compiling")
    yield from _compile_times()


def batch_of(rows: int, seed: int, *, missing: float) -> pa.RecordBatch:
    """Messages as readers get them, of which a share has no label `app`."""
    random = np.random.default_rng(seed)
    values = [*(f"app-{number}" for number in range(9)), "dm", *(f"tenant-{number}" for number in range(1000))]
    first_id = len(values)
    values += [f"id-{seed}-{number:06d}" for number in range(rows // 4)]
    items = np.stack(
        [
            random.integers(0, 10, rows),
            random.integers(10, first_id, rows),
            random.integers(first_id, len(values), rows),
        ],
        axis=1,
    ).astype(np.int32)
    kept = np.ones((rows, 3), np.bool_)
    kept[:, 0] = random.random(rows) >= missing
    offsets = np.zeros(rows + 1, np.int32)
    np.cumsum(kept.sum(axis=1), out=offsets[1:])
    keys = np.broadcast_to(np.arange(3, dtype=np.int32), (rows, 3))
    labels = pa.MapArray.from_arrays(
        pa.array(offsets), _coded(keys[kept], ["app", "tenant", "id"]), _coded(items[kept], values)
    )
    columns = {
        "timestamp": pa.array(START_US + random.integers(0, SPAN_US, rows)),
        "topic": _coded(random.integers(0, 5, rows).astype(np.int32), [f"topic-{number}" for number in range(5)]),
        "value": pa.array([b"x" * 16] * rows, pa.binary()),
        "labels": labels,
    }
    batch = complete(pa.RecordBatch.from_pydict(columns), np.arange(rows))
    assert batch.schema == READ_SCHEMA
    return batch


def _coded(codes: npt.NDArray[np.int32], texts: list[str]) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(texts))


def _rates(found: Filter, batches: Sequence[pa.RecordBatch], passes: int) -> tuple[float, float]:
    """Messages a second with columns still in the batch, and with columns another filter has taken out: the best."""
    rows = sum(batch.num_rows for batch in batches)
    stored: list[float] = []
    cached: list[float] = []
    for _ in range(passes + 2):
        columns = [Columns(batch, STREAM, 0) for batch in batches]
        for seconds in (stored, cached):
            start = perf_counter()
            for one in columns:
                found.truth(one)
            seconds.append(perf_counter() - start)
    return rows / min(stored), rows / min(cached)


def _official_rate(batch: pa.RecordBatch) -> float:
    columns = Columns(batch, STREAM, 0)
    rows = [columns.variables(row, ("labels", "timestamp")) for row in range(RIVAL_ROWS)]
    expected = compile(HEADLINE).truth(columns)[:RIVAL_ROWS].tolist()
    programs = Programs()
    programs.truth(HEADLINE, rows[0])
    start = perf_counter()
    answers = [programs.truth(HEADLINE, variables) is True for variables in rows]
    seconds = perf_counter() - start
    assert answers == expected
    return RIVAL_ROWS / seconds


def _compile_times() -> Iterator[Result]:
    Compiler().compile("true")
    cold, known, planned = [], [], []
    compiler = Compiler()
    compiler.compile(COMPILED.format(1000))
    for number in range(500):
        text = COMPILED.format(number)
        start = perf_counter()
        Compiler().compile(text)
        cold.append(perf_counter() - start)
        start = perf_counter()
        found = compiler.compile(text)
        known.append(perf_counter() - start)
        start = perf_counter()
        assert found.plan.groups
        planned.append(perf_counter() - start)
    yield Result(name="compile 4 conditions, template unknown", figure=percentile(cold, 50), unit="s")
    yield Result(name="compile 4 conditions, template known", figure=percentile(known, 50), unit="s")
    yield Result(name="plan 4 conditions", figure=percentile(planned, 50), unit="s")
