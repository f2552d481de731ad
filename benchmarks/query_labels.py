"""`app = X && thread = Y`, the first 100 messages with their values: Lamina, and databases beside it in one run.

Each rival holds the same messages, has an index on every label where it can have one, and gives back values.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from statistics import median
from time import perf_counter, sleep

import lamina
from benchmarks import query_rivals
from benchmarks.bench import STREAM, Bench
from benchmarks.labelled import CARDINALITIES, TEXTS, Labelled, fill
from benchmarks.results import Result, Rival, at_most

LIMIT = 100
_WARM = 100
DAY_US = 24 * 3600 * 1_000_000
Ask = Callable[[str, str], int]


def measure(bench: Bench) -> Iterator[Result]:
    rows, many = bench.scale.query_rows, bench.scale.query_rows_many
    with bench.directory() as path:
        bench.say(f"publishing {rows:,} messages")
        with lamina.open(path / "store") as store:
            fill(store, rows)
            ours = _p50(bench, _asker(store))
            yield Result(name=f"{rows:,} messages, p50", figure=ours, unit="s", target=at_most(300e-6))
            either = _or_ratio(bench, store)
            yield Result(
                name="one of 10 threads, p50",
                figure=either[0],
                unit="s",
                rival=Rival("10 queries for one each", either[1]),
                ratio_target=at_most(0.3),
            )
        yield from _rivals(bench, path, rows, ours)
    with bench.directory() as path:
        bench.say(f"publishing {many:,} messages over a day")
        with lamina.open(path / "store") as store:
            fill(store, many, step_us=DAY_US // many)
            yield Result(
                name=f"{many:,} messages over 24 hours, p50",
                figure=_p50(bench, _asker(store)),
                unit="s",
                rival=Rival(f"{rows:,} messages", ours),
                ratio_target=at_most(2),
            )
            yield Result(name="  newest first", figure=_p50(bench, _asker(store, descending=True)), unit="s")
            yield Result(name="  in one hour of them", figure=_p50(bench, _hour_asker(store)), unit="s")


def _rivals(bench: Bench, path: Path, rows: int, ours: float) -> Iterator[Result]:
    for rival in query_rivals.RIVALS:
        count = rival.rows_max if rival.rows_max is not None and rows > rival.rows_max else rows
        bench.say(f"{rival.name}: loading {count:,} messages")
        batches = list(Labelled().batches(count))
        start = perf_counter()
        with rival.load(path, batches) as ask:
            loaded = perf_counter() - start
            theirs = _p50(bench, ask)
        of = "" if count == rows else f", only {count:,} entries"
        yield Result(
            name=f"  against {rival.name}{of}",
            figure=ours,
            unit="s",
            rival=Rival(f"{rival.name}{of}", theirs),
            ratio_target=at_most(1) if rival.must_be_slower else None,
        )
        yield Result(name=f"  inserting into {rival.name}", figure=count / loaded, unit="msg/s")


def _asker(store: lamina.Store, *, descending: bool = False) -> Ask:
    def ask(app: str, thread: str) -> int:
        where = f'labels["app"] == "{app}" && labels["thread"] == "{thread}"'
        page = store.query(where, stream=STREAM, limit=LIMIT, descending=descending)
        return sum(len(m.value or b"") for m in page)

    return ask


def _hour_asker(store: lamina.Store) -> Ask:
    first = store.segments(STREAM)[0].timestamp_min or 0
    chance = Random(3)

    def ask(app: str, thread: str) -> int:
        start = first + chance.randrange(23) * DAY_US // 24
        labels = {"app": app, "thread": thread}
        page = store.query(labels=labels, stream=STREAM, limit=LIMIT, start=start, end=start + DAY_US // 24)
        return sum(len(m.value or b"") for m in page)

    return ask


def _p50(bench: Bench, ask: Ask) -> float:
    """Each question asks for another pair of values; the first ones warm caches and are not counted.

    Disk and processor are at rest: what was loaded just now would otherwise be written back beside the first
    questions, and a shared machine that has just worked hard is held back for a while.
    """
    os.sync()
    sleep(bench.scale.rest_seconds)
    chance = Random(7)
    seconds = []
    for number in range(bench.scale.queries + _WARM):
        app, thread = (_text(key, chance) for key in ("app", "thread"))
        start = perf_counter()
        ask(app, thread)
        if number >= _WARM:
            seconds.append(perf_counter() - start)
    return median(seconds)


def _or_ratio(bench: Bench, store: lamina.Store) -> tuple[float, float]:
    chance = Random(5)
    one_call, ten_calls = [], []
    for _ in range(bench.scale.queries // 3):
        threads = [_text("thread", chance) for _ in range(10)]
        start = perf_counter()
        list(store.query(any_of=[{"thread": thread} for thread in threads], stream=STREAM, limit=LIMIT))
        one_call.append(perf_counter() - start)
        start = perf_counter()
        for thread in threads:
            list(store.query(labels={"thread": thread}, stream=STREAM, limit=LIMIT))
        ten_calls.append(perf_counter() - start)
    return median(one_call), median(ten_calls)


def _text(key: str, chance: Random) -> str:
    text: str = TEXTS[key][chance.randrange(CARDINALITIES[key])].as_py()
    return text
