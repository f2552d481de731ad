"""Calls that the command line cannot understand."""

from __future__ import annotations

import json

import pytest

from lamina.cli import main


def end_of(*arguments: str) -> int | str | None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    return ended.value.code


@pytest.mark.parametrize(
    "arguments", [("read", "--bogus"), ("publish",), ("nonsense",), ("read", "--limit", "many"), ("stream", "nonsense")]
)
def test_a_call_that_is_not_understood_is_one_line_and_exit_code_2(
    arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert end_of(*arguments) == 2
    for_people = capsys.readouterr()
    assert for_people.out == ""
    assert for_people.err.startswith("error: ")
    assert len(for_people.err.splitlines()) == 1
    assert end_of(*arguments, "--json") == 2
    for_machines = capsys.readouterr()
    assert for_machines.out == ""
    assert json.loads(for_machines.err)["error"]["kind"] == "InvalidRequest"


@pytest.mark.parametrize("arguments", [(), ("stream",)])
def test_no_command_shows_the_help_and_is_a_usage_error(
    arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert end_of(*arguments) == 2
    assert "Usage: lamina" in capsys.readouterr().out


def test_success_ends_with_0(capsys: pytest.CaptureFixture[str]) -> None:
    assert end_of("config", "check", "--json") in (0, None)
    assert json.loads(capsys.readouterr().out)
