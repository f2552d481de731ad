"""What the label index costs: building it alone, and publishing with it on and off."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from statistics import median
from time import perf_counter

import pyarrow as pa

import lamina
from benchmarks.bench import BATCH_ROWS, LOG_ONLY, STREAM, Bench
from benchmarks.labelled import Labelled, wait_for_index
from benchmarks.results import Result, Rival, at_least
from lamina.index.build import build
from lamina.log import Block
from lamina.model import Now, stored_batch

_CHUNK_BATCHES = 7  # about as many messages as are indexed together
_RUNS = 3


def measure(bench: Bench) -> Iterator[Result]:
    rows = bench.scale.query_rows
    bench.say("building postings")
    yield Result(
        name="building postings alone, 5 labels", figure=_build_rate(rows), unit="msg/s", target=at_least(1.5e6)
    )
    for labels, target in ((5, 700e3), (3, 1e6)):
        bench.say(f"publishing with and without the index, {labels} labels")
        batches = list(Labelled(labels).batches(rows))
        offs: list[tuple[float, float]] = []
        ons: list[tuple[float, float]] = []
        for number in range(2 * _RUNS):
            # In turns, and each of both first in half of the pairs: a disk is slower after much was written to it.
            is_on = number % 4 in (1, 2)
            (ons if is_on else offs).append(_publish(bench, batches, lamina.Settings() if is_on else LOG_ONLY))
        without = median(off[0] for off in offs)
        yield Result(
            name=f"publish_many, indexing beside it, {labels} labels",
            figure=median(on[0] for on in ons),
            unit="msg/s",
            rival=Rival("the same without the index", without),
            target=at_least(target),
            ratio_target=at_least(0.5),
        )
        yield Result(
            name=f"  until all is indexed, {labels} labels",
            figure=median(on[1] for on in ons),
            unit="msg/s",
            rival=Rival("the same without the index", without),
        )


def _build_rate(rows: int) -> float:
    now = Now(1 << 60, 1 << 60)
    blocks = [
        Block(range(at * BATCH_ROWS, (at + 1) * BATCH_ROWS), batch=stored_batch(batch, now))
        for at, batch in enumerate(Labelled().batches(rows))
    ]
    seconds = []
    for _ in range(_RUNS):
        start = perf_counter()
        waiting = iter(blocks)
        while chunk := list(islice(waiting, _CHUNK_BATCHES)):
            build(chunk, 0, chunk[0].offsets[0], chunk[-1].offsets[-1] + 1)
        seconds.append(perf_counter() - start)
    return rows / median(seconds)


def _publish(bench: Bench, batches: list[pa.RecordBatch], settings: lamina.Settings) -> tuple[float, float]:
    """Messages per second until the last is durable, and until all but a last chunk are indexed."""
    rows = sum(batch.num_rows for batch in batches)
    with bench.store(1, settings) as store:
        start = perf_counter()
        for batch in batches:
            store.publish_many(batch, stream=STREAM)
        published = perf_counter() - start
        if settings.index.background:
            wait_for_index(store, settings.index.chunk_rows)
        return rows / published, rows / (perf_counter() - start)
