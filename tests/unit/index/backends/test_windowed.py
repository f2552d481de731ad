"""Time windows: which are opened, which stay open, what is known of those that are closed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lamina.cel import Group
from lamina.errors import Conflict, InvalidRequest, NotFound
from lamina.index.backends import (
    Entry,
    IndexBackend,
    IndexStore,
    MemoryWindows,
    Position,
    Query,
    SqliteBackend,
    WindowedBackend,
)
from lamina.kv import MemoryKv
from lamina.testing import FakeClock
from tests.conformance.index_backends_subject import BASE, MINUTE, Openers

FIRST = BASE // MINUTE


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(BASE + 10 * MINUTE)


@pytest.fixture(params=["memory", "rocksdb", "sqlite"])
def opener(request: pytest.FixtureRequest, tmp_path: Path, clock: FakeClock) -> Callable[[], WindowedBackend]:
    return Openers().windowed(request.param, tmp_path, clock, max_open=2)


@pytest.fixture
def backend(opener: Callable[[], WindowedBackend]) -> Iterator[WindowedBackend]:
    backend = opener()
    backend.put_batch([entry(minute * 10 + n, minute * 60 + n) for minute in range(5) for n in range(3)])
    yield backend
    backend.close()


def entry(number: int, at: int, expires_at: int | None = None, **labels: str) -> Entry:
    return Entry(f"{number:04d}", labels or {"k": str(number % 10)}, BASE + at * 1_000_000, expires_at)


def span(start: int | None, end: int | None) -> Query:
    """Minutes after BASE."""
    bounds = (None if bound is None else BASE + bound * MINUTE for bound in (start, end))
    return Query(groups=(Group(start=next(bounds), end=next(bounds)),))


def read(backend: IndexBackend, query: Query) -> tuple[list[str], list[str]]:
    """The refs, and the windows that were opened for them."""
    answer = backend.query(query)
    refs = [one.ref for one in answer.entries]
    return refs, [step for step in answer.steps if step.startswith("window")]


# C0-13
def test_a_bounded_query_opens_only_the_windows_it_overlaps(backend: WindowedBackend) -> None:
    refs, windows = read(backend, span(1, 3))
    assert refs == ["0010", "0011", "0012", "0020", "0021", "0022"]
    assert windows == [f"window {FIRST + 1}", f"window {FIRST + 2}"]
    assert read(backend, span(4, None))[1] == [f"window {FIRST + 4}"]
    assert read(backend, span(None, 1))[1] == [f"window {FIRST}"]
    # D0-25
    assert read(backend, span(7, 9)) == ([], [])


# C0-13: newest first, and no further than needed.
def test_windows_are_opened_in_the_direction_of_the_query_and_as_needed(backend: WindowedBackend) -> None:
    store = IndexStore(backend)
    page = store.query(limit=2, descending=True)
    assert [one.ref for one in page.entries] == ["0042", "0041"]
    assert [step for step in page.explain.steps if "window" in step] == [f"window {FIRST + 4}"]
    following = store.query(limit=2, descending=True, cursor=page.cursor)
    assert [one.ref for one in following.entries] == ["0040", "0032"]
    opened = [step for step in following.explain.steps if "window" in step]
    assert opened == [f"window {FIRST + 4}", f"window {FIRST + 3}"]


# C0-13
def test_at_most_max_open_windows_stay_open(backend: WindowedBackend) -> None:
    assert len(backend.open_windows()) == 2
    assert len(read(backend, span(None, None))[0]) == 15
    assert len(backend.open_windows()) == 2
    assert len(backend.windows()) == 5


# D0-23
def test_a_window_that_was_closed_still_answers(backend: WindowedBackend) -> None:
    for minute in range(5):
        assert backend.get(f"00{minute}1") == entry(minute * 10 + 1, minute * 60 + 1)
    assert backend.count(span(None, None)) == 15
    assert backend.delete(["0001", "0041"]) == 2
    assert backend.count(span(None, None)) == 13


# D0-23
def test_every_window_is_known_after_a_restart(opener: Callable[[], WindowedBackend]) -> None:
    first = opener()
    first.put_batch([entry(minute, minute * 60) for minute in range(5)])
    first.close()
    again = opener()
    assert [window.number for window in again.windows()] == list(range(FIRST, FIRST + 5))
    assert again.open_windows() == ()
    assert read(again, span(None, None))[0] == [f"{n:04d}" for n in range(5)]
    assert again.refs("000", 10) == [f"{n:04d}" for n in range(5)]
    assert again.stats().entries == 5
    again.close()


# D0-24
def test_a_window_in_use_is_not_closed(backend: WindowedBackend) -> None:
    answer = backend.query(span(0, 1))
    first = next(answer.entries)
    for minute in range(1, 5):
        backend.get(f"00{minute}0")
    assert FIRST in {window.number for window in backend.open_windows()}
    assert [first.ref] + [one.ref for one in answer.entries] == ["0000", "0001", "0002"]
    assert len(backend.open_windows()) == 2


# D0-24
def test_the_least_recently_used_window_is_closed_first(backend: WindowedBackend) -> None:
    for minute in (0, 1, 0, 2):
        read(backend, span(minute, minute + 1))
    assert {window.number for window in backend.open_windows()} == {FIRST, FIRST + 2}


# D0-28
def test_a_ref_put_at_another_time_moves_to_its_window(backend: WindowedBackend) -> None:
    backend.put_batch([entry(1, 4 * 60 + 30), entry(2, 30), entry(99, 7)])
    assert read(backend, span(None, 1))[0] == ["0000", "0099", "0002"]
    assert read(backend, span(4, None))[0] == ["0040", "0041", "0042", "0001"]
    assert backend.count(span(None, None)) == 16
    assert backend.get("0001") == entry(1, 4 * 60 + 30)


# D0-29
def test_composites_reach_all_windows_now_and_later(
    opener: Callable[[], WindowedBackend], backend: WindowedBackend
) -> None:
    store = IndexStore(backend)
    store.register_composite("pair", ["a", "b"])
    store.index_many(entry(100 + n, n * 60, a="1", b="2") for n in range(8))
    group = Group(labels={"a": frozenset("1"), "b": frozenset("2")})
    answer = backend.query(Query(groups=(group,)))
    assert [one.ref for one in answer.entries] == [f"{100 + n:04d}" for n in range(8)]
    ways = [step for step in answer.steps if "window" not in step]
    assert len(ways) == 8
    assert all(way.startswith("composite 'pair'") for way in ways)
    backend.close()
    again = opener()
    again.drop_composite("pair")
    answer = again.query(Query(groups=(group,)))
    assert len(list(answer.entries)) == 8
    assert not any("composite" in step for step in answer.steps)
    again.close()


# D0-29
def test_a_far_future_timestamp_is_refused(backend: WindowedBackend) -> None:
    with pytest.raises(InvalidRequest, match="future"):
        backend.put_batch([entry(5, 5), entry(1, 3 * 86_400)])
    assert len(backend.windows()) == 5
    assert backend.get("0005") is None


# D0-22
def test_windows_are_counted_in_utc_wherever_the_machine_is(
    opener: Callable[[], WindowedBackend], monkeypatch: pytest.MonkeyPatch
) -> None:
    names = []
    for zone in ("UTC", "Pacific/Auckland", "America/New_York"):
        monkeypatch.setenv("TZ", zone)
        time.tzset()
        backend = opener()
        backend.put_batch([entry(1, 5)])
        names.append([(window.number, window.start, window.end) for window in backend.windows()])
        assert backend.count(span(None, None)) == 1
        backend.close()
    monkeypatch.undo()
    time.tzset()
    assert names == [[(FIRST, BASE, BASE + MINUTE)]] * 3


# D0-22
def test_windows_may_be_shorter_than_a_second(clock: FakeClock) -> None:
    backend = WindowedBackend(MemoryWindows(), MemoryKv(), window_seconds=0.001, clock=clock)
    backend.put_batch([Entry(f"{n:04d}", {}, BASE + n * 400) for n in range(10)])
    assert len(backend.windows()) == 4
    assert read(backend, span(None, None))[0] == [f"{n:04d}" for n in range(10)]


def test_windows_keep_the_width_they_were_made_with(tmp_path: Path, clock: FakeClock) -> None:
    openers = Openers()
    openers.windowed("sqlite", tmp_path, clock)().close()
    with pytest.raises(Conflict, match="window_seconds=60"):
        openers.windowed("sqlite", tmp_path, clock, window_seconds=30)()
    openers.windowed("sqlite", tmp_path, clock)().close()


def test_a_second_opener_is_a_conflict(tmp_path: Path, clock: FakeClock) -> None:
    opener = Openers().windowed("sqlite", tmp_path, clock)
    backend = opener()
    with pytest.raises(Conflict):
        opener()
    backend.close()


def test_a_dropped_window_is_gone_and_its_time_can_be_written_again(
    opener: Callable[[], WindowedBackend], backend: WindowedBackend
) -> None:
    backend.drop_window(FIRST + 1)
    assert [window.number - FIRST for window in backend.windows()] == [0, 2, 3, 4]
    assert backend.get("0010") is None
    assert backend.refs("001", 10) == []
    assert backend.delete(["0010"]) == 0
    with pytest.raises(NotFound):
        backend.drop_window(FIRST + 1)
    backend.put_batch([entry(10, 4 * 60 + 10), entry(77, 70)])
    assert read(backend, span(1, 2))[0] == ["0077"]
    backend.delete_expired(0, 10)  # sweeps what still points to the dropped window
    backend.close()
    again = opener()
    assert again.count(span(None, None)) == 14
    again.close()


def test_a_window_is_not_dropped_while_it_is_read(backend: WindowedBackend) -> None:
    answer = backend.query(span(None, None))
    next(answer.entries)
    with pytest.raises(Conflict, match="being read"):
        backend.drop_window(FIRST)
    backend.drop_window(FIRST + 2)
    assert len(list(answer.entries)) == 11
    backend.drop_window(FIRST)


def test_an_archived_window_is_a_whole_index_elsewhere(tmp_path: Path, clock: FakeClock) -> None:
    backend = Openers().windowed("sqlite", tmp_path, clock)()
    backend.put_batch([entry(minute, minute * 60) for minute in range(3)])
    place = backend.archive_window(FIRST + 1)
    assert place.parent == tmp_path / "archive"
    assert read(backend, span(None, None))[0] == ["0000", "0002"]
    archived = SqliteBackend(place / "index.sqlite")
    assert archived.get("0001") == entry(1, 60)
    archived.close()
    backend.close()


def test_a_window_in_memory_cannot_be_archived(clock: FakeClock) -> None:
    backend = WindowedBackend(MemoryWindows(), MemoryKv(), window_seconds=60, clock=clock)
    backend.put_batch([entry(1, 1)])
    with pytest.raises(InvalidRequest, match="archived"):
        backend.archive_window(FIRST)
    assert backend.get("0001") is not None


def test_cleaning_opens_only_windows_in_which_something_expires(backend: WindowedBackend, clock: FakeClock) -> None:
    now = clock.now_us()
    backend.put_batch([entry(500, 130, now + 5)])
    read(backend, span(0, 1))
    read(backend, span(1, 2))
    assert backend.delete_expired(now, 10) == []
    assert {window.number for window in backend.open_windows()} == {FIRST, FIRST + 1}
    assert backend.delete_expired(now + 5, 10) == ["0500"]
    assert backend.delete_expired(now + 5, 10) == []
    assert backend.windows()[2].first_expiry is None


@pytest.mark.parametrize("descending", [False, True])
def test_a_cursor_skips_the_windows_behind_it(backend: WindowedBackend, descending: bool) -> None:
    after = Position(BASE + 2 * MINUTE + 1_000_000, "0021")
    refs, windows = read(backend, Query(groups=(Group(),), after=after, descending=descending))
    numbers = [2, 1, 0] if descending else [2, 3, 4]
    assert windows == [f"window {FIRST + n}" for n in numbers]
    assert refs[0] == ("0020" if descending else "0022")
    assert len(refs) == 7
