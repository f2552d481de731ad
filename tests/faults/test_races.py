"""Two threads, or two processes, at the worst possible moment, step by step."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

import lamina
from lamina.disk import File, OpenMode
from lamina.errors import Closed, Unavailable
from lamina.testing import CrashDisk, FakeClock
from tests.models.ledger import NOW_US, Expected, owned, some_messages

SETTINGS = lamina.Settings(
    log=lamina.LogSettings(segment_bytes_max=4096, frame_bytes_target=2048),
    index=lamina.IndexSettings(background=False),
)
FIRST = "00000000000000000000"
WAIT = 20.0


class StagedDisk(CrashDisk):
    """Runs something just before a named call, on the calling thread."""

    def __init__(self) -> None:
        super().__init__()
        self._stages: dict[tuple[str, str], Callable[[], None]] = {}

    def stage(self, operation: str, path: str, action: Callable[[], None]) -> None:
        """Once, before the next such call."""
        self._stages[operation, path] = action

    def clear(self) -> None:
        self._stages.clear()

    def open(self, path: str, mode: OpenMode) -> File:
        self._run(f"open {mode}", path)
        return StagedFile(self, super().open(path, mode), path)

    def list(self, directory: str) -> list[str]:
        self._run("list", directory)
        return super().list(directory)

    def rename(self, old: str, new: str) -> None:
        self._run("rename", new)
        super().rename(old, new)

    def _run(self, operation: str, path: str) -> None:
        if (action := self._stages.pop((operation, path), None)) is not None:
            action()


class StagedFile:
    """Only `sync` is staged."""

    def __init__(self, disk: StagedDisk, inner: File, path: str) -> None:
        self._disk = disk
        self._inner = inner
        self._path = path
        self.append, self.pwrite, self.pread = inner.append, inner.pwrite, inner.pread
        self.map, self.size, self.truncate = inner.map, inner.size, inner.truncate
        self.preallocate, self.close = inner.preallocate, inner.close

    def sync(self) -> None:
        self._disk._run("sync", self._path)
        self._inner.sync()


class Held:
    """A place where a thread waits until the test lets it go on, at the latest at the end of the `with` block."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.go_on = threading.Event()

    def hold(self) -> None:
        self.reached.set()
        self.go_on.wait(WAIT)

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None:
        self.go_on.set()


def refuse() -> None:
    raise Unavailable("refused by the test")


@contextmanager
def a_store(disk: CrashDisk, *, read_only: bool = False) -> Iterator[lamina.Store]:
    clock = FakeClock(NOW_US, jump=False)
    with lamina.open("store", disk=disk, clock=clock, settings=SETTINGS, read_only=read_only) as store:
        yield store


def publish(store: lamina.Store, count: int, seed: int, stream: str = "default") -> list[Expected]:
    messages = some_messages(count, seed)
    for message in messages:
        store.publish_many([message.message()], stream)
    return messages


def found(store: lamina.Store, stream: str = "default") -> list[Expected]:
    return [Expected.of(message) for message in store.read(stream=stream)]


def test_a_flush_that_meets_a_roll_does_not_close_the_partition() -> None:
    """The flusher has chosen the active segment; before its fsync the segment is rolled and closed."""
    disk = StagedDisk()
    with a_store(disk) as store:
        store.create_stream("s", durability="flush")
        messages = publish(store, 2, 1, "s")
        (partition,) = owned(store, "s")

        def roll_meanwhile() -> None:
            roller = threading.Thread(target=partition.roll)
            roller.start()
            roller.join(WAIT)
            assert not roller.is_alive()

        disk.stage("sync", f"s/0/{FIRST}.log", roll_meanwhile)
        partition.flush()
        messages += publish(store, 1, 2, "s")
        assert found(store, "s") == messages


def test_a_read_that_meets_a_seal_goes_on() -> None:
    """After a reopen a closed segment is opened by its name; meanwhile sealing puts another file there."""
    disk = StagedDisk()
    with a_store(disk) as store:
        disk.stage("rename", f"default/0/{FIRST}.log", refuse)
        messages = publish(store, 10, 1)
        owned(store)[0].roll()
        messages += publish(store, 1, 2)
    sealing = Held()
    disk.stage("rename", f"default/0/{FIRST}.log", sealing.hold)
    with a_store(disk) as store, sealing:
        (partition,) = owned(store)
        assert sealing.reached.wait(WAIT)

        def let_it_seal() -> None:
            sealing.go_on.set()
            partition.seal_closed()

        disk.stage("open read", f"default/0/{FIRST}.log", let_it_seal)
        assert found(store) == messages
        disk.clear()
        let_it_seal()
        assert found(store) == messages
        assert store.segments()[0].state == "sealed"


