"""A second owner, other people's files, and formats of the future: a typed error, and not a byte changed."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from crc32c import crc32c

import lamina
from lamina.disk import FileDisk, MemoryDisk
from lamina.errors import Conflict, Corrupt, InvalidRequest, NotFound
from lamina.log.names import log_name
from lamina.testing import FakeClock
from tests.faults.damage import PARTITION, disk_of, files_of, salt_of, store_of
from tests.models.ledger import NOW_US

LOG = f"{PARTITION}/{log_name(0)}"
SECOND_OWNER = """
import sys
import lamina
try:
    lamina.open(sys.argv[1])
except lamina.errors.Conflict as error:
    sys.exit(3 if sys.argv[2] in str(error) else 4)
"""


def open_on(disk: MemoryDisk | FileDisk, *, read_only: bool = False) -> lamina.Store:
    return lamina.open("store", disk=disk, clock=FakeClock(NOW_US, jump=False), read_only=read_only)


def test_a_second_owner_in_this_process_gets_conflict(tmp_path: Path) -> None:
    with lamina.open(tmp_path) as store:
        store.publish("t", b"1")
        with pytest.raises(Conflict, match="in use"):
            lamina.open(tmp_path)
        assert [m.value for m in store.read()] == [b"1"]
        store.publish("t", b"2")
    with lamina.open(tmp_path) as store:
        assert [m.value for m in store.read()] == [b"1", b"2"]


@pytest.mark.slow
def test_a_second_owner_in_another_process_gets_conflict_and_changes_nothing(tmp_path: Path) -> None:
    with lamina.open(tmp_path) as store:
        store.publish("t", b"1")
        before = files_of(FileDisk(tmp_path))
        command = [sys.executable, "-c", SECOND_OWNER, str(tmp_path), str(os.getpid())]
        assert subprocess.run(command, timeout=30, check=False).returncode == 3
        assert files_of(FileDisk(tmp_path)) == before
        store.publish("t", b"2")
        assert store.verify().ok


def test_a_directory_of_other_files_is_refused_and_left_alone() -> None:
    files = {"notes.txt": b"mine", "photos/cat.jpg": b"\xff\xd8"}
    for read_only, error in ((False, InvalidRequest), (True, NotFound)):
        disk = disk_of(files)
        with pytest.raises(error):
            open_on(disk, read_only=read_only)
        assert files_of(disk) == files


def test_other_files_inside_a_store_are_reported_and_left_alone() -> None:
    truth = store_of("packed", sealed=True)
    foreign = {
        f"{PARTITION}/notes.txt": b"mine",
        f"{PARTITION}/123.log": b"short name",
        f"{PARTITION}/{log_name(0)}.bak": b"a copy",
        "photos/cat.jpg": b"\xff\xd8",
        "README": b"",
    }
    disk = disk_of(truth.files | foreign)
    with open_on(disk) as store:
        assert [m.value for m in store.read()] == [m.value for m in truth.messages]
        assert set(store.verify().foreign) == {path for path in foreign if path.startswith(PARTITION)}
        store.publish("t", b"x")
        store.seal()
    after = files_of(disk)
    assert {path: after.get(path) for path in foreign} == foreign


def newer_segment(log: bytes) -> bytes:
    head = log[:8] + struct.pack(">H", 2) + log[10:60]
    return head + struct.pack(">I", crc32c(head)) + log[64:]


def newer_frame(log: bytes, at: int = 64) -> bytes:
    table_bytes = struct.unpack_from(">I", log, at + 8)[0]
    head = log[at : at + 4] + b"\x02" + log[at + 5 : at + 60]
    table = log[at + 64 : at + 64 + table_bytes]
    return log[:at] + head + struct.pack(">I", crc32c(table, crc32c(head, salt_of(log)))) + log[at + 64 :]


def newer_document(document: bytes) -> bytes:
    first, _, rest = document.partition(b"\n")
    lamina_word, kind, _, crc = first.split(b" ")
    return b" ".join([lamina_word, kind, b"2", crc]) + b"\n" + rest


@pytest.mark.parametrize("document", [f"{PARTITION}/partition.json", "default/stream.json", "lamina.json"])
@pytest.mark.parametrize("read_only", [False, True])
def test_a_document_of_a_newer_format_asks_for_an_upgrade(document: str, read_only: bool) -> None:
    truth = store_of("packed", sealed=False)
    files = truth.files | {document: newer_document(truth.files[document])}
    disk = disk_of(files)
    with pytest.raises(Corrupt, match="upgrade Lamina"):
        _use(disk, read_only=read_only)
    assert unchanged(files, disk)


@pytest.mark.parametrize("kind", ["packed", "arrow"])
@pytest.mark.parametrize("sealed", [False, True], ids=["active", "sealed"])
@pytest.mark.parametrize("part", ["segment", "frame"])
@pytest.mark.parametrize("read_only", [False, True])
def test_a_segment_of_a_newer_format_asks_for_an_upgrade(kind: str, sealed: bool, part: str, read_only: bool) -> None:
    truth = store_of(kind, sealed=sealed)
    change = newer_segment if part == "segment" else newer_frame
    files = truth.files | {LOG: change(truth.files[LOG])}
    disk = disk_of(files)
    with pytest.raises(Corrupt, match=r"\.log.*upgrade Lamina"):
        _use(disk, read_only=read_only)
    assert files_of(disk)[LOG] == files[LOG], "a segment of a newer format was changed"
    if read_only:
        assert unchanged(files, disk)


@pytest.mark.parametrize("sealed", [False, True], ids=["active", "sealed"])
def test_a_last_frame_of_a_newer_format_is_never_cut_off_as_torn(sealed: bool) -> None:
    """Also without head: it is whole, this version only cannot read it."""
    truth = store_of("packed", sealed=sealed)
    log = truth.files[LOG]
    last = log.rindex(b"LMFR")
    files = {path: content for path, content in truth.files.items() if not path.endswith("/head")}
    disk = disk_of(files | {LOG: newer_frame(log, last)})
    with pytest.raises(Corrupt, match=r"\.log.*upgrade Lamina"):
        _use(disk, read_only=False)
    assert files_of(disk)[LOG] == newer_frame(log, last)


def _use(disk: MemoryDisk, *, read_only: bool) -> None:
    with open_on(disk, read_only=read_only) as store:
        list(store.read())


def unchanged(before: Mapping[str, bytes], disk: MemoryDisk) -> bool:
    return {path: content for path, content in files_of(disk).items() if path != "lock"} == {
        path: content for path, content in before.items() if path != "lock"
    }
