"""The index store: entries of any backend, asked in CEL."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from types import TracebackType
from typing import Self

from lamina.cel import Group
from lamina.clock import Clock, SystemClock
from lamina.errors import Conflict, InvalidRequest, NotFound
from lamina.index.backends.cursors import format_cursor, parse_cursor, query_mark
from lamina.index.backends.entry import Entry, checked_entry, checked_name, checked_ref
from lamina.index.backends.matching import matches_whole
from lamina.index.backends.plans import AnyOf, make_plan
from lamina.index.backends.seam import BackendStats, Composite, IndexBackend, Query
from lamina.model import check_text, time_us

LIMIT_DEFAULT = 1000
LIMIT_MAX = 100_000
PREFIX_LENGTH_MIN = 4
_STEP = 1000  # entries that one step of building or cleaning touches
_CANDIDATES_SHOWN = 5
_CURSOR_BYTES_MAX = 4096


@dataclass(frozen=True, slots=True)
class Explanation:
    """How a query was answered."""

    groups: tuple[Group, ...]
    """What the backend was asked: an entry matches if any of them does."""
    steps: tuple[str, ...]
    """Which index each group walked along, and which windows were opened."""
    scanned: int
    """Entries that the backend gave, also those that a residual then refused."""

    @property
    def is_fully_pushed(self) -> bool:
        """Whether the backend's indexes answered everything, with no expression left to evaluate."""
        return not any(group.residual for group in self.groups)


@dataclass(frozen=True, slots=True)
class Page:
    """Some entries in order. With `has_more`, the same query with `cursor` gives what follows."""

    entries: tuple[Entry, ...]
    cursor: str | None
    """After the last entry here; None if there is none."""
    has_more: bool
    explain: Explanation