def test_sealing_what_is_left_of_a_deleted_stream_does_not_touch_its_successor() -> None:
    """The sealer is busy; a stream with a closed segment is deleted, created again and written to."""
    disk = StagedDisk()
    sealing = Held()
    with a_store(disk) as store, sealing:
        store.create_stream("s")
        disk.stage("rename", f"default/0/{FIRST}.log", sealing.hold)
        publish(store, 3, 1)
        owned(store)[0].roll()
        assert sealing.reached.wait(WAIT)
        publish(store, 3, 2, "s")
        owned(store, "s")[0].roll()
        store.delete_stream("s")
        store.create_stream("s")
        messages = publish(store, 3, 2, "s")
        sealing.go_on.set()
        store._owned()._sealer.close()
        messages += publish(store, 3, 3, "s")
        assert found(store, "s") == messages
    with a_store(disk) as store:
        assert found(store, "s") == messages


def test_a_follower_that_meets_a_roll_and_a_seal_sees_all_that_is_durable() -> None:
    """It has read head; before it lists the directory, the owner rolls and seals that very segment."""
    disk = StagedDisk()
    with a_store(disk) as store:
        messages = publish(store, 10, 1)
        with a_store(disk, read_only=True) as follower:

            def seal_meanwhile() -> None:
                messages.extend(publish(store, 2, 2))
                store.seal()
                messages.extend(publish(store, 2, 3))

            disk.stage("list", "default/0", seal_meanwhile)
            shown = found(follower)
            assert shown == messages[: len(shown)]
            assert len(shown) >= 10
            assert found(follower) == messages


def test_a_follower_that_meets_a_deletion_sees_the_rest() -> None:
    disk = StagedDisk()
    with a_store(disk) as store:
        messages = publish(store, 10, 1)
        store.seal()
        messages += publish(store, 3, 2)
        with a_store(disk, read_only=True) as follower:

            def delete_meanwhile() -> None:
                store.delete_before("default", 0, 10)

            disk.stage("open read", f"default/0/{FIRST}.log", delete_meanwhile)
            shown = [message.offset for message in follower.read()]
            assert shown in (list(range(13)), list(range(10, 13)))
            assert [message.offset for message in follower.read()] == [10, 11, 12]


def test_a_follower_goes_on_after_head_was_rebuilt() -> None:
    disk = StagedDisk()
    with a_store(disk) as store:
        messages = publish(store, 2, 1)
        with a_store(disk, read_only=True) as follower:
            assert found(follower) == messages
            store.close()
            disk.unlink("default/0/head")
            with a_store(disk) as second:
                messages += publish(second, 2, 2)
                assert found(follower) == messages


def test_publishing_to_a_store_that_is_closed_meanwhile_is_closed_or_kept() -> None:
    """Many threads publish while the store closes: each call is acknowledged and kept, or fails with Closed."""
    disk = CrashDisk()
    kept: list[bytes] = []
    with a_store(disk) as store:
        started = threading.Barrier(5)

        def work(name: int) -> None:
            started.wait(WAIT)
            for number in range(200):
                value = b"%d.%d" % (name, number)
                try:
                    store.publish("t", value)
                except Closed:
                    return
                kept.append(value)

        threads = [threading.Thread(target=work, args=(name,)) for name in range(4)]
        for thread in threads:
            thread.start()
        started.wait(WAIT)
        store.publish("t", b"one more")
        store.close()
        for thread in threads:
            thread.join(WAIT)
            assert not thread.is_alive()
    with a_store(disk) as store:
        values = [message.value for message in store.read()]
        assert sorted(v for v in values if v is not None and v != b"one more") == sorted(kept)
        assert len(set(values)) == len(values)


@pytest.mark.parametrize("stop", ["close", "crash"])
def test_futures_are_settled_when_the_store_ends(stop: str) -> None:
    disk = CrashDisk()
    with a_store(disk) as store:
        futures = [store.publish("t", b"%d" % number, wait=False) for number in range(50)]
        if stop == "crash":
            disk.crash()
        store.close()
        acknowledged = [f.result(WAIT).offset for f in futures if f.exception(WAIT) is None]
    with a_store(disk) as store:
        offsets = [message.offset for message in store.read()]
        assert offsets[: len(acknowledged)] == acknowledged == list(range(len(acknowledged)))
