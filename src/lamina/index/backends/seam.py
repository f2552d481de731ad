"""What the index store asks of a backend. Entries stand in the order (timestamp, ref), in either direction."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from lamina.cel import Group
from lamina.index.backends.entry import Entry, Position

CompositeState = Literal["building", "ready"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """Which entries, in which order. An entry matches if it matches any group; residuals are left to the caller."""

    groups: tuple[Group, ...]
    after: Position | None = None
    """Only what comes strictly after it in the direction of the query; it need not exist."""
    descending: bool = False
    now_us: int | None = None
    """Entries that have expired by then are hidden; None shows all."""
    wanted: int = 1000
    """About how many entries will be read: a hint for the size of the first fetch."""


@dataclass(slots=True)
class Answer:
    """Matching entries in order, each once, read while they are iterated; close `entries` when you stop early."""

    entries: Iterator[Entry]
    steps: list[str] = field(default_factory=list)
    """How they are found, for people; it may grow while the entries are read."""


@dataclass(frozen=True, slots=True)
class Composite:
    """A prepared answer for queries that fix all of `keys`. Only a ready one is used; either is kept up to date."""

    name: str
    keys: tuple[str, ...]
    state: CompositeState = "ready"


@dataclass(frozen=True, slots=True)
class BackendStats:
    """A snapshot of a backend's contents."""

    entries: int
    oldest: int | None
    newest: int | None
    """Timestamps of the first and the last entry."""
    next_expiry: int | None
    """When the first entry expires, or has expired."""
    composites: tuple[Composite, ...]
    windows: int = 0
    windows_open: int = 0


class Entries(Protocol):
    """Entries by ref, by order and by label."""

    def put_batch(self, entries: Sequence[Entry]) -> None:
        """All or nothing, durable on return as far as the backend is. A known ref is replaced; the last of equals wins.

        The entries passed `checked_entry`.
        """

    def get(self, ref: str) -> Entry | None: ...

    def delete(self, refs: Sequence[str]) -> int:
        """How many were there. All or nothing."""

    def query(self, query: Query) -> Answer: ...

    def count(self, query: Query) -> int:
        """As many as `query` would give."""

    def delete_expired(self, now_us: int, limit: int) -> list[str]:
        """Delete at most about `limit` entries that have expired by then, and tell their refs; none when done."""

    def refs(self, prefix: str, limit: int) -> list[str]:
        """The first refs, in order, that start with `prefix`."""


class Composites(Protocol):
    """Definitions of composites, kept with the entries they index."""

    def composites(self) -> tuple[Composite, ...]:
        """In the order of their names."""

    def define_composite(self, name: str, label_keys: Sequence[str]) -> None:
        """Begin to keep it for what is written from now on. Conflict if the name or the set of keys is taken."""

    def build_composite(self, name: str, limit: int) -> bool:
        """Add about `limit` more of the older entries; True once it is ready. Survives a restart in between."""

    def drop_composite(self, name: str) -> None:
        """NotFound if there is none. What it kept is removed."""


class StoredCursors(Protocol):
    """Small texts by name, for callers that resume where they stopped."""

    def put_cursor(self, name: str, text: str) -> None: ...

    def get_cursor(self, name: str) -> str | None: ...

    def delete_cursor(self, name: str) -> None:
        """Idempotent."""


class IndexBackend(Entries, Composites, StoredCursors, Protocol):
    """Where entries are kept. Safe to call from many threads at once.

    Errors: InvalidRequest, NotFound, Conflict, Unavailable, Corrupt, Denied, Closed.
    """

    def stats(self) -> BackendStats: ...

    def close(self) -> None:
        """Idempotent."""


def last_of_each(entries: Iterable[Entry]) -> dict[str, Entry]:
    """Of several entries with one ref in a batch the last one counts."""
    return {entry.ref: entry for entry in entries}
