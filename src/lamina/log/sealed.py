"""Handles of sealed segments: all that is needed is in the footer, so a store with many of them opens quickly."""

from __future__ import annotations

from collections.abc import Callable

from lamina.disk import Disk
from lamina.errors import Corrupt
from lamina.log.active import SegmentStats
from lamina.log.indexes import SealedIndexes
from lamina.log.seal import Sealed, read_footer
from lamina.log.segment import SegmentReader
from lamina.log.segments import OpenSegment, SegmentHandle, SegmentState

Repair = Callable[[str], None]


def sealed_handle(disk: Disk, directory: str, base: int, repair: Repair | None) -> SegmentHandle | None:
    """The handle, or None if the segment has no valid footer. `repair` hears of side files it had to rebuild."""
    sealed = read_footer(disk, directory, base)
    if sealed is None:
        return None
    footer = sealed.footer
    stats = SegmentStats(
        footer.count,
        footer.end,
        footer.frames,
        footer.ts_min,
        footer.ts_max,
        footer.appended_min,
        footer.appended_max,
    )

    def opener() -> OpenSegment:
        return open_sealed(disk, directory, base, sealed, repair)

    return SegmentHandle(base, base + footer.end, sealed.file_bytes, SegmentState.SEALED, stats, opener, uid=footer.uid)


def open_sealed(disk: Disk, directory: str, base: int, sealed: Sealed, repair: Repair | None) -> OpenSegment:
    """Corrupt if the file is not the one that the footer describes."""
    reader = SegmentReader(disk, directory, base, sealed.footer_position)
    if reader.uid != sealed.footer.uid:
        reader.close()
        raise Corrupt(f"{reader.path}: header and footer name different segments")
    reader.freeze()
    indexes = SealedIndexes(disk, directory, reader, sealed.footer, repair=repair)
    return OpenSegment(reader, indexes)
