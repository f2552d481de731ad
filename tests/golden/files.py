"""Golden files: the bytes that each format version wrote, kept for ever and read by every later version.

`LAMINA_GOLDEN=write` rewrites them; without it they are only read.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from lamina.disk import Disk

DATA = Path(__file__).parent / "data"
IS_WRITING = os.environ.get("LAMINA_GOLDEN") == "write"


def golden(name: str, make: Callable[[], bytes]) -> bytes:
    """The stored bytes; `make` is asked only when they are rewritten."""
    path = DATA / name
    if IS_WRITING:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(make())
    return path.read_bytes()


def assert_golden(name: str, encoded: bytes) -> bytes:
    """The stored bytes, which today's encoder must still produce."""
    stored = golden(name, lambda: encoded)
    assert encoded == stored, f"the bytes of {name} moved: see CONTRIBUTING.md, golden files"
    return stored


def golden_tree(name: str, make: Callable[[], Disk]) -> Path:
    """A stored directory; `make` gives the disk to take it from when it is rewritten."""
    if IS_WRITING:
        _save(make(), "", DATA / name)
    return DATA / name


def load_tree(place: Path, disk: Disk, directory: str = "") -> None:
    """Copy a stored directory onto a disk."""
    if directory:
        disk.make_directory(directory)
    for path in sorted(place.iterdir()):
        target = f"{directory}/{path.name}".lstrip("/")
        if path.is_dir():
            load_tree(path, disk, target)
        else:
            file = disk.open(target, "create")
            file.append([path.read_bytes()])
            file.close()


def _save(disk: Disk, directory: str, place: Path) -> None:
    place.mkdir(parents=True, exist_ok=True)
    for old in place.iterdir():
        if old.is_file():
            old.unlink()
    for name in disk.list(directory):
        inner = f"{directory}/{name}".strip("/")
        if name.endswith("/"):
            _save(disk, inner, place / name.rstrip("/"))
        elif name != "lock":
            file = disk.open(inner, "read")
            (place / name).write_bytes(file.pread(file.size(), 0))
            file.close()
