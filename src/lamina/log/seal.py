"""Sealing: a closed segment becomes immutable, checksummed and quick to open.

Packed rows become Arrow and small frames are merged, by rewriting the file beside the old one; a segment of large
Arrow frames only gets its footer. Either way a crash leaves the old segment or the new one, and the footer's
checksums tell which side files belong to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import msgspec
import pyarrow as pa
from crc32c import crc32c

from lamina.disk import Disk, File
from lamina.errors import Corrupt
from lamina.log import key_index, offset_index, time_index
from lamina.log.active import SegmentStats
from lamina.log.block import Block
from lamina.log.documents import replace_file
from lamina.log.format import (
    SEGMENT_HEADER_BYTES,
    TRAILER_BYTES,
    Codec,
    Footer,
    FrameHeader,
    ProducerEntry,
    decode_frame_header,
    decode_segment_header,
    decode_table,
    decode_trailer,
    encode_frame,
    encode_segment_header,
    encode_table,
    encode_trailer,
    frame_salt,
    payload_is_valid,
)
from lamina.log.framing import NO_TS_MAX, NO_TS_MIN, draft_of_batch
from lamina.log.indexes import build_keys, build_places
from lamina.log.names import TEMPORARY, log_name, side_name
from lamina.log.segment import Frame, SegmentReader
from lamina.model import slice_compact

MERGED_BYTES = 256 << 10
"""Frames below this are merged: compression wants at least as much."""
MERGED_BYTES_MAX = 1 << 20
"""… and up to this: scans want large frames, a point read opens one."""


@dataclass(frozen=True, slots=True)
class Sealed:
    """The outcome: a footer and where it begins."""

    footer: Footer
    footer_position: int
    file_bytes: int


def seal(disk: Disk, directory: str, base: int, size: int, interval_bytes: int, new_uid: bytes) -> Sealed:
    """Seal the segment whose frames end at byte `size`. Durable on return; safe to run again after a crash."""
    path = f"{directory}/{log_name(base)}"
    reader = SegmentReader(disk, directory, base, size)
    try:
        # An unfinished footer is left where it is: somebody may have mapped it.
        if not _is_ready(list(reader.frames())) or reader.file_bytes() > size:
            _rewrite(disk, path, reader, new_uid)
            reader.close()
            path += TEMPORARY
            reader = SegmentReader(disk, directory, base, None, path)
        sealed = _finish(disk, directory, path, reader, interval_bytes)
    finally:
        reader.close()
    if path.endswith(TEMPORARY):
        disk.rename(path, path.removesuffix(TEMPORARY))
    disk.sync_directory(directory)
    return sealed


def read_footer(disk: Disk, directory: str, base: int) -> Sealed | None:
    """The footer of a sealed segment; None if the segment is not sealed (or its end is damaged)."""
    path = f"{directory}/{log_name(base)}"
    file = disk.open(path, "read")
    try:
        return _footer_of(file, path)
    except Corrupt as error:
        raise Corrupt(f"{path}, footer: {error}") from error
    finally:
        file.close()


def _footer_of(file: File, path: str) -> Sealed | None:
    size = file.size()
    if size < SEGMENT_HEADER_BYTES + TRAILER_BYTES:
        return None
    position = decode_trailer(file.pread(TRAILER_BYTES, size - TRAILER_BYTES), size)
    if position is None:
        return None
    salt = frame_salt(decode_segment_header(file.pread(SEGMENT_HEADER_BYTES, 0), path))
    data = memoryview(file.pread(size - TRAILER_BYTES - position, position))
    header = decode_frame_header(data, 0, salt)
    if header is None or header.codec != Codec.FOOTER or not payload_is_valid(data, 0, header):
        return None
    try:
        start = header.payload_start
        footer = msgspec.msgpack.decode(data[start : start + header.payload_bytes], type=Footer)
    except msgspec.MsgspecError as error:
        raise Corrupt(f"it is whole but cannot be understood ({error}); upgrade Lamina") from error
    return Sealed(footer, position, size)


def _is_ready(frames: list[Frame]) -> bool:
    if any(frame.header.codec == Codec.PACKED for frame in frames):
        return False
    small = [frame.header.payload_bytes < MERGED_BYTES for frame in frames]
    return not any(first and second for first, second in pairwise(small))


def _rewrite(disk: Disk, path: str, reader: SegmentReader, uid: bytes) -> None:
    disk.unlink(path + TEMPORARY)
    file = disk.open(path + TEMPORARY, "create")
    try:
        file.append([encode_segment_header(uid)])
        for header, table, payload in _merged_frames(reader):
            file.append(encode_frame(header, table, payload, frame_salt(uid)))
    finally:
        file.close()


def _merged_frames(reader: SegmentReader) -> Iterator[tuple[FrameHeader, bytes, bytes | memoryview]]:
    """The segment's frames anew: state frames and large Arrow frames verbatim, runs of small ones as one."""
    run: list[Frame] = []
    run_bytes = 0
    position = SEGMENT_HEADER_BYTES
    while position < reader.limit:
        frame = reader.frame(position)
        position = frame.end_position
        is_large = frame.header.codec == Codec.ARROW and frame.header.payload_bytes >= MERGED_BYTES
        if is_large or frame.header.codec == Codec.PRODUCERS:
            if run:
                yield _merge(reader, run)
                run, run_bytes = [], 0
            header = msgspec.structs.replace(frame.header, flags=0, synced_to=0)
            yield header, bytes(reader.table(frame)), reader.payload(frame)
            continue
        run.append(frame)
        run_bytes += frame.header.payload_bytes
        if run_bytes >= MERGED_BYTES_MAX:
            yield _merge(reader, run)
            run, run_bytes = [], 0
    if run:
        yield _merge(reader, run)


