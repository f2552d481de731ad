"""Recovery of a segment: which of its bytes are whole frames, and whether the rest is torn or damaged. Pure.

Torn bytes were never acknowledged and go. Damaged bytes had been durable: they are reported and kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from lamina.errors import Corrupt
from lamina.log.active import SegmentStats
from lamina.log.format import (
    FRAME_HEADER_BYTES,
    SEGMENT_HEADER_BYTES,
    Codec,
    Flag,
    FrameHeader,
    decode_frame_header,
    decode_segment_header,
    decode_table,
    frame_salt,
    payload_is_valid,
    valid_frame_after,
)
from lamina.log.producers import Producers
from lamina.log.segment import Frame


@dataclass(slots=True)
class Scan:
    """The whole frames of a segment: they end at byte `end_position`; `damage` says why the rest is not torn."""

    end_position: int
    stats: SegmentStats
    damage: str | None = None


@dataclass(slots=True)
class RecoveryReport:
    """What opening a partition found and did."""

    dropped_bytes: int = 0
    rebuilt: list[str] = field(default_factory=list)
    damaged: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def scan(
    data: memoryview,
    base: int,
    where: str,
    *,
    visit: Callable[[Frame], None] = lambda frame: None,
    producers: Producers | None = None,
    durable_to: int = 0,
) -> Scan:
    """Walk the frames from the first byte. `durable_to` is the byte that `head` vouches for.

    `visit` sees each frame of messages that counts, in order; `producers` learns from their tables.
    """
    stats = SegmentStats()
    salt = frame_salt(decode_segment_header(data[:SEGMENT_HEADER_BYTES], where))
    position = end_position = SEGMENT_HEADER_BYTES
    chain: list[Frame] = []
    expected = 0
    while True:
        try:
            header = _whole_frame(data, position, expected, salt)
        except Corrupt as error:
            return Scan(end_position, stats, f"{where}, byte {position}: {error}")
        if header is None:
            break
        if header.codec == Codec.FOOTER:
            return Scan(end_position, stats)
        if header.codec == Codec.PRODUCERS:
            if producers is not None:
                start = position + header.payload_start
                producers.replace(Producers.decode(data[start : start + header.payload_bytes], base))
        else:
            chain.append(Frame(position, header))
        position += header.frame_bytes
        expected = header.end
        if not header.flags & Flag.MORE:
            _count(chain, data, base, stats, visit, producers)
            chain = []
            end_position = position
    return Scan(end_position, stats, _damage(data, end_position, position, durable_to, where, salt))


def _whole_frame(data: memoryview, position: int, expected: int, salt: int) -> FrameHeader | None:
    header = decode_frame_header(data, position, salt)
    if header is None or position + header.frame_bytes > len(data) or not payload_is_valid(data, position, header):
        return None
    # Offsets only ever go up: a frame that says otherwise was not written here.
    return header if expected <= header.first <= header.end or header.codec == Codec.FOOTER else None


def _count(
    chain: Iterable[Frame],
    data: memoryview,
    base: int,
    stats: SegmentStats,
    visit: Callable[[Frame], None],
    producers: Producers | None,
) -> None:
    for frame in chain:
        stats.add(frame.header)
        visit(frame)
        if producers is not None and frame.header.table_bytes:
            at = frame.position + FRAME_HEADER_BYTES
            table = decode_table(data[at : at + frame.header.table_bytes])
            producers.update(table, base + frame.header.first, frame.header.appended_at)


def _damage(
    data: memoryview, end_position: int, bad_position: int, durable_to: int, where: str, salt: int
) -> str | None:
    if end_position < durable_to:
        return f"{where}, byte {bad_position}: whole frames end at byte {end_position}, but {durable_to} were durable"
    try:
        later = valid_frame_after(data, bad_position, len(data), salt)
    except Corrupt as error:
        return f"{where}, after byte {bad_position}: {error}"
    if later is not None:
        return f"{where}, byte {bad_position}: damaged bytes before the valid frame at byte {later}"
    return None
