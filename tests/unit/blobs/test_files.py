"""What only blobs of real files can show: staging, permissions, descriptors."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from lamina.blobs import FileBlobs
from lamina.blobs.files import blob_errors
from lamina.errors import Conflict, Denied, LaminaError, NotFound, Unavailable


def test_nothing_is_left_in_staging_after_a_put_or_a_conflict(tmp_path: Path) -> None:
    blobs = FileBlobs(tmp_path)
    blobs.put_new("a/b", b"first")
    with pytest.raises(Conflict):
        blobs.put_new("a/b", b"second")
    assert list((tmp_path / ".staging").iterdir()) == []


def test_a_file_left_in_staging_by_a_crash_is_no_object(tmp_path: Path) -> None:
    blobs = FileBlobs(tmp_path)
    blobs.put_new("a", b"content")
    (tmp_path / ".staging" / "left").write_bytes(b"half")
    assert [blob.name for blob in blobs.list()] == ["a"]


def test_an_absent_root_is_an_empty_store(tmp_path: Path) -> None:
    blobs = FileBlobs(tmp_path / "no" / "root")
    assert list(blobs.list()) == []
    blobs.delete("a")
    with pytest.raises(NotFound):
        blobs.get("a")
    blobs.put_new("a", b"content")
    assert blobs.get("a") == b"content"


def test_two_stores_on_one_directory_see_the_same_objects(tmp_path: Path) -> None:
    FileBlobs(tmp_path).put_new("a/b", b"content")
    other = FileBlobs(tmp_path)
    assert other.get("a/b") == b"content"
    with pytest.raises(Conflict):
        other.put_new("a/b", b"content")


def test_an_object_spanning_many_reads_is_whole(tmp_path: Path) -> None:
    blobs = FileBlobs(tmp_path)
    content = os.urandom(3_000_000)
    blobs.put_new("big", content)
    assert blobs.get("big") == content
    assert blobs.get("big", 1_000_000, 2_500_000) == content[1_000_000:2_500_000]


@pytest.mark.parametrize(
    ("number", "kind", "text"),
    [
        (errno.ENOENT, NotFound, "no blob 'x'"),
        (errno.EACCES, Denied, "Permission denied"),
        (errno.ENOSPC, Unavailable, "free some space"),
        (errno.EIO, Unavailable, "Input/output error"),
    ],
)
def test_what_the_system_says_becomes_what_to_do(number: int, kind: type[LaminaError], text: str) -> None:
    with pytest.raises(LaminaError, match=text) as caught, blob_errors("x"):
        raise OSError(number, os.strerror(number))
    assert caught.type is kind
