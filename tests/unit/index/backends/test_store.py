"""The index store over memory: what it makes of a request, and what it explains."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from lamina.cel import Group
from lamina.errors import InvalidRequest
from lamina.index.backends import Entry, IndexStore, KvBackend, Position
from lamina.index.backends.cursors import format_cursor, parse_cursor, query_mark
from lamina.index.backends.matching import Probe, best_composite, best_label, describe
from lamina.index.backends.plans import make_plan, time_span
from lamina.index.backends.seam import Composite


@pytest.fixture
def store() -> IndexStore:
    store = IndexStore(KvBackend())
    store.index_many(
        Entry(f"{n:04x}", {"app": "dm" if n % 2 else "journal", "n": str(n)}, 1_700_000_000 + n) for n in range(10)
    )
    return store


# C0-11
def test_labels_and_bounds_are_pushed(store: IndexStore) -> None:
    explain = store.query('labels["app"] == "dm" && timestamp > 1700000000').explain
    (group,) = explain.groups
    assert dict(group.labels) == {"app": frozenset({"dm"})}
    assert (group.start, group.end) == (1_700_000_001, None)
    assert group.residual == ()
    assert explain.is_fully_pushed
    assert explain.scanned == 5
    assert explain.steps == ("label 'app' -> labels['app'], time [1700000001, None)",)


# C0-11
def test_what_no_index_answers_stays_residual(store: IndexStore) -> None:
    page = store.query('labels["app"] == "dm" && timestamp > 1700000000 && ref != "0003"')
    (group,) = page.explain.groups
    assert dict(group.labels) == {"app": frozenset({"dm"})}
    assert len(group.residual) == 1
    assert not page.explain.is_fully_pushed
    assert [one.ref for one in page.entries] == ["0001", "0005", "0007", "0009"]
    assert page.explain.scanned == 5


# C0-11
def test_an_inequality_is_all_residual(store: IndexStore) -> None:
    page = store.query('labels["app"] != "dm"')
    assert all(not group.labels for group in page.explain.groups)
    assert len(page.entries) == 5


def test_a_filter_that_cannot_match_asks_nobody(store: IndexStore) -> None:
    page = store.query("timestamp < 0 && timestamp > 5")
    assert (page.entries, page.cursor, page.has_more) == ((), None, False)
    assert page.explain.steps == ("nothing can match",)
    assert page.explain.is_fully_pushed


def test_time_is_the_timestamp_as_a_cel_timestamp(store: IndexStore) -> None:
    store.index(Entry("late", {}, 1_700_000_000_000_000))
    assert [one.ref for one in store.query('time >= timestamp("2023-11-14T00:00:00Z")').entries] == ["late"]
    assert [one.ref for one in store.query("time.getFullYear() == 2023").entries] == ["late"]


def test_bounds_may_be_datetimes_with_a_zone(store: IndexStore) -> None:
    store.index(Entry("late", {}, 1_700_000_000_000_000))
    start = datetime(2023, 11, 14, tzinfo=UTC)
    assert [one.ref for one in store.query(start=start).entries] == ["late"]
    assert store.count(end=start) == 10
    for wrong in (start.replace(tzinfo=None), "2023", 1.5, True):
        with pytest.raises(InvalidRequest, match="start"):
            store.query(start=wrong)  # type: ignore[arg-type]


def test_variables_that_entries_lack_are_named(store: IndexStore) -> None:
    with pytest.raises(InvalidRequest, match="'topic'"):
        store.query('topic == "a" || labels["app"] == "dm"')
    with pytest.raises(InvalidRequest, match="'offset'"):
        store.count("offset > 5")


def test_a_cursor_round_trips_and_belongs_to_its_query() -> None:
    mark = query_mark("true", {"a": "1"}, None, (1, None), descending=False)
    position = Position(1_700_000_000_000_000, "a.b/ä\nc")
    assert parse_cursor(format_cursor(position, mark), mark) == position
    assert mark == query_mark("true", {"a": "1"}, [], (1, None), descending=False)
    others = [
        query_mark("false", {"a": "1"}, None, (1, None), descending=False),
        query_mark("true", {"a": "2"}, None, (1, None), descending=False),
        query_mark("true", {"a": "1"}, [{"b": "1"}], (1, None), descending=False),
        query_mark("true", {"a": "1"}, None, (None, 1), descending=False),
        query_mark("true", {"a": "1"}, None, (1, None), descending=True),
    ]
    for other in others:
        with pytest.raises(InvalidRequest, match="belongs to"):
            parse_cursor(format_cursor(position, other), mark)
    for nonsense in ("", "x", "00.a00000000.ref", format_cursor(position, mark)[1:]):
        with pytest.raises(InvalidRequest, match="not a cursor"):
            parse_cursor(nonsense, mark)


def test_the_composite_with_the_most_keys_is_chosen() -> None:
    group = Group(labels={key: frozenset("1") for key in "abc"})
    one, two = Composite("one", ("a",)), Composite("two", ("a", "b"))
    assert best_composite(group, [one, two, Composite("four", ("a", "b", "c", "d"))]) == two
    assert best_composite(group, [one, Composite("two", ("a", "b"), "building")]) == one
    assert best_composite(Group(present=frozenset("a")), [one]) is None
    many = Group(labels={"a": frozenset(str(n) for n in range(100))})
    assert best_composite(many, [one]) is None


def test_the_label_with_the_fewest_entries_is_chosen() -> None:
    near, far = Position(5, "a"), Position(9, "a")
    assert best_label([Probe("a", 64, near), Probe("b", 64, far)], descending=False) == "b"
    assert best_label([Probe("a", 64, near), Probe("b", 64, far)], descending=True) == "a"
    assert best_label([Probe("a", 64, far), Probe("b", 63, None), Probe("c", 2, None)], descending=False) == "c"


def test_the_span_of_groups_holds_all_of_them() -> None:
    assert time_span([Group(start=3, end=5), Group(start=1, end=4)]) == (1, 5)
    assert time_span([Group(start=3), Group(end=4)]) == (None, None)
    assert make_plan(None, None, None, 5, 5) == ()
    assert describe(Group(absent=frozenset("x")), "time") == "time -> 'x' not in labels"
