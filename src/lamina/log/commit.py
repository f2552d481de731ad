"""Group commit: the first waiting thread leads, commits for all who wait, and settles every one of them.

The leader lingers a little: it waits until as many calls are pending as took part in the last round, for at most a
quarter of the last commit's time. Without that, groups alternate between one call and all the others.

Threads that wait for their call bound the queue by their number. Calls that nobody waits for are bounded by bytes.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Protocol

from lamina.clock import Clock
from lamina.errors import Closed, LaminaError, Unavailable
from lamina.log.framing import Pending
from lamina.log.waiting import Deadline, no_room

LINGER_SHARE = 0.25
MESSAGE_BYTES = 1024
"""What a packed message counts for beside its bytes, as long as it waits: its future and our own objects."""

logger = logging.getLogger(__name__)


class Sink(Protocol):
    """Where calls that nobody waits for are settled: once per group, on the committing thread."""

    def settle(self, entries: Sequence[Entry]) -> None: ...


class Entry:
    """What one call brings to one partition. After it is settled, `error` is set or the offsets begin at `first`."""

    __slots__ = ("epoch", "error", "first", "gate", "partition", "pending", "settled", "sink")

    def __init__(self, pending: Pending, sink: Sink | None = None, partition: int = 0) -> None:
        self.pending = pending
        self.sink = sink
        self.partition = partition
        self.first = -1
        self.epoch = 0
        self.error: LaminaError | None = None
        self.settled = False
        self.gate: threading.Lock | None = None


class CommitQueue:
    """Calls that wait to be committed, in order. Any thread; at most one leads at a time.

    `commit` gets a group and leaves `first` or `error` on each entry. If it raises, which only a bug or an interrupt
    can cause, all of the group fail.
    """

    def __init__(
        self, commit: Callable[[list[Entry]], None], clock: Clock, bytes_max: int, pending_bytes_max: int
    ) -> None:
        self._commit = commit
        self._clock = clock
        self._bytes_max = bytes_max
        self._pending_bytes_max = pending_bytes_max
        self._mutex = threading.Lock()
        # All below is guarded by _mutex.
        self._queue: deque[Entry] = deque()
        self._pending_bytes = 0  # of all entries that are not settled, also those being committed
        self._room = threading.Condition(self._mutex)
        self._listeners: list[Callable[[], None]] = []
        self._leading = False
        self._idle = threading.Condition(self._mutex)
        self._closed = False
        self._promoted: Entry | None = None
        self._awaited = 0
        self._gathered = threading.Lock()
        self._gathered.acquire()
        self._last_count = 0
        self._last_seconds = 0.0
        self._committer: _Committer | None = None

    def append(self, *entries: Entry) -> None:
        """Return when the entries of one call are committed; raise the last one's error."""
        # Entries are settled in their order, so whoever waits for the last one waits for all.
        entry = entries[-1]
        gate = entry.gate = threading.Lock()
        gate.acquire()
        weight = _weight(entries)
        with self._mutex:
            is_leader = self._join(entries, weight)
        if not is_leader:
            self._wait(entry, gate)
        while not entry.settled:
            # Promoted: this thread leads now. A full group may leave its own entry behind; then it waits again.
            self._lead(entry)
            if not entry.settled:
                self._wait(entry, gate)
        if entry.error is not None:
            raise entry.error

    def submit(self, *entries: Entry) -> None:
        """Return at once; the entries' sinks hear of the outcome. For callers that look at `room_bytes` before."""
        weight = _weight(entries)
        with self._mutex:
            is_leader = self._join(entries, weight)
        if is_leader:
            self._wake_committer()

    def submit_within(self, deadline: Deadline, *entries: Entry) -> None:
        """As `submit`, when there is room; WouldBlock if there is none in time: nothing of the call is stored then."""
        weight = _weight(entries)
        with self._mutex:
            if self._pending_bytes + weight > self._pending_bytes_max:
                self._wait_for_room(weight, deadline)
            is_leader = self._join(entries, weight)
        if is_leader:
            self._wake_committer()

    def room_bytes(self) -> int:
        """How much can be submitted now; what other threads submit meanwhile is not foreseen."""
        return self._pending_bytes_max - self._pending_bytes

    def has_room(self, weight: int) -> bool:
        """Whether this much can be submitted now. A call larger than the bound can, while there is no other."""
        return not self._pending_bytes or self._pending_bytes + weight <= self._pending_bytes_max

    def call_when_settled(self, listener: Callable[[], None]) -> None:
        """Call once, after the next commit and on its thread; at once if nothing waits for a commit."""
        with self._mutex:
            if self._pending_bytes:
                self._listeners.append(listener)
                return
        listener()

    def close(self) -> None:
        """Commit what waits and refuse the rest."""
        with self._mutex:
            self._closed = True
            self._room.notify_all()
            while self._leading:
                self._idle.wait()
        if self._committer is not None:
            self._committer.close()

    def _join(self, entries: Sequence[Entry], weight: int) -> bool:
        """Under the mutex: enter the queue; True if this call must see to it that somebody leads."""
        if self._closed:
            raise Closed("the store is closed")
        self._queue.extend(entries)
        self._pending_bytes += weight
        if self._leading:
            if self._awaited and len(self._queue) >= self._awaited:
                self._awaited = 0
                self._gathered.release()
            return False
        self._leading = True
        return True

    def _wait_for_room(self, weight: int, deadline: Deadline) -> None:
        """Under the mutex, which others get meanwhile."""
        if self._committer is not None and self._committer.is_current_thread():
            return  # a callback that publishes again: its thread would wait for itself
        if not self._room.wait_for(lambda: self._closed or self.has_room(weight), deadline.left()):
            raise no_room(deadline.timeout)

    def _wait(self, entry: Entry, gate: threading.Lock) -> None:
        """Until the entry is settled or its thread is to lead."""
        try:
            gate.acquire()
        except BaseException:
            # Interrupted (Ctrl-C): the entry stays in the queue, but this thread will not lead any more.
            with self._mutex:
                entry.gate = None
                is_leader = self._promoted is entry and not entry.settled
            if is_leader:
                self._wake_committer()
            raise

    def _lead(self, own: Entry | None = None) -> None:
        """Commit one group; the caller holds the leadership and passes it on, whatever happens."""
        group: list[Entry] = []
        try:
            self._linger()
            group = self._take()
            started = self._clock.monotonic()
            self._commit(group)
            self._last_seconds = self._clock.monotonic() - started
            self._last_count = len(group)
        except BaseException as error:
            _fail(group, error)
            if own is not None:
                own.gate = None  # its thread is leaving: it must not be asked to lead again
            raise
        finally:
            for entry in group:
                entry.settled = True
            # Passed on before anybody is told: a sink may take its time, or publish again.
            for listener in self._pass_on(group):
                listener()
            _notify(group)

    def _linger(self) -> None:
        with self._mutex:
            if len(self._queue) >= self._last_count:
                return
            self._awaited = self._last_count
        if not self._gathered.acquire(timeout=self._last_seconds * LINGER_SHARE):
            with self._mutex:
                self._awaited = 0
                # Whoever completed the group between the timeout and here has opened the gate: shut it again.
                self._gathered.acquire(blocking=False)

    def _take(self) -> list[Entry]:
        with self._mutex:
            group, size = [self._queue.popleft()], 0
            size = group[0].pending.bytes
            while self._queue and size + self._queue[0].pending.bytes <= self._bytes_max:
                size += self._queue[0].pending.bytes
                group.append(self._queue.popleft())
            return group

    def _pass_on(self, group: Sequence[Entry]) -> list[Callable[[], None]]:
        """The group is settled and somebody else leads; returns who wants to hear of it."""
        weight = _weight(group)
        with self._mutex:
            self._pending_bytes -= weight
            self._room.notify_all()
            listeners, self._listeners = self._listeners, []
            if not self._queue:
                self._leading = False
                self._idle.notify_all()
                return listeners
            waiting = self._promoted = next((entry for entry in self._queue if entry.gate is not None), None)
            gate = waiting.gate if waiting is not None else None
        if gate is not None:
            gate.release()
        else:
            self._wake_committer()
        return listeners

    def _wake_committer(self) -> None:
        try:
            with self._mutex:
                if self._committer is None:
                    self._committer = _Committer(self._lead)
        except RuntimeError:  # no thread can be started: this one leads
            self._lead()
            return
        self._committer.wake()


