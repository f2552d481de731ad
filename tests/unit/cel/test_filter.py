"""Filters over columns and over one message."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime

import numpy as np
import pytest

from lamina.cel import Columns, compile
from lamina.errors import FilterError, InvalidRequest
from lamina.model import Row
from tests.unit.cel.batches import batch_of, labelled

TRUE, FALSE, ERROR = "T", "F", "E"


def answers(text: str, columns: Columns) -> str:
    """A letter per row."""
    true, error = compile(text).evaluate(columns)
    assert compile(text).truth(columns).tolist() == true.tolist()
    return "".join(ERROR if e else TRUE if t else FALSE for t, e in zip(true, error, strict=True))


LABELS = labelled({"a": "x"}, {"a": "y", "b": "1"}, {"b": ""}, {})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('labels.a == "x"', "TFEE"),
        ('labels.a != "x"', "FTEE"),
        ('!(labels.a == "x")', "FTEE"),
        ('labels.b == ""', "EFTE"),
        ('"a" in labels', "TTFF"),
        ("!has(labels.a)", "FFTT"),
        ('labels.a == "x" || labels.b == ""', "TFTE"),
        ('labels.a == "x" && labels.b == ""', "EFEE"),
        ('labels.a == "x" || true', "TTTT"),
        ('labels.a == "x" && false', "FFFF"),
        ('has(labels.a) && labels.a == "x"', "TFFF"),
        ('has(labels.a) ? labels.a == "x" : false', "TFFF"),
        ('labels.a in ["x", "z"]', "TFEE"),
        ('!(labels.a in ["x", "z"])', "FTEE"),
        ('labels.a < "y"', "TFEE"),
        ('labels.exists(k, labels[k] == "1")', "FTFF"),
        ('labels.all(k, k == "a")', "TFFT"),
        ("size(labels) == 2", "FTFF"),
        ("int(labels.b) == 1", "ETEE"),
        ('labels.a + labels.b == "y1"', "ETEE"),
        ("labels.a == labels.b", "EFEE"),
        ('(labels.a == "x") == (labels.b == "1")', "EFEE"),
        ("priority == 0", "EEEE"),
        ("!(priority == 0)", "EEEE"),
        ('key == b""', "EEEE"),
        ("expires_at > 0 || true", "TTTT"),
    ],
)
def test_what_is_missing_is_an_error_and_neither_true_nor_false(text: str, expected: str) -> None:
    assert answers(text, LABELS) == expected


def test_every_variable() -> None:
    full = Row(1_700_000_000_000_001, "orders", b"k\0", b"abc", {"a": "x"}, 5, None, 7)
    bare = Row(0, "t", None, None, {})
    columns = Columns(batch_of([full, bare], first_offset=41), "events", 3)
    for text, expected in {
        'topic == "orders"': "TF",
        'key == b"k\\x00"': "TE",
        "timestamp == 1700000000000001": "TF",
        'time == timestamp("2023-11-14T22:13:20.000001Z")': "TF",
        "time.getFullYear() == 1970": "FT",
        "offset == 42": "FT",
        "partition == 3": "TT",
        "size == 0": "FT",
        "priority == 7": "TE",
        'ref == "events/3/41"': "TF",
        "expires_at == 5": "TE",
        'labels.a == "x"': "TE",
    }.items():
        assert answers(text, columns) == expected, text


def test_one_message() -> None:
    found = compile('labels.app == "dm" && timestamp > 5 && time > timestamp(0)')
    assert found.matches({"labels": {"app": "dm"}, "timestamp": 6})
    assert not found.matches({"labels": {"app": "dm"}, "timestamp": 5})
    assert not found.matches({"labels": {}, "timestamp": 6})
    assert not found.matches({"timestamp": 6})
    assert not compile("!(priority == 5)").matches({"priority": None})
    assert compile("").matches({})


def test_one_message_with_what_the_official_binding_would_cut_or_round() -> None:
    assert compile('key == b"a\\x00b"').matches({"key": b"a\0b"})
    assert not compile('key == b"a"').matches({"key": b"a\0b"})
    assert compile('key == b"\\x00" || size(key) > 9 && "a" in labels').matches(
        {"key": b"\0" * 65536, "labels": {"a": ""}}
    )
    assert compile('["k"].exists(key, key == "k" && .key == b"\\x00")').matches({"key": b"\0"})
    far = datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)
    assert compile('time == timestamp("9999-12-31T23:59:59.999999Z")').matches({"time": far})


@pytest.mark.parametrize("variables", [{"labels": {"a": "x\0y"}}, {"labels": {"a\0": "x"}}, {"topic": "a\0"}])
def test_a_text_with_a_nul_is_no_message(variables: dict[str, object]) -> None:
    with pytest.raises(InvalidRequest, match="NUL"):
        compile('labels.a == "x"').matches(variables)


def test_integers_do_not_wrap() -> None:
    rows = [Row(2**53, "t", None, b"", {"n": n}) for n in ("9223372036854775807", "-9223372036854775808", "-7", "0")]
    columns = Columns(batch_of(rows), "s", 0)
    for text, expected in {
        "int(labels.n) + 1 > 0": "EFFT",
        "int(labels.n) - 1 < 0": "FETT",
        "int(labels.n) * 2 < 0": "EETF",
        "int(labels.n) * -1 > 0": "FETF",
        "-int(labels.n) > 0": "FETF",
        "int(labels.n) / -1 > 0": "FETF",
        "int(labels.n) % -1 == 0": "TETT",
        "int(labels.n) / 2 == -3": "FFTF",
        "int(labels.n) % 2 == -1": "FFTF",
        "1 / int(labels.n) == 0": "TTTE",
    }.items():
        assert answers(text, columns) == expected, text


@pytest.mark.slow
def test_the_deepest_filters_that_compile_can_be_evaluated_in_every_way() -> None:
    refused = 0
    for depth in range(1, 40):
        for text in (
            "!(" * depth + "labels.a == dyn(topic)" + ")" * depth,
            "size" + " + 1" * depth + " > 3 && !(labels.a.trim() == 'x' && size" + " - 1" * depth + " < 7)",
        ):
            try:
                found = compile(text)
            except FilterError:
                refused += 1
                continue
            variables = {"labels": {"a": "x"}, "topic": "x", "size": 9}
            parts = [all(part.matches(variables) for part in group.residual) for group in found.plan.groups]
            assert found.matches(variables) == any(parts)
            assert len(found.truth(LABELS)) == 4
    assert 0 < refused < 60


def test_parts_without_a_vector_form_are_asked_last_and_only_where_needed() -> None:
    columns = labelled(*({"a": "x y" if i % 2 else "z"} for i in range(100)))
    found = compile('labels.a.split(" ").size() == 2 && timestamp < 1010')
    assert found.truth(columns).nonzero()[0].tolist() == [1, 3, 5, 7, 9]
    assert found.explain()["by_message"] == ['labels.a.split(" ").size() == 2']


def test_explain_is_plain() -> None:
    assert compile('labels.app == "dm" && size > 3 && priority >= 100').explain() == {
        "filter": 'labels.app == "dm" && size > 3 && priority >= 100',
        "template": "labels.app == $0 && size > $1 && priority >= $2",
        "constants": ["dm", 3, 100],
        "groups": [{"labels": {"app": ["dm"]}, "priorities": "100..127", "residual": ["size > 3"]}],
        "by_message": [],
        "warnings": [],
    }


def test_filters_travel() -> None:
    found = compile('labels.a == "x" && size >= 0')
    found.truth(LABELS)
    again = pickle.loads(pickle.dumps(found))
    assert (again.text, again.ast, again.plan) == (found.text, found.ast, found.plan)
    assert again.truth(LABELS).tolist() == [True, False, False, False]


def test_masks_belong_to_the_caller() -> None:
    for text in ("!has(labels.a)", "has(labels.a)", "labels.a == labels.a", "true", 'labels.a in ["x"]'):
        compile(text).truth(LABELS)[:] = True
        compile(text).evaluate(LABELS)[0][:] = True
        assert np.array_equal(compile(text).truth(LABELS), compile(text).evaluate(LABELS)[0])
    assert answers("!has(labels.a)", LABELS) == "FFTT"
