"""What the label index takes: bytes on disk beside the log, and memory of its own when it is open."""

from __future__ import annotations

from collections.abc import Iterator

import lamina
from benchmarks import fresh
from benchmarks.bench import Bench
from benchmarks.labelled import fill
from benchmarks.results import Result, Rival, at_most


def measure(bench: Bench) -> Iterator[Result]:
    rows = bench.scale.query_rows_many
    with bench.directory() as path:
        bench.say(f"publishing {rows:,} messages")
        with lamina.open(path / "store") as store:
            fill(store, rows)
        sizes = {
            suffix: sum(file.stat().st_size for file in path.rglob(f"*{suffix}")) for suffix in (".log", ".labels")
        }
        yield Result(
            name=f"index files of {rows:,} messages",
            figure=sizes[".labels"],
            unit="B",
            rival=Rival("the log", sizes[".log"]),
            ratio_target=at_most(0.25),
        )
        bench.say("querying it in a fresh process")
        facts = fresh.run("query", path / "store")
        yield Result(
            name="memory of the open index, beyond mapped files",
            figure=facts["queried"] - facts["imported"],
            unit="B",
            target=at_most(200e6),
        )
