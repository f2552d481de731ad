"""Group commit: every call is settled exactly once, whoever leads and however the groups fall."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence

import pytest

from lamina.clock import SystemClock
from lamina.errors import Closed, LaminaError, Unavailable
from lamina.log import MESSAGE_BYTES, Entry
from lamina.log.commit import CommitQueue
from lamina.log.waiting import FOREVER
from tests.unit.log.segments import pending, row

PATIENCE_SECONDS = 20.0


class Log:
    """A log in memory that commits groups as told."""

    def __init__(self) -> None:
        self.groups: list[list[Entry]] = []
        self.end = 0
        self.failures: list[LaminaError] = []
        self.before_commit: Callable[[], None] = lambda: None

    def commit(self, group: list[Entry]) -> None:
        self.before_commit()
        self.groups.append(group)
        error = self.failures.pop() if self.failures else None
        for entry in group:
            entry.error = error
            if error is None:
                entry.first = self.end
                self.end += entry.pending.count


class Counting:
    """A sink that counts how often each entry was settled, and opens when it has seen enough."""

    def __init__(self, expected: int) -> None:
        self.settled: Counter[Entry] = Counter()
        self.calls = 0
        self.done = threading.Event()
        self._expected = expected

    def settle(self, entries: Sequence[Entry]) -> None:
        self.calls += 1
        self.settled.update(entries)
        if self.settled.total() >= self._expected:
            self.done.set()


def in_threads(count: int, work: Callable[[int], None]) -> None:
    """Run the work in threads at once; fail if any does not come back or raises."""
    raised: list[BaseException] = []

    def guarded(number: int) -> None:
        try:
            work(number)
        except BaseException as error:  # noqa: BLE001
            raised.append(error)

    threads = [threading.Thread(target=guarded, args=(number,), daemon=True) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_SECONDS)
    assert not any(thread.is_alive() for thread in threads), "a caller was never settled"
    if raised:
        raise raised[0]


def queue_of(log: Log, bytes_max: int = 1 << 20, pending_bytes_max: int = 1 << 30) -> CommitQueue:
    return CommitQueue(log.commit, SystemClock(), bytes_max, pending_bytes_max)


def test_a_single_call_is_led_by_its_own_thread() -> None:
    log = Log()
    committed_by: list[threading.Thread] = []
    log.before_commit = lambda: committed_by.append(threading.current_thread())
    entry = Entry(pending(row(), row()))
    queue_of(log).append(entry)
    assert (entry.first, entry.settled, log.end) == (0, True, 2)
    assert committed_by == [threading.current_thread()]


def test_many_threads_get_offsets_without_gaps_or_overlaps() -> None:
    log = Log()
    queue = queue_of(log)
    taken: list[list[tuple[int, int]]] = [[] for _ in range(8)]

    def publish(number: int) -> None:
        for size in range(100):
            entry = Entry(pending(*[row()] * (size % 3 + 1)))
            queue.append(entry)
            taken[number].append((entry.first, entry.pending.count))

    in_threads(8, publish)
    queue.close()
    assert all(mine == sorted(mine) for mine in taken), "a caller's own calls keep their order"
    spans = sorted(span for mine in taken for span in mine)
    end = 0
    for first, count in spans:
        assert first == end
        end += count
    assert end == log.end
    assert Counter(id(entry) for group in log.groups for entry in group).most_common(1)[0][1] == 1


def test_calls_that_come_during_a_commit_share_the_next_one() -> None:
    log = Log()
    queue = queue_of(log)
    committing, go_on = threading.Event(), threading.Event()
    sink = Counting(10)

    def hold_the_first() -> None:
        if not log.groups:
            committing.set()
            assert go_on.wait(PATIENCE_SECONDS)

    log.before_commit = hold_the_first

    def work(number: int) -> None:
        if number == 0:
            queue.append(Entry(pending(row())))
            return
        assert committing.wait(PATIENCE_SECONDS)
        for _ in range(10):
            queue.submit(Entry(pending(row()), sink))
        go_on.set()

    in_threads(2, work)
    assert sink.done.wait(PATIENCE_SECONDS)
    queue.close()
    assert [len(group) for group in log.groups] == [1, 10]
    assert sink.calls == 1, "a sink hears of a group once"


def test_waiting_and_submitted_calls_mix_and_each_is_settled_once() -> None:
    log = Log()
    queue = queue_of(log, bytes_max=500)
    sink = Counting(4 * 100)

    def work(number: int) -> None:
        for _ in range(100):
            entry = Entry(pending(row()), sink if number % 2 else None)
            if number % 2:
                queue.submit(entry)
            else:
                queue.append(entry)
                assert entry.settled

    in_threads(8, work)
    assert sink.done.wait(PATIENCE_SECONDS)
    queue.close()
    assert log.end == 8 * 100
    assert set(sink.settled.values()) == {1}
    assert sink.settled.total() == 400


@pytest.mark.parametrize("bytes_max", [1, 150])
def test_a_group_limit_leaves_the_rest_for_the_next_round(bytes_max: int) -> None:
    log = Log()
    queue = queue_of(log, bytes_max)

    def work(_: int) -> None:
        for _ in range(50):
            queue.append(Entry(pending(row(size=50))))

    in_threads(8, work)
    queue.close()
    assert log.end == 400
    for group in log.groups:
        assert len(group) == 1 or sum(entry.pending.bytes for entry in group) <= bytes_max


def test_a_group_limit_leaves_submitted_calls_for_the_next_round_too() -> None:
    log = Log()
    queue = queue_of(log, 1)
    sink = Counting(200)

    def work(_: int) -> None:
        for _ in range(50):
            queue.submit(Entry(pending(row()), sink))

    in_threads(4, work)
    assert sink.done.wait(PATIENCE_SECONDS)
    queue.close()
    assert all(len(group) == 1 for group in log.groups)


def test_an_error_reaches_every_call_of_its_group_and_no_other() -> None:
    log = Log()
    queue = queue_of(log)
    failure = Unavailable("disk full")
    committing, go_on = threading.Event(), threading.Event()
    sink = Counting(5)

    def hold_the_first() -> None:
        if not log.groups:
            committing.set()
            assert go_on.wait(PATIENCE_SECONDS)
            log.failures = []
        elif len(log.groups) == 1:
            log.failures = [failure]

    log.before_commit = hold_the_first
    first = Entry(pending(row()))

    def work(number: int) -> None:
        if number == 0:
            queue.append(first)
            return
        assert committing.wait(PATIENCE_SECONDS)
        for _ in range(5):
            queue.submit(Entry(pending(row()), sink))
        go_on.set()

    in_threads(2, work)
    assert sink.done.wait(PATIENCE_SECONDS)
    assert first.error is None
    assert [entry.error for entry in sink.settled] == [failure] * 5
    after = Entry(pending(row()))
    queue.append(after)
    assert (after.error, after.first) == (None, 1)
    queue.close()


def test_a_waiting_call_raises_its_error() -> None:
    log = Log()
    log.failures = [Unavailable("disk full")]
    with pytest.raises(Unavailable, match="disk full"):
        queue_of(log).append(Entry(pending(row())))


@pytest.mark.parametrize("kind", [RuntimeError, KeyboardInterrupt])
def test_a_commit_that_is_interrupted_does_not_stop_the_queue_for_ever(kind: type[BaseException]) -> None:
    log = Log()
    queue = queue_of(log)
    interrupted: list[BaseException] = []

    def interrupt() -> None:
        if not interrupted:
            interrupted.append(kind("interrupted"))
            raise interrupted[0]

    log.before_commit = interrupt
    with pytest.raises(kind):
        queue.append(Entry(pending(row())))
    in_threads(1, lambda _: queue.append(Entry(pending(row()))))
    in_threads(1, lambda _: queue.close())


def test_submitted_calls_are_settled_after_a_commit_that_was_interrupted() -> None:
    log = Log()
    queue = queue_of(log)
    interrupted: list[RuntimeError] = []

    def interrupt() -> None:
        if not interrupted:
            interrupted.append(RuntimeError("interrupted"))
            raise interrupted[0]

    log.before_commit = interrupt
    first, second = Counting(1), Counting(1)
    queue.submit(Entry(pending(row()), first))
    assert first.done.wait(PATIENCE_SECONDS)
    queue.submit(Entry(pending(row()), second))
    assert second.done.wait(2)
    assert [entry.error for entry in second.settled] == [None]
    in_threads(1, lambda _: queue.close())


def test_a_closed_queue_refuses_calls() -> None:
    log = Log()
    queue = queue_of(log)
    queue.append(Entry(pending(row())))
    queue.close()
    queue.close()
    with pytest.raises(Closed):
        queue.append(Entry(pending(row())))
    with pytest.raises(Closed):
        queue.submit(Entry(pending(row()), Counting(1)))
    assert log.end == 1


def test_closing_waits_for_what_was_submitted() -> None:
    log = Log()
    queue = queue_of(log)
    sink = Counting(100)
    for _ in range(100):
        queue.submit(Entry(pending(row()), sink))
    queue.close()
    assert log.end == 100
    assert sink.done.is_set()


def test_closing_while_others_publish_loses_nothing_that_was_taken() -> None:
    log = Log()
    queue = queue_of(log)
    taken = Counter[int]()
    started = threading.Barrier(5)

    def work(number: int) -> None:
        started.wait(PATIENCE_SECONDS)
        if number == 4:
            queue.close()
            return
        try:
            for _ in range(200):
                queue.append(Entry(pending(row())))
                taken[number] += 1
        except Closed:
            pass

    in_threads(5, work)
    assert log.end == taken.total()


def test_waiting_bytes_are_counted_until_their_commit_has_ended() -> None:
    log = Log()
    bound = 10 * (MESSAGE_BYTES + 100)
    queue = queue_of(log, pending_bytes_max=bound)
    rooms: list[int] = []
    log.before_commit = lambda: rooms.append(queue.room_bytes())
    log.failures = [Unavailable("disk full")]
    with pytest.raises(Unavailable):
        queue.append(Entry(pending(row())), Entry(pending(row(), row())))
    assert rooms[0] <= bound - 3 * MESSAGE_BYTES
    assert (queue.room_bytes(), queue.has_room(bound), queue.has_room(100 * bound)) == (bound, True, True)
    queue.close()


def test_a_listener_is_called_once_when_something_is_settled() -> None:
    log = Log()
    queue = queue_of(log)
    heard: list[str] = []
    queue.call_when_settled(lambda: heard.append("at once"))
    assert heard == ["at once"]
    log.before_commit = lambda: queue.call_when_settled(lambda: heard.append("settled"))
    queue.append(Entry(pending(row())))
    log.before_commit = lambda: None
    queue.append(Entry(pending(row())))
    assert heard == ["at once", "settled"]
    queue.close()


def test_submitted_calls_never_exceed_the_bound_and_all_come_through() -> None:
    log = Log()
    bound = 8 * MESSAGE_BYTES
    queue = queue_of(log, pending_bytes_max=bound)
    rooms: list[int] = []
    log.before_commit = lambda: rooms.append(queue.room_bytes())
    sink = Counting(4 * 100)

    def work(_: int) -> None:
        for _ in range(100):
            queue.submit_within(FOREVER, Entry(pending(row()), sink))

    in_threads(4, work)
    assert sink.done.wait(PATIENCE_SECONDS)
    queue.close()
    assert min(rooms) >= 0
    assert log.end == 400


def test_a_closed_queue_has_no_room_to_wait_for() -> None:
    queue = queue_of(Log(), pending_bytes_max=1)
    queue.close()
    with pytest.raises(Closed):
        queue.submit_within(FOREVER, Entry(pending(row()), Counting(1)))
