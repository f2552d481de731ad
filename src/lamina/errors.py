"""Every error that Lamina raises, sorted by what the caller should do about it.

LaminaError
├── InvalidRequest    fix the call
│   └── FilterError       … the filter text, at line and column
├── NotFound          accept it: the thing is not there
│   └── OffsetOutOfRange  … what is there runs from `earliest` to `latest`
├── Conflict          reload, retry or give up: somebody else was first
│   └── Diverged          … this position belongs to a history that was lost; resume at `at`
├── Unavailable       retry later
│   └── WouldBlock        … a bounded wait ran out, for `reason`
├── Corrupt           stop and repair: stored bytes are damaged
├── Closed            open a new handle
└── Denied            ask for permission

Messages say what was wrong, where, and what to do; they are for people and not part of the API.
"""

from __future__ import annotations


class LaminaError(Exception):
    """Base of all errors raised by Lamina."""


class InvalidRequest(LaminaError):
    """The call itself is wrong and changed nothing."""


class FilterError(InvalidRequest):
    """A filter text that does not compile; `line` and `column` count from 1."""

    def __init__(self, message: str, line: int, column: int) -> None:
        super().__init__(message)
        self.line = line
        self.column = column

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (str(self), self.line, self.column)


class NotFound(LaminaError):
    """The thing asked for does not exist."""


class OffsetOutOfRange(NotFound):
    """The offset is outside what the partition holds: `earliest` ≤ offset < `latest`."""

    def __init__(self, message: str, earliest: int, latest: int) -> None:
        super().__init__(message)
        self.earliest = earliest
        self.latest = latest

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (str(self), self.earliest, self.latest)


class Conflict(LaminaError):
    """Another owner, another definition or another sequence was there first."""


class Diverged(Conflict):
    """A position from a history that was lost in a crash; the shared history ends at `at`."""

    def __init__(self, message: str, at: int) -> None:
        super().__init__(message)
        self.at = at

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (str(self), self.at)


class Unavailable(LaminaError):
    """The world refused for now (disk full, server down); the outcome is as the message says."""


class WouldBlock(Unavailable):
    """A bounded wait ran out."""

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(message)
        self.reason = reason

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (str(self), self.reason)


class Corrupt(LaminaError):
    """Stored bytes are damaged. Nothing was guessed and nothing was thrown away."""


class Closed(LaminaError):
    """The handle was closed."""


class Denied(LaminaError):
    """Permission is missing."""
