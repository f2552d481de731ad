"""Directories whose names survive a power loss."""

from __future__ import annotations

import os
from pathlib import Path


def make_directory(place: Path) -> None:
    """With parents. A name made here is synced; what RocksDB and SQLite make inside, they sync themselves."""
    if place.is_dir():
        return
    make_directory(place.parent)
    place.mkdir(0o755, exist_ok=True)
    descriptor = os.open(place.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
