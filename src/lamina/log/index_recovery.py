"""Rebuilding and checking an offset index against its log, as a tool beside the store's own recovery."""

from __future__ import annotations

from pathlib import Path

from lamina.disk import FileDisk
from lamina.errors import Corrupt, InvalidRequest, NotFound
from lamina.log.documents import replace_file
from lamina.log.format import decode_segment_header
from lamina.log.names import base_of, side_name
from lamina.log.offset_index import ENTRIES_MAX, INTERVAL_BYTES, SUFFIX, IndexEntry, OffsetIndex
from lamina.log.recovery import scan
from lamina.log.segment import Frame


class IndexRecovery:
    """For `<base>.log` files that no store has open."""

    @staticmethod
    def rebuild_index(
        log_path: Path, base_offset: int, *, interval_bytes: int = INTERVAL_BYTES, max_entries: int = ENTRIES_MAX
    ) -> OffsetIndex:
        """Write the index anew from the log's whole frames (beside the old one, then renamed) and open it."""
        wanted = _wanted_entries(log_path, base_offset, interval_bytes, max_entries)
        data = b"".join(entry.to_bytes() for entry in wanted)
        replace_file(FileDisk(log_path.parent), side_name(base_offset, SUFFIX), data)
        return OffsetIndex(base_offset, log_path.parent, max_entries, interval_bytes)

    @staticmethod
    def validate_index(index: OffsetIndex, log_path: Path) -> bool:
        """Whether every entry points at a whole frame with that offset and none is missing."""
        wanted = _wanted_entries(log_path, index.base_offset, index.interval_bytes, index.max_entries)
        return list(index.entries()) == wanted

    @staticmethod
    def recover_or_rebuild(
        log_path: Path, base_offset: int, *, interval_bytes: int = INTERVAL_BYTES, max_entries: int = ENTRIES_MAX
    ) -> OffsetIndex:
        """The index as it is if it is valid, else a rebuilt one."""
        try:
            index = OffsetIndex(base_offset, log_path.parent, max_entries, interval_bytes, read_only=True)
            index.close()
            if IndexRecovery.validate_index(index, log_path):
                return OffsetIndex(base_offset, log_path.parent, max_entries, interval_bytes)
        except (Corrupt, NotFound):
            pass
        return IndexRecovery.rebuild_index(
            log_path, base_offset, interval_bytes=interval_bytes, max_entries=max_entries
        )


def _wanted_entries(log_path: Path, base_offset: int, interval_bytes: int, max_entries: int) -> list[IndexEntry]:
    if base_of(log_path.name) != base_offset:
        raise InvalidRequest(f"{log_path.name} is not the segment with base offset {base_offset}")
    file = FileDisk(log_path.parent).open(log_path.name, "read")
    try:
        data = file.map(file.size())
    finally:
        file.close()
    decode_segment_header(data[:64], str(log_path))
    index = OffsetIndex.of_bytes(base_offset, max_entries=max_entries, interval_bytes=interval_bytes)

    def visit(frame: Frame) -> None:
        if frame.header.count:
            index.append(base_offset + frame.header.first, frame.position)

    if (damage := scan(data, base_offset, str(log_path), visit=visit).damage) is not None:
        raise Corrupt(damage)
    return list(index.entries())
