"""Random messages and random tables: every way into a batch and out of it keeps all that they say."""

from __future__ import annotations

from collections.abc import Sequence
from zlib import crc32

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lamina.model import (
    READ_SCHEMA,
    Message,
    Now,
    PartitionBy,
    Row,
    batch_of_rows,
    complete,
    messages_of_batch,
    messages_of_rows,
    partition_of,
    rows_of,
    slice_compact,
    split_batch,
    split_rows,
    stored_batch,
)
from tests.unit.model.shapes import NOW, label_map

BOUNDED = settings(max_examples=40, deadline=None)
TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12)
NAMES = TEXTS.filter(bool)
LABELS = st.dictionaries(NAMES, TEXTS, max_size=4)
TIMES = st.integers(0, NOW.us)
LATER = st.none() | st.integers(0, 253_402_300_799_999_999)
ROWS = st.builds(
    Row,
    timestamp=TIMES,
    topic=NAMES,
    key=st.none() | st.binary(max_size=8),
    value=st.none() | st.binary(max_size=20),
    labels=LABELS,
    expires_at=LATER,
    deliver_at=LATER,
    priority=st.none() | st.integers(0, 127),
)
ROW_LISTS = st.lists(ROWS, min_size=1, max_size=12)
TEXT_KINDS = st.sampled_from(
    [pa.utf8(), pa.large_utf8(), pa.dictionary(pa.int8(), pa.utf8()), pa.dictionary(pa.int32(), pa.utf8())]
)


def read_rows(rows: Sequence[Row], offsets: Sequence[int] | None = None) -> list[Message]:
    return list(messages_of_rows(rows, "s", 0, range(len(rows)) if offsets is None else offsets))


def read_batch(batch: pa.RecordBatch, offsets: Sequence[int] | None = None) -> list[Message]:
    return list(messages_of_batch(batch, "s", 0, range(batch.num_rows) if offsets is None else offsets))


@BOUNDED
@given(ROW_LISTS)
def test_messages_become_rows_and_a_batch_and_messages_again(rows: list[Row]) -> None:
    wanted = read_rows(rows)
    assert rows_of(wanted, Now(NOW.us, 0)) == rows
    assert read_batch(batch_of_rows(rows)) == wanted


@BOUNDED
@given(ROW_LISTS)
def test_dicts_become_the_same_rows(rows: list[Row]) -> None:
    dicts = [{name: getattr(row, name) for name in row.__struct_fields__} for row in rows]
    assert rows_of(dicts, Now(NOW.us, 0)) == rows


@BOUNDED
@given(ROW_LISTS)
def test_a_stored_batch_has_no_columns_that_say_nothing(rows: list[Row]) -> None:
    names = set(batch_of_rows(rows).schema.names)
    for name in ("key", "value", "expires_at", "deliver_at", "priority"):
        assert (name in names) == any(getattr(row, name) is not None for row in rows)
    assert ("labels" in names) == any(row.labels for row in rows)
    assert {"timestamp", "topic"} <= names


def table_of(rows: Sequence[Row], topic_kind: pa.DataType, label_kind: pa.DataType) -> pa.RecordBatch:
    """The rows in somebody else's types, with two rows of noise in front to slice away."""
    noise = Row(1, "noise", b"n", b"n", {"noise": "n"}, 1, 1, 1)
    padded = [noise, noise, *rows]
    topics = pa.array([row.topic for row in padded])
    columns = {
        "priority": pa.array([row.priority for row in padded], pa.int64()),
        "labels": label_map([list(row.labels.items()) for row in padded], label_kind, label_kind),
        "value": pa.array([row.value for row in padded], pa.large_binary()),
        "key": pa.array([row.key for row in padded], pa.binary()),
        "timestamp": pa.array([row.timestamp for row in padded], pa.timestamp("us", "UTC")),
        "topic": topics.dictionary_encode().cast(topic_kind)
        if pa.types.is_dictionary(topic_kind)
        else topics.cast(topic_kind),
        "expires_at": pa.array([row.expires_at for row in padded], pa.int64()),
        "deliver_at": pa.array([row.deliver_at for row in padded], pa.int64()),
        "offset": pa.array(range(len(padded))),
    }
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns)).slice(2)


