"""The guide to filters says nothing that was not run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lamina.cel import QUERY, SUBSCRIPTION, compile
from lamina.errors import FilterError
from tests.unit.cel.batches import labelled

GUIDE = (Path(__file__).resolve().parents[3] / "docs" / "filters.md").read_text(encoding="utf-8")
EXAMPLES = [line for block in re.findall(r"```cel\n(.*?)```", GUIDE, re.DOTALL) for line in block.splitlines()]
MISSING = re.findall(r"^\| `([^|]*(?:\\\|\\\|[^|]*)?)` \| (matches|does not match) \|$", GUIDE, re.MULTILINE)


@pytest.mark.parametrize("text", EXAMPLES)
def test_examples_compile_and_run(text: str) -> None:
    found = compile(text)
    assert found.warnings == ()
    assert len(found.truth(labelled({"app": "dm"}, {}))) == 2


@pytest.mark.parametrize(("text", "outcome"), MISSING)
def test_messages_without_the_label(text: str, outcome: str) -> None:
    for written in text.replace("\\|", "|").split("` or `"):
        assert compile(written).truth(labelled({})).tolist() == [outcome == "matches"], written


def test_there_is_something_to_test() -> None:
    assert (len(EXAMPLES), len(MISSING)) == (15, 6)


def test_the_error_and_the_warning_are_as_shown() -> None:
    error, warning = re.findall(r"```text\n(.*?)\n```", GUIDE, re.DOTALL)
    with pytest.raises(FilterError) as caught:
        compile('lables.app == "dm"')
    assert str(caught.value) == error
    assert compile("timestamp > 1700000000").warnings == (warning,)


def test_the_limits_are_those_of_the_profiles() -> None:
    for profile in (QUERY, SUBSCRIPTION):
        assert profile.source_bytes_max == 4096
        assert (profile.nodes_max, profile.depth_max, profile.list_items_max) == (256, 32, 256)
        assert (profile.regex_bytes_max, profile.steps_max) == (256, 10_000)
