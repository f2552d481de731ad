"""What every disk promises, whatever it is made of."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from lamina.disk import Disk, FileDisk, MemoryDisk
from lamina.errors import Closed, Conflict, InvalidRequest, NotFound
from lamina.testing import CrashDisk, FaultyDisk

BACKENDS: dict[str, Callable[[Path], Disk]] = {
    "memory": lambda _: MemoryDisk(),
    "file": lambda place: FileDisk(place / "root"),
    "crash": lambda _: CrashDisk(),
    "faulty": lambda _: FaultyDisk(MemoryDisk()),
}


@pytest.fixture(params=BACKENDS)
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Disk:
    made = BACKENDS[request.param](tmp_path)
    made.make_directory("")
    return made


def write(disk: Disk, path: str, content: bytes) -> None:
    file = disk.open(path, "create")
    file.append([content])
    file.close()


def read(disk: Disk, path: str) -> bytes:
    file = disk.open(path, "read")
    content = file.pread(file.size(), 0)
    file.close()
    return content


def test_append_writes_all_parts_at_the_end_and_returns_where_they_begin(disk: Disk) -> None:
    file = disk.open("f", "create")
    assert file.append([b"ab", bytearray(b"cd"), memoryview(b"ef")]) == 0
    assert file.append([b"", b"gh"]) == 6
    assert file.append([]) == 8
    assert file.size() == 8
    assert read(disk, "f") == b"abcdefgh"


def test_append_counts_the_bytes_of_a_view_and_not_its_items(disk: Disk) -> None:
    file = disk.open("f", "create")
    file.append([memoryview(bytes(range(16))).cast("Q"), b"end"])
    assert file.append([b"!"]) == 19
    assert read(disk, "f") == bytes(range(16)) + b"end!"


def test_append_takes_more_parts_than_the_kernel_does_at_once(disk: Disk) -> None:
    parts = [bytes([index % 251]) * (index % 7) for index in range(5000)]
    file = disk.open("f", "create")
    file.append([b"head"])
    assert file.append(parts) == 4
    assert read(disk, "f") == b"head" + b"".join(parts)


def test_append_goes_on_where_an_earlier_handle_ended(disk: Disk) -> None:
    write(disk, "f", b"first")
    file = disk.open("f", "write")
    assert file.append([b"second"]) == 5
    assert read(disk, "f") == b"firstsecond"


def test_pwrite_overwrites_in_place_and_fills_a_hole_with_zeros(disk: Disk) -> None:
    file = disk.open("f", "create")
    file.append([b"abcdef"])
    file.pwrite(b"XY", 2)
    file.pwrite(memoryview(b"end"), 8)
    assert file.append([b"!"]) == 11
    assert read(disk, "f") == b"abXYef\0\0end!"


def test_writing_nothing_beyond_the_end_does_not_make_the_file_longer(disk: Disk) -> None:
    file = disk.open("f", "create")
    file.pwrite(b"", 100)
    assert file.size() == 0


def test_pread_gives_fewer_bytes_at_the_end_and_none_beyond_it(disk: Disk) -> None:
    write(disk, "f", b"abcdef")
    file = disk.open("f", "read")
    assert file.pread(3, 1) == b"bcd"
    assert file.pread(100, 4) == b"ef"
    assert file.pread(100, 6) == b""
    assert file.pread(1, 1000) == b""


def test_a_reader_sees_what_a_writer_appends_later(disk: Disk) -> None:
    writer = disk.open("f", "create")
    reader = disk.open("f", "read")
    writer.append([b"abc"])
    assert reader.size() == 3
    assert reader.pread(10, 0) == b"abc"


def test_map_is_read_only_and_stays_when_the_file_grows_closes_moves_and_goes(disk: Disk) -> None:
    file = disk.open("f", "create")
    file.append([b"stay" * 10])
    view = file.map(40)
    for _ in range(200):
        file.append([b"x" * 1000])
    file.close()
    disk.rename("f", "g")
    disk.unlink("g")
    assert view.readonly
    assert bytes(view) == b"stay" * 10


def test_map_of_no_bytes_is_empty(disk: Disk) -> None:
    file = disk.open("f", "create")
    assert len(file.map(0)) == 0


def test_map_beyond_the_end_is_refused(disk: Disk) -> None:
    file = disk.open("f", "create")
    file.append([b"abc"])
    with pytest.raises(InvalidRequest, match="cannot map 4 bytes of a file of 3"):
        file.map(4)


def test_truncate_cuts_and_the_next_append_begins_there(disk: Disk) -> None:
    file = disk.open("f", "create")
    file.append([b"abcdef"])
    file.truncate(2)
    assert file.size() == 2
    assert file.append([b"Z"]) == 2
    assert read(disk, "f") == b"abZ"


def test_truncate_to_a_larger_size_grows_with_zeros_and_not_with_old_bytes(disk: Disk) -> None:
    file = disk.open("f", "create")
    file.append([b"abcdef"])
    file.truncate(2)
    file.truncate(5)
    assert read(disk, "f") == b"ab\0\0\0"


def test_preallocate_makes_the_file_longer_with_zeros_and_never_shorter(disk: Disk) -> None:
    file = disk.open("f", "create")
    file.append([b"abc"])
    file.preallocate(6)
    assert read(disk, "f") == b"abc\0\0\0"
    file.preallocate(2)
    assert file.size() == 6
    assert file.append([b"!"]) == 6


def test_sync_works_on_files_and_directories(disk: Disk) -> None:
    disk.make_directory("d")
    file = disk.open("d/f", "create")
    file.append([b"abc"])
    file.sync()
    disk.open("d/f", "read").sync()
    disk.sync_directory("d")
    disk.sync_directory("")
    assert read(disk, "d/f") == b"abc"


def test_a_closed_file_says_so_and_closing_twice_is_fine(disk: Disk) -> None:
    file = disk.open("f", "create")
    file.close()
    file.close()
    calls: list[Callable[[], object]] = [
        lambda: file.append([b"x"]),
        lambda: file.pwrite(b"x", 0),
        lambda: file.pread(1, 0),
        lambda: file.map(0),
        lambda: file.truncate(0),
        lambda: file.preallocate(1),
        file.size,
        file.sync,
    ]
    for call in calls:
        with pytest.raises(Closed):
            call()


def test_a_file_opened_for_reading_refuses_writes(disk: Disk) -> None:
    write(disk, "f", b"abc")
    file = disk.open("f", "read")
    calls: list[Callable[[], object]] = [
        lambda: file.append([b"x"]),
        lambda: file.pwrite(b"x", 0),
        lambda: file.truncate(0),
        lambda: file.preallocate(10),
    ]
    for call in calls:
        with pytest.raises(InvalidRequest):
            call()
    assert read(disk, "f") == b"abc"


def test_negative_numbers_are_refused(disk: Disk) -> None:
    file = disk.open("f", "create")
    calls: list[Callable[[], object]] = [
        lambda: file.pwrite(b"x", -1),
        lambda: file.pread(1, -1),
        lambda: file.pread(-1, 0),
        lambda: file.map(-1),
        lambda: file.truncate(-1),
        lambda: file.preallocate(-1),
    ]
    for call in calls:
        with pytest.raises(InvalidRequest):
            call()
    assert file.size() == 0


def test_opening_an_absent_file_is_not_found(disk: Disk) -> None:
    for path in ("f", "no/f"):
        with pytest.raises(NotFound, match="No such file"):
            disk.open(path, "read")
        with pytest.raises(NotFound):
            disk.open(path, "write")
    with pytest.raises(NotFound):
        disk.open("no/f", "create")


def test_creating_an_existing_name_is_a_conflict(disk: Disk) -> None:
    write(disk, "f", b"abc")
    disk.make_directory("d")
    for path in ("f", "d"):
        with pytest.raises(Conflict):
            disk.open(path, "create")
    assert read(disk, "f") == b"abc"


def test_a_directory_is_not_a_file_and_a_file_is_not_a_directory(disk: Disk) -> None:
    disk.make_directory("d")
    write(disk, "f", b"abc")
    calls: list[Callable[[], object]] = [
        lambda: disk.open("d", "read"),
        lambda: disk.open("d", "write"),
        lambda: disk.open("f/g", "read"),
        lambda: disk.open("f/g", "create"),
        lambda: disk.list("f"),
        lambda: disk.make_directory("f"),
        lambda: disk.make_directory("f/g"),
        lambda: disk.sync_directory("f"),
        lambda: disk.lock("d"),
    ]
    for call in calls:
        with pytest.raises(Conflict):
            call()


def test_list_is_sorted_and_marks_directories(disk: Disk) -> None:
    disk.make_directory("b/inner")
    write(disk, "c", b"")
    write(disk, "a", b"")
    write(disk, "b/x", b"")
    assert disk.list("") == ["a", "b/", "c"]
    assert disk.list("b") == ["inner/", "x"]
    assert disk.list("b/") == ["inner/", "x"]
    assert disk.list("b/inner") == []


def test_list_and_sync_of_an_absent_directory_are_not_found(disk: Disk) -> None:
    with pytest.raises(NotFound):
        disk.list("no")
    with pytest.raises(NotFound):
        disk.sync_directory("no")


def test_make_directory_makes_parents_and_may_be_repeated(disk: Disk) -> None:
    disk.make_directory("a/b/c")
    disk.make_directory("a/b/c")
    disk.make_directory("")
    assert disk.list("a/b") == ["c/"]


def test_rename_replaces_a_file(disk: Disk) -> None:
    write(disk, "old", b"new content")
    write(disk, "new", b"old content")
    disk.rename("old", "new")
    assert disk.list("") == ["new"]
    assert read(disk, "new") == b"new content"


def test_rename_moves_a_directory_with_what_is_in_it(disk: Disk) -> None:
    disk.make_directory("a/b")
    disk.make_directory("c")
    write(disk, "a/b/f", b"abc")
    disk.rename("a", "c/d")
    assert disk.list("") == ["c/"]
    assert read(disk, "c/d/b/f") == b"abc"


def test_rename_to_its_own_name_changes_nothing(disk: Disk) -> None:
    disk.make_directory("d")
    write(disk, "d/f", b"abc")
    disk.rename("d/f", "d/f")
    disk.rename("d", "d")
    assert read(disk, "d/f") == b"abc"


def test_rename_onto_a_directory_is_a_conflict_even_if_it_is_empty(disk: Disk) -> None:
    disk.make_directory("empty")
    disk.make_directory("d")
    write(disk, "f", b"abc")
    for old in ("f", "d"):
        with pytest.raises(Conflict):
            disk.rename(old, "empty")
    with pytest.raises(Conflict):
        disk.rename("d", "f")
    assert disk.list("") == ["d/", "empty/", "f"]


def test_rename_needs_the_file_and_the_new_directory(disk: Disk) -> None:
    write(disk, "f", b"abc")
    disk.make_directory("d")
    for old, new in (("no", "g"), ("f", "no/g"), ("no", "d")):
        with pytest.raises(NotFound):
            disk.rename(old, new)
    assert read(disk, "f") == b"abc"


def test_rename_of_a_directory_into_itself_is_refused(disk: Disk) -> None:
    disk.make_directory("d/inner")
    with pytest.raises(InvalidRequest):
        disk.rename("d", "d/inner/d")


def test_unlink_removes_files_and_empty_directories_and_forgives_absence(disk: Disk) -> None:
    disk.make_directory("d")
    write(disk, "d/f", b"")
    with pytest.raises(Conflict):
        disk.unlink("d")
    disk.unlink("d/f")
    disk.unlink("d/f")
    disk.unlink("d")
    disk.unlink("d")
    disk.unlink("no/f")
    assert disk.list("") == []


def test_open_handles_outlive_rename_and_unlink(disk: Disk) -> None:
    file = disk.open("f", "create")
    file.append([b"abc"])
    disk.rename("f", "g")
    file.append([b"def"])
    assert read(disk, "g") == b"abcdef"
    disk.unlink("g")
    file.append([b"ghi"])
    assert file.pread(9, 0) == b"abcdefghi"
    write(disk, "g", b"another")
    assert file.size() == 9


@pytest.mark.parametrize("path", ["/etc", "..", "a/../b", "a//b", "./a", "a/.", "a\0b", "/"])
def test_a_path_that_could_leave_the_root_is_refused(disk: Disk, path: str) -> None:
    calls: list[Callable[[], object]] = [
        lambda: disk.open(path, "read"),
        lambda: disk.open(path, "create"),
        lambda: disk.list(path),
        lambda: disk.make_directory(path),
        lambda: disk.rename(path, "x"),
        lambda: disk.rename("x", path),
        lambda: disk.unlink(path),
        lambda: disk.sync_directory(path),
        lambda: disk.lock(path),
    ]
    for call in calls:
        with pytest.raises(InvalidRequest):
            call()


def test_the_root_cannot_be_opened_renamed_removed_or_locked(disk: Disk) -> None:
    calls: list[Callable[[], object]] = [
        lambda: disk.open("", "create"),
        lambda: disk.rename("", "x"),
        lambda: disk.rename("x", ""),
        lambda: disk.unlink(""),
        lambda: disk.lock(""),
    ]
    for call in calls:
        with pytest.raises(InvalidRequest):
            call()


def test_a_lock_has_one_holder_until_it_is_closed(disk: Disk) -> None:
    first = disk.lock("LOCK")
    with pytest.raises(Conflict, match="locked"):
        disk.lock("LOCK")
    other = disk.lock("OTHER")
    first.close()
    first.close()
    with disk.lock("LOCK"):
        first.close()
        with pytest.raises(Conflict):
            disk.lock("LOCK")
    disk.lock("LOCK").close()
    other.close()
    assert disk.list("") == ["LOCK", "OTHER"]


def test_a_lock_needs_its_directory(disk: Disk) -> None:
    with pytest.raises(NotFound):
        disk.lock("no/LOCK")


def test_readers_in_other_threads_see_only_whole_appends_below_the_size(disk: Disk) -> None:
    file = disk.open("f", "create")
    reader = disk.open("f", "read")
    done = threading.Event()
    wrong: list[bytes] = []

    def check() -> None:
        while not done.is_set():
            size = reader.size()
            found = reader.pread(size, 0)
            expected = (bytes(range(256)) * (size // 256 + 1))[:size]
            if found != expected or bytes(reader.map(size)) != expected:
                wrong.append(found)

    threads = [threading.Thread(target=check) for _ in range(2)]
    for thread in threads:
        thread.start()
    for _ in range(200):
        file.append([bytes(range(100)), bytes(range(100, 256))])
    done.set()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert file.size() == 200 * 256


def test_one_of_many_threads_creates_a_file(disk: Disk) -> None:
    barrier = threading.Barrier(4)
    outcomes: list[str] = []

    def create() -> None:
        barrier.wait()
        try:
            disk.open("f", "create").close()
            outcomes.append("created")
        except Conflict:
            outcomes.append("conflict")

    threads = [threading.Thread(target=create) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["conflict", "conflict", "conflict", "created"]
