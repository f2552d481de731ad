"""Waits under asyncio: they end when asked to, they never stop the loop, and what waits for the disk is bounded."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import lamina
from lamina.aio import AsyncStore
from lamina.errors import Closed, InvalidRequest, WouldBlock
from lamina.store import open_store
from tests.unit.store.stores import Gate, real_time_store

SHORT = 0.02
FOUR_FIT = lamina.LogSettings(pending_bytes_max=10_000)
VALUE = bytes(1000)  # with its topic, time and what is added for each message a little more than 2,000


def run_stuck(main: Callable[[AsyncStore, Gate], Awaitable[None]]) -> None:
    """With a store whose disk is stuck until the gate opens; fails rather than hang."""
    gate = Gate()
    gate_disk = gate.disk()

    async def with_store() -> None:
        store = AsyncStore(real_time_store(gate_disk, FOUR_FIT))
        gate.shut()
        try:
            async with asyncio.timeout(20):
                await main(store, gate)
        finally:
            gate.open.set()
            await store.close()

    asyncio.run(with_store())


async def committing(gate: Gate) -> None:
    """Wait until a commit is stuck."""
    assert await asyncio.to_thread(gate.waiting.wait, 20)


async def values(store: AsyncStore) -> list[bytes | None]:
    return [message.value async for message in store.read()]


async def tasks_of(store: AsyncStore, count: int) -> list[asyncio.Task[lamina.PublishReceipt]]:
    """Tasks that publish, when all of them have begun to."""
    tasks = [asyncio.create_task(store.publish("t", VALUE)) for _ in range(count)]
    await asyncio.sleep(0)
    return tasks


def test_a_message_not_confirmed_in_time_may_still_be_stored() -> None:
    async def main(store: AsyncStore, gate: Gate) -> None:
        for timeout in (SHORT, 0):
            with pytest.raises(WouldBlock, match=r"not confirmed within .* may still be stored"):
                await store.publish("t", b"1", timeout=timeout)
        gate.open.set()
        assert (await store.publish("t", b"2", timeout=20)).offset == 2
        assert await values(store) == [b"1", b"1", b"2"]

    run_stuck(main)


def test_messages_beyond_the_bound_wait_in_order_and_the_loop_goes_on() -> None:
    async def main(store: AsyncStore, gate: Gate) -> None:
        tasks = await tasks_of(store, 50)
        await asyncio.sleep(SHORT)
        queue = store._store.appender()._queue
        assert 0 <= queue.room_bytes() < 2500
        assert not any(task.done() for task in tasks)
        gate.open.set()
        receipts = await asyncio.gather(*tasks)
        assert [receipt.offset for receipt in receipts] == list(range(50))

    run_stuck(main)


def test_a_message_without_room_in_time_is_not_stored() -> None:
    async def main(store: AsyncStore, gate: Gate) -> None:
        tasks = await tasks_of(store, 4)
        for _ in range(3):
            with pytest.raises(WouldBlock, match=r"not stored: for 0\.02 s"):
                await store.publish("t", VALUE, timeout=SHORT)
        gate.open.set()
        await asyncio.gather(*tasks)
        assert (await store.publish("t", b"next")).offset == 4

    run_stuck(main)


def test_a_cancelled_task_that_waits_for_room_stores_nothing() -> None:
    async def main(store: AsyncStore, gate: Gate) -> None:
        tasks = await tasks_of(store, 8)
        for task in tasks[4:6]:
            task.cancel()
        await asyncio.sleep(0)
        assert len(store._publishers["default"]._late) == 2
        gate.open.set()
        found = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(one) for one in found[4:6]] == [asyncio.CancelledError] * 2
        assert [one.offset for one in found if isinstance(one, lamina.PublishReceipt)] == list(range(6))
        assert len(await values(store)) == 6

    run_stuck(main)


def test_a_message_larger_than_the_bound_goes_alone() -> None:
    async def main(store: AsyncStore, gate: Gate) -> None:
        large = [asyncio.create_task(store.publish("t", bytes(50_000))) for _ in range(3)]
        small = await tasks_of(store, 2)
        gate.open.set()
        receipts = await asyncio.gather(*large, *small)
        assert [receipt.offset for receipt in receipts] == list(range(5))

    run_stuck(main)


def test_room_that_threads_have_taken_is_waited_for() -> None:
    async def main(store: AsyncStore, gate: Gate) -> None:
        futures = [store._store.publish("t", VALUE, wait=False) for _ in range(4)]
        with pytest.raises(WouldBlock, match="not stored"):
            await store.publish("t", VALUE, timeout=SHORT)
        task = asyncio.create_task(store.publish("t", VALUE))
        await asyncio.sleep(SHORT)
        assert not task.done()
        gate.open.set()
        assert (await task).offset == 4
        assert [future.result(20).offset for future in futures] == list(range(4))

    run_stuck(main)


def test_closing_refuses_what_still_waits_for_room() -> None:
    async def main(store: AsyncStore, gate: Gate) -> None:
        tasks = await tasks_of(store, 6)
        await asyncio.sleep(0)
        with pytest.raises(WouldBlock, match=r"not closed within 0\.02 s"):
            await store.close(timeout=SHORT)
        gate.open.set()
        await store.close(timeout=20)
        found = await asyncio.gather(*tasks, return_exceptions=True)
        assert [one.offset for one in found if isinstance(one, lamina.PublishReceipt)] == list(range(4))
        assert [type(one) for one in found[4:]] == [Closed] * 2

    run_stuck(main)


def test_partitions_share_the_bound() -> None:
    async def main(store: AsyncStore, gate: Gate) -> None:
        gate.open.set()
        await store.create_stream("s", partitions=4)
        gate.shut()
        tasks = [asyncio.create_task(store.publish(f"t/{n}", VALUE, stream="s")) for n in range(40)]
        await asyncio.sleep(SHORT)
        assert len(store._publishers["s"]._late) == 36
        gate.open.set()
        assert len({(await task).ref for task in tasks}) == 40

    run_stuck(main)


def test_many_messages_not_confirmed_in_time_are_stored_once() -> None:
    async def main(store: AsyncStore, gate: Gate) -> None:
        messages = [{"topic": "t", "value": b"1"}] * 3
        with pytest.raises(WouldBlock, match="may still be stored"):
            await store.publish_many(messages, producer=("p", 0), timeout=SHORT)
        with pytest.raises(WouldBlock, match="earlier call of producer"):
            await store.publish_many(messages, producer=("p", 0), timeout=SHORT)
        gate.open.set()
        assert (await store.publish_many(messages, producer=("p", 0), timeout=20)).ranges == {0: (0, 3)}
        assert len(await values(store)) == 3

    run_stuck(main)


def test_a_timeout_covers_the_wait_for_a_thread() -> None:
    async def main(store: AsyncStore, gate: Gate) -> None:
        busy = [asyncio.create_task(store.publish_many([{"topic": "t", "value": b"1"}])) for _ in range(12)]
        await committing(gate)
        with pytest.raises(WouldBlock, match=r"not begun: no thread was free for 0\.02 s"):
            await store.publish_many([{"topic": "t", "value": b"2"}], timeout=SHORT)
        gate.open.set()
        await asyncio.gather(*busy)
        assert await values(store) == [b"1"] * 12

    run_stuck(main)


def test_a_producers_waits_end_and_can_be_repeated() -> None:
    async def main(store: AsyncStore, gate: Gate) -> None:
        producer = store.producer(linger=0, max_batch_bytes=1000)
        sent: list[int] = []

        async def send_all() -> None:
            for n in range(100):
                await producer.send("t", bytes(400), timeout=SHORT)
                sent.append(n)

        with pytest.raises(WouldBlock, match="not sent"):
            await send_all()
        with pytest.raises(WouldBlock, match="flush again"):
            await producer.flush(timeout=SHORT)
        with pytest.raises(WouldBlock, match="close again"):
            await producer.close(timeout=SHORT)
        gate.open.set()
        await producer.close(timeout=20)
        assert len(await values(store)) == len(sent)

    run_stuck(main)


def test_sealing_does_not_wait_longer_for_a_commit() -> None:
    async def main(store: AsyncStore, gate: Gate) -> None:
        task = asyncio.create_task(store.publish("t", b"1"))
        await committing(gate)
        with pytest.raises(WouldBlock, match="a commit of others"):
            await store.seal(timeout=SHORT)
        gate.open.set()
        await task
        await store.seal(timeout=20)
        assert [segment.state for segment in await store.segments()] == ["sealed", "active"]

    run_stuck(main)


def test_a_producer_is_made_without_waiting_for_the_disk() -> None:
    async def main(store: AsyncStore, gate: Gate) -> None:
        task = asyncio.create_task(store.publish("t", b"1"))
        await committing(gate)
        producer = store.producer(id="p")
        await producer.send("t", b"2")
        gate.open.set()
        await producer.close()
        await task

    run_stuck(main)


@pytest.mark.parametrize("timeout", [-1, "1", True, float("nan")], ids=repr)
def test_a_timeout_is_seconds(timeout: Any) -> None:
    async def main(store: AsyncStore, gate: Gate) -> None:
        gate.open.set()
        producer = store.producer()
        for call in (
            store.publish("t", b"", timeout=timeout),
            store.publish_many([], timeout=timeout),
            store.seal(timeout=timeout),
            store.close(timeout=timeout),
            producer.send("t", b"", timeout=timeout),
            producer.flush(timeout=timeout),
            producer.close(timeout=timeout),
        ):
            with pytest.raises(InvalidRequest, match="timeout must be None or seconds"):
                await call
        await producer.close()
        assert await values(store) == []

    run_stuck(main)


@pytest.mark.parametrize("is_opened_when_cancelled", [True, False])
def test_a_store_whose_opening_was_cancelled_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_opened_when_cancelled: bool
) -> None:
    opening, go_on, opened = threading.Event(), threading.Event(), threading.Event()

    def slow_open(*args: Any, **options: Any) -> lamina.Store:
        opening.set()
        assert go_on.wait(20)
        store = open_store(*args, **options)
        opened.set()
        return store

    monkeypatch.setattr("lamina.aio.store.open_store", slow_open)

    async def main() -> None:
        task = asyncio.ensure_future(lamina.aio.open(tmp_path / "data").__aenter__())
        assert await asyncio.to_thread(opening.wait, 20)
        if is_opened_when_cancelled:
            go_on.set()
            assert opened.wait(20)  # on the loop, which so cannot hear of it
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        go_on.set()

    asyncio.run(main())
    monkeypatch.undo()
    assert opened.wait(20)
    for _ in range(2000):
        try:
            lamina.open(tmp_path / "data").close()
            break
        except lamina.errors.Conflict:
            threading.Event().wait(0.005)
    else:
        pytest.fail("the store was left open")


def test_an_opening_that_fails_after_it_was_cancelled_harms_nobody(tmp_path: Path) -> None:
    async def main() -> None:
        task = asyncio.ensure_future(lamina.aio.open(tmp_path / "none", read_only=True).__aenter__())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
