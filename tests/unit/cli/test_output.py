"""What people and machines see of a message."""

from __future__ import annotations

import pytest

from lamina.cli import output
from lamina.model import Message


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"two apples", ("two apples", "utf-8")),
        ("ü".encode(), ("ü", "utf-8")),
        (b"", ("", "utf-8")),
        (b"\xff\x00", ("/wA=", "base64")),
        (None, (None, None)),
    ],
)
def test_bytes_are_text_in_json_where_they_are_text(
    data: bytes | None, expected: tuple[str | None, str | None]
) -> None:
    assert output.encoded(data) == expected


def test_a_line_has_six_parts_and_says_what_is_missing() -> None:
    message = Message("orders/eu", None, timestamp=0, offset=3)
    assert output.message_line(message) == "default/0/3  1970-01-01T00:00:00.000000Z  orders/eu  -  -  (tombstone)"


def test_a_message_cannot_control_the_screen() -> None:
    message = Message("a\nb", b"\x1b[31mred\r", key=b"\xff\x07", labels={"k": "\x1b"}, timestamp=0, offset=0)
    line = output.message_line(message)
    assert line.isprintable()
    assert line.endswith(r"a\nb  \xff\x07  k=\x1b  \x1b[31mred\r")


def test_what_looks_like_markup_is_shown_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    output.print_table(("topic", "count"), [("[red]x[/red]", 1_000)])
    assert "[red]x[/red]  1,000" in capsys.readouterr().out


def test_a_table_in_a_pipe_is_not_cut(capsys: pytest.CaptureFixture[str]) -> None:
    output.print_table(("text",), [("x" * 500,)])
    assert "x" * 500 in capsys.readouterr().out
