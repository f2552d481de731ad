"""`lamina query`, `segment explain` and `index …`, for people and for machines."""

from __future__ import annotations

import json

import pytest

from tests.unit.cli.conftest import Run

FIRST_US = 1_700_000_000_000_000


@pytest.fixture
def filled(run: Run) -> Run:
    for number in range(4):
        labels = ("-l", "app=dm", "-l", f"thread={number % 2}")
        run("publish", f"t/{number % 2}", f"v{number}", *labels, "--timestamp", str(FIRST_US + number))
    return run


def refs(text: str) -> list[str]:
    return [line.split()[0] for line in text.splitlines()]


def test_messages_are_found_by_filter_labels_topic_and_time(filled: Run) -> None:
    assert refs(filled("query", 'labels["thread"] == "1"').stdout) == ["default/0/1", "default/0/3"]
    assert refs(filled("query", "-l", "thread=1", "--descending").stdout) == ["default/0/3", "default/0/1"]
    assert refs(filled("query", "--topic", "t/0", "--since", str(FIRST_US + 1)).stdout) == ["default/0/2"]
    assert refs(filled("query", "--until", str(FIRST_US + 1)).stdout) == ["default/0/0"]
    assert filled("query", "size > 1", "--count").stdout == "4\n"
    assert json.loads(filled("query", "-l", "thread=1", "--count", "--json").stdout) == {"count": 2}


def test_a_page_says_how_to_go_on(filled: Run) -> None:
    first = filled("query", "-n", "3")
    assert len(refs(first.stdout)) == 3
    cursor = first.stderr.split("--cursor ")[1].strip()
    second = filled("query", "-n", "3", "--cursor", cursor)
    assert (refs(second.stdout), second.stderr) == (["default/0/3"], "")
    *messages, page = [json.loads(line) for line in filled("query", "-n", "1", "--json").stdout.splitlines()]
    assert [message["value"] for message in messages] == ["v0"]
    assert page["has_more"] is True
    assert page["cursor"]


def test_nothing_found_says_what_to_do_next(filled: Run) -> None:
    result = filled("query", "-l", "app=none")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "lamina segment explain" in result.stderr


def test_a_mistake_in_a_filter_is_pointed_at(filled: Run) -> None:
    result = filled("query", 'lables["app"] == "dm"')
    assert (result.exit_code, result.stdout) == (2, "")
    lines = result.stderr.splitlines()
    assert lines[0] == "error: filter, line 1, column 1: unknown variable 'lables'"
    assert lines[2].strip() == "^"
    assert lines[3] == "hint: did you mean 'labels'?"
    error = json.loads(filled("query", "1 +", "--json").stderr)["error"]
    assert error["kind"] == "InvalidRequest"


def test_what_is_probably_not_meant_is_a_warning(filled: Run) -> None:
    assert "warning: timestamp > 1700000000: times are microseconds" in filled("query", "timestamp > 1700000000").stderr


def test_how_a_query_is_answered(filled: Run) -> None:
    shown = filled("segment", "explain", 'labels["thread"] == "1" && size > 1').stdout
    assert "labels thread = 1, residual size > 1" in shown
    report = json.loads(filled("segment", "explain", 'labels["thread"] == "1"', "--json").stdout)
    assert (report["residual"], report["rows_scanned"], report["rows_returned"]) == ([], 2, 2)


def test_composites_are_added_listed_used_and_dropped(filled: Run) -> None:
    assert "no composites" in filled("index", "list").stderr
    assert filled("index", "add", "pair", "app", "thread").stdout == "pair: ready\n"
    assert "pair  app, thread  ready" in filled("index", "list").stdout
    assert json.loads(filled("index", "list", "--json").stdout)[0]["keys"] == ["app", "thread"]
    assert "composite pair" in filled("segment", "explain", "-l", "app=dm", "-l", "thread=1").stdout
    assert filled("index", "add", "pair", "app", "thread").exit_code == 1
    assert filled("index", "drop", "pair").exit_code == 0
    assert filled("index", "drop", "pair").exit_code == 3


def test_bad_arguments_are_usage_errors(filled: Run) -> None:
    for arguments in (("-n", "0"), ("-l", "x"), ("--since", "soon"), ("--cursor", "x")):
        assert filled("query", *arguments).exit_code == 2
    assert filled("query", "--stream", "none").exit_code == 3
