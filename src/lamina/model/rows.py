"""Rows: single messages on their way into a batch, checked one by one at the door.

A Row is also the unit of the packed codec, so its field order is part of the segment format.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import NoReturn

import msgspec

from lamina.errors import InvalidRequest
from lamina.model import limits
from lamina.model.message import Message

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_GOOD_KEYS_MAX = 4096
_PLAIN = {str}  # kinds of str (numpy's, say) are stored as plain ones
_good_keys: set[str] = set()
"""Label keys that passed every check: there are few, and looking one up costs less than checking it."""


class Row(msgspec.Struct, array_like=True, gc=False):
    """One checked message without its offset. `gc=False`: rows hold only plain values, never cycles."""

    timestamp: int
    topic: str
    key: bytes | None
    value: bytes | None
    labels: dict[str, str]
    expires_at: int | None = None
    deliver_at: int | None = None
    priority: int | None = None


def make_row(
    topic: str,
    value: bytes | None,
    key: bytes | None,
    labels: Mapping[str, str] | None,
    timestamp: int | datetime | None,
    *,
    now_us: int,
    future_us: int,
    expires_at: int | datetime | None = None,
    deliver_at: int | datetime | None = None,
    priority: int | None = None,
) -> Row:
    """Check everything about one message; InvalidRequest names the offender. `timestamp` None is now."""
    if not (topic.__class__ is str and 0 < len(topic) <= limits.TOPIC_BYTES_MAX and _is_plain(topic)):
        topic = check_text("topic", topic, limits.TOPIC_BYTES_MAX)
    if key is not None and not (key.__class__ is bytes and len(key) <= limits.KEY_BYTES_MAX):
        key = _checked_bytes("key", key, limits.KEY_BYTES_MAX)
    if value is not None and not (value.__class__ is bytes and len(value) <= limits.VALUE_BYTES_MAX):
        value = _checked_bytes("value", value, limits.VALUE_BYTES_MAX)
    if timestamp is None:
        timestamp = now_us
    else:
        timestamp = time_us("timestamp", timestamp)
        if timestamp > now_us + future_us:
            reject_future(timestamp, now_us, future_us)
    return Row(
        timestamp,
        topic,
        key,
        value,
        {} if labels is None else _checked_labels(labels),
        None if expires_at is None else time_us("expires_at", expires_at),
        None if deliver_at is None else time_us("deliver_at", deliver_at),
        None if priority is None else _checked_priority(priority),
    )


def row_of_message(message: Message, now_us: int, future_us: int) -> Row:
    return make_row(
        message.topic,
        message.value,
        message.key,
        message.labels,
        message.timestamp,
        now_us=now_us,
        future_us=future_us,
        expires_at=message.expires_at,
        deliver_at=message.deliver_at,
        priority=message.priority,
    )


def row_bytes(row: Row) -> int:
    """About how many bytes the row takes in a frame."""
    size = 48 + len(row.topic)
    if row.value is not None:
        size += len(row.value)
    if row.key is not None:
        size += len(row.key)
    if row.labels:
        size += 16 * len(row.labels) + len("".join(row.labels.values()))
    return size


def time_us(name: str, time: object) -> int:
    """Microseconds of an int or an aware datetime, inside what a message may carry."""
    if time.__class__ is not int:
        if isinstance(time, datetime):
            if time.tzinfo is None:
                raise InvalidRequest(f"{name} {time!r} has no time zone; use an aware datetime, e.g. with tzinfo=UTC")
            time = (time - _EPOCH) // _MICROSECOND
        elif isinstance(time, bool) or not isinstance(time, int):
            kind = type(time).__name__
            raise InvalidRequest(f"{name} must be int microseconds or an aware datetime, not {kind}")
    if not 0 <= time <= limits.TIMESTAMP_US_MAX:
        raise InvalidRequest(f"{name} {time} is outside 1970 to 9999; times are UTC microseconds")
    return int(time)


def reject_future(timestamp: int, now_us: int, future_us: int) -> NoReturn:
    ahead = (timestamp - now_us) / 1e6
    raise InvalidRequest(
        f"timestamp {timestamp} is {ahead:.0f} s in the future, allowed are {future_us / 1e6:.0f} s; "
        "times are microseconds: check the unit and the clock, or raise log.timestamp_future_seconds"
    )


def check_text(name: str, text: object, bytes_max: int, *, empty: bool = False) -> str:
    """The text as a plain str; InvalidRequest unless it is valid UTF-8, without NUL, within the limit."""
    if not isinstance(text, str):
        raise InvalidRequest(f"{name} must be str, not {type(text).__name__}: {text!r:.80}")
    if not text and not empty:
        raise InvalidRequest(f"{name} must not be empty")
    if "\0" in text:
        raise InvalidRequest(f"{name} holds a NUL character: {text!r:.80}")
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise InvalidRequest(f"{name} is not valid text (lone surrogate at {error.start}): {text!r:.80}") from None
    if size > bytes_max:
        raise InvalidRequest(f"{name} has {size} bytes, at most {bytes_max} are allowed: {text!r:.40}…")
    return text if text.__class__ is str else "".join(text)


def check_label(key: object, value: object) -> tuple[str, str]:
    """Both as plain texts; InvalidRequest says what is wrong with which."""
    checked = check_text("label key", key, limits.LABEL_KEY_BYTES_MAX)
    return checked, check_text(f"value of label {key!r}", value, limits.LABEL_VALUE_BYTES_MAX, empty=True)


def _is_plain(text: str) -> bool:
    return text.isascii() and "\0" not in text


def _checked_bytes(name: str, data: object, bytes_max: int) -> bytes:
    if isinstance(data, str):
        raise InvalidRequest(f"{name} must be bytes, not str; encode it first: {data!r:.40}.encode()")
    if not isinstance(data, bytes | bytearray | memoryview):
        raise InvalidRequest(f"{name} must be bytes or None, not {type(data).__name__}")
    data = bytes(data)
    if len(data) > bytes_max:
        hint = "; store large objects elsewhere and publish a reference" if name == "value" else ""
        raise InvalidRequest(f"{name} has {len(data)} bytes, at most {bytes_max} are allowed{hint}")
    return data


def _checked_labels(labels: Mapping[str, str]) -> dict[str, str]:
    if labels.__class__ is dict and not labels:
        return {}
    if (
        labels.__class__ is dict
        and _good_keys.issuperset(labels)
        and len(labels) <= limits.LABELS_MAX
        and {*map(type, labels), *map(type, labels.values())} == _PLAIN
    ):
        text = "".join(labels.values())
        # If all values together keep the limit and are ASCII (a byte a character), each of them does.
        if len(text) <= limits.LABEL_VALUE_BYTES_MAX and text.isascii() and "\0" not in text:
            return labels.copy()
    return _labels_one_by_one(labels)


def _labels_one_by_one(labels: Mapping[str, str]) -> dict[str, str]:
    if not isinstance(labels, Mapping):
        raise InvalidRequest(f"labels must be a mapping of str to str, not {type(labels).__name__}")
    if len(labels) > limits.LABELS_MAX:
        raise InvalidRequest(f"a message has {len(labels)} labels, at most {limits.LABELS_MAX} are allowed")
    checked = dict(check_label(key, value) for key, value in labels.items())
    if len(_good_keys) > _GOOD_KEYS_MAX:
        _good_keys.clear()
    _good_keys.update(checked)
    return checked


def _checked_priority(priority: object) -> int:
    if isinstance(priority, bool) or not isinstance(priority, int):
        raise InvalidRequest(f"priority must be an int, not {type(priority).__name__}")
    if not 0 <= priority <= limits.PRIORITY_MAX:
        raise InvalidRequest(f"priority {priority} is outside 0 to {limits.PRIORITY_MAX}")
    return int(priority)
