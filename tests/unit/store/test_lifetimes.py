"""Opening, owning, following and closing a store; streams that live in memory or are flushed."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lamina
from lamina import LogSettings, Settings, errors
from lamina.disk import MemoryDisk
from lamina.errors import Closed, Conflict, Denied, InvalidRequest, NotFound, Unavailable
from tests.unit.store.stores import memory_store, values

READS: dict[str, Callable[[lamina.Store], object]] = {
    "streams": lambda s: s.streams(),
    "stream": lambda s: s.stream(),
    "topics": lambda s: s.topics(),
    "read": lambda s: list(s.read()),
    "read_arrow": lambda s: list(s.read_arrow()),
    "get": lambda s: s.get("default/0/0"),
    "latest": lambda s: s.latest(b"k"),
    "contains_key": lambda s: s.contains_key(b"k"),
    "offset_at": lambda s: s.offset_at(0),
    "segments": lambda s: s.segments(),
    "verify": lambda s: s.verify(),
    "metrics": lambda s: s.metrics(),
}
WRITES: dict[str, Callable[[lamina.Store], object]] = {
    "create_stream": lambda s: s.create_stream("x"),
    "update_stream": lambda s: s.update_stream("default", retention_bytes=1),
    "delete_stream": lambda s: s.delete_stream("default"),
    "delete_before": lambda s: s.delete_before(offset=1),
    "publish": lambda s: s.publish("t", b""),
    "publish without waiting": lambda s: s.publish("t", b"", wait=False),
    "publish_many": lambda s: s.publish_many([{"topic": "t", "value": b""}]),
    "publish nothing": lambda s: s.publish_many([]),
    "producer": lambda s: s.producer(),
    "seal": lambda s: s.seal(),
}


@pytest.mark.parametrize("call", [*READS, *WRITES])
def test_a_closed_store_refuses_everything(call: str) -> None:
    store = memory_store()
    store.publish("t", b"", key=b"k")
    store.close()
    with pytest.raises(Closed):
        (READS | WRITES)[call](store)


def test_closing_is_idempotent() -> None:
    store = memory_store()
    store.close()
    store.close()
    with store:
        pass


def test_an_exception_in_a_with_block_closes_the_store() -> None:
    store = memory_store()
    with pytest.raises(ZeroDivisionError), store:
        raise ZeroDivisionError
    with pytest.raises(Closed):
        store.streams()


def test_a_read_begun_before_closing_ends_with_its_messages_or_closed() -> None:
    store = memory_store()
    for n in range(10):
        store.publish("t", str(n).encode())
    found = store.read()
    assert next(found).value == b"0"
    store.close()
    try:
        rest = [message.value for message in found]
    except Closed:
        return
    assert rest == [str(n).encode() for n in range(1, 10)]


def test_a_store_in_memory_is_gone_when_closed() -> None:
    with lamina.open("memory:") as store:
        store.publish("t", b"1")
        assert values(store) == [b"1"]
    with lamina.open("memory:") as store:
        assert values(store) == []


@pytest.mark.parametrize("call", WRITES)
def test_a_read_only_store_refuses_changes(tmp_path: Path, call: str) -> None:
    with lamina.open(tmp_path) as owner, lamina.open(tmp_path, read_only=True) as reader:
        owner.publish("t", b"kept", key=b"k")
        with pytest.raises(Denied, match="read-only"):
            WRITES[call](reader)
        assert values(owner) == [b"kept"]


@pytest.mark.parametrize("call", READS)
def test_a_read_only_store_reads_what_its_owner_wrote(tmp_path: Path, call: str) -> None:
    with lamina.open(tmp_path) as owner, lamina.open(tmp_path, read_only=True) as reader:
        for n in range(100):
            owner.publish("t", str(n).encode(), key=b"k")
        if call not in ("metrics", "verify", "segments"):
            assert READS[call](reader) == READS[call](owner)
        else:
            assert READS[call](reader)


def test_a_read_only_store_reads_after_its_owner_has_gone(tmp_path: Path) -> None:
    with lamina.open(tmp_path) as owner:
        owner.publish("t", b"1")
    with lamina.open(tmp_path, read_only=True) as reader:
        assert values(reader) == [b"1"]
        assert reader.verify().ok


def test_a_second_owner_is_a_conflict_and_a_reader_is_not(tmp_path: Path) -> None:
    with lamina.open(tmp_path) as store:
        with pytest.raises(Conflict, match="read_only"):
            lamina.open(tmp_path)
        store.publish("t", b"still works")
    lamina.open(tmp_path).close()


def test_what_is_not_a_store_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("text")
    (tmp_path / "directory").mkdir()
    (tmp_path / "directory" / "letter.txt").write_text("text")
    with pytest.raises(InvalidRequest, match="is a file"):
        lamina.open(tmp_path / "file")
    with pytest.raises(InvalidRequest, match=r"letter\.txt"):
        lamina.open(tmp_path / "directory")
    assert [path.name for path in (tmp_path / "directory").iterdir()] == ["letter.txt"]


def test_a_read_only_store_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        lamina.open(tmp_path / "absent", read_only=True)
    assert not (tmp_path / "absent").exists()
    (tmp_path / "empty").mkdir()
    with pytest.raises(NotFound):
        lamina.open(tmp_path / "empty", read_only=True)


def test_a_reader_sees_streams_come_change_and_go(tmp_path: Path) -> None:
    with lamina.open(tmp_path) as owner, lamina.open(tmp_path, read_only=True) as reader:
        owner.create_stream("events", retention_seconds=5)
        owner.publish("t", b"old", stream="events")
        assert values(reader, "events") == [b"old"]
        owner.update_stream("events", retention_seconds=9)
        assert reader.stream("events").policy.retention_seconds == 9
        owner.delete_stream("events")
        with pytest.raises(NotFound):
            reader.stream("events")
        owner.create_stream("events", partitions=2)
        owner.publish("t", b"new", stream="events")
        assert [message.value for message in reader.read("t", stream="events")] == [b"new"]
        assert reader.stream("events").policy.partitions == 2


def test_a_reader_follows_through_rolls_seals_and_deletions(tmp_path: Path) -> None:
    settings = Settings(log=LogSettings(segment_bytes_max=4096))
    with lamina.open(tmp_path, settings=settings) as owner, lamina.open(tmp_path, read_only=True) as reader:
        for n in range(60):
            owner.publish("t", bytes(300), key=str(n).encode())
            if n % 10 == 9:
                owner.seal()
            if n % 20 == 19:
                owner.delete_before(offset=n - 5)
            assert [m.offset for m in reader.read()] == [m.offset for m in owner.read()]
            newest = reader.latest(str(n).encode())
            assert newest is not None
            assert newest.offset == n
        assert reader.verify().ok


def test_a_stream_in_memory_serves_its_owner_and_no_other_process(tmp_path: Path) -> None:
    with lamina.open(tmp_path) as owner:
        owner.create_stream("fast", durability="memory")
        owner.publish("t", b"1", stream="fast", key=b"k")
        assert values(owner, "fast") == [b"1"]
        assert owner.contains_key(b"k", stream="fast")
        with lamina.open(tmp_path, read_only=True) as reader:
            assert "fast" in reader.streams()
            with pytest.raises(Unavailable, match="memory"):
                reader.read(stream="fast")
    with lamina.open(tmp_path) as owner:
        assert values(owner, "fast") == []
        assert owner.publish("t", b"2", stream="fast").epoch > 1


def test_a_flushed_stream_is_there_after_closing() -> None:
    disk = MemoryDisk()
    with memory_store(disk=disk) as store:
        store.create_stream("quick", durability="flush")
        for n in range(10):
            store.publish("t", str(n).encode(), stream="quick")
    with memory_store(disk=disk) as store:
        assert values(store, "quick") == [str(n).encode() for n in range(10)]


@pytest.mark.parametrize("segment_bytes_max", [16 << 10, 256 << 20])
def test_a_stream_in_memory_stays_within_its_limit(segment_bytes_max: int) -> None:
    limit = 128 << 10
    with memory_store(LogSettings(memory_stream_bytes_max=limit, segment_bytes_max=segment_bytes_max)) as store:
        store.create_stream("fast", durability="memory")
        for n in range(600):
            store.publish("t", n.to_bytes(4, "big") * 500, stream="fast")
        store.seal("fast")
        info = store.stream("fast")
        assert info.bytes <= 2 * limit
        kept = [message.offset for message in store.read(stream="fast")]
        assert kept == list(range(info.partitions[0].earliest, 600)), "the newest are kept"
        assert store.publish("t", b"next", stream="fast").offset == 600


def test_the_retention_of_a_stream_in_memory_is_its_limit() -> None:
    with memory_store(LogSettings(segment_bytes_max=16 << 10)) as store:
        store.create_stream("fast", durability="memory", retention_bytes=64 << 10)
        for _ in range(300):
            store.publish("t", bytes(2000), stream="fast")
        store.seal("fast")
        assert store.stream("fast").bytes <= 128 << 10


ERRORS: list[errors.LaminaError] = [
    errors.LaminaError("m"),
    errors.InvalidRequest("m"),
    errors.FilterError("m", 3, 7),
    errors.NotFound("m"),
    errors.OffsetOutOfRange("m", 5, 9),
    errors.Conflict("m"),
    errors.Diverged("m", 4),
    errors.Unavailable("m"),
    errors.WouldBlock("m", "buffer full"),
    errors.Corrupt("m"),
    errors.Closed("m"),
    errors.Denied("m"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_errors_survive_pickling(error: errors.LaminaError) -> None:
    copy: Any = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert str(copy) == "m"
    assert vars(copy) == vars(error)


def test_errors_are_sorted_by_what_the_caller_should_do() -> None:
    assert issubclass(errors.FilterError, errors.InvalidRequest)
    assert issubclass(errors.OffsetOutOfRange, errors.NotFound)
    assert issubclass(errors.Diverged, errors.Conflict)
    assert issubclass(errors.WouldBlock, errors.Unavailable)
    assert {type(error) for error in ERRORS} == {
        kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.LaminaError)
    }
