"""One walk through the promised names, on disk, as a newcomer would take it."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

import lamina
from lamina.errors import Closed, Conflict, Denied, NotFound, OffsetOutOfRange


def test_a_walk_through_the_store(tmp_path: Path) -> None:
    with lamina.open(str(tmp_path / "data")) as store:
        store.create_stream("events", partitions=1, durability="local", retention_seconds=None, retention_bytes=None)
        store.create_stream("events", compaction="none", window_seconds=3600, partition_by="topic")
        with pytest.raises(Conflict):
            store.create_stream("events", partitions=2)

        receipt = store.publish("orders/eu", b"1", key=b"42", labels={"app": "dm"}, stream="events")
        assert (receipt.stream, receipt.partition, receipt.offset, receipt.ref) == ("events", 0, 0, "events/0/0")
        later = store.publish("orders/eu", b"2", ttl=60, priority=1, stream="events", wait=False)
        assert later.result(20).offset == 1

        many = [lamina.Message("orders/us", b"3"), {"topic": "mail", "value": None, "key": b"42"}]
        assert store.publish_many(many, stream="events", producer=("p", 0)).ranges == {0: (2, 4)}
        table = pa.table({"topic": ["orders/eu"] * 2, "value": [b"5", b"6"]})
        assert store.publish_many(table, stream="events").count == 2
        with store.producer(stream="events", id="pipeline", linger=0.005, max_batch_bytes=1 << 20) as producer:
            producer.send("topic", b"7", labels={})

        assert [m.value for m in store.read("orders/eu", "events", limit=10)] == [b"1", b"2", b"5", b"6"]
        assert sum(batch.num_rows for batch in store.read_arrow(stream="events")) == 7
        assert store.get("events/0/2").value == b"3"
        newest = store.latest(key=b"42", topic=None, stream="events")
        assert newest is not None
        assert newest.offset == 3
        assert store.contains_key(b"42", stream="events")
        assert store.offset_at(datetime(2000, 1, 1, tzinfo=UTC), stream="events", partition=0) == 0
        assert store.topics(stream="events", prefix="orders/") == ["orders/eu", "orders/us"]

        store.seal("events")
        store.delete_before("events", partition=0, offset=2)
        with pytest.raises(OffsetOutOfRange):
            store.get("events/0/0")
        assert [segment.messages for segment in store.segments("events") if segment.state == "sealed"] == [7]
        store.update_stream("events", retention_seconds=86400)
        assert store.stream("events").policy.retention_seconds == 86400
        assert store.verify().ok
        assert store.metrics()["lamina_messages_published_total"] == 7

    with lamina.open(tmp_path / "data", read_only=True) as reader:
        assert [m.offset for m in reader.read(stream="events")] == [2, 3, 4, 5, 6]
        with pytest.raises(Denied):
            reader.publish("t", b"")
    with lamina.open(tmp_path / "data") as store:
        assert store.publish("t", b"8", stream="events").offset == 7
        store.delete_stream("events")
        with pytest.raises(NotFound):
            store.stream("events")
    with pytest.raises(Closed):
        store.streams()
