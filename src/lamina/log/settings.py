"""Settings of the log, and the policy of a stream."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import msgspec

from lamina.errors import InvalidRequest
from lamina.log.format import POSITION_MAX
from lamina.log.offset_index import ENTRIES_MAX, INTERVAL_BYTES
from lamina.model import MIB, PartitionBy

Durability = Literal["memory", "flush", "local"]
Compaction = Literal["none", "latest"]
PARTITIONS_MAX = 1024
APPEND_BYTES_MAX = 64 * MIB
"""The most that one append makes durable as a whole, and the largest frame."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSettings:
    """What a process may tune; values only."""

    segment_bytes_max: int = 256 * MIB
    segment_age_seconds: float = 7 * 86400.0
    index_interval_bytes: int = INTERVAL_BYTES
    index_entries_max: int = ENTRIES_MAX
    frame_bytes_target: int = 1 * MIB  # larger tables are cut here: one frame is what a point read opens
    flush_interval_seconds: float = 0.1  # what a power loss can cost a stream with durability "flush"
    open_segments_max: int = 128  # each open segment holds a file descriptor
    pending_bytes_max: int = 64 * MIB  # per stream, of calls that nobody waits for: then they wait for room
    memory_stream_bytes_max: int = 256 * MIB  # per partition of a stream with durability "memory"
    timestamp_future_seconds: float = 86400.0
    producer_idle_seconds: float = 7 * 86400.0
    producers_max: int = 10_000  # per partition; the longest idle one is forgotten first

    def __post_init__(self) -> None:
        if not 4096 <= self.segment_bytes_max <= 1024 * MIB:
            raise ValueError(f"segment_bytes_max must be from 4 KiB to 1 GiB, not {self.segment_bytes_max}")
        if not 0 < self.frame_bytes_target <= APPEND_BYTES_MAX:
            raise ValueError(f"frame_bytes_target must be in (0, {APPEND_BYTES_MAX}], not {self.frame_bytes_target}")
        if not 0 < self.index_interval_bytes <= POSITION_MAX:
            raise ValueError(f"index_interval_bytes must be positive, not {self.index_interval_bytes}")
        for name in (
            "segment_age_seconds",
            "index_entries_max",
            "flush_interval_seconds",
            "open_segments_max",
            "pending_bytes_max",
            "memory_stream_bytes_max",
            "producer_idle_seconds",
            "producers_max",
        ):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be positive, not {getattr(self, name)}")
        if self.timestamp_future_seconds < 0:
            raise ValueError(f"timestamp_future_seconds must not be negative: {self.timestamp_future_seconds}")


class StreamPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """What a stream promises. Partition count, partition_by and being in memory are fixed when it is created."""

    partitions: int = 1
    durability: Durability = "local"
    retention_seconds: float | None = None
    retention_bytes: int | None = None
    compaction: Compaction = "none"
    window_seconds: int = 3600
    partition_by: PartitionBy = "topic"

    def check(self) -> None:
        """InvalidRequest names the field that makes no sense."""
        _check_choice("durability", self.durability, Durability)
        _check_choice("compaction", self.compaction, Compaction)
        _check_choice("partition_by", self.partition_by, PartitionBy)
        if not _is_int(self.partitions) or not 1 <= self.partitions <= PARTITIONS_MAX:
            raise InvalidRequest(f"partitions must be 1 to {PARTITIONS_MAX}, not {self.partitions!r}")
        if not _is_int(self.window_seconds) or self.window_seconds < 1:
            raise InvalidRequest(f"window_seconds must be a positive int, not {self.window_seconds!r}")
        if self.retention_bytes is not None and (not _is_int(self.retention_bytes) or self.retention_bytes < 1):
            raise InvalidRequest(f"retention_bytes must be a positive int or None, not {self.retention_bytes!r}")
        seconds = self.retention_seconds
        if seconds is not None and (
            isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds < 1e12
        ):
            raise InvalidRequest(f"retention_seconds must be a positive number or None, not {seconds!r}")


def _check_choice(name: str, choice: object, choices: object) -> None:
    if choice == "object" and name == "durability":
        raise InvalidRequest("durability 'object' needs a cluster; use 'local', 'flush' or 'memory' on a single node")
    if choice not in get_args(choices):
        known = ", ".join(repr(known) for known in get_args(choices))
        raise InvalidRequest(f"{name} must be one of {known}, not {choice!r}")


def _is_int(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool)
