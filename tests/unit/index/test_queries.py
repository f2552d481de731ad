"""Queries through the store: arguments, pages, order, what `explain` says."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

import lamina
from lamina.disk import MemoryDisk
from lamina.errors import Closed, Corrupt, FilterError, InvalidRequest, NotFound, Unavailable
from tests.unit.index.messages import NOW_US, index_of, offsets, open_store, publish

THREADS = [{"app": "dm", "thread": "ab"[at % 2]} for at in range(20)]


@pytest.fixture
def store() -> Iterator[lamina.Store]:
    with open_store(chunk_rows=64) as made:
        publish(made, THREADS)
        yield made


@pytest.mark.parametrize(
    "bad",
    [
        {"where": 7},
        {"limit": 0},
        {"limit": -1},
        {"limit": True},
        {"limit": "10"},
        {"labels": [("a", "b")]},
        {"labels": {"a": 1}},
        {"labels": {"": "x"}},
        {"labels": {"a": "nul\0"}},
        {"any_of": {"a": "b"}},
        {"any_of": "ab"},
        {"any_of": [{"a": 1}]},
        {"any_of": [{}]},
        {"any_of": [{"a": "b"}] * 1025},
        {"any_of": [["ab"]]},
        {"topic": 7},
        {"start": "yesterday"},
        {"start": datetime(2026, 1, 1)},  # noqa: DTZ001
        {"end": -1},
        {"cursor": "nonsense"},
        {"cursor": 7},
    ],
)
def test_a_question_that_makes_no_sense_is_refused(store: lamina.Store, bad: dict[str, object]) -> None:
    with pytest.raises(InvalidRequest):
        store.query(**bad)  # type: ignore[arg-type]


def test_a_filter_that_does_not_compile_says_where(store: lamina.Store) -> None:
    with pytest.raises(FilterError) as caught:
        store.query('labels["app"] ==\n lables["x"]')
    assert (caught.value.line, caught.value.column) == (2, 2)
    assert "did you mean 'labels'?" in str(caught.value)
    with pytest.raises(FilterError):
        store.count("1 + 1")


def test_an_unknown_stream_and_a_closed_store_say_so(store: lamina.Store) -> None:
    with pytest.raises(NotFound, match="no stream 'x'"):
        store.query(stream="x")
    store.close()
    with pytest.raises(Closed):
        store.query()


def test_everything_given_must_hold(store: lamina.Store) -> None:
    # D0-17, D0-30: what the caller gives is never replaced by what the filter says.
    where = 'labels["app"] == "dm"'
    assert offsets(store.query(where, labels={"thread": "a"}, start=NOW_US + 4, end=NOW_US + 9)) == [4, 6, 8]
    given = {"app": "dm"}
    assert offsets(store.query('labels["app"] == "other"', labels=given)) == []
    assert given == {"app": "dm"}
    both = f'(labels["thread"] == "a" || labels["thread"] == "b") && timestamp < {NOW_US + 3}'
    assert offsets(store.query(both, labels={"app": "dm"}, any_of=[{"thread": "b"}])) == [1]


def test_any_of_is_deduplicated_and_in_order(store: lamina.Store) -> None:
    # C0-15
    either = [{"thread": "a"}, {"thread": "b"}, {"app": "dm", "thread": "a"}]
    assert offsets(store.query(any_of=either)) == list(range(20))
    assert offsets(store.query(any_of=either, descending=True, limit=3)) == [19, 18, 17]
    assert offsets(store.query(any_of=[])) == list(range(20))
    assert offsets(store.query(any_of=[[("thread", "a"), ("thread", "b")], {"thread": "b"}], limit=2)) == [1, 3]


def test_one_key_with_two_values_matches_nothing(store: lamina.Store) -> None:
    # D0-31
    page = store.query('labels["thread"] == "a" && labels["thread"] == "b"')
    assert (len(page), page.explain()["groups"]) == (0, [])
    assert page.explain()["rows_scanned"] == 0


def test_times_are_exact_at_both_ends(store: lamina.Store) -> None:
    # D0-15, D0-16
    assert offsets(store.query(f"timestamp > {NOW_US + 17}")) == [18, 19]
    assert offsets(store.query(f"timestamp >= {NOW_US + 17}")) == [17, 18, 19]
    assert offsets(store.query(f"timestamp < {NOW_US + 2}")) == [0, 1]
    assert offsets(store.query(f"timestamp <= {NOW_US + 1} && timestamp > {NOW_US}")) == [1]
    assert offsets(store.query("timestamp < 0")) == []
    assert offsets(store.query(start=datetime.fromtimestamp(NOW_US / 1e6, UTC), end=NOW_US + 2)) == [0, 1]
    assert offsets(store.query(start=NOW_US + 5, end=NOW_US + 5)) == []
    assert offsets(store.query("timestamp > 9223372036854775807")) == []


def test_absent_is_not_empty(store: lamina.Store) -> None:
    # D0-21
    publish(store, [{"app": "dm"}, {"app": "dm", "thread": ""}])
    assert offsets(store.query('!("thread" in labels)')) == [20]
    assert offsets(store.query('labels["thread"] == ""')) == [21]
    assert offsets(store.query('labels["thread"] != "a" && labels["thread"] != "b"')) == [21]
    assert offsets(store.query('!("thread" in labels) || labels["thread"] != "a"', start=NOW_US + 20)) == [20, 21]


def test_a_pushed_filter_looks_at_nothing_that_it_does_not_return(store: lamina.Store) -> None:
    page = store.query(f'labels["thread"] == "a" && timestamp >= {NOW_US + 10}')
    report = page.explain()
    assert report["residual"] == []
    assert report["rows_scanned"] == report["rows_returned"] == 5


def test_a_residual_is_shown_and_evaluated_on_what_is_left(store: lamina.Store) -> None:
    # C0-11
    page = store.query('labels["thread"] == "a" && ref != "default/0/4"')
    assert offsets(page) == [0, 2, 6, 8, 10, 12, 14, 16, 18]
    report = page.explain()
    assert report["residual"] == ['ref != "default/0/4"']
    assert report["rows_scanned"] == 10


def test_segments_outside_the_times_are_pruned_unseen(store: lamina.Store) -> None:
    store.seal()
    publish(store, THREADS)
    page = store.query(start=NOW_US + 20)
    assert page.explain()["segments"] == {"total": 2, "pruned": {"time": 1}, "searched": 1}
    page = store.query("offset >= 25")
    assert page.explain()["segments"] == {"total": 2, "pruned": {"offset": 1}, "searched": 1}


def test_topics_choose_partitions() -> None:
    with open_store() as store:
        store.create_stream("s", partitions=4)
        for at in range(40):
            store.publish(f"topic/{at % 10}", b"v", stream="s", timestamp=NOW_US + at)
        page = store.query(stream="s", topic="topic/3")
        assert [m.timestamp for m in page] == [NOW_US + 3 + 10 * at for at in range(4)]
        assert page.explain()["segments"]["pruned"] == {"partition": 3}  # type: ignore[index]


def test_pages_follow_each_other_whatever_their_sizes(store: lamina.Store) -> None:
    seen, cursor = [], None
    for limit in (1, 7, 2, 100):
        page = store.query(limit=limit, cursor=cursor, descending=True)
        seen += offsets(page)
        cursor = page.cursor
    assert seen == list(range(19, -1, -1))
    assert not page.has_more
    again = store.query(cursor=cursor, descending=True)
    assert (len(again), again.cursor, again.has_more) == (0, cursor, False)


def test_a_full_last_page_has_no_more(store: lamina.Store) -> None:
    # D0-26, D0-32
    assert not store.query(limit=20).has_more
    assert store.query(limit=19).has_more
    assert store.query().cursor is not None
    assert store.query('labels["app"] == "none"').cursor is None


def test_a_page_goes_on_behind_a_message_that_is_gone(store: lamina.Store) -> None:
    # D0-27
    cursor = store.query(limit=5).cursor
    store.delete_before(offset=10)
    assert offsets(store.query(cursor=cursor)) == list(range(10, 20))


def test_many_messages_of_one_time_are_paged_without_loss() -> None:
    with open_store() as store:
        store.create_stream("s", partitions=3)
        for at in range(30):
            store.publish(f"t{at}", b"v", stream="s", timestamp=NOW_US)
        for descending in (False, True):
            seen, cursor = [], None
            while True:
                page = store.query(stream="s", limit=4, cursor=cursor, descending=descending)
                seen += [(m.partition, m.offset) for m in page]
                cursor = page.cursor
                if not page.has_more:
                    break
            assert seen == sorted(seen, reverse=descending)
            assert len(set(seen)) == 30


def test_a_segment_of_earlier_times_behind_one_of_later_times_is_not_lost() -> None:
    with open_store() as store:
        for first in (1000, 0):
            rows = [lamina.Message("t", b"v", timestamp=NOW_US + first + at) for at in range(10)]
            store.publish_many(rows)
            store.seal()
        wanted = [*range(10, 20), *range(10)]
        for descending in (False, True):
            seen, cursor = [], None
            for _ in range(7):
                page = store.query(limit=3, cursor=cursor, descending=descending)
                seen += offsets(page)
                cursor = page.cursor
            assert seen == (wanted[::-1] if descending else wanted)


def test_a_cursor_fits_its_query_only(store: lamina.Store) -> None:
    store.create_stream("other")
    cursor = store.query(limit=1).cursor
    assert cursor is not None
    with pytest.raises(InvalidRequest, match="ascending"):
        store.query(cursor=cursor, descending=True)
    for other in ({"stream": "other"}, {"where": 'labels["app"] == "dm"'}, {"start": 7}, {"topic": "t"}):
        with pytest.raises(InvalidRequest, match="of another query"):
            store.query(cursor=cursor, **other)
    with pytest.raises(InvalidRequest):
        store.query(cursor=cursor.replace(".", "f", 1))
    assert len(store.query(cursor=cursor, limit=100)) == 19


def test_expired_messages_are_hidden_unless_asked_for(store: lamina.Store) -> None:
    publish(store, [])
    store.publish("t", b"soon gone", ttl=1, labels={"app": "dm"})
    assert store.count('labels["app"] == "dm"') == 21
    store._clock.advance(1)  # type: ignore[attr-defined]
    assert store.count('labels["app"] == "dm"') == 20
    assert store.count('labels["app"] == "dm"', include_expired=True) == 21
    assert len(store.query('labels["app"] == "dm"')) == 20
    assert len(store.query(include_expired=True)) == 21


def test_a_warning_says_that_seconds_were_given(store: lamina.Store) -> None:
    # D0-20
    assert "microseconds" in store.query("timestamp > 1700000000").warnings[0]
    assert store.query(f"timestamp > {NOW_US}").warnings == ()


def test_a_page_as_arrow_has_the_same_messages(store: lamina.Store) -> None:
    publish(store, THREADS)
    for descending in (False, True):
        page = store.query('labels["thread"] == "b"', descending=descending, limit=15)
        table = page.to_arrow()
        assert table.column_names[:2] == ["partition", "offset"]
        assert table.column("offset").to_pylist() == offsets(page)
        assert table.column("value").to_pylist() == [m.value for m in page]
        assert table.column("labels").to_pylist()[0] == [("app", "dm"), ("thread", "b")]
    assert store.query("offset < 0").to_arrow().num_rows == 0


def test_messages_of_a_page_are_whole() -> None:
    with open_store() as store:
        sent = lamina.Message("t", None, b"k", {"a": "ä"}, NOW_US, NOW_US + 9, None, 7)
        store.publish_many([sent] + [lamina.Message("t", b"x", timestamp=NOW_US + 1)] * 99)
        store.publish("u", b"", priority=3, labels={"b": "c"}, timestamp=NOW_US + 2)
        found = list(store.query())
        assert found == list(store.read())
        assert (found[0].labels, found[1].labels, found[-1].labels) == ({"a": "ä"}, {}, {"b": "c"})
        assert (found[0].value, found[0].key, found[0].priority) == (None, b"k", 7)


def test_a_quarantined_segment_is_never_taken_for_an_empty_one() -> None:
    disk = MemoryDisk()
    with open_store(disk) as store:
        publish(store, THREADS)
        store.seal()
        publish(store, THREADS)
    file = disk.open(f"default/0/{0:020d}.log", "write")
    file.pwrite(b"\xff" * 32, 100)
    file.close()
    with open_store(disk) as store, pytest.raises(Corrupt):
        list(store.query('labels["thread"] == "a"'))


def test_a_stream_in_the_memory_of_another_process_is_out_of_reach() -> None:
    disk = MemoryDisk()
    with open_store(disk) as store:
        store.create_stream("m", durability="memory")
        store.publish("t", b"v", stream="m")
        assert store.count(stream="m") == 1
        with open_store(disk, read_only=True) as reader, pytest.raises(Unavailable):
            reader.query(stream="m")


def test_counting_a_pushed_filter_reads_no_message(store: lamina.Store) -> None:
    index_of(store).step()
    assert store.count('labels["thread"] == "a"') == 10
    assert store.count(f'labels["thread"] in ["a", "b"] && timestamp >= {NOW_US + 18}') == 2
    assert store.count() == 20
    assert store.count("size > 2") == 10


def test_a_query_without_a_limit_gives_all(store: lamina.Store) -> None:
    page = store.query(limit=None)
    assert (len(page), page.has_more) == (20, False)


def test_a_common_value_beside_a_rare_one_answers_the_same_every_time() -> None:
    labels = [{"app": "dm" if at % 3 else "web", "thread": str(at % 100), "user": str(at)} for at in range(3000)]
    wanted = [at for at in range(3000) if at % 3 and at % 100 == 7]
    where = 'labels["app"] == "dm" && labels["thread"] == "7"'
    with open_store(chunk_rows=4096) as store:
        publish(store, labels)
        for _ in range(4):
            for descending in (False, True):
                page = store.query(where, limit=11, descending=descending)
                assert offsets(page) == (wanted[::-1] if descending else wanted)[:11]
            assert store.count(where) == len(wanted)
            assert offsets(store.query('labels["app"] == "web" && labels["user"] == "33"')) == [33]
            assert offsets(store.query('labels["app"] == "dm" && labels["user"] == "33"')) == []
        postings = index_of(store).partitions[0]._segments[0].parts[0]
        assert set(postings._term_masks) == {("label:app", "dm"), ("label:app", "web")}