class IndexStore:
    """Entries by ref and by label, in the order (timestamp, ref). Safe to call from many threads.

    Owns the backend. Expired entries are hidden at once and deleted by `cleanup`.
    """

    def __init__(self, backend: IndexBackend, *, clock: Clock | None = None) -> None:
        self._backend = backend
        self._clock = SystemClock() if clock is None else clock

    def index(self, entry: Entry) -> None:
        """Put one entry; an entry with the same ref is replaced."""
        self._backend.put_batch([checked_entry(entry)])

    def index_many(self, entries: Iterable[Entry]) -> int:
        """Put a batch, all or nothing (over windows: window by window), and return its size."""
        checked = [checked_entry(entry) for entry in entries]
        if checked:
            self._backend.put_batch(checked)
        return len(checked)

    def get(self, ref: str, *, include_expired: bool = False) -> Entry:
        """NotFound if there is none, or it has expired."""
        entry = self._backend.get(checked_ref(ref))
        if entry is None or (not include_expired and entry.is_expired(self._clock.now_us())):
            raise NotFound(f"no entry {ref!r}")
        return entry

    def delete(self, *refs: str) -> int:
        """How many of them were there."""
        return self._backend.delete([checked_ref(ref) for ref in refs])

    def query(
        self,
        filter: str | None = None,
        *,
        labels: Mapping[str, str] | None = None,
        any_of: AnyOf | None = None,
        start: int | datetime | None = None,
        end: int | datetime | None = None,
        limit: int = LIMIT_DEFAULT,
        cursor: str | None = None,
        descending: bool = False,
        include_expired: bool = False,
    ) -> Page:
        """The next entries that match the filter AND the labels AND any of the alternatives, in [start, end).

        Bounds are UTC microseconds or aware datetimes. Alternatives are mappings of labels, or lists of (key, value).
        A page is full unless it is the last. An entry put behind the cursor meanwhile is not shown by later pages.
        """
        if not 1 <= limit <= LIMIT_MAX:
            raise InvalidRequest(f"limit {limit} is outside 1 to {LIMIT_MAX}")
        span = _bound_us("start", start), _bound_us("end", end)
        mark = query_mark(filter, labels, any_of, span, descending=descending)
        query = Query(
            groups=make_plan(filter, labels, any_of, *span),
            after=None if cursor is None else parse_cursor(cursor, mark),
            descending=descending,
            now_us=None if include_expired else self._clock.now_us(),
            wanted=limit + 1,
        )
        with self._matches(query) as matches:
            found = list(islice(matches, limit + 1))
        entries = tuple(found[:limit])
        return Page(
            entries,
            format_cursor(entries[-1].position, mark) if entries else cursor,
            has_more=len(found) > limit,
            explain=matches.explanation(),
        )

    def count(
        self,
        filter: str | None = None,
        *,
        labels: Mapping[str, str] | None = None,
        any_of: AnyOf | None = None,
        start: int | datetime | None = None,
        end: int | datetime | None = None,
        include_expired: bool = False,
    ) -> int:
        """As many as all pages of the same query hold."""
        groups = make_plan(filter, labels, any_of, _bound_us("start", start), _bound_us("end", end))
        query = Query(groups=groups, now_us=None if include_expired else self._clock.now_us())
        if not any(group.residual for group in groups):
            return self._backend.count(query) if groups else 0
        with self._matches(query) as matches:
            return sum(1 for _ in matches)

    def resolve_prefix(self, prefix: str) -> str:
        """The one ref that starts with `prefix`, of 4 characters or more; Conflict if there are several."""
        if len(checked_ref(prefix)) < PREFIX_LENGTH_MIN:
            raise InvalidRequest(f"prefix {prefix!r} is too short; give {PREFIX_LENGTH_MIN} characters or more")
        refs = [ref for ref in self._backend.refs(prefix, _CANDIDATES_SHOWN * 4) if self._is_shown(ref)]
        if not refs:
            raise NotFound(f"no entry whose ref starts with {prefix!r}")
        if len(refs) > 1 and refs[0] != prefix:
            shown = ", ".join(refs[:_CANDIDATES_SHOWN])
            raise Conflict(f"{prefix!r} is ambiguous: it may be {shown}; give more of it")
        return refs[0]

    def cleanup(self) -> int:
        """Delete what has expired, in steps that let others work in between; how many it was."""
        now_us = self._clock.now_us()
        deleted = 0
        while refs := self._backend.delete_expired(now_us, _STEP):
            deleted += len(refs)
        return deleted

    def register_composite(self, name: str, keys: Sequence[str], *, wait: bool = True) -> None:
        """Prepare queries that fix all of `keys`. Kept for ever, also over old entries.

        With `wait`, returns when it is ready; else `build_composites` does the rest, and queries work meanwhile
        without it. Conflict if the name or the set of keys is taken.
        """
        self._backend.define_composite(name, tuple(keys))
        if wait:
            self._build(name)

    def build_composites(self) -> None:
        """Finish what was begun, for example before the process died."""
        for composite in self._backend.composites():
            if composite.state == "building":
                self._build(composite.name)

    def drop_composite(self, name: str) -> None:
        """NotFound if there is none."""
        self._backend.drop_composite(checked_name("name of a composite", name))

    def composites(self) -> tuple[Composite, ...]:
        return self._backend.composites()

    def put_cursor(self, name: str, cursor: str) -> None:
        """Keep a cursor, or any small text, under a name."""
        check_text("cursor", cursor, _CURSOR_BYTES_MAX, empty=True)
        self._backend.put_cursor(checked_name("name of a cursor", name), cursor)

    def get_cursor(self, name: str) -> str:
        """NotFound if there is none of that name."""
        found = self._backend.get_cursor(checked_name("name of a cursor", name))
        if found is None:
            raise NotFound(f"no cursor {name!r}")
        return found

    def delete_cursor(self, name: str) -> None:
        """Idempotent."""
        self._backend.delete_cursor(checked_name("name of a cursor", name))

    def stats(self) -> BackendStats:
        return self._backend.stats()

    def close(self) -> None:
        """Idempotent."""
        self._backend.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _build(self, name: str) -> None:
        while not self._backend.build_composite(name, _STEP):
            pass

    def _is_shown(self, ref: str) -> bool:
        entry = self._backend.get(ref)
        return entry is not None and not entry.is_expired(self._clock.now_us())

    @contextmanager
    def _matches(self, query: Query) -> Iterator[_Matches]:
        matches = _Matches(self._backend, query)
        try:
            yield matches
        finally:
            matches.close()


def _bound_us(name: str, bound: int | datetime | None) -> int | None:
    """A bound may lie outside of what a timestamp can be."""
    if bound is None or (isinstance(bound, int) and not isinstance(bound, bool)):
        return bound
    return time_us(name, bound)


class _Matches:
    """The backend's entries that the residuals let through."""

    def __init__(self, backend: IndexBackend, query: Query) -> None:
        self._query = query
        self._scanned = 0
        self._has_residual = any(group.residual for group in query.groups)
        self._answer = backend.query(query) if query.groups else None

    def __iter__(self) -> Iterator[Entry]:
        if self._answer is None:
            return
        for entry in self._answer.entries:
            self._scanned += 1
            if not self._has_residual or matches_whole(self._query.groups, entry):
                yield entry

    def explanation(self) -> Explanation:
        steps = ("nothing can match",) if self._answer is None else tuple(self._answer.steps)
        return Explanation(self._query.groups, steps, self._scanned)

    def close(self) -> None:
        close = getattr(self._answer.entries, "close", None) if self._answer is not None else None
        if close is not None:
            close()
