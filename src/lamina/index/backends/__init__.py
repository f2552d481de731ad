"""Pluggable indexes: entries outside the log, in memory, RocksDB, SQLite or Redis, whole or cut into time windows.

Owns: what each backend was given (a directory, a file, a key prefix), and the catalog of windows.
Promises: one order (timestamp, ref); pages without gaps or repeats; a replaced or deleted entry is gone from every
index; composites are used only when complete; backends differ in speed and durability, never in answers.
Does not know: messages' bodies, streams, segments, subscriptions, event loops.
"""

from lamina.index.backends.entry import Entry, Position
from lamina.index.backends.ordered import KvBackend
from lamina.index.backends.redis import RedisBackend
from lamina.index.backends.seam import Answer, BackendStats, Composite, IndexBackend, Query
from lamina.index.backends.sqlite import SqliteBackend
from lamina.index.backends.store import Explanation, IndexStore, Page
from lamina.index.backends.windowed import (
    DirectoryWindows,
    MemoryWindows,
    RedisWindows,
    Window,
    WindowedBackend,
    WindowStorage,
    rocks_windows,
    sqlite_windows,
)

__all__ = [
    "Answer",
    "BackendStats",
    "Composite",
    "DirectoryWindows",
    "Entry",
    "Explanation",
    "IndexBackend",
    "IndexStore",
    "KvBackend",
    "MemoryWindows",
    "Page",
    "Position",
    "Query",
    "RedisBackend",
    "RedisWindows",
    "SqliteBackend",
    "Window",
    "WindowStorage",
    "WindowedBackend",
    "rocks_windows",
    "sqlite_windows",
]
