"""Opening a partition as its owner: find the segments, keep every whole frame, repair what can be rebuilt.

Nothing that had been durable is dropped: damage is kept, reported, and raised by whoever reads that range.
"""

from __future__ import annotations

import logging

from lamina.errors import Corrupt, LaminaError, NotFound
from lamina.log import names, offset_index, time_index
from lamina.log.active import ActiveSegment, SegmentStats, open_places
from lamina.log.documents import read_document, replace_file, write_document
from lamina.log.format import ALIGNMENT, FRAME_MAGIC, SEGMENT_HEADER_BYTES, decode_segment_header
from lamina.log.head import Head, HeadFile, read_head
from lamina.log.indexes import LiveIndexes, PlaceIndexes
from lamina.log.lineage import PartitionState
from lamina.log.offset_index import OffsetIndex
from lamina.log.partition import Partition, PartitionContext, head_of
from lamina.log.producers import Producers
from lamina.log.recovery import RecoveryReport, Scan, scan
from lamina.log.segment import SegmentReader
from lamina.log.segments import OpenSegment, SegmentHandle, SegmentSet, SegmentState, quarantined, with_gaps
from lamina.log.settings import StreamPolicy
from lamina.log.time_index import TimeIndex

logger = logging.getLogger(__name__)


def open_partition(context: PartitionContext, policy: StreamPolicy) -> Partition:
    """The partition, recovered and ready. Corrupt only if its state cannot be read at all."""
    path = f"{context.directory}/{names.STATE}"
    try:
        state = read_document(context.state_disk, path, "partition", PartitionState)
    except NotFound as error:
        raise Corrupt(f"{path} is missing; restore it from a backup") from error
    context.disk.make_directory(context.directory)
    return _Opening(context, policy, state).run()


