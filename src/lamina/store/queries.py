"""The part of the store that answers questions about labels, times and topics."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from datetime import datetime

from lamina.clock import Clock
from lamina.index import Composite, Page
from lamina.metrics import Metrics
from lamina.store.querying import Choice, plan_query
from lamina.store.streams import OpenStream, OwnedStreams


class Queries(ABC):
    """Queries, counts and composites of a store's streams."""

    _clock: Clock
    _metrics: Metrics
    _changing: threading.Lock

    @abstractmethod
    def _stream(self, name: str) -> OpenStream: ...

    @abstractmethod
    def _owned(self) -> OwnedStreams:
        """Denied if the store is open read-only."""

    def query(
        self,
        where: str | None = None,
        stream: str = "default",
        topic: str | None = None,
        labels: Mapping[str, str] | None = None,
        any_of: Sequence[Choice] | None = None,
        start: int | datetime | None = None,
        end: int | datetime | None = None,
        limit: int | None = 1000,
        cursor: str | None = None,
        descending: bool = False,
        include_expired: bool = False,
    ) -> Page:
        """Messages that match a CEL filter, in the order (timestamp, partition, offset).

        Everything given must hold: the filter, the topic, all `labels`, one of `any_of`, timestamps in [start, end).
        A page holds at most `limit` messages; while `page.has_more`, ask again with `cursor=page.cursor`. A message
        that arrives later with an earlier timestamp is not in later pages: to miss nothing, read or subscribe.
        """
        target = self._stream(stream)
        query, filter_ = plan_query(
            target,
            where,
            topic=topic,
            labels=labels,
            any_of=any_of,
            start=start,
            end=end,
            limit=limit,
            cursor=cursor,
            descending=descending,
            include_expired=include_expired,
            now_us=self._clock.now_us(),
        )
        started = self._clock.monotonic()
        page = target.index.query(query, filter_)
        self._metrics.observe("lamina_query_seconds", self._clock.monotonic() - started)
        self._metrics.add("lamina_query_rows_scanned_total", page.rows_scanned)
        return page

    def count(
        self,
        where: str | None = None,
        stream: str = "default",
        topic: str | None = None,
        labels: Mapping[str, str] | None = None,
        any_of: Sequence[Choice] | None = None,
        start: int | datetime | None = None,
        end: int | datetime | None = None,
        include_expired: bool = False,
    ) -> int:
        """How many messages match; see `query`. Answered by the index alone where it can be."""
        target = self._stream(stream)
        query, _ = plan_query(
            target,
            where,
            topic=topic,
            labels=labels,
            any_of=any_of,
            start=start,
            end=end,
            limit=None,
            cursor=None,
            descending=False,
            include_expired=include_expired,
            now_us=self._clock.now_us(),
        )
        started = self._clock.monotonic()
        found, scanned = target.index.count(query)
        self._metrics.observe("lamina_query_seconds", self._clock.monotonic() - started)
        self._metrics.add("lamina_query_rows_scanned_total", scanned)
        return found

    def create_composite(self, name: str, keys: Sequence[str], stream: str = "default") -> Composite:
        """Index the combined values of several labels, for queries that give all of them.

        Built in the background; used when `composites()` says that it is ready. Conflict if one has the name or the
        keys already.
        """
        with self._changing:
            return self._owned().get(stream).index.create_composite(name, keys)

    def drop_composite(self, name: str, stream: str = "default") -> None:
        """NotFound if there is none of this name."""
        with self._changing:
            self._owned().get(stream).index.drop_composite(name)

    def composites(self, stream: str = "default") -> list[Composite]:
        return list(self._stream(stream).index.composites())
