"""A group of calls between being written and being acknowledged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lamina.errors import LaminaError
from lamina.log.active import ActiveSegment
from lamina.log.commit import Entry


@dataclass(slots=True)
class Written:
    """A group of entries that is in the file and not acknowledged yet."""

    entries: Sequence[Entry]
    active: ActiveSegment
    first: int
    count: int
    size_before: int
    appended_at: int
    started: float
    needs_sync: bool
    error: LaminaError | None = None
    twins: Sequence[tuple[Entry, Entry]] = ()
    """Numbered calls that came twice in one group: the second has the outcome of the first."""
