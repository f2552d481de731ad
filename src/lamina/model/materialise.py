"""From stored batches to Message objects: scalars at once, labels when somebody looks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise, repeat

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lamina.model.message import Message
from lamina.model.rows import Row
from lamina.model.schema import flat_labels


class BatchLabels:
    """The labels of one batch, decoded as a whole at the first look.

    Each row's dict goes to one message only. Racing first looks do the same work twice, no harm.
    """

    __slots__ = ("_column", "_dicts")

    def __init__(self, column: pa.MapArray) -> None:
        self._column = column
        self._dicts: list[dict[str, str]] | None = None

    def labels_of(self, row: int) -> dict[str, str]:
        if self._dicts is None:
            self._dicts = _label_dicts(self._column)
        return self._dicts[row]


def _label_dicts(column: pa.MapArray) -> list[dict[str, str]]:
    offsets, keys, items = flat_labels(column)
    pairs = zip(texts(keys), texts(items), strict=True)
    counts = np.diff(offsets)
    each = int(counts[0]) if len(counts) else 0
    if each and (counts == each).all():
        # As many labels in every row: cutting and building happen in native code.
        return list(map(dict, zip(*[pairs] * each, strict=True)))
    found, ends = list(pairs), offsets.tolist()
    return [dict(found[start:end]) for start, end in pairwise(ends)]


class RowLabels:
    """The labels of packed rows."""

    __slots__ = ("_rows",)

    def __init__(self, rows: Sequence[Row]) -> None:
        self._rows = rows

    def labels_of(self, row: int) -> dict[str, str]:
        return self._rows[row].labels.copy()


def messages_of_batch(batch: pa.RecordBatch, stream: str, partition: int, offsets: Iterable[int]) -> Iterator[Message]:
    """Messages of a stored batch (or a slice of one), in row order."""
    have = dict(zip(batch.schema.names, batch.columns, strict=True))
    labelled = "labels" in have
    return map(
        Message,
        texts(have["topic"]),
        _values(have.get("value")),
        _values(have.get("key")),
        repeat(BatchLabels(have["labels"]) if labelled else None),
        have["timestamp"].to_numpy().tolist(),
        _values(have.get("expires_at")),
        _values(have.get("deliver_at")),
        _values(have.get("priority")),
        repeat(stream),
        repeat(partition),
        offsets,
        range(batch.num_rows) if labelled else repeat(-1),
    )


def messages_of_rows(rows: Sequence[Row], stream: str, partition: int, offsets: Iterable[int]) -> Iterator[Message]:
    """Messages of packed rows. Each gets its own labels when somebody looks: rows are shared by readers."""
    source = RowLabels(rows)
    for number, (row, offset) in enumerate(zip(rows, offsets, strict=False)):
        yield Message(
            row.topic,
            row.value,
            row.key,
            source,
            row.timestamp,
            row.expires_at,
            row.deliver_at,
            row.priority,
            stream,
            partition,
            offset,
            number,
        )


def rows_of_batch(batch: pa.RecordBatch) -> list[Row]:
    """Rows of a stored batch, for one so small that it is better packed."""
    return [
        Row(m.timestamp or 0, m.topic, m.key, m.value, m.labels, m.expires_at, m.deliver_at, m.priority)
        for m in messages_of_batch(batch, "", 0, range(batch.num_rows))
    ]


def texts(column: pa.DictionaryArray) -> list[str]:
    """Python texts of a coded column; the generic `to_pylist` is 40 times slower."""
    codes, dictionary = column.indices, column.dictionary
    if len(dictionary) > 4 * len(codes) + 16:
        return pc.take(dictionary, codes).to_pylist()  # type: ignore[no-any-return]
    return list(map(dictionary.to_pylist().__getitem__, codes.to_numpy().tolist()))


def _values(column: pa.Array | None) -> Iterable[object]:
    return repeat(None) if column is None else column.to_pylist()
