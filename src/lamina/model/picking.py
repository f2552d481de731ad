"""Single messages out of a batch, without decoding their neighbours: for queries whose hits are far apart."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import pyarrow as pa

from lamina.model.message import Message
from lamina.model.rows import Row

_PLAIN = {"timestamp", "topic", "labels", "value"}
MakeMessage = Callable[[int, str, int, int], Message]
"""From (row, stream, partition, offset)."""


class BatchPicker:
    """Messages of one stored batch by row number. It is the label source of what it picks. Any thread."""

    __slots__ = ("_labels", "message")

    def __init__(self, batch: pa.RecordBatch) -> None:
        have = dict(zip(batch.schema.names, batch.columns, strict=True))
        self._labels = _Labels(have["labels"]) if "labels" in have else None
        self.message: MakeMessage = _maker(have, self if self._labels is not None else None)

    def labels_of(self, row: int) -> dict[str, str]:
        assert self._labels is not None
        return self._labels.at(row)


def _maker(have: dict[str, pa.Array], source: BatchPicker | None) -> MakeMessage:
    """A function over local names: a query makes thousands of messages, attribute look-ups would be half of it."""
    times = _numbers(have["timestamp"], "q")
    topics = _Texts(have["topic"])
    codes, decoded, topic_at = topics.codes, topics.decoded, topics.at
    if have.keys() <= _PLAIN and (plain := _plain_bytes(have.get("value"))) is not None:
        ends, data = plain

        def plain_message(row: int, stream: str, partition: int, offset: int) -> Message:
            return Message(
                decoded.get(codes[row]) or topic_at(row),
                data[ends[row] : ends[row + 1]].tobytes(),
                None,
                source,
                times[row],
                None,
                None,
                None,
                stream,
                partition,
                offset,
                row,
            )

        return plain_message
    value, key = _picker_of_bytes(have.get("value")), _picker_of_bytes(have.get("key"))
    expires_at, deliver_at, priority = (have.get(name) for name in ("expires_at", "deliver_at", "priority"))

    def message(row: int, stream: str, partition: int, offset: int) -> Message:
        return Message(
            decoded.get(codes[row]) or topic_at(row),
            None if value is None else value(row),
            None if key is None else key(row),
            source,
            times[row],
            None if expires_at is None else expires_at[row].as_py(),
            None if deliver_at is None else deliver_at[row].as_py(),
            None if priority is None else priority[row].as_py(),
            stream,
            partition,
            offset,
            row,
        )

    return message


class RowPicker:
    """The same for packed rows."""

    __slots__ = ("_rows",)

    def __init__(self, rows: Sequence[Row]) -> None:
        self._rows = rows

    def message(self, row: int, stream: str, partition: int, offset: int) -> Message:
        packed = self._rows[row]
        return Message(
            packed.topic,
            packed.value,
            packed.key,
            self,
            packed.timestamp,
            packed.expires_at,
            packed.deliver_at,
            packed.priority,
            stream,
            partition,
            offset,
            row,
        )

    def labels_of(self, row: int) -> dict[str, str]:
        return self._rows[row].labels.copy()


class _Texts:
    """A coded text column; only the texts that somebody asked for are decoded."""

    __slots__ = ("_dictionary", "codes", "decoded")

    def __init__(self, column: pa.DictionaryArray) -> None:
        self.codes = _numbers(column.indices, "i")
        self._dictionary = column.dictionary
        self.decoded: dict[int, str] = {}

    def at(self, row: int) -> str:
        code = self.codes[row]
        text = self.decoded.get(code)
        if text is None:
            text = self.decoded[code] = self._dictionary[code].as_py()
        return text


class _Labels:
    __slots__ = ("_ends", "_keys", "_values")

    def __init__(self, column: pa.MapArray) -> None:
        # The children are those of the whole array, whatever slice the column is, and so are the offsets' values.
        self._ends = _numbers(column.offsets, "i")
        self._keys = _Texts(column.keys)
        self._values = _Texts(column.items)

    def at(self, row: int) -> dict[str, str]:
        keys, values = self._keys.at, self._values.at
        return {keys(entry): values(entry) for entry in range(self._ends[row], self._ends[row + 1])}


def _picker_of_bytes(column: pa.Array | None) -> Callable[[int], bytes | None] | None:
    if column is None:
        return None
    plain = _plain_bytes(column)
    if plain is None:
        return lambda row: column[row].as_py()
    ends, data = plain
    return lambda row: data[ends[row] : ends[row + 1]].tobytes()


def _plain_bytes(column: pa.Array | None) -> tuple[memoryview[int], memoryview] | None:
    """Where each value ends, and the bytes of all; None if some are null."""
    if column is None or column.null_count:
        return None
    _, ends, data = column.buffers()
    if ends is None:
        return None
    numbers = memoryview(ends).cast("B").cast("i")[column.offset : column.offset + len(column) + 1]
    return numbers, memoryview(data) if data is not None else memoryview(b"")


def _numbers(column: pa.Array, code: Literal["i", "q"]) -> memoryview[int]:
    """A column without nulls as Python numbers."""
    buffer = column.buffers()[1]
    if buffer is None:
        return memoryview(b"").cast(code)
    return memoryview(buffer).cast("B").cast(code)[column.offset : column.offset + len(column)]
