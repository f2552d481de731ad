"""What every pluggable index promises about entries that change: replaced, deleted, expired, half indexed."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from lamina.errors import Closed, Conflict, InvalidRequest, NotFound
from lamina.index.backends import Composite, Entry
from tests.conformance.index_backends_subject import BASE, KINDS, MINUTE, Openers, StoreSubject, pages

SUBJECTS = [name for kind in KINDS for name in (kind, f"{kind}-windowed")]
LARGE = {"memory": 100_000, "rocksdb": 100_000, "sqlite": 30_000, "redis": 20_000}


@pytest.fixture(scope="module")
def openers() -> Iterator[Openers]:
    openers = Openers()
    yield openers
    openers.close()


@pytest.fixture(params=SUBJECTS)
def subject(request: pytest.FixtureRequest, openers: Openers, tmp_path: Path) -> Iterator[StoreSubject]:
    subject = openers.subject(request.param, tmp_path)
    yield subject
    subject.close()


def entry(ref: str, at: int = 0, expires_at: int | None = None, **labels: str) -> Entry:
    return Entry(ref, labels, BASE + at * 1_000_000, expires_at)


def test_an_entry_is_read_as_it_was_put(subject: StoreSubject) -> None:
    first = entry("aaaa", 1, app="dm", empty="")
    second = entry("bbbb", 70, subject.clock.now_us() + 5)
    subject.put([first, second])
    assert subject.store.get("aaaa") == first
    assert subject.store.get("bbbb") == second
    assert subject.store.query().entries == (first, second)
    with pytest.raises(NotFound):
        subject.store.get("cccc")
    subject.clock.advance(1)
    with pytest.raises(NotFound):
        subject.store.get("bbbb")
    assert subject.store.get("bbbb", include_expired=True) == second


# C0-5, D0-28: nothing of the old entry is left, in whichever window it was.
@pytest.mark.parametrize("later", [1, 200])
def test_a_ref_that_is_put_again_replaces_its_entry_everywhere(subject: StoreSubject, later: int) -> None:
    subject.register_composite("pair", ["app", "thread"])
    subject.put([entry("aaaa", 0, app="dm", thread="a"), entry("bbbb", 0, app="dm", thread="a")])
    changed = entry("aaaa", later, app="dm", thread="b", lang="de")
    subject.put([changed])
    assert subject.store.get("aaaa") == changed
    assert subject.query().refs == ["bbbb", "aaaa"]
    assert subject.query(labels={"thread": "a"}).refs == ["bbbb"]
    assert subject.query(labels={"app": "dm", "thread": "a"}).refs == ["bbbb"]
    assert subject.query(labels={"app": "dm", "thread": "b"}).refs == ["aaaa"]
    assert subject.query(start=BASE, end=BASE + 1).refs == ["bbbb"]
    assert subject.count() == 2
    assert subject.store.stats().entries == 2
    subject.restart()
    assert subject.query().refs == ["bbbb", "aaaa"]


def test_of_equal_refs_in_one_batch_the_last_counts(subject: StoreSubject) -> None:
    subject.put([entry("aaaa", 1, k="1"), entry("bbbb", 2), entry("aaaa", 100, k="2")])
    assert subject.query().refs == ["bbbb", "aaaa"]
    assert subject.query(labels={"k": "1"}).refs == []
    assert subject.query(labels={"k": "2"}).refs == ["aaaa"]


def test_a_deleted_entry_is_gone_from_every_index(subject: StoreSubject) -> None:
    subject.register_composite("pair", ["app", "thread"])
    subject.put([entry(ref, at, app="dm", thread="a") for at, ref in enumerate(["aaaa", "bbbb", "cccc"])])
    subject.put([entry("dddd", 100, app="dm", thread="a")])
    assert subject.delete("bbbb", "dddd", "nobody", "bbbb") == 2
    for asked in ({"app": "dm"}, {"app": "dm", "thread": "a"}, None):
        assert subject.query(labels=asked).refs == ["aaaa", "cccc"]
        assert subject.count(labels=asked) == 2
    assert subject.delete("bbbb") == 0
    with pytest.raises(NotFound):
        subject.store.get("dddd")


# D0-27: the cursor is a position, not an entry.
@pytest.mark.parametrize("descending", [False, True])
def test_a_page_goes_on_although_the_entry_of_its_cursor_is_gone(subject: StoreSubject, descending: bool) -> None:
    names = [f"{n:04x}" for n in range(40)]
    subject.put([entry(ref, number // 4 * 20, k=str(number % 2)) for number, ref in enumerate(names)])
    ordered = names[::-1] if descending else names
    any_of = [{"k": "0"}, {"k": "1"}]
    for asked in (None, any_of):
        page = subject.query(limit=10, descending=descending, any_of=asked)
        assert page.refs == ordered[:10]
        subject.delete(page.refs[-1])
        following = subject.query(limit=40, descending=descending, any_of=asked, cursor=page.cursor)
        assert following.refs == ordered[10:]
        number = names.index(page.refs[-1])
        subject.put([entry(page.refs[-1], number // 4 * 20, k=str(number % 2))])


def test_cleanup_deletes_what_has_expired_and_nothing_else(subject: StoreSubject) -> None:
    now = subject.clock.now_us()
    subject.put([entry(f"{n:04x}", n, now + n * 1_000_000 if n % 2 else None, k="v") for n in range(300)])
    subject.put([entry("0001", 1, now + 10**9, k="v")])
    assert subject.cleanup() == 0
    subject.clock.advance(101)
    wanted = [f"{n:04x}" for n in range(300) if n == 1 or n % 2 == 0 or n > 101]
    assert subject.query().refs == wanted
    assert subject.cleanup() == 50
    assert subject.cleanup() == 0
    assert subject.query(include_expired=True).refs == wanted
    assert subject.store.stats().entries == subject.count(labels={"k": "v"}) == len(wanted)
    assert subject.store.stats().next_expiry == now + 103 * 1_000_000


def test_a_prefix_resolves_to_the_one_ref_that_has_it(subject: StoreSubject) -> None:
    now = subject.clock.now_us()
    subject.put([entry("abcd1111", 1), entry("abcd2222", 100), entry("abcdef", 2, now + 5), entry("ffff", 3)])
    resolve = subject.store.resolve_prefix
    assert resolve("abcd1") == "abcd1111"
    assert resolve("ffff") == "ffff"
    assert resolve("abcde") == "abcdef"
    with pytest.raises(Conflict, match=r"abcd1111.*abcd2222"):
        resolve("abcd")
    with pytest.raises(NotFound):
        resolve("abcd3")
    with pytest.raises(InvalidRequest, match="too short"):
        resolve("abc")
    subject.clock.advance(1)
    with pytest.raises(NotFound):
        resolve("abcde")
    subject.put([entry("ffffff", 3)])
    assert resolve("ffff") == "ffff"  # a whole ref is no prefix of another


def test_cursors_are_kept_by_name(subject: StoreSubject) -> None:
    store = subject.store
    store.put_cursor("reader/1", "text")
    store.put_cursor("reader/1", "more ä")
    store.put_cursor("reader/2", "")
    subject.restart()
    assert subject.store.get_cursor("reader/1") == "more ä"
    assert subject.store.get_cursor("reader/2") == ""
    subject.store.delete_cursor("reader/1")
    subject.store.delete_cursor("reader/1")
    with pytest.raises(NotFound):
        subject.store.get_cursor("reader/1")
    with pytest.raises(InvalidRequest):
        subject.store.put_cursor("", "text")


# D0-12: not used before it is complete, complete although entries change meanwhile.
def test_a_composite_is_used_only_when_it_is_ready(subject: StoreSubject) -> None:
    subject.put([entry(f"{n:04x}", n, app="dm", thread=str(n % 3)) for n in range(200)])
    store = subject.store
    store.register_composite("pair", ["app", "thread"], wait=False)
    labels = {"app": "dm", "thread": "1"}
    wanted = [f"{n:04x}" for n in range(1, 200, 3)]

    def uses_it() -> bool:
        return any("composite" in step for step in store.query(labels=labels).explain.steps)

    assert store.composites() == (Composite("pair", ("app", "thread"), "building"),)
    assert not subject.backend.build_composite("pair", 50)
    assert store.composites()[0].state == "building"
    assert [one.ref for one in store.query(labels=labels).entries] == wanted
    subject.put([entry("0001", 1, app="dm", thread="2"), entry("new1", 10, app="dm", thread="1")])
    subject.delete("0004")
    wanted = sorted([ref for ref in wanted if ref not in ("0001", "0004")] + ["new1"])
    subject.restart()
    store = subject.store
    assert store.composites()[0].state == "building"
    store.build_composites()
    assert store.composites()[0].state == "ready"
    assert uses_it()
    assert sorted(pages(subject, labels=labels, limit=10)) == wanted
    assert subject.count(labels=labels) == len(wanted)


def test_a_composite_of_a_used_name_starts_anew(subject: StoreSubject) -> None:
    subject.put([entry("aaaa", 1, a="1", b="2"), entry("bbbb", 100, a="1", b="3")])
    subject.register_composite("one", ["a", "b"])
    subject.drop_composite("one")
    subject.put([entry("aaaa", 1, a="1", b="3"), entry("cccc", 101, a="1", b="3")])
    with pytest.raises(NotFound):
        subject.drop_composite("one")
    subject.restart()
    subject.register_composite("one", ["b", "a"])
    assert subject.query(labels={"a": "1", "b": "2"}).refs == []
    assert subject.query(labels={"a": "1", "b": "3"}).refs == ["aaaa", "bbbb", "cccc"]


def test_a_bad_entry_spoils_its_whole_batch(subject: StoreSubject) -> None:
    good = entry("aaaa", 1)
    for bad in (
        Entry("", {}, BASE),
        Entry("x" * 257, {}, BASE),
        Entry("a\0b", {}, BASE),
        Entry("bbbb", {"": "v"}, BASE),
        Entry("bbbb", {"k": 5}, BASE),  # type: ignore[dict-item]
        Entry("bbbb", {"k": "a\0b"}, BASE),
        Entry("bbbb", {}, -1),
        Entry("bbbb", {}, 1.5),  # type: ignore[arg-type]
        Entry("bbbb", {}, BASE, -7),
    ):
        with pytest.raises(InvalidRequest):
            subject.put([good, bad])
    assert subject.count() == 0


def test_labels_are_copied_when_they_are_put(subject: StoreSubject) -> None:
    labels = {"k": "v"}
    subject.store.index(Entry("aaaa", labels, BASE))
    labels["k"] = "w"
    assert subject.store.get("aaaa").labels == {"k": "v"}


def test_refs_are_any_text(subject: StoreSubject) -> None:
    names = sorted(["default/0/42", "a b", "ä", "日本", "\U0001f600", "{x}", "*", "'", "a" * 256, "z"])
    subject.put([entry(name, 5, k="v") for name in names])
    assert pages(subject, limit=3) == names
    assert pages(subject, limit=3, labels={"k": "v"}, descending=True) == names[::-1]
    assert subject.store.get("日本").ref == "日本"
    assert subject.delete(*names) == len(names)


def test_a_closed_store_says_so(subject: StoreSubject) -> None:
    subject.put([entry("aaaa", 1)])
    subject.close()
    subject.close()
    with pytest.raises(Closed):
        subject.store.query()
    with pytest.raises(Closed):
        subject.store.index(entry("bbbb", 1))
    with pytest.raises(Closed):
        subject.store.get("aaaa")


def test_readers_and_writers_of_many_threads_do_not_disturb_each_other(subject: StoreSubject) -> None:
    subject.put([entry(f"{n:04x}", n, k="stays") for n in range(100)])
    subject.register_composite("pair", ["k", "n"])
    errors: list[BaseException] = []

    def write(name: str) -> None:
        try:
            for n in range(10):
                subject.put([entry(f"{name}{m:03x}", m * 30 + n, k=name, n=str(n)) for m in range(5)])
                subject.delete(f"{name}000")
        except BaseException as error:  # noqa: BLE001 a thread has nobody else to tell
            errors.append(error)

    def read() -> None:
        try:
            for limit in (7, 30, 100):
                assert len(pages(subject, labels={"k": "stays"}, limit=limit)) == 100
                pages(subject, limit=limit, descending=True)
        except BaseException as error:  # noqa: BLE001 a thread has nobody else to tell
            errors.append(error)

    workers = [threading.Thread(target=write, args=(f"w{n}",)) for n in range(2)]
    workers += [threading.Thread(target=read) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not errors
    for name in ("w0", "w1"):
        assert subject.query(labels={"k": name}).refs == [f"{name}{m:03x}" for m in range(1, 5)]
        assert subject.count(labels={"k": name, "n": "9"}) == 4


# C0-8
@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_composite_over_many_entries_equals_the_intersection_of_labels(
    openers: Openers, tmp_path: Path, kind: str
) -> None:
    amount = LARGE[kind]
    chance = random.Random(8)
    subject = openers.subject(kind, tmp_path)
    entries = [
        Entry(f"{n:06x}", {"app": "dm", "thread": f"t{chance.randrange(1000)}"}, BASE + chance.randrange(5 * MINUTE))
        for n in range(amount)
    ]
    for start in range(0, amount, 10_000):
        subject.backend.put_batch(entries[start : start + 10_000])
    by_thread: dict[str, list[Entry]] = {}
    for one in entries:
        by_thread.setdefault(one.labels["thread"], []).append(one)
    chosen = [f"t{n}" for n in range(0, 1000, 100)]
    wanted = {
        name: [one.ref for one in sorted(by_thread.get(name, []), key=lambda one: one.position)] for name in chosen
    }

    def answers() -> dict[str, list[str]]:
        return {name: subject.query(labels={"app": "dm", "thread": name}).refs for name in chosen}

    assert answers() == wanted
    subject.register_composite("dm_thread", ["app", "thread"])
    assert answers() == wanted
    gone, moved = wanted["t0"][:5], wanted["t100"][:5]
    subject.delete(*gone)
    subject.put([Entry(ref, {"app": "dm", "thread": "t200"}, BASE + 10 * MINUTE) for ref in sorted(moved)])
    wanted["t0"], wanted["t100"] = wanted["t0"][5:], wanted["t100"][5:]
    wanted["t200"] += sorted(moved)
    assert answers() == wanted
    subject.close()
