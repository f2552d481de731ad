"""The label index of one partition: all its segments' parts, and the work that is left to do on their files."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence

from lamina.disk import Disk
from lamina.errors import Corrupt, LaminaError, NotFound
from lamina.index import label_file
from lamina.index.composites import Composite
from lamina.index.open_indexes import OpenIndexes
from lamina.index.postings import Postings
from lamina.index.segment_index import SegmentIndex
from lamina.index.settings import IndexSettings
from lamina.log import OpenSegment, PartitionView, SegmentHandle, SegmentState, labels_base, labels_path

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
        open_indexes: OpenIndexes,
        durable_end: Callable[[], int] | None,
    ) -> None:
        self.view = view
        self._disk = disk
        self._directory = directory
        self._settings = settings
        self._open = open_indexes
        self._durable_end = durable_end
        """Only what can never be lost is written to files; None if this process may not write."""
        self._lock = threading.Lock()  # guards the next three
        self._segments: dict[int, SegmentIndex] = {}
        self._done: dict[SegmentHandle, int] = {}  # sealed segments whose file is as it should be, by digest
        self._suspects: set[SegmentHandle] = set()  # sealed segments whose file turned out not to be
        # The worker's own:
        self._settling: dict[SegmentHandle, int] = {}  # where growing segments ended in the last round
        self._complaints: set[str] = set()  # told once
        self._is_swept = False

    def parts(
        self, handle: SegmentHandle, opened: OpenSegment, end: int, composites: Sequence[Composite]
    ) -> tuple[Postings, ...]:
        """The postings of the segment; rows behind the last of them are not indexed.

        What came in lately is indexed now, by whoever asks: publishers pay nothing for it.
        """
        index, chunk = self._of(handle), self._settings.chunk_rows
        if (not index.is_loaded or index.covered < end) and index.lock.acquire(blocking=False):
            try:
                # Its owner may have written more since this process looked.
                is_behind = self._durable_end is None and end - index.covered > chunk
                if not index.is_loaded or is_behind:
                    index.load(opened)
                if 0 < end - index.covered <= 2 * chunk:
                    index.catch_up(opened, end, 2 * chunk, composites)
            finally:
                index.lock.release()
        self._open.use(index, is_owner=self._durable_end is not None)
        if handle.state is SegmentState.SEALED and index.covered < end:
            with self._lock:
                self._done.pop(handle, None)
                self._suspects.add(handle)
        return index.parts

    def has_suspects(self) -> bool:
        return bool(self._suspects)

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
                if self._is_done(handle, wanted):
                    self._mark_done(handle, wanted)
                elif not self._bring_up(handle, composites, wanted, should_stop):
                    again = SETTLE_SECONDS if again is None else again
            except LaminaError as error:
                again = RETRY_SECONDS
                self._complain(handle, error)
            except Exception:
                # One segment that cannot be understood must not stop the others; queries look at its messages.
                again = RETRY_SECONDS
                logger.exception("label index failed path=%s", labels_path(self._directory, handle.base))
        return again

    def backlog(self) -> int:
        """How many messages are not in index files yet."""
        left = 0
        for handle in self.view.segments.handles:
            if handle.damage is None and handle not in self._done:
                index = self._segments.get(handle.base)
                left += max(handle.end - handle.base - (index.saved_end if index is not None else 0), 0)
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
        opened.rows.catch_up()
        index, chunk = self._of(handle), self._settings.chunk_rows
        is_open = handle.state is SegmentState.ACTIVE
        # What was rolled is durable, whatever the stream promises.
        end = (min(handle.end, self._durable_end()) if is_open else handle.end) - handle.base
        is_settled = True
        try:
            with index.lock:
                if not index.is_loaded:
                    index.load(opened)
                while index.covered < end and not (is_open and end - index.covered + index.unsaved_rows < chunk):
                    if should_stop():
                        return True
                    index.catch_up(opened, end, chunk, composites)
                    self._save_if_due(index, opened, end, composites)
                self._save_if_due(index, opened, end, composites)
                if handle.state is SegmentState.SEALED and index.covered == end:
                    index.compact(opened, composites)
                    self._mark_done(handle, digest)
                else:
                    index.recombine(opened, composites)
                    is_settled = len(index.parts) < PARTS_MANY
                    if not is_settled and self._settling.get(handle) == end and index.covered <= end:
                        index.compact(opened, composites)
                        is_settled = True
                    self._settling[handle] = end
            self._open.use(index, is_owner=True)
        finally:
            if not any(other.base == handle.base for other in self.view.segments.handles):
                self._disk.unlink(index.path)  # deleted while we wrote
        return is_settled

    def _save_if_due(self, index: SegmentIndex, opened: OpenSegment, end: int, composites: Sequence[Composite]) -> None:
        """Queries may have indexed beyond what is durable: that is not written yet."""
        if index.unsaved_rows >= self._settings.chunk_rows and index.covered <= end:
            index.save(opened, composites)

    def _of(self, handle: SegmentHandle) -> SegmentIndex:
        with self._lock:
            index = self._segments.get(handle.base)
            if index is None:
                index = self._segments[handle.base] = SegmentIndex(self._disk, self._directory, handle.base)
            return index

    def _mark_done(self, handle: SegmentHandle, digest: int) -> None:
        with self._lock:
            self._done[handle] = digest
            self._suspects.discard(handle)

    def _is_done(self, handle: SegmentHandle, digest: int) -> bool:
        """Whether the file on disk is one part for all rows of this sealed segment, by its first 128 bytes."""
        if handle.state is not SegmentState.SEALED or handle.uid is None or handle in self._suspects:
            return False
        path = labels_path(self._directory, handle.base)
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
                self._open.forget(self._segments.pop(base))
            self._done = {handle: digest for handle, digest in self._done.items() if handle in handles}
            self._suspects &= handles
        self._settling = {handle: end for handle, end in self._settling.items() if handle in handles}
        if not self._is_swept:
            self._sweep(bases)
            self._is_swept = True

    def _sweep(self, bases: set[int]) -> None:
        """Remove index files whose segment is gone: a crash may have come between the two."""
        try:
            for name in self._disk.list(self._directory):
                base = labels_base(name)
                if base is not None and base not in bases:
                    self._disk.unlink(f"{self._directory}/{name}")
        except LaminaError as error:
            logger.warning("old label indexes not removed directory=%s error=%s", self._directory, error)

    def _complain(self, handle: SegmentHandle, error: LaminaError) -> None:
        complaint = f"{handle.base} {error}"
        if complaint not in self._complaints:
            if len(self._complaints) > 1000:
                self._complaints.clear()
            self._complaints.add(complaint)
            where = labels_path(self._directory, handle.base)
            logger.warning("label index not written, to be tried again path=%s error=%s", where, error)
