"""Index files against real logs: missing, torn, too short, too long, and damaged are all found and rebuilt."""

from __future__ import annotations

import struct
from itertools import pairwise
from pathlib import Path

import pytest

from lamina.errors import Corrupt, InvalidRequest, NotFound
from lamina.log import IndexRecovery, OffsetIndex
from tests.unit.log.segments import write_log

COUNT = 60


@pytest.fixture
def log_path(tmp_path: Path) -> Path:
    return write_log(tmp_path, COUNT)


def index_path(log_path: Path) -> Path:
    return log_path.with_suffix(".index")


def entries(log_path: Path) -> list[tuple[int, int]]:
    return list(struct.iter_unpack(">II", index_path(log_path).read_bytes()))


def recovered(log_path: Path, base: int = 0) -> list[tuple[int, int]]:
    with IndexRecovery.recover_or_rebuild(log_path, base) as index:
        return [(entry.relative_offset, entry.position) for entry in index.entries()]


def is_valid(log_path: Path, base: int = 0) -> bool:
    with OffsetIndex(base, log_path.parent, read_only=True) as index:
        return IndexRecovery.validate_index(index, log_path)


def test_the_first_frame_is_indexed_and_then_one_about_every_4096_bytes(log_path: Path) -> None:
    found = entries(log_path)
    assert found[0] == (0, 64)
    steps = [after[1] - before[1] for before, after in pairwise(found)]
    assert all(4096 <= step < 4096 + 2 * 1216 for step in steps)
    assert len(found) < COUNT / 3


def test_a_fresh_index_is_valid_and_kept_as_it_is(log_path: Path) -> None:
    before = index_path(log_path).stat()
    assert is_valid(log_path)
    assert recovered(log_path) == entries(log_path)
    assert index_path(log_path).stat().st_ino == before.st_ino


def test_a_missing_index_is_rebuilt(log_path: Path) -> None:
    wanted = entries(log_path)
    index_path(log_path).unlink()
    assert recovered(log_path) == wanted
    assert entries(log_path) == wanted


def test_a_rebuilt_index_replaces_old_entries_instead_of_adding_to_them(log_path: Path) -> None:
    wanted = entries(log_path)
    with IndexRecovery.rebuild_index(log_path, 0) as index:
        assert index.entries_count == len(wanted)
    with IndexRecovery.rebuild_index(log_path, 0) as index:
        assert index.entries_count == len(wanted)
    assert entries(log_path) == wanted
    assert sorted(path.name for path in log_path.parent.iterdir() if path.suffix == ".tmp") == []


def test_a_rebuilt_index_is_a_new_file_that_took_the_old_ones_name(log_path: Path) -> None:
    before = index_path(log_path).stat().st_ino
    with index_path(log_path).open("rb") as old:
        IndexRecovery.rebuild_index(log_path, 0).close()
        assert index_path(log_path).stat().st_ino != before
        assert old.read() == index_path(log_path).read_bytes()


@pytest.mark.parametrize("kept_bytes", [0, 8, -8, -3, 5])
def test_an_index_shorter_than_the_log_is_rebuilt(log_path: Path, kept_bytes: int) -> None:
    wanted, data = entries(log_path), index_path(log_path).read_bytes()
    index_path(log_path).write_bytes(data[:kept_bytes])
    if len(data[:kept_bytes]) % 8 == 0:
        assert not is_valid(log_path)
    assert recovered(log_path) == wanted


def test_an_index_longer_than_the_log_is_rebuilt(log_path: Path) -> None:
    wanted = entries(log_path)
    last = wanted[-1]
    with index_path(log_path).open("ab") as file:
        file.write(struct.pack(">II", last[0] + 1000, last[1] + 10_000_000))
    assert not is_valid(log_path)
    assert recovered(log_path) == wanted


def test_index_entries_behind_a_log_that_was_cut_are_dropped(log_path: Path) -> None:
    before = entries(log_path)
    cut = before[-3][1]
    with log_path.open("r+b") as file:
        file.truncate(cut)
    assert not is_valid(log_path)
    assert recovered(log_path) == before[:-3]


def test_an_index_of_a_log_with_a_torn_tail_points_at_whole_frames_only(log_path: Path) -> None:
    before = entries(log_path)
    with log_path.open("r+b") as file:
        file.truncate(before[-1][1] + 100)
    assert recovered(log_path) == before[:-1]