class _Committer:
    """The thread that leads when only calls without a waiting thread are in the queue."""

    def __init__(self, lead: Callable[[], None]) -> None:
        self._lead = lead
        self._wanted: SimpleQueue[bool] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="lamina-committer", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        self._wanted.put(True)

    def is_current_thread(self) -> bool:
        return threading.current_thread() is self._thread

    def close(self) -> None:
        self._wanted.put(False)
        self._thread.join()

    def _run(self) -> None:
        while self._wanted.get():
            try:
                self._lead()
            except Exception:
                # Every entry of the group has heard of it; this thread must live on for the others.
                logger.exception("commit interrupted")


def _weight(entries: Sequence[Entry]) -> int:
    """What entries take of the memory that waiting calls may have."""
    weight = 0
    for entry in entries:
        pending = entry.pending
        weight += pending.bytes + MESSAGE_BYTES * len(pending.packed)
    return weight


def _fail(group: list[Entry], error: BaseException) -> None:
    for entry in group:
        if entry.error is None:
            entry.error = Unavailable(
                f"the commit was interrupted ({error!r}); whether the messages are stored is unknown"
            )


def _notify(group: list[Entry]) -> None:
    by_sink: dict[int, tuple[Sink, list[Entry]]] = {}
    for entry in group:
        if entry.sink is not None:
            by_sink.setdefault(id(entry.sink), (entry.sink, []))[1].append(entry)
        elif entry.gate is not None:
            entry.gate.release()
    for sink, entries in by_sink.values():
        sink.settle(entries)
