"""Message, the unit that people see, and the receipts that publishing gives back."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Protocol

import msgspec

from lamina.errors import InvalidRequest

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EXACT_AS_SECONDS = 2**32 * 1_000_000
"""Below the year 2106 a float of seconds holds every microsecond, and is the quicker way to a datetime."""


class LabelSource(Protocol):
    """Labels of a whole batch that are decoded only when somebody looks."""

    def labels_of(self, row: int) -> dict[str, str]: ...


class Message:
    """One message. Given to `publish_many` it carries what the user set; read from a store it also says where it is.

    `value` None is a tombstone. Times are int64 UTC microseconds; `time` is the timestamp as an aware datetime.
    A message that was read is a value: changing its fields changes nothing in the store.
    """

    __slots__ = (
        "_labels",
        "_row",
        "deliver_at",
        "expires_at",
        "key",
        "offset",
        "partition",
        "priority",
        "stream",
        "timestamp",
        "topic",
        "value",
    )

    def __init__(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        labels: Mapping[str, str] | LabelSource | None = None,
        timestamp: int | None = None,
        expires_at: int | None = None,
        deliver_at: int | None = None,
        priority: int | None = None,
        stream: str = "default",
        partition: int = 0,
        offset: int = -1,
        _row: int = -1,
    ) -> None:
        self.topic = topic
        self.value = value
        self.key = key
        self._labels = labels
        self.timestamp = timestamp
        self.expires_at = expires_at
        self.deliver_at = deliver_at
        self.priority = priority
        self.stream = stream
        self.partition = partition
        self.offset = offset
        self._row = _row

    @property
    def labels(self) -> dict[str, str]:
        """The labels; decoded at the first look when the message came out of a batch."""
        labels = self._labels
        if labels.__class__ is not dict:
            # Racing first looks decode twice and see equal dicts; nothing is half done in between.
            if labels is None:
                labels = {}
            elif self._row >= 0:
                labels = labels.labels_of(self._row)  # type: ignore[union-attr]
            elif isinstance(labels, Mapping):
                labels = dict(labels)
            self._labels = labels
        return labels  # type: ignore[return-value]

    @property
    def time(self) -> datetime | None:
        if self.timestamp is None:
            return None
        if self.timestamp < _EXACT_AS_SECONDS:
            return datetime.fromtimestamp(self.timestamp / 1_000_000, UTC)
        return _EPOCH + timedelta(microseconds=self.timestamp)

    @property
    def ref(self) -> str:
        """The printable identity `stream/partition/offset`, or "" before the message is stored."""
        return f"{self.stream}/{self.partition}/{self.offset}" if self.offset >= 0 else ""

    def __eq__(self, other: object) -> bool:
        return self._identity() == other._identity() if isinstance(other, Message) else NotImplemented

    def __hash__(self) -> int:
        return hash((self.stream, self.partition, self.offset, self.timestamp, self.topic, self.key))

    def __repr__(self) -> str:
        value = self.value if self.value is None or len(self.value) <= 32 else self.value[:29] + b"..."
        where = f"{self.ref} " if self.offset >= 0 else ""
        return f"<Message {where}topic={self.topic!r} key={self.key!r} labels={self.labels!r} value={value!r}>"

    def __reduce__(self) -> tuple[object, ...]:
        return Message, self._identity()

    def _identity(self) -> tuple[object, ...]:
        return (
            self.topic,
            self.value,
            self.key,
            self.labels,
            self.timestamp,
            self.expires_at,
            self.deliver_at,
            self.priority,
            self.stream,
            self.partition,
            self.offset,
        )


class PublishReceipt(msgspec.Struct, frozen=True, gc=False):
    """Where one message is. It is durable as the stream's policy promises."""

    stream: str
    partition: int
    offset: int
    epoch: int
    timestamp: int

    @property
    def ref(self) -> str:
        return format_ref(self.stream, self.partition, self.offset)


class Receipt(msgspec.Struct, frozen=True):
    """Where many messages are: `ranges` maps a partition to its half-open offsets (first, end)."""

    stream: str
    count: int
    ranges: dict[int, tuple[int, int]]
    epochs: dict[int, int]


def format_ref(stream: str, partition: int, offset: int) -> str:
    return f"{stream}/{partition}/{offset}"


def parse_ref(text: str) -> tuple[str, int, int]:
    """The parts of a ref; InvalidRequest if it is not one."""
    parts = text.split("/") if isinstance(text, str) else []
    if len(parts) != 3 or not parts[0] or not (parts[1].isdecimal() and parts[2].isdecimal()):
        raise InvalidRequest(f"{text!r} is not a ref; a ref looks like 'default/0/42' (stream/partition/offset)")
    return parts[0], int(parts[1]), int(parts[2])
