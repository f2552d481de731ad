"""What an Arrow batch may not hold: every refusal names row, column and reason, and nothing slips through."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lamina.errors import InvalidRequest
from lamina.model import Now, rows_of, stored_batch
from tests.unit.model.shapes import NOW, batch, coded, label_map, raw_text, refusal

YEAR_10000_US = 253_402_300_800_000_000
TEXT = pa.utf8()
CODES = pa.dictionary(pa.int32(), pa.utf8())


def type_name(column: pa.Array) -> str:
    return str(column.type)


def assert_names(message: str, *reasons: str) -> None:
    for reason in reasons:
        assert reason in message, message


@pytest.mark.parametrize(("bad", "reason"), [("", "empty"), ("a\0b", "NUL"), ("x" * 1025, "1025"), ("ä" * 513, "1026")])
@pytest.mark.parametrize("kind", [TEXT, pa.large_utf8(), CODES], ids=str)
def test_a_bad_topic_is_refused(kind: pa.DataType, bad: str, reason: str) -> None:
    texts = pa.array(["ok", "ok", bad])
    column = texts.dictionary_encode() if kind == CODES else texts.cast(kind)
    assert_names(refusal(batch(topic=column)), "row 2", "topic", reason)


def test_a_missing_topic_is_refused() -> None:
    assert_names(refusal(batch(topic=pa.array(["a", None]))), "row 1", "'topic'", "null")


@pytest.mark.parametrize("code_type", [pa.int8(), pa.int32()], ids=str)
def test_a_topic_that_is_null_in_its_dictionary_is_refused(code_type: pa.DataType) -> None:
    assert_names(refusal(batch(topic=coded(["a", None], [0, 1], code_type, TEXT))), "row 1", "topic", "null")


def test_topics_that_are_no_text_are_refused_with_their_place() -> None:
    assert_names(refusal(batch(topic=raw_text(b"ok", b"\xff\xfe"))), "row 1", "topic", "UTF-8")


@pytest.mark.parametrize(
    "column", [pa.array([5]), pa.array([1.5]), pa.array([True]), pa.array([["a"]]), pa.array([{"a": 1}])], ids=type_name
)
def test_topics_of_another_type_are_refused(column: pa.Array) -> None:
    assert_names(refusal(batch(topic=column)), "topic", "type")


@pytest.mark.parametrize("name", ["key", "value"])
@pytest.mark.parametrize(
    "column", [pa.array([5]), pa.array([1.5]), pa.array([[b"a"]]), pa.array([True])], ids=type_name
)
def test_keys_and_values_of_another_type_are_refused(name: str, column: pa.Array) -> None:
    assert_names(refusal(batch(**{name: column})), repr(name), str(column.type))


def test_a_key_above_64_kib_is_refused_with_its_row() -> None:
    column = pa.array([b"", None, bytes(64 * 1024 + 1)])
    assert_names(refusal(batch(key=column)), "row 2", "'key'", "65537", "65536")


def test_a_value_above_16_mib_is_refused_with_its_row() -> None:
    column = pa.array([b"small", bytes((16 << 20) + 1)], pa.large_binary())
    assert_names(refusal(batch(value=column)), "row 1", "'value'", "16777217")


def test_many_values_below_the_limit_may_pass_it_together() -> None:
    stored_batch(batch(value=pa.array([bytes(9 << 20), bytes(9 << 20)])), NOW)


@pytest.mark.parametrize("kind", [TEXT, pa.large_utf8(), CODES], ids=str)
@pytest.mark.parametrize(
    ("pair", "reasons"),
    [
        (("", "v"), ["label key", "empty"]),
        (("a\0", "v"), ["label key", "NUL"]),
        (("k" * 257, "v"), ["label key", "257"]),
        (("é" * 129, "v"), ["label key", "258"]),
        (("app", "a\0"), ["label value", "NUL"]),
        (("app", "v" * 4097), ["label value", "4097"]),
        (("app", "é" * 2049), ["label value", "4098"]),
    ],
)
def test_a_bad_label_is_refused_with_its_row(kind: pa.DataType, pair: tuple[str, str], reasons: list[str]) -> None:
    column = label_map([[("a", "b")], None, [("a", "b"), pair]], kind, kind)
    assert_names(refusal(batch(labels=column)), "row 2", *reasons)
    assert_names(refusal(batch(labels=column).slice(1)), "row 1", *reasons)


def test_65_labels_are_refused_with_their_row() -> None:
    rows = [[("a", "b")], [(f"k{n}", "v") for n in range(65)]]
    assert_names(refusal(batch(labels=label_map(rows, TEXT, TEXT))), "row 1", "'labels'", "65", "64")


@pytest.mark.parametrize("kind", [TEXT, CODES], ids=str)
@pytest.mark.parametrize("keys", [("k", "k"), ("b", "a", "b"), ("a", "b", "c", "a")])
def test_a_label_that_comes_twice_is_refused(kind: pa.DataType, keys: tuple[str, ...]) -> None:
    rows = [[("b", "1"), ("a", "2")], [(key, "v") for key in keys]]
    twice = max(keys, key=keys.count)
    assert_names(refusal(batch(labels=label_map(rows, kind, TEXT))), "row 1", repr(twice), "twice")


def test_a_label_that_comes_twice_under_two_codes_is_refused() -> None:
    keys = coded(["k", "k"], [0, 1], pa.int32(), TEXT)
    column = pa.MapArray.from_arrays(pa.array([0, 2], pa.int32()), keys, pa.array(["1", "2"]))
    assert_names(refusal(batch(labels=column)), "row 0", "'k'", "twice")


def test_the_same_label_in_neighbouring_rows_is_fine() -> None:
    stored_batch(batch(labels=label_map([[("k", "1")], [("k", "2")], [], [("k", "3")]], TEXT, TEXT)), NOW)


def test_a_null_label_value_is_refused_with_its_row() -> None:
    column = pa.array([[("a", "b")], [("a", "b"), ("k", None)]], pa.map_(TEXT, TEXT))
    assert_names(refusal(batch(labels=column)), "row 1", "label", "value", "null")


@pytest.mark.parametrize("part", ["key", "value"])
def test_a_label_that_is_null_in_its_dictionary_is_refused(part: str) -> None:
    nulls, plain = coded(["x", None], [0, 1], pa.int32(), TEXT), pa.array(["a", "b"])
    keys, values = (nulls, plain) if part == "key" else (plain, nulls)
    column = pa.MapArray.from_arrays(pa.array([0, 1, 2], pa.int32()), keys, values)
    assert_names(refusal(batch(labels=column)), "row 1", "label", part, "null")


def test_a_null_key_in_a_list_of_pairs_is_refused_with_its_row() -> None:
    pair = pa.struct([("key", TEXT), ("value", TEXT)])
    column = pa.array([[], [{"key": None, "value": "v"}]], pa.list_(pair))
    assert_names(refusal(batch(labels=column)), "row 1", "label", "key", "null")


def test_a_pair_that_is_null_itself_is_refused() -> None:
    fields = [pa.array(["a", "b"]), pa.array(["1", "2"])]
    pairs = pa.StructArray.from_arrays(fields, ["key", "value"], mask=pa.array([False, True]))
    column = pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), pairs)
    assert_names(refusal(batch(labels=column)), "row 1", "null")


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["app=dm"]),
        pa.array([5]),
        pa.array([["a"]]),
        pa.array([[("a", 1)]], pa.map_(TEXT, pa.int64())),
        pa.array([[(1, "a")]], pa.map_(pa.int64(), TEXT)),
        pa.array([[(b"k", b"v")]], pa.map_(pa.binary(), pa.binary())),
        pa.array([{"app": 5}]),
        pa.array([[{"name": "a", "text": "b"}]]),
    ],
    ids=type_name,
)
def test_labels_of_another_type_are_refused(column: pa.Array) -> None:
    assert_names(refusal(batch(labels=column)), "labels", "type")


def test_label_texts_that_are_no_utf8_are_refused_with_their_place() -> None:
    column = pa.MapArray.from_arrays(pa.array([0, 1, 2], pa.int32()), pa.array(["a", "a"]), raw_text(b"ok", b"\xff"))
    assert_names(refusal(batch(labels=column)), "row 1", "label", "UTF-8")


@pytest.mark.parametrize("name", ["timestamp", "expires_at", "deliver_at"])
@pytest.mark.parametrize("time", [-1, YEAR_10000_US, 2**63 - 1, -(2**63)])
@pytest.mark.parametrize("others", [[5], [5, None]], ids=["full", "with nulls"])
def test_a_time_outside_1970_to_9999_is_refused_with_its_row(name: str, time: int, others: list[int | None]) -> None:
    column = pa.array([*others, time], pa.int64())
    assert_names(refusal(batch(**{name: column})), f"row {len(others)}", repr(name))


@pytest.mark.parametrize("name", ["timestamp", "expires_at", "deliver_at"])
@pytest.mark.parametrize(("unit", "time"), [("s", 2**62 + 1), ("s", 300_000_000_000), ("ms", 2**62 + 1), ("s", -1)])
def test_a_timestamp_of_a_coarse_unit_cannot_wrap_around(name: str, unit: str, time: int) -> None:
    assert_names(refusal(batch(**{name: pa.array([0, time], pa.timestamp(unit))})), "row 1", repr(name))


def test_a_timestamp_too_far_ahead_is_refused_with_its_row() -> None:
    limit = NOW.us + NOW.future_us
    stored_batch(batch(timestamp=pa.array([None, limit])), NOW)
    assert_names(refusal(batch(timestamp=pa.array([0, None, limit + 1]))), "row 2", "'timestamp'", "future")


@pytest.mark.parametrize("name", ["timestamp", "expires_at", "deliver_at"])
@pytest.mark.parametrize(
    "column", [pa.array(["2020-01-01"]), pa.array([1.5]), pa.array([True]), pa.array([b"1"])], ids=type_name
)
def test_times_of_another_type_are_refused(name: str, column: pa.Array) -> None:
    assert_names(refusal(batch(**{name: column})), repr(name), str(column.type))


def test_an_unsigned_time_beyond_int64_is_refused() -> None:
    assert_names(refusal(batch(timestamp=pa.array([2**64 - 1], pa.uint64()))), "timestamp")


@pytest.mark.parametrize("priority", [-1, 128, 2**40])
def test_a_priority_outside_0_to_127_is_refused_with_its_row(priority: int) -> None:
    column = pa.array([None, 5, priority], pa.int64())
    assert_names(refusal(batch(priority=column)), "row 2", "'priority'", str(priority))


@pytest.mark.parametrize("column", [pa.array([1.5]), pa.array([True]), pa.array(["1"])], ids=type_name)
def test_priorities_of_another_type_are_refused(column: pa.Array) -> None:
    assert_names(refusal(batch(priority=column)), "'priority'", str(column.type))


@pytest.mark.parametrize(("name", "near"), [("topics", "topic"), ("valeu", "value"), ("time_stamp", "timestamp")])
def test_an_unknown_column_is_refused_with_the_nearest_name(name: str, near: str) -> None:
    assert_names(refusal(batch(**{name: pa.array(["x"])})), repr(name), f"did you mean {near!r}")


def test_an_unknown_column_that_is_like_no_other_gets_the_list() -> None:
    assert_names(refusal(batch(zzz=pa.array(["x"]))), "'zzz'", "topic", "deliver_at")


@pytest.mark.parametrize("missing", ["topic", "value"])
def test_a_missing_column_is_named(missing: str) -> None:
    assert_names(refusal(batch(key=pa.array([b"k"])).drop_columns([missing])), repr(missing), "missing")


def test_a_column_that_comes_twice_is_refused() -> None:
    source = pa.RecordBatch.from_arrays(
        [pa.array(["a"]), pa.array([b"v"]), pa.array(["b"])], ["topic", "value", "topic"]
    )
    assert_names(refusal(source), "'topic'", "twice")


@pytest.mark.parametrize(
    ("item", "reasons"),
    [
        ({"topic": "t"}, ["message 1", "'value'", "missing"]),
        ({"value": b"v"}, ["message 1", "'topic'", "missing"]),
        ({"topic": "t", "value": b"v", "label": {}}, ["message 1", "'label'", "'labels'"]),
        ({"topic": "t", "value": b"v", 5: 1}, ["message 1", "'5'"]),
        ({"topic": "t", "value": "text"}, ["message 1", "value", "str"]),
        ({"topic": "t", "value": b"v", "labels": {"a": 1}}, ["message 1", "'a'", "int"]),
        ("text", ["message 1", "str"]),
        (None, ["message 1", "NoneType"]),
        (("t", b"v"), ["message 1", "tuple"]),
    ],
)
def test_a_bad_message_among_others_is_named_by_its_place(item: object, reasons: list[str]) -> None:
    with pytest.raises(InvalidRequest) as caught:
        rows_of([{"topic": "t", "value": b"v"}, item], Now(NOW.us, 0))
    assert_names(str(caught.value), *reasons)
