"""What must happen in a process of its own: `python -m benchmarks.fresh COMMAND PATH …` prints facts as JSON.

Imports little more than a program that uses Lamina imports, so that its memory is the store's. Unless the command
closes the store, the process just ends, as in a crash.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

import lamina
from benchmarks.bench import BATCH_ROWS, STREAM, segments_of
from benchmarks.workload import fill

Facts = dict[str, float]


def run(command: str, path: Path, *arguments: int) -> Facts:
    """Start the command in a fresh process and return its facts, with "wall" added: the whole process's seconds."""
    words = [sys.executable, "-m", "benchmarks.fresh", command, str(path), *map(str, arguments)]
    start = perf_counter()
    done = subprocess.run(words, cwd=Path(__file__).parents[1], capture_output=True, text=True, check=False)
    wall = perf_counter() - start
    if done.returncode:
        raise RuntimeError(f"{' '.join(words[1:])} failed:\n{done.stderr}")
    facts: Facts = json.loads(done.stdout)
    return facts | {"wall": wall}


def fill_store(path: str, segment_bytes_max: str, batches: str) -> Facts:
    """A store with one stream of that many batches of messages with keys, left open."""
    store = lamina.open(path, settings=segments_of(int(segment_bytes_max)))
    store.create_stream(STREAM)
    fill(store, int(batches), BATCH_ROWS, keyed=True)
    return {"bytes": store.stream(STREAM).bytes}


def open_store(path: str, segment_bytes_max: str) -> Facts:
    """How long opening takes. The store is left open."""
    start = perf_counter()
    lamina.open(path, settings=segments_of(int(segment_bytes_max)))
    return {"open": perf_counter() - start}


def open_and_close(path: str, segment_bytes_max: str) -> Facts:
    """How long opening takes. The store is closed in order."""
    start = perf_counter()
    with lamina.open(path, settings=segments_of(int(segment_bytes_max))):
        return {"open": perf_counter() - start}


def idle(path: str, segment_bytes_max: str) -> Facts:
    """Memory with the store open, and after reading the first message of each segment."""
    before = memory()["resident"]
    store = lamina.open(path, settings=segments_of(int(segment_bytes_max)))
    opened = memory()
    for segment in store.segments(STREAM):
        if not segment.messages:
            continue
        store.get(f"{STREAM}/{segment.partition}/{segment.base}")
    read = memory()
    return {
        "imported": before,
        "opened": opened["resident"],
        "read": read["resident"],
        "read_anonymous": read["anonymous"],
    }


def query(path: str) -> Facts:
    """Memory of our own with every segment's index open: a common, a rare and a missing value, and a count."""
    before = memory()["anonymous"]
    store = lamina.open(path)
    for where in ('labels["user"] == "user-00077"', 'labels["app"] == "app-1"', 'labels["thread"] == "none"'):
        store.count(where, stream=STREAM)
        list(store.query(where, stream=STREAM, limit=1000))
    return {"imported": before, "queried": memory()["anonymous"]}


def memory() -> Facts:
    """Bytes of this process in RAM: all of them, and those that are not pages of files."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    fields = dict(line.split(":", 1) for line in lines)
    return {
        "resident": float(fields["VmRSS"].split()[0]) * 1024,
        "anonymous": float(fields["RssAnon"].split()[0]) * 1024,
    }


COMMANDS: dict[str, Callable[..., Facts]] = {
    "fill": fill_store,
    "open": open_store,
    "open-and-close": open_and_close,
    "idle": idle,
    "query": query,
}

if __name__ == "__main__":
    json.dump(COMMANDS[sys.argv[1]](*sys.argv[2:]), sys.stdout)
    sys.stdout.flush()
    os._exit(0)
