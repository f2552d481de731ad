"""How a command fails: one line on stderr and an exit code."""

from __future__ import annotations

import sys
from enum import IntEnum
from typing import TextIO

import msgspec

from lamina.cli.output import printable
from lamina.errors import Closed, Conflict, Corrupt, Denied, InvalidRequest, LaminaError, NotFound, Unavailable


class ExitCode(IntEnum):
    """What scripts may rely on."""

    OK = 0
    FAILED = 1
    USAGE = 2
    NOT_FOUND = 3
    DAMAGED = 4
    UNAVAILABLE = 5


EXIT_CODES: dict[type[LaminaError], ExitCode] = {
    InvalidRequest: ExitCode.USAGE,
    NotFound: ExitCode.NOT_FOUND,
    Corrupt: ExitCode.DAMAGED,
    Unavailable: ExitCode.UNAVAILABLE,
    Conflict: ExitCode.FAILED,
    Closed: ExitCode.FAILED,
    Denied: ExitCode.FAILED,
}


def exit_code(error: LaminaError) -> ExitCode:
    return EXIT_CODES.get(kind_of(error), ExitCode.FAILED)


def kind_of(error: LaminaError) -> type[LaminaError]:
    """The kind in the table above: OffsetOutOfRange is a NotFound."""
    return next((kind for kind in EXIT_CODES if isinstance(error, kind)), LaminaError)


def report(kind: str, message: str, *, as_json: bool, in_lines: bool = False, file: TextIO | None = None) -> None:
    """One line on stderr (or `file`), whatever the message holds; `in_lines` keeps those of a pointed-out mistake."""
    if as_json:
        text = msgspec.json.encode({"error": {"kind": kind, "message": message}}).decode()
    elif in_lines:
        text = "error: " + "\n".join(map(printable, message.splitlines()))
    else:
        text = "error: " + " ".join(message.split())
    print(text, file=file or sys.stderr, flush=True)
