"""`head` is the only thing a reader in another process goes by: below, at and above every frame of a segment."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import lamina
from lamina.disk import FileDisk
from lamina.errors import Corrupt
from lamina.log.format import SEGMENT_HEADER_BYTES, decode_frame_header
from lamina.log.head import Head
from lamina.log.names import log_name
from lamina.testing import FakeClock
from tests.faults.damage import PARTITION, Truth, disk_of, files_of, salt_of, store_of
from tests.models.ledger import NOW_US, Expected

ROOT = Path(__file__).resolve().parents[2]
LOG = f"{PARTITION}/{log_name(0)}"
HEAD = f"{PARTITION}/head"


def boundaries(log: bytes) -> list[tuple[int, int]]:
    """(byte, offset) where each frame begins and the last one ends."""
    found = [(SEGMENT_HEADER_BYTES, 0)]
    while (header := decode_frame_header(memoryview(log), found[-1][0], salt_of(log))) is not None:
        found.append((found[-1][0] + header.frame_bytes, header.end))
    return found


def shown(truth: Truth, head: Head) -> list[Expected]:
    """What a reader sees through this head; every other way of reading must agree."""
    disk = disk_of(truth.files | {HEAD: head.encode()})
    with lamina.open("store", disk=disk, clock=FakeClock(NOW_US, jump=False), read_only=True) as store:
        messages = [Expected.of(message) for message in store.read()]
        assert store.stream().partitions[0].latest == head.end
        for offset, message in enumerate(messages):
            assert Expected.of(store.get(f"{PARTITION}/{offset}")) == message
        found = store.latest(b"a")
        with_key = [at for at, message in enumerate(messages) if message.key == b"a"]
        assert (found.offset if found else None) == (with_key[-1] if with_key else None)
        assert store.offset_at(0) == 0
        assert store.offset_at(NOW_US + 10**9) == head.end
        return messages


@pytest.mark.parametrize("kind", ["packed", "arrow", "chained"])
def test_a_reader_shows_exactly_what_is_below_head(kind: str) -> None:
    truth = store_of(kind, sealed=False)
    for byte, offset in boundaries(truth.files[LOG]):
        assert shown(truth, Head(offset, 0, byte)) == truth.messages[:offset]


@pytest.mark.parametrize("kind", ["packed", "arrow"])
def test_a_reader_of_one_open_store_follows_head_up(kind: str) -> None:
    truth = store_of(kind, sealed=False)
    disk = disk_of(truth.files | {HEAD: Head(0, 0, SEGMENT_HEADER_BYTES).encode()})
    with lamina.open("store", disk=disk, clock=FakeClock(NOW_US, jump=False), read_only=True) as store:
        for byte, offset in boundaries(truth.files[LOG]):
            file = disk.open(HEAD, "write")
            file.pwrite(Head(offset, 0, byte).encode(), 0)
            file.close()
            assert [Expected.of(message) for message in store.read()] == truth.messages[:offset]


@pytest.mark.parametrize("kind", ["packed", "arrow", "chained"])
def test_a_head_that_contradicts_the_segment_is_corrupt_or_shows_less(kind: str) -> None:
    truth = store_of(kind, sealed=False)
    log = truth.files[LOG]
    for byte, offset in boundaries(log):
        for wrong in (Head(offset, 0, byte + 1), Head(offset, 0, byte - 1), Head(offset, 0, byte + 64)):
            try:
                messages = shown(truth, wrong)
            except Corrupt:
                continue
            assert messages == truth.messages[: len(messages)]
            assert len(messages) == offset


@pytest.mark.slow
@pytest.mark.parametrize("sealed", [False, True], ids=["active", "sealed"])
@pytest.mark.parametrize("kind", ["packed", "arrow"])
def test_a_head_beyond_real_files_is_corrupt_and_kills_nobody(kind: str, sealed: bool, tmp_path: Path) -> None:
    """In a process of its own: touching a mapping beyond the end of its file would end it with SIGBUS."""
    truth = store_of(kind, sealed=sealed)
    for path, content in truth.files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(content)
    assert files_of(FileDisk(tmp_path)).keys() == truth.files.keys()
    command = [sys.executable, "-m", "tests.integration.test_following_head", str(tmp_path), str(len(truth.messages))]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 0, ended.stderr


def try_heads_beyond(directory: Path, count: int) -> None:
    size = (directory / LOG).stat().st_size
    segments = sorted(int(path.stem) for path in (directory / PARTITION).glob("*.log"))
    variants = [
        Head(count + more, segment, byte)
        for more in (0, 1, 5, 10**6)
        for segment in (*segments, 10**6)
        for byte in (size + 1, size + 64, size + 4096, size + (5 << 20), 2**40)
    ]
    for head in variants:
        (directory / HEAD).write_bytes(head.encode())
        with lamina.open(directory, read_only=True) as store:
            try:
                offsets = [message.offset for message in store.read()]
            except Corrupt:
                continue
            assert offsets == list(range(len(offsets))), head
            assert len(offsets) <= count, head
            assert len(offsets) == head.end, f"{head}: messages are missing without an error"


if __name__ == "__main__":
    try_heads_beyond(Path(sys.argv[1]), int(sys.argv[2]))
