"""What every ordered kv promises, whatever it is made of."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lamina.errors import Closed, Conflict
from lamina.kv import Kv, MemoryKv, RocksKv, SqliteKv

OPENERS: dict[str, Callable[[Path], Callable[[], Kv]]] = {
    "memory": lambda _: MemoryOpener(),
    "rocksdb": lambda place: lambda: RocksKv(place / "rocks"),
    "sqlite": lambda place: lambda: SqliteKv(place / "kv.sqlite"),
}


class MemoryOpener:
    """Opens one memory kv again and again."""

    def __init__(self) -> None:
        self._kv: MemoryKv | None = None

    def __call__(self) -> Kv:
        self._kv = MemoryKv() if self._kv is None else self._kv.reopen()
        return self._kv


@pytest.fixture(params=OPENERS)
def opener(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Kv]:
    return OPENERS[request.param](tmp_path)


@pytest.fixture
def kv(opener: Callable[[], Kv]) -> Iterator[Kv]:
    kv = opener()
    yield kv
    kv.close()


def keys(kv: Kv, start: bytes = b"", end: bytes = b"\xff", *, reverse: bool = False) -> list[bytes]:
    return [key for key, _ in kv.range(start, end, reverse=reverse)]


def test_a_value_is_read_as_it_was_put(kv: Kv) -> None:
    kv.put_batch([(b"a", b"1"), (b"b", b""), (b"\0\xfe", b"\0")])
    assert kv.get(b"a") == b"1"
    assert kv.get(b"b") == b""
    assert kv.get(b"\0\xfe") == b"\0"
    assert kv.get(b"c") is None
    kv.put_batch([(b"a", b"2")])
    assert kv.get(b"a") == b"2"


def test_a_batch_deletes_before_it_puts(kv: Kv) -> None:
    kv.put_batch([(b"a", b"1"), (b"b", b"1")])
    kv.put_batch([(b"a", b"2")], [b"a", b"b", b"nobody"])
    assert list(kv.range(b"", b"\xff")) == [(b"a", b"2")]
    kv.put_batch([(b"c", b"1"), (b"c", b"2")])
    assert kv.get(b"c") == b"2"


def test_a_batch_that_fails_half_way_changes_nothing(kv: Kv) -> None:
    def broken() -> Iterator[tuple[bytes, bytes]]:
        yield b"new", b"1"
        raise RuntimeError("half way")

    kv.put_batch([(b"a", b"1")])
    with pytest.raises(RuntimeError):
        kv.put_batch(broken(), [b"a"])
    assert keys(kv) == [b"a"]
    kv.put_batch([(b"b", b"1")])
    assert keys(kv) == [b"a", b"b"]


def test_a_range_is_half_open_and_ordered_by_bytes(kv: Kv) -> None:
    names = [b"a", b"a\0", b"a\xff", b"aa", b"b", b"\x80", b"\xfe\xff"]
    kv.put_batch([(name, name) for name in names])
    ordered = sorted(names)
    assert keys(kv) == ordered
    assert keys(kv, reverse=True) == ordered[::-1]
    assert keys(kv, b"a\0", b"b") == [b"a\0", b"aa", b"a\xff"]
    assert keys(kv, b"a\0", b"b", reverse=True) == [b"a\xff", b"aa", b"a\0"]
    assert keys(kv, b"a0", b"a1") == []
    assert keys(kv, b"b", b"a") == []
    assert keys(kv, b"b", b"a", reverse=True) == []
    assert keys(kv, b"c", b"\x80", reverse=True) == []


def test_delete_range_removes_what_is_in_it(kv: Kv) -> None:
    kv.put_batch([(b"%03d" % n, b"") for n in range(100)])
    kv.delete_range(b"010", b"090")
    kv.delete_range(b"5", b"4")
    assert keys(kv) == [b"%03d" % n for n in (*range(10), *range(90, 100))]


def test_a_view_shows_one_moment(kv: Kv) -> None:
    kv.put_batch([(b"%03d" % n, b"old") for n in range(50)])
    with kv.view() as view:
        going = view.range(b"", b"\xff")
        assert next(going) == (b"000", b"old")
        kv.put_batch([(b"%03d" % n, b"new") for n in range(25, 75)], [b"010", b"001"])
        kv.delete_range(b"040", b"045")
        assert [key for key, _ in going] == [b"%03d" % n for n in range(1, 50)]
        assert view.get(b"030") == b"old"
        assert view.get(b"060") is None
        assert [value for _, value in view.range(b"", b"\xff", reverse=True)] == [b"old"] * 50
    assert kv.get(b"030") == b"new"
    assert kv.get(b"010") is None


def test_a_range_shows_the_moment_of_its_first_step(kv: Kv) -> None:
    kv.put_batch([(b"a", b"1"), (b"b", b"1")])
    going = kv.range(b"", b"\xff")
    assert next(going) == (b"a", b"1")
    kv.put_batch([(b"c", b"1")], [b"b"])
    assert list(going) == [(b"b", b"1")]


def test_contents_outlive_the_handle(opener: Callable[[], Kv]) -> None:
    kv = opener()
    kv.put_batch([(b"a", b"1"), (b"b", b"2")])
    kv.delete_range(b"b", b"c")
    kv.close()
    again = opener()
    assert list(again.range(b"", b"\xff")) == [(b"a", b"1")]
    again.close()


def test_a_second_opener_is_a_conflict(opener: Callable[[], Kv]) -> None:
    kv = opener()
    with pytest.raises(Conflict, match="open"):
        opener()
    kv.put_batch([(b"a", b"1")])
    kv.close()
    opener().close()


def test_a_closed_kv_says_so(kv: Kv) -> None:
    kv.put_batch([(b"a", b"1"), (b"b", b"1")])
    view = kv.view()
    going = view.range(b"", b"\xff")
    next(going)
    kv.close()
    kv.close()
    calls: list[Callable[[], object]] = [
        lambda: kv.get(b"a"),
        lambda: kv.put_batch([(b"a", b"2")]),
        lambda: kv.delete_range(b"a", b"b"),
        lambda: list(kv.range(b"", b"\xff")),
        lambda: kv.view(),
        lambda: view.get(b"a"),
        lambda: list(view.range(b"", b"\xff")),
        lambda: next(going),
    ]
    for call in calls:
        with pytest.raises(Closed):
            call()


def test_many_random_batches_agree_with_a_dict(kv: Kv) -> None:
    chance = random.Random(11)
    model: dict[bytes, bytes] = {}
    for step in range(60):
        size = chance.choice([1, 3, 40, 900])
        puts = [(b"%05d" % chance.randrange(4000), b"%d" % step) for _ in range(size)]
        deletes = [b"%05d" % chance.randrange(4000) for _ in range(chance.choice([0, 2, size]))]
        kv.put_batch(puts, deletes)
        for key in deletes:
            model.pop(key, None)
        model.update(puts)
        low, high = sorted((b"%05d" % chance.randrange(4000), b"%05d" % chance.randrange(4000)))
        wanted = sorted((key, value) for key, value in model.items() if low <= key < high)
        assert list(kv.range(low, high)) == wanted
        assert list(kv.range(low, high, reverse=True)) == wanted[::-1]
        key = b"%05d" % chance.randrange(4000)
        assert kv.get(key) == model.get(key)
    assert list(kv.range(b"", b"\xff")) == sorted(model.items())


def test_writers_and_readers_of_many_threads(kv: Kv) -> None:
    errors: list[BaseException] = []

    def write(name: bytes) -> None:
        for n in range(20):
            kv.put_batch([(name + b"%02d-%d" % (n, m), b"") for m in range(5)])

    def read() -> None:
        try:
            for _ in range(20):
                found = keys(kv)
                assert found == sorted(found)
                assert len(found) % 5 == 0  # a batch is there whole or not at all
        except BaseException as error:  # noqa: BLE001 a thread has nobody else to tell
            errors.append(error)

    workers = [threading.Thread(target=write, args=(name,)) for name in (b"a", b"b")]
    workers += [threading.Thread(target=read) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not errors
    assert len(keys(kv)) == 200
