"""The command line as a process: pipes, signals, other owners, exit codes."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import lamina

pytestmark = pytest.mark.slow

LAMINA = (sys.executable, "-m", "lamina")


def environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("LAMINA_")}


def run(*arguments: str | Path, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*LAMINA, *map(str, arguments)], input=stdin, capture_output=True, env=environment(), check=False, timeout=60
    )


def test_a_reader_works_beside_the_owner_and_a_second_writer_is_told_why_not(tmp_path: Path) -> None:
    with lamina.open(tmp_path) as store:
        store.publish("orders/eu", b"two apples")
        beside = run("read", "--data", tmp_path, "--json")
        assert beside.returncode == 0, beside.stderr
        assert json.loads(beside.stdout)["value"] == "two apples"
        second = run("publish", "orders/eu", "x", "--data", tmp_path)
        assert second.returncode == 1
        assert second.stdout == b""
        assert second.stderr.startswith(b"error: only one process can write to a store")
        assert str(os.getpid()).encode() in second.stderr


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_a_pipe_that_closes_early_is_no_error(tmp_path: Path, options: tuple[str, ...]) -> None:
    with lamina.open(tmp_path) as store:
        store.publish_many([{"topic": "t", "value": b"x" * 100}] * 50_000)
    command = [*LAMINA, "read", "--data", str(tmp_path), *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0


def test_following_shows_new_messages_and_an_interrupt_ends_it_well(tmp_path: Path) -> None:
    with lamina.open(tmp_path) as store:
        store.publish("t", b"old")
        command = [*LAMINA, "read", "--follow", "--json", "--data", str(tmp_path)]
        # A test run in the background ignores interrupts, and its children would inherit that.
        with subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(),
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        ) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            assert json.loads(process.stdout.readline())["value"] == "old"
            store.publish("t", b"new")
            assert json.loads(process.stdout.readline())["value"] == "new"
            process.send_signal(signal.SIGINT)
            assert process.stdout.read() == b""
            assert process.stderr.read() == b""
        assert process.returncode == 0


def test_a_process_ends_with_the_exit_code_and_nothing_but_the_error(tmp_path: Path) -> None:
    result = run("read", "--bogus", "--json")
    assert (result.returncode, result.stdout) == (2, b"")
    assert json.loads(result.stderr)["error"]["kind"] == "InvalidRequest"
    result = run("read", "--data", tmp_path / "absent")
    assert (result.returncode, result.stdout) == (3, b"")
    assert result.stderr.startswith(b"error: no store at ")


@pytest.mark.parametrize(("answer", "code", "left"), [(b"n\n", 1, ["default", "events"]), (b"y\n", 0, ["default"])])
def test_deleting_a_stream_asks_a_person_first(tmp_path: Path, answer: bytes, code: int, left: list[str]) -> None:
    with lamina.open(tmp_path) as store:
        store.create_stream("events")
    person, terminal = pty.openpty()
    try:
        os.write(person, answer)
        command = [*LAMINA, "stream", "delete", "events", "--data", str(tmp_path)]
        result = subprocess.run(command, stdin=terminal, capture_output=True, env=environment(), check=False)
    finally:
        os.close(person)
        os.close(terminal)
    assert result.returncode == code
    assert b"Delete stream events with 0 messages?" in result.stderr
    with lamina.open(tmp_path, read_only=True) as store:
        assert store.streams() == left


def test_an_argument_that_is_not_text_is_published_as_it_is(tmp_path: Path) -> None:
    command = [*map(os.fsencode, LAMINA), b"publish", b"t", b"\xff\xfe", b"--data", os.fsencode(tmp_path)]
    assert subprocess.run(command, env=environment(), capture_output=True, check=False).returncode == 0
    with lamina.open(tmp_path, read_only=True) as store:
        assert [message.value for message in store.read()] == [b"\xff\xfe"]


def test_the_console_script_and_the_module_are_the_same() -> None:
    assert run("--version").stdout.decode().strip() == lamina.__version__
    script = Path(sys.executable).with_name("lamina")
    if script.exists():
        shown = subprocess.run([script, "--version"], capture_output=True, env=environment(), check=True)
        assert shown.stdout.decode().strip() == lamina.__version__
