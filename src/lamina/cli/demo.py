"""`lamina demo`: publish a million events, find them again in every way, reopen the store and verify it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from random import Random
from typing import Annotated

import msgspec
import typer

from lamina.cli import output
from lamina.cli.demo_events import FIRST_US, STEP_US, event_batch, keys_of, last_of_key, numbers_with, values_of
from lamina.cli.session import Session, no_server
from lamina.clock import Clock, SystemClock
from lamina.errors import Corrupt
from lamina.model import Message
from lamina.settings import Settings
from lamina.store import Store, open_store

STREAM = "demo"
_BATCH_ROWS = 10_000
_LOOKUPS_MAX = 2_000
_QUERIES_MAX = 500
_SEED = 7


class Step(msgspec.Struct, frozen=True):
    """One thing that the demo did: `count` of what, in how many seconds."""

    step: str
    count: int
    unit: str
    seconds: float

    @property
    def per_second(self) -> float:
        return self.count / max(self.seconds, 1e-9)


def demo(
    session: Session,
    messages: Annotated[int, typer.Option("--messages", "-n", min=1, help="How many events to publish.")] = 1_000_000,
) -> None:
    """Publish events, read them in every way, reopen and verify; in a temporary directory unless --data is given."""
    if session.choices.url_typed:
        raise no_server()
    with _place(session) as where:
        run = Demo(where, session.settings(), messages, SystemClock())
        with output.progress("publishing", messages) as bar:
            for published in run.publish():
                bar.update(bar.task_ids[0], completed=published)
        with output.progress("reading, reopening, verifying", None):
            run.read_back()
    if session.as_json:
        steps = [msgspec.structs.asdict(step) | {"per_second": round(step.per_second, 1)} for step in run.steps]
        output.print_json({"messages": messages, "bytes": run.bytes, "verified": True, "steps": steps})
    else:
        _print_steps(run)


class Demo:
    """The acts of the demo, in order: publish, then read_back. Every answer is compared with what must come."""

    def __init__(self, where: str | Path, settings: Settings, count: int, clock: Clock) -> None:
        self.steps: list[Step] = []
        self.bytes = 0
        self._where = where
        self._settings = settings
        self._count = count
        self._clock = clock
        self._random = Random(_SEED)
        self._first = 0  # where this run begins in a stream that may hold earlier runs

    def publish(self) -> Iterator[int]:
        """Yields how many are published, batch by batch."""
        with self._open() as store, self._timed("publish in batches, synced to disk", self._count, "messages"):
            store.create_stream(STREAM)
            self._first = store.stream(STREAM).partitions[0].latest
            for first in range(0, self._count, _BATCH_ROWS):
                store.publish_many(event_batch(first, min(_BATCH_ROWS, self._count - first)), STREAM)
                yield min(first + _BATCH_ROWS, self._count)

    def read_back(self) -> None:
        with self._timed("reopen and recover", 1, "store"):
            store = self._open()
        with store:
            self._scan(store)
            self._by_offset(store)
            self._by_time(store)
            self._by_key(store)
            self._newest_first(store)
            self._by_labels(store)
            self._verify(store)

    def _scan(self, store: Store) -> None:
        with self._timed("read all as Arrow batches", self._count, "messages"):
            found = sum(batch.num_rows for batch in store.read_arrow(stream=STREAM, start=self._first))
        if found != self._count:
            raise Corrupt(f"demo: {self._count} messages were published, but {found} were read")

    def _by_offset(self, store: Store) -> None:
        numbers = self._sample()
        with self._timed("get by offset, at random", len(numbers), "messages"):
            found = [store.get(f"{STREAM}/0/{self._first + number}") for number in numbers]
        self._compare(numbers, found)

    def _by_time(self, store: Store) -> None:
        numbers = self._sample()
        if self._first:
            return  # an earlier run has events of the same times
        with self._timed("find by time and read 10", len(numbers), "times"):
            found = []
            for number in numbers:
                offset = store.offset_at(FIRST_US + number * STEP_US, STREAM)
                found.append(next(store.read(stream=STREAM, start=offset, limit=10)))
        self._compare(numbers, found)

    def _by_key(self, store: Store) -> None:
        numbers = self._sample()
        keys = keys_of(numbers)
        with self._timed("latest of a key", len(keys), "keys"):
            found = [store.latest(key, stream=STREAM) for key in keys]
        self._compare([last_of_key(number, self._count) for number in numbers], found)

    def _newest_first(self, store: Store) -> None:
        limit = min(self._count, 100_000)
        with self._timed("read newest first", limit, "messages"):
            found = list(store.read(stream=STREAM, descending=True, limit=limit))
        self._compare([self._count - 1, self._count - limit], [found[0], found[-1]])

    def _by_labels(self, store: Store) -> None:
        """A filter and a stretch of time; the store may still be indexing, which changes no answer."""
        if self._first:
            return  # an earlier run has events of the same times
        where, limit = 'labels["app"] == "billing" && labels["level"] == "error"', 100
        firsts = self._sample()[:_QUERIES_MAX]
        with self._timed("query two labels, 100 from a time on", len(firsts), "queries"):
            found = [list(store.query(where, STREAM, start=FIRST_US + n * STEP_US, limit=limit)) for n in firsts]
        for first, page in zip(firsts, found, strict=True):
            # About one event in nine has both labels, so a stretch of this length holds more than a page.
            stretch = min(limit * 20, self._count - first)
            self._compare(numbers_with("billing", "error", first, stretch)[:limit], page)
        everywhere = len(numbers_with("billing", "error", 0, self._count))
        with self._timed("count two labels", self._count, "messages"):
            counted = store.count(where, STREAM)
        if counted != everywhere:
            raise Corrupt(f"demo: {everywhere} events have both labels, but {counted} were counted")

    def _verify(self, store: Store) -> None:
        self.bytes = store.stream(STREAM).bytes
        with self._timed("verify every byte", self.bytes, "bytes"):
            report = store.verify()
        if not report.ok:
            raise Corrupt(f"demo: {'; '.join(report.problems)}")

    def _sample(self) -> list[int]:
        return [self._random.randrange(self._count) for _ in range(min(_LOOKUPS_MAX, 1 + self._count // 50))]

    def _compare(self, numbers: list[int], found: list[Message | None] | list[Message]) -> None:
        for number, value, message in zip(numbers, values_of(numbers), found, strict=True):
            if message is None or message.offset != self._first + number or message.value != value:
                raise Corrupt(f"demo: event {number} was expected at offset {self._first + number}, found {message!r}")

    def _open(self) -> Store:
        return open_store(self._where, settings=self._settings)

    @contextmanager
    def _timed(self, step: str, count: int, unit: str) -> Iterator[None]:
        started = self._clock.monotonic()
        yield
        self.steps.append(Step(step, count, unit, self._clock.monotonic() - started))


def _place(session: Session) -> AbstractContextManager[str | Path]:
    """Only a directory that was typed: a demo must not fill the store that the environment names."""
    if session.choices.data_typed:
        return nullcontext[str | Path](session.data)
    return tempfile.TemporaryDirectory(prefix="lamina-demo-")


def _print_steps(run: Demo) -> None:
    rows = []
    for step in run.steps:
        if step.unit == "bytes":
            what, rate = output.size_text(step.count), f"{output.size_text(int(step.per_second))}/s"
        else:
            what = f"{step.count:,} {step.unit}"
            rate = f"{step.per_second:,.0f}/s" if step.count > 1 else "-"
        rows.append((step.step, what, f"{step.seconds:.2f} s", rate))
    output.print_table(("step", "of", "took", "rate"), rows)
    print(
        "\nEvery answer was right and every checksum matched. Next: lamina publish orders/eu 'two apples' -l app=shop"
    )
