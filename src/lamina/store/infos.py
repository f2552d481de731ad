"""What a store tells about itself: frozen values."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from lamina.log import SegmentCheck, StreamPolicy


class SegmentInfo(msgspec.Struct, frozen=True):
    """One segment file. `state` is active, closed, sealed or quarantined; times are microseconds."""

    stream: str
    partition: int
    base: int
    end: int
    messages: int
    bytes: int
    state: str
    tier: str
    timestamp_min: int | None
    timestamp_max: int | None
    damage: str | None


class PartitionInfo(msgspec.Struct, frozen=True):
    """Offsets [earliest, latest) can be read; the next message gets `latest`."""

    partition: int
    earliest: int
    latest: int
    epoch: int
    messages: int
    bytes: int
    segments: int


class StreamInfo(msgspec.Struct, frozen=True):
    """A stream, its policy and how much it holds."""

    name: str
    policy: StreamPolicy
    partitions: Sequence[PartitionInfo]
    messages: int
    bytes: int
    tiers: dict[str, int]


class VerifyReport(msgspec.Struct, frozen=True):
    """The outcome of `verify`: one check per segment, and files that do not belong to the store."""

    checks: Sequence[SegmentCheck]
    foreign: Sequence[str]
    dropped_bytes: int
    rebuilt: Sequence[str]

    @property
    def ok(self) -> bool:
        return all(check.ok for check in self.checks)

    @property
    def problems(self) -> list[str]:
        return [problem for check in self.checks for problem in check.problems]
