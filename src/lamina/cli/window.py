"""Which messages `lamina read` shows, and where they come from: what is there now, or that and all that follows."""

from __future__ import annotations

import heapq
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from lamina.cli import output
from lamina.clock import Clock
from lamina.errors import OffsetOutOfRange
from lamina.model import Message
from lamina.store import Store

_POLL_SECONDS = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Offsets [start, end) and times [since, until), each end open if None."""

    stream: str = "default"
    topic: str | None = None
    partition: int | None = None
    start: int | None = None
    end: int | None = None
    since: int | datetime | None = None
    until: int | datetime | None = None

    def messages(self, store: Store, limit: int | None, *, descending: bool) -> Iterator[Message]:
        """By offset in one partition; by time over several, since their offsets do not compare."""
        partitions: list[int | None] = [self.partition]
        if self.partition is None and self.topic is None and self.start is None and self.end is None:
            partitions = [known.partition for known in store.stream(self.stream).partitions]
        found = [self._read(store, number, limit=limit, descending=descending) for number in partitions]
        if len(found) == 1:
            return found[0]
        return heapq.merge(*found, key=lambda m: (m.timestamp or 0, m.partition, m.offset), reverse=descending)

    def follow(self, store: Store, clock: Clock) -> Iterator[Message | None]:
        """What is there and then all that is new, without end; None whenever there is nothing more for now."""
        partitions = [known.partition for known in store.stream(self.stream).partitions]
        chosen = partitions if self.partition is None else [self.partition]
        positions = {number: self._first_position(store, number) for number in chosen}
        pause = threading.Event()
        while True:
            latest = {known.partition: known.latest for known in store.stream(self.stream).partitions}
            for number, position in positions.items():
                # The end was taken before reading: messages of other topics are not looked at twice.
                positions[number] = latest[number]
                if position < latest[number]:
                    yield from self._new(store, number, position, latest[number])
            yield None
            clock.wait(pause, _POLL_SECONDS)

    def _first_position(self, store: Store, number: int) -> int:
        self._read(store, number)  # refuses a partition or a start that does not exist
        earliest = next(k.earliest for k in store.stream(self.stream).partitions if k.partition == number)
        return earliest if self.start is None else self.start

    def _new(self, store: Store, number: int, start: int, end: int) -> Iterator[Message]:
        try:
            return self._read(store, number, start=start, end=end)
        except OffsetOutOfRange as error:
            output.hint(
                f"offsets {start} to {error.earliest - 1} of partition {number} were deleted before they were read"
            )
            return self._read(store, number, start=error.earliest, end=end)

    def _read(
        self,
        store: Store,
        partition: int | None,
        *,
        start: int | None = None,
        end: int | None = None,
        limit: int | None = None,
        descending: bool = False,
    ) -> Iterator[Message]:
        return store.read(
            self.topic,
            self.stream,
            partition,
            self.start if start is None else start,
            self.end if end is None else end,
            limit,
            start_time=self.since,
            end_time=self.until,
            descending=descending,
        )
