"""Pluggable indexes: how fast entries go in, and how fast a page of one thread comes out, with a composite and without.

The case of the source document: every entry has app=dm and one of a thousand threads. Without a composite the planner
walks along the rarer label, which is good already; so two more rivals show what a composite is for: a walk along the
label that all entries have, and two common labels whose pair is rare.
"""

from __future__ import annotations

import random
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import islice
from time import perf_counter

from benchmarks.bench import Bench
from benchmarks.results import Result, Rival, at_most, percentile
from lamina.errors import Unavailable
from lamina.index.backends import Entry, IndexBackend, IndexStore, KvBackend, RedisBackend, SqliteBackend
from lamina.kv import RocksKv

ENTRIES = 100_000
THREADS = 1000
BATCH = 1000
LIMIT = 100
QUERIES = 200
_BARS = ("RocksDB", "SQLite")
_BASE = 1_700_000_000_000_000


def measure(bench: Bench) -> Iterator[Result]:
    amount = min(ENTRIES, 5 * bench.scale.point_reads)
    with ExitStack() as stack:
        place = stack.enter_context(bench.directory())
        backends: dict[str, Callable[[], IndexBackend]] = {
            "memory": KvBackend,
            "RocksDB": lambda: KvBackend(RocksKv(place / "rocks")),
            "SQLite": lambda: SqliteBackend(place / "index.sqlite"),
        }
        url = stack.enter_context(redis_server())
        backends["Redis"] = lambda: RedisBackend(url)
        for name, opener in backends.items():
            bench.say(f"{name}, {amount:,} entries")
            with IndexStore(opener()) as store:
                yield from _measure_backend(name, store, amount)


def _measure_backend(name: str, store: IndexStore, amount: int) -> Iterator[Result]:
    seconds = fill(store, entries(amount))
    yield Result(name=f"{name}: put, {BATCH} at a time", figure=amount / seconds, unit="msg/s")
    without, along, pair = (
        query_seconds(store, thread),
        query_seconds(store, thread_along_app),
        query_seconds(store, rare),
    )
    store.register_composite("app_thread", ["app", "thread"])
    store.register_composite("color_size", ["color", "size"])
    figure = query_seconds(store, thread)
    case = f"{name}: app and thread, {LIMIT} of {amount:,}"
    bar = at_most(0.1) if name in _BARS else None
    yield Result(name=case, figure=figure, unit="s", rival=Rival("without composite", without), ratio_target=bar)
    walk = Rival("along the common label", along)
    yield Result(name=f"{case}, the seed's walk", figure=figure, unit="s", rival=walk)
    yield Result(
        name=f"{name}: a rare pair of two common labels",
        figure=query_seconds(store, rare),
        unit="s",
        rival=Rival("without composite", pair),
    )


def entries(amount: int, seed: int = 1) -> Iterator[Entry]:
    """app=dm in all of them, one of a thousand threads, and two labels of ten values that seldom meet."""
    chance = random.Random(seed)
    for number in range(amount):
        color = chance.randrange(10)
        size = color if chance.random() < 0.0005 else (color + chance.randrange(1, 10)) % 10
        labels = {"app": "dm", "thread": f"t{chance.randrange(THREADS)}", "color": f"c{color}", "size": f"s{size}"}
        yield Entry(f"{chance.getrandbits(256):064x}", labels, _BASE + number * 1000)


def fill(store: IndexStore, supply: Iterable[Entry], batch: int = BATCH) -> float:
    """Seconds to put all of them; making them does not count."""
    supply = iter(supply)
    seconds = 0.0
    while some := list(islice(supply, batch)):
        start = perf_counter()
        store.index_many(some)
        seconds += perf_counter() - start
    return seconds


def thread(store: IndexStore, number: int) -> int:
    """`app = dm && thread = t…`, limit 100; how many were found."""
    return len(store.query(labels={"app": "dm", "thread": f"t{number % THREADS}"}, limit=LIMIT).entries)


def thread_along_app(store: IndexStore, number: int) -> int:
    """The same, by looking at every entry that has the first label."""
    wanted, cursor, found = f"t{number % THREADS}", None, 0
    while True:
        page = store.query(labels={"app": "dm"}, limit=10_000, cursor=cursor)
        found += sum(entry.labels["thread"] == wanted for entry in page.entries)
        if found >= LIMIT or not page.has_more:
            return min(found, LIMIT)
        cursor = page.cursor


def rare(store: IndexStore, number: int) -> int:
    return len(store.query(labels={"color": f"c{number % 10}", "size": f"s{number % 10}"}, limit=LIMIT).entries)


def query_seconds(store: IndexStore, ask: Callable[[IndexStore, int], int], budget: float = 2.0) -> float:
    """The median; a slow question is asked less often."""
    samples: list[float] = []
    while len(samples) < QUERIES and (len(samples) < 3 or sum(samples) < budget):
        start = perf_counter()
        ask(store, len(samples))
        samples.append(perf_counter() - start)
    return percentile(samples, 50)


@contextmanager
def redis_server() -> Iterator[str]:
    """The address of a server of our own, without files."""
    program = shutil.which("redis-server")
    if program is None:
        raise RuntimeError("redis-server is not installed; run: make servers")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [program, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    url = f"redis://127.0.0.1:{port}/0"
    try:
        _wait_for(url)
        yield url
    finally:
        process.terminate()
        process.wait(10)


def _wait_for(url: str) -> None:
    """The client itself waits between its attempts."""
    for attempts_left in range(100, -1, -1):
        try:
            RedisBackend(url).close()
        except Unavailable:
            if not attempts_left:
                raise
        else:
            return
