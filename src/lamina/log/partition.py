"""A partition that this process owns: it alone appends, rolls, seals and deletes."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass

from lamina.clock import Clock, new_uid
from lamina.disk import Disk
from lamina.errors import Closed, Conflict, Corrupt, LaminaError, Unavailable
from lamina.log import names
from lamina.log.active import ActiveSegment
from lamina.log.commit import Entry
from lamina.log.documents import write_document
from lamina.log.format import ProducerEntry
from lamina.log.framing import draft_frames
from lamina.log.head import Head, HeadFile
from lamina.log.indexes import LiveIndexes
from lamina.log.lineage import PartitionState
from lamina.log.producers import AppendedRange, Producers
from lamina.log.recovery import RecoveryReport
from lamina.log.seal import seal
from lamina.log.sealed import sealed_handle
from lamina.log.segments import OpenSegment, OpenSegments, SegmentHandle, SegmentSet, SegmentState
from lamina.log.settings import LogSettings, StreamPolicy
from lamina.log.view import PartitionView
from lamina.log.waiting import FOREVER, Deadline
from lamina.log.written import Written
from lamina.metrics import Metrics

logger = logging.getLogger(__name__)
_COMMIT = "a commit of others"


@dataclass(frozen=True, slots=True)
class PartitionContext:
    """Where a partition is and what it works with."""

    stream: str
    number: int
    directory: str
    disk: Disk
    state_disk: Disk  # differs from `disk` only where messages stay in memory
    clock: Clock
    settings: LogSettings
    metrics: Metrics
    cache: OpenSegments
    request_seal: Callable[[Partition], None]
    changed: Callable[[], None] = lambda: None
    """Called after each commit and each seal, on the thread that did it: it must return at once."""

    def sealed_handle(self, base: int) -> SegmentHandle | None:
        """None if the segment has no valid footer."""
        return sealed_handle(self.disk, self.directory, base, self._count_rebuilt)

    def _count_rebuilt(self, _path: str) -> None:
        self.metrics.add("lamina_recovery_side_files_rebuilt_total")


class Partition:
    """One ordered log. Any thread may read; its stream's leader appends, one group at a time.

    After a failed fsync nobody knows what the disk holds, so the partition refuses to write until it is reopened.
    """

    def __init__(
        self,
        context: PartitionContext,
        policy: StreamPolicy,
        state: PartitionState,
        producers: Producers,
        segments: SegmentSet,
        active: ActiveSegment | None,
        head: HeadFile,
        report: RecoveryReport,
    ) -> None:
        self.context = context
        self.policy = policy
        self.state = state
        self.report = report
        self.refusal: LaminaError | None = None
        self.view = PartitionView(context.stream, context.number, segments, context.cache, self.bounds)
        self._producers = producers
        self._segments = segments
        self._head = head
        self._writing = threading.Lock()  # held by whoever changes the fields below
        self._sealing = threading.Lock()  # held by whoever seals or deletes files
        self._head_end = 0  # what head says on disk
        self._end_when_opened = self.bounds()[1]  # recovery has synced what it found
        self._has_sync_failed = False  # then nobody knows what the disk holds
        self._active: ActiveSegment | None = None
        self._active_handle: SegmentHandle | None = None
        if active is not None:
            self._use(active)

    # Appending, by the stream's leading thread

    def begin(self, entries: Sequence[Entry]) -> Written | None:
        """Write the entries. Unless it returns None, `finish` must follow, with `sync` before it if it is asked for."""
        self._writing.acquire()
        written = None
        twins: list[tuple[Entry, Entry]] = []
        try:
            self._check_writable()
            if group := self._admit(entries, twins):
                written = self._write(group)
                written.twins = twins
        except LaminaError as error:
            self._fail(entries, error)
        except BaseException as error:
            # A bug or Ctrl-C in the middle: what the file and our picture of it hold may differ now.
            self._refuse(f"a commit was interrupted ({error!r})")
            raise
        finally:
            if written is None:
                self._writing.release()
        return written

    def sync(self, written: Written) -> None:
        """Make the written entries durable. Any thread."""
        try:
            written.active.sync()
        except LaminaError as error:
            written.error = error
        except BaseException as error:
            written.error = Unavailable(f"sync was interrupted ({error!r})")
            raise

    def finish(self, written: Written) -> None:
        """Tell readers and the entries that they are stored, or the entries that nobody knows."""
        try:
            if written.error is None and written.needs_sync and written.active.synced < written.active.size:
                written.error = Unavailable("nobody waited for the sync")
            if written.error is not None:
                self._fail(written.entries, self._unknown(written.error))
            else:
                self._acknowledge(written)
            for entry, twin in written.twins:
                twin.first, twin.epoch, twin.error = entry.first, entry.epoch, entry.error
        except BaseException as error:
            self._refuse(f"a commit was interrupted ({error!r})")
            raise
        finally:
            self._writing.release()

    def find_producer(self, producer: str, sequence: int, deadline: Deadline = FOREVER) -> AppendedRange | None:
        with deadline.holding(self._writing, _COMMIT):
            return self._producers.find(producer, sequence)

    def last_sequence(self, producer: str, deadline: Deadline = FOREVER) -> int | None:
        """None if the producer is unknown, or was idle for so long that it is forgotten."""
        with deadline.holding(self._writing, _COMMIT):
            self._producers.forget_one(producer, before=self._idle_before(self.context.clock.now_us()))
            return self._producers.last_sequence(producer)

    # Reading

    def bounds(self) -> tuple[int, int]:
        handles = self._segments.handles
        return self.state.start, max(handles[-1].end if handles else 0, self.state.start)

    def durable_end(self) -> int:
        """Messages below this offset cannot be lost any more, as far as the stream's medium goes."""
        if self.policy.durability == "memory":
            return self.bounds()[1]
        return max(self._head_end, self._end_when_opened)

    @property
    def epoch(self) -> int:
        return self.state.epoch

    # Upkeep

    def change_policy(self, policy: StreamPolicy) -> None:
        """A stricter durability holds for what is written already, too."""
        with self._writing:
            self.policy = policy
        self.flush()
        with self._writing:
            self._check_writable()

    def flush(self) -> None:
        """Make everything written durable, without holding up writers meanwhile."""
        with self._writing:
            active = self._active
            if active is None or self._has_sync_failed or isinstance(self.refusal, Closed):
                return
            head = self._head_record()
            if active.synced >= active.size and head.end <= self._head_end:
                return
        try:
            active.sync()
        except Closed:
            return  # rolled meanwhile, and synced before that
        except LaminaError as error:
            self._has_sync_failed = True
            self._refuse(f"fsync failed ({error})")
            return
        with self._writing:
            if active is self._active and self.refusal is None:
                # More may have been written and synced meanwhile.
                self._write_head(self._head_record() if active.synced >= active.size else head)

    def roll(self, deadline: Deadline = FOREVER) -> None:
        """Close the active segment, if it holds anything, and begin a new one."""
        with deadline.holding(self._writing, _COMMIT):
            self._check_writable()
            if self._active is not None and self._active.stats.end:
                self._roll(self.context.clock.now_us())

    def seal_closed(self, deadline: Deadline = FOREVER) -> bool:
        """Seal every closed segment; False if one could not be. Appends and reads go on meanwhile."""
        with deadline.holding(self._sealing, "sealing in the background"):
            if isinstance(self.refusal, Closed):
                return True  # the files may be another stream's by now
            for handle in self._segments.handles:
                if handle.state is SegmentState.CLOSED:
                    self._seal(handle)
        self.context.changed()
        if self.policy.durability == "memory":
            self._trim()
        return not any(handle.state is SegmentState.CLOSED for handle in self._segments.handles)

    def delete_before(self, offset: int) -> None:
        """Forget everything below `offset`, whole segments physically. Durable on return."""
        with self._sealing, self._writing:
            _, end = self.bounds()
            if self._active is not None and self._active.synced < self._active.size:
                self._sync(self._active)  # the start must never be behind a durable end
            self._save_state(self.state.with_start(min(offset, end)))
            self._remove(self._segments.remove_before(self.state.start))

    def close(self) -> None:
        """Make everything durable and leave a clean end behind. The stream's queue is closed before."""
        with self._sealing, self._writing:
            if not self._has_sync_failed:
                self._close_durably()
            if self._active is not None:
                with suppress(LaminaError):
                    self._active.reader.freeze()  # reads that have begun may end
                self._active.close()
            self._head.close()
            self.refusal = Closed("the store is closed")

    def _trim(self) -> None:
        """A stream in memory keeps the newest messages that fit its limit."""
        limit = self.policy.retention_bytes or self.context.settings.memory_stream_bytes_max
        size, keep_from = 0, None
        for handle in reversed(self._segments.handles):
            size += handle.bytes
            if size > limit and handle.state is not SegmentState.ACTIVE:
                keep_from = handle.end
                break
        if keep_from is not None:
            self.delete_before(keep_from)

    # Under the _writing lock

    def _fail(self, entries: Sequence[Entry], error: LaminaError) -> None:
        self.context.metrics.add("lamina_publish_failures_total", len(entries))
        for entry in entries:
            if entry.first < 0 and entry.error is None:
                entry.error = error

    def _admit(self, entries: Sequence[Entry], twins: list[tuple[Entry, Entry]]) -> list[Entry]:
        """Entries to write; a numbered call that is in the log already gets its original place."""
        admitted = []
        numbered: dict[tuple[str, int], Entry] = {}
        for entry in entries:
            entry.epoch = self.state.epoch
            if entry.pending.producer is not None:
                first = numbered.setdefault(entry.pending.producer, entry)
                if first is not entry:
                    twins.append((first, entry))
                    continue
            known = self._producers.find(*entry.pending.producer) if entry.pending.producer else None
            if known is None:
                admitted.append(entry)
            elif known.count == entry.pending.count:
                entry.first = known.first
                entry.epoch = self.state.epoch_of(known.first)
            else:
                entry.error = Conflict(
                    f"producer {entry.pending.producer} is in the log with {known.count} messages, "
                    f"this call has {entry.pending.count}; a sequence names one batch for ever"
                )
        return admitted

    def _write(self, group: Sequence[Entry]) -> Written:
        started = self.context.clock.monotonic()
        drafts = draft_frames([entry.pending for entry in group], self.context.settings.frame_bytes_target)
        count = sum(draft.count for draft in drafts)
        now_us = self.context.clock.now_us()
        active = self._active_for(drafts, count, now_us)
        written = Written(
            entries=group,
            active=active,
            first=active.base + active.stats.end,
            count=count,
            size_before=active.size,
            appended_at=now_us,
            started=started,
            needs_sync=self.policy.durability == "local",
        )
        active.write(drafts, now_us)
        return written

    def _acknowledge(self, written: Written) -> None:
        self._publish_end(written.active)
        first = written.first
        for entry in written.entries:
            entry.first = first
            if entry.pending.producer is not None:
                numbered = ProducerEntry(*entry.pending.producer, 0, entry.pending.count)
                self._producers.record(numbered, first, written.appended_at)
            first += entry.pending.count
        self._count(written)

    def _sync(self, active: ActiveSegment) -> None:
        try:
            active.sync()
        except LaminaError as error:
            raise self._unknown(error) from error

    def _unknown(self, error: LaminaError) -> Unavailable:
        self._has_sync_failed = True
        return self._refuse(f"fsync failed ({error}); whether the last messages are stored is unknown")

    def _active_for(self, drafts: Sequence[object], count: int, now_us: int) -> ActiveSegment:
        settings = self.context.settings
        active = self._active
        if active is None:
            active = self._begin(self.bounds()[1], now_us)
        age_us = now_us - active.stats.appended_min if active.stats.end else 0
        if age_us > settings.segment_age_seconds * 1e6 or not active.fits(drafts, count, settings):  # type: ignore[arg-type]
            self._roll(now_us)
            assert self._active is not None
            active = self._active
        return active

    def _roll(self, now_us: int) -> None:
        old, handle = self._active, self._active_handle
        assert old is not None
        assert handle is not None
        self._sync(old)
        self._publish_end(old)
        self._begin(handle.end, now_us)
        old.reader.freeze()
        old.close()
        handle.state = SegmentState.CLOSED
        self.context.request_seal(self)

    def _begin(self, base: int, now_us: int) -> ActiveSegment:
        context = self.context
        self._producers.forget(before=self._idle_before(now_us), keep_max=context.settings.producers_max)
        try:
            active = ActiveSegment.create(
                context.disk, context.directory, base, new_uid(), self._producers, now_us, context.settings
            )
        except LaminaError as error:
            self._take_back(base, error)
            raise
        self._use(active)
        self._write_head(self._head_record())
        return active

    def _idle_before(self, now_us: int) -> int:
        return now_us - int(self.context.settings.producer_idle_seconds * 1e6)

    def _take_back(self, base: int, cause: LaminaError) -> None:
        """Remove a segment that could not be begun: it must never come back beside messages of its offsets."""
        context = self.context
        try:
            for name in names.segment_files(base):
                context.disk.unlink(f"{context.directory}/{name}")
            context.disk.sync_directory(context.directory)
        except LaminaError as error:
            self._refuse(f"a new segment could neither be begun ({cause}) nor be taken back ({error})")

    def _use(self, active: ActiveSegment) -> None:
        opened = OpenSegment(active.reader, LiveIndexes(active.places, active.reader))
        end = active.base + active.stats.end
        handle = SegmentHandle(active.base, end, active.size, SegmentState.ACTIVE, active.stats, lambda: opened)
        self._active, self._active_handle = active, handle
        self._segments.add(handle)

    def _publish_end(self, active: ActiveSegment) -> None:
        """Let readers see what was written: first the bytes, then the offsets."""
        handle = self._active_handle
        assert handle is not None
        active.reader.limit = active.size
        handle.bytes = active.size
        handle.end = active.base + active.stats.end
        if active.synced >= active.size:
            self._write_head(self._head_record())

    def _head_record(self, *, clean: bool = False) -> Head:
        if (active := self._active) is not None:
            return Head(active.base + active.stats.end, active.base, active.size, clean=clean)
        return head_of(self._segments.handles, self.bounds()[1], clean=clean)

    def _write_head(self, head: Head) -> None:
        if head.end < self._head_end:
            return
        try:
            self._head.write(head)
            self._head_end = head.end
        except LaminaError as error:
            # The messages are durable whatever head says; other processes see them after the next commit.
            logger.warning("head not written partition=%s/%s error=%s", self.context.stream, self.context.number, error)

    def _close_durably(self) -> None:
        try:
            if self._active is not None:
                self._active.sync()
                self._active.places.sync()
            if self.refusal is None:
                self._head.write(self._head_record(clean=True))
                self._head.sync()
        except LaminaError as error:
            logger.error("unclean close partition=%s/%s error=%s", self.context.stream, self.context.number, error)

    def _check_writable(self) -> None:
        if self._active is not None and self._active.broken:
            self._refuse(self._active.broken)
        if self.refusal is not None:
            raise copy(self.refusal)  # one instance for all would gather everybody's tracebacks

    def _refuse(self, reason: str) -> Unavailable:
        where = f"{self.context.stream}/{self.context.number}"
        logger.error("partition closed for writing partition=%s reason=%s", where, reason)
        error = Unavailable(f"partition {where} is closed for writing: {reason}; check the disk and reopen the store")
        self.refusal = self.refusal or error
        return error

    def _save_state(self, state: PartitionState) -> None:
        write_document(self.context.state_disk, f"{self.context.directory}/{names.STATE}", "partition", state)
        self.state = state

    def _count(self, written: Written) -> None:
        metrics = self.context.metrics
        metrics.add("lamina_bytes_written_total", written.active.size - written.size_before)
        metrics.observe("lamina_commit_messages", written.count)
        metrics.observe("lamina_commit_seconds", self.context.clock.monotonic() - written.started)

    # Under the _sealing lock

    def _seal(self, handle: SegmentHandle) -> None:
        context = self.context
        try:
            seal(
                context.disk,
                context.directory,
                handle.base,
                handle.bytes,
                context.settings.index_interval_bytes,
                new_uid(),
            )
        except Corrupt as error:
            # It stays as it is: readers of the damaged frame get the error, the rest of it can be read.
            logger.error("damaged segment not sealed base=%s error=%s", handle.base, error)
            return
        except LaminaError as error:
            logger.warning("segment not sealed, to be tried again base=%s error=%s", handle.base, error)
            return
        sealed = context.sealed_handle(handle.base)
        if sealed is not None:
            self._segments.replace(handle, sealed)
            context.cache.drop(handle)
            context.metrics.add("lamina_segments_sealed_total")

    def _remove(self, handles: Sequence[SegmentHandle]) -> None:
        context = self.context
        for handle in handles:
            context.cache.drop(handle)
            for name in names.segment_files(handle.base):
                context.disk.unlink(f"{context.directory}/{name}")
        if handles:
            context.disk.sync_directory(context.directory)


def head_of(handles: Sequence[SegmentHandle], end: int, *, clean: bool = False) -> Head:
    """The head of a partition without an active segment points behind its last sealed one."""
    return Head(end, handles[-1].base, handles[-1].bytes, clean=clean) if handles else Head(end, end, 0, clean=clean)
