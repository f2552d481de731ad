"""Reads through the offset index: the same as a scan, across segments, at any interval."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lamina
from lamina import LogSettings, Settings
from lamina.disk import MemoryDisk
from lamina.log import IndexRecovery
from lamina.testing import FaultyDisk

COUNT = 300


def store_of(path: Path | str, **log: int) -> lamina.Store:
    return lamina.open(path, settings=Settings(log=LogSettings(**log)))


def fill(store: lamina.Store, count: int = COUNT, size: int = 400) -> None:
    """Messages in calls, and so in frames, of three."""
    rows = [{"topic": "t", "value": str(n).encode().ljust(size, b".")} for n in range(count)]
    for first in range(0, count, 3):
        store.publish_many(rows[first : first + 3])


def number(message: lamina.Message) -> int:
    return int((message.value or b"").rstrip(b"."))


def index_sizes(path: Path) -> list[int]:
    return [file.stat().st_size for file in sorted((path / "default" / "0").glob("*.index"))]


@pytest.mark.parametrize("is_sealed", [False, True])
def test_an_indexed_read_equals_a_scan(is_sealed: bool) -> None:
    with store_of("memory:", segment_bytes_max=16 << 10, index_interval_bytes=512) as store:
        fill(store)
        if is_sealed:
            store.seal()
        scanned = list(store.read())
        assert [number(message) for message in scanned] == list(range(COUNT))
        for start in range(0, COUNT, 7):
            assert list(store.read(start=start, limit=5)) == scanned[start : start + 5]
            assert store.get(f"default/0/{start}") == scanned[start]


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(1, 900), min_size=1, max_size=60),
    st.integers(1, 3000),
    st.sampled_from([4096, 10_000, 1 << 20]),
    st.booleans(),
)
def test_every_offset_is_found_at_every_interval(
    sizes: list[int], index_interval_bytes: int, segment_bytes_max: int, is_sealed: bool
) -> None:
    with store_of("memory:", segment_bytes_max=segment_bytes_max, index_interval_bytes=index_interval_bytes) as store:
        for size in sizes:
            store.publish("t", bytes(size))
        if is_sealed:
            store.seal()
        for offset, size in enumerate(sizes):
            assert len(store.get(f"default/0/{offset}").value or b"") == size
            rest = [len(message.value or b"") for message in store.read(start=offset)]
            assert rest == sizes[offset:]


def test_a_read_through_the_index_leaves_a_debug_message(caplog: pytest.LogCaptureFixture) -> None:
    with store_of("memory:") as store:
        fill(store)
        with caplog.at_level(logging.DEBUG, logger="lamina"):
            assert number(next(store.read(start=250))) == 250
    assert any("Using index for lookup" in message for message in caplog.messages)


def test_a_point_read_touches_a_few_frames_however_long_the_log_is() -> None:
    disk = FaultyDisk(MemoryDisk())
    with lamina.open("memory:", disk=disk) as store:
        for n in range(1500):
            store.publish("t", str(n).encode())
        for offset in (0, 750, 1499):
            before = disk.calls["pread"] + disk.calls["map"]
            assert number(store.get(f"default/0/{offset}")) == offset
            assert disk.calls["pread"] + disk.calls["map"] - before <= 4096 // 128 + 3


def test_reads_span_segments(tmp_path: Path) -> None:
    with store_of(tmp_path, segment_bytes_max=8192) as store:
        fill(store)
        bases = [segment.base for segment in store.segments()]
        assert len(bases) > 3
        for base in bases[1:]:
            found = [number(m) for m in store.read(start=base - 1, end=base + 2)]
            assert found == [base - 1, base, base + 1][: len(found)]
            assert len(found) >= 2
    with store_of(tmp_path, segment_bytes_max=8192) as store:
        assert [number(m) for m in store.read(start=5)] == list(range(5, COUNT))


@pytest.mark.parametrize(("index_interval_bytes", "entries_at_most"), [(8192, 14), (4096, 27), (1024, 107)])
def test_the_interval_is_a_setting(tmp_path: Path, index_interval_bytes: int, entries_at_most: int) -> None:
    with store_of(tmp_path, index_interval_bytes=index_interval_bytes) as store:
        for n in range(200):
            store.publish("t", str(n).encode().ljust(400, b"."))
        assert [number(m) for m in store.read(start=150, limit=3)] == [150, 151, 152]
    (size,) = index_sizes(tmp_path)
    assert entries_at_most / 2 <= size / 8 <= entries_at_most


def test_the_interval_may_change_between_two_openings(tmp_path: Path) -> None:
    for interval in (8192, 100, 4096):
        with store_of(tmp_path, index_interval_bytes=interval) as store:
            fill(store, 20)
            assert [number(m) for m in store.read()] == list(range(20)) * (store.stream().messages // 20)


@pytest.mark.parametrize("damage", ["missing", "empty", "torn", "zeros", "garbage"])
@pytest.mark.parametrize("is_sealed", [False, True])
def test_a_damaged_index_costs_nothing_but_its_rebuilding(tmp_path: Path, damage: str, is_sealed: bool) -> None:
    with store_of(tmp_path, index_interval_bytes=512) as store:
        fill(store)
        if is_sealed:
            store.seal()
    for path in (tmp_path / "default" / "0").glob("*.index"):
        data = path.read_bytes()
        path.unlink()
        if damage != "missing":
            changed = {"empty": b"", "torn": data[:-3], "zeros": bytes(len(data)), "garbage": b"\xff" * len(data)}
            path.write_bytes(changed[damage])
    with store_of(tmp_path, index_interval_bytes=512) as store:
        assert [number(m) for m in store.read(start=123, limit=3)] == [123, 124, 125]
        assert store.get("default/0/299").offset == 299
    with store_of(tmp_path, index_interval_bytes=512) as store:
        assert store.verify().ok


def test_the_index_of_a_closed_store_passes_the_recovery_tool(tmp_path: Path) -> None:
    with store_of(tmp_path, segment_bytes_max=16 << 10) as store:
        fill(store)
        store.seal()
    for log_path in sorted((tmp_path / "default" / "0").glob("*.log")):
        before = log_path.with_suffix(".index").read_bytes()
        with IndexRecovery.recover_or_rebuild(log_path, int(log_path.stem)) as index:
            assert index.entries_count == len(before) / 8
        assert log_path.with_suffix(".index").read_bytes() == before


def test_a_read_only_store_reads_through_an_index_too(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with store_of(tmp_path) as owner:
        fill(owner)
        with lamina.open(tmp_path, read_only=True) as reader, caplog.at_level(logging.DEBUG, logger="lamina"):
            assert number(reader.get("default/0/200")) == 200
    assert any("Using index for lookup" in message for message in caplog.messages)
