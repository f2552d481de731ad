"""The store under asyncio: the same promises, awaited."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

import lamina
from lamina.disk import MemoryDisk
from lamina.errors import Closed, Conflict, Denied, InvalidRequest, NotFound, Unavailable
from lamina.testing import Fault, FaultyDisk

SMALL_FRAMES = lamina.Settings(log=lamina.LogSettings(frame_bytes_target=4096))


def run(
    main: Callable[[lamina.aio.AsyncStore], Awaitable[None]], path: Path | str = "memory:", **options: object
) -> None:
    async def with_store() -> None:
        async with lamina.aio.open(path, **options) as store:  # type: ignore[arg-type]
            await main(store)

    asyncio.run(with_store())


def test_many_tasks_get_distinct_offsets_in_the_order_they_published(tmp_path: Path) -> None:
    async def main(store: lamina.aio.AsyncStore) -> None:
        receipts = await asyncio.gather(*(store.publish("t", b"%d" % n, labels={"n": str(n)}) for n in range(700)))
        assert [receipt.offset for receipt in receipts] == list(range(700))
        assert [message.value async for message in store.read()] == [b"%d" % n for n in range(700)]
        assert (await store.metrics())["lamina_commits_total"] < 100

    run(main, tmp_path / "data")
    with lamina.open(tmp_path / "data") as store:
        assert [message.labels for message in store.read(start=3, end=5)] == [{"n": "3"}, {"n": "4"}]


def test_messages_of_several_partitions_get_their_receipts() -> None:
    async def main(store: lamina.aio.AsyncStore) -> None:
        await store.create_stream("s", partitions=4)
        receipts = await asyncio.gather(*(store.publish(f"t/{n % 9}", b"%d" % n, stream="s") for n in range(200)))
        for n, receipt in enumerate(receipts):
            assert (await store.get(receipt.ref)).value == b"%d" % n

    run(main)


def test_large_labels_and_values_of_one_turn_are_split_over_frames() -> None:
    async def main(store: lamina.aio.AsyncStore) -> None:
        labels = {f"k{n}": "v" * 3000 for n in range(5)}
        calls = [store.publish("t", b"x" * 3000 if n % 2 else None, labels=labels) for n in range(40)]
        receipts = await asyncio.gather(*calls)
        assert sorted(receipt.offset for receipt in receipts) == list(range(40))
        assert [message.labels == labels async for message in store.read()] == [True] * 40

    run(main, settings=SMALL_FRAMES)


def test_a_bad_message_fails_alone() -> None:
    async def main(store: lamina.aio.AsyncStore) -> None:
        calls = [store.publish("t", b"1"), store.publish("", b"2"), store.publish("t", b"3")]
        found = await asyncio.gather(*calls, return_exceptions=True)
        assert isinstance(found[1], InvalidRequest)
        assert [message.value async for message in store.read()] == [b"1", b"3"]

    run(main)


def test_a_failed_write_reaches_every_waiting_task_and_the_next_turn_works() -> None:
    disk = FaultyDisk(MemoryDisk())

    async def main() -> None:
        store = lamina.aio.AsyncStore(lamina.open("store", disk=disk))
        await store.publish("t", b"before")
        disk.add(Fault(operation="append", path="*.log", error="ENOSPC"))
        found = await asyncio.gather(*(store.publish("t", b"x") for _ in range(5)), return_exceptions=True)
        assert all(isinstance(error, Unavailable) for error in found)
        assert (await store.publish("t", b"after")).offset == 1
        await store.close()

    asyncio.run(main())


def test_a_cancelled_task_leaves_its_message_to_be_stored() -> None:
    async def main(store: lamina.aio.AsyncStore) -> None:
        tasks = [asyncio.ensure_future(store.publish("t", b"%d" % n)) for n in range(3)]
        await asyncio.sleep(0)
        tasks[1].cancel()
        found = await asyncio.gather(*tasks, return_exceptions=True)
        assert isinstance(found[1], asyncio.CancelledError)
        assert [message.value async for message in store.read()] == [b"0", b"1", b"2"]

    run(main)


def test_closing_commits_what_was_published_in_the_same_turn(tmp_path: Path) -> None:
    async def main() -> None:
        store = await lamina.aio.open(tmp_path / "data")
        task = asyncio.ensure_future(store.publish("t", b"1"))
        await asyncio.sleep(0)
        await store.close()
        assert (await task).offset == 0
        with pytest.raises(Closed):
            await store.publish("t", b"2")
        await store.close()

    asyncio.run(main())


def test_a_stream_created_anew_under_the_same_name_takes_messages() -> None:
    async def main(store: lamina.aio.AsyncStore) -> None:
        for n in range(3):
            await store.create_stream("s")
            await store.publish("t", b"%d" % n, stream="s")
            assert [message.value async for message in store.read(stream="s")] == [b"%d" % n]
            await store.delete_stream("s")
        with pytest.raises(NotFound):
            await store.publish("t", b"x", stream="s")

    run(main)


def test_every_other_verb_is_awaitable(tmp_path: Path) -> None:
    async def main(store: lamina.aio.AsyncStore) -> None:
        await store.create_stream("s", retention_seconds=5)
        await store.update_stream("s", retention_seconds=6)
        assert await store.streams() == ["default", "s"]
        assert (await store.stream("s")).policy.retention_seconds == 6
        receipt = await store.publish_many([{"topic": "a", "value": b"1", "key": b"k"}], producer=("p", 0))
        assert receipt.ranges == {0: (0, 1)}
        async with store.producer(id="q") as producer:
            for n in range(50):
                await producer.send("b", b"%d" % n)
            await producer.flush()
            with pytest.raises(Conflict):
                store.producer(id="q")
        latest = await store.latest(b"k")
        assert latest is not None
        assert latest.value == b"1"
        assert await store.contains_key(b"k")
        assert await store.topics() == ["a", "b"]
        assert await store.offset_at(0) == 0
        assert sum([batch.num_rows async for batch in store.read_arrow(start=1)]) == 50
        await store.seal()
        await store.delete_before("default", 0, 51)
        assert [segment.state for segment in await store.segments()] == ["active"]
        assert (await store.verify()).ok

    run(main, tmp_path / "data")


def test_a_reader_beside_the_owner_reads_and_is_refused_writing(tmp_path: Path) -> None:
    with lamina.open(tmp_path / "data") as owner:
        owner.publish("t", b"1")

        async def main(store: lamina.aio.AsyncStore) -> None:
            assert [message.value async for message in store.read()] == [b"1"]
            with pytest.raises(Denied):
                await store.publish("t", b"2")

        run(main, tmp_path / "data", read_only=True)


def test_queries_counts_and_composites_are_awaited(tmp_path: Path) -> None:
    async def main(store: lamina.aio.AsyncStore) -> None:
        await asyncio.gather(*(store.publish("t", b"%d" % n, labels={"n": str(n % 3)}) for n in range(30)))
        page = await store.query('labels["n"] == "1"', limit=4, descending=True)
        assert [message.value for message in page] == [b"28", b"25", b"22", b"19"]
        assert page.has_more
        more = await store.query('labels["n"] == "1"', limit=100, descending=True, cursor=page.cursor)
        assert len(more) == 6
        assert await store.count('labels["n"] == "1"') == 10
        await store.create_composite("c", ["n", "m"])
        assert [one.name for one in await store.composites()] == ["c"]
        await store.drop_composite("c")
        with pytest.raises(InvalidRequest):
            await store.query("labels")

    run(main, tmp_path / "data")
