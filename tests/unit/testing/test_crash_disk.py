"""The disk that forgets: what it must keep, what it may lose, and what it must never invent."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamina.errors import Closed, Conflict, NotFound
from lamina.testing import CrashDisk

SEEDS = range(200)


def content(disk: CrashDisk, path: str) -> bytes | None:
    try:
        file = disk.open(path, "read")
    except NotFound:
        return None
    return file.pread(file.size(), 0)


def outcomes(disk: CrashDisk, look: Callable[[CrashDisk], object]) -> set[object]:
    """What is seen after many different crashes from the same state."""
    found = set()
    for seed in SEEDS:
        twin = disk.fork()
        twin.crash(random.Random(seed))
        found.add(look(twin))
    return found


def with_file(content: bytes = b"") -> CrashDisk:
    """A disk with a durable file "f"."""
    disk = CrashDisk()
    file = disk.open("f", "create")
    file.append([content])
    file.sync()
    disk.sync_directory("")
    return disk


def test_what_was_synced_survives_every_crash() -> None:
    assert outcomes(with_file(b"abc" * 1000), lambda disk: content(disk, "f")) == {b"abc" * 1000}


def test_the_extremes_keep_nothing_or_everything_unsynced() -> None:
    disk = with_file(b"abc")
    disk.open("f", "write").append([b"def"])
    disk.open("g", "create").append([b"new"])
    nothing, everything = disk.fork(), disk.fork()
    nothing.crash(keep="none")
    everything.crash(keep="all")
    assert (nothing.list(""), content(nothing, "f")) == (["f"], b"abc")
    assert (everything.list(""), content(everything, "f"), content(everything, "g")) == (["f", "g"], b"abcdef", b"new")


def test_unsynced_writes_may_survive_out_of_order_with_zeros_before_them() -> None:
    disk = with_file()
    file = disk.open("f", "write")
    file.append([b"a" * 512])
    file.append([b"b" * 512])
    found = outcomes(disk, lambda disk: content(disk, "f"))
    assert {b"", b"a" * 512, b"\0" * 512 + b"b" * 512, b"a" * 512 + b"b" * 512, b"\0" * 1024} <= found


def test_one_write_is_torn_at_sector_boundaries_only() -> None:
    disk = with_file(b"x" * 100)
    disk.open("f", "write").append([b"y" * 1000])
    whole = b"x" * 100 + b"y" * 1000
    for found in outcomes(disk, lambda disk: content(disk, "f")):
        assert isinstance(found, bytes)
        padded = found.ljust(1100, b"\0")
        for start, end in ((100, 512), (512, 1024), (1024, 1100)):
            assert padded[start:end] in (whole[start:end], bytes(end - start))


def test_a_lost_overwrite_shows_the_older_bytes() -> None:
    disk = with_file(b"old")
    disk.open("f", "write").pwrite(b"new", 0)
    assert outcomes(disk, lambda disk: content(disk, "f")) == {b"old", b"new"}


def test_an_unsynced_truncate_may_be_lost() -> None:
    disk = with_file(b"abcdef")
    disk.open("f", "write").truncate(2)
    assert outcomes(disk, lambda disk: content(disk, "f")) == {b"abcdef", b"ab"}


def test_truncates_survive_in_their_order() -> None:
    disk = with_file(b"abcdef")
    file = disk.open("f", "write")
    file.truncate(0)
    file.preallocate(3)
    assert outcomes(disk, lambda disk: content(disk, "f")) == {b"abcdef", b"", b"\0\0\0"}


def test_a_synced_file_without_a_synced_directory_may_have_no_name() -> None:
    disk = CrashDisk()
    file = disk.open("f", "create")
    file.append([b"abc"])
    file.sync()
    assert outcomes(disk, lambda disk: content(disk, "f")) == {None, b"abc"}


def test_a_synced_name_without_synced_bytes_may_be_an_empty_file() -> None:
    disk = CrashDisk()
    disk.open("f", "create").append([b"abc"])
    disk.sync_directory("")
    assert outcomes(disk, lambda disk: content(disk, "f")) == {b"", b"abc", b"\0\0\0"}


def test_an_unsynced_rename_is_whole_or_undone() -> None:
    disk = with_file(b"abc")
    disk.rename("f", "g")
    assert outcomes(disk, lambda disk: tuple(disk.list(""))) == {("f",), ("g",)}


def test_replacing_a_file_leaves_one_of_both_contents() -> None:
    disk = with_file(b"old")
    file = disk.open("f.new", "create")
    file.append([b"new"])
    file.sync()
    disk.rename("f.new", "f")
    assert outcomes(disk, lambda disk: content(disk, "f")) == {b"old", b"new"}
    disk.sync_directory("")
    assert outcomes(disk, lambda disk: content(disk, "f")) == {b"new"}


def test_replacing_a_file_before_its_bytes_are_synced_may_leave_nothing() -> None:
    disk = with_file(b"old")
    disk.open("f.new", "create").append([b"new"])
    disk.rename("f.new", "f")
    disk.sync_directory("")
    assert outcomes(disk, lambda disk: content(disk, "f")) == {b"", b"new", b"\0\0\0"}


def test_a_rename_between_directories_is_never_half_done() -> None:
    disk = with_file(b"abc")
    disk.make_directory("d")
    disk.sync_directory("")
    disk.rename("f", "d/f")
    seen = outcomes(disk, lambda disk: (content(disk, "f"), content(disk, "d/f")))
    assert seen == {(b"abc", None), (None, b"abc")}
    disk.sync_directory("d")
    assert outcomes(disk, lambda disk: (content(disk, "f"), content(disk, "d/f"))) == {(None, b"abc")}


def test_syncing_one_directory_of_a_rename_brings_along_what_the_rename_needs_in_the_other() -> None:
    disk = CrashDisk()
    disk.make_directory("d")
    disk.sync_directory("")
    file = disk.open("f", "create")
    file.append([b"abc"])
    file.sync()
    disk.rename("f", "d/f")
    disk.sync_directory("d")
    assert outcomes(disk, lambda disk: (content(disk, "f"), content(disk, "d/f"))) == {(None, b"abc")}


def test_an_unsynced_removal_may_be_undone() -> None:
    disk = with_file(b"abc")
    disk.unlink("f")
    assert outcomes(disk, lambda disk: content(disk, "f")) == {None, b"abc"}


def test_names_in_one_directory_survive_as_a_prefix() -> None:
    disk = CrashDisk()
    for name in ("1", "2", "3"):
        disk.open(name, "create").close()
    assert outcomes(disk, lambda disk: "".join(disk.list(""))) == {"", "1", "12", "123"}


def test_directories_forget_independently_of_each_other() -> None:
    disk = CrashDisk()
    disk.make_directory("a")
    disk.make_directory("b")
    disk.sync_directory("")
    disk.open("a/f", "create").close()
    disk.open("b/f", "create").close()
    assert outcomes(disk, lambda disk: (len(disk.list("a")), len(disk.list("b")))) == {(0, 0), (0, 1), (1, 0), (1, 1)}


def test_a_directory_whose_own_name_is_not_synced_is_lost_with_all_in_it() -> None:
    disk = CrashDisk()
    disk.make_directory("d")
    file = disk.open("d/f", "create")
    file.sync()
    disk.sync_directory("d")
    disk.crash()
    assert disk.list("") == []


def test_handles_and_locks_of_before_the_crash_are_closed() -> None:
    disk = with_file(b"abc")
    file = disk.open("f", "write")
    view = file.map(3)
    lock = disk.lock("f")
    disk.crash()
    with pytest.raises(Closed, match="crashed"):
        file.append([b"x"])
    with disk.lock("f"):
        lock.close()  # must not let go of the new holder's lock
        with pytest.raises(Conflict):
            disk.lock("f")
    assert bytes(view) == b"abc"


def test_a_killed_process_loses_handles_and_no_bytes_but_the_bytes_are_still_not_synced() -> None:
    disk = with_file(b"abc")
    file = disk.open("f", "write")
    file.append([b"def"])
    lock = disk.lock("LOCK")
    disk.kill()
    with pytest.raises(Closed):
        file.size()
    disk.lock("LOCK").close()
    lock.close()
    assert content(disk, "f") == b"abcdef"
    disk.crash(keep="none")
    assert content(disk, "f") == b"abc"


def test_a_fork_goes_its_own_way() -> None:
    disk = with_file(b"abc")
    file = disk.open("f", "write")
    twin = disk.fork()
    file.append([b"def"])
    twin.open("g", "create").close()
    twin.crash(keep="all")
    assert (disk.list(""), content(disk, "f")) == (["f"], b"abcdef")
    assert (twin.list(""), content(twin, "f")) == (["f", "g"], b"abc")
    file.sync()


def test_the_same_seed_gives_the_same_crash() -> None:
    disk = with_file(b"abc")
    file = disk.open("f", "write")
    for _ in range(20):
        file.append([b"x" * 700])
    first, second = disk.fork(), disk.fork()
    first.crash(random.Random(7))
    second.crash(random.Random(7))
    assert content(first, "f") == content(second, "f")


Step = tuple[str, int, bytes]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["append", "pwrite", "truncate", "preallocate", "sync"]),
        st.integers(0, 3000),
        st.binary(min_size=1, max_size=4).map(lambda pattern: pattern * 300),
    ),
    max_size=12,
)


class Expectation:
    """A slow and obvious model: which bytes each position may show after a crash."""

    def __init__(self) -> None:
        self.live = bytearray()
        self.synced = bytearray()
        self.floor = 0  # below this, unsynced truncates have not cut
        self.touched: set[int] = set()  # positions written since the sync
        self.written: dict[int, set[int]] = {}

    def write(self, position: int, data: bytes) -> None:
        self.live.extend(bytes(max(0, position + len(data) - len(self.live))))
        self.live[position : position + len(data)] = data
        for index, byte in enumerate(data, position):
            self.touched.add(index)
            self.written.setdefault(index, {0}).add(byte)

    def resize(self, size: int) -> None:
        self.live.extend(bytes(max(0, size - len(self.live))))
        del self.live[size:]
        self.floor = min(self.floor, size)

    def sync(self) -> None:
        self.synced = bytearray(self.live)
        self.floor = len(self.synced)
        self.touched.clear()

    def check(self, found: bytes) -> None:
        assert len(found) >= self.floor
        for index in range(self.floor):
            assert index in self.touched or found[index] == self.synced[index]
        for index, byte in enumerate(found):
            assert byte in self.written.get(index, {0})


def perform(disk: CrashDisk, model: Expectation, steps: list[Step]) -> None:
    file = disk.open("f", "write")
    for verb, number, data in steps:
        if verb == "append":
            assert file.append([data]) == len(model.live)
            model.write(len(model.live), data)
        elif verb == "pwrite":
            file.pwrite(data, number)
            model.write(number, data)
        elif verb == "sync":
            file.sync()
            model.sync()
        elif verb == "truncate" or number > len(model.live):
            getattr(file, verb)(number)
            model.resize(number)


@pytest.mark.slow
@given(steps=STEPS, seed=st.integers(0, 2**32))
def test_a_crash_loses_nothing_synced_and_invents_no_bytes(steps: list[Step], seed: int) -> None:
    disk = with_file()
    model = Expectation()
    perform(disk, model, steps)
    assert content(disk, "f") == bytes(model.live)
    disk.crash(random.Random(seed))
    found = content(disk, "f")
    assert found is not None
    model.check(found)
    disk.crash(random.Random(seed + 1))
    assert content(disk, "f") == found


@pytest.mark.slow
@given(steps=STEPS)
def test_the_extremes_are_exact(steps: list[Step]) -> None:
    disk = with_file()
    model = Expectation()
    perform(disk, model, steps)
    nothing = disk.fork()
    nothing.crash(keep="none")
    assert content(nothing, "f") == bytes(model.synced)
    disk.crash(keep="all")
    assert content(disk, "f") == bytes(model.live)
