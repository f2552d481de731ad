"""Publishing messages one by one: from one thread, from many, and from asyncio tasks; alone and beside a busy thread.

One thread is held against the disk itself, in turns of a few hundred: an append of 4 KiB and its fdatasync. Many
writers are held against the same hand-over with nothing else to do (benchmarks/handover.py).
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from itertools import cycle, islice
from pathlib import Path
from time import perf_counter

import lamina
from benchmarks.bench import LOG_ONLY, STREAM, Bench
from benchmarks.handover import RECORD, tasks_rate, threads_rate
from benchmarks.raw_file import RawFile
from benchmarks.results import Result, Rival, at_least, at_most, percentile
from benchmarks.workload import Single, Workload

DIFFERENT = 20_000
RIVAL = "append 4 KiB + fdatasync"
HANDOVER = f"hand over {len(RECORD)} B + fdatasync, nothing else"


def measure(bench: Bench) -> Iterator[Result]:
    messages = Workload().singles(DIFFERENT)
    for is_busy in (False, True):
        for partitions in (1, 8):
            case = f"partitions={partitions}" + (", a thread busy" if is_busy else "")
            bench.say(case)
            with _busy_thread(on=is_busy):
                yield from _measure_case(
                    _shorter(bench) if is_busy else bench, messages, partitions, case, has_target=not is_busy
                )


def _measure_case(
    bench: Bench, messages: list[Single], partitions: int, case: str, *, has_target: bool
) -> Iterator[Result]:
    scale = bench.scale
    ours, rival = _one_thread(bench, messages, partitions)
    yield Result(
        name=f"1 thread, p50, {case}",
        figure=percentile(ours, 50),
        unit="s",
        rival=Rival(RIVAL, percentile(rival, 50)),
        ratio_target=at_most(1.5) if has_target else None,
    )
    rate, seconds = _many_threads(bench, messages, partitions)
    yield Result(
        name=f"{scale.threads} threads, {case}",
        figure=rate,
        unit="msg/s",
        rival=Rival(HANDOVER, _threads_handover(bench)),
        target=at_least(20_000) if has_target else None,
    )
    yield Result(
        name=f"{scale.threads} threads, p99, {case}",
        figure=percentile(seconds, 99),
        unit="s",
        target=at_most(0.010) if has_target else None,
    )
    yield Result(
        name=f"{scale.tasks:,} asyncio tasks, {case}",
        figure=_many_tasks(bench, messages, partitions),
        unit="msg/s",
        rival=Rival(HANDOVER, _tasks_handover(bench)),
        target=at_least(150_000) if has_target else None,
    )


def _one_thread(bench: Bench, messages: list[Single], partitions: int) -> tuple[list[float], list[float]]:
    """Seconds of each publish and of each raw append."""
    ours: list[float] = []
    rival: list[float] = []
    supply = cycle(messages)
    with bench.store(partitions) as store, bench.directory() as path, RawFile(path / "rival") as file:
        for _ in range(bench.scale.blocks):
            ours += [_publish(store, message) for message in islice(supply, bench.scale.per_block)]
            rival += [file.append_seconds() for _ in range(bench.scale.per_block)]
    return ours, rival


def _many_threads(bench: Bench, messages: list[Single], partitions: int) -> tuple[float, list[float]]:
    """Messages per second of all threads together, and the seconds of each publish."""
    threads = bench.scale.threads
    started = threading.Barrier(threads + 1)

    def publish_until(first: int) -> list[float]:
        supply = cycle(messages[first:] + messages[:first])
        started.wait()
        end = perf_counter() + bench.scale.seconds
        seconds = []
        while perf_counter() < end:
            seconds.append(_publish(store, next(supply)))
        return seconds

    with bench.store(partitions) as store, ThreadPoolExecutor(threads) as pool:
        running = [pool.submit(publish_until, number * len(messages) // threads) for number in range(threads)]
        started.wait()
        start = perf_counter()
        seconds = [one for thread in running for one in thread.result()]
        return len(seconds) / (perf_counter() - start), seconds


def _threads_handover(bench: Bench) -> float:
    with bench.directory() as path:
        return threads_rate(path / "rival", bench.scale.threads, bench.scale.seconds)


def _tasks_handover(bench: Bench) -> float:
    with bench.directory() as path:
        return tasks_rate(path / "rival", bench.scale.tasks, bench.scale.per_task)


def _publish(store: lamina.Store, message: Single) -> float:
    topic, value, labels = message
    start = perf_counter()
    store.publish(topic, value, labels=labels, stream=STREAM)
    return perf_counter() - start


def _many_tasks(bench: Bench, messages: list[Single], partitions: int) -> float:
    with bench.directory() as path:
        with lamina.open(path / "store", settings=LOG_ONLY) as store:
            store.create_stream(STREAM, partitions=partitions)
        seconds = asyncio.run(_publish_from_tasks(path / "store", messages, bench.scale.tasks, bench.scale.per_task))
    return bench.scale.tasks * bench.scale.per_task / seconds


async def _publish_from_tasks(path: Path, messages: list[Single], tasks: int, per_task: int) -> float:
    async with lamina.aio.open(path, settings=LOG_ONLY) as store:

        async def publish_all(share: list[Single]) -> None:
            for topic, value, labels in share:
                await store.publish(topic, value, labels=labels, stream=STREAM)

        supply = cycle(messages)
        shares = [list(islice(supply, per_task)) for _ in range(tasks)]
        start = perf_counter()
        async with asyncio.TaskGroup() as group:
            for share in shares:
                group.create_task(publish_all(share))
        return perf_counter() - start


def _shorter(bench: Bench) -> Bench:
    """Beside a busy thread everything takes many times longer; fewer samples tell it as well."""
    scale = bench.scale
    scale = replace(scale, blocks=max(1, scale.blocks // 5), per_task=max(1, scale.per_task // 5))
    return replace(bench, scale=scale)


@contextmanager
def _busy_thread(*, on: bool) -> Iterator[None]:
    """Beside what is measured, a thread that computes in Python without ever waiting."""
    stop = threading.Event()

    def compute() -> None:
        count = 0
        while not stop.is_set():
            for _ in range(1000):
                count += 1

    thread = threading.Thread(target=compute, name="busy", daemon=True)
    if on:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        if on:
            thread.join()
