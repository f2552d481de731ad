"""The tables of an index in SQLite, and names that are safe to stand in a statement.

`labels` is the index by label: clustered by (key, value, timestamp, ref), so a label's entries are read in order.
A composite is a table of its own, clustered by (values, timestamp, ref), that also holds the entry itself.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

import msgspec

from lamina.errors import Corrupt
from lamina.index.backends.entry import Entry
from lamina.index.backends.matching import composite_values
from lamina.index.backends.seam import Composite, CompositeState

FORMAT_VERSION = 1

_SCHEMA = (
    """CREATE TABLE entries (
        ref TEXT NOT NULL PRIMARY KEY, timestamp INTEGER NOT NULL, expires_at INTEGER, labels TEXT NOT NULL
    ) WITHOUT ROWID""",
    "CREATE UNIQUE INDEX entries_by_time ON entries (timestamp, ref)",
    "CREATE INDEX entries_by_expiry ON entries (expires_at) WHERE expires_at IS NOT NULL",
    """CREATE TABLE labels (
        key TEXT NOT NULL, value TEXT NOT NULL, timestamp INTEGER NOT NULL, ref TEXT NOT NULL,
        PRIMARY KEY (key, value, timestamp, ref)
    ) WITHOUT ROWID""",
    """CREATE TABLE composites (
        number INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE, keys TEXT NOT NULL, state TEXT NOT NULL,
        built_timestamp INTEGER NOT NULL DEFAULT -1, built_ref TEXT NOT NULL DEFAULT ''
    )""",
    "CREATE TABLE cursors (name TEXT NOT NULL PRIMARY KEY, text TEXT NOT NULL) WITHOUT ROWID",
)

Row = tuple[str, int, int | None, str]
"""ref, timestamp, expires_at, labels as JSON: a row of `entries`, and the end of a row of a composite."""
_decode_labels = msgspec.json.Decoder(dict[str, str]).decode


class Definition(msgspec.Struct, frozen=True):
    """A row of `composites`."""

    number: int
    name: str
    keys: tuple[str, ...]
    state: CompositeState
    built: tuple[int, str]

    @property
    def table(self) -> str:
        """By number, so that no name given by a user stands in a statement."""
        return quoted(f"composite {self.number}")

    @property
    def columns(self) -> list[str]:
        return [quoted(f"value {at}") for at in range(len(self.keys))]

    @property
    def composite(self) -> Composite:
        return Composite(self.name, self.keys, self.state)


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def create_tables(connection: sqlite3.Connection, where: str) -> None:
    """Inside a transaction: make what is not there; Corrupt if another format is."""
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version == 0:
        for statement in _SCHEMA:
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {FORMAT_VERSION}")
    elif version != FORMAT_VERSION:
        raise Corrupt(f"{where}: the index has format {version}, this Lamina reads {FORMAT_VERSION}; upgrade it")


def read_definitions(connection: sqlite3.Connection) -> list[Definition]:
    """In the transaction that uses them: another process may have defined one a moment ago."""
    rows = connection.execute(
        "SELECT number, name, keys, state, built_timestamp, built_ref FROM composites ORDER BY name"
    )
    return [
        Definition(number, name, tuple(msgspec.json.decode(keys, type=list[str])), state, (timestamp, ref))
        for number, name, keys, state, timestamp, ref in rows
    ]


def create_composite(connection: sqlite3.Connection, composite: Composite) -> None:
    keys = msgspec.json.encode(composite.keys).decode()
    insert = "INSERT INTO composites (name, keys, state) VALUES (?, ?, ?)"
    number = connection.execute(insert, (composite.name, keys, composite.state)).lastrowid
    assert number is not None
    definition = Definition(number, composite.name, composite.keys, composite.state, (-1, ""))
    values = ", ".join(f"{column} TEXT NOT NULL" for column in definition.columns)
    order = ", ".join([*definition.columns, "timestamp", "ref"])
    connection.execute(
        f"CREATE TABLE {definition.table} ({values}, timestamp INTEGER NOT NULL, ref TEXT NOT NULL, "
        f"expires_at INTEGER, labels TEXT NOT NULL, PRIMARY KEY ({order})) WITHOUT ROWID"
    )


def insert_rows(connection: sqlite3.Connection, entries: Sequence[Entry], definitions: Sequence[Definition]) -> None:
    """The entries and everything that finds them."""
    rows = {entry.ref: row_of(entry) for entry in entries}
    connection.executemany("INSERT INTO entries VALUES (?, ?, ?, ?)", rows.values())
    connection.executemany(
        "INSERT INTO labels VALUES (?, ?, ?, ?)",
        [(key, value, entry.timestamp, entry.ref) for entry in entries for key, value in entry.labels.items()],
    )
    for definition in definitions:
        insert_composite_rows(connection, entries, definition)


def insert_composite_rows(connection: sqlite3.Connection, entries: Sequence[Entry], definition: Definition) -> None:
    """Rows that are there already stay: building and writing may meet."""
    marks = ", ".join("?" * (len(definition.keys) + 4))
    rows = []
    for entry in entries:
        values = composite_values(definition.keys, entry)
        if values is not None:
            ref, timestamp, expires_at, labels = row_of(entry)
            rows.append((*values, timestamp, ref, expires_at, labels))
    connection.executemany(f"INSERT OR REPLACE INTO {definition.table} VALUES ({marks})", rows)


def delete_rows(connection: sqlite3.Connection, entries: Sequence[Entry], definitions: Sequence[Definition]) -> None:
    connection.executemany(
        "DELETE FROM labels WHERE key = ? AND value = ? AND timestamp = ? AND ref = ?",
        [(key, value, entry.timestamp, entry.ref) for entry in entries for key, value in entry.labels.items()],
    )
    for definition in definitions:
        match = " AND ".join(f"{column} = ?" for column in [*definition.columns, "timestamp", "ref"])
        placed = [(composite_values(definition.keys, entry), entry) for entry in entries]
        connection.executemany(
            f"DELETE FROM {definition.table} WHERE {match}",
            [(*values, entry.timestamp, entry.ref) for values, entry in placed if values is not None],
        )
    connection.executemany("DELETE FROM entries WHERE ref = ?", [(entry.ref,) for entry in entries])


def row_of(entry: Entry) -> Row:
    return entry.ref, entry.timestamp, entry.expires_at, msgspec.json.encode(entry.labels).decode()


def entry_of(row: Row) -> Entry:
    ref, timestamp, expires_at, labels = row
    return Entry(ref, _decode_labels(labels), timestamp, expires_at)
