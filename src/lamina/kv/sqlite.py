"""An ordered map in one SQLite file: durable without anything to install. Slower than RocksDB, and smaller."""

from __future__ import annotations

import fcntl
import os
import sqlite3
import threading
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from lamina.errors import Closed, Conflict, Corrupt, Denied, LaminaError, Unavailable
from lamina.kv.directories import make_directory

_CORRUPT = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_DENIED = (sqlite3.SQLITE_PERM, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_AUTH)


@contextmanager
def sqlite_errors(path: Path) -> Iterator[None]:
    """Translate what SQLite and the file system say about the file."""
    try:
        yield
    except sqlite3.Error as error:
        raise _sqlite_error(error, path) from error
    except OSError as error:
        kind = Denied if isinstance(error, PermissionError) else Unavailable
        raise kind(f"{path}: {error.strerror}") from error


class SqliteKv:
    """One SQLite file in WAL mode, synced at each batch. A lock file beside it makes a second opener a Conflict."""

    def __init__(self, path: Path | str) -> None:
        self._path = Path(path).absolute()
        self._mutex = threading.Lock()  # guards the connection and the views
        self._views: weakref.WeakSet[SqliteView] = weakref.WeakSet()
        self._connection: sqlite3.Connection | None = None
        with sqlite_errors(self._path):
            make_directory(self._path.parent)
            self._lock = _locked(self._path.with_name(self._path.name + ".lock"))
            try:
                self._connection = _connected(self._path)
                self._connection.execute(
                    "CREATE TABLE IF NOT EXISTS kv (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID"
                )
            except BaseException:
                if self._connection is not None:
                    self._connection.close()
                os.close(self._lock)
                raise

    def put_batch(self, puts: Iterable[tuple[bytes, bytes]], deletes: Iterable[bytes] = ()) -> None:
        with self._transaction() as connection:
            connection.executemany("DELETE FROM kv WHERE key = ?", [(key,) for key in deletes])
            connection.executemany("INSERT OR REPLACE INTO kv VALUES (?, ?)", puts)

    def delete_range(self, start: bytes, end: bytes) -> None:
        with self._transaction() as connection:
            connection.execute("DELETE FROM kv WHERE key >= ? AND key < ?", (start, end))

    def get(self, key: bytes) -> bytes | None:
        with self._mutex, sqlite_errors(self._path):
            return _get(self._open(), key)

    def range(self, start: bytes, end: bytes, *, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        with self.view() as view:
            yield from view.range(start, end, reverse=reverse)

    def view(self) -> SqliteView:
        with self._mutex, sqlite_errors(self._path):
            self._open()
            connection = _connected(self._path)
            connection.execute("BEGIN")
            connection.execute("SELECT 1 FROM kv LIMIT 1").fetchone()  # SQLite fixes the snapshot at the first read
            view = SqliteView(connection, self._path)
            self._views.add(view)
            return view

    def close(self) -> None:
        with self._mutex, sqlite_errors(self._path):
            connection, self._connection = self._connection, None
            if connection is None:
                return
            for view in list(self._views):
                view.close()
            connection.close()
            os.close(self._lock)

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._mutex, sqlite_errors(self._path):
            connection = self._open()
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            raise Closed(f"{self._path}: the SQLite kv is closed")
        return self._connection


class SqliteView:
    """A read transaction on a connection of its own."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection: sqlite3.Connection | None = connection
        self._path = path

    def get(self, key: bytes) -> bytes | None:
        with sqlite_errors(self._path):
            return _get(self._open(), key)

    def range(self, start: bytes, end: bytes, *, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        order = "DESC" if reverse else "ASC"
        text = f"SELECT key, value FROM kv WHERE key >= ? AND key < ? ORDER BY key {order}"
        with sqlite_errors(self._path):
            for key, value in self._open().execute(text, (start, end)):
                yield key, value
                self._open()

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            raise Closed(f"{self._path}: the view of the SQLite kv is closed")
        return self._connection


def _connected(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=5)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
    except BaseException:
        connection.close()
        raise
    return connection


def _get(connection: sqlite3.Connection, key: bytes) -> bytes | None:
    row: tuple[bytes] | None = connection.execute("SELECT value FROM kv WHERE key = ?", (key,)).fetchone()
    return None if row is None else row[0]


def _locked(path: Path) -> int:
    """SQLite itself would let two processes write in turns, each with a picture that the other makes stale."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise Conflict(f"{path}: another process or handle has this kv open; close it first") from None
    return descriptor


def _sqlite_error(error: sqlite3.Error, path: Path) -> LaminaError:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in _CORRUPT:
        return Corrupt(f"{path}: {error}; restore it from a backup, or delete it and index again")
    if code in _DENIED:
        return Denied(f"{path}: {error}")
    if isinstance(error, sqlite3.ProgrammingError) and "closed" in str(error):
        return Closed(f"{path}: the SQLite kv is closed")
    return Unavailable(f"{path}: {error}")
