"""Any reasonable Arrow shape is taken and means the same."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pytest

from lamina.model import arrow_batches, stored_batch
from tests.unit.model.shapes import NOW, batch, coded, converted, label_map, raw_text

TEXT_TYPES = [pa.utf8(), pa.large_utf8(), pa.string_view()]
CODE_TYPES = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
LABEL_TYPES = [
    pa.utf8(),
    pa.large_utf8(),
    pa.string_view(),
    pa.dictionary(pa.int8(), pa.utf8()),
    pa.dictionary(pa.int16(), pa.large_utf8()),
    pa.dictionary(pa.int32(), pa.utf8()),
    pa.dictionary(pa.uint32(), pa.utf8()),
]
LABELS = [[("app", "dm"), ("user", "ä")], [], None, [("app", "mail")], [("z", ""), ("a", "x"), ("m", "y")]]
LABEL_DICTS = [dict(row or ()) for row in LABELS]


@pytest.mark.parametrize("kind", TEXT_TYPES, ids=str)
def test_topics_of_every_text_type(kind: pa.DataType) -> None:
    found = converted(batch(topic=pa.array(["a", "b", "ä", "b"], kind)))
    assert [message.topic for message in found] == ["a", "b", "ä", "b"]


@pytest.mark.parametrize("text_type", TEXT_TYPES, ids=str)
@pytest.mark.parametrize("code_type", CODE_TYPES, ids=str)
def test_topics_with_every_kind_of_code(code_type: pa.DataType, text_type: pa.DataType) -> None:
    found = converted(batch(topic=coded(["x", "y"], [1, 0, 1], code_type, text_type)))
    assert [message.topic for message in found] == ["y", "x", "y"]


def test_a_dictionary_may_hold_unused_entries_of_any_kind() -> None:
    texts = ["used", None, "", "n\0l", "x" * 5000]
    found = converted(batch(topic=coded(texts, [0, 0], pa.int32(), pa.utf8())))
    assert [message.topic for message in found] == ["used", "used"]


def test_a_dictionary_may_hold_unused_bytes_that_are_no_text() -> None:
    topics = pa.DictionaryArray.from_arrays(pa.array([0, 0], pa.int32()), raw_text(b"used", b"\xff\xfe"))
    assert [message.topic for message in converted(batch(topic=topics))] == ["used", "used"]


def test_a_dictionary_that_holds_a_text_twice_is_stored_with_it_once() -> None:
    found = stored_batch(batch(topic=coded(["same", "same"], [0, 1], pa.int32(), pa.utf8())), NOW)
    dictionary = found.column("topic").dictionary.to_pylist()
    assert dictionary == ["same"]


def test_a_large_dictionary_is_not_dragged_along_by_a_few_rows() -> None:
    texts = [f"topic-{n}" for n in range(10_000)]
    found = stored_batch(batch(topic=coded(texts, [9_999, 3], pa.int32(), pa.utf8())), NOW)
    assert len(found.column("topic").dictionary) == 2


@pytest.mark.parametrize(
    "kind",
    [pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(3), pa.utf8(), pa.large_utf8(), pa.string_view()],
    ids=str,
)
@pytest.mark.parametrize("name", ["key", "value"])
def test_keys_and_values_of_every_type_of_bytes(name: str, kind: pa.DataType) -> None:
    found = converted(batch(**{name: pa.array([b"abc", None, b"xyz"]).cast(kind)}))
    assert [getattr(message, name) for message in found] == [b"abc", None, b"xyz"]


@pytest.mark.parametrize("name", ["key", "value"])
def test_keys_and_values_from_a_dictionary(name: str) -> None:
    column = pa.DictionaryArray.from_arrays(pa.array([1, None, 0, 2], pa.int8()), pa.array([b"a", b"b", None]))
    assert [getattr(message, name) for message in converted(batch(**{name: column}))] == [b"b", None, b"a", None]


@pytest.mark.parametrize("name", ["key", "value", "labels", "timestamp", "expires_at", "deliver_at", "priority"])
def test_a_column_of_nulls_is_as_good_as_none(name: str) -> None:
    (found,) = converted(batch(**{name: pa.nulls(1)}))
    expected = {"labels": {}, "timestamp": NOW.us}.get(name)
    assert getattr(found, name) == expected


@pytest.mark.parametrize("value_type", LABEL_TYPES, ids=str)
@pytest.mark.parametrize("key_type", LABEL_TYPES, ids=str)
def test_label_maps_of_every_text_type(key_type: pa.DataType, value_type: pa.DataType) -> None:
    found = converted(batch(labels=label_map(LABELS, key_type, value_type)))
    assert [message.labels for message in found] == LABEL_DICTS


@pytest.mark.parametrize("kind", [pa.utf8(), pa.dictionary(pa.int32(), pa.utf8())], ids=str)
@pytest.mark.parametrize(("start", "length"), [(0, 5), (1, 4), (3, 2), (4, 1), (0, 1), (1, 2), (2, 1)])
def test_a_slice_of_a_label_map_is_read_from_where_it_begins(kind: pa.DataType, start: int, length: int) -> None:
    found = converted(batch(labels=label_map(LABELS, kind, kind)).slice(start, length))
    assert [message.labels for message in found] == LABEL_DICTS[start : start + length]


def test_a_slice_of_all_columns_is_read_from_where_it_begins() -> None:
    whole = batch(
        topic=coded(["a", "b"], [0, 1, 0, 1], pa.int8(), pa.utf8()),
        key=pa.array([b"0", None, b"2", b"3"]),
        value=pa.array([b"00", b"11", None, b"33"], pa.large_binary()),
        timestamp=pa.array([10, 11, None, 13]),
        expires_at=pa.array([None, 21, None, 23]),
        priority=pa.array([1, None, 3, 4], pa.int32()),
        labels=label_map([[("n", str(n))] for n in range(4)], pa.utf8(), pa.large_utf8()),
    )
    assert converted(whole.slice(2, 2))[0].labels == {"n": "2"}
    found = [
        (m.topic, m.key, m.value, m.timestamp, m.expires_at, m.priority, m.labels) for m in converted(whole.slice(1, 3))
    ]
    assert found == [
        ("b", None, b"11", 11, 21, None, {"n": "1"}),
        ("a", b"2", None, NOW.us, None, 3, {"n": "2"}),
        ("b", b"3", b"33", 13, 23, 4, {"n": "3"}),
    ]


def test_entries_spanned_by_a_null_row_are_labels_of_nothing() -> None:
    keys, values = pa.array(["a", "b", "c"]), pa.array(["1", "2", "3"])
    mask = pa.array([False, True, False])
    column = pa.MapArray.from_arrays(pa.array([0, 1, 2, 3], pa.int32()), keys, values, mask=mask)
    assert [m.labels for m in converted(batch(labels=column))] == [{"a": "1"}, {}, {"c": "3"}]
    assert [m.labels for m in converted(batch(labels=column).slice(1))] == [{}, {"c": "3"}]


@pytest.mark.parametrize("list_type", [pa.list_, pa.large_list], ids=["list", "large_list"])
def test_labels_as_lists_of_pairs(list_type: type) -> None:
    pair = pa.struct([("key", pa.utf8()), ("value", pa.utf8())])
    rows = [[{"key": k, "value": v} for k, v in row] if row is not None else None for row in LABELS]
    column = pa.array(rows, list_type(pair))
    assert [m.labels for m in converted(batch(labels=column))] == LABEL_DICTS
    assert [m.labels for m in converted(batch(labels=column).slice(3))] == LABEL_DICTS[3:]


def test_labels_as_a_struct_leave_out_what_is_null() -> None:
    column = pa.array([{"app": "dm", "user": "x"}, {"app": None, "user": "y"}, None, {"app": "a", "user": None}])
    wanted = [{"app": "dm", "user": "x"}, {"user": "y"}, {}, {"app": "a"}]
    assert [m.labels for m in converted(batch(labels=column))] == wanted
    assert [m.labels for m in converted(batch(labels=column).slice(1, 2))] == wanted[1:3]


@pytest.mark.parametrize("kind", LABEL_TYPES, ids=str)
def test_a_struct_of_labels_takes_every_text_type(kind: pa.DataType) -> None:
    field = pa.array(["x", None, "y"], pa.utf8()).cast(kind) if not pa.types.is_dictionary(kind) else None
    if field is None:
        codes = pa.array([0, None, 1], kind.index_type)
        field = pa.DictionaryArray.from_arrays(codes, pa.array(["x", "y"], kind.value_type))
    column = pa.StructArray.from_arrays([field], ["app"])
    assert [m.labels for m in converted(batch(labels=column))] == [{"app": "x"}, {}, {"app": "y"}]


def test_a_null_in_the_dictionary_of_a_struct_field_is_no_label() -> None:
    field = coded(["x", None], [0, 1], pa.int32(), pa.utf8())
    column = pa.StructArray.from_arrays([field], ["app"])
    assert [m.labels for m in converted(batch(labels=column))] == [{"app": "x"}, {}]


def test_a_struct_without_fields_has_no_labels() -> None:
    column = pa.array([{}, {}], pa.struct([]))
    assert [m.labels for m in converted(batch(labels=column))] == [{}, {}]


@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin"])
@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("name", ["timestamp", "expires_at", "deliver_at"])
def test_timestamps_of_every_unit_are_utc_microseconds(name: str, unit: str, zone: str | None) -> None:
    moment = datetime(2020, 2, 29, 12, 30, 1, tzinfo=UTC)
    column = pa.array([moment, None]).cast(pa.timestamp(unit, zone), safe=False)
    found = converted(batch(**{name: column}))
    assert getattr(found[0], name) == int(moment.timestamp()) * 1_000_000


def test_nanoseconds_are_cut_to_microseconds() -> None:
    found = converted(batch(timestamp=pa.array([1_234_567_891_999], pa.timestamp("ns"))))
    assert found[0].timestamp == 1_234_567_891


@pytest.mark.parametrize(
    "kind", [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()], ids=str
)
@pytest.mark.parametrize("name", ["timestamp", "expires_at", "deliver_at", "priority"])
def test_numbers_of_every_integer_type(name: str, kind: pa.DataType) -> None:
    found = converted(batch(**{name: pa.array([100, None, 0], kind)}))
    default = NOW.us if name == "timestamp" else None
    assert [getattr(message, name) for message in found] == [100, default, 0]


def test_columns_that_a_reader_adds_are_ignored() -> None:
    source = batch(
        offset=pa.array([7, 8]), partition=pa.array([3, 3]), stream=pa.array(["a", "b"]), value=pa.array([b"1", b"2"])
    )
    assert [(m.offset, m.partition, m.value) for m in converted(source)] == [(0, 0, b"1"), (1, 0, b"2")]


class Exported:
    """Somebody else's table that speaks the C stream interface alone."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


