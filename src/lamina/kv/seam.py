"""What the indexes ask of an ordered key-value store. Keys are compared as bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Protocol, Self


class KvView(Protocol):
    """The contents at one moment, whatever is written afterwards. One thread at a time.

    An open view costs memory or disk space, so close it. Closed after the kv itself was closed.
    """

    def get(self, key: bytes) -> bytes | None: ...

    def range(self, start: bytes, end: bytes, *, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        """Keys in [start, end) with their values, in order, or from the last one down; read while you iterate."""

    def close(self) -> None:
        """Idempotent."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Kv(Protocol):
    """An ordered map of bytes to bytes. Safe to call from many threads at once.

    Errors: Conflict (somebody else has it open), Unavailable (disk full, I/O error), Corrupt, Denied, Closed.
    """

    def put_batch(self, puts: Iterable[tuple[bytes, bytes]], deletes: Iterable[bytes] = ()) -> None:
        """Delete, then put: all of it or nothing, durable on return as far as the kv is. Absent keys are fine."""

    def delete_range(self, start: bytes, end: bytes) -> None:
        """Remove the keys in [start, end)."""

    def get(self, key: bytes) -> bytes | None: ...

    def range(self, start: bytes, end: bytes, *, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        """As `KvView.range`, of the contents at the first step."""

    def view(self) -> KvView: ...

    def close(self) -> None:
        """Idempotent. Views and iterators end with Closed."""
