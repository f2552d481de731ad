"""One message at the door: what it may be, and errors that name what it may not."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from lamina.errors import InvalidRequest
from lamina.model import Row, check_text, make_row, row_bytes, time_us

NOW_US = 1_700_000_000_000_000
FUTURE_US = 60_000_000
YEAR_10000_US = 253_402_300_800_000_000


def row(**fields: Any) -> Row:
    """A row of the given fields; what is not given is harmless."""
    given: dict[str, Any] = {"topic": "t", "value": b"v", "key": None, "labels": None, "timestamp": None} | fields
    return make_row(**given, now_us=NOW_US, future_us=FUTURE_US)


def refusal(**fields: Any) -> str:
    with pytest.raises(InvalidRequest) as caught:
        row(**fields)
    return str(caught.value)


def test_a_message_without_a_timestamp_happens_now() -> None:
    assert row() == Row(NOW_US, "t", None, b"v", {})


def test_every_field_arrives_as_given() -> None:
    made = row(
        topic="orders/eu",
        value=None,
        key=b"42",
        labels={"app": "dm", "empty": ""},
        timestamp=5,
        expires_at=7,
        deliver_at=6,
        priority=127,
    )
    assert made == Row(5, "orders/eu", b"42", None, {"app": "dm", "empty": ""}, 7, 6, 127)


@pytest.mark.parametrize("topic", ["a" * 1024, "ä" * 512, "日" * 341, "🙂" * 256])
def test_a_topic_of_up_to_1024_bytes_is_taken(topic: str) -> None:
    assert row(topic=topic).topic == topic


@pytest.mark.parametrize("topic", ["a" * 1025, "ä" * 513, "日" * 342, "🙂" * 257])
def test_a_topic_is_measured_in_bytes_and_not_in_characters(topic: str) -> None:
    message = refusal(topic=topic)
    assert "topic" in message
    assert str(len(topic.encode())) in message
    assert "1024" in message


@pytest.mark.parametrize(
    ("topic", "reason"),
    [
        ("", "empty"),
        ("a\0b", "NUL"),
        ("\ud800", "surrogate"),
        (None, "NoneType"),
        (b"t", "bytes"),
        (5, "int"),
        (["t"], "list"),
    ],
)
def test_a_bad_topic_is_named_with_the_reason(topic: object, reason: str) -> None:
    message = refusal(topic=topic)
    assert "topic" in message
    assert reason in message


@pytest.mark.parametrize("size", [0, 1, 64 * 1024])
def test_a_key_of_up_to_64_kib_is_taken(size: int) -> None:
    assert row(key=bytes(size)).key == bytes(size)


def test_a_larger_key_is_refused() -> None:
    message = refusal(key=bytes(64 * 1024 + 1))
    assert "key" in message
    assert "65536" in message


def test_a_value_of_16_mib_is_taken_and_one_byte_more_is_not() -> None:
    largest = bytes(16 << 20)
    assert row(value=largest).value == largest
    message = refusal(value=bytes((16 << 20) + 1))
    assert "value" in message
    assert "16777216" in message


@pytest.mark.parametrize("name", ["key", "value"])
@pytest.mark.parametrize("data", ["text", 5, 1.5, [1, 2], {"a": 1}, object()])
def test_keys_and_values_are_bytes_or_nothing(name: str, data: object) -> None:
    message = refusal(**{name: data})
    assert name in message
    assert type(data).__name__ in message


@pytest.mark.parametrize("name", ["key", "value"])
@pytest.mark.parametrize("data", [bytearray(b"abc"), memoryview(b"abc"), np.bytes_(b"abc")])
def test_other_kinds_of_bytes_are_copied(name: str, data: object) -> None:
    stored = getattr(row(**{name: data}), name)
    assert stored == b"abc"
    assert type(stored) is bytes


def test_a_value_that_its_owner_changes_later_stays_as_it_was() -> None:
    buffer = bytearray(b"abc")
    made = row(value=buffer)
    buffer[0] = 0
    assert made.value == b"abc"


def test_labels_that_their_owner_changes_later_stay_as_they_were() -> None:
    labels = {"app": "dm"}
    made = row(labels=labels)
    labels["more"] = "x"
    assert made.labels == {"app": "dm"}


def test_64_labels_are_taken_and_65_are_not() -> None:
    labels = {f"k{n}": "v" for n in range(65)}
    assert "65" in refusal(labels=labels)
    assert "64" in refusal(labels=labels)
    labels.popitem()
    assert row(labels=labels).labels == labels


@pytest.mark.parametrize("key", ["k" * 256, "é" * 128])
def test_a_label_key_of_256_bytes_is_taken(key: str) -> None:
    assert row(labels={key: "v"}).labels == {key: "v"}


@pytest.mark.parametrize("value", ["", "v" * 4096, "é" * 2048])
def test_a_label_value_of_up_to_4096_bytes_is_taken(value: str) -> None:
    assert row(labels={"k": value}).labels == {"k": value}


@pytest.mark.parametrize(
    ("labels", "reasons"),
    [
        ({"k" * 257: "v"}, ["label key", "257", "256"]),
        ({"é" * 129: "v"}, ["label key", "258", "256"]),
        ({"": "v"}, ["label key", "empty"]),
        ({"a\0": "v"}, ["label key", "NUL"]),
        ({"\udfff": "v"}, ["label key", "surrogate"]),
        ({5: "v"}, ["label key", "int"]),
        ({None: "v"}, ["label key", "NoneType"]),
        ({"app": "v" * 4097}, ["'app'", "4097", "4096"]),
        ({"app": "é" * 2049}, ["'app'", "4098", "4096"]),
        ({"app": "a\0"}, ["'app'", "NUL"]),
        ({"app": "\ud800"}, ["'app'", "surrogate"]),
        ({"app": None}, ["'app'", "NoneType"]),
        ({"app": 5}, ["'app'", "int"]),
        ({"app": b"x"}, ["'app'", "bytes"]),
        ([("app", "dm")], ["labels", "list"]),
        ("app=dm", ["labels", "str"]),
        (5, ["labels", "int"]),
    ],
)
def test_a_bad_label_is_named_with_the_reason(labels: object, reasons: list[str]) -> None:
    message = refusal(labels=labels)
    for reason in reasons:
        assert reason in message


@pytest.mark.parametrize("labels", [[], "", 0, ()])
def test_labels_that_are_empty_and_no_mapping_are_refused_too(labels: object) -> None:
    assert "labels" in refusal(labels=labels)


def test_any_mapping_serves_as_labels() -> None:
    assert row(labels=MappingProxyType({"a": "b"})).labels == {"a": "b"}


@pytest.mark.parametrize("text", [np.str_("numpy"), type("Subclass", (str,), {})("subclass")])
def test_a_subclass_of_str_is_stored_as_plain_text(text: str) -> None:
    made = row(topic=text, labels={text: text})
    assert type(made.topic) is str
    assert [(type(key), type(value)) for key, value in made.labels.items()] == [(str, str)]


@pytest.mark.parametrize("name", ["timestamp", "expires_at", "deliver_at"])
@pytest.mark.parametrize("time", [-1, YEAR_10000_US, 2**63, -(2**63)])
def test_times_lie_between_1970_and_9999(name: str, time: int) -> None:
    message = refusal(**{name: time})
    assert name in message
    assert str(time) in message


@pytest.mark.parametrize("name", ["expires_at", "deliver_at"])
def test_the_last_microsecond_of_9999_is_a_time(name: str) -> None:
    assert getattr(row(**{name: YEAR_10000_US - 1}), name) == YEAR_10000_US - 1


@pytest.mark.parametrize("name", ["timestamp", "expires_at", "deliver_at"])
@pytest.mark.parametrize("time", [True, 1.5, "2024-01-01", b"1", timedelta(seconds=1), np.int64(5)])
def test_a_time_is_an_int_or_an_aware_datetime(name: str, time: object) -> None:
    message = refusal(**{name: time})
    assert name in message
    assert type(time).__name__ in message


@pytest.mark.parametrize("name", ["timestamp", "expires_at", "deliver_at"])
def test_a_naive_datetime_is_refused_with_a_hint(name: str) -> None:
    message = refusal(**{name: datetime(2023, 1, 1)})  # noqa: DTZ001
    assert name in message
    assert "time zone" in message


def test_aware_datetimes_become_utc_microseconds() -> None:
    in_tokyo = datetime(2023, 1, 1, 9, 0, 0, 7, tzinfo=timezone(timedelta(hours=9)))
    assert row(timestamp=in_tokyo).timestamp == 1_672_531_200_000_007
    assert time_us("x", datetime(1970, 1, 1, tzinfo=UTC)) == 0
    assert time_us("x", datetime.max.replace(tzinfo=UTC)) == YEAR_10000_US - 1


def test_a_datetime_before_1970_is_refused() -> None:
    assert "1970" in refusal(timestamp=datetime(1969, 12, 31, tzinfo=UTC))


def test_a_timestamp_may_be_as_far_ahead_as_allowed_and_no_further() -> None:
    assert row(timestamp=NOW_US + FUTURE_US).timestamp == NOW_US + FUTURE_US
    message = refusal(timestamp=NOW_US + FUTURE_US + 1)
    assert "future" in message
    assert "60 s" in message


@pytest.mark.parametrize("priority", [-1, 128, 10**30])
def test_a_priority_outside_0_to_127_is_refused(priority: int) -> None:
    message = refusal(priority=priority)
    assert "priority" in message
    assert str(priority) in message


@pytest.mark.parametrize("priority", [True, 1.0, "1", b"1"])
def test_a_priority_is_an_int_and_never_a_bool(priority: object) -> None:
    message = refusal(priority=priority)
    assert "priority" in message
    assert type(priority).__name__ in message


def test_text_may_be_empty_only_where_that_is_allowed() -> None:
    check_text("name", "", 5, empty=True)
    with pytest.raises(InvalidRequest, match="name must not be empty"):
        check_text("name", "", 5)


def test_the_size_of_a_row_grows_with_all_that_it_carries() -> None:
    bare = row_bytes(row(value=None))
    assert row_bytes(row(value=bytes(100))) == bare + 100
    assert row_bytes(row(value=None, key=bytes(50))) == bare + 50
    assert row_bytes(row(value=None, labels={"abc": "defg"})) >= bare + 7
