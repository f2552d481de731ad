"""The SQLite backend: what is its own."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from lamina.cel import Group
from lamina.errors import Corrupt, InvalidRequest
from lamina.index.backends import Entry, IndexStore, Query, SqliteBackend
from tests.conformance.index_backends_subject import BASE

KILLED = """
import os, sys
from lamina.index.backends import Entry, IndexStore, SqliteBackend
store = IndexStore(SqliteBackend(sys.argv[1]))
store.register_composite("pair", ["a", "b"])
store.index(Entry("aaaa", {"a": "1", "b": "1"}, 5))
store.index(Entry("aaaa", {"a": "1", "b": "2"}, 6))
os.kill(os.getpid(), 9)
"""


def entry(number: int, **labels: str) -> Entry:
    return Entry(f"{number:04x}", labels, BASE + number)


def tables(place: Path) -> dict[str, int]:
    """How many rows each table has."""
    connection = sqlite3.connect(place)
    try:
        names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {name: connection.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0] for name in sorted(names)}
    finally:
        connection.close()


# C0-8
def test_replaced_and_deleted_entries_leave_no_rows(tmp_path: Path) -> None:
    place = tmp_path / "index.sqlite"
    store = IndexStore(SqliteBackend(place))
    store.register_composite("pair", ["a", "b"])
    store.index_many(entry(n, a="1", b=str(n)) for n in range(50))
    store.index_many(entry(n, a="2", b="x") for n in range(50))
    rows = tables(place)
    assert (rows["entries"], rows["labels"], rows["composite 1"]) == (50, 100, 50)
    store.delete(*(f"{n:04x}" for n in range(50)))
    rows = tables(place)
    assert (rows["entries"], rows["labels"], rows["composite 1"]) == (0, 0, 0)
    store.drop_composite("pair")
    assert "composite 1" not in tables(place)
    store.close()


# D0-13: no name of a user stands in a statement.
def test_names_cannot_break_out_of_a_statement(tmp_path: Path) -> None:
    store = IndexStore(SqliteBackend(tmp_path / "index.sqlite"))
    name, key = '"; DROP TABLE entries; --', "'; DROP TABLE labels; --"
    store.register_composite(name, [key, 'b"'])
    store.index(Entry("aaaa", {key: "' OR 1=1 --", 'b"': "2"}, BASE))
    page = store.query(labels={key: "' OR 1=1 --", 'b"': "2"})
    assert [one.ref for one in page.entries] == ["aaaa"]
    assert page.explain.steps[0].startswith(f"composite {name!r}")
    assert store.query(labels={key: "1"}).entries == ()
    store.put_cursor(name, key)
    assert store.get_cursor(name) == key
    store.drop_composite(name)
    assert store.count() == 1
    store.close()


def test_two_handles_keep_each_others_composites_up_to_date(tmp_path: Path) -> None:
    place = tmp_path / "index.sqlite"
    with IndexStore(SqliteBackend(place)) as one, IndexStore(SqliteBackend(place)) as other:
        one.index(entry(1, a="1", b="1"))
        one.register_composite("pair", ["a", "b"])
        other.index(entry(2, a="1", b="1"))
        for store in (one, other):
            page = store.query(labels={"a": "1", "b": "1"})
            assert [found.ref for found in page.entries] == ["0001", "0002"]
            assert "composite" in page.explain.steps[0]


def test_what_was_indexed_survives_a_kill(tmp_path: Path) -> None:
    place = tmp_path / "index.sqlite"
    assert subprocess.run([sys.executable, "-c", KILLED, str(place)], check=False).returncode == -9
    with IndexStore(SqliteBackend(place)) as store:
        assert store.get("aaaa") == Entry("aaaa", {"a": "1", "b": "2"}, 6)
        assert store.query(labels={"a": "1", "b": "1"}).entries == ()
        assert len(store.query(labels={"a": "1", "b": "2"}).entries) == 1


# The journal mode is what was asked for, not what a driver made of it.
def test_the_file_is_in_wal_mode_and_synced(tmp_path: Path) -> None:
    backend = SqliteBackend(tmp_path / "index.sqlite")
    assert backend._connection is not None
    assert backend._connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert backend._connection.execute("PRAGMA synchronous").fetchone() == (2,)
    backend.close()


def test_other_bytes_and_other_formats_are_corrupt(tmp_path: Path) -> None:
    (tmp_path / "other").write_bytes(b"something else" * 500)
    with pytest.raises(Corrupt):
        SqliteBackend(tmp_path / "other")
    SqliteBackend(tmp_path / "newer").close()
    connection = sqlite3.connect(tmp_path / "newer")
    connection.execute("PRAGMA user_version = 9")
    connection.close()
    with pytest.raises(Corrupt, match="format 9"):
        SqliteBackend(tmp_path / "newer")


def test_an_index_in_memory() -> None:
    with IndexStore(SqliteBackend(":memory:")) as store:
        store.index(entry(1, a="1"))
        assert store.count() == 1


def test_more_values_than_one_statement_has_arms() -> None:
    backend = SqliteBackend(":memory:")
    store = IndexStore(backend)
    store.register_composite("pair", ["a", "c"])
    store.index_many(entry(n, a=str(n), b=str(n % 2), c=str(n % 8)) for n in range(900))
    anything = Group(labels={"a": frozenset(str(n) for n in range(900)), "b": frozenset("1")})
    found = backend.query(Query(groups=(anything,))).entries
    assert [one.ref for one in found] == [f"{n:04x}" for n in range(1, 900, 2)]
    eight = frozenset("01234567")
    groups = tuple(Group(labels={"a": frozenset([str(n)]), "c": eight}) for n in range(200))
    assert backend.count(Query(groups=groups)) == 200
    assert store.count(any_of=[{"a": str(n), "c": str(n % 8)} for n in range(256)]) == 256
    assert store.count(any_of=[{"a": str(n)} for n in range(1000)]) == 900
    with pytest.raises(InvalidRequest, match="alternatives"):
        store.count(any_of=[{f"a{n}": "1"} for n in range(257)])
    with pytest.raises(InvalidRequest, match="alternatives"):
        store.count(any_of=[{"a": str(n)} for n in range(1001)])
    store.close()
