"""The Redis backend: what is its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lamina.cel import Group
from lamina.clock import new_uid
from lamina.errors import Closed, InvalidRequest, Unavailable
from lamina.index.backends import Entry, IndexStore, Query, RedisBackend, RedisWindows
from lamina.index.backends.redis import connection
from tests.conformance.index_backends_redis import RedisServer, redis_server
from tests.conformance.index_backends_subject import BASE


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with redis_server() as server:
        yield server


@pytest.fixture
def prefix() -> str:
    return f"test:{new_uid().hex()}:"


@pytest.fixture
def store(server: RedisServer, prefix: str) -> Iterator[IndexStore]:
    with IndexStore(RedisBackend(server.url, prefix=prefix)) as store:
        yield store


def entry(number: int, at: int = 0, **labels: str) -> Entry:
    return Entry(f"{number:04x}", labels, BASE + at)


# D0-14
def test_a_query_leaves_no_temporary_keys(store: IndexStore, server: RedisServer, prefix: str) -> None:
    store.index_many(entry(n, n, a=str(n % 2), b=str(n % 3)) for n in range(200))
    before = server.keys(prefix + "*")
    for _ in range(3):
        store.query(any_of=[{"a": "0", "b": "1"}, {"b": "2"}], limit=5)
        store.query('labels["a"] == "1" && labels["b"] in ["1", "2"]', limit=5)
        store.count(labels={"a": "1", "b": "2"})
        store.count(any_of=[{"a": "1"}, {"b": "2"}])
        store.query('labels["a"] == "1" && labels["b"] == "1" && labels["b"] + "" == ""', limit=5)
        with pytest.raises(InvalidRequest):
            store.query('labels["a"] == "1" && labels["b"] == "1" && topic == "x"')
    assert server.keys(prefix + "*") == before


def pair_query() -> Query:
    return Query(groups=(Group(labels={"a": frozenset("1"), "b": frozenset("1")}),), wanted=10)


# D0-14: made for one query only, with an end of their own if nobody is left to remove them.
def test_temporary_keys_are_unique_and_die_by_themselves(server: RedisServer, prefix: str) -> None:
    backend = RedisBackend(server.url, prefix=prefix)
    backend.put_batch([entry(n, n, a="1", b="1") for n in range(200)])
    answers = [backend.query(pair_query()) for _ in range(2)]
    for answer in answers:
        next(answer.entries)
    keys = server.keys(prefix + "temporary:*")
    assert len(set(keys)) == 2
    assert all(0 < server.client.ttl(key) <= 300 for key in keys)
    del answers, answer
    assert server.keys(prefix + "temporary:*") == []
    backend.close()


def test_a_temporary_key_that_is_lost_is_made_again(server: RedisServer, prefix: str) -> None:
    backend = RedisBackend(server.url, prefix=prefix)
    backend.put_batch([entry(n, n, a="1", b="1") for n in range(500)])
    found = backend.query(pair_query()).entries
    refs = [next(found).ref for _ in range(30)]
    (key,) = server.keys(prefix + "temporary:*")
    server.client.delete(key)
    refs += [one.ref for one in found]
    assert refs == [f"{n:04x}" for n in range(500)]
    backend.close()


def test_a_composite_dropped_while_it_is_read_loses_nothing(server: RedisServer, prefix: str) -> None:
    backend, other = RedisBackend(server.url, prefix=prefix), RedisBackend(server.url, prefix=prefix)
    backend.put_batch([entry(n, n, a="1", b="1") for n in range(500)])
    IndexStore(other).register_composite("pair", ["a", "b"])
    answer = backend.query(pair_query())
    refs = [next(answer.entries).ref for _ in range(30)]
    assert "composite" in answer.steps[0]
    other.drop_composite("pair")
    other.define_composite("pair", ["b", "a"])
    refs += [one.ref for one in answer.entries]
    assert refs == [f"{n:04x}" for n in range(500)]
    assert backend.count(pair_query()) == 500
    backend.close()
    other.close()


# D0-14: a union takes the score of one, not the sum of all.
def test_an_entry_in_several_groups_keeps_its_place(store: IndexStore) -> None:
    store.index_many([entry(1, 5, a="1", b="1"), entry(2, 6, a="1"), entry(3, 4, b="1")])
    found = store.query(any_of=[{"a": "1"}, {"b": "1"}]).entries
    assert [one.ref for one in found] == ["0003", "0001", "0002"]
    assert store.query(any_of=[{"a": "1"}, {"b": "1"}], end=BASE + 6).entries == found[:2]


# D0-14: beyond 2^53 a double would put neighbours at the same time.
def test_a_time_that_redis_cannot_order_is_refused(store: IndexStore) -> None:
    exact = 2**53 - 1
    store.index_many([Entry("aaaa", {}, exact), Entry("bbbb", {}, exact - 1)])
    assert [one.ref for one in store.query().entries] == ["bbbb", "aaaa"]
    with pytest.raises(InvalidRequest, match="2255"):
        store.index(Entry("cccc", {}, exact + 1))
    with pytest.raises(InvalidRequest, match="2255"):
        store.index(Entry("cccc", {}, 5, exact + 1))


def test_deleted_entries_leave_no_keys(store: IndexStore, server: RedisServer, prefix: str) -> None:
    store.register_composite("pair", ["a", "b"])
    store.index_many(entry(n, n, a=str(n % 5), b=str(n)) for n in range(50))
    store.index_many(entry(n, n, a="x") for n in range(50))
    store.delete(*(f"{n:04x}" for n in range(50)))
    assert server.keys(prefix + "*") == [prefix + "composites", prefix + "number"]
    store.drop_composite("pair")
    assert server.keys(prefix + "*") == [prefix + "number"]


def test_dropping_a_composite_removes_its_sets(store: IndexStore, server: RedisServer, prefix: str) -> None:
    store.index_many(entry(n, n, a="1", b=str(n)) for n in range(5))
    before = server.keys(prefix + "*")
    store.register_composite("pair", ["a", "b"])
    assert len(server.keys(prefix + "composite:*")) == 5
    store.drop_composite("pair")
    assert [key for key in server.keys(prefix + "*") if key != prefix + "number"] == before


def test_dropping_a_window_touches_only_its_own_keys(server: RedisServer, prefix: str) -> None:
    windows = RedisWindows(server.url, prefix=prefix)
    first, second = windows.open("1"), windows.open("11")
    for window in (first, second):
        window.put_batch([entry(n, n, a=str(n)) for n in range(20)])
    before = server.keys(prefix + "11:*")
    windows.drop("1")
    windows.drop("1")
    assert server.keys(prefix + "*") == before
    windows.close()


def test_two_processes_share_one_index(server: RedisServer, prefix: str) -> None:
    with (
        IndexStore(RedisBackend(server.url, prefix=prefix)) as one,
        IndexStore(RedisBackend(server.url, prefix=prefix)) as other,
    ):
        one.index(entry(1, 1, a="1", b="1"))
        other.query(labels={"a": "1", "b": "1"})
        one.register_composite("pair", ["a", "b"])
        other.index(entry(2, 2, a="1", b="1"))
        for store in (one, other, other):
            page = store.query(labels={"a": "1", "b": "1"})
            assert [found.ref for found in page.entries] == ["0001", "0002"]
        assert "composite" in page.explain.steps[0]
        other.drop_composite("pair")
        assert len(one.query(labels={"a": "1", "b": "1"}).entries) == 2


def test_many_entries_of_one_time_are_paged_in_order(store: IndexStore) -> None:
    names = [f"{n:05x}" for n in range(3000)]
    store.index_many(Entry(name, {"a": "1"}, BASE) for name in names)
    cursor, refs = None, []
    while True:
        page = store.query(labels={"a": "1"}, limit=700, cursor=cursor)
        refs += [one.ref for one in page.entries]
        cursor = page.cursor
        store.delete(refs[-1])  # the cursor's own entry is gone
        if not page.has_more:
            break
    assert refs == names


def test_a_server_that_is_away_is_unavailable() -> None:
    with pytest.raises(Unavailable, match=r"127\.0\.0\.1:1"):
        RedisBackend("redis://somebody:secret@127.0.0.1:1/0")
    with pytest.raises(InvalidRequest):
        RedisBackend("nonsense")


def test_a_password_is_not_shown() -> None:
    with pytest.raises(Unavailable) as raised:
        RedisBackend("redis://somebody:secret@127.0.0.1:1/0")
    assert "secret" not in str(raised.value)


def test_a_server_that_goes_away_and_an_index_that_is_closed(prefix: str) -> None:
    with redis_server() as server:
        backend = RedisBackend(server.url, prefix=prefix)
        backend.put_batch([entry(1)])
    with pytest.raises(Unavailable):
        backend.put_batch([entry(2)])
    backend.close()
    with pytest.raises(Closed):
        backend.get("0001")


def test_without_the_extra_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "redis", None)
    with pytest.raises(Unavailable, match=r"pip install 'lamina\[redis\]'"):
        RedisBackend("redis://127.0.0.1:1/0")
