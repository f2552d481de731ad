"""An index in a Redis server."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from heapq import merge
from typing import Any

from lamina.clock import new_uid
from lamina.errors import Closed, Conflict, InvalidRequest, NotFound
from lamina.index.backends.entry import Entry, Position
from lamina.index.backends.matching import check_composite, matches_pushed
from lamina.index.backends.redis import layout, scripts
from lamina.index.backends.redis.connection import Connection, WatchError
from lamina.index.backends.redis.searching import TEMPORARY_SECONDS, Search, Source, plan_search
from lamina.index.backends.seam import Answer, BackendStats, Composite, Query, last_of_each

PREFIX_DEFAULT = "lamina:index:"
_BATCH = 1000  # entries per script; the scripts of one batch run as one transaction
_FETCH_MIN = 64
_FETCH_MAX = 4096  # Lua hands at most some 8000 values to one command
_ATTEMPTS = 20
_FIXED = ("entries", "refs", "time", "expires", "sets", "composites", "number", "cursors")


class _Stale(Exception):
    """What a search relied on was gone before it was read."""


class RedisBackend:
    """Entries below one key prefix of a Redis server. Several processes may use the same prefix at once.

    What survives a crash of the server is the server's setting (appendonly, appendfsync).
    """

    def __init__(self, server: str | Connection, *, prefix: str = PREFIX_DEFAULT) -> None:
        if not prefix:
            raise InvalidRequest("the key prefix of a Redis index must not be empty")
        self._is_owner = isinstance(server, str)
        self._connection = Connection(server) if isinstance(server, str) else server
        self._prefix = prefix
        self._is_closed = False
        # As they were at the last look: one look less per query. Whoever relies on them looks again while reading.
        self._known: dict[bytes, bytes] | None = None

    def put_batch(self, entries: Sequence[Entry]) -> None:
        arguments: list[str | bytes] = []
        for entry in last_of_each(entries).values():
            arguments += [entry.ref, layout.encode_entry(entry)]
        with self._use() as client, client.pipeline(transaction=True) as pipe:
            for start in range(0, len(arguments), 2 * _BATCH):
                pipe.eval(scripts.PUT, 1, self._prefix, *arguments[start : start + 2 * _BATCH])
            pipe.execute()

    def get(self, ref: str) -> Entry | None:
        with self._use() as client:
            found = client.hget(self._key("entries"), ref)
        return None if found is None else layout.decode_entry(ref, found)

    def delete(self, refs: Sequence[str]) -> int:
        return int(self._run(scripts.DELETE, *refs)) if refs else 0

    def query(self, query: Query) -> Answer:
        answer = Answer(iter(()))
        answer.entries = self._read(query, answer.steps)
        return answer

    def count(self, query: Query) -> int:
        search = plan_search(query, self._likely_definitions(), self._prefix)
        if not search.is_exact or len(search.sources) > 1:
            return sum(1 for _ in self._read(query, []))
        try:
            return sum(self._count_source(query, search, source) for source in search.sources)
        except _Stale:
            return self.count(query)

    def delete_expired(self, now_us: int, limit: int) -> list[str]:
        return [ref.decode() for ref in self._run(scripts.DELETE_EXPIRED, now_us, limit)]

    def refs(self, prefix: str, limit: int) -> list[str]:
        start = prefix.encode()
        with self._use() as client:
            found = client.zrangebylex(self._key("refs"), b"[" + start, b"(" + start + b"\xff", 0, limit)
        return [ref.decode() for ref in found]

    def composites(self) -> tuple[Composite, ...]:
        return tuple(layout.composite_of(name, definition) for name, definition in self._definitions().items())

    def define_composite(self, name: str, label_keys: Sequence[str]) -> None:
        key = self._key("composites")
        with self._use() as client, client.pipeline(transaction=True) as pipe:
            for _ in range(_ATTEMPTS):
                pipe.watch(key)
                stored = layout.decode_definitions(pipe.hgetall(key))
                others = [layout.composite_of(*item) for item in stored.items()]
                checked = check_composite(name, label_keys, others)
                number = int(pipe.get(self._key("number")) or 0)
                pipe.multi()
                definition = layout.Definition(number, checked.keys, "building")
                pipe.hset(key, name, layout.encode_definition(definition))
                pipe.set(self._key("number"), number + 1)
                if _committed(pipe):
                    return
        raise Conflict(f"composite {name!r}: others define composites at the same time; retry")

    def build_composite(self, name: str, limit: int) -> bool:
        added = int(self._run(scripts.BUILD, name, limit))
        self._known = None
        if added < 0:
            raise NotFound(f"there is no composite {name!r}")
        return added == 0

    def drop_composite(self, name: str) -> None:
        definition = self._definitions().get(name)
        if definition is None:
            raise NotFound(f"there is no composite {name!r}")
        with self._use() as client, client.pipeline(transaction=True) as pipe:
            pipe.hdel(self._key("composites"), name)
            sets = self._key(layout.composite_name(definition.number, []))
            pipe.eval(scripts.SWEEP, 1, self._prefix, sets)
            pipe.execute()

    def put_cursor(self, name: str, text: str) -> None:
        with self._use() as client:
            client.hset(self._key("cursors"), name, text)

    def get_cursor(self, name: str) -> str | None:
        with self._use() as client:
            found = client.hget(self._key("cursors"), name)
        return None if found is None else found.decode()

    def delete_cursor(self, name: str) -> None:
        with self._use() as client:
            client.hdel(self._key("cursors"), name)

    def stats(self) -> BackendStats:
        with self._use() as client, client.pipeline(transaction=True) as pipe:
            pipe.hlen(self._key("entries"))
            pipe.zrange(self._key("time"), 0, 0, withscores=True)
            pipe.zrange(self._key("time"), -1, -1, withscores=True)
            pipe.zrange(self._key("expires"), 0, 0, withscores=True)
            entries, *ends = pipe.execute()
        oldest, newest, next_expiry = (int(found[0][1]) if found else None for found in ends)
        return BackendStats(entries, oldest, newest, next_expiry, self.composites())

    def erase(self) -> None:
        """Remove every key of the index, known by name: nothing else in the server is looked at."""
        with self._use() as client:
            for name in client.sscan_iter(self._key("sets"), count=1000):
                client.unlink(name)
            client.unlink(*(self._key(name) for name in _FIXED))

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            if self._is_owner:
                self._connection.close()

    def _read(self, query: Query, steps: list[str]) -> Iterator[Entry]:
        for _ in range(_ATTEMPTS):
            search = plan_search(query, self._likely_definitions(), self._prefix)
            steps[:] = search.steps
            last = None
            try:
                with self._made(search):
                    for entry in self._merged(query, search):
                        last = entry
                        yield entry
                return
            except _Stale:  # from where we are, by other means
                query = query if last is None else replace(query, after=last.position)
        raise Conflict("composites are dropped faster than they can be read; retry")

    def _merged(self, query: Query, search: Search) -> Iterator[Entry]:
        streams = [self._entries(query, search, source) for source in search.sources]
        if len(streams) == 1:
            yield from streams[0]
            return
        last = None
        for entry in merge(*streams, key=lambda entry: entry.position, reverse=query.descending):
            if entry.ref != last:
                last = entry.ref
                yield entry

    def _entries(self, query: Query, search: Search, source: Source) -> Iterator[Entry]:
        size = max(_FETCH_MIN, min(query.wanted, _FETCH_MAX))
        after = query.after
        while True:
            entries, last = self._page(search, source, query, after, size)
            for entry in entries:
                if entry is None or (query.now_us is not None and entry.is_expired(query.now_us)):
                    continue
                if any(matches_pushed(group, entry) for group in source.groups):
                    yield entry
            if len(entries) < size:
                return
            after = last
            size = min(size * 2, _FETCH_MAX)

    def _page(
        self, search: Search, source: Source, query: Query, after: Position | None, size: int
    ) -> tuple[list[Entry | None], Position | None]:
        """Read while what the search relies on still stands."""
        direction = "down" if query.descending else "up"
        arguments = [source.set, source.least, source.past, direction, *(after or ("", "")), size]
        with self._use() as client, client.pipeline(transaction=True) as pipe:
            pipe.eval(scripts.PAGE, 1, self._prefix, *arguments)
            pipe.hgetall(self._key("composites"))
            for name in search.filled:
                pipe.expire(name, TEMPORARY_SECONDS)
            page, stored, *are_there = pipe.execute()
        self._check(search, stored)
        if not all(are_there):
            raise _Stale
        return layout.decode_page(page)

    def _count_source(self, query: Query, search: Search, source: Source) -> int:
        span = source.least, f"({source.past}"
        expired, hidden = (f"{self._key(layout.TEMPORARY)}{new_uid().hex()}" for _ in range(2))
        with self._made(search), self._use() as client, client.pipeline(transaction=True) as pipe:
            pipe.hgetall(self._key("composites"))
            pipe.zcount(source.set, *span)
            if query.now_us is not None:
                pipe.zrangestore(expired, self._key("expires"), "-inf", query.now_us, byscore=True)
                # The times of expiry weigh nothing, so the scores stay timestamps.
                pipe.zinterstore(hidden, {source.set: 1, expired: 0}, aggregate="SUM")
                pipe.zcount(hidden, *span)
                pipe.unlink(expired, hidden)
            stored, total, *rest = pipe.execute()
        self._check(search, stored)
        return int(total) - (int(rest[2]) if rest else 0)

    @contextmanager
    def _made(self, search: Search) -> Iterator[None]:
        """The sets of the search, gone afterwards."""
        if not search.combines:
            yield
            return
        with self._use() as client, client.pipeline(transaction=True) as pipe:
            for combine in search.combines:
                store = pipe.zunionstore if combine.how == "union" else pipe.zinterstore
                store(combine.target, combine.sources, aggregate="MIN")
                pipe.expire(combine.target, TEMPORARY_SECONDS)
            sizes = pipe.execute()[::2]
        search.filled += [combine.target for combine, size in zip(search.combines, sizes, strict=True) if size]
        try:
            yield
        finally:
            with self._use() as client:
                client.unlink(*search.temporaries)

    def _check(self, search: Search, stored: dict[bytes, bytes]) -> None:
        self._known = stored
        if search.composites:
            ready = {one.number for one in layout.decode_definitions(stored).values() if one.state == "ready"}
            if not search.composites <= ready:
                raise _Stale

    def _definitions(self) -> dict[str, layout.Definition]:
        with self._use() as client:
            self._known = stored = client.hgetall(self._key("composites"))
        return layout.decode_definitions(stored)

    def _likely_definitions(self) -> dict[str, layout.Definition]:
        known = self._known
        return self._definitions() if known is None else layout.decode_definitions(known)

    def _run(self, script: str, *arguments: Any) -> Any:
        with self._use() as client:
            return client.eval(script, 1, self._prefix, *arguments)

    def _key(self, name: str) -> str:
        return self._prefix + name

    @contextmanager
    def _use(self) -> Iterator[Any]:
        """The client, whose own types know neither replies nor pipelines."""
        if self._is_closed:
            raise Closed("the index is closed")
        with self._connection.use() as client:
            yield client


def _committed(pipe: Any) -> bool:
    try:
        pipe.execute()
    except WatchError:
        return False
    return True
