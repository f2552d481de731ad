"""The kv: an ordered map of bytes to bytes, the seam under indexes and catalogs that live outside the log.

Owns: nothing by itself; each kv owns the directory or file it was given, alone.
Promises: what `seam.py` says of Kv and KvView; a batch is there whole and durable, or not at all; no library's own
exceptions leave this room.
Does not know: what keys and values mean, entries, windows, event loops.

`sqlite_errors` is for those who keep tables of their own in an SQLite file.
"""

from lamina.kv.memory import MemoryKv
from lamina.kv.rocks import RocksKv
from lamina.kv.seam import Kv, KvView
from lamina.kv.sqlite import SqliteKv, sqlite_errors

__all__ = ["Kv", "KvView", "MemoryKv", "RocksKv", "SqliteKv", "sqlite_errors"]
