"""From whatever people hold (tables, batches, dicts, Messages) to stored batches that keep all the rules.

Everything is checked before anything is returned; an error names row, column and reason.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lamina.errors import InvalidRequest
from lamina.model import limits
from lamina.model.labels import check_dictionary, coded_texts, labels_column
from lamina.model.message import Message
from lamina.model.rows import Row, make_row, row_of_message
from lamina.model.schema import stored

_PLACE_COLUMNS = frozenset({"offset", "partition", "stream"})
"""What a reader adds: ignored, so that a batch that was read can be published again."""
_SMALL_CHUNK_ROWS = 1024
_OUTSIDE = "is outside 1970 to 9999"
_KNOWN = ("topic", "value", "key", "labels", "timestamp", "expires_at", "deliver_at", "priority")


@dataclass(frozen=True, slots=True)
class Now:
    """The time of the call and how far ahead of it a timestamp may be."""

    us: int
    future_us: int


def rows_of(items: Iterable[object], now: Now) -> list[Row]:
    """Checked rows of Messages or dicts; InvalidRequest names the first bad one by its position."""
    rows: list[Row] = []
    for position, item in enumerate(items):
        try:
            if isinstance(item, Message):
                rows.append(row_of_message(item, now.us, now.future_us))
            elif isinstance(item, Mapping):
                rows.append(_row_of_mapping(item, now))
            else:
                raise InvalidRequest(f"expected a lamina.Message or a dict, not {type(item).__name__}")
        except InvalidRequest as error:
            raise InvalidRequest(f"message {position}: {error}") from None
    return rows


def arrow_batches(source: object) -> Iterable[pa.RecordBatch] | None:
    """The record batches of an Arrow-like source, or None if it is not one."""
    if isinstance(source, pa.RecordBatch):
        return (source,)
    found: Iterable[pa.RecordBatch] | None = None
    if isinstance(source, pa.Table):
        # Many small chunks would become many small frames.
        chunks = source.column(0).num_chunks if source.num_columns else 0
        small = chunks > 1 and source.num_rows < chunks * _SMALL_CHUNK_ROWS
        found = (source.combine_chunks() if small else source).to_batches()
    elif isinstance(source, pa.RecordBatchReader):
        found = source
    elif hasattr(source, "__arrow_c_stream__"):
        found = pa.RecordBatchReader.from_stream(source)
    elif hasattr(source, "__arrow_c_array__"):
        found = (pa.record_batch(source),)
    return found


def stored_batch(batch: pa.RecordBatch, now: Now) -> pa.RecordBatch:
    """A stored batch of any reasonable Arrow batch with at least one row."""
    _check_names(batch.schema.names)
    count = batch.num_rows
    have = dict(zip(batch.schema.names, batch.columns, strict=True))
    columns: dict[str, pa.Array] = {
        "timestamp": _timestamps(have.get("timestamp"), count, now),
        "topic": _topics(have["topic"]),
        "value": _bytes("value", have["value"], limits.VALUE_BYTES_MAX),
    }
    if "key" in have:
        columns["key"] = _bytes("key", have["key"], limits.KEY_BYTES_MAX)
    if "labels" in have and have["labels"].null_count < count:
        columns["labels"] = labels_column(have["labels"])
    for name in ("expires_at", "deliver_at"):
        if name in have and have[name].null_count < count:
            columns[name] = _times(name, have[name])
    if "priority" in have and have["priority"].null_count < count:
        columns["priority"] = _priorities(have["priority"])
    return stored(columns)


def _row_of_mapping(item: Mapping[str, object], now: Now) -> Row:
    if unknown := [name for name in item if name not in _KNOWN and name not in _PLACE_COLUMNS]:
        raise InvalidRequest(_unknown_column(str(unknown[0])))
    if "topic" not in item or "value" not in item:
        raise InvalidRequest(f"'{'topic' if 'topic' not in item else 'value'}' is missing (a tombstone has value None)")
    return make_row(
        item["topic"],  # type: ignore[arg-type]
        item["value"],  # type: ignore[arg-type]
        item.get("key"),  # type: ignore[arg-type]
        item.get("labels"),  # type: ignore[arg-type]
        item.get("timestamp"),  # type: ignore[arg-type]
        now_us=now.us,
        future_us=now.future_us,
        expires_at=item.get("expires_at"),  # type: ignore[arg-type]
        deliver_at=item.get("deliver_at"),  # type: ignore[arg-type]
        priority=item.get("priority"),  # type: ignore[arg-type]
    )


def _check_names(names: Sequence[str]) -> None:
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidRequest(f"column {twice!r} is there twice")
    for name in names:
        if name not in _KNOWN and name not in _PLACE_COLUMNS:
            raise InvalidRequest(_unknown_column(name))
    for name in ("topic", "value"):
        if name not in names:
            raise InvalidRequest(f"column {name!r} is missing; there are {', '.join(names) or 'no columns'}")


def _unknown_column(name: str) -> str:
    near = difflib.get_close_matches(name, _KNOWN, 1)
    hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(_KNOWN)}"
    return f"unknown column {name!r}: {hint}"


def _topics(column: pa.Array) -> pa.DictionaryArray:
    coded = coded_texts("column 'topic'", column)
    if isinstance(coded, int):
        raise InvalidRequest(f"row {coded}, column 'topic': null; every message has a topic")
    check_dictionary("topic", coded, limits.TOPIC_BYTES_MAX, None, empty=False)
    return coded


def _bytes(name: str, column: pa.Array, bytes_max: int) -> pa.Array:
    if column.type != pa.binary():
        column = pa.nulls(len(column), pa.binary()) if pa.types.is_null(column.type) else _binary(name, column)
    # A column's whole data is an upper bound of each of its cells: the cells are looked at only beyond it.
    if column.nbytes > bytes_max:
        sizes = pc.binary_length(column)
        if (longest := pc.max(sizes).as_py()) is not None and longest > bytes_max:
            row = int(np.argmax(sizes.fill_null(0).to_numpy()))
            raise InvalidRequest(f"row {row}, column {name!r}: {longest} bytes, at most {bytes_max} are allowed")
    return column


def _binary(name: str, column: pa.Array) -> pa.Array:
    kind = column.type
    if pa.types.is_dictionary(kind):
        column, kind = column.dictionary_decode(), kind.value_type
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    is_bytes = pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind) or pa.types.is_fixed_size_binary(kind)
    if kind != pa.binary() and not (is_text or is_bytes):
        raise InvalidRequest(f"column {name!r}: type {kind} is neither bytes nor text")
    return _cast(name, column, pa.binary())


def _timestamps(column: pa.Array | None, count: int, now: Now) -> pa.Array:
    if column is None or column.null_count == count:
        return pa.array(np.full(count, now.us, np.int64))
    times = _times("timestamp", column)
    if times.null_count:
        times = times.fill_null(now.us)
    values = times.to_numpy()
    if int(values.max()) > now.us + now.future_us:
        row = int(np.argmax(values))
        ahead = (int(values[row]) - now.us) / 1e6
        raise InvalidRequest(
            f"row {row}, column 'timestamp': {values[row]} is {ahead:.0f} s in the future, allowed are "
            f"{now.future_us / 1e6:.0f} s; times are microseconds: check the unit, or raise "
            "log.timestamp_future_seconds"
        )
    return times


def _times(name: str, column: pa.Array) -> pa.Array:
    if pa.types.is_timestamp(column.type):
        column = _microseconds(name, column.cast(pa.int64()), column.type.unit)
    elif column.type != pa.int64():
        if not pa.types.is_integer(column.type):
            raise InvalidRequest(f"column {name!r}: type {column.type} is neither microseconds (int64) nor a timestamp")
        column = _cast(name, column, pa.int64())
    return _within(name, column, limits.TIMESTAMP_US_MAX, _OUTSIDE)


def _microseconds(name: str, times: pa.Array, unit: str) -> pa.Array:
    """Nanoseconds lose their last digits; coarser units must not wrap around."""
    if unit == "ns":
        return pc.divide(_within(name, times, 2**63 - 1, _OUTSIDE), 1000)
    factor = {"s": 1_000_000, "ms": 1000, "us": 1}[unit]
    return pc.multiply(_within(name, times, limits.TIMESTAMP_US_MAX // factor, _OUTSIDE), factor)


def _priorities(column: pa.Array) -> pa.Array:
    if not pa.types.is_integer(column.type):
        raise InvalidRequest(f"column 'priority': type {column.type} is not an integer")
    high = limits.PRIORITY_MAX
    return _within("priority", column, high, f"is outside 0 to {high}").cast(pa.int8())


def _within(name: str, column: pa.Array, high: int, reason: str) -> pa.Array:
    """InvalidRequest for the first number that is not null and not in [0, high]."""
    least, largest = (bound.as_py() for bound in pc.min_max(column).values())
    if least is not None and (least < 0 or largest > high):
        bad = pc.or_(pc.less(column, 0), pc.greater(column, high)).fill_null(False)
        row = int(np.flatnonzero(bad.to_numpy(zero_copy_only=False))[0])
        raise InvalidRequest(f"row {row}, column {name!r}: {column[row].as_py()} {reason}")
    return column


def _cast(name: str, column: pa.Array, kind: pa.DataType) -> pa.Array:
    try:
        return column.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidRequest(f"column {name!r}: type {column.type} cannot be read as {kind}: {error}") from None
