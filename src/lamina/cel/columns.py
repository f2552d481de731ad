"""The columns of a batch as filters see them: extracted when first asked for, once for all filters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lamina.cel.coded import Coded, Mask, Rows, constant_texts, plain_texts
from lamina.cel.label_columns import LabelColumns

Ints = npt.NDArray[np.int64]
T = TypeVar("T")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
TIME_US_MIN = -62_135_596_800_000_000
TIME_US_MAX = 253_402_300_799_999_999
"""The years 1 to 9999: what a CEL timestamp holds."""


class Columns:
    """One batch of READ_SCHEMA (a slice or a take of one too) and where it lies.

    Immutable but for what it remembers; racing first looks extract twice and see equal columns. Any thread.
    """

    def __init__(self, batch: pa.RecordBatch, stream: str, partition: int) -> None:
        self.batch = batch
        self.stream = stream
        self.partition = partition
        self._seen: dict[str, object] = {}

    def __len__(self) -> int:
        return int(self.batch.num_rows)

    def take(self, rows: Rows) -> Columns:
        """Only these rows, in this order; what is extracted already is not extracted again."""
        return TakenColumns(self, rows)

    def ints(self, name: str) -> tuple[Ints, Mask | None]:
        """A column of integers, and where it has none (None: nowhere)."""
        return self._once(name, lambda: self._ints(name))

    def texts(self, name: str) -> Coded:
        """`topic` or `ref`."""
        return self._once(name, self._topics if name == "topic" else self._refs)

    def label(self, key: str) -> Coded:
        """The values of a label; code -1 where a row does not have it."""
        return self.labels.get(key)

    def label_counts(self) -> Ints:
        return self._once("label counts", self.labels.counts)

    @property
    def labels(self) -> LabelColumns:
        """The labels of all rows, entry by entry."""
        return self._once("labels", lambda: LabelColumns.of(self.batch.column("labels")))

    @property
    def keys(self) -> pa.BinaryArray:
        """The messages' keys; null where a message has none."""
        return self.batch.column("key")

    def variables(self, row: int, names: Iterable[str]) -> dict[str, object]:
        """These variables of one row as the scalar path wants them; what is null is left out."""
        found: dict[str, object] = {}
        for name in names:
            if name == "labels":
                found[name] = self._label_dict(row)
            elif name in ("topic", "ref"):
                coded = self.texts(name)
                found[name] = coded.texts[int(coded.codes[row])].as_py()
            elif name == "key":
                found[name] = self.keys[row].as_py()
            elif name == "time":
                found[name] = time_of_us(int(self.ints("timestamp")[0][row]))
            else:
                values, missing = self.ints(name)
                found[name] = int(values[row]) if missing is None or not missing[row] else None
        return {name: value for name, value in found.items() if value is not None}

    def _label_dict(self, row: int) -> dict[str, str]:
        labels = self.labels
        entries = range(int(labels.offsets[row]), int(labels.offsets[row + 1]))
        keys, items = labels.keys, labels.items
        return {keys.texts[int(keys.codes[e])].as_py(): items.texts[int(items.codes[e])].as_py() for e in entries}

    def _once(self, name: str, make: Callable[[], T]) -> T:
        if name not in self._seen:
            self._seen[name] = make()
        return self._seen[name]  # type: ignore[return-value]

    def _ints(self, name: str) -> tuple[Ints, Mask | None]:
        if name == "partition":
            return np.full(len(self), self.partition, np.int64), None
        if name == "size":
            sizes = pc.binary_length(self.batch.column("value"))
            return (sizes.fill_null(0) if sizes.null_count else sizes).to_numpy().astype(np.int64), None
        column = self.batch.column(name)
        if not column.null_count:
            return column.to_numpy().astype(np.int64, copy=False), None
        return column.fill_null(0).to_numpy().astype(np.int64, copy=False), column.is_null().to_numpy(False)

    def _topics(self) -> Coded:
        column = self.batch.column("topic")
        return Coded(column.indices.to_numpy(), column.dictionary)

    def _refs(self) -> Coded:
        if not len(self):
            return constant_texts("", 0)
        prefix = f"{self.stream}/{self.partition}/"
        return plain_texts(pc.binary_join_element_wise(prefix, self.batch.column("offset").cast(pa.utf8()), ""))


class TakenColumns(Columns):
    """Some rows of other columns."""

    def __init__(self, source: Columns, rows: Rows) -> None:
        super().__init__(source.batch, source.stream, source.partition)
        self._source = source
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def ints(self, name: str) -> tuple[Ints, Mask | None]:
        return self._once(name, lambda: self._taken_ints(name))

    def texts(self, name: str) -> Coded:
        return self._once(name, lambda: self._source.texts(name).take(self._rows))

    def label(self, key: str) -> Coded:
        return self._once(f"label {key}", lambda: self._source.label(key).take(self._rows))

    def label_counts(self) -> Ints:
        return self._once("label counts", lambda: self._source.label_counts()[self._rows])

    @property
    def labels(self) -> LabelColumns:
        return self._once("labels", lambda: self._source.labels.take(self._rows))

    @property
    def keys(self) -> pa.BinaryArray:
        return self._once("keys", lambda: self._source.keys.take(pa.array(self._rows)))

    def _label_dict(self, row: int) -> dict[str, str]:
        return self._source._label_dict(int(self._rows[row]))

    def _taken_ints(self, name: str) -> tuple[Ints, Mask | None]:
        values, missing = self._source.ints(name)
        return values[self._rows], None if missing is None else missing[self._rows]


def with_time(variables: Mapping[str, object]) -> Mapping[str, object]:
    """The variables that have a value, with `time` beside `timestamp`."""
    found = {name: value for name, value in variables.items() if value is not None}
    timestamp = found.get("timestamp")
    if isinstance(timestamp, int) and "time" not in found and (time := time_of_us(timestamp)) is not None:
        found["time"] = time
    return found


def time_of_us(timestamp: int) -> datetime | None:
    """The instant, if a CEL timestamp can hold it."""
    return _EPOCH + timedelta(microseconds=timestamp) if TIME_US_MIN <= timestamp <= TIME_US_MAX else None
