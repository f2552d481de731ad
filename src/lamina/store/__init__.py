"""The embedded store: the same names for a directory of one's own, one that another process owns, or memory.

Owns: the lifetimes of streams, background workers and the directory's lock.
Promises: API of `Store`; every bad input gets a typed error and changes nothing.
Does not know: bytes on disk (the log room), event loops (`lamina.aio`), the network.
"""

from lamina.store.infos import PartitionInfo, SegmentInfo, StreamInfo, VerifyReport
from lamina.store.opening import open_store
from lamina.store.producing import PipelinedProducer
from lamina.store.querying import Choice
from lamina.store.store import Store

__all__ = [
    "Choice",
    "PartitionInfo",
    "PipelinedProducer",
    "SegmentInfo",
    "Store",
    "StreamInfo",
    "VerifyReport",
    "open_store",
]
