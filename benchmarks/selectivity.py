"""A filter against reading everything: for any share of matches and any number of different values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from statistics import median
from time import perf_counter

import numpy as np
import pyarrow as pa

import lamina
from benchmarks.bench import BATCH_ROWS, STREAM, Bench
from benchmarks.labelled import FIRST_US, wait_for_index
from benchmarks.results import Result, Rival, at_most
from lamina.cel import Columns, compile

SHARES = (1e-6, 1e-4, 1e-2, 0.1, 0.5, 1.0)
CARDINALITIES = (1, 100, 10_000, 1_000_000)
_RUNS = 5


def measure(bench: Bench) -> Iterator[Result]:
    rows = bench.scale.query_rows
    with bench.directory() as path, lamina.open(path / "store") as store:
        bench.say(f"publishing {rows:,} messages")
        store.create_stream(STREAM)
        chance = np.random.default_rng(1)
        for first in range(0, rows, BATCH_ROWS):
            store.publish_many(_batch(first, rows, chance), stream=STREAM)
        store.seal(STREAM)
        wait_for_index(store)
        for share in SHARES:
            yield _result(store, f"{share:g} of the messages match", f'labels["share{share:g}"] == "yes"')
        for cardinality in CARDINALITIES:
            yield _result(store, f"one of {cardinality:,} values", f'labels["card{cardinality}"] == "v0"')
        yield _result(store, "a regular expression, nothing indexed", 'topic.matches("[a-m]$")')


def _result(store: lamina.Store, name: str, where: str) -> Result:
    filter_ = compile(where)

    def by_hand() -> int:
        """What a program can do without an index: read all batches and filter each with the same vector code."""
        kept = [
            batch.filter(pa.array(filter_.truth(Columns(batch, STREAM, 0))))
            for batch in store.read_arrow(stream=STREAM)
        ]
        return int(pa.Table.from_batches(kept).num_rows)

    def by_query() -> int:
        return int(store.query(where, stream=STREAM, limit=None).to_arrow().num_rows)

    if by_hand() != by_query():
        raise RuntimeError(f"{where}: the query and the filter by hand differ")
    rival = Rival("read_arrow of everything, filtered there", _seconds(by_hand))
    return Result(name=name, figure=_seconds(by_query), unit="s", rival=rival, ratio_target=at_most(1))


def _seconds(work: Callable[[], int]) -> float:
    seconds = []
    for _ in range(_RUNS):
        start = perf_counter()
        work()
        seconds.append(perf_counter() - start)
    return median(seconds)


def _batch(first: int, rows: int, chance: np.random.Generator) -> pa.RecordBatch:
    """A label for each share, of which `yes` has that share of all messages, and one for each cardinality."""
    count = BATCH_ROWS
    at = np.arange(first, first + count)
    columns: dict[str, pa.Array] = {}
    for share in SHARES:
        every = max(round(1 / share), 1)
        columns[f"share{share:g}"] = pa.array(np.where(at % every == 0, "yes", "no"))
    for cardinality in CARDINALITIES:
        numbers = chance.integers(cardinality, size=count)
        numbers[0] = 0 if first == 0 else numbers[0]
        columns[f"card{cardinality}"] = pa.array([f"v{number}" for number in numbers.tolist()])
    each = len(columns)
    items = pa.concat_arrays(list(columns.values())).dictionary_encode()
    order = np.arange(count * each).reshape(each, count).T.ravel()
    labels = pa.MapArray.from_arrays(
        pa.array(np.arange(0, count * each + 1, each, dtype=np.int32)),
        pa.DictionaryArray.from_arrays(pa.array(np.tile(np.arange(each, dtype=np.int32), count)), list(columns)),
        items.take(pa.array(order)),
    )
    return pa.RecordBatch.from_pydict(
        {
            "timestamp": pa.array(FIRST_US + at),
            "topic": pa.array(["orders/eu"] * count).dictionary_encode(),
            "value": pa.array([b"x" * 100] * count, pa.binary()),
            "labels": labels,
        }
    )
