"""Kill a publishing process at random moments, reopen its store, and check that all it was told is there.

    python -m benchmarks.kill_rounds --rounds 100

Each round starts a process with several threads (single messages, large calls, numbered calls) on the same
directory, with segments so small that they roll and are sealed all the time. The process writes each receipt to a
pipe; then it gets SIGKILL. What survives must hold every receipt, in order, nothing twice, and calls whole.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import perf_counter

from rich.progress import Progress

import lamina
from lamina.errors import LaminaError
from lamina.model import partition_of

STREAM, PARTITIONS = "kills", 2
PRODUCER, NUMBERED = "kill-rounds", "numbered"
SINGLES, BATCHES = ("single-a", "single-b"), "batch"
SETTINGS = lamina.Settings(
    log=lamina.LogSettings(segment_bytes_max=32 * 1024, index_interval_bytes=512, frame_bytes_target=4096)
)
ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True, slots=True)
class Call:
    """One call of the publishing process; everything that it published follows from these four."""

    round: int
    thread: str
    number: int
    count: int

    def messages(self) -> list[lamina.Message]:
        return [lamina.Message(self.topic(at), self.value(at), key=b"%d" % (at % 7)) for at in range(self.count)]

    def topic(self, at: int) -> str:
        return self.thread if self.count == 1 else f"{self.thread}/{at % 5}"

    def value(self, at: int) -> bytes:
        return f"{self.round} {self.thread} {self.number} {self.count} {at} {'x' * (self.number * 37 % 300)}".encode()

    def parts(self) -> dict[int, list[bytes]]:
        """The values by partition."""
        found: dict[int, list[bytes]] = {}
        for at in range(self.count):
            found.setdefault(partition_of(self.topic(at), None, PARTITIONS, "topic"), []).append(self.value(at))
        return found


class LostMessages(AssertionError):
    """The store does not hold what it promised."""


@dataclass(slots=True)
class Summary:
    """What all rounds together did."""

    rounds: int = 0
    acknowledged: int = 0
    found: int = 0
    seconds: float = 0.0
    segments: dict[str, int] = field(default_factory=dict)


# The publishing process


def publish_until_killed(directory: Path, round_number: int, sequence: int) -> None:
    """Publish from several threads and tell of each receipt, until the end of the world."""
    with lamina.open(directory, settings=SETTINGS) as store:
        store.create_stream(STREAM, partitions=PARTITIONS)
        workers = [(name, _singles) for name in SINGLES] + [(BATCHES, _batches), (NUMBERED, _numbered)]
        threads = [
            threading.Thread(target=work, args=(store, name, round_number, sequence), daemon=True)
            for name, work in workers
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def _singles(store: lamina.Store, name: str, round_number: int, _: int) -> None:
    number = 0
    while True:
        call = Call(round_number, name, number, 1)
        receipt = store.publish(call.topic(0), call.value(0), key=b"0", stream=STREAM)
        _tell(call, {receipt.partition: (receipt.offset, receipt.offset + 1)})
        number += 1


def _batches(store: lamina.Store, name: str, round_number: int, _: int) -> None:
    number = 0
    while True:
        call = Call(round_number, name, number, (2, 90, 7, 300)[number % 4])
        _tell(call, store.publish_many(call.messages(), STREAM).ranges)
        number += 1


def _numbered(store: lamina.Store, name: str, _: int, sequence: int) -> None:
    while True:
        # The round is not part of a numbered call: the first one here may repeat the last one of the killed process.
        call = Call(0, name, sequence, 1 + sequence * 13 % 90)
        _tell(call, store.publish_many(call.messages(), STREAM, (PRODUCER, sequence)).ranges)
        sequence += 1


def _tell(call: Call, ranges: dict[int, tuple[int, int]]) -> None:
    line = json.dumps([call.round, call.thread, call.number, call.count, list(ranges.items())])
    os.write(sys.stdout.fileno(), f"{line}\n".encode())  # one short write to a pipe is never torn


# The watching process


class KillRounds:
    """Rounds on one directory, and all that was acknowledged so far."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.summary = Summary()
        self._directory = directory
        self._chance = random.Random(seed)
        self._acknowledged: dict[tuple[int, int], bytes] = {}
        self._sequence = 0
        self._starts = [0] * PARTITIONS

    def round(self, *, while_running: Callable[[], None] = lambda: None) -> None:
        """Start, kill, reopen, check. LostMessages says what is wrong."""
        started = perf_counter()
        for line in self._run_and_kill(self._chance.uniform(0.01, 0.25), while_running):
            self._note(line)
        self._check()
        self.summary.rounds += 1
        self.summary.seconds += perf_counter() - started

    def _run_and_kill(self, delay_seconds: float, while_running: Callable[[], None]) -> list[str]:
        command = [sys.executable, "-m", "benchmarks.kill_rounds", "--publish", str(self._directory)]
        command += ["--round", str(self.summary.rounds + 1), "--sequence", str(self._sequence)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT, text=True) as process:
            assert process.stdout is not None
            first = process.stdout.readline()
            while_running()
            reader = _Reader(process.stdout)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(delay_seconds)
            died_early = process.poll()
            process.kill()
            lines = [first, *reader.lines()]
        if died_early is not None:
            raise LostMessages(f"the publishing process ended by itself with {died_early}")
        return [line for line in lines if line.endswith("\n")]

    def _note(self, line: str) -> None:
        round_number, thread, number, count, ranges = json.loads(line)
        call = Call(round_number, thread, number, count)
        for partition, (first, end) in ranges:
            values = call.parts()[partition]
            _expect(len(values) == end - first, f"{call}: a receipt of {end - first} messages for {len(values)}")
            for offset, value in enumerate(values, first):
                known = self._acknowledged.setdefault((partition, offset), value)
                _expect(
                    known == value, f"offset {partition}/{offset} was given out twice: {known!r:.60}, {value!r:.60}"
                )
        self.summary.acknowledged += count
        if thread == NUMBERED:
            self._sequence = max(self._sequence, number + 1)

    def _check(self) -> None:
        with lamina.open(self._directory, settings=SETTINGS) as store:
            found = {partition: self._read(store, partition) for partition in range(PARTITIONS)}
            for (partition, offset), value in self._acknowledged.items():
                here = found[partition].get(offset)
                is_right = here == value or offset < self._starts[partition]
                _expect(is_right, f"{partition}/{offset}: {value!r:.60} was acknowledged, {here!r:.60} found")
            _check_calls(found, self._starts)
            report = store.verify()
            _expect(report.ok, f"verify: {report.problems}")
            self.summary.found = sum(len(values) for values in found.values())
            self.summary.segments = dict(Counter(segment.state for segment in store.segments(STREAM)))
            if self.summary.rounds % 5 == 4:
                self._forget_half(store)

    def _read(self, store: lamina.Store, partition: int) -> dict[int, bytes]:
        messages = list(store.read(stream=STREAM, partition=partition))
        start = self._starts[partition]
        offsets = [message.offset for message in messages]
        _expect(offsets == list(range(start, start + len(offsets))), f"partition {partition}: offsets with gaps")
        return {message.offset: message.value or b"" for message in messages}

    def _forget_half(self, store: lamina.Store) -> None:
        for info in store.stream(STREAM).partitions:
            middle = (info.earliest + info.latest) // 2
            store.delete_before(STREAM, info.partition, middle)
            self._starts[info.partition] = middle


