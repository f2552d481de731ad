"""Settings of the label index."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexSettings:
    """What a process may tune; values only."""

    chunk_rows: int = 65_536  # so many rows are indexed and written together
    interval_seconds: float = 0.1  # the least time between two rounds of background indexing
    open_indexes_max: int = 256  # segments whose index a store keeps open; each may hold a file descriptor
    background: bool = True  # whether a thread of this process writes index files; queries work either way

    def __post_init__(self) -> None:
        if not 0 < self.chunk_rows <= 1 << 24:
            raise ValueError(f"chunk_rows must be from 1 to {1 << 24}, not {self.chunk_rows}")
        if not self.open_indexes_max > 0:
            raise ValueError(f"open_indexes_max must be positive, not {self.open_indexes_max}")
        if not self.interval_seconds > 0:
            raise ValueError(f"interval_seconds must be positive, not {self.interval_seconds}")
