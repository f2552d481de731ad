"""Which names and ranges every blob store accepts."""

from __future__ import annotations

from lamina.errors import InvalidRequest


def check_name(name: str) -> None:
    """Names are parts joined by "/". A part that starts with "." is kept for the store's own use."""
    if "\0" in name or any(part == "" or part.startswith(".") for part in name.split("/")):
        raise InvalidRequest(f"blob name {name!r}: use parts joined by '/', none empty or starting with '.'")


def check_range(name: str, start: int, end: int | None) -> None:
    if start < 0 or (end is not None and end < 0):
        raise InvalidRequest(f"blob {name!r}: the range [{start}, {end}) is negative; count from the start")