class _Reader:
    """Takes lines from a pipe until it ends, so that the writer never waits for us."""

    def __init__(self, pipe: Iterator[str]) -> None:
        self._pipe = pipe
        self._lines: list[str] = []
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def lines(self) -> list[str]:
        self._thread.join()
        return self._lines

    def _run(self) -> None:
        self._lines.extend(self._pipe)


def _check_calls(found: dict[int, dict[int, bytes]], starts: list[int]) -> None:
    """No value twice; each call whole in its partition; calls of one thread in their order."""
    for partition, by_offset in found.items():
        _expect(len(set(by_offset.values())) == len(by_offset), f"partition {partition}: a message is there twice")
        last: dict[tuple[str, str], tuple[int, int]] = {}
        counts: Counter[Call] = Counter()
        for offset, value in by_offset.items():
            round_text, thread, number, count, at, _ = value.decode().split(" ")
            place = (int(number), int(at))
            key = (round_text, thread)
            _expect(last.get(key, (-1, -1)) < place, f"{partition}/{offset}: {value!r:.60} comes after {last.get(key)}")
            last[key] = place
            counts[Call(int(round_text), thread, int(number), int(count))] += 1
        cut = next(iter(by_offset.values()), b"")
        for call, seen in counts.items():
            is_cut = starts[partition] > 0 and cut in call.parts()[partition]
            _expect(seen == len(call.parts()[partition]) or is_cut, f"partition {partition}: a part of {call}")


def _expect(condition: bool, message: str) -> None:
    if not condition:
        raise LostMessages(message)


def run(directory: Path, rounds: int, seed: int) -> Summary:
    """All rounds, with a progress bar where somebody looks."""
    watching = KillRounds(directory, seed)
    with Progress(disable=not sys.stderr.isatty(), transient=True) as progress:
        task = progress.add_task("kill -9", total=rounds)
        for _ in range(rounds):
            watching.round()
            progress.update(task, advance=1, description=f"kill -9, {watching.summary.acknowledged} acknowledged")
    return watching.summary


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--data", type=Path, help="directory of the store; a temporary one by default")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--publish", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--round", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--sequence", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.publish is not None:
        publish_until_killed(options.publish, options.round, options.sequence)
        return 0
    try:
        with tempfile.TemporaryDirectory() as temporary:
            summary = run(options.data or Path(temporary), options.rounds, options.seed)
    except (LostMessages, LaminaError) as error:
        print(f"FAILED: {type(error).__name__}: {error}", file=sys.stderr)
        return 1
    if options.json:
        print(json.dumps(asdict(summary)))
    else:
        rate = summary.acknowledged / max(summary.seconds, 1e-9)
        print(f"{summary.rounds} kills, {summary.acknowledged} messages acknowledged, none lost ({rate:.0f}/s)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
