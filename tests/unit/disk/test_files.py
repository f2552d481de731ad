"""What only a disk of real files can show: limits, permissions and other processes."""

from __future__ import annotations

import contextlib
import errno
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from lamina.disk import File, FileDisk, disk_error
from lamina.errors import Closed, Conflict, Denied, InvalidRequest, LaminaError, NotFound, Unavailable

PARTIAL_WRITE = """
import resource, signal, sys
from lamina.disk import FileDisk
from lamina.errors import Unavailable

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))
file = FileDisk(sys.argv[1]).open("f", "create")
file.append([b"a" * 5000])
try:
    file.append([b"b" * 2000, b"c" * 3000])
except Unavailable as error:
    print(error)
print(file.size())
file.truncate(5000)
print(file.append([b"d" * 100]))
"""

READ_ONLY = """
import os, sys
from lamina.disk import FileDisk
from lamina.errors import Denied

if os.geteuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
disk = FileDisk(sys.argv[1])
print(disk.list(""))
for call in (
    lambda: disk.open("new", "create"),
    lambda: disk.open("f", "write"),
    lambda: disk.make_directory("d"),
    lambda: disk.rename("f", "g"),
    lambda: disk.unlink("f"),
    lambda: disk.lock("LOCK"),
):
    try:
        call()
        print("allowed")
    except Denied as error:
        print("denied")
"""

HOLDER = """
import sys
from lamina.disk import FileDisk

lock = FileDisk(sys.argv[1]).lock("LOCK")
print("held", flush=True)
sys.stdin.read()
"""


def python(script: str, place: Path) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [sys.executable, "-c", script, str(place)]
    return subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


@pytest.fixture
def public_place() -> Iterator[Path]:
    """A directory that any user can reach, unlike the test's own."""
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        place.chmod(0o755)
        yield place


@pytest.mark.slow
def test_a_write_cut_short_by_a_limit_fails_and_can_be_truncated_back(tmp_path: Path) -> None:
    output, _ = python(PARTIAL_WRITE, tmp_path).communicate()
    message, size, position = output.splitlines()
    assert "File too large" in message
    assert "ulimit -f" in message
    assert size == "8192"  # a part of the bytes is there
    assert position == "5000"
    assert (tmp_path / "f").read_bytes() == b"a" * 5000 + b"d" * 100


@pytest.mark.slow
def test_a_read_only_directory_denies_changes_and_allows_reading(public_place: Path) -> None:
    root = public_place / "root"
    root.mkdir()
    (root / "f").write_bytes(b"abc")
    (root / "f").chmod(0o444)
    root.chmod(0o555)
    output, _ = python(READ_ONLY, root).communicate()
    root.chmod(0o755)
    assert output.splitlines() == ["['f']"] + ["denied"] * 6


@pytest.mark.slow
def test_a_lock_held_by_another_process_names_it_and_ends_with_it(tmp_path: Path) -> None:
    with python(HOLDER, tmp_path) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(Conflict, match=f"locked by process {holder.pid};"):
            FileDisk(tmp_path).lock("LOCK")
        holder.kill()
    with FileDisk(tmp_path).lock("LOCK"), pytest.raises(Conflict, match=f"locked by process {os.getpid()};"):
        FileDisk(tmp_path).lock("LOCK")


def test_the_root_and_all_above_it_are_made_on_demand(tmp_path: Path) -> None:
    disk = FileDisk(tmp_path / "a" / "b")
    with pytest.raises(NotFound, match="a/b"):
        disk.list("")
    disk.make_directory("")
    assert disk.list("") == []


def test_the_root_stays_when_the_process_changes_its_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    disk = FileDisk("root")
    disk.make_directory("d")
    monkeypatch.chdir("/")
    assert disk.list("") == ["d/"]


def test_files_and_directories_are_readable_by_others_and_writable_by_the_owner(tmp_path: Path) -> None:
    mask = os.umask(0o022)
    try:
        disk = FileDisk(tmp_path)
        disk.make_directory("d")
        disk.open("d/f", "create").close()
    finally:
        os.umask(mask)
    assert (tmp_path / "d").stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "d" / "f").stat().st_mode & 0o777 == 0o644


def test_a_closed_file_gives_its_descriptor_back(tmp_path: Path) -> None:
    disk = FileDisk(tmp_path)
    file = disk.open("f", "create")
    file.append([b"abc"])
    view = file.map(3)
    before = len(list(Path("/dev/fd").iterdir()))
    file.close()
    assert len(list(Path("/dev/fd").iterdir())) == before - 1
    assert bytes(view) == b"abc"


def test_a_file_closed_while_others_read_never_shows_another_files_bytes(tmp_path: Path) -> None:
    disk = FileDisk(tmp_path)
    for path in ("mine", "other"):
        disk.open(path, "create").append([path.encode()])
    for _ in range(100):
        file = disk.open("mine", "read")
        found: set[bytes] = set()
        thread = threading.Thread(target=read_until_closed, args=(file, found))
        thread.start()
        file.close()
        other = disk.open("other", "read")  # would get the number of a descriptor closed too early
        thread.join()
        other.close()
        assert found <= {b"mine"}


def read_until_closed(file: File, found: set[bytes]) -> None:
    with contextlib.suppress(Closed):
        while True:
            found.add(file.pread(100, 0))


@pytest.mark.parametrize(
    ("number", "kind", "text"),
    [
        (errno.ENOENT, NotFound, "No such file"),
        (errno.EEXIST, Conflict, "exists"),
        (errno.ENOTEMPTY, Conflict, "not empty"),
        (errno.EISDIR, Conflict, "directory"),
        (errno.EACCES, Denied, "permission"),
        (errno.EPERM, Denied, "not permitted"),
        (errno.EROFS, Denied, "Read-only"),
        (errno.ENAMETOOLONG, InvalidRequest, "too long"),
        (errno.ENOSPC, Unavailable, "free some space"),
        (errno.EIO, Unavailable, "device failed"),
        (errno.EMFILE, Unavailable, "ulimit -n"),
    ],
)
def test_what_the_system_says_becomes_what_to_do(number: int, kind: type[LaminaError], text: str) -> None:
    error = disk_error(OSError(number, os.strerror(number)), "some/path")
    assert type(error) is kind
    assert text in str(error)
    assert str(error).startswith("some/path: ")


def test_a_name_longer_than_the_system_allows_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="too long"):
        FileDisk(tmp_path).open("x" * 300, "create")
