"""The label index of one stream: its partitions, its composites, and the way in for queries."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence

from lamina.cel import Filter
from lamina.clock import new_uid
from lamina.disk import Disk
from lamina.errors import Closed, Corrupt, Denied, NotFound
from lamina.index.composites import Composite, Composites
from lamina.index.explain import Trace
from lamina.index.page import Page
from lamina.index.partition_index import SETTLE_SECONDS, PartitionIndex
from lamina.index.query import Query, Search
from lamina.log import read_document, write_document

logger = logging.getLogger(__name__)
FILE = "composites.json"
KIND = "composites"


class StreamIndex:
    """Any thread may ask; changes of composites are for the store's owner."""

    def __init__(
        self,
        name: str,
        disk: Disk,
        partitions: Sequence[PartitionIndex],
        *,
        is_owner: bool,
        wake: Callable[[], None] = lambda: None,
    ) -> None:
        self.name = name
        self.partitions = partitions
        self._disk = disk
        self._path = f"{name}/{FILE}"
        self._is_owner = is_owner
        self._wake = wake
        self._changing = threading.Lock()
        self._definitions, self._damage = self._read()
        """Without readable definitions queries go on without composites."""
        self._stopping = threading.Event()

    def composites(self) -> tuple[Composite, ...]:
        """All definitions, as they are now. Corrupt if the file that keeps them is damaged."""
        if not self._is_owner:
            self._definitions, self._damage = self._read()
        if self._damage is not None:
            raise self._damage
        return self._definitions.composites

    def query(self, query: Query, filter_: Filter) -> Page:
        trace = Trace()
        found = Search(query, self.partitions, self._usable(), trace).found()
        self._report_suspects()
        return Page(query, found, trace, filter_)

    def count(self, query: Query) -> tuple[int, int]:
        """How many match, and how many messages had to be looked at."""
        trace = Trace()
        found = Search(query, self.partitions, self._usable(), trace).count()
        self._report_suspects()
        return found, trace.rows_scanned

    def create_composite(self, name: str, keys: Sequence[str]) -> Composite:
        """Durable on return, built in the background. Conflict if the name or the keys are taken."""
        with self._changing:
            self._check_changeable()
            self._write(self._definitions.with_new(new_uid().hex(), name, keys))
            created = self._definitions.get(name)
        self._wake()
        assert created is not None
        return created

    def drop_composite(self, name: str) -> None:
        """Not used from now on; its postings are removed in the background."""
        with self._changing:
            self._check_changeable()
            self._write(self._definitions.without(name))
        self._wake()

    def step(self) -> float | None:
        """Background work; the seconds after which to come again, or None if all is done."""
        composites = self._definitions.composites
        pauses = [partition.step(composites, self._stopping.is_set) for partition in self.partitions]
        if any(one.state == "building" for one in composites):
            pauses.append(self._promote(composites))
        return min((pause for pause in pauses if pause is not None), default=None)

    def backlog(self) -> int:
        """How many messages are not in index files yet; less than a chunk for each partition is normal."""
        return sum(partition.backlog() for partition in self.partitions)

    def stop(self) -> None:
        self._stopping.set()

    def _promote(self, built: tuple[Composite, ...]) -> float | None:
        """Composites that every segment has are ready from now on."""
        if not all(partition.covers(built) for partition in self.partitions):
            return SETTLE_SECONDS
        with self._changing:
            if not self._stopping.is_set():
                self._write(self._definitions.with_ready(one.uid for one in built))
        return None

    def _usable(self) -> tuple[Composite, ...]:
        if not self._is_owner:
            self._definitions, self._damage = self._read()
        return self._definitions.composites

    def _report_suspects(self) -> None:
        """A query found an index file damaged: it is made anew."""
        if self._is_owner and any(partition.has_suspects() for partition in self.partitions):
            self._wake()

    def _check_changeable(self) -> None:
        if not self._is_owner:
            raise Denied("the store is open read-only; open it without read_only=True to change composites")
        if self._stopping.is_set():
            raise Closed(f"stream {self.name!r} is closed or deleted")
        if self._damage is not None:
            raise self._damage

    def _read(self) -> tuple[Composites, Corrupt | None]:
        try:
            return read_document(self._disk, self._path, KIND, Composites), None
        except NotFound:
            return Composites(), None
        except Corrupt as error:
            logger.error("composites not used stream=%s error=%s", self.name, error)
            return Composites(), error

    def _write(self, definitions: Composites) -> None:
        if definitions != self._definitions:
            write_document(self._disk, self._path, KIND, definitions)
            self._definitions = definitions