class ExportedArray:
    """Somebody else's batch that speaks the C array interface alone."""

    def __init__(self, source: pa.RecordBatch) -> None:
        self._source = source

    def __arrow_c_array__(self, requested_schema: object = None) -> object:
        return self._source.__arrow_c_array__(requested_schema)


def test_every_arrow_source_gives_the_same_batches() -> None:
    parts = [batch(value=pa.array([b"0", b"1"])), batch(value=pa.array([b"2"]))]
    table = pa.Table.from_batches(parts)
    sources = [table, table.to_reader(), Exported(table), pa.RecordBatchReader.from_batches(parts[0].schema, parts)]
    for source in sources:
        found = arrow_batches(source)
        assert found is not None
        assert [row for part in found for row in part.column("value").to_pylist()] == [b"0", b"1", b"2"]


def test_a_single_batch_is_taken_as_it_is_or_by_the_c_interface() -> None:
    source = batch(value=pa.array([b"0"]))
    for given in (source, ExportedArray(source)):
        found = arrow_batches(given)
        assert found is not None
        assert [part.to_pylist() for part in found] == [source.to_pylist()]


@pytest.mark.parametrize("source", [[], [{"topic": "a"}], {"topic": ["a"]}, None, "text", np.array([1])])
def test_other_things_are_no_arrow_source(source: object) -> None:
    assert arrow_batches(source) is None


def test_conversion_leaves_the_source_alone() -> None:
    source = batch(labels=label_map(LABELS, pa.dictionary(pa.int8(), pa.utf8()), pa.utf8()))
    before = source.to_pylist()
    stored_batch(source.slice(1), NOW)
    stored_batch(source, NOW)
    assert source.to_pylist() == before
    source.validate(full=True)
