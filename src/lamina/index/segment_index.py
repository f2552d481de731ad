"""What is indexed of one segment: parts that follow each other from its first row on.

The leading parts are in the `.labels` file, the last ones may be in memory only. Sealing changes neither rows nor
parts; afterwards one part replaces them all.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from lamina.disk import Disk
from lamina.errors import Corrupt, LaminaError, NotFound
from lamina.index import label_file
from lamina.index.build import build, nothing_between
from lamina.index.composites import Composite, with_composites
from lamina.index.postings import Postings, merge
from lamina.log import Block, OpenSegment, coalesced, labels_path, replace_file, temporary_path

logger = logging.getLogger(__name__)


class SegmentIndex:
    """Any thread reads `parts`, which is replaced whole. Whoever changes anything holds `lock`."""

    def __init__(self, disk: Disk, directory: str, base: int) -> None:
        self.lock = threading.Lock()
        self.parts: tuple[Postings, ...] = ()
        self.is_loaded = False
        self.path = labels_path(directory, base)
        self._disk = disk
        self._file_uid: bytes | None = None  # the segment that the file is of; None if it has to be written anew
        self._crcs: tuple[int, ...] = ()  # of the payloads in the file: as many as parts are saved
        self._compared: tuple[int, ...] = ()  # … and of those that have been gone through, also before an `unload`

    @property
    def covered(self) -> int:
        """Rows below this are indexed."""
        return _end(self.parts)

    @property
    def saved_end(self) -> int:
        """Rows below this are in the file."""
        return _end(self.parts[: self._saved])

    @property
    def unsaved_rows(self) -> int:
        return sum(part.extent.end - part.extent.first for part in self.parts[self._saved :])

    @property
    def _saved(self) -> int:
        return len(self._crcs)

    # Under the lock

    def load(self, opened: OpenSegment) -> None:
        """Take what the file holds of this segment. Nothing at all is fine: everything can be made again."""
        self.is_loaded = True
        self._file_uid, self._crcs = None, ()
        try:
            data = self._map()
            label_file.check_header(data, opened.reader.uid, self.path)
            found, crcs, position = self._decode(data, self._compared, opened)
            self._compared = crcs
        except NotFound:
            return
        except Corrupt as error:
            logger.info("label index not used path=%s reason=%s", self.path, error)
            return
        if position == len(data):
            self._file_uid, self._crcs = opened.reader.uid, crcs
        else:
            # Torn, or of another log, or just being written. A file that others may have mapped is never cut: the
            # next save writes a new one.
            logger.info("label index used in part path=%s bytes=%s of=%s", self.path, position, len(data))
        self.parts = (*found, *self._behind(found))

    def unload(self) -> None:
        """Let go of the file; `load` brings it back."""
        self.parts, self.is_loaded, self._file_uid, self._crcs = (), False, None, ()

    def catch_up(self, opened: OpenSegment, end: int, rows_max: int, composites: Sequence[Composite]) -> None:
        """Index up to row `end` in memory, but little more than `rows_max` rows: whole frames."""
        base, start, stop = opened.reader.base, self.covered, end
        blocks: list[Block] = []
        count = 0
        for frame in opened.frames_between(base + start, base + end):
            block = opened.reader.block(frame).between(base + start, base + end)
            if len(block):
                blocks.append(block)
                count += len(block)
            if count >= rows_max:
                stop = min(frame.header.end, end)
                break
        made = build(list(coalesced(blocks)), base, start, stop) if blocks else nothing_between(start, stop)
        self._add(with_composites(made, composites))

    def save(self, opened: OpenSegment, composites: Sequence[Composite]) -> None:
        """Write the parts that are in memory only, as one, behind those of the file."""
        with self._writing():
            if self._file_uid != opened.reader.uid:
                self._begin(opened.reader.uid)
            live = self.parts[self._saved :]
            if not live:
                return
            part = with_composites(merge(live), composites)
            file = self._disk.open(self.path, "write")
            try:
                file.append(label_file.encode_record(part, opened.rows.anchor(part.extent.end)))
            finally:
                file.close()
            self._adopt((*self.parts[: self._saved], part))

    def compact(self, opened: OpenSegment, composites: Sequence[Composite]) -> None:
        """Replace the file by one part, for a segment that gets no more rows, or none for a while."""
        if not self.parts or self.is_compact(opened.reader.uid, composites):
            return
        part = with_composites(merge(self.parts), composites)
        with self._writing():
            self._replace(opened, (part,))

    def recombine(self, opened: OpenSegment, composites: Sequence[Composite]) -> None:
        """Give the parts the composites that they lack, and take away those that are gone."""
        wanted = {one.uid for one in composites}
        if all(part.composites == wanted for part in self.parts):
            return
        saved = self._saved
        parts = tuple(with_composites(part, composites) for part in self.parts)
        if saved:
            with self._writing():
                self._replace(opened, parts[:saved])
        self.parts = (*self.parts[:saved], *parts[saved:])

    def is_compact(self, uid: bytes, composites: Sequence[Composite]) -> bool:
        wanted = {one.uid for one in composites}
        return self._saved == len(self.parts) == 1 and self._file_uid == uid and self.parts[0].composites == wanted

    def _decode(
        self, data: memoryview, known: Sequence[int], opened: OpenSegment
    ) -> tuple[list[Postings], tuple[int, ...], int]:
        """The records that follow each other and speak of this very log, their CRCs, and where they end."""
        found: list[Postings] = []
        crcs: list[int] = []
        position = label_file.HEADER_BYTES
        while True:
            crc = known[len(found)] if len(found) < len(known) else None
            decoded = label_file.decode_record(data, position, self.path, known_crc=crc)
            if decoded is None:
                break
            postings, record = decoded
            if record.first != _end(found) or not opened.rows.is_anchored(record.end, *record.anchor):
                break
            found.append(postings)
            crcs.append(record.crc)
            position = record.end_position
        return found, tuple(crcs), position

    def _adopt(self, parts: Sequence[Postings]) -> None:
        """Read back what was just written: one mapping for all, and memory that is not our own."""
        data = self._map()
        found: list[Postings] = []
        crcs: list[int] = []
        position = label_file.HEADER_BYTES
        for part in parts:
            known = self._crcs[len(found)] if len(found) < len(self._crcs) else None
            decoded = label_file.decode_record(data, position, self.path, known_crc=known)
            if decoded is None or decoded[0].extent != part.extent:
                raise Corrupt(f"{self.path}: what was just written is not what is read")
            found.append(decoded[0])
            crcs.append(decoded[1].crc)
            position = decoded[1].end_position
        if position != len(data):
            raise Corrupt(f"{self.path}: there is more in the file than was written")
        self.parts, self._crcs = tuple(found), tuple(crcs)
        self._compared = self._crcs

    def _replace(self, opened: OpenSegment, parts: Sequence[Postings]) -> None:
        """A new file that holds exactly these parts."""
        uid = opened.reader.uid
        records = [
            piece for part in parts for piece in label_file.encode_record(part, opened.rows.anchor(part.extent.end))
        ]
        live = self.parts[self._saved :]
        replace_file(self._disk, self.path, b"".join([label_file.encode_header(uid), *records]))
        self._file_uid, self._crcs = uid, ()
        self._adopt(parts)
        self.parts += tuple(part for part in live if part.extent.first >= self.covered)

    def _behind(self, saved: Sequence[Postings]) -> tuple[Postings, ...]:
        """The parts in memory that go on where the saved ones end."""
        live = tuple(part for part in self.parts if part.extent.first >= _end(saved))
        return live if live and live[0].extent.first == _end(saved) else ()

    def _add(self, part: Postings) -> None:
        """Neighbours of about the same size become one: few parts, and no row is merged more than a few times."""
        parts = list(self.parts)
        while len(parts) > self._saved and _rows(parts[-1]) <= 2 * _rows(part):
            part = merge([parts.pop(), part])
        self.parts = (*parts, part)

    def _begin(self, uid: bytes) -> None:
        """An empty file for this segment; what an old one held stays mapped, and is written again."""
        replace_file(self._disk, self.path, label_file.encode_header(uid))
        self._file_uid, self._crcs = uid, ()

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """After a failure nobody knows what the file holds: the next save writes a new one."""
        try:
            yield
        except BaseException:
            self._file_uid, self._crcs = None, ()
            with suppress(LaminaError):
                self._disk.unlink(temporary_path(self.path))  # it takes space that the log may need
            raise

    def _map(self) -> memoryview:
        file = self._disk.open(self.path, "read")
        try:
            return file.map(file.size())
        finally:
            file.close()


def _end(parts: Sequence[Postings]) -> int:
    return parts[-1].extent.end if parts else 0


def _rows(part: Postings) -> int:
    return part.extent.end - part.extent.first
