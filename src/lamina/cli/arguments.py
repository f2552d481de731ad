"""From the texts that people type to values: times, labels, durations, sizes."""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import UTC, datetime

from lamina.errors import InvalidRequest
from lamina.settings import parse_value

NONE = "none"
"""Clears an optional part of a policy."""


def parse_time(option: str, text: str | None) -> int | datetime | None:
    """Microseconds, or an ISO-8601 time; without a zone it is UTC."""
    if text is None:
        return None
    if text.isdecimal():
        return int(text)
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidRequest(
            f"{option}: {text!r} is not a time; write 2026-01-31T12:00:00Z or microseconds since 1970"
        ) from None
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)


def parse_labels(texts: Iterable[str]) -> dict[str, str]:
    labels: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise InvalidRequest(f"--label: {text!r} is not a label; write key=value")
        if key in labels:
            raise InvalidRequest(f"--label: {key!r} is given twice; a message has one value for each label")
        labels[key] = value
    return labels


def parse_seconds(option: str, text: str) -> float:
    """A duration such as 30, 100ms or 7d."""
    return float(_parse(option, "_seconds", float, text))


def parse_bytes(option: str, text: str) -> int:
    """A size such as 4096, 64K or 1GiB."""
    return int(_parse(option, "_bytes", int, text))


def typed_bytes(text: str) -> bytes:
    """The very bytes of an argument, also where they are not text."""
    return os.fsencode(text)


def _parse(option: str, unit: str, kind: type, text: str) -> bool | int | float | str:
    try:
        return parse_value(unit, kind, text)
    except ValueError as error:
        raise InvalidRequest(f"{option}: {error}") from None
