"""The disk that fails on demand."""

from __future__ import annotations

import threading
from typing import get_args

import pytest

from lamina.disk import Disk, File, MemoryDisk
from lamina.errors import Denied, NotFound, Unavailable
from lamina.testing import CrashDisk, FakeClock, Fault, FaultyDisk
from lamina.testing.faults import DiskOperation


def call(disk: Disk, operation: DiskOperation) -> None:
    """One call of each kind, on a disk that has a file "f"."""
    match operation:
        case "open":
            disk.open("f", "read")
        case "rename":
            disk.rename("f", "f")
        case "list" | "make_directory" | "sync_directory":
            getattr(disk, operation)("")
        case "unlink" | "lock":
            getattr(disk, operation)("other")
        case _:
            call_file(disk.open("f", "write"), operation)


def call_file(file: File, operation: DiskOperation) -> None:
    match operation:
        case "append":
            file.append([b"x"])
        case "pwrite":
            file.pwrite(b"x", 0)
        case "pread":
            file.pread(1, 0)
        case "map" | "truncate" | "preallocate":
            getattr(file, operation)(0)
        case _:
            getattr(file, operation)()


def memory() -> MemoryDisk:
    disk = MemoryDisk()
    disk.open("f", "create").append([b"abc"])
    return disk


@pytest.mark.parametrize("operation", get_args(DiskOperation))
def test_every_operation_can_fail_once_and_is_counted(operation: DiskOperation) -> None:
    disk = FaultyDisk(memory(), [Fault(operation=operation)])
    with pytest.raises(Unavailable, match="Input/output error"):
        call(disk, operation)
    call(disk, operation)
    assert disk.calls[operation] == 2


def test_a_fault_lets_calls_pass_and_then_fails_as_often_as_told() -> None:
    disk = FaultyDisk(memory(), [Fault(operation="append", error="ENOSPC", after=2, times=3)])
    file = disk.open("f", "write")
    for _ in range(2):
        file.append([b"x"])
    for _ in range(3):
        with pytest.raises(Unavailable, match="f: No space left on device; free some space"):
            file.append([b"x"])
    for _ in range(2):
        file.append([b"x"])
    assert disk.calls["append"] == 7
    assert file.size() == 3 + 4


def test_a_fault_without_an_end_lasts_until_the_disk_is_healed() -> None:
    disk = FaultyDisk(memory())
    disk.add(Fault(operation="sync", times=None))
    file = disk.open("f", "write")
    for _ in range(5):
        with pytest.raises(Unavailable):
            file.sync()
    disk.heal()
    file.sync()


def test_a_fault_strikes_the_paths_it_names() -> None:
    disk = FaultyDisk(memory(), [Fault(operation="rename", path="*.index", times=None)])
    disk.rename("f", "g")
    for old, new in (("g", "a/1.index"), ("2.index", "g")):
        with pytest.raises(Unavailable, match=f"{old} -> {new}"):
            disk.rename(old, new)
    assert disk.list("") == ["g"]


def test_a_short_write_leaves_a_part_of_the_bytes() -> None:
    faults = [Fault(operation="append", error="ENOSPC", short=3), Fault(operation="pwrite", short=1)]
    file = FaultyDisk(memory(), faults).open("f", "write")
    with pytest.raises(Unavailable):
        file.append([b"de", b"fg"])
    assert file.pread(10, 0) == b"abcdef"
    with pytest.raises(Unavailable):
        file.pwrite(b"XYZ", 0)
    assert file.pread(10, 0) == b"Xbcdef"


def test_a_fault_after_the_effect_has_done_it() -> None:
    disk = FaultyDisk(memory(), [Fault(operation="rename", when="after"), Fault(operation="append", when="after")])
    with pytest.raises(Unavailable):
        disk.rename("f", "g")
    assert disk.list("") == ["g"]
    file = disk.open("g", "write")
    with pytest.raises(Unavailable):
        file.append([b"d"])
    assert file.size() == 4


def test_a_refused_sync_leaves_the_bytes_to_the_next_crash() -> None:
    inner = CrashDisk()
    disk = FaultyDisk(inner, [Fault(operation="sync")])
    file = disk.open("f", "create")
    file.append([b"abc"])
    disk.sync_directory("")
    with pytest.raises(Unavailable):
        file.sync()
    inner.crash()
    assert disk.open("f", "read").size() == 0


def test_permission_errors_and_the_inner_disks_own_errors_keep_their_kind() -> None:
    disk = FaultyDisk(memory(), [Fault(operation="lock", error="EACCES")])
    with pytest.raises(Denied):
        disk.lock("LOCK")
    with pytest.raises(NotFound):
        disk.open("absent", "read")


def test_slow_operations_wait_on_the_clock() -> None:
    clock = FakeClock()
    disk = FaultyDisk(memory(), slow_seconds={"sync": 2.5}, clock=clock)
    file = disk.open("f", "write")
    file.append([b"x"])
    assert clock.monotonic() == 0
    file.sync()
    file.sync()
    assert clock.monotonic() == 5


def test_only_writes_can_be_short() -> None:
    with pytest.raises(ValueError, match="short"):
        Fault(operation="sync", short=1)


def test_of_many_threads_as_many_fail_as_told() -> None:
    disk = FaultyDisk(memory(), [Fault(operation="list", after=10, times=20)])
    failures: list[str] = []

    def work() -> None:
        for _ in range(25):
            try:
                disk.list("")
            except Unavailable as error:
                failures.append(str(error))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(failures) == 20
    assert disk.calls["list"] == 100
