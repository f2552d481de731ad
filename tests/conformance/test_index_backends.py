"""What every index promises, whatever it is made of, whole or cut into windows."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from lamina.errors import Conflict, InvalidRequest
from lamina.index.backends import Entry
from lamina.testing import FakeClock
from tests.conformance.index_backends_subject import BASE, KINDS, MINUTE, Openers, Subject, pages
from tests.conformance.index_native_subject import NativeSubject

SUBJECTS: dict[str, Callable[[Openers, str, Path], Subject]] = {
    name: lambda openers, name, place: openers.subject(name, place)
    for kind in KINDS
    for name in (kind, f"{kind}-windowed")
} | {"native": lambda openers, name, place: NativeSubject(FakeClock(BASE + 10 * MINUTE, jump=False))}


@pytest.fixture(scope="module")
def openers() -> Iterator[Openers]:
    openers = Openers()
    yield openers
    openers.close()


@pytest.fixture(params=SUBJECTS)
def subject(request: pytest.FixtureRequest, openers: Openers, tmp_path: Path) -> Iterator[Subject]:
    subject = SUBJECTS[request.param](openers, request.param, tmp_path)
    yield subject
    subject.close()


def entry(number: int, at: int = 0, expires_at: int | None = None, **labels: str) -> Entry:
    """`at` counts seconds after BASE, so 60 make a window."""
    return Entry(f"{number:08x}", labels, BASE + at * 1_000_000, expires_at)


def refs(numbers: Sequence[int]) -> list[str]:
    return [f"{number:08x}" for number in numbers]


def threads(count: int, seed: int = 1) -> list[Entry]:
    """Five minutes of messages in three threads, some without a thread, several at the same time."""
    chance = random.Random(seed)
    entries = []
    for number in range(count):
        labels = {"app": chance.choice(["dm", "dm", "journal"])}
        if chance.random() < 0.9:
            labels["thread"] = chance.choice("abc")
        entries.append(Entry(f"{number:08x}", labels, BASE + chance.randrange(30) * 10_000_000))
    return entries


def expected(entries: Sequence[Entry], *, descending: bool = False) -> list[str]:
    return [one.ref for one in sorted(entries, key=lambda one: one.position, reverse=descending)]


def test_entries_come_in_the_order_of_timestamp_and_ref_in_either_direction(subject: Subject) -> None:
    entries = threads(100)
    subject.put(entries)
    assert subject.query().refs == expected(entries)
    assert subject.query(descending=True).refs == expected(entries, descending=True)
    assert subject.count() == 100


def test_labels_must_all_be_there_with_their_values(subject: Subject) -> None:
    entries = threads(100)
    subject.put(entries)
    wanted = [one for one in entries if one.labels == {"app": "dm", "thread": "a"}]
    assert subject.query(labels={"app": "dm", "thread": "a"}).refs == expected(wanted)
    assert subject.count(labels={"app": "dm", "thread": "a"}) == len(wanted)
    assert subject.query(labels={"app": "dm", "thread": "z"}).refs == []
    assert subject.query(labels={"nobody": "dm"}).refs == []


# C0-15, D0-32: an entry that is in several groups is shown once, in its place.
def test_alternatives_are_united_without_repeats_and_in_order(subject: Subject) -> None:
    entries = threads(100)
    subject.put(entries)
    wanted = [one for one in entries if one.labels.get("thread") in ("a", "b") or one.labels["app"] == "journal"]
    filter = 'labels["thread"] == "a" || labels["thread"] == "b" || labels["app"] == "journal"'
    any_of = [{"thread": "a"}, {"thread": "b"}, {"app": "journal"}, {"thread": "a", "app": "journal"}]
    for descending in (False, True):
        assert subject.query(filter, descending=descending).refs == expected(wanted, descending=descending)
        assert subject.query(any_of=any_of, descending=descending).refs == expected(wanted, descending=descending)
    assert subject.count(filter) == subject.count(any_of=any_of) == len(wanted)
    assert subject.query(filter).is_fully_pushed


# C0-15
def test_an_or_of_ten_values_equals_ten_queries(subject: Subject) -> None:
    chance = random.Random(3)
    entries = [entry(n, chance.randrange(300), thread=f"t{chance.randrange(20)}") for n in range(300)]
    subject.put(entries)
    wanted = [f"t{number}" for number in range(10)]
    single = [ref for thread in wanted for ref in subject.query(labels={"thread": thread}).refs]
    united = subject.query(any_of=[{"thread": thread} for thread in wanted]).refs
    assert sorted(united) == sorted(single)
    assert subject.query(f'labels["thread"] in {wanted!r}').refs == united


# D0-30: the filter's OR does not replace the labels beside it.
def test_labels_beside_an_or_hold_for_every_alternative(subject: Subject) -> None:
    entries = threads(100)
    subject.put(entries)
    wanted = [one for one in entries if one.labels["app"] == "dm" and one.labels.get("thread") in ("a", "b")]
    either = 'labels["thread"] == "a" || labels["thread"] == "b"'
    assert subject.query(f'labels["app"] == "dm" && ({either})').refs == expected(wanted)
    assert subject.query(either, labels={"app": "dm"}).refs == expected(wanted)
    assert subject.query(labels={"app": "dm"}, any_of=[{"thread": "a"}, {"thread": "b"}]).refs == expected(wanted)
    crossed = f'({either}) && (labels["app"] == "dm" || labels["app"] == "journal")'
    assert subject.query(crossed).refs == expected([one for one in entries if one.labels.get("thread") in ("a", "b")])


# D0-17: a caller's labels are a boundary.
def test_a_filter_cannot_widen_the_callers_labels_nor_change_them(subject: Subject) -> None:
    subject.put([entry(1, 1, owner="me"), entry(2, 2, owner="you")])
    labels = {"owner": "me"}
    assert subject.query('labels["owner"] == "you"', labels=labels).refs == []
    assert subject.query('labels["owner"] == "you" || true', labels=labels).refs == refs([1])
    assert subject.query("true", labels=labels, any_of=[{"owner": "you"}, {"owner": "me"}]).refs == refs([1])
    assert labels == {"owner": "me"}


# D0-17, D0-31
def test_a_contradiction_matches_nothing(subject: Subject) -> None:
    subject.put([entry(1, 1, k="a"), entry(2, 2, k="b")])
    for filter in (
        'labels["k"] == "a" && labels["k"] == "b"',
        f"timestamp > {BASE + 9_000_000} && timestamp < {BASE}",
        '"k" in labels && !("k" in labels)',
    ):
        assert subject.query(filter).refs == []
        assert subject.count(filter) == 0
    assert subject.query(any_of=[[("k", "a"), ("k", "b")]]).refs == []
    assert subject.query(start=BASE + 5, end=BASE + 5).refs == []


# D0-31
def test_an_empty_alternative_is_refused_and_no_alternatives_are_no_condition(subject: Subject) -> None:
    subject.put([entry(1, 1, k="a")])
    assert subject.query(any_of=[]).refs == refs([1])
    with pytest.raises(InvalidRequest, match=r"every (entry|message)"):
        subject.query(any_of=[{"k": "a"}, {}])


# D0-15: every bound as it is written, in both directions and in counts.
def test_bounds_are_exact(subject: Subject) -> None:
    subject.put([entry(n, n) for n in range(1, 6)])
    low, high = BASE + 2_000_000, BASE + 4_000_000
    cases: list[tuple[str, list[int]]] = [
        (f"timestamp > {low}", [3, 4, 5]),
        (f"timestamp >= {low}", [2, 3, 4, 5]),
        (f"timestamp < {high}", [1, 2, 3]),
        (f"timestamp <= {high}", [1, 2, 3, 4]),
        (f"{low} < timestamp && {high} > timestamp", [3]),
        (f"timestamp == {low}", [2]),
        (f"timestamp > {low} && timestamp >= {BASE} && timestamp <= {high} && timestamp < {high + 1}", [3, 4]),
    ]
    for filter, numbers in cases:
        assert subject.query(filter).refs == refs(numbers), filter
        assert subject.query(filter, descending=True).refs == refs(numbers[::-1]), filter
        assert subject.count(filter) == len(numbers), filter
        assert subject.query(filter).is_fully_pushed, filter
    for descending in (False, True):
        found = subject.query(start=low, end=high, descending=descending).refs
        assert found == refs([3, 2] if descending else [2, 3])
    assert subject.count(start=low, end=high) == 2


# D0-16: zero and below are bounds like any other.
def test_a_bound_of_zero_is_no_missing_bound(subject: Subject) -> None:
    subject.put([entry(1, 1)])
    assert subject.query("timestamp < 0").refs == []
    assert subject.query("timestamp < 0").is_fully_pushed
    assert subject.count("timestamp <= -5") == 0
    assert subject.query("timestamp >= 0").refs == refs([1])
    assert subject.query(start=0, end=0).refs == []


# C0-11
def test_explain_tells_what_the_indexes_answered(subject: Subject) -> None:
    subject.put([entry(1, 1, app="dm"), entry(2, 2, app="journal")])
    pushed = subject.query(f'labels["app"] == "dm" && timestamp > {BASE}')
    assert (pushed.refs, pushed.is_fully_pushed) == (refs([1]), True)
    residual = subject.query(f'labels["app"] == "dm" && timestamp > {BASE} && labels["app"] + "" != "abc"')
    assert (residual.refs, residual.is_fully_pushed) == (refs([1]), False)
    unequal = subject.query('labels["app"] != "dm"')
    assert unequal.refs == refs([2])


# D0-18: what is left of a filter keeps its parentheses.
def test_a_residual_keeps_its_meaning(subject: Subject) -> None:
    subject.put([entry(n, n, app="dm", n=str(n)) for n in range(1, 6)])
    filter = 'labels["app"] == "dm" && (int(labels["n"]) < 2 || int(labels["n"]) > 4)'
    assert subject.query(filter).refs == refs([1, 5])
    either = 'labels["n"] == "3" || int(labels["n"]) % 4 == 1 ? labels["app"] == "dm" : false'
    assert subject.query(either).refs == refs([1, 3, 5])
    assert subject.count(filter) == 2


# D0-19: the query goes on until the page is full.
def test_pages_are_full_though_a_residual_refuses_most(subject: Subject) -> None:
    subject.put([entry(n, n // 3, n=str(n)) for n in range(400)])
    filter = 'int(labels["n"]) % 40 == 7'
    page = subject.query(filter, limit=4)
    assert page.refs == refs([7, 47, 87, 127])
    assert page.has_more
    assert pages(subject, filter, limit=4) == refs(range(7, 400, 40))
    assert pages(subject, filter, limit=3, descending=True) == refs(range(367, 0, -40))
    assert not subject.query(filter, limit=10).has_more


# D0-21: absent is neither "" nor unequal.
def test_a_missing_label_is_neither_empty_nor_unequal(subject: Subject) -> None:
    subject.put([entry(1, 1, k="v"), entry(2, 2, k=""), entry(3, 3, other="v")])
    assert subject.query('labels["k"] == ""').refs == refs([2])
    assert subject.query(labels={"k": ""}).refs == refs([2])
    assert subject.query('labels["k"] != "v"').refs == refs([2])
    assert subject.query('"k" in labels').refs == refs([1, 2])
    assert subject.query('!("k" in labels)').refs == refs([3])
    assert subject.query('!("k" in labels) || labels["k"] != "v"').refs == refs([2, 3])
    assert subject.count('!("k" in labels)') == 1


# D0-26, D0-27, D0-32: nothing lost and nothing twice from page to page, over windows and groups.
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("limit", [1, 3, 7, 50])
def test_pages_follow_each_other_without_gaps_or_repeats(subject: Subject, limit: int, descending: bool) -> None:
    entries = threads(60)
    subject.put(entries)
    either = 'labels["thread"] == "a" || labels["app"] == "dm"'
    wanted = [one for one in entries if one.labels.get("thread") == "a" or one.labels["app"] == "dm"]
    assert pages(subject, limit=limit, descending=descending) == expected(entries, descending=descending)
    assert pages(subject, either, limit=limit, descending=descending) == expected(wanted, descending=descending)


# D0-26
def test_has_more_is_exact_at_the_edge_of_a_page(subject: Subject) -> None:
    subject.put([entry(n, n * 40) for n in range(6)])
    assert subject.query(limit=6).has_more is False
    page = subject.query(limit=5)
    assert (page.has_more, len(page.refs)) == (True, 5)
    last = subject.query(limit=5, cursor=page.cursor)
    assert (last.refs, last.has_more) == (refs([5]), False)
    assert subject.query(limit=5, cursor=last.cursor).refs == []


def test_a_cursor_of_another_query_is_refused(subject: Subject) -> None:
    subject.put([entry(n, n, k="v") for n in range(5)])
    cursor = subject.query(limit=2).cursor
    assert cursor is not None
    for wrong in ({"descending": True}, {"labels": {"k": "v"}}, {"start": 1}):
        with pytest.raises(InvalidRequest, match="cursor"):
            subject.query(limit=2, cursor=cursor, **wrong)
    with pytest.raises(InvalidRequest, match="cursor"):
        subject.query(limit=2, cursor="nonsense")
    assert subject.query(limit=3, cursor=cursor).refs == refs([2, 3, 4])


def test_a_limit_must_be_positive(subject: Subject) -> None:
    for limit in (0, -1):
        with pytest.raises(InvalidRequest):
            subject.query(limit=limit)


# D0-9: no separator can be forged.
def test_values_that_look_like_separators_stay_apart(subject: Subject) -> None:
    tricky = ["", "/", ":", "a/b", "a:b", "1:a:", "a", "b/c", "b:c", "c", "1:", "'", '"', "%", "\\", "ä", "a\u0001"]
    pairs = [(app, thread) for app in tricky for thread in tricky]
    subject.put([entry(n, n % 200, app=app, thread=thread) for n, (app, thread) in enumerate(pairs)])
    for is_composite in (False, True):
        if is_composite:
            subject.register_composite("a/b:c'\"", ["app", "thread"])
        for number, (app, thread) in enumerate(pairs[::7]):
            assert subject.query(labels={"app": app, "thread": thread}).refs == refs([number * 7])
    keys = ["k", "k/", "k:", "1:k", 'k"', "k\\", "k\n", "k'; DROP TABLE entries; --"]
    subject.put([Entry(f"{n:04x}key", {key: "v", "v": key}, BASE) for n, key in enumerate(keys)])
    for number, key in enumerate(keys):
        assert subject.query(labels={key: "v"}).refs == [f"{number:04x}key"]
        assert subject.query(f"{json.dumps(key)} in labels").refs == [f"{number:04x}key"]


# C0-8: with and without, the same answer.
def test_a_composite_gives_the_same_answers_as_the_labels(subject: Subject) -> None:
    chance = random.Random(5)
    entries = [entry(n, chance.randrange(240), app="dm", thread=f"t{chance.randrange(20)}") for n in range(400)]
    entries += [entry(1000 + n, n, app="dm") for n in range(50)]
    subject.put(entries[:300])

    def answers() -> list[list[str]]:
        return [
            pages(subject, labels={"app": "dm", "thread": f"t{n}"}, limit=5, descending=n % 2 == 0) for n in range(20)
        ] + [subject.query(any_of=[{"app": "dm", "thread": "t1"}, {"app": "dm", "thread": "t2"}]).refs]

    subject.put(entries[300:])
    before = answers()
    subject.register_composite("dm_thread", ["app", "thread"])
    assert subject.composites() == {"dm_thread": ("app", "thread")}
    assert answers() == before
    later = entry(5000, 100, app="dm", thread="t1")
    subject.put([later])
    assert later.ref in subject.query(labels={"app": "dm", "thread": "t1"}).refs
    subject.drop_composite("dm_thread")
    assert subject.composites() == {}
    assert answers()[2:20] == before[2:20]


# D0-11: an entry that lacks a key of the composite is found all the same.
def test_a_query_that_fixes_only_some_keys_of_a_composite_loses_nothing(subject: Subject) -> None:
    subject.register_composite("three", ["app", "thread", "lang"])
    subject.put(
        [entry(1, 1, app="dm", thread="a", lang="de"), entry(2, 70, app="dm", thread="a"), entry(3, 2, app="dm")]
    )
    assert subject.query(labels={"app": "dm", "thread": "a"}).refs == refs([1, 2])
    assert subject.query(labels={"app": "dm"}).refs == refs([1, 3, 2])
    assert subject.query(labels={"app": "dm", "thread": "a", "lang": "de"}).refs == refs([1])


# C0-6: labels beyond those of the composite are checked.
def test_a_composite_serves_queries_that_ask_for_more(subject: Subject) -> None:
    subject.register_composite("pair", ["thread", "app"])
    subject.put([entry(n, n, app="dm", thread="a", n=str(n % 3)) for n in range(30)])
    labels = {"app": "dm", "thread": "a", "n": "1"}
    assert pages(subject, labels=labels, limit=4) == refs(range(1, 30, 3))
    assert subject.count(labels=labels) == 10
    wanted = subject.query('labels["app"] == "dm" && labels["thread"] in ["a", "b"] && !("x" in labels)')
    assert wanted.refs == refs(range(30))


# D0-10
def test_composites_have_different_names_and_different_keys(subject: Subject) -> None:
    subject.register_composite("one", ["a", "b"])
    for name, keys in (("one", ["c", "d"]), ("two", ["a", "b"]), ("two", ["b", "a"]), ("one", ["a", "b"])):
        with pytest.raises(Conflict):
            subject.register_composite(name, keys)
    for name, keys in (("two", []), ("two", ["a", "a"]), ("two", [""]), ("", ["a"])):
        with pytest.raises(InvalidRequest):
            subject.register_composite(name, keys)
    subject.register_composite("two", ["a"])
    assert subject.composites() == {"one": ("a", "b"), "two": ("a",)}


# D0-12: definitions last.
def test_a_composite_outlives_a_restart(subject: Subject) -> None:
    subject.put([entry(n, n * 20, a="1", b=str(n % 2)) for n in range(8)])
    subject.register_composite("one", ["a", "b"])
    subject.restart()
    assert subject.composites() == {"one": ("a", "b")}
    subject.put([entry(9, 200, a="1", b="1")])
    assert subject.query(labels={"a": "1", "b": "1"}).refs == refs([1, 3, 5, 7, 9])


def test_everything_is_there_after_a_restart(subject: Subject) -> None:
    entries = threads(50)
    subject.put(entries)
    page = subject.query(limit=20)
    subject.restart()
    assert subject.query().refs == expected(entries)
    assert page.refs + subject.query(limit=50, cursor=page.cursor).refs == expected(entries)
    assert subject.count(labels={"app": "dm"}) == sum(one.labels["app"] == "dm" for one in entries)


def test_expired_entries_are_hidden_unless_asked_for(subject: Subject) -> None:
    now = subject.clock.now_us()
    subject.register_composite("pair", ["app", "n"])
    subject.put([entry(n, n * 20, now + n * 1_000_000 if n else None, app="dm", n=str(n % 2)) for n in range(6)])
    assert subject.count() == 6
    subject.clock.advance(3)
    assert subject.query().refs == refs([0, 4, 5])
    assert subject.query(labels={"app": "dm"}, descending=True).refs == refs([5, 4, 0])
    assert subject.query(labels={"app": "dm", "n": "1"}).refs == refs([5])
    assert subject.query(any_of=[{"n": "1"}, {"n": "0"}], limit=2).refs == refs([0, 4])
    assert subject.count() == 3
    assert subject.count(labels={"app": "dm"}) == 3
    assert subject.count(labels={"app": "dm", "n": "0"}) == 2
    assert subject.count(any_of=[{"n": "1"}, {"app": "dm"}]) == 3
    assert subject.query(include_expired=True).refs == refs(range(6))
    assert subject.count(labels={"app": "dm"}, include_expired=True) == 6
    assert subject.query(f"expires_at > {now}").refs == refs([4, 5])


def test_a_query_of_time_alone_and_of_time_within_a_label(subject: Subject) -> None:
    subject.put([entry(n, n * 30, app="dm" if n % 2 else "journal") for n in range(10)])
    span = {"start": BASE + 60_000_000, "end": BASE + 240_000_000}
    assert subject.query(**span).refs == refs(range(2, 8))  # type: ignore[arg-type]
    assert subject.query(labels={"app": "dm"}, **span).refs == refs([3, 5, 7])  # type: ignore[arg-type]
    assert subject.query(descending=True, limit=2, **span).refs == refs([7, 6])  # type: ignore[arg-type]
    # D0-25: no overlap is nothing, not everything.
    assert subject.query(start=BASE + 60 * MINUTE).refs == []
    assert subject.count(end=BASE) == 0


def test_many_groups_with_bounds_of_their_own(subject: Subject) -> None:
    subject.put([entry(n, n * 10, app="dm" if n % 2 else "journal") for n in range(30)])
    early, late = BASE + 50_000_000, BASE + 250_000_000
    filter = f'labels["app"] == "dm" && timestamp < {early} || timestamp >= {late} || timestamp == {early}'
    wanted = [n for n in range(30) if (n % 2 and n < 5) or n >= 25 or n == 5]
    for limit in (3, 100):
        assert pages(subject, filter, limit=limit) == refs(wanted)
        assert pages(subject, filter, limit=limit, descending=True) == refs(wanted[::-1])
    assert subject.count(filter) == len(wanted)


def test_a_variable_that_entries_do_not_have_is_refused_or_unknown(subject: Subject) -> None:
    subject.put([entry(1, 1, app="dm")])
    if subject.can_replace:
        for filter in ('topic == "x"', "priority > 3", "offset < 5", "partition == 0"):
            with pytest.raises(InvalidRequest, match="no '"):
                subject.query(filter)
    with pytest.raises(InvalidRequest):
        subject.query("no such thing")
