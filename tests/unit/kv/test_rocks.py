"""RocksDB as a kv: what is its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from lamina.errors import Conflict, Corrupt, LaminaError, Unavailable
from lamina.kv import RocksKv, rocks

KILLED = """
import os, sys
from lamina.kv import RocksKv
kv = RocksKv(sys.argv[1], sync=sys.argv[2] == "sync")
kv.put_batch([(b"a", b"1")])
kv.put_batch([(b"b", b"2")], [b"a"])
os.kill(os.getpid(), 9)
"""
HOLDER = """
import sys
from lamina.kv import RocksKv
kv = RocksKv(sys.argv[1])
print("open", flush=True)
sys.stdin.readline()
"""


@pytest.mark.parametrize("sync", ["sync", "no"])
def test_what_was_put_survives_a_kill(tmp_path: Path, sync: str) -> None:
    killed = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / "kv"), sync], check=False)
    assert killed.returncode == -9
    kv = RocksKv(tmp_path / "kv")
    assert list(kv.range(b"", b"\xff")) == [(b"b", b"2")]
    kv.close()


def test_another_process_has_it_open(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLDER, str(tmp_path / "kv")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "open\n"
        with pytest.raises(Conflict, match="open"):
            RocksKv(tmp_path / "kv")
        holder.communicate("go\n")
    RocksKv(tmp_path / "kv").close()


def test_without_the_extra_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rocks, "rocksdict", None)
    with pytest.raises(Unavailable, match=r"pip install 'lamina\[rocksdb\]'"):
        RocksKv(tmp_path / "kv")


def test_a_place_that_is_a_file_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "kv").write_text("not a directory")
    with pytest.raises(LaminaError):
        RocksKv(tmp_path / "kv")


def test_damaged_bytes_are_corrupt(tmp_path: Path) -> None:
    kv = RocksKv(tmp_path / "kv")
    kv.put_batch([(b"a", b"1")])
    kv.close()
    (tmp_path / "kv" / "CURRENT").write_text("nonsense")
    with pytest.raises(Corrupt):
        RocksKv(tmp_path / "kv")
