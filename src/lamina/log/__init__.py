"""The segment log: ordered, durable messages on local disk.

Owns: <stream>/<partition>/ with <20-digit base>.log, .index, .timeindex, .keys, head and partition.json
(docs/formats/).
Promises: append returns when the messages are as durable as the stream's policy says; offsets have no gaps;
recovery drops only a torn tail, and damage is reported, never skipped.
Does not know: label queries, filters, remote tiers, event loops.
"""

from lamina.log.block import Block
from lamina.log.catalog import (
    Catalog,
    check_policy_change,
    check_stream_name,
    partition_directory,
    unknown_stream,
)
from lamina.log.codec import pack_row
from lamina.log.commit import MESSAGE_BYTES, Entry, Sink
from lamina.log.documents import read_document, replace_file, write_document
from lamina.log.follower import FollowedPartition
from lamina.log.framing import Pending
from lamina.log.index_recovery import IndexRecovery
from lamina.log.names import labels_base, labels_path, temporary_path
from lamina.log.offset_index import IndexEntry, OffsetIndex
from lamina.log.opening import open_partition
from lamina.log.partition import Partition, PartitionContext
from lamina.log.recovery import RecoveryReport
from lamina.log.rows import SegmentRows
from lamina.log.segments import OpenSegment, OpenSegments, SegmentHandle, SegmentState
from lamina.log.settings import APPEND_BYTES_MAX, LogSettings, StreamPolicy
from lamina.log.stream import Producer, Stream
from lamina.log.verify import SegmentCheck, foreign_files, verify_partition
from lamina.log.view import PartitionView, TimeRange, coalesced
from lamina.log.waiting import Deadline, check_timeout, no_room, not_confirmed
from lamina.log.workers import Flusher, Sealer

__all__ = [
    "APPEND_BYTES_MAX",
    "MESSAGE_BYTES",
    "Block",
    "Catalog",
    "Deadline",
    "Entry",
    "Flusher",
    "FollowedPartition",
    "IndexEntry",
    "IndexRecovery",
    "LogSettings",
    "OffsetIndex",
    "OpenSegment",
    "OpenSegments",
    "Partition",
    "PartitionContext",
    "PartitionView",
    "Pending",
    "Producer",
    "RecoveryReport",
    "Sealer",
    "SegmentCheck",
    "SegmentHandle",
    "SegmentRows",
    "SegmentState",
    "Sink",
    "Stream",
    "StreamPolicy",
    "TimeRange",
    "check_policy_change",
    "check_stream_name",
    "check_timeout",
    "coalesced",
    "foreign_files",
    "labels_base",
    "labels_path",
    "no_room",
    "not_confirmed",
    "open_partition",
    "pack_row",
    "partition_directory",
    "read_document",
    "replace_file",
    "temporary_path",
    "unknown_stream",
    "verify_partition",
    "write_document",
]
