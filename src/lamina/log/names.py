"""Every file name of a partition directory, made and parsed in one place."""

from __future__ import annotations

import re

HEAD = "head"
STATE = "partition.json"
STREAM = "stream.json"
STORE = "lamina.json"
LOCK = "lock"
SIDE_SUFFIXES = (".index", ".timeindex", ".keys")
LABELS_SUFFIX = ".labels"
"""Written by the index room; it goes where its segment goes."""
TEMPORARY = ".tmp"

_LOG = re.compile(r"(\d{20})\.log")


def log_name(base: int) -> str:
    return f"{base:020d}.log"


def side_name(base: int, suffix: str) -> str:
    return f"{base:020d}{suffix}"


def labels_path(directory: str, base: int) -> str:
    return f"{directory}/{side_name(base, LABELS_SUFFIX)}"


def labels_base(name: str) -> int | None:
    """The base offset of a label index's file name, or None for any other name."""
    base = name.removesuffix(LABELS_SUFFIX)
    return int(base) if base != name and base.isdecimal() else None


def temporary_path(path: str) -> str:
    """Where a file is written before it takes the place of another."""
    return path + TEMPORARY


def base_of(name: str) -> int | None:
    """The base offset of a segment's file name, or None for any other name."""
    match = _LOG.fullmatch(name)
    return int(match[1]) if match else None


def segment_files(base: int) -> list[str]:
    """Everything that belongs to one segment."""
    return [log_name(base), *(side_name(base, suffix) for suffix in (*SIDE_SUFFIXES, LABELS_SUFFIX))]
