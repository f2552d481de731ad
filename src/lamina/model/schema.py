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
    """A stored batch of checked rows, column by column: nothing is made per field but the column itself."""
    columns: dict[str, pa.Array] = {
        "timestamp": pa.array([row.timestamp for row in rows], pa.int64()),
        "topic": pa.array([row.topic for row in rows], pa.utf8()).dictionary_encode(),
        "key": pa.array([row.key for row in rows], pa.binary()),
        "value": pa.array([row.value for row in rows], pa.binary()),
        "labels": _labels_of_rows(rows),
        "expires_at": pa.array([row.expires_at for row in rows], pa.int64()),
        "deliver_at": pa.array([row.deliver_at for row in rows], pa.int64()),
        "priority": pa.array([row.priority for row in rows], pa.int8()),
    }
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


def _labels_of_rows(rows: Sequence[Row]) -> pa.MapArray:
    offsets = np.zeros(len(rows) + 1, np.int32)
    np.cumsum([len(row.labels) for row in rows], out=offsets[1:])
    keys = list(chain.from_iterable(row.labels for row in rows))
    items = list(chain.from_iterable(row.labels.values() for row in rows))
    return pa.MapArray.from_arrays(
        pa.array(offsets), pa.array(keys, pa.utf8()).dictionary_encode(), pa.array(items, pa.utf8()).dictionary_encode()
    )


def _is_empty(name: str, column: pa.Array) -> bool:
    if name == "labels":
        return bool(column.offsets[0].as_py() == column.offsets[-1].as_py())
    return bool(column.null_count == len(column))
