"""The disk: the only way by which Lamina touches local files.

Owns: nothing by itself; each disk owns the files below its root.
Promises: what `seam.py` says of File, Lock and Disk, kept alike by every disk; no OSError leaves this room.
Does not know: segments, frames, streams, retries, event loops.

`Tree`, `Directory`, `HeldLock` and `disk_error` are for those who build another disk.
"""

from lamina.disk.files import FileDisk
from lamina.disk.memory import MemoryDisk
from lamina.disk.refusals import disk_error
from lamina.disk.seam import Bytes, Disk, File, Lock, OpenMode
from lamina.disk.tree import Directory, HeldLock, Tree

__all__ = [
    "Bytes",
    "Directory",
    "Disk",
    "File",
    "FileDisk",
    "HeldLock",
    "Lock",
    "MemoryDisk",
    "OpenMode",
    "Tree",
    "disk_error",
]
