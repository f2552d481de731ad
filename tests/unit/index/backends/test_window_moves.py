"""Kills and failures between the steps of a write over windows: every entry is in exactly one window."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pytest

from lamina.cel import Group
from lamina.errors import LaminaError, Unavailable
from lamina.index.backends import Entry, IndexBackend, MemoryWindows, Query, WindowedBackend
from lamina.kv import KvView, MemoryKv
from lamina.testing import FakeClock
from tests.conformance.index_backends_subject import BASE, MINUTE

FIRST = BASE // MINUTE
EVERYTHING = Query(groups=(Group(),))


class Strike:
    """Fails the step that is due, and every step after it until it is healed."""

    def __init__(self) -> None:
        self.left: int | None = None

    def step(self) -> None:
        if self.left is not None:
            if self.left == 0:
                raise Unavailable("struck")
            self.left -= 1


class StrikingKv:
    """A kv whose writes may fail."""

    def __init__(self, inner: MemoryKv, strike: Strike) -> None:
        self._inner = inner
        self._strike = strike

    def put_batch(self, puts: Iterable[tuple[bytes, bytes]], deletes: Iterable[bytes] = ()) -> None:
        self._strike.step()
        self._inner.put_batch(puts, deletes)

    def delete_range(self, start: bytes, end: bytes) -> None:
        self._strike.step()
        self._inner.delete_range(start, end)

    def get(self, key: bytes) -> bytes | None:
        return self._inner.get(key)

    def range(self, start: bytes, end: bytes, *, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        return self._inner.range(start, end, reverse=reverse)

    def view(self) -> KvView:
        return self._inner.view()

    def close(self) -> None:
        self._inner.close()


class StrikingWindows:
    """Windows in memory whose opening, dropping and writing may fail."""

    can_archive = True

    def __init__(self, inner: MemoryWindows, strike: Strike) -> None:
        self._inner = inner
        self._strike = strike
        self.archived: list[str] = []

    def open(self, name: str) -> IndexBackend:
        backend = self._inner.open(name)
        put, delete = backend.put_batch, backend.delete

        def striking_put(entries: Sequence[Entry]) -> None:
            self._strike.step()
            put(entries)

        def striking_delete(refs: Sequence[str]) -> int:
            self._strike.step()
            return delete(refs)

        backend.put_batch = striking_put  # type: ignore[method-assign]
        backend.delete = striking_delete  # type: ignore[method-assign]
        return backend

    def drop(self, name: str) -> None:
        self._strike.step()
        self._inner.drop(name)

    def archive(self, name: str) -> Path:
        self._strike.step()
        self.archived.append(name)
        return Path(name)

    def close(self) -> None:
        self._inner.close()


class World:
    """What outlives the process: windows and catalog."""

    def __init__(self) -> None:
        self.strike = Strike()
        self.windows = StrikingWindows(MemoryWindows(), self.strike)
        self.catalog = MemoryKv()
        self.backend = self._open(self.catalog)
        old = [Entry(f"old{n}", {"v": "1"}, BASE + n * MINUTE) for n in range(3)]
        self.backend.put_batch(old)
        self.before = {entry.ref: entry for entry in old}

    def kill(self) -> None:
        """The process dies where it stands; another one starts."""
        self.strike.left = None
        self.backend.close()
        self.catalog = self.catalog.reopen()
        self.backend = self._open(self.catalog)

    def entries(self) -> list[Entry]:
        return list(self.backend.query(EVERYTHING).entries)

    def _open(self, catalog: MemoryKv) -> WindowedBackend:
        clock = FakeClock(BASE + 10 * MINUTE)
        return WindowedBackend(
            self.windows, StrikingKv(catalog, self.strike), window_seconds=60, clock=clock, max_open=0
        )


def the_batch() -> list[Entry]:
    """Two moves, a change in place and two new entries, over three windows."""
    return [
        Entry("old0", {"v": "2"}, BASE + 2 * MINUTE + 5),
        Entry("old1", {"v": "2"}, BASE + 5),
        Entry("old2", {"v": "2"}, BASE + 2 * MINUTE + 7),
        Entry("new0", {"v": "2"}, BASE + 6),
        Entry("new1", {"v": "2"}, BASE + 4 * MINUTE),
    ]


@pytest.mark.parametrize("steps", range(8))
@pytest.mark.parametrize("is_killed", [True, False])
def test_a_write_cut_short_anywhere_leaves_each_entry_once(steps: int, is_killed: bool) -> None:
    world = World()
    world.strike.left = steps
    try:
        world.backend.put_batch(the_batch())
        is_done = True
    except LaminaError:
        is_done = False
    if is_killed:
        world.kill()
    else:
        world.strike.left = None
    after = {entry.ref: entry for entry in the_batch()}
    found = world.entries()
    assert len({entry.ref for entry in found}) == len(found)
    by_ref = {entry.ref: entry for entry in found}
    for ref, before in world.before.items():
        assert by_ref[ref] in ([after[ref]] if is_done else [before, after[ref]])
        assert world.backend.get(ref) == by_ref[ref]
    for ref in ("new0", "new1"):
        assert by_ref.get(ref) in ([after[ref]] if is_done else [None, after[ref]])
    assert world.backend.count(EVERYTHING) == len(found)
    world.backend.put_batch(the_batch())
    assert {entry.ref: entry for entry in world.entries()} == after
    world.backend.close()


def test_there_are_as_many_steps_as_the_test_above_cuts() -> None:
    world = World()
    world.strike.left = 7
    world.backend.put_batch(the_batch())
    assert world.strike.left == 0


@pytest.mark.parametrize("steps", range(4))
@pytest.mark.parametrize("verb", ["drop_window", "archive_window"])
@pytest.mark.parametrize("is_killed", [True, False])
def test_a_window_taken_away_half_way_is_there_or_gone(steps: int, verb: str, is_killed: bool) -> None:
    world = World()
    world.strike.left = steps
    try:
        getattr(world.backend, verb)(FIRST)
    except Unavailable:
        assert steps < 3
    if is_killed:
        world.kill()
    else:
        world.strike.left = None
    found = [entry.ref for entry in world.entries()]
    assert found in (["old0", "old1", "old2"], ["old1", "old2"])
    assert (found[0] == "old0") == (steps == 0)
    assert (world.backend.get("old0") is None) == (steps > 0)
    world.backend.put_batch([Entry("old0", {}, BASE)])
    assert len(world.entries()) == 3
    world.backend.close()
