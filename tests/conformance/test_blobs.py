"""What every blob store promises, whatever it is made of."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from lamina.blobs import BlobInfo, BlobStore, FileBlobs, MemoryBlobs
from lamina.errors import Conflict, InvalidRequest, NotFound
from lamina.testing import FaultyBlobs

BACKENDS: dict[str, Callable[[Path], BlobStore]] = {
    "memory": lambda _: MemoryBlobs(),
    "file": lambda place: FileBlobs(place / "blobs"),
    "faulty": lambda _: FaultyBlobs(MemoryBlobs()),
}


@pytest.fixture(params=BACKENDS)
def blobs(request: pytest.FixtureRequest, tmp_path: Path) -> BlobStore:
    return BACKENDS[request.param](tmp_path)


def names(blobs: BlobStore, prefix: str = "") -> list[str]:
    return [blob.name for blob in blobs.list(prefix)]


def test_an_object_is_read_as_it_was_put(blobs: BlobStore) -> None:
    blobs.put_new("a/b/c", b"content")
    blobs.put_new("view", memoryview(b"content")[3:])
    blobs.put_new("empty", b"")
    assert blobs.get("a/b/c") == b"content"
    assert blobs.get("view") == b"tent"
    assert blobs.get("empty") == b""


def test_a_put_keeps_its_own_copy(blobs: BlobStore) -> None:
    buffer = bytearray(b"before")
    blobs.put_new("a", memoryview(buffer))
    buffer[:] = b"after!"
    assert blobs.get("a") == b"before"


def test_a_range_is_half_open_and_ends_with_the_object(blobs: BlobStore) -> None:
    blobs.put_new("a", b"abcdef")
    assert blobs.get("a", 1, 3) == b"bc"
    assert blobs.get("a", 4) == b"ef"
    assert blobs.get("a", 4, 100) == b"ef"
    assert blobs.get("a", 6) == b""
    assert blobs.get("a", 100, 200) == b""
    assert blobs.get("a", 3, 1) == b""


def test_a_negative_range_is_refused(blobs: BlobStore) -> None:
    blobs.put_new("a", b"abcdef")
    with pytest.raises(InvalidRequest, match="negative"):
        blobs.get("a", -2)
    with pytest.raises(InvalidRequest):
        blobs.get("a", 0, -2)


def test_a_taken_name_is_a_conflict_and_keeps_its_object(blobs: BlobStore) -> None:
    blobs.put_new("a/b", b"first")
    with pytest.raises(Conflict, match="taken"):
        blobs.put_new("a/b", b"second")
    assert blobs.get("a/b") == b"first"


def test_a_name_cannot_also_be_the_folder_of_another(blobs: BlobStore) -> None:
    blobs.put_new("a/b", b"first")
    for name in ("a", "a/b/c", "a/b/c/d"):
        with pytest.raises(Conflict):
            blobs.put_new(name, b"second")
    assert names(blobs) == ["a/b"]


def test_stat_knows_the_size(blobs: BlobStore) -> None:
    blobs.put_new("a/b", b"content")
    assert blobs.stat("a/b") == BlobInfo("a/b", 7)


def test_what_is_not_there_is_not_found(blobs: BlobStore) -> None:
    blobs.put_new("a/b", b"content")
    for name in ("x", "x/y", "a", "a/b/c"):
        with pytest.raises(NotFound, match="no blob"):
            blobs.get(name)
        with pytest.raises(NotFound):
            blobs.stat(name)


def test_list_gives_whole_names_in_order_by_prefix(blobs: BlobStore) -> None:
    assert names(blobs) == []
    for name in ("b", "a/c/d", "a-b", "a/b", "a.b", "aa/x", "a/c-d"):
        blobs.put_new(name, name.encode())
    assert names(blobs) == ["a-b", "a.b", "a/b", "a/c-d", "a/c/d", "aa/x", "b"]
    assert names(blobs, "a/") == ["a/b", "a/c-d", "a/c/d"]
    assert names(blobs, "a/c") == ["a/c-d", "a/c/d"]
    assert names(blobs, "aa/x") == ["aa/x"]
    assert names(blobs, "x/y") == []
    assert list(blobs.list("b")) == [BlobInfo("b", 1)]


def test_a_listing_survives_deletions_on_the_way(blobs: BlobStore) -> None:
    for name in ("a/1", "a/2", "b/1"):
        blobs.put_new(name, b"x")
    listing = blobs.list()
    assert next(listing).name == "a/1"
    blobs.delete("a/2")
    blobs.delete("b/1")
    assert list(listing) == []


def test_delete_frees_the_name_and_forgives_absence(blobs: BlobStore) -> None:
    blobs.put_new("a/b", b"first")
    for name in ("a/b", "a/b", "x/y", "a"):
        blobs.delete(name)
    assert names(blobs) == []
    blobs.put_new("a/b", b"second")
    assert blobs.get("a/b") == b"second"


def test_deleting_a_folder_name_does_not_touch_the_objects_in_it(blobs: BlobStore) -> None:
    blobs.put_new("a/b", b"content")
    blobs.delete("a")
    blobs.delete("a/b/c")
    assert blobs.get("a/b") == b"content"


@pytest.mark.parametrize("name", ["", "/etc/x", "..", "a/../b", "a//b", "a/", ".staging/x", "a/.hidden", "a\0b"])
def test_a_name_that_could_leave_the_store_is_refused(blobs: BlobStore, name: str) -> None:
    calls: list[Callable[[], object]] = [
        lambda: blobs.put_new(name, b"x"),
        lambda: blobs.get(name),
        lambda: blobs.stat(name),
        lambda: blobs.delete(name),
    ]
    for call in calls:
        with pytest.raises(InvalidRequest):
            call()


def test_of_many_writers_of_one_name_one_wins(blobs: BlobStore) -> None:
    barrier = threading.Barrier(4)
    winners: list[bytes] = []
    losers: list[bytes] = []

    def put(content: bytes) -> None:
        barrier.wait()
        try:
            blobs.put_new("deep/er/name", content)
            winners.append(content)
        except Conflict:
            losers.append(content)

    threads = [threading.Thread(target=put, args=(bytes([number]) * 1000,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(winners) == 1
    assert len(losers) == 3
    assert blobs.get("deep/er/name") == winners[0]
