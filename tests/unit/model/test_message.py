"""Message, refs and receipts: the values that people hold."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime

import pytest

from lamina.errors import InvalidRequest
from lamina.model import Message, PublishReceipt, Receipt, Row, format_ref, messages_of_rows, parse_ref


def test_a_message_that_was_not_stored_has_no_ref() -> None:
    message = Message("t", b"v")
    assert message.ref == ""
    assert message.time is None
    assert message.labels == {}


def test_the_time_of_a_message_is_an_aware_datetime_to_the_microsecond() -> None:
    message = Message("t", None, timestamp=1_700_000_000_123_457)
    assert message.time == datetime(2023, 11, 14, 22, 13, 20, 123457, tzinfo=UTC)


def test_messages_are_equal_when_all_fields_are() -> None:
    first, second = (Message("t", b"v", labels={"a": "b"}, timestamp=1, offset=3) for _ in range(2))
    assert first == second
    assert hash(first) == hash(second)
    assert first != Message("t", b"v", labels={"a": "c"}, timestamp=1, offset=3)
    assert first != "a message"


def test_a_message_survives_pickling() -> None:
    message = Message("t", b"v", b"k", {"a": "b"}, 1, 2, 3, 4, "s", 5, 6)
    assert pickle.loads(pickle.dumps(message)) == message


def test_the_repr_shows_where_a_message_is_and_shortens_its_value() -> None:
    shown = repr(Message("t", bytes(1000), stream="s", partition=1, offset=2))
    assert "s/1/2" in shown
    assert len(shown) < 250


def test_a_ref_is_parsed_back_into_its_parts() -> None:
    assert parse_ref(format_ref("orders", 3, 42)) == ("orders", 3, 42)
    assert PublishReceipt("s", 1, 2, 3, 4).ref == "s/1/2"


@pytest.mark.parametrize(
    "text", ["", "default", "default/0", "default/0/1/2", "/0/1", "default/x/1", "a/0/-1", "a/0/1.5"]
)
def test_what_is_not_a_ref_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(InvalidRequest, match="default/0/42"):
        parse_ref(text)


@pytest.mark.parametrize("ref", [None, 5, b"default/0/1", ("default", 0, 1)])
def test_a_ref_is_text(ref: object) -> None:
    with pytest.raises(InvalidRequest, match="is not a ref"):
        parse_ref(ref)  # type: ignore[arg-type]


def test_receipts_are_values() -> None:
    assert pickle.loads(pickle.dumps(PublishReceipt("s", 0, 1, 2, 3))) == PublishReceipt("s", 0, 1, 2, 3)
    receipt = Receipt("s", 2, {0: (4, 6)}, {0: 1})
    assert pickle.loads(pickle.dumps(receipt)) == receipt
    with pytest.raises(AttributeError):
        receipt.count = 5  # type: ignore[misc]


def test_changing_the_labels_of_a_message_leaves_the_row_alone() -> None:
    rows = [Row(1, "t", None, b"v", {"a": "b"})]
    message = next(messages_of_rows(rows, "s", 0, [0]))
    message.labels["a"] = "changed"
    assert rows[0].labels == {"a": "b"}
