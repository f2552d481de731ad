"""Random filters against the official runtime, for as long as wanted.

    python -m benchmarks.cel_soak --expressions 50000 --seed 1

The same seed gives the same expressions and messages. Every 500 expressions the messages change.
"""

from __future__ import annotations

import argparse
import sys
from time import perf_counter

from rich.progress import Progress

from tests.models.cel_expressions import Expressions
from tests.models.cel_oracle import Judge
from tests.models.cel_rows import samples

ROUND = 500


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cel_soak", description=__doc__)
    parser.add_argument("--expressions", type=int, default=50_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--shown", type=int, default=20, help="how many differences are printed at most")
    options = parser.parse_args()
    start, judged, different = perf_counter(), 0, 0
    with Progress(disable=not sys.stderr.isatty(), transient=True) as progress:
        task = progress.add_task("expressions", total=options.expressions)
        for first in range(0, options.expressions, ROUND):
            seed = options.seed * 1_000_003 + first
            judge, expressions = Judge(samples(seed)), Expressions(seed)
            for _ in range(min(ROUND, options.expressions - first)):
                text = expressions.text()
                for difference in judge.differences(text):
                    different += 1
                    if different <= options.shown:
                        print(f"seed {seed}: {text}\n    {difference}")
                progress.update(task, advance=1, description=f"expressions, {different} differences")
            judged += judge.judged
    print(f"{judged} expressions judged, {different} differences, {perf_counter() - start:.0f} s")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
