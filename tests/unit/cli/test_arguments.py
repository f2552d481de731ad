"""Texts that people type."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from lamina.cli.arguments import parse_bytes, parse_labels, parse_seconds, parse_time, typed_bytes
from lamina.errors import InvalidRequest


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("1700000000000000", 1_700_000_000_000_000),
        ("2026-01-31", datetime(2026, 1, 31, tzinfo=UTC)),
        ("2026-01-31T12:00:00.5Z", datetime(2026, 1, 31, 12, 0, 0, 500_000, UTC)),
        ("2026-01-31 12:00+02:00", datetime(2026, 1, 31, 12, tzinfo=timezone(timedelta(hours=2)))),
    ],
)
def test_a_time_is_microseconds_or_iso_8601_and_utc_without_a_zone(text: str, time: int | datetime) -> None:
    assert parse_time("--since", text) == time


def test_no_time_is_no_bound() -> None:
    assert parse_time("--since", None) is None


@pytest.mark.parametrize("text", ["soon", "", "-5", "2026-13-01"])
def test_what_is_not_a_time_is_refused_with_the_name_of_its_option(text: str) -> None:
    with pytest.raises(InvalidRequest, match="--since"):
        parse_time("--since", text)


def test_a_label_ends_at_the_first_equals_sign() -> None:
    assert parse_labels(["app=shop", "formula=a=b", "empty="]) == {"app": "shop", "formula": "a=b", "empty": ""}


@pytest.mark.parametrize("texts", [["app"], ["=shop"], ["app=a", "app=b"]])
def test_a_label_without_a_key_or_given_twice_is_refused(texts: list[str]) -> None:
    with pytest.raises(InvalidRequest, match="--label"):
        parse_labels(texts)


def test_durations_and_sizes_take_units() -> None:
    assert parse_seconds("--ttl", "5m") == 300
    assert parse_bytes("--retention-bytes", "64K") == 65_536
    with pytest.raises(InvalidRequest, match="--ttl"):
        parse_seconds("--ttl", "long")


def test_an_argument_that_is_not_text_keeps_its_bytes() -> None:
    assert typed_bytes("\udcff\udcfe") == b"\xff\xfe"
