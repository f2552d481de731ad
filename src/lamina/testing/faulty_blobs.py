"""A blob store that fails on demand, around any other one.

Fault model: each call may be refused before it does anything, or fail after it did everything (a put whose answer
was lost: the caller cannot know); any call may be slow. A listing fails before its first or after its last object.
"""

from __future__ import annotations

import errno
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from lamina.blobs import BlobInfo, BlobStore
from lamina.clock import Clock
from lamina.errors import Denied, LaminaError, Unavailable
from lamina.testing.faults import BlobOperation, Fault, FaultPlan, Operation


class FaultyBlobs:
    """Passes all calls to `inner`, except as the faults say. `calls` counts them by operation."""

    def __init__(
        self,
        inner: BlobStore,
        faults: Iterable[Fault] = (),
        *,
        slow_seconds: Mapping[Operation, float] | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._inner = inner
        self._plan = FaultPlan(faults, slow_seconds, clock)

    @property
    def calls(self) -> Counter[Operation]:
        return self._plan.calls

    def add(self, fault: Fault) -> None:
        self._plan.add(fault)

    def heal(self) -> None:
        """Forget all faults."""
        self._plan.clear()

    def put_new(self, name: str, data: bytes | memoryview) -> None:
        with _failing(self._plan, "put_new", name):
            self._inner.put_new(name, data)

    def get(self, name: str, start: int = 0, end: int | None = None) -> bytes:
        with _failing(self._plan, "get", name):
            return self._inner.get(name, start, end)

    def stat(self, name: str) -> BlobInfo:
        with _failing(self._plan, "stat", name):
            return self._inner.stat(name)

    def list(self, prefix: str = "") -> Iterator[BlobInfo]:
        with _failing(self._plan, "list", prefix):
            yield from self._inner.list(prefix)

    def delete(self, name: str) -> None:
        with _failing(self._plan, "delete", name):
            self._inner.delete(name)


@contextmanager
def _failing(plan: FaultPlan, operation: BlobOperation, name: str) -> Iterator[None]:
    """Fail before or after the body, as the plan says."""
    fault = plan.begin(operation, name)
    if fault is not None and fault.when == "before":
        raise _error(fault, name)
    yield
    if fault is not None:
        raise _error(fault, name)


def _error(fault: Fault, name: str) -> LaminaError:
    kind = Denied if fault.error in ("EACCES", "EROFS") else Unavailable
    outcome = "nothing was done" if fault.when == "before" else "the outcome is unknown"
    return kind(f"blob {name!r}: {os.strerror(getattr(errno, fault.error))}; {outcome}")
