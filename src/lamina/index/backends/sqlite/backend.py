"""An index in one SQLite file."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from lamina.disk import FileDisk
from lamina.errors import Closed, NotFound
from lamina.index.backends.entry import REF_BYTES_MAX, Entry
from lamina.index.backends.matching import check_composite
from lamina.index.backends.seam import Answer, BackendStats, Composite, Query, last_of_each
from lamina.index.backends.sqlite import statements, tables
from lamina.kv import sqlite_errors

_FETCH_MIN = 64
_FETCH_MAX = 4096  # rows of one statement; the lock is free between two of them
_CHUNK = 500  # refs per look-up
_BEYOND = "\U0010ffff" * REF_BYTES_MAX  # after every ref that starts with what stands before it
_BUSY_SECONDS = 5.0  # how long another process may hold the file


class SqliteBackend:
    """Entries in one file, in WAL mode and synced at each batch. ":memory:" keeps them in memory.

    Several processes may have the file open: each write sees what the others defined.
    """

    def __init__(self, path: Path | str) -> None:
        self._path = Path(path)
        self._mutex = threading.Lock()  # one statement at a time on the one connection
        self._connection: sqlite3.Connection | None = None
        if str(path) != ":memory:":
            FileDisk(self._path.parent).make_directory("")
        with sqlite_errors(self._path):
            self._connection = sqlite3.connect(
                path, isolation_level=None, check_same_thread=False, timeout=_BUSY_SECONDS
            )
        try:
            with sqlite_errors(self._path):
                self._connection.execute("PRAGMA journal_mode = WAL")
                self._connection.execute("PRAGMA synchronous = FULL")
            with self._write() as connection:
                tables.create_tables(connection, str(path))
        except BaseException:
            self._connection.close()
            raise

    def put_batch(self, entries: Sequence[Entry]) -> None:
        latest = list(last_of_each(entries).values())
        with self._write() as connection:
            definitions = tables.read_definitions(connection)
            tables.delete_rows(connection, _stored(connection, [entry.ref for entry in latest]), definitions)
            tables.insert_rows(connection, latest, definitions)

    def get(self, ref: str) -> Entry | None:
        with self._read() as connection:
            return next(iter(_stored(connection, [ref])), None)

    def delete(self, refs: Sequence[str]) -> int:
        with self._write() as connection:
            return _delete(connection, list(dict.fromkeys(refs)))

    def query(self, query: Query) -> Answer:
        answer = Answer(iter(()))
        answer.entries = self._pages(query, answer.steps)
        return answer

    def count(self, query: Query) -> int:
        if not query.groups:
            return 0
        with self._read() as connection:
            arms = [arm for group in _arms(connection, query) for arm in group.arms]
            statement = statements.count_statement(arms)
            return int(connection.execute(statement.text, statement.parameters).fetchone()[0])

    def delete_expired(self, now_us: int, limit: int) -> list[str]:
        with self._write() as connection:
            due = "SELECT ref FROM entries WHERE expires_at <= ? ORDER BY expires_at LIMIT ?"
            refs = [ref for (ref,) in connection.execute(due, (now_us, limit)).fetchall()]
            _delete(connection, refs)
            return refs

    def refs(self, prefix: str, limit: int) -> list[str]:
        with self._read() as connection:
            found = connection.execute(
                "SELECT ref FROM entries WHERE ref >= ? AND ref < ? ORDER BY ref LIMIT ?",
                (prefix, prefix + _BEYOND, limit),
            )
            return [ref for (ref,) in found]

    def composites(self) -> tuple[Composite, ...]:
        with self._read() as connection:
            return tuple(definition.composite for definition in tables.read_definitions(connection))

    def define_composite(self, name: str, label_keys: Sequence[str]) -> None:
        with self._write() as connection:
            others = [definition.composite for definition in tables.read_definitions(connection)]
            tables.create_composite(connection, check_composite(name, label_keys, others))

    def build_composite(self, name: str, limit: int) -> bool:
        with self._write() as connection:
            definition = _definition(connection, name)
            if definition.state == "ready":
                return True
            rows: list[tables.Row] = connection.execute(
                "SELECT ref, timestamp, expires_at, labels FROM entries WHERE (timestamp, ref) > (?, ?) "
                "ORDER BY timestamp, ref LIMIT ?",
                (*definition.built, limit),
            ).fetchall()
            entries = [tables.entry_of(row) for row in rows]
            tables.insert_composite_rows(connection, entries, definition)
            built = entries[-1].position if entries else definition.built
            connection.execute(
                "UPDATE composites SET state = ?, built_timestamp = ?, built_ref = ? WHERE number = ?",
                ("building" if entries else "ready", *built, definition.number),
            )
            return not entries

    def drop_composite(self, name: str) -> None:
        with self._write() as connection:
            definition = _definition(connection, name)
            connection.execute("DELETE FROM composites WHERE number = ?", (definition.number,))
            connection.execute(f"DROP TABLE {definition.table}")

    def put_cursor(self, name: str, text: str) -> None:
        with self._write() as connection:
            connection.execute("INSERT OR REPLACE INTO cursors VALUES (?, ?)", (name, text))

    def get_cursor(self, name: str) -> str | None:
        with self._read() as connection:
            row = connection.execute("SELECT text FROM cursors WHERE name = ?", (name,)).fetchone()
            return None if row is None else str(row[0])

    def delete_cursor(self, name: str) -> None:
        with self._write() as connection:
            connection.execute("DELETE FROM cursors WHERE name = ?", (name,))

    def stats(self) -> BackendStats:
        with self._read() as connection:
            # Each of these is one look into an index; asked for together, SQLite would read every row.
            entries, oldest, newest, next_expiry = connection.execute(
                "SELECT (SELECT count(*) FROM entries), (SELECT min(timestamp) FROM entries), "
                "(SELECT max(timestamp) FROM entries), "
                "(SELECT min(expires_at) FROM entries WHERE expires_at IS NOT NULL)"
            ).fetchone()
            composites = tuple(definition.composite for definition in tables.read_definitions(connection))
        return BackendStats(entries, oldest, newest, next_expiry, composites)

    def close(self) -> None:
        with self._mutex, sqlite_errors(self._path):
            connection, self._connection = self._connection, None
            if connection is not None:
                connection.close()

    def _pages(self, query: Query, steps: list[str]) -> Iterator[Entry]:
        """One statement per page, each from the last position: no transaction stays open between two steps."""
        size = max(_FETCH_MIN, min(query.wanted, _FETCH_MAX))
        while query.groups:
            with self._read() as connection:
                groups = _arms(connection, query)
                arms = [arm for group in groups for arm in group.arms]
                statement = statements.page_statement(query, arms, size)
                rows: list[tables.Row] = connection.execute(statement.text, statement.parameters).fetchall()
            if not steps:
                steps += [group.step for group in groups]
            entries = [tables.entry_of(row) for row in rows]
            yield from entries
            if len(entries) < size:
                return
            query = replace(query, after=entries[-1].position)
            size = min(size * 2, _FETCH_MAX)

    @contextmanager
    def _read(self) -> Iterator[sqlite3.Connection]:
        """One moment for all statements inside."""
        with self._transaction("BEGIN") as connection:
            yield connection

    @contextmanager
    def _write(self) -> Iterator[sqlite3.Connection]:
        with self._transaction("BEGIN IMMEDIATE") as connection:
            yield connection

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[sqlite3.Connection]:
        with self._mutex, sqlite_errors(self._path):
            connection = self._connection
            if connection is None:
                raise Closed(f"{self._path}: the index is closed")
            connection.execute(begin)
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise


def _arms(connection: sqlite3.Connection, query: Query) -> list[statements.Arms]:
    definitions = tables.read_definitions(connection)

    def probe(statement: statements.Statement) -> tuple[int, str] | None:
        row: tuple[int, str] | None = connection.execute(statement.text, statement.parameters).fetchone()
        return row

    return [statements.group_arms(query, group, definitions, probe) for group in query.groups]


def _stored(connection: sqlite3.Connection, refs: Sequence[str]) -> list[Entry]:
    found: list[Entry] = []
    for start in range(0, len(refs), _CHUNK):
        chunk = refs[start : start + _CHUNK]
        marks = ", ".join("?" * len(chunk))
        text = f"SELECT ref, timestamp, expires_at, labels FROM entries WHERE ref IN ({marks})"
        found += [tables.entry_of(row) for row in connection.execute(text, chunk)]
    return found


def _delete(connection: sqlite3.Connection, refs: Sequence[str]) -> int:
    stored = _stored(connection, refs)
    tables.delete_rows(connection, stored, tables.read_definitions(connection))
    return len(stored)


def _definition(connection: sqlite3.Connection, name: str) -> tables.Definition:
    for definition in tables.read_definitions(connection):
        if definition.name == name:
            return definition
    raise NotFound(f"there is no composite {name!r}")
