"""How many label indexes are open: each mapped file may hold a file descriptor, and remembers what queries asked."""

from __future__ import annotations

import threading
from collections import OrderedDict

from lamina.index.segment_index import SegmentIndex


class OpenIndexes:
    """The indexes in use, least recently used first. One for a whole store; any thread."""

    def __init__(self, maximum: int) -> None:
        self._maximum = maximum
        self._lock = threading.Lock()
        self._open: OrderedDict[SegmentIndex, bool] = OrderedDict()

    def use(self, index: SegmentIndex, *, is_owner: bool) -> None:
        """Note that the index is in use, and unload others if there are too many. Who still reads from them may."""
        with self._lock:
            self._open[index] = is_owner
            self._open.move_to_end(index)
            if len(self._open) <= self._maximum:
                return
            for other, can_save in list(self._open.items()):
                if other is not index and _unload(other, keep_unsaved=can_save):
                    del self._open[other]
                if len(self._open) <= self._maximum:
                    return

    def forget(self, index: SegmentIndex) -> None:
        with self._lock:
            self._open.pop(index, None)

    def __len__(self) -> int:
        return len(self._open)


def _unload(index: SegmentIndex, *, keep_unsaved: bool) -> bool:
    """False if somebody works on it, or would lose what is not in its file yet."""
    if not index.lock.acquire(blocking=False):
        return False
    try:
        if keep_unsaved and index.unsaved_rows:
            return False
        index.unload()
        return True
    finally:
        index.lock.release()
