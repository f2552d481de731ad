"""A page: one query's answer."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from lamina.cel import Filter
from lamina.index.explain import Trace
from lamina.index.found import Found
from lamina.index.query import Query
from lamina.model import Message


class Page:
    """Messages in the order asked for, and how to go on: pass `cursor` to the same query while `has_more`.

    Messages are made when somebody looks; the files they are in stay readable for as long as the page lives.
    """

    def __init__(self, query: Query, found: Found, trace: Trace, filter_: Filter) -> None:
        self._filter = filter_
        self.has_more = query.limit is not None and len(found) > query.limit
        if query.limit is not None:
            found = found.first(query.limit)
        self._query = query
        self.rows_scanned = trace.rows_scanned
        self._found = found
        self._messages: list[Message] | None = None
        self._trace = trace

    def __iter__(self) -> Iterator[Message]:
        if self._messages is None:
            self._messages = self._found.messages()
        return iter(self._messages)

    def __len__(self) -> int:
        return len(self._found)

    @property
    def cursor(self) -> str | None:
        """Where this page ends, for going on behind it; None if it is empty and there was no cursor before."""
        last = self._found.last() or self._query.cursor
        return None if last is None else last.encode(self._query.asked())

    def to_arrow(self) -> pa.Table:
        """The messages as a table: the columns of `read_arrow`, with the partition in front."""
        return self._found.to_arrow()

    def explain(self) -> dict[str, object]:
        """The plan, what it pruned and used, and how many rows it looked at."""
        return self._trace.report(self._query.plan, len(self._found))

    @property
    def warnings(self) -> tuple[str, ...]:
        """What looks like a mistake in the filter, e.g. seconds where microseconds are meant."""
        return self._filter.warnings
