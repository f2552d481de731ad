"""What is indexed of one segment: parts that follow each other from its first row on.

The leading parts are in the `.labels` file, the last ones may be in memory only. Sealing changes neither rows nor
parts; afterwards one part replaces them all.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence

from lamina.disk import Disk
from lamina.errors import Corrupt, LaminaError, NotFound
from lamina.index import label_file
from lamina.index.build import build
from lamina.index.composites import Composite, with_composites
from lamina.index.postings import Postings, merge
from lamina.log import Block, OpenSegment, labels_path, replace_file

logger = logging.getLogger(__name__)
_LIVE_PARTS_MAX = 8


class SegmentIndex:
    """Any thread reads `parts`, which is replaced whole. Whoever changes anything holds `lock`."""

    def __init__(self, disk: Disk, directory: str, base: int) -> None:
        self.lock = threading.Lock()
        self.parts: tuple[Postings, ...] = ()
        self.path = labels_path(directory, base)
        self._disk = disk
        self._saved = 0  # how many of the parts are in the file
        self._file_uid: bytes | None = None  # the segment that the file is of
        self._file_end = 0

    @property
    def covered(self) -> int:
        """Rows below this are indexed."""
        parts = self.parts
        return parts[-1].extent.end if parts else 0

    @property
    def saved_end(self) -> int:
        """Rows below this are in the file."""
        saved = self.parts[: self._saved]
        return saved[-1].extent.end if saved else 0

    # Under the lock

    def load(self, uid: bytes) -> None:
        """Take what the file holds of this segment. Nothing at all is fine: everything can be made again."""
        try:
            data = self._map()
        except NotFound:
            return
        found: list[Postings] = []
        position = label_file.HEADER_BYTES
        try:
            label_file.check_header(data, uid, self.path)
            while (record := label_file.decode_record(data, position, self.path)) is not None:
                postings, position = record
                found.append(postings)
        except Corrupt as error:
            logger.warning("label index not used path=%s reason=%s", self.path, error)
            return
        if position == len(data):
            self._file_uid, self._file_end, self._saved = uid, position, len(found)
        else:
            # A torn record, or one that is just being written. A file that others may have mapped is never cut:
            # the next save writes a new one.
            logger.warning("label index used in part path=%s bytes=%s of=%s", self.path, position, len(data))
            self._file_uid, self._saved = None, 0
        self.parts = (*found, *self._behind(found))

    def catch_up(self, opened: OpenSegment, end: int, rows_max: int, composites: Sequence[Composite]) -> None:
        """Index up to row `end` in memory, but little more than `rows_max` rows: whole frames."""
        base, start, stop = opened.reader.base, self.covered, self.covered
        blocks: list[Block] = []
        count = 0
        for frame in opened.frames_between(base + start, base + end):
            stop = min(frame.header.end, end)
            block = opened.reader.block(frame).between(base + start, base + end)
            if len(block):
                blocks.append(block)
                count += len(block)
            if count >= rows_max:
                break
        if blocks:
            self._add(with_composites(build(blocks, base, start, stop), composites))

    def save(self, uid: bytes, composites: Sequence[Composite]) -> None:
        """Write the parts that are in memory only, as one, behind those of the file."""
        if self._file_uid != uid:
            self._begin(uid)
        live = self.parts[self._saved :]
        if not live:
            return
        end = self._append(label_file.encode_record(with_composites(merge(live), composites)))
        # From now on it is read from the file: mapped memory instead of our own.
        record = label_file.decode_record(self._map(), self._file_end, self.path)
        if record is None:
            raise Corrupt(f"{self.path}: what was just written cannot be read")
        self.parts = (*self.parts[: self._saved], record[0])
        self._saved, self._file_end = len(self.parts), end

    def compact(self, uid: bytes, composites: Sequence[Composite]) -> None:
        """Replace the file by one part: for a sealed segment, which gets no more rows."""
        if not self.parts or self.is_compact(uid, composites):
            return
        record = b"".join(label_file.encode_record(with_composites(merge(self.parts), composites)))
        replace_file(self._disk, self.path, label_file.encode_header(uid) + record)
        self.load(uid)

    def recombine(self, composites: Sequence[Composite]) -> None:
        """Give the parts of a growing segment the composites that they lack, and take away those that are gone."""
        wanted = {one.uid for one in composites}
        if all(part.composites == wanted for part in self.parts):
            return
        parts = tuple(with_composites(part, composites) for part in self.parts)
        if self._file_uid is not None and self._saved:
            records = [b"".join(label_file.encode_record(part)) for part in parts[: self._saved]]
            replace_file(self._disk, self.path, label_file.encode_header(self._file_uid) + b"".join(records))
            self.parts = parts
            self.load(self._file_uid)
        else:
            self.parts = parts

    def is_compact(self, uid: bytes, composites: Sequence[Composite]) -> bool:
        wanted = {one.uid for one in composites}
        return self._saved == len(self.parts) == 1 and self._file_uid == uid and self.parts[0].composites == wanted

    @property
    def unsaved_rows(self) -> int:
        return sum(part.extent.end - part.extent.first for part in self.parts[self._saved :])

    def _behind(self, saved: Sequence[Postings]) -> tuple[Postings, ...]:
        """The parts in memory that go on where the saved ones end."""
        end = saved[-1].extent.end if saved else 0
        live = tuple(part for part in self.parts if part.extent.first >= end)
        return live if live and live[0].extent.first == end else ()

    def _add(self, part: Postings) -> None:
        saved, live = self.parts[: self._saved], (*self.parts[self._saved :], part)
        self.parts = (*saved, merge(live)) if len(live) > _LIVE_PARTS_MAX else (*saved, *live)

    def _begin(self, uid: bytes) -> None:
        """An empty file for this segment; what an old one held stays mapped, and is written again."""
        replace_file(self._disk, self.path, label_file.encode_header(uid))
        self._file_uid, self._file_end, self._saved = uid, label_file.HEADER_BYTES, 0

    def _append(self, record: Sequence[bytes | memoryview]) -> int:
        file = self._disk.open(self.path, "write")
        try:
            file.append(record)
        except LaminaError:
            self._file_uid, self._saved = None, 0  # it may end in half a record: to be written anew
            raise
        finally:
            file.close()
        return self._file_end + sum(len(part) for part in record)

    def _map(self) -> memoryview:
        file = self._disk.open(self.path, "read")
        try:
            return file.map(file.size())
        finally:
            file.close()
