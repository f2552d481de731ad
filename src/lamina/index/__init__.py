"""The index: which messages have which labels, topics and priorities, and queries in the order of time.

Owns: <stream>/<partition>/<20-digit base>.labels and <stream>/composites.json (docs/formats/labels.md), and the
pluggable backends for entries that are not in the log.
Promises: an answer never depends on how much is indexed: what has no index yet is looked at; all of it can be rebuilt
from the log alone; publishers never wait for it.
Does not know: how a filter is written (cel makes it a plan), tiers, subscriptions, event loops.
"""

from lamina.index.composites import Composite
from lamina.index.cursor import Cursor
from lamina.index.indexer import Indexer
from lamina.index.open_indexes import OpenIndexes
from lamina.index.page import Page
from lamina.index.partition_index import PartitionIndex
from lamina.index.query import Query
from lamina.index.settings import IndexSettings
from lamina.index.stream_index import StreamIndex

__all__ = [
    "Composite",
    "Cursor",
    "IndexSettings",
    "Indexer",
    "OpenIndexes",
    "Page",
    "PartitionIndex",
    "Query",
    "StreamIndex",
]
