"""An entry: what an index outside the log keeps of a message, and its place in the order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from lamina.errors import InvalidRequest
from lamina.model import check_text, make_row

REF_BYTES_MAX = 256
NAME_BYTES_MAX = 256
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NO_LIMIT_US = 1 << 62  # windows have their own limit on the future


class Position(NamedTuple):
    """Where an entry stands in the one order of every index. Text compares by code point, as its UTF-8 bytes do."""

    timestamp: int
    ref: str


@dataclass(frozen=True, slots=True)
class Entry:
    """One indexed thing. `ref` is its identity: putting the same ref again replaces the entry everywhere.

    A ref is any text of 1 to 256 bytes without NUL; hex digests are usual. Times are int64 UTC microseconds.
    Labels and times keep the rules of a message's; that is checked when the entry is put.
    """

    ref: str
    labels: Mapping[str, str]
    timestamp: int
    expires_at: int | None = None

    @property
    def position(self) -> Position:
        return Position(self.timestamp, self.ref)

    def is_expired(self, now_us: int) -> bool:
        return self.expires_at is not None and self.expires_at <= now_us

    def variables(self) -> dict[str, object]:
        """What a filter sees. Without an expiry there is no `expires_at`: a filter that asks for it does not match."""
        variables: dict[str, object] = {
            "labels": self.labels,
            "timestamp": self.timestamp,
            "time": _EPOCH + timedelta(microseconds=self.timestamp),
            "ref": self.ref,
        }
        if self.expires_at is not None:
            variables["expires_at"] = self.expires_at
        return variables


def checked_entry(entry: Entry) -> Entry:
    """A copy that nobody else can change; InvalidRequest names what is wrong with it."""
    if not isinstance(entry, Entry):
        raise InvalidRequest(f"an Entry was expected, not {type(entry).__name__}")
    ref = checked_ref(entry.ref)
    row = make_row(
        "entry",
        None,
        None,
        entry.labels,
        entry.timestamp,
        now_us=0,
        future_us=_NO_LIMIT_US,
        expires_at=entry.expires_at,
    )
    return Entry(ref, row.labels, row.timestamp, row.expires_at)


def checked_ref(ref: str) -> str:
    return check_text("ref", ref, REF_BYTES_MAX)


def checked_name(kind: str, name: str) -> str:
    return check_text(kind, name, NAME_BYTES_MAX)
