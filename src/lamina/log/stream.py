"""A stream: its partitions, and how messages find their way into them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from lamina.clock import Clock
from lamina.errors import Closed, Conflict, InvalidRequest, LaminaError, Unavailable
from lamina.log.codec import ROWS_PACKED_MAX
from lamina.log.commit import CommitQueue, Entry, Sink
from lamina.log.framing import Pending
from lamina.log.partition import Partition
from lamina.log.settings import APPEND_BYTES_MAX, LogSettings, StreamPolicy
from lamina.log.syncers import Syncers
from lamina.log.waiting import FOREVER, Deadline, not_confirmed
from lamina.log.written import Written
from lamina.model import (
    PRODUCER_ID_BYTES_MAX,
    Receipt,
    Row,
    batch_of_rows,
    check_text,
    partition_of,
    row_bytes,
    rows_of_batch,
    slice_compact,
    split_batch,
    split_rows,
)

Producer = tuple[str, int]


@dataclass(frozen=True, slots=True)
class _Piece:
    """What one call puts into one partition as a whole."""

    partition: int
    pending: Pending


class Stream:
    """The open partitions of one stream. Any thread.

    All of them share one commit queue: its leader writes to each partition and syncs them at the same time.
    """

    def __init__(
        self, name: str, policy: StreamPolicy, partitions: Sequence[Partition], settings: LogSettings, clock: Clock
    ) -> None:
        self.name = name
        self.policy = policy
        self.partitions = partitions
        self._settings = settings
        self._clock = clock
        self._queue = CommitQueue(self._commit, clock, APPEND_BYTES_MAX, settings.pending_bytes_max)
        self._syncers = Syncers()  # the leader's
        self._producer_lock = threading.Lock()  # guards the two below
        self._producer_locks: dict[str, tuple[threading.Lock, int]] = {}
        self._claimed: set[str] = set()

    @property
    def frame_bytes_target(self) -> int:
        return self._settings.frame_bytes_target

    def append_row(self, row: Row) -> Entry:
        """One message; returns when it is durable."""
        entry = Entry(Pending.of_row(row), None, self.partition_of(row))
        self._queue.append(entry)
        return entry

    def submit(self, pending: Pending, sink: Sink, partition: int) -> None:
        """Packed rows of one partition; returns at once, and the sink hears of the outcome.

        For callers that keep to `room_bytes` or `has_room` and are told by `call_when_settled` when to look again.
        """
        self._queue.submit(Entry(pending, sink, partition))

    def submit_within(self, deadline: Deadline, pending: Pending, sink: Sink, partition: int) -> None:
        """As `submit`, when there is room; WouldBlock if there is none in time."""
        self._queue.submit_within(deadline, Entry(pending, sink, partition))

    def room_bytes(self) -> int:
        """How much can be submitted now: the packed bytes and MESSAGE_BYTES of each message."""
        return self._queue.room_bytes()

    def has_room(self, weight: int) -> bool:
        return self._queue.has_room(weight)

    def call_when_settled(self, listener: Callable[[], None]) -> None:
        """Call once, after the next commit and on its thread; at once if nothing waits for one."""
        self._queue.call_when_settled(listener)

    def partition_of(self, row: Row) -> int:
        return partition_of(row.topic, row.key, len(self.partitions), self.policy.partition_by)

    def last_sequence(self, producer: str, deadline: Deadline = FOREVER) -> int | None:
        """The highest sequence that the producer has used in any partition. Waits for a commit under way."""
        seen = [partition.last_sequence(producer, deadline) for partition in self.partitions]
        return max((last for last in seen if last is not None), default=None)

    def claim_producer(self, producer: str) -> None:
        """Conflict if another pipeline numbers its calls under this id: one would swallow the other's messages."""
        with self._producer_lock:
            if producer in self._claimed:
                raise Conflict(f"producer {producer!r} is in use; give each producer an id of its own")
            self._claimed.add(producer)

    def release_producer(self, producer: str) -> None:
        with self._producer_lock:
            self._claimed.discard(producer)

    def append_rows(
        self, rows: Sequence[Row], producer: Producer | None = None, timeout: float | None = None
    ) -> Receipt:
        """Many messages. Those of one partition are durable together or not at all, up to APPEND_BYTES_MAX."""
        deadline = Deadline(self._clock, timeout)
        parts = split_rows(rows, len(self.partitions), self.policy.partition_by)
        pieces = [piece for number, part in sorted(parts.items()) for piece in self._row_pieces(number, part, producer)]
        return self._append(pieces, producer, deadline)

    def append_batches(
        self, batches: Iterable[pa.RecordBatch], producer: Producer | None = None, timeout: float | None = None
    ) -> Receipt:
        """Stored batches; as append_rows."""
        deadline = Deadline(self._clock, timeout)
        batches = list(batches)
        if sum(batch.num_rows for batch in batches) <= ROWS_PACKED_MAX:
            return self.append_rows([row for batch in batches for row in rows_of_batch(batch)], producer, timeout)
        parts: dict[int, list[pa.RecordBatch]] = {}
        for batch in batches:
            for number, part in split_batch(batch, len(self.partitions), self.policy.partition_by).items():
                parts.setdefault(number, []).extend(self._cut(part))
        pieces = [piece for number, cut in sorted(parts.items()) for piece in _batch_pieces(number, cut, producer)]
        return self._append(pieces, producer, deadline)

    def _row_pieces(self, number: int, rows: Sequence[Row], producer: Producer | None) -> list[_Piece]:
        if len(rows) <= ROWS_PACKED_MAX:
            pending = Pending.of_rows(rows, producer)
            if pending.bytes <= self._settings.frame_bytes_target:
                return [_Piece(number, pending)]
        batches, run, run_bytes = [], list[Row](), 0
        for row in rows:
            run.append(row)
            run_bytes += row_bytes(row)
            if run_bytes >= self._settings.frame_bytes_target:
                batches.append(batch_of_rows(run))
                run, run_bytes = [], 0
        if run:
            batches.append(batch_of_rows(run))
        return _batch_pieces(number, batches, producer)

    def _cut(self, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        """Frames of about the target size; up to twice of it stays whole."""
        target = self._settings.frame_bytes_target
        if batch.nbytes <= 2 * target or batch.num_rows == 1:
            return [batch]
        rows = max(1, batch.num_rows * target // batch.nbytes)
        pieces = [slice_compact(batch.slice(at, rows)) for at in range(0, batch.num_rows, rows)]
        # One huge message among small ones: cut the pieces again.
        return [small for piece in pieces for small in (self._cut(piece) if rows < batch.num_rows else [piece])]

    def _append(self, pieces: list[_Piece], producer: Producer | None, deadline: Deadline) -> Receipt:
        if producer is None:
            return self._enter(pieces, deadline, ExitStack())
        _check_producer(producer)
        if len({piece.partition for piece in pieces}) != len(pieces):
            raise InvalidRequest(
                f"a numbered call may bring at most {APPEND_BYTES_MAX >> 20} MiB to one partition; "
                "split it into several sequences"
            )
        if not pieces:
            pieces = [_Piece(0, Pending.of_rows([], producer))]
        with ExitStack() as held:
            held.enter_context(self._calling(producer[0], deadline))
            self._check_sequence(pieces, producer, deadline)
            return self._enter(pieces, deadline, held)

    def _check_sequence(self, pieces: Sequence[_Piece], producer: Producer, deadline: Deadline) -> None:
        """The sequence must be the last + 1, or a remembered one being retried, whose missing parts are written now."""
        name, sequence = producer
        last = self.last_sequence(name, deadline)
        if last is None or sequence in (last, last + 1):
            return
        if all(self.partitions[piece.partition].find_producer(name, sequence, deadline) for piece in pieces):
            return
        raise Conflict(f"producer {name!r} is at sequence {last}: the next is {last + 1}, not {sequence}")

    def close(self) -> None:
        """Commit what waits, refuse the rest, and close the partitions."""
        self._queue.close()
        self._syncers.close()
        for partition in self.partitions:
            partition.close()

    def _enter(self, pieces: Sequence[_Piece], deadline: Deadline, held: ExitStack) -> Receipt:
        """Append the pieces. What is `held` stays so until they are settled, also if the caller has gone by then."""
        entries = [Entry(piece.pending, None, piece.partition) for piece in pieces]
        if entries and deadline.timeout is None:
            with suppress(LaminaError):  # errors are on the entries; the first of them is raised below
                self._queue.append(*entries)
        elif entries:
            settled = entries[-1].sink = _Settled()
            self._queue.submit_within(deadline, *entries)
            if not settled.wait(deadline.left()):
                settled.call_then(held.pop_all().close)
                raise not_confirmed(deadline.timeout)
        for entry in entries:
            if entry.error is not None:
                raise entry.error
            if not entry.settled:
                raise Closed("the store is closed")
        return self._receipt(entries)

    def _commit(self, group: Sequence[Entry]) -> None:
        """Write each partition's entries and let its sync run while the next is written; then acknowledge all."""
        by_partition: dict[int, list[Entry]] = {}
        for entry in group:
            by_partition.setdefault(entry.partition, []).append(entry)
        begun: list[tuple[Partition, Written]] = []
        last = next(reversed(by_partition))
        try:
            for number, entries in by_partition.items():
                partition = self.partitions[number]
                if (written := partition.begin(entries)) is not None:
                    begun.append((partition, written))
                    if written.needs_sync:
                        self._syncers.start(partial(partition.sync, written), here=number == last)
        except BaseException as error:
            for _, written in begun:
                written.error = written.error or Unavailable(f"the commit was interrupted ({error!r})")
            raise
        finally:
            self._finish(begun)

    def _finish(self, begun: Sequence[tuple[Partition, Written]]) -> None:
        """Every partition is let go, also if waiting or finishing one of them is interrupted."""
        with ExitStack() as finishing:
            for partition, written in begun:
                finishing.callback(partition.finish, written)
            self._syncers.wait()
        self._count([written for _, written in begun if written.error is None])
        self.partitions[0].context.changed()

    def _count(self, stored: Sequence[Written]) -> None:
        """Once for the group: each of these takes a lock."""
        metrics = self.partitions[0].context.metrics
        metrics.add("lamina_commits_total")
        metrics.add("lamina_messages_published_total", sum(written.count for written in stored))

    def _receipt(self, entries: Sequence[Entry]) -> Receipt:
        ranges: dict[int, tuple[int, int]] = {}
        for entry in entries:
            number, first, end = entry.partition, entry.first, entry.first + entry.pending.count
            ranges[number] = (ranges[number][0], end) if number in ranges else (first, end)
        count = sum(entry.pending.count for entry in entries)
        return Receipt(self.name, count, ranges, {entry.partition: entry.epoch for entry in entries})

    @contextmanager
    def _calling(self, producer: str, deadline: Deadline) -> Iterator[None]:
        """Numbered calls of one producer happen one after the other: one lock for each producer in use."""
        with self._producer_lock:
            lock, users = self._producer_locks.get(producer, (threading.Lock(), 0))
            self._producer_locks[producer] = (lock, users + 1)
        try:
            with deadline.holding(lock, f"an earlier call of producer {producer!r}"):
                yield
        finally:
            with self._producer_lock:
                lock, users = self._producer_locks.pop(producer)
                if users > 1:
                    self._producer_locks[producer] = (lock, users - 1)


class _Settled:
    """The sink of a call whose thread waits for a limited time."""

    def __init__(self) -> None:
        self._settled = threading.Event()
        self._mutex = threading.Lock()
        self._then: Callable[[], None] | None = None  # guarded by _mutex

    def settle(self, entries: Sequence[Entry]) -> None:
        with self._mutex:
            self._settled.set()
            then = self._then
        if then is not None:
            then()

    def wait(self, timeout: float | None) -> bool:
        return self._settled.wait(timeout)

    def call_then(self, then: Callable[[], None]) -> None:
        """The thread has gone: call this when the entries are settled, or now if they are."""
        with self._mutex:
            self._then = then
            is_settled = self._settled.is_set()
        if is_settled:
            then()


def _batch_pieces(number: int, batches: Sequence[pa.RecordBatch], producer: Producer | None) -> list[_Piece]:
    """Whole appends of at most APPEND_BYTES_MAX each."""
    pieces: list[_Piece] = []
    run: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        if run and size + batch.nbytes > APPEND_BYTES_MAX:
            pieces.append(_Piece(number, Pending.of_batches(run, producer)))
            run, size = [], 0
        run.append(batch)
        size += batch.nbytes
    if run:
        pieces.append(_Piece(number, Pending.of_batches(run, producer)))
    return pieces


def _check_producer(producer: Producer) -> None:
    name, sequence = producer
    check_text("producer id", name, PRODUCER_ID_BYTES_MAX)
    if isinstance(sequence, bool) or not isinstance(sequence, int) or not 0 <= sequence < 2**63:
        raise InvalidRequest(f"a producer's sequence is an int from 0 on, not {sequence!r}")
