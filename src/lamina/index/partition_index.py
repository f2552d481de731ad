"""The label index of one partition: all its segments' parts, and the work that is left to do on their files."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence

from lamina.disk import Disk
from lamina.errors import Corrupt, LaminaError, NotFound
from lamina.index import label_file
from lamina.index.composites import Composite
from lamina.index.postings import Postings
from lamina.index.segment_index import SegmentIndex
from lamina.index.settings import IndexSettings
from lamina.log import OpenSegment, PartitionView, SegmentHandle, SegmentState, labels_path

logger = logging.getLogger(__name__)
PARTS_MANY = 4
SETTLE_SECONDS = 1.0
RETRY_SECONDS = 5.0


class PartitionIndex:
    """Any thread may ask. `step` is for the one worker of the store's owner."""

    def __init__(
        self,
        view: PartitionView,
        disk: Disk,
        directory: str,
        settings: IndexSettings,
        durable_end: Callable[[], int] | None,
    ) -> None:
        self.view = view
        self._disk = disk
        self._directory = directory
        self._settings = settings
        self._durable_end = durable_end
        """Only what can never be lost is written to files; None if this process may not write."""
        self._lock = threading.Lock()
        self._segments: OrderedDict[int, SegmentIndex] = OrderedDict()  # least recently used first
        self._done: dict[SegmentHandle, int] = {}  # sealed segments whose file is as it should be, by digest
        self._settling: dict[SegmentHandle, int] = {}  # where growing segments ended in the last round

    def parts(
        self, handle: SegmentHandle, opened: OpenSegment, end: int, composites: Sequence[Composite]
    ) -> tuple[Postings, ...]:
        """The postings of the segment; rows behind the last of them are not indexed.

        What came in lately is indexed now, by whoever asks: publishers pay nothing for it.
        """
        index = self._of(handle, opened)
        missing = end - index.covered
        if missing > 0:
            self._done.pop(handle, None)  # its file turned out to be damaged
        if missing > 0 and index.lock.acquire(blocking=False):
            try:
                if missing > self._settings.chunk_rows and self._durable_end is None:
                    index.load(opened.reader.uid)  # its owner may have written more by now
                if end - index.covered <= 2 * self._settings.chunk_rows:
                    index.catch_up(opened, end, 2 * self._settings.chunk_rows, composites)
            finally:
                index.lock.release()
        return index.parts

    def step(self, composites: Sequence[Composite], should_stop: Callable[[], bool]) -> float | None:
        """Bring every segment's file up to date; the seconds after which to come again, or None if all is done."""
        self._forget_deleted()
        wanted = label_file.composites_digest(one.uid for one in composites)
        again: float | None = None
        for handle in self.view.segments.handles:
            if should_stop():
                break
            if handle.damage is not None or self._done.get(handle) == wanted:
                continue
            try:
                if handle.state is SegmentState.SEALED and self._is_done(handle, wanted):
                    self._done[handle] = wanted
                elif not self._bring_up(handle, composites, wanted, should_stop):
                    again = SETTLE_SECONDS
            except LaminaError as error:
                again = RETRY_SECONDS
                where = labels_path(self._directory, handle.base)
                logger.warning("label index not written path=%s error=%s", where, error)
        return again

    def backlog(self) -> int:
        """How many messages are not in index files yet."""
        left = 0
        for handle in self.view.segments.handles:
            if handle.damage is None and handle not in self._done:
                index = self._segments.get(handle.base)
                left += handle.end - handle.base - (index.saved_end if index is not None else 0)
        return left

    def covers(self, composites: Sequence[Composite]) -> bool:
        """Whether all that is indexed has these composites."""
        wanted = label_file.composites_digest(one.uid for one in composites)
        uids = {one.uid for one in composites}
        for handle in self.view.segments.handles:
            if handle.damage is not None or self._done.get(handle) == wanted:
                continue
            index = self._segments.get(handle.base)
            if handle.state is SegmentState.SEALED or (
                index is not None and not all(uids <= part.composites for part in index.parts)
            ):
                return False
        return True

    def _bring_up(
        self, handle: SegmentHandle, composites: Sequence[Composite], digest: int, should_stop: Callable[[], bool]
    ) -> bool:
        """False if a growing segment has many parts, to be merged when nothing is published for a while."""
        assert self._durable_end is not None
        opened = self.view.open(handle)
        index, uid, chunk = self._of(handle, opened), opened.reader.uid, self._settings.chunk_rows
        is_open = handle.state is SegmentState.ACTIVE
        # What was rolled is durable, whatever the stream promises.
        end = (min(handle.end, self._durable_end()) if is_open else handle.end) - handle.base
        is_settled = True
        with index.lock:
            while index.covered < end and not (is_open and end - index.covered + index.unsaved_rows < chunk):
                if should_stop():
                    return True
                index.catch_up(opened, end, chunk, composites)
                if index.unsaved_rows >= chunk and index.covered <= end:
                    index.save(uid, composites)
            if is_open:
                index.recombine(composites)
                is_settled = len(index.parts) < PARTS_MANY
                if not is_settled and self._settling.get(handle) == end and index.covered <= end:
                    index.compact(uid, composites)
                    is_settled = True
                self._settling[handle] = end
            elif handle.state is SegmentState.SEALED and index.covered == end:
                index.compact(uid, composites)
                self._done[handle] = digest
        if handle not in self.view.segments.handles and not self._is_replaced(handle):
            self._disk.unlink(index.path)  # deleted while we wrote
        return is_settled

    def _is_replaced(self, handle: SegmentHandle) -> bool:
        return any(other.base == handle.base for other in self.view.segments.handles)

    def _of(self, handle: SegmentHandle, opened: OpenSegment) -> SegmentIndex:
        with self._lock:
            index = self._segments.get(handle.base)
            if index is not None:
                self._segments.move_to_end(handle.base)
                return index
            self._make_room()
            index = self._segments[handle.base] = SegmentIndex(self._disk, self._directory, handle.base)
            index.lock.acquire()
        try:
            index.load(opened.reader.uid)
        finally:
            index.lock.release()
        return index

    def _make_room(self) -> None:
        """Under the lock. What is in files can be loaded again; who still reads from it keeps it."""
        if len(self._segments) < self._settings.open_indexes_max:
            return
        for base, index in self._segments.items():
            if not index.unsaved_rows:
                del self._segments[base]
                return

    def _is_done(self, handle: SegmentHandle, digest: int) -> bool:
        """Whether the file on disk is one part for all rows of this segment, by its first 128 bytes."""
        path = labels_path(self._directory, handle.base)
        if handle.uid is None:
            return False
        try:
            file = self._disk.open(path, "read")
        except NotFound:
            return False
        try:
            data = file.pread(label_file.HEADER_BYTES + label_file.RECORD_HEADER_BYTES, 0)
            size = file.size()
        finally:
            file.close()
        try:
            label_file.check_header(data, handle.uid, path)
        except Corrupt:
            return False
        record = label_file.record_at(data, label_file.HEADER_BYTES)
        return (
            record is not None
            and (record.first, record.end) == (0, handle.end - handle.base)
            and (record.composites_digest, record.end_position) == (digest, size)
        )

    def _forget_deleted(self) -> None:
        handles = set(self.view.segments.handles)
        bases = {handle.base for handle in handles}
        with self._lock:
            for base in [base for base in self._segments if base not in bases]:
                del self._segments[base]
        for known in (self._done, self._settling):
            for handle in [handle for handle in known if handle not in handles]:
                del known[handle]
