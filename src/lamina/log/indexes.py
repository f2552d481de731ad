"""The side indexes of one segment for readers: loaded from their files, or rebuilt from the log.

A sealed segment's footer names size and CRC of each side file; whatever does not match is rebuilt.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from typing import Protocol

import numpy as np
from crc32c import crc32c

from lamina.disk import Disk
from lamina.errors import LaminaError, NotFound, Unavailable
from lamina.log import key_index, offset_index, time_index
from lamina.log.documents import replace_file
from lamina.log.format import SEGMENT_HEADER_BYTES, Footer
from lamina.log.framing import NO_TS_MAX
from lamina.log.key_index import KeyFile
from lamina.log.names import side_name
from lamina.log.offset_index import OffsetIndex
from lamina.log.segment import Frame, SegmentReader
from lamina.log.time_index import BEFORE_ALL, TimeIndex

logger = logging.getLogger(__name__)
_RUNS_MAX = 8


class PlaceIndexes:
    """Offset and time index of one segment, growing frame by frame. One thread adds; any thread looks up."""

    def __init__(self, offsets: OffsetIndex, times: TimeIndex) -> None:
        self.offsets = offsets
        self.times = times
        self._ts_max = NO_TS_MAX

    def add(self, frame: Frame) -> None:
        """Take the next frame into account. A disk that refuses costs only the files: they can be rebuilt."""
        position = frame.position
        if frame.header.count and self.offsets.wants(position):
            offset, before = frame.header.first, self._ts_max if self.offsets.entries_count else BEFORE_ALL
            if self._written(lambda: self.offsets.append(self.offsets.base_offset + offset, position)):
                self._written(lambda: self.times.append(before, offset, position))
        self._ts_max = max(self._ts_max, frame.header.ts_max)

    def _written(self, append: Callable[[], bool]) -> bool:
        try:
            return append()
        except Unavailable as error:
            logger.warning("side files left behind path=%s error=%s", self.offsets.path, error)
            self.offsets.detach()
            self.times.detach()
            return append()

    def resume(self, ts_max: int) -> None:
        """Go on behind frames whose largest timestamp is `ts_max`."""
        self._ts_max = ts_max

    def sync(self) -> None:
        self.offsets.flush()
        self.times.sync()

    def close(self) -> None:
        self.offsets.close()
        self.times.close()


class KeyLookup(Protocol):
    """Where the messages of a key may be, in one segment."""

    def find(self, key: bytes, topic: str | None) -> Iterator[int]:
        """Relative offsets to look at, newest first."""

    def topics(self) -> list[str]: ...


class Indexes(Protocol):
    """The side indexes of one segment, whatever its state."""

    def offsets(self) -> OffsetIndex: ...

    def times(self) -> TimeIndex: ...

    def keys(self) -> KeyLookup: ...


class LiveKeys:
    """Keys of a growing segment, indexed when somebody asks: publishers pay nothing for them.

    Sorted runs, merged when they are many; a look-up first takes in the frames that came since the last one.
    """

    def __init__(self, reader: SegmentReader) -> None:
        self._reader = reader
        self._lock = threading.Lock()
        self._runs: list[key_index.Entries] = []
        self._topics: set[str] = set()
        self._position = SEGMENT_HEADER_BYTES

    def find(self, key: bytes, topic: str | None) -> Iterator[int]:
        self._catch_up()
        found = [at for run in self._runs for at in key_index.find(run, key, topic)]
        return iter(sorted(found, reverse=True))

    def topics(self) -> list[str]:
        self._catch_up()
        return sorted(self._topics)

    def _catch_up(self) -> None:
        with self._lock:
            fresh = []
            for frame in self._reader.frames(self._position):
                entries, topics = frame_keys(self._reader, frame)
                fresh.append(entries)
                self._topics |= topics
                self._position = frame.end_position
            if fresh:
                self._runs = [*self._runs, key_index.merge(fresh)]
            if len(self._runs) > _RUNS_MAX:
                self._runs = [key_index.merge(self._runs)]


class LiveIndexes:
    """Side indexes of a segment that is not sealed yet."""

    def __init__(self, places: PlaceIndexes, reader: SegmentReader) -> None:
        self._places = places
        self._keys = LiveKeys(reader)

    def offsets(self) -> OffsetIndex:
        return self._places.offsets

    def times(self) -> TimeIndex:
        return self._places.times

    def keys(self) -> LiveKeys:
        return self._keys


def build_places(reader: SegmentReader, interval_bytes: int) -> PlaceIndexes:
    """Offset and time index from the frame headers alone."""
    places = PlaceIndexes(OffsetIndex.of_bytes(reader.base, interval_bytes=interval_bytes), TimeIndex())
    for frame in reader.frames():
        places.add(frame)
    return places


def build_keys(reader: SegmentReader) -> bytes:
    """The contents of a `.keys` file, from the messages."""
    runs, topics = [], set[str]()
    for frame in reader.frames():
        entries, seen = frame_keys(reader, frame)
        runs.append(entries)
        topics |= seen
    return key_index.encode_keys(key_index.merge(runs), topics)


def frame_keys(reader: SegmentReader, frame: Frame) -> tuple[key_index.Entries, set[str]]:
    """Key entries and topics of one frame."""
    block = reader.block(frame)
    if block.rows is not None and all(row.key is None for row in block.rows):
        return key_index.NO_ENTRIES, {row.topic for row in block.rows}
    batch = block.stored()
    topics = batch.column("topic")
    names = topics.dictionary.to_pylist()
    seen = {names[code] for code in np.unique(topics.indices.to_numpy()).tolist()}
    if "key" not in batch.schema.names:
        return key_index.NO_ENTRIES, seen
    return key_index.entries_of(batch.column("key"), topics, block.offset_array() - reader.base), seen


class SealedIndexes:
    """Side files of a sealed segment, each loaded when first asked for.

    `repair` writes a rebuilt file back (the owner); without it the rebuilt one serves this process alone.
    """

    def __init__(
        self,
        disk: Disk,
        directory: str,
        reader: SegmentReader,
        footer: Footer,
        *,
        repair: Callable[[str], None] | None,
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._reader = reader
        self._footer = footer
        self._repair = repair
        self._offsets: OffsetIndex | None = None
        self._times: TimeIndex | None = None
        self._keys: KeyFile | None = None

    def offsets(self) -> OffsetIndex:
        if self._offsets is None:
            data, where = self._load(offset_index.SUFFIX, lambda: self._places().offsets.encode())
            self._offsets = OffsetIndex.of_bytes(self._reader.base, data, where=where)
        return self._offsets

    def times(self) -> TimeIndex:
        if self._times is None:
            data, where = self._load(time_index.SUFFIX, lambda: self._places().times.encode())
            self._times = TimeIndex(None, data, where)
        return self._times

    def keys(self) -> KeyFile:
        if self._keys is None:
            data, where = self._load(key_index.SUFFIX, lambda: build_keys(self._reader))
            self._keys = KeyFile(memoryview(data), where)
        return self._keys

    def check(self, suffix: str) -> str | None:
        """What is wrong with a side file on disk, or None."""
        path, data = self._read(suffix)
        if data is None:
            return f"{path} is missing"
        return None if self._matches(suffix, data) else f"{path} is damaged"

    def _places(self) -> PlaceIndexes:
        return build_places(self._reader, self._footer.index_interval_bytes)

    def _load(self, suffix: str, rebuild: Callable[[], bytes]) -> tuple[memoryview | bytes, str]:
        path, data = self._read(suffix)
        if data is None:
            return self._rebuilt(path, rebuild(), "missing"), path
        if not self._matches(suffix, data):
            return self._rebuilt(path, rebuild(), "damaged"), path
        return data, path

    def _read(self, suffix: str) -> tuple[str, memoryview | None]:
        path = f"{self._directory}/{side_name(self._reader.base, suffix)}"
        try:
            file = self._disk.open(path, "read")
        except NotFound:
            return path, None
        try:
            return path, file.map(file.size())
        finally:
            file.close()

    def _matches(self, suffix: str, data: memoryview) -> bool:
        return (len(data), crc32c(data)) == tuple(self._footer.side_files[suffix])

    def _rebuilt(self, path: str, data: bytes, why: str) -> bytes:
        logger.warning("side file rebuilt path=%s reason=%s", path, why)
        if self._repair is not None:
            try:
                replace_file(self._disk, path, data)
            except LaminaError as error:
                logger.warning("rebuilt side file not written path=%s error=%s", path, error)
            self._repair(path)
        return data