def _merge(reader: SegmentReader, run: list[Frame]) -> tuple[FrameHeader, bytes, memoryview]:
    table: list[ProducerEntry] = []
    rows = 0
    for frame in run:
        for entry in decode_table(reader.table(frame)):
            _add_entry(table, msgspec.structs.replace(entry, first_row=entry.first_row + rows))
        rows += frame.header.count
    batch = _merged_batch([reader.block(frame) for frame in run if frame.header.count])
    appended_at = max(frame.header.appended_at for frame in run)
    if batch is None:
        payload, ts_min, ts_max, codec = memoryview(b"\x90"), NO_TS_MIN, NO_TS_MAX, Codec.PACKED
    else:
        draft = draft_of_batch(batch, [])
        payload, ts_min, ts_max, codec = memoryview(draft.payload), draft.ts_min, draft.ts_max, draft.codec
    encoded = encode_table(table)
    first, end = run[0].header.first, run[-1].header.end
    header = FrameHeader(
        codec, 0, len(encoded), len(payload), crc32c(payload), first, end, rows, ts_min, ts_max, appended_at, 0
    )
    return header, encoded, payload


def _add_entry(table: list[ProducerEntry], entry: ProducerEntry) -> None:
    """Calls that spanned frames become one entry again."""
    last = table[-1] if table else None
    if (
        last is not None
        and (last.producer, last.sequence) == (entry.producer, entry.sequence)
        and last.first_row + last.count == entry.first_row
    ):
        table[-1] = msgspec.structs.replace(last, count=last.count + entry.count)
    else:
        table.append(entry)


def _merged_batch(blocks: list[Block]) -> pa.RecordBatch | None:
    if not blocks:
        return None
    rows = [row for block in blocks for row in block.rows or ()]
    if len(rows) == sum(len(block) for block in blocks):
        return Block(range(len(rows)), rows).stored()
    columns = pa.concat_batches([block.arrow() for block in blocks]).drop_columns(["offset"])
    return slice_compact(columns)


def _finish(disk: Disk, directory: str, path: str, reader: SegmentReader, interval_bytes: int) -> Sealed:
    places = build_places(reader, interval_bytes)
    side_files = {
        offset_index.SUFFIX: places.offsets.encode(),
        time_index.SUFFIX: places.times.encode(),
        key_index.SUFFIX: build_keys(reader),
    }
    for suffix, data in side_files.items():
        replace_file(disk, f"{directory}/{side_name(reader.base, suffix)}", data)
    stats = SegmentStats()
    for frame in reader.frames():
        stats.add(frame.header)
    footer = Footer(
        uid=reader.uid,
        count=stats.count,
        end=stats.end,
        ts_min=stats.ts_min,
        ts_max=stats.ts_max,
        appended_min=stats.appended_min,
        appended_max=stats.appended_max,
        frames=stats.frames,
        body_crc=crc32c(reader.whole()),
        index_interval_bytes=interval_bytes,
        side_files={suffix: (len(data), crc32c(data)) for suffix, data in side_files.items()},
    )
    return _append_footer(disk, path, reader.limit, footer)


def _append_footer(disk: Disk, path: str, position: int, footer: Footer) -> Sealed:
    payload = msgspec.msgpack.encode(footer)
    header = FrameHeader(
        Codec.FOOTER,
        0,
        0,
        len(payload),
        crc32c(payload),
        footer.end,
        footer.end,
        0,
        NO_TS_MIN,
        NO_TS_MAX,
        footer.appended_max if footer.count else 0,
        0,
    )
    file_bytes = position + header.frame_bytes + TRAILER_BYTES
    file = disk.open(path, "write")
    try:
        if file.size() != position:
            raise Corrupt(f"{path}: has {file.size()} bytes, its frames end at byte {position}")
        frame = encode_frame(header, b"", payload, frame_salt(footer.uid))
        file.append([*frame, encode_trailer(position, file_bytes)])
        file.sync()
    finally:
        file.close()
    return Sealed(footer, position, file_bytes)