@pytest.mark.parametrize("number", [0, 5, -1])
@pytest.mark.parametrize(("field", "by"), [(0, 1), (1, 64), (1, 1)])
def test_a_wrong_index_entry_is_found_wherever_it_is(log_path: Path, number: int, field: int, by: int) -> None:
    wanted = entries(log_path)
    changed = [list(entry) for entry in wanted]
    changed[number][field] += by
    index_path(log_path).write_bytes(b"".join(struct.pack(">II", *entry) for entry in changed))
    assert not is_valid(log_path)
    assert recovered(log_path) == wanted


def test_garbage_in_an_index_is_replaced(log_path: Path) -> None:
    wanted = entries(log_path)
    index_path(log_path).write_bytes(b"garbage!" * 7)
    assert recovered(log_path) == wanted


def test_a_preallocated_index_of_zeros_is_replaced(log_path: Path) -> None:
    wanted = entries(log_path)
    with index_path(log_path).open("ab") as file:
        file.write(bytes(8 * 1000))
    assert recovered(log_path) == wanted


def test_a_damaged_log_is_reported_and_not_indexed_around(log_path: Path) -> None:
    position = entries(log_path)[3][1]
    with log_path.open("r+b") as file:
        file.seek(position + 200)
        file.write(b"\xff\xff\xff")
    with pytest.raises(Corrupt, match=str(position)):
        IndexRecovery.rebuild_index(log_path, 0)


def test_offsets_come_from_the_log_itself(log_path: Path) -> None:
    """A log under another base offset keeps its frames, so its index keeps its relative offsets."""
    renamed = log_path.with_name(f"{5000:020d}.log")
    log_path.rename(renamed)
    index_path(log_path).unlink()
    with IndexRecovery.rebuild_index(renamed, 5000) as index:
        assert index.lookup(5000) == (5000, 64)
        assert index.lookup(4999) is None


@pytest.mark.parametrize("folder", ["my.log", ".log", "a.log.d", "00000000000000000000.log"])
def test_a_directory_may_have_log_in_its_name(tmp_path: Path, folder: str) -> None:
    log_path = write_log(tmp_path / folder, COUNT)
    wanted = entries(log_path)
    index_path(log_path).unlink()
    assert recovered(log_path) == wanted
    assert entries(log_path) == wanted
    assert sorted(path.name for path in (tmp_path / folder).iterdir()) == ["s"]


def test_the_interval_of_an_index_can_be_chosen(tmp_path: Path) -> None:
    dense = write_log(tmp_path / "dense", COUNT, interval_bytes=1)
    sparse = write_log(tmp_path / "sparse", COUNT, interval_bytes=8192)
    assert len(entries(dense)) == COUNT
    assert len(entries(sparse)) <= COUNT * 1216 // 8192 + 1
    with IndexRecovery.recover_or_rebuild(sparse, 0, interval_bytes=1) as index:
        assert index.entries_count == COUNT


def test_a_rebuilt_index_stops_at_its_maximum(log_path: Path) -> None:
    wanted = entries(log_path)[:4]
    with IndexRecovery.rebuild_index(log_path, 0, max_entries=4) as index:
        assert [(entry.relative_offset, entry.position) for entry in index.entries()] == wanted
        assert IndexRecovery.validate_index(index, log_path)


@pytest.mark.parametrize("name", ["00000000000000000001.log", "0.log", "notes.txt"])
def test_a_log_of_another_base_offset_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"")
    with pytest.raises(InvalidRequest, match="base offset 0"):
        IndexRecovery.rebuild_index(tmp_path / name, 0)


def test_a_missing_log_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        IndexRecovery.recover_or_rebuild(tmp_path / f"{0:020d}.log", 0)


@pytest.mark.parametrize("content", [b"", b"short", bytes(64), b"x" * 200])
def test_what_is_no_segment_is_corrupt(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(content)
    with pytest.raises(Corrupt):
        IndexRecovery.rebuild_index(path, 0)
    assert not index_path(path).exists()


def test_a_log_without_messages_has_an_empty_index(tmp_path: Path) -> None:
    log_path = write_log(tmp_path, 0)
    assert recovered(log_path) == []
    assert is_valid(log_path)
