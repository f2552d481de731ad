"""What only a disk in memory must show: views that stay while their file moves on."""

from __future__ import annotations

from lamina.disk import MemoryDisk


def test_a_view_is_not_copied_again_while_the_file_has_room() -> None:
    file = MemoryDisk().open("f", "create")
    file.append([b"a" * 1000])
    assert file.map(500).obj is file.map(1000).obj


def test_a_view_keeps_its_bytes_when_the_file_is_truncated_and_written_again() -> None:
    file = MemoryDisk().open("f", "create")
    file.append([b"before"])
    view = file.map(6)
    file.truncate(0)
    file.append([b"after!"])
    assert bytes(view) == b"before"
    assert bytes(file.map(6)) == b"after!"


def test_two_disks_share_nothing() -> None:
    first, second = MemoryDisk(), MemoryDisk()
    first.open("f", "create").close()
    with first.lock("LOCK"), second.lock("LOCK"):
        assert second.list("") == ["LOCK"]