class _Opening:
    """The facts gathered while one partition is opened."""

    def __init__(self, context: PartitionContext, policy: StreamPolicy, state: PartitionState) -> None:
        self._context = context
        self._policy = policy
        self._state = state
        self._producers = Producers()
        self._handles: list[SegmentHandle] = []
        self._active: ActiveSegment | None = None
        self._report = RecoveryReport()
        self._head = read_head(context.disk, context.directory)

    def run(self) -> Partition:
        bases = self._find_segments()
        for base, following in zip(bases, [*bases[1:], None], strict=False):
            self._open_segment(base, following)
        self._fill_gaps()
        if self._active is None and self._handles:
            self._read_last_producers()
        head = self._settle_end()
        segments = SegmentSet(tuple(self._handles))
        partition = Partition(
            self._context, self._policy, self._state, self._producers, segments, self._active, head, self._report
        )
        if self._is_tail_damaged():
            partition.refusal = Corrupt("; ".join(self._report.damaged))
        if any(handle.state is SegmentState.CLOSED for handle in self._handles):
            self._context.request_seal(partition)
        return partition

    def _find_segments(self) -> list[int]:
        bases = []
        for name in self._context.disk.list(self._context.directory):
            if name.endswith(names.TEMPORARY):
                self._context.disk.unlink(f"{self._context.directory}/{name}")
            elif (base := names.base_of(name)) is not None:
                bases.append(base)
        # A deletion that was interrupted is finished: these end below the start.
        while len(bases) > 1 and bases[1] <= self._state.start:
            self._unlink_segment(bases.pop(0))
        return bases

    def _open_segment(self, base: int, following: int | None) -> None:
        try:
            handle = self._context.sealed_handle(base)
        except Corrupt as error:
            self._quarantine(base, following, str(error))
            return
        if handle is not None and (following is None or handle.end == following):
            self._handles.append(handle)
            return
        self._recover_segment(base, following)

    def _recover_segment(self, base: int, following: int | None) -> None:
        """A segment without a valid footer: walk its frames."""
        context = self._context
        path = f"{context.directory}/{names.log_name(base)}"
        file = context.disk.open(path, "read")
        try:
            size = file.size()
            data = file.map(size)
        finally:
            file.close()
        try:
            decode_segment_header(data[:SEGMENT_HEADER_BYTES], path)
        except Corrupt as error:
            if following is None and not self._head_is_in(base) and not _holds_frames(data):
                # Power was lost while the segment was being created: it never held anything.
                self._drop_unborn(base, size)
            else:
                self._quarantine(base, following, str(error))
            return
        durable_to = self._head.byte_end if self._head is not None and self._head.segment == base else 0
        offsets = OffsetIndex.of_bytes(base, interval_bytes=context.settings.index_interval_bytes)
        places = PlaceIndexes(offsets, TimeIndex())
        found = scan(data, base, path, visit=places.add, producers=self._producers, durable_to=durable_to)
        end = base + found.stats.end
        if following is not None and end != following and found.damage is None:
            found.damage = f"{path}: whole frames end at offset {end}, the next segment begins at {following}"
        self._take(base, following, found, places, size)

    def _take(self, base: int, following: int | None, found: Scan, places: PlaceIndexes, size: int) -> None:
        context = self._context
        end = base + found.stats.end
        if found.damage is not None or following is not None:
            state = SegmentState.CLOSED if found.damage is None else SegmentState.QUARANTINED
            self._handles.append(_unsealed_handle(context, base, found.end_position, found.stats, places, state))
            if found.damage is not None:
                self._quarantine(end, following, found.damage)
            return
        path = f"{context.directory}/{names.log_name(base)}"
        file = context.disk.open(path, "write")
        if size > found.end_position:
            self._report.dropped_bytes += size - found.end_position
            logger.warning("torn tail dropped path=%s bytes=%s", path, size - found.end_position)
            file.truncate(found.end_position)
        # What was written without an fsync is kept, so it must be durable before anybody is told of it.
        file.sync()
        self._repair_places(base, places)
        live = open_places(context.disk, context.directory, base, context.settings, anew=False)
        live.resume(found.stats.ts_max)
        reader = SegmentReader(context.disk, context.directory, base, found.end_position)
        self._active = ActiveSegment(file, base, found.end_position, found.stats, live, reader)

    def _repair_places(self, base: int, places: PlaceIndexes) -> None:
        """Replace the side files of the active segment unless they are exactly what the log says."""
        for suffix, wanted in (
            (offset_index.SUFFIX, places.offsets.encode()),
            (time_index.SUFFIX, places.times.encode()),
        ):
            path = f"{self._context.directory}/{names.side_name(base, suffix)}"
            try:
                file = self._context.disk.open(path, "read")
            except NotFound:
                found = None
            else:
                found = file.pread(len(wanted) + 1, 0)
                file.close()
            if found != wanted:
                replace_file(self._context.disk, path, wanted)
                self._report.rebuilt.append(path)

    def _fill_gaps(self) -> None:
        """Everything from the start to head had been durable; what is missing there is damage, never a torn tail."""
        durable_end = self._head.end if self._head is not None else 0
        where = self._context.directory
        if self._active is not None and durable_end > self._end():
            # Appending behind a hole would hide it: the active segment becomes one to read only.
            active = self._active
            readable = _unsealed_handle(
                self._context, active.base, active.size, active.stats, active.places, SegmentState.QUARANTINED
            )
            self._handles.append(readable)
            active.reader.close()
            active.close()
            self._active = None
        end = durable_end if self._active is None else self._active.base
        found = list(with_gaps(self._handles, self._state.start, end, where))
        for handle in found:
            if handle.damage is not None and handle not in self._handles:
                self._note(handle)
        self._handles = found

    def _end(self) -> int:
        if self._active is not None:
            return self._active.base + self._active.stats.end
        return self._handles[-1].end if self._handles else self._state.start

    def _settle_end(self) -> HeadFile:
        """Persist the epoch, then a head that says what is durable and that the partition is in use."""
        context, end = self._context, self._end()
        head = self._head
        is_clean = head is not None and head.clean and head.end == end
        is_new = head is None and not self._handles and self._active is None and self._policy.durability != "memory"
        if not is_clean and not (is_new and self._state == PartitionState()):
            self._state = self._state.with_new_epoch(end)
            write_document(context.state_disk, f"{context.directory}/{names.STATE}", "partition", self._state)
        if self._is_tail_damaged():
            # The old head is evidence; nothing will be written.
            return _any_head(context, Head(end, 0, 0))
        active = self._active
        current = Head(end, active.base, active.size) if active is not None else head_of(self._handles, end)
        if head is None:
            file = HeadFile.create(context.disk, context.directory, current)
        else:
            file = HeadFile.open(context.disk, context.directory, write=True)
            file.write(current)
            file.sync()
        context.disk.sync_directory(context.directory)
        return file

    def _is_tail_damaged(self) -> bool:
        """Older damage leaves the end of the log sound: appends may go on."""
        return self._active is None and bool(self._handles) and self._handles[-1].state is SegmentState.QUARANTINED

    def _read_last_producers(self) -> None:
        """All segments are sealed: the last one's tables say what its producers did."""
        last = self._handles[-1]
        if last.state is not SegmentState.SEALED:
            return
        opened = last.open(self._context.cache)
        try:
            scan(opened.reader.whole(), last.base, opened.reader.path, producers=self._producers)
        except LaminaError as error:
            self._report.notes.append(f"producers of {opened.reader.path} could not be read: {error}")

    def _head_is_in(self, base: int) -> bool:
        return self._head is not None and self._head.segment == base and self._head.end > base

    def _drop_unborn(self, base: int, size: int) -> None:
        self._report.dropped_bytes += size
        self._unlink_segment(base)

    def _unlink_segment(self, base: int) -> None:
        for name in names.segment_files(base):
            self._context.disk.unlink(f"{self._context.directory}/{name}")

    def _quarantine(self, start: int, end: int | None, damage: str) -> None:
        if end is None:
            end = max(self._head.end if self._head is not None else 0, start + 1)
        handle = quarantined(start, end, damage)
        self._note(handle)
        if end > start:
            self._handles.append(handle)

    def _note(self, handle: SegmentHandle) -> None:
        logger.error("segment quarantined from=%s to=%s damage=%s", handle.base, handle.end, handle.damage)
        self._report.damaged.append(handle.damage or "")


def _holds_frames(data: memoryview) -> bool:
    """Whether anything behind a damaged segment header looks like a frame; without the uid, CRCs cannot be asked."""
    return any(data[at : at + 4] == FRAME_MAGIC for at in range(SEGMENT_HEADER_BYTES, len(data) - 3, ALIGNMENT))


def _unsealed_handle(
    context: PartitionContext,
    base: int,
    size: int,
    stats: SegmentStats,
    places: PlaceIndexes,
    state: SegmentState,
) -> SegmentHandle:
    """Whole frames to read. Those before damage are quarantined with it: their file must stay as it is.

    Opened at once: sealing may put another file of that name there before the first read.
    """
    reader = SegmentReader(context.disk, context.directory, base, size)
    reader.freeze()
    opened = OpenSegment(reader, LiveIndexes(places, reader))
    return SegmentHandle(base, base + stats.end, size, state, stats, lambda: opened)


def _any_head(context: PartitionContext, fallback: Head) -> HeadFile:
    try:
        return HeadFile.open(context.disk, context.directory, write=True)
    except NotFound:
        return HeadFile.create(context.disk, context.directory, fallback)
