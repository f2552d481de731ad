"""The bars, in the order in which they run."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from benchmarks import (
    disk_limits,
    filters,
    idle_memory,
    index_backends,
    index_build,
    index_size,
    open_many,
    publish_batches,
    publish_single,
    query_labels,
    read_all,
    read_one,
    recovery,
    selectivity,
)
from benchmarks.bench import BATCH_ROWS, Bench
from benchmarks.results import Result


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar; `--only` takes its letter or its name."""

    letter: str
    name: str
    title: str
    measure: Callable[[Bench], Iterable[Result]]


BARS = (
    Bar("-", "disk", "the disk's own limits in this run", disk_limits.measure),
    Bar("a", "batches", f"publish_many of Arrow batches of {BATCH_ROWS:,} messages", publish_batches.measure),
    Bar("b", "single", "publish of one message", publish_single.measure),
    Bar("c", "point", "reading one message of a sealed segment", read_one.measure),
    Bar("d", "scan", "sequential reading, page cache warm", read_all.measure),
    Bar("e", "recovery", "reopening after a crash, page cache warm", recovery.measure),
    Bar("f", "opening", "opening many sealed segments", open_many.measure),
    Bar("g", "memory", "memory of an idle store", idle_memory.measure),
    Bar("h", "indexing", "the label index while publishing", index_build.measure),
    Bar("i", "labels", "app = X and thread = Y, the first 100 messages with values", query_labels.measure),
    Bar("j", "filters", "filters over columns, and compiling them", filters.measure),
    Bar("k", "selectivity", "a filter against reading everything, page cache warm", selectivity.measure),
    Bar("l", "index-size", "what the label index takes", index_size.measure),
    Bar("m", "backends", "pluggable index backends", index_backends.measure),
)


def chosen(only: str | None) -> list[Bar]:
    """The bars named in a list such as "a,b" or "batches,single"; ValueError for an unknown one."""
    if only is None:
        return list(BARS)
    wanted = {word.strip() for word in only.split(",")}
    known = {word: bar for bar in BARS for word in (bar.letter, bar.name)}
    if unknown := sorted(wanted - known.keys()):
        names = ", ".join(f"{bar.letter} {bar.name}" for bar in BARS)
        raise ValueError(f"unknown bar {unknown[0]!r}; known are {names}")
    return [bar for bar in BARS if {bar.letter, bar.name} & wanted]
