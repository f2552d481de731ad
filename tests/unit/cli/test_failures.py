"""Every kind of error has its exit code and one line."""

from __future__ import annotations

import io
import json

import pytest

from lamina import errors
from lamina.cli import failures


@pytest.mark.parametrize(
    ("error", "code", "kind"),
    [
        (errors.InvalidRequest("x"), 2, "InvalidRequest"),
        (errors.FilterError("x", 1, 2), 2, "InvalidRequest"),
        (errors.NotFound("x"), 3, "NotFound"),
        (errors.OffsetOutOfRange("x", 1, 2), 3, "NotFound"),
        (errors.Corrupt("x"), 4, "Corrupt"),
        (errors.Unavailable("x"), 5, "Unavailable"),
        (errors.WouldBlock("x", "disk"), 5, "Unavailable"),
        (errors.Conflict("x"), 1, "Conflict"),
        (errors.Diverged("x", 1), 1, "Conflict"),
        (errors.Closed("x"), 1, "Closed"),
        (errors.Denied("x"), 1, "Denied"),
        (errors.LaminaError("x"), 1, "LaminaError"),
    ],
)
def test_an_error_has_the_exit_code_and_the_name_of_its_kind(error: errors.LaminaError, code: int, kind: str) -> None:
    assert failures.exit_code(error) == code
    assert failures.kind_of(error).__name__ == kind


def test_every_kind_of_error_is_in_the_table() -> None:
    assert set(failures.EXIT_CODES) == set(errors.LaminaError.__subclasses__())


def test_a_message_of_many_lines_is_reported_in_one() -> None:
    file = io.StringIO()
    failures.report("Corrupt", "first\n  second", as_json=False, file=file)
    assert file.getvalue() == "error: first second\n"


def test_a_machine_gets_the_kind_and_the_whole_message() -> None:
    file = io.StringIO()
    failures.report("NotFound", "first\nsecond", as_json=True, file=file)
    assert json.loads(file.getvalue()) == {"error": {"kind": "NotFound", "message": "first\nsecond"}}
