"""Definitions of composites: names, keys, states."""

from __future__ import annotations

import pytest

import lamina
from lamina.disk import MemoryDisk
from lamina.errors import Conflict, Denied, InvalidRequest, NotFound
from tests.unit.index.messages import index_of, offsets, open_store, publish

LABELS = [{"app": "dm", "thread": str(at % 3)} for at in range(30)]
WHERE = 'labels["app"] == "dm" && labels["thread"] == "1"'


def used(page: lamina.Page) -> list[str]:
    return [one["field"] for one in page.explain()["postings"]]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("", ["a", "b"]),
        (7, ["a", "b"]),
        ("n" * 129, ["a", "b"]),
        ("n\0", ["a", "b"]),
        ("n", []),
        ("n", ["a", "a"]),
        ("n", "ab"),
        ("n", ["a", 7]),
        ("n", ["a", ""]),
        ("n", [f"k{at}" for at in range(9)]),
        ("n", None),
    ],
)
def test_a_definition_that_makes_no_sense_is_refused_and_changes_nothing(name: str, keys: list[str]) -> None:
    with open_store() as store:
        with pytest.raises(InvalidRequest):
            store.create_composite(name, keys)
        assert store.composites() == []


def test_names_and_key_lists_are_unique() -> None:
    # D0-10
    with open_store() as store:
        store.create_composite("dm_thread", ["app", "thread"])
        with pytest.raises(Conflict, match="exists"):
            store.create_composite("dm_thread", ["app", "thread"])
        with pytest.raises(Conflict, match="dm_thread"):
            store.create_composite("dm_thread", ["app", "user"])
        with pytest.raises(Conflict, match="same keys"):
            store.create_composite("other", ["thread", "app"])
        assert [one.name for one in store.composites()] == ["dm_thread"]


def test_a_composite_answers_only_when_every_segment_has_it() -> None:
    # D0-12
    with open_store(chunk_rows=64) as store:
        publish(store, LABELS)
        store.seal()
        publish(store, LABELS)
        store.create_composite("dm_thread", ["app", "thread"])
        assert [one.state for one in store.composites()] == ["building"]
        before = store.query(WHERE)
        assert used(before) == ["label app", "label thread"]
        index_of(store).step()
        assert [one.state for one in store.composites()] == ["ready"]
        after = store.query(WHERE)
        assert used(after) == ["composite dm_thread"]
        assert offsets(after) == offsets(before)


def test_definitions_and_their_postings_survive_a_restart() -> None:
    disk = MemoryDisk()
    with open_store(disk) as store:
        publish(store, LABELS)
        store.seal()
        store.create_composite("dm_thread", ["app", "thread"])
        index_of(store).step()
    with open_store(disk) as store:
        assert [(one.name, one.keys, one.state) for one in store.composites()] == [
            ("dm_thread", ("app", "thread"), "ready")
        ]
        assert used(store.query(WHERE)) == ["composite dm_thread"]


def test_a_dropped_composite_is_not_used_and_its_postings_go() -> None:
    disk = MemoryDisk()
    with open_store(disk) as store:
        publish(store, LABELS)
        store.seal()
        store.create_composite("dm_thread", ["app", "thread"])
        index_of(store).step()
        with_it = labels_bytes(disk)
        store.drop_composite("dm_thread")
        assert used(store.query(WHERE)) == ["label app", "label thread"]
        index_of(store).step()
        assert labels_bytes(disk) < with_it
        with pytest.raises(NotFound, match="dm_thread"):
            store.drop_composite("dm_thread")


def test_one_made_anew_under_an_old_name_answers_from_its_own_postings() -> None:
    with open_store() as store:
        publish(store, [{"a": "1", "b": "2", "c": "3"}, {"a": "1", "b": "9", "c": "3"}] * 8)
        store.create_composite("n", ["a", "b"])
        index_of(store).step()
        store.drop_composite("n")
        store.create_composite("n", ["a", "c"])
        page = store.query('labels["a"] == "1" && labels["c"] == "3"')
        assert len(page) == 16
        index_of(store).step()
        page = store.query('labels["a"] == "1" && labels["c"] == "3"')
        assert (used(page), len(page)) == (["composite n"], 16)


def test_a_query_for_some_of_the_keys_does_not_use_it() -> None:
    # D0-11: messages without the other key are not in it.
    with open_store() as store:
        publish(store, [{"app": "dm"}, {"app": "dm", "thread": "1"}])
        store.create_composite("dm_thread", ["app", "thread"])
        index_of(store).step()
        page = store.query('labels["app"] == "dm"')
        assert (used(page), offsets(page)) == (["label app"], [0, 1])


def test_more_labels_than_its_keys_narrow_its_answer() -> None:
    with open_store() as store:
        publish(store, [{"app": "dm", "thread": "1", "user": str(at % 2)} for at in range(10)])
        store.create_composite("dm_thread", ["app", "thread"])
        index_of(store).step()
        page = store.query(WHERE + ' && labels["user"] == "1"')
        assert used(page) == ["composite dm_thread", "label user"]
        assert offsets(page) == [1, 3, 5, 7, 9]


def test_readers_beside_the_owner_use_composites_and_cannot_change_them() -> None:
    disk = MemoryDisk()
    with open_store(disk) as store:
        publish(store, LABELS)
        store.create_composite("dm_thread", ["app", "thread"])
        index_of(store).step()
        with open_store(disk, read_only=True) as reader:
            assert [one.state for one in reader.composites()] == ["ready"]
            assert used(reader.query(WHERE)) == ["composite dm_thread"]
            with pytest.raises(Denied):
                reader.create_composite("x", ["a", "b"])
            with pytest.raises(Denied):
                reader.drop_composite("dm_thread")


def labels_bytes(disk: MemoryDisk) -> int:
    file = disk.open(f"default/0/{0:020d}.labels", "read")
    try:
        return file.size()
    finally:
        file.close()
