"""The Arrow schema of a batch, and the way from rows to a batch and back.

A STORED batch leaves out optional columns that would be null (or, for labels, empty) in every row: they cost
up to 17 bytes a message otherwise. `complete` puts them back for readers.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec.structs import astuple

from lamina.model.rows import Row

TEXT_CODES = pa.dictionary(pa.int32(), pa.utf8())
LABELS = pa.map_(TEXT_CODES, TEXT_CODES)
COLUMNS: dict[str, pa.DataType] = {
    "timestamp": pa.int64(),
    "topic": TEXT_CODES,
    "key": pa.binary(),
    "value": pa.binary(),
    "labels": LABELS,
    "expires_at": pa.int64(),
    "deliver_at": pa.int64(),
    "priority": pa.int8(),
}
READ_SCHEMA = pa.schema([pa.field("offset", pa.int64()), *(pa.field(n, t) for n, t in COLUMNS.items())])
"""What readers get: the message columns with their offsets in front."""

_MISSING = {name: pa.nulls(16_384, COLUMNS[name]) for name in ("key", "value", "expires_at", "deliver_at", "priority")}


def batch_of_rows(rows: Sequence[Row]) -> pa.RecordBatch:
    """A stored batch of checked rows. The rows are turned into columns by native code, none of it per field."""
    timestamps, topics, keys, values, labels, *rest = zip(*map(astuple, rows), strict=True)
    columns: dict[str, pa.Array] = {
        "timestamp": pa.array(timestamps, pa.int64()),
        "topic": pa.array(topics, pa.utf8()).dictionary_encode(),
    }
    for name, column in zip(
        ("key", "value", "expires_at", "deliver_at", "priority"), (keys, values, *rest), strict=True
    ):
        if column.count(None) < len(rows):
            columns[name] = pa.array(column, COLUMNS[name])
    if any(labels):
        columns["labels"] = _labels_of_dicts(labels)
    return stored(columns)


def stored(columns: dict[str, pa.Array]) -> pa.RecordBatch:
    """The batch without its empty optional columns, in schema order."""
    kept = {name: columns[name] for name in COLUMNS if name in columns and not _is_empty(name, columns[name])}
    return pa.RecordBatch.from_arrays(list(kept.values()), names=list(kept))


def complete(batch: pa.RecordBatch, offsets: npt.NDArray[np.int64]) -> pa.RecordBatch:
    """The batch as readers see it: all columns of READ_SCHEMA, without copying those that are there."""
    have = dict(zip(batch.schema.names, batch.columns, strict=True))
    count = batch.num_rows
    arrays = [pa.array(offsets)]
    arrays += [have[name] if name in have else missing(name, count) for name in COLUMNS]
    return pa.RecordBatch.from_arrays(arrays, schema=READ_SCHEMA)


def missing(name: str, count: int) -> pa.Array:
    """A column that was left out: nulls, or empty labels."""
    if name == "labels":
        empty = pa.array([], TEXT_CODES)
        return pa.MapArray.from_arrays(pa.array(np.zeros(count + 1, np.int32)), empty, empty)
    spare = _MISSING[name]
    return spare.slice(0, count) if count <= len(spare) else pa.nulls(count, type=COLUMNS[name])


def compact_codes(column: pa.DictionaryArray) -> pa.DictionaryArray:
    """The same texts with a dictionary of only those in use: a taken slice drags the whole one along."""
    if len(column.dictionary) <= 2 * len(column) + 16:
        return column
    return column.dictionary_decode().dictionary_encode()


def compact_labels(column: pa.MapArray) -> pa.MapArray:
    """The same labels, rebased to start at 0 and with compact dictionaries."""
    offsets, keys, items = flat_labels(column)
    return pa.MapArray.from_arrays(pa.array(offsets), compact_codes(keys), compact_codes(items))


def flat_labels(column: pa.MapArray) -> tuple[npt.NDArray[np.int32], pa.Array, pa.Array]:
    """(offsets from 0, keys, values) of a map column without null rows; `.keys` alone ignores a slice."""
    offsets = column.offsets.to_numpy()
    first, end = int(offsets[0]), int(offsets[-1])
    return offsets - offsets[0], column.keys.slice(first, end - first), column.items.slice(first, end - first)


def slice_compact(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with dictionaries no larger than its rows need; call it on slices and takes before storing."""
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    columns["topic"] = compact_codes(columns["topic"])
    if "labels" in columns:
        columns["labels"] = compact_labels(columns["labels"])
    return stored(columns)


def _labels_of_dicts(labels: Sequence[dict[str, str]]) -> pa.MapArray:
    offsets = np.zeros(len(labels) + 1, np.int32)
    np.cumsum(list(map(len, labels)), out=offsets[1:])
    patterns = set(map(tuple, labels))
    if len(patterns) == 1:
        # Messages of one kind carry the same keys in the same order: their codes need no look-up.
        names = pa.array(patterns.pop(), pa.utf8())
        codes = pa.array(np.tile(np.arange(len(names), dtype=np.int32), len(labels)))
        keys = pa.DictionaryArray.from_arrays(codes, names)
    else:
        keys = pa.array(list(chain.from_iterable(labels)), pa.utf8()).dictionary_encode()
    items = pa.array(list(chain.from_iterable(map(dict.values, labels))), pa.utf8())
    return pa.MapArray.from_arrays(pa.array(offsets), keys, items.dictionary_encode())


def _is_empty(name: str, column: pa.Array) -> bool:
    if name == "labels":
        return bool(column.offsets[0].as_py() == column.offsets[-1].as_py())
    return bool(column.null_count == len(column))
