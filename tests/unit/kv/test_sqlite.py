"""SQLite as a kv: what is its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from lamina.errors import Conflict, Corrupt, LaminaError
from lamina.kv import SqliteKv


def test_a_file_that_is_no_database_is_corrupt_and_stays_as_it_is(tmp_path: Path) -> None:
    place = tmp_path / "kv.sqlite"
    place.write_bytes(b"something else entirely" * 100)
    with pytest.raises(Corrupt):
        SqliteKv(place)
    assert place.read_bytes() == b"something else entirely" * 100
    place.unlink()
    SqliteKv(place).close()  # the failed opening kept no lock


def test_a_place_that_cannot_be_made_is_an_error_of_ours(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LaminaError):
        SqliteKv(tmp_path / "file" / "kv.sqlite")


def test_a_conflict_leaves_the_first_handle_alone(tmp_path: Path) -> None:
    kv = SqliteKv(tmp_path / "kv.sqlite")
    with pytest.raises(Conflict):
        SqliteKv(tmp_path / "kv.sqlite")
    kv.put_batch([(b"a", b"1")])
    assert kv.get(b"a") == b"1"
    kv.close()
