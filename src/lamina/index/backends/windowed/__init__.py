"""Time windows over any backend: one small index per span of time, opened when it is asked.

Owns: the catalog (every window, which window holds a ref, composites, cursors) and, through the storage, the windows.
Promises: what `seam.py` says of IndexBackend, except that a batch over several windows is not one step; a query opens
only the windows it overlaps; closing a window never forgets it; an entry is in one window, also after a kill.
Does not know: how a window keeps its entries.
"""

from lamina.index.backends.windowed.backend import WindowedBackend
from lamina.index.backends.windowed.catalog import Window
from lamina.index.backends.windowed.storage import (
    DirectoryWindows,
    MemoryWindows,
    RedisWindows,
    WindowStorage,
    rocks_windows,
    sqlite_windows,
)

__all__ = [
    "DirectoryWindows",
    "MemoryWindows",
    "RedisWindows",
    "Window",
    "WindowStorage",
    "WindowedBackend",
    "rocks_windows",
    "sqlite_windows",
]
