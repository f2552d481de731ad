"""`python -m benchmarks`: measure all bars, print one table, optionally save it as JSON."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from benchmarks import machine, report
from benchmarks.bars import BARS, Bar, chosen
from benchmarks.bench import QUICK, Bench, Scale
from benchmarks.results import Result, medians
from lamina.errors import LaminaError

DEFAULT_DATA = machine.REPOSITORY / ".bench"


def main(words: Sequence[str] | None = None) -> int:
    options = _options(words)
    data: Path = options.data
    try:
        bars = chosen(options.only)
    except ValueError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    sys.stderr.write("Benchmarks need an otherwise idle machine: whatever else runs is measured too.\n")
    with _workspace(data) as root:
        facts = machine.describe(root)
        if facts["file system"] in machine.IN_MEMORY:
            sys.stderr.write(f"{data} is in memory ({facts['file system']}): nothing is durable there; use --data.\n")
        measured = [_measure(bar, root, options.quick, options.repeat) for bar in bars]
    report.print_report(measured, facts, is_quick=options.quick)
    if options.json is not None:
        options.json.write_text(report.as_json(measured, facts, is_quick=options.quick), encoding="utf-8")
    return 1 if options.strict and report.missed(measured) else 0


def _measure(bar: Bar, root: Path, is_quick: bool, repeat: int) -> report.Measured:
    runs: list[list[Result]] = []
    with _progress() as say:
        for number in range(repeat):
            title = f"{bar.name}, {number + 1} of {repeat}: " if repeat > 1 else f"{bar.name}: "
            bench = Bench(root, QUICK if is_quick else Scale(), partial(_say_after, say, title))
            runs.append(run := [])
            try:
                for result in bar.measure(bench):
                    run.append(result)
            except (LaminaError, OSError, RuntimeError) as error:
                return report.Measured(bar, medians(runs), f"{type(error).__name__}: {error}")
    return report.Measured(bar, medians(runs))


def _say_after(say: Callable[[str], None], title: str, text: str) -> None:
    say(title + text)


@contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """A line on stderr that says what is being done; silent where nobody watches."""
    if not sys.stderr.isatty():
        yield lambda text: None
        return

    # Drawn only when it changes: a spinner would be a thread beside what is measured.
    def say(text: str) -> None:
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()

    try:
        yield say
    finally:
        say("")


@contextmanager
def _workspace(data: Path) -> Iterator[Path]:
    """A directory for this run, which git does not see and which is gone afterwards."""
    is_new = not data.exists()
    data.mkdir(parents=True, exist_ok=True)
    root = Path(tempfile.mkdtemp(prefix="run-", dir=data))
    try:
        (root / ".gitignore").write_text("*\n", encoding="ascii")
        yield root
    finally:
        shutil.rmtree(root, ignore_errors=True)
        if is_new and not any(data.iterdir()):
            data.rmdir()


def _options(words: Sequence[str] | None) -> argparse.Namespace:
    names = ", ".join(f"{bar.letter} {bar.name}" for bar in BARS)
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a smoke test of half a minute; figures mean nothing")
    parser.add_argument("--only", metavar="BARS", help=f"some bars, by letter or name, e.g. a,b ({names})")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also save the results here")
    parser.add_argument("--data", type=Path, metavar="DIR", default=DEFAULT_DATA, help="where to put stores (.bench)")
    parser.add_argument("--repeat", type=_positive, metavar="N", default=1, help="measure N times, take medians")
    parser.add_argument("--strict", action="store_true", help="exit with 1 when a target is missed or a bar fails")
    return parser.parse_args(words)


def _positive(text: str) -> int:
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError("must be 1 or more")
    return number


if __name__ == "__main__":
    sys.exit(main())
