"""Many threads on one store: readers always see a prefix, and every message once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

import lamina
from lamina import LogSettings, Settings
from lamina.errors import Closed, OffsetOutOfRange

PATIENCE_SECONDS = 60.0
PUBLISHERS, READERS, EACH = 8, 4, 60


def together(work: list[Callable[[], None]]) -> None:
    """Run all at once; the first error of any is raised here."""
    raised: list[BaseException] = []

    def guarded(part: Callable[[], None]) -> None:
        try:
            part()
        except BaseException as error:  # noqa: BLE001
            raised.append(error)

    threads = [threading.Thread(target=guarded, args=(part,), daemon=True) for part in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_SECONDS)
    assert not any(thread.is_alive() for thread in threads), "still waiting"
    if raised:
        raise raised[0]


class Run:
    """Publishers and readers of one stream; a reader checks every look it takes."""

    def __init__(self, store: lamina.Store, readers_of: lamina.Store) -> None:
        self._store = store
        self._readers_of = readers_of
        self._left = PUBLISHERS
        self._lock = threading.Lock()
        self.done = threading.Event()
        self.receipts: dict[int, bytes] = {}

    def publish(self, name: int) -> None:
        try:
            for n in range(EACH):
                value = f"{name}:{n}".encode()
                if n % 3 == 2:
                    offset = self._store.publish("t", value, wait=False, key=value).result(PATIENCE_SECONDS).offset
                elif n % 3 == 1:
                    offset = self._store.publish_many([{"topic": "t", "value": value, "key": value}]).ranges[0][0]
                else:
                    offset = self._store.publish("t", value, key=value).offset
                self.receipts[offset] = value
        finally:
            with self._lock:
                self._left -= 1
                if not self._left:
                    self.done.set()

    def read(self) -> None:
        seen: list[bytes | None] = []
        while True:
            is_last = self.done.is_set()
            look = list(self._readers_of.read())
            assert [message.offset for message in look] == list(range(len(look)))
            values = [message.value for message in look]
            assert values[: len(seen)] == seen, "what was seen stays as it was"
            seen = values
            if look:
                middle = look[len(look) // 2]
                assert self._readers_of.get(middle.ref) == middle
                assert self._readers_of.contains_key(middle.key or b"")
            if is_last:
                break
        assert len(seen) == PUBLISHERS * EACH


@pytest.mark.slow
@pytest.mark.parametrize("segment_bytes_max", [8192, 256 << 20])
@pytest.mark.parametrize("how", ["owner", "follower"])
def test_readers_see_a_prefix_while_others_publish(tmp_path: Path, segment_bytes_max: int, how: str) -> None:
    settings = Settings(log=LogSettings(segment_bytes_max=segment_bytes_max, index_interval_bytes=500))
    with lamina.open(tmp_path, settings=settings) as owner, lamina.open(tmp_path, read_only=True) as follower:
        run = Run(owner, owner if how == "owner" else follower)
        publishers = [partial(run.publish, name) for name in range(PUBLISHERS)]
        together([*publishers, *[run.read] * READERS])
        assert sorted(run.receipts) == list(range(PUBLISHERS * EACH))
        assert {m.offset: m.value for m in owner.read()} == run.receipts
        for name in range(PUBLISHERS):
            mine = [m.value for m in owner.read() if (m.value or b"").startswith(f"{name}:".encode())]
            assert mine == [f"{name}:{n}".encode() for n in range(EACH)], "a thread's own messages keep their order"
        assert owner.verify().ok


def test_threads_share_commits() -> None:
    with lamina.open("memory:") as store:
        futures = [store.publish("t", b"", wait=False) for _ in range(2000)]
        assert sorted(future.result(PATIENCE_SECONDS).offset for future in futures) == list(range(2000))
        assert store.metrics()["lamina_commits_total"] < 2000


def test_streams_are_created_once_by_many_threads() -> None:
    with lamina.open("memory:") as store:
        together([lambda: store.create_stream("events", partitions=2)] * 8)
        assert store.streams() == ["default", "events"]


@pytest.mark.slow
def test_many_threads_read_one_sealed_segment_of_many_frames() -> None:
    with lamina.open("memory:", settings=Settings(log=LogSettings(frame_bytes_target=4096))) as store:
        for n in range(100):
            store.publish_many([{"topic": "t", "value": bytes(300_000), "key": str(n).encode()}])
        store.seal()

        def read() -> None:
            for _ in range(3):
                assert [message.key for message in store.read()] == [str(n).encode() for n in range(100)]

        together([read] * 8)


@pytest.mark.slow
def test_sealing_and_deleting_meanwhile_disturbs_no_reader() -> None:
    with lamina.open("memory:", settings=Settings(log=LogSettings(segment_bytes_max=4096))) as store:
        done = threading.Event()

        def publish() -> None:
            for n in range(300):
                store.publish("t", n.to_bytes(4, "big") * 50)
                if n % 20 == 0:
                    store.seal()
                if n % 50 == 0:
                    store.delete_before(offset=n // 2)
            done.set()

        def read() -> None:
            while not done.is_set():
                latest = store.stream().partitions[0].latest
                # What is deleted between two looks is out of range; anything else is a fault.
                with suppress(OffsetOutOfRange):
                    for message in store.read(start=latest - min(latest, 10)):
                        assert message.value == message.offset.to_bytes(4, "big") * 50

        together([publish, read, read])
        assert store.verify().ok


def test_closing_while_others_publish_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    store = lamina.open(tmp_path)
    acknowledged: list[int] = []
    begun = threading.Event()

    def publish() -> None:
        try:
            while True:
                acknowledged.append(store.publish("t", b"v").offset)
                begun.set()
        except Closed:
            pass

    def close() -> None:
        assert begun.wait(PATIENCE_SECONDS)
        store.close()

    together([*[publish] * 4, close])
    with lamina.open(tmp_path) as reopened:
        assert [m.offset for m in reopened.read()] == list(range(len(acknowledged)))
        assert sorted(acknowledged) == list(range(len(acknowledged)))
