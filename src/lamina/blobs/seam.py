"""What the store asks of an object store: immutable objects by name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class BlobInfo:
    """What is known of an object without reading it."""

    name: str
    bytes: int


class BlobStore(Protocol):
    """Immutable objects by name ("a/b/c"). Safe to call from many threads at once.

    Errors: NotFound, Conflict, Denied, InvalidRequest (a name that could leave the store), Unavailable.
    """

    def put_new(self, name: str, data: bytes | memoryview) -> None:
        """Write whole or not at all, durable on return. Conflict if the name is taken."""

    def get(self, name: str, start: int = 0, end: int | None = None) -> bytes:
        """The bytes [start, end) of the object, fewer at its end."""

    def stat(self, name: str) -> BlobInfo:
        """NotFound if it is not there."""

    def list(self, prefix: str = "") -> Iterator[BlobInfo]:
        """Objects whose name starts with `prefix`, in name order."""

    def delete(self, name: str) -> None:
        """Idempotent: deleting an absent name succeeds, so retries are free."""
