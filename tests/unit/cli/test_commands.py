"""Every command on a real store, for people and for machines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import lamina
from tests.unit.cli.conftest import Run

COMMANDS = [
    "demo",
    "publish",
    "read",
    "query",
    "stream create",
    "stream list",
    "stream describe",
    "stream update",
    "stream delete",
    "topic list",
    "segment list",
    "segment verify",
    "segment explain",
    "index add",
    "index drop",
    "index list",
    "config check",
]


@pytest.mark.parametrize("command", ["", "stream", "topic", "segment", "index", "config", *COMMANDS])
def test_every_command_explains_itself(run: Run, command: str) -> None:
    result = run(*command.split(), "--help")
    assert result.exit_code == 0
    assert "--json" in result.stdout


def test_a_published_message_is_read_again(run: Run) -> None:
    receipt = run("publish", "orders/eu", "two apples", "-l", "app=shop", "-l", "n=2", "--key", "42", "--priority", "3")
    assert receipt.stdout == "default/0/0\n"
    line = run("read").stdout
    assert line.startswith("default/0/0  ")
    assert line.endswith("Z  orders/eu  42  app=shop,n=2  two apples\n")


def test_a_machine_gets_a_receipt_and_the_whole_message(run: Run) -> None:
    time_us = 1_700_000_000_000_000
    arguments = ("-l", "app=shop", "--key", "42", "--timestamp", str(time_us), "--ttl", "1h", "--priority", "3")
    receipt = json.loads(run("publish", "orders/eu", "two apples", *arguments, "--json").stdout)
    assert receipt == {"stream": "default", "partition": 0, "offset": 0, "epoch": 1, "timestamp": time_us} | {
        "ref": "default/0/0"
    }
    message = json.loads(run("read", "--json").stdout)
    assert message.pop("expires_at") > time_us
    assert message == {
        "ref": "default/0/0",
        "stream": "default",
        "partition": 0,
        "offset": 0,
        "timestamp": time_us,
        "time": "2023-11-14T22:13:20.000000Z",
        "topic": "orders/eu",
        "key": "42",
        "key_encoding": "utf-8",
        "value": "two apples",
        "value_encoding": "utf-8",
        "labels": {"app": "shop"},
        "deliver_at": None,
        "priority": 3,
    }


def test_a_value_comes_from_standard_input_byte_by_byte(run: Run) -> None:
    run("publish", "t", "-", stdin=b"\xff\n\x00")
    message = json.loads(run("read", "--json").stdout)
    assert (message["value"], message["value_encoding"]) == ("/woA", "base64")


def test_each_line_of_standard_input_is_a_message(run: Run) -> None:
    result = run("publish", "t", "--lines", "-l", "app=shop", "--ttl", "1h", "--json", stdin=b"one\n\nthree")
    assert json.loads(result.stdout) == {"stream": "default", "count": 3, "ranges": {"0": [0, 3]}}
    messages = [json.loads(line) for line in run("read", "--json").stdout.splitlines()]
    assert [message["value"] for message in messages] == ["one", "", "three"]
    assert all(message["labels"] == {"app": "shop"} and message["expires_at"] for message in messages)


def test_many_lines_all_arrive(run: Run) -> None:
    lines = b"".join(b"line %d %s\n" % (number, b"x" * 100) for number in range(20_000))  # several reads of a pipe
    assert run("publish", "t", "--lines", stdin=lines).stdout == "published 20000 messages from default/0/0 on\n"
    shown = run("read").stdout.splitlines()
    assert [line.split()[-2] for line in shown] == [str(number) for number in range(20_000)]


def test_a_tombstone_has_no_value(run: Run) -> None:
    run("publish", "t", "--tombstone", "--key", "42")
    assert json.loads(run("read", "--json").stdout)["value"] is None


@pytest.mark.parametrize(
    "arguments",
    [
        ("publish", "t"),
        ("publish", "t", "v", "--lines"),
        ("publish", "t", "v", "-l", "app"),
        ("publish", "t", "v", "--ttl", "0"),
        ("publish", "t", "v", "--timestamp", "soon"),
        ("publish", "t", "v", "--priority", "1000"),
        ("publish", "", "v"),
        ("read", "--follow", "--descending"),
        ("read", "--since", "soon"),
        ("read", "--start", "-1"),
        ("stream", "create", "no/slash"),
        ("stream", "create", "events", "--durability", "none"),
        ("stream", "update", "default"),
        ("stream", "delete", "default"),
        ("read", "--data", "x", "--url", "y"),
    ],
)
def test_a_wrong_call_is_a_usage_error_and_changes_nothing(run: Run, arguments: tuple[str, ...]) -> None:
    run("publish", "t", "v")
    result = run(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert len(result.stderr.splitlines()) == 1
    assert json.loads(run("stream", "list", "--json").stdout)[0]["messages"] == 1


def test_read_takes_offsets_times_topics_and_limits(run: Run) -> None:
    for number in range(6):
        run("publish", "even" if number % 2 == 0 else "odd", str(number), "--timestamp", str(1_000 + number))

    def values(*options: str) -> list[str]:
        return [json.loads(line)["value"] for line in run("read", "--json", *options).stdout.splitlines()]

    assert values("--start", "2", "--end", "4") == ["2", "3"]
    assert values("--topic", "odd", "--limit", "2") == ["1", "3"]
    assert values("--since", "1003", "--until", "1970-01-01T00:00:00.001005Z") == ["3", "4"]
    assert values("--descending", "--limit", "3") == ["5", "4", "3"]
    assert values("--limit", "0") == []


def test_nothing_found_leaves_stdout_empty_and_says_what_to_do(run: Run) -> None:
    run("publish", "t", "v")
    result = run("read", "--topic", "other")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "lamina publish" in result.stderr
    assert run("read", "--topic", "other", "--json").stderr == ""
    assert "lamina publish" in run("topic", "list", "--prefix", "zz").stderr


def test_a_stream_is_created_described_updated_and_deleted(run: Run) -> None:
    options = ("--partitions", "2", "--retention-seconds", "7d", "--compaction", "latest", "--partition-by", "key")
    assert run("stream", "create", "events", *options).stdout == "created stream events\n"
    assert run("stream", "create", "events", *options).exit_code == 0, "the same again is fine"
    assert run("stream", "create", "events").exit_code == 1, "another policy is a conflict"
    changes = ("--retention-seconds", "none", "--retention-bytes", "1G")
    policy = json.loads(run("stream", "update", "events", *changes, "--json").stdout)["policy"]
    assert (policy["retention_seconds"], policy["retention_bytes"]) == (None, 1 << 30)
    described = json.loads(run("stream", "describe", "events", "--json").stdout)
    assert described["policy"] == policy
    assert [partition["partition"] for partition in described["partitions"]] == [0, 1]
    assert "compaction         latest" in run("stream", "describe", "events").stdout
    deleted = run("stream", "delete", "events", "--yes", "--json")
    assert json.loads(deleted.stdout) == {"deleted": "events", "messages": 0}
    assert run("stream", "describe", "events").exit_code == 3


def test_streams_topics_and_segments_are_listed(run: Run) -> None:
    run("publish", "orders/eu", "v")
    run("publish", "visits", "v")
    assert run("stream", "list").stdout.splitlines()[1].split()[:4] == ["default", "1", "local", "2"]
    assert run("topic", "list").stdout == "orders/eu\nvisits\n"
    assert json.loads(run("topic", "list", "--prefix", "o", "--json").stdout) == ["orders/eu"]
    [segment] = json.loads(run("segment", "list", "--json").stdout)
    assert (segment["stream"], segment["base"], segment["messages"], segment["state"]) == ("default", 0, 2, "active")
    assert "active" in run("segment", "list", "--stream", "default").stdout


def test_a_whole_store_verifies(run: Run) -> None:
    run("publish", "t", "v")
    assert run("segment", "verify").stdout.startswith("ok: 1 segments")
    report = json.loads(run("segment", "verify", "--json").stdout)
    assert (report["ok"], report["problems"], report["segments"]) == (True, [], 1)


def test_a_damaged_segment_is_named_and_exits_with_4(run: Run, tmp_path: Path) -> None:
    run("publish", "t", "--lines", stdin=b"some contents\n" * 1_000)
    with lamina.open(tmp_path / "store") as store:
        store.seal()
    log = min((tmp_path / "store").rglob("*.log"))
    spoiled = bytearray(log.read_bytes())
    spoiled[len(spoiled) // 2] ^= 0xFF
    log.write_bytes(spoiled)
    result = run("segment", "verify")
    assert result.exit_code == 4
    assert log.name in result.stdout
    assert result.stderr.startswith("error: 1 of ")
    report = run("segment", "verify", "--json")
    assert report.exit_code == 4
    assert json.loads(report.stdout)["ok"] is False
    assert json.loads(report.stderr)["error"]["kind"] == "Corrupt"


@pytest.mark.parametrize(
    "arguments",
    [
        ("read", "--stream", "other"),
        ("read", "--start", "99"),
        ("read", "--partition", "7"),
        ("stream", "describe", "other"),
        ("stream", "update", "other", "--retention-bytes", "1G"),
        ("stream", "delete", "other", "--yes"),
        ("topic", "list", "--stream", "other"),
        ("segment", "list", "--stream", "other"),
        ("publish", "t", "v", "--stream", "other"),
        ("read", "--data", "absent"),
    ],
)
def test_what_is_not_there_exits_with_3(run: Run, arguments: tuple[str, ...]) -> None:
    run("publish", "t", "v")
    result = run(*arguments, "--json")
    assert result.exit_code == 3
    assert result.stdout == ""
    assert json.loads(result.stderr)["error"]["kind"] == "NotFound"


def test_global_options_may_stand_before_between_and_after(run: Run, tmp_path: Path) -> None:
    other = str(tmp_path / "other")
    run("publish", "t", "v", "--data", other)
    for arguments in (
        ("--data", other, "--json", "stream", "list"),
        ("stream", "--data", other, "--json", "list"),
        ("stream", "list", "--data", other, "--json"),
        ("--json", "stream", "--data", "absent", "list", "--data", other),
    ):
        assert json.loads(run(*arguments).stdout)[0]["messages"] == 1


def test_a_server_is_unavailable_and_a_typed_directory_goes_before_the_url_of_the_environment(run: Run) -> None:
    for result in (run("read", "--url", "lamina://x"), run("read", env={"LAMINA_URL": "lamina://x"})):
        assert result.exit_code == 5
        assert result.stderr == "error: this version has no server yet; use --data\n"
    assert run("read", "--data", "absent", env={"LAMINA_URL": "lamina://x"}).exit_code == 3


def test_config_check_shows_every_setting_and_where_it_comes_from(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "lamina.toml"
    file.write_text('[log]\nsegment_bytes_max = "64M"\n')
    result = run("config", "check", "--config", str(file), "--json", env={"LAMINA_LOG_PRODUCERS_MAX": "5"})
    rows = {row["name"]: row for row in json.loads(result.stdout)}
    assert rows["log.segment_bytes_max"] == {
        "name": "log.segment_bytes_max",
        "value": 64 << 20,
        "source": "file",
        "where": str(file),
    }
    assert (rows["log.producers_max"]["value"], rows["log.producers_max"]["source"]) == (5, "environment")
    assert rows["log.open_segments_max"]["source"] == "default"
    shown = run("config", "check", env={"LAMINA_CONFIG": str(file)}).stdout.splitlines()
    assert ["log.segment_bytes_max", "67108864", "file", str(file)] in [line.split() for line in shown]


def test_wrong_settings_are_a_usage_error_for_every_command(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "lamina.toml"
    file.write_text("[log]\nsegment_byte_max = 1\n")
    for config in (str(file), "absent.toml"):
        for command in (("config", "check"), ("stream", "list"), ("publish", "t", "v")):
            assert run(*command, "--config", config).exit_code == 2


@pytest.mark.slow
def test_the_demo_answers_rightly_and_gives_its_figures(run: Run, tmp_path: Path) -> None:
    result = run("demo", "--messages", "25000", "--json")
    assert result.exit_code == 0, result.stderr
    figures = json.loads(result.stdout)
    assert (figures["messages"], figures["verified"]) == (25_000, True)
    assert all(step["seconds"] >= 0 and step["per_second"] > 0 for step in figures["steps"])
    assert not (tmp_path / "store").exists(), "the store of the environment is left alone"


@pytest.mark.slow
def test_the_demo_may_be_repeated_in_a_directory_of_ones_own(run: Run, tmp_path: Path) -> None:
    data = str(tmp_path / "mine")
    for _ in range(2):
        result = run("demo", "--messages", "100", "--data", data)
        assert result.exit_code == 0, result.stderr
        assert "verify every byte" in result.stdout
    assert json.loads(run("stream", "describe", "demo", "--data", data, "--json").stdout)["messages"] == 200