@BOUNDED
@given(ROW_LISTS, TEXT_KINDS, TEXT_KINDS)
def test_a_foreign_table_is_read_as_plain_python_would(
    rows: list[Row], topic_kind: pa.DataType, label_kind: pa.DataType
) -> None:
    assert read_batch(stored_batch(table_of(rows, topic_kind, label_kind), NOW)) == read_rows(rows)


@BOUNDED
@given(ROW_LISTS, st.data())
def test_a_compact_slice_keeps_its_contents(rows: list[Row], data: st.DataObject) -> None:
    first = data.draw(st.integers(0, len(rows) - 1))
    length = data.draw(st.integers(1, len(rows) - first))
    part = slice_compact(batch_of_rows(rows).slice(first, length))
    assert read_batch(part) == read_rows(rows[first : first + length])


@BOUNDED
@given(ROW_LISTS, st.data())
def test_a_compact_selection_keeps_its_contents(rows: list[Row], data: st.DataObject) -> None:
    chosen = data.draw(st.lists(st.integers(0, len(rows) - 1), min_size=1, max_size=8))
    part = slice_compact(batch_of_rows(rows).take(pa.array(chosen)))
    assert read_batch(part) == read_rows([rows[at] for at in chosen])


def test_a_compact_slice_of_a_large_batch_carries_only_its_own_texts() -> None:
    rows = [Row(n, f"topic-{n}", None, None, {f"key-{n}": f"value-{n}"}) for n in range(5000)]
    part = slice_compact(batch_of_rows(rows).slice(4000, 3))
    assert part.column("topic").dictionary.to_pylist() == ["topic-4000", "topic-4001", "topic-4002"]
    assert part.column("labels").keys.dictionary.to_pylist() == ["key-4000", "key-4001", "key-4002"]
    assert read_batch(part) == read_rows(rows[4000:4003])


@BOUNDED
@given(ROW_LISTS, st.integers(0, 2**40))
def test_a_complete_batch_has_the_schema_of_readers(rows: list[Row], first: int) -> None:
    offsets = np.arange(first, first + len(rows), dtype=np.int64)
    batch = complete(batch_of_rows(rows), offsets)
    batch.validate(full=True)
    assert batch.schema.equals(READ_SCHEMA)
    assert batch.column("offset").to_pylist() == offsets.tolist()
    assert read_batch(batch.drop_columns(["offset"])) == read_rows(rows)


@pytest.mark.parametrize("count", [1, 16_384, 16_385, 40_000])
def test_left_out_columns_come_back_for_any_number_of_rows(count: int) -> None:
    stored = pa.RecordBatch.from_arrays(
        [pa.array(np.arange(count)), pa.array(["t"] * count).dictionary_encode()], names=["timestamp", "topic"]
    )
    batch = complete(stored, np.arange(count))
    batch.validate(full=True)
    assert batch.num_rows == count
    assert batch.column("value").null_count == count
    assert batch.column("labels").null_count == 0


BY = st.sampled_from(["topic", "key"])


@BOUNDED
@given(ROW_LISTS, st.integers(1, 7), BY)
def test_splitting_rows_and_splitting_their_batch_agree_with_partition_of(
    rows: list[Row], partitions: int, by: PartitionBy
) -> None:
    wanted: dict[int, list[Row]] = {}
    for row in rows:
        wanted.setdefault(partition_of(row.topic, row.key, partitions, by), []).append(row)
    assert split_rows(rows, partitions, by) == wanted
    found = split_batch(batch_of_rows(rows), partitions, by)
    assert {number: read_batch(part) for number, part in found.items()} == {
        number: read_rows(part) for number, part in wanted.items()
    }


@BOUNDED
@given(NAMES, st.none() | st.binary(max_size=8), st.integers(2, 1024))
def test_a_partition_is_the_crc32_of_the_topic_or_the_key(topic: str, key: bytes | None, partitions: int) -> None:
    by_topic = crc32(topic.encode()) % partitions
    assert partition_of(topic, key, partitions, "topic") == by_topic
    assert partition_of(topic, key, partitions, "key") == (by_topic if key is None else crc32(key) % partitions)
    assert partition_of(topic, key, 1, "key") == 0


@BOUNDED
@given(ROW_LISTS)
def test_what_was_read_can_be_published_again(rows: list[Row]) -> None:
    once = stored_batch(complete(batch_of_rows(rows), np.arange(len(rows))), NOW)
    assert read_batch(once) == read_rows(rows)
    assert read_batch(stored_batch(complete(once, np.arange(len(rows))), NOW)) == read_rows(rows)
