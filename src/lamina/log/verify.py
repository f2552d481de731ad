"""Checking segments end to end: every byte against its checksum, every side file against its log. Changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from crc32c import crc32c

from lamina.disk import Disk
from lamina.errors import Corrupt, LaminaError
from lamina.log import names
from lamina.log.block import Block
from lamina.log.indexes import SealedIndexes
from lamina.log.seal import read_footer
from lamina.log.segment import SegmentReader
from lamina.log.segments import OpenSegments, SegmentHandle, SegmentSet, SegmentState
from lamina.log.view import PartitionView


@dataclass(frozen=True, slots=True)
class SegmentCheck:
    """The verdict on one segment; `problems` is empty if every byte is as it was written."""

    stream: str
    partition: int
    base: int
    end: int
    bytes: int
    state: str
    problems: tuple[str, ...]

    @property
    def ok(self) -> bool:
        return not self.problems


def verify_partition(disk: Disk, directory: str, view: PartitionView, cache: OpenSegments) -> Iterator[SegmentCheck]:
    """One verdict per segment, oldest first."""
    view.bounds()
    for handle in view.segments.handles:
        problems = tuple(_problems(disk, directory, handle, cache))
        yield SegmentCheck(
            view.stream, view.number, handle.base, handle.end, handle.bytes, handle.state.value, problems
        )


def foreign_files(disk: Disk, directory: str, segments: SegmentSet) -> list[str]:
    """Names in a partition's directory that Lamina did not put there."""
    known = {names.HEAD, names.STATE}
    for handle in segments.handles:
        known.update(names.segment_files(handle.base))
    return [name for name in disk.list(directory) if name not in known and not name.endswith(names.TEMPORARY)]


def _problems(disk: Disk, directory: str, handle: SegmentHandle, cache: OpenSegments) -> Iterator[str]:
    if handle.damage is not None:
        yield handle.damage
        return
    try:
        opened = handle.open(cache)
        yield from _frame_problems(opened.reader, handle)
        if handle.state is SegmentState.SEALED and isinstance(opened.indexes, SealedIndexes):
            yield from _seal_problems(disk, directory, opened.reader, opened.indexes)
    except LaminaError as error:
        yield str(error)


def _frame_problems(reader: SegmentReader, handle: SegmentHandle) -> Iterator[str]:
    """Walk all frames, whatever was verified before."""
    end, count = 0, 0
    for frame in reader.frames():
        header = frame.header
        if header.first < end:
            yield f"{reader.path}, byte {frame.position}: offset {reader.base + header.first} comes twice"
        try:
            block = Block.decode(header, reader.payload(frame), reader.base)
            times = block.timestamps()
            if len(times) and (int(times.min()), int(times.max())) != (header.ts_min, header.ts_max):
                yield f"{reader.path}, byte {frame.position}: timestamps differ from the frame header's range"
        except Corrupt as error:
            yield str(error)
        end, count = header.end, count + header.count
    if handle.state is not SegmentState.ACTIVE and reader.base + end != handle.end:
        yield f"{reader.path}: frames end at offset {reader.base + end}, expected {handle.end}"


def _seal_problems(disk: Disk, directory: str, reader: SegmentReader, indexes: SealedIndexes) -> Iterator[str]:
    sealed = read_footer(disk, directory, reader.base)
    if sealed is None:
        yield f"{reader.path}: the footer is damaged"
        return
    if crc32c(reader.whole()) != sealed.footer.body_crc:
        yield f"{reader.path}: the checksum of the whole segment does not match"
    for suffix in names.SIDE_SUFFIXES:
        if (problem := indexes.check(suffix)) is not None:
            yield f"{problem}; it is rebuilt when the store's owner next uses it"
