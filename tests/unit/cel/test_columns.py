"""Columns: one extraction per label, whatever shape the batch has."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from lamina.cel import Columns
from lamina.cel.coded import Coded, find
from lamina.model import READ_SCHEMA, Row
from tests.unit.cel.batches import batch_of

SHAPES = {
    "the same keys everywhere": [{"a": str(i % 3), "b": str(i)} for i in range(40)],
    "a key in some rows": [{"a": str(i), **({"b": "x"} if i % 3 else {})} for i in range(40)],
    "the key behind one that may be missing": [{**({"a": "x"} if i % 3 else {}), "b": str(i)} for i in range(40)],
    "keys in any order": [dict([("a", "1"), ("b", str(i)), ("c", "2")][:: 1 if i % 2 else -1]) for i in range(40)],
    "keys all over": [{**{f"k{j}": "v" for j in range(i % 7)}, **({"b": str(i)} if i % 5 else {})} for i in range(40)],
    "rows without labels": [{"b": "x"} if i % 2 else {} for i in range(40)],
    "no labels at all": [{} for _ in range(40)],
}


def texts(coded: Coded) -> list[str | None]:
    return [None if code < 0 else coded.texts[int(code)].as_py() for code in coded.codes]


@pytest.mark.parametrize("labels", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("key", ["a", "b", "none"])
def test_a_label_is_found_in_whole_sliced_and_taken_batches(labels: list[dict[str, str]], key: str) -> None:
    expected = [row.get(key) for row in labels]
    batch = batch_of([Row(i, "t", None, None, dict(row)) for i, row in enumerate(labels)])
    places = [7, 3, 3, 39, 0]
    assert texts(Columns(batch, "s", 0).label(key)) == expected
    assert texts(Columns(batch.slice(5, 20), "s", 0).label(key)) == expected[5:25]
    assert texts(Columns(batch.slice(5, 0), "s", 0).label(key)) == []
    assert texts(Columns(batch.take(pa.array(places)), "s", 0).label(key)) == [expected[i] for i in places]
    part = Columns(batch.slice(2), "s", 0).take(np.array([5, 1, 1]))
    assert texts(part.label(key)) == [expected[7], expected[3], expected[3]]
    assert texts(part.labels.get(key)) == [expected[7], expected[3], expected[3]]
    assert part.label_counts().tolist() == [len(labels[i]) for i in (7, 3, 3)]


def test_a_column_is_extracted_once() -> None:
    columns = Columns(batch_of([Row(1, "t", None, None, {"a": "x"})] * 3), "s", 0)
    assert columns.label("a") is columns.label("a")
    assert columns.ints("size")[0] is columns.ints("size")[0]
    assert columns.take(np.array([0])).label("a").texts is columns.label("a").texts


def test_an_empty_batch() -> None:
    batch = pa.RecordBatch.from_arrays([pa.array([], field.type) for field in READ_SCHEMA], schema=READ_SCHEMA)
    columns = Columns(batch, "s", 0)
    assert len(columns) == 0
    assert texts(columns.label("a")) == []
    assert texts(columns.texts("ref")) == []
    assert columns.ints("priority")[0].tolist() == []


def test_numbers_and_where_there_are_none() -> None:
    rows = [Row(5, "t", None, b"abc", {}, priority=3), Row(6, "t", None, None, {}, expires_at=9)]
    columns = Columns(batch_of(rows, first_offset=2**62), "s", 4)
    assert columns.ints("timestamp")[0].tolist() == [5, 6]
    assert columns.ints("size")[0].tolist() == [3, 0]
    assert columns.ints("partition")[0].tolist() == [4, 4]
    assert columns.ints("offset")[0].tolist() == [2**62, 2**62 + 1]
    values, missing = columns.ints("priority")
    assert missing is not None
    assert (values[0], missing.tolist()) == (3, [False, True])
    assert texts(columns.texts("ref")) == [f"s/4/{2**62}", f"s/4/{2**62 + 1}"]


@pytest.mark.parametrize("wanted", ["", "a", "é", "ab0", "ab77", "ab99", "\U0001f600", "zz"])
def test_a_text_is_found_in_a_dictionary(wanted: str) -> None:
    values = ["q", *(f"ab{i}" for i in range(90)), "", "é", "e", "\U0001f600", "a"]
    dictionary = pa.array(values)
    assert find(dictionary, wanted.encode()) == [i for i, value in enumerate(values) if value == wanted]
    part = values[3:60]
    assert find(dictionary.slice(3, 57), wanted.encode()) == [i for i, value in enumerate(part) if value == wanted]


def test_a_text_that_is_in_the_dictionary_twice_is_found_twice() -> None:
    coded = Coded(np.array([0, 1, 2, -1]), pa.array(["x", "y", "x"]))
    assert coded.equal("x").tolist() == [True, False, True, False]
    assert coded.among(["x"]).tolist() == [True, False, True, False]
    assert coded.among([str(i) for i in range(30)] + ["x"]).tolist() == [True, False, True, False]


def test_only_texts_in_use_are_worked_on() -> None:
    coded = Coded(np.array([500, -1, 3]), pa.array([str(i) for i in range(1000)]))
    assert coded.compact().texts.to_pylist() == ["3", "500"]
    assert texts(coded.compact()) == ["500", None, "3"]
