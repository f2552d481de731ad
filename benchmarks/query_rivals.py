"""The databases beside which a query is measured, each filled with the same messages."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow as pa
import tantivy

from benchmarks.index_backends import redis_server
from benchmarks.labelled import CARDINALITIES
from lamina.index.backends import Entry, IndexStore, KvBackend, RedisBackend
from lamina.kv import RocksKv

LIMIT = 100
KEYS = list(CARDINALITIES)
Ask = Callable[[str, str], int]
Load = Callable[[Path, Sequence[pa.RecordBatch]], AbstractContextManager[Ask]]


@dataclass(frozen=True, slots=True)
class LoadedRival:
    """How to fill it; `rows_max` where filling takes minutes: with fewer messages it can only look better."""

    name: str
    load: Load
    must_be_slower: bool = True
    rows_max: int | None = None


def flat(batch: pa.RecordBatch) -> dict[str, list[object]]:
    """A column per label, beside timestamp, topic and value."""
    items = batch.column("labels").items.dictionary_decode().to_pylist()
    columns: dict[str, list[object]] = {key: items[at :: len(KEYS)] for at, key in enumerate(KEYS)}
    for name in ("timestamp", "value"):
        columns[name] = batch.column(name).to_pylist()
    return columns


@contextmanager
def load_tantivy(path: Path, batches: Sequence[pa.RecordBatch]) -> Iterator[Ask]:
    builder = tantivy.SchemaBuilder()
    for key in KEYS:
        builder.add_text_field(key, stored=False, tokenizer_name="raw", index_option="basic")
    builder.add_integer_field("timestamp", stored=True, fast=True)
    builder.add_bytes_field("value", stored=True)
    schema = builder.build()
    place = path / "tantivy"
    place.mkdir()
    index = tantivy.Index(schema, str(place))
    writer = index.writer(256 << 20, 1)
    for batch in batches:
        columns = flat(batch)
        names = list(columns)
        for row in zip(*columns.values(), strict=True):
            writer.add_document(tantivy.Document(**dict(zip(names, row, strict=True))))
    writer.commit()
    writer.wait_merging_threads()
    index.reload()
    searcher = index.searcher()

    def ask(app: str, thread: str) -> int:
        terms = [
            (tantivy.Occur.Must, tantivy.Query.term_query(schema, key, value, "basic"))
            for key, value in (("app", app), ("thread", thread))
        ]
        query = tantivy.Query.boolean_query(terms)
        hits = searcher.search(query, LIMIT, count=False, order_by_field="timestamp", order=tantivy.Order.Asc).hits
        return sum(len(searcher.doc(address)["value"][0]) for _, address in hits)

    yield ask


@contextmanager
def load_duckdb(path: Path, batches: Sequence[pa.RecordBatch]) -> Iterator[Ask]:
    connection = duckdb.connect(str(path / "duck.db"))
    tables = [pa.table(flat(batch)) for batch in batches]
    everything = pa.concat_tables(tables)
    connection.register("everything", everything)
    connection.execute("create table messages as select * from everything")
    connection.unregister("everything")
    for key in KEYS:
        connection.execute(f"create index by_{key} on messages ({key})")
    connection.execute("checkpoint")

    def ask(app: str, thread: str) -> int:
        found = connection.execute(
            "select timestamp, value from messages where app = ? and thread = ? order by timestamp limit ?",
            [app, thread, LIMIT],
        ).fetchall()
        return sum(len(value) for _, value in found)

    yield ask
    connection.close()


def _sqlite(*, composite: bool) -> Load:
    @contextmanager
    def load(path: Path, batches: Sequence[pa.RecordBatch]) -> Iterator[Ask]:
        connection = sqlite3.connect(path / f"composite-{composite}.db")
        connection.execute("pragma journal_mode = wal")
        columns = ", ".join(f"{key} text" for key in KEYS)
        connection.execute(f"create table messages (id integer primary key, {columns}, timestamp integer, value blob)")
        for key in KEYS:
            connection.execute(f"create index by_{key} on messages ({key})")
        if composite:
            connection.execute("create index by_pair on messages (app, thread, timestamp)")
        marks = ", ".join("?" * (len(KEYS) + 2))
        for batch in batches:
            rows = zip(*flat(batch).values(), strict=True)
            connection.executemany(f"insert into messages ({', '.join(KEYS)}, timestamp, value) values ({marks})", rows)
            connection.commit()

        def ask(app: str, thread: str) -> int:
            found = connection.execute(
                "select timestamp, value from messages where app = ? and thread = ? order by timestamp, id limit ?",
                (app, thread, LIMIT),
            ).fetchall()
            return sum(len(value) for _, value in found)

        yield ask
        connection.close()

    return load


@contextmanager
def load_rocks(path: Path, batches: Sequence[pa.RecordBatch]) -> Iterator[Ask]:
    with IndexStore(KvBackend(RocksKv(path / "rocks"))) as store:
        yield _filled(store, batches)


@contextmanager
def load_redis(path: Path, batches: Sequence[pa.RecordBatch]) -> Iterator[Ask]:
    with redis_server() as url, IndexStore(RedisBackend(url)) as store:
        yield _filled(store, batches)


def _filled(store: IndexStore, batches: Sequence[pa.RecordBatch]) -> Ask:
    """Entries have no values, so these answers are a little less than the others'."""
    number = 0
    for batch in batches:
        columns = flat(batch)
        found = []
        for row in zip(*(columns[key] for key in KEYS), columns["timestamp"], strict=True):
            *labels, timestamp = row
            found.append(Entry(f"{number:016x}", dict(zip(KEYS, map(str, labels), strict=True)), int(str(timestamp))))
            number += 1
        store.index_many(found)

    def ask(app: str, thread: str) -> int:
        return len(store.query(labels={"app": app, "thread": thread}, limit=LIMIT).entries)

    return ask


_BACKEND_ROWS = 100_000
RIVALS: tuple[LoadedRival, ...] = (
    LoadedRival("tantivy", load_tantivy),
    LoadedRival("DuckDB", load_duckdb),
    LoadedRival("SQLite, single-column indexes", _sqlite(composite=False)),
    LoadedRival("SQLite, hand-made composite index", _sqlite(composite=True), must_be_slower=False),
    LoadedRival("our RocksDB backend", load_rocks, rows_max=_BACKEND_ROWS),
    LoadedRival("our Redis backend", load_redis, rows_max=_BACKEND_ROWS),
)
