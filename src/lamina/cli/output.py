"""What commands print: tables and lines for people, JSON for machines, hints and progress on stderr."""

from __future__ import annotations

import sys
from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import NoReturn

import msgspec
from rich.console import Console
from rich.filesize import decimal
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from lamina.model import Message

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PIPE_WIDTH = 10_000  # a table in a pipe is as wide as its contents: nobody's screen is there to fit
_SHOWN_CHARACTERS_MAX = 200  # of a value, on a screen


def print_json(document: object) -> None:
    """One JSON document on a line of its own."""
    sys.stdout.buffer.write(msgspec.json.encode(document) + b"\n")


def flush() -> None:
    """Show what was printed so far."""
    sys.stdout.flush()
    sys.stdout.buffer.flush()


def hint(text: str) -> None:
    """Tell people what to do next; stdout stays empty."""
    print(text, file=sys.stderr)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], title: str | None = None) -> None:
    """Numbers stand to the right; texts are shown as they are, never read as markup."""
    cells = [[_cell(value) for value in row] for row in rows]
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for number, column in enumerate(columns):
        is_number = bool(cells) and all(row[number].justify == "right" for row in cells)
        table.add_column(column, justify="right" if is_number else "left", overflow="fold")
    for row in cells:
        table.add_row(*row)
    console = _Console(highlight=False)
    if not console.is_terminal:
        console.width = _PIPE_WIDTH
    console.print(table)


def message_document(message: Message) -> dict[str, object]:
    """A message for machines."""
    key, key_encoding = encoded(message.key)
    value, value_encoding = encoded(message.value)
    return {
        "ref": message.ref,
        "stream": message.stream,
        "partition": message.partition,
        "offset": message.offset,
        "timestamp": message.timestamp,
        "time": time_text(message.timestamp),
        "topic": message.topic,
        "key": key,
        "key_encoding": key_encoding,
        "value": value,
        "value_encoding": value_encoding,
        "labels": message.labels,
        "expires_at": message.expires_at,
        "deliver_at": message.deliver_at,
        "priority": message.priority,
    }


def message_line(message: Message) -> str:
    """A message for people: ref, time, topic, key, labels and value, two spaces apart; "-" is nothing."""
    labels = ",".join(f"{key}={value}" for key, value in message.labels.items())
    parts = (
        message.ref,
        time_text(message.timestamp),
        printable(message.topic),
        "-" if message.key is None else _readable(message.key),
        printable(labels) or "-",
        "(tombstone)" if message.value is None else shortened(_readable(message.value)),
    )
    return "  ".join(parts)


def encoded(data: bytes | None) -> tuple[str | None, str | None]:
    """Bytes as JSON can hold them, and how: as text where they are text."""
    if data is None:
        return None, None
    try:
        return data.decode(), "utf-8"
    except UnicodeDecodeError:
        return b64encode(data).decode(), "base64"


def time_text(time_us: int | None) -> str:
    """ISO-8601 in UTC; "-" for none."""
    if time_us is None:
        return "-"
    return (_EPOCH + timedelta(microseconds=time_us)).isoformat(timespec="microseconds").replace("+00:00", "Z")


def size_text(count: int) -> str:
    return decimal(count)


def printable(text: str) -> str:
    """The text with everything escaped that could move the cursor, change colours or break the line."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text)


def shortened(text: str) -> str:
    """As much as a screen should hold; a pipe gets everything."""
    if len(text) <= _SHOWN_CHARACTERS_MAX or not sys.stdout.isatty():
        return text
    return f"{text[:_SHOWN_CHARACTERS_MAX]}… ({len(text)} characters)"


@contextmanager
def progress(label: str, total: int | None) -> Iterator[Progress]:
    """A bar with one task on stderr, if a person looks at it; total None is a bar that only shows life."""
    columns = [TextColumn("{task.description}"), BarColumn()]
    more = [] if total is None else [TaskProgressColumn(), TimeRemainingColumn()]
    console = Console(stderr=True)
    with Progress(*columns, *more, console=console, transient=True, disable=not console.is_terminal) as bar:
        bar.add_task(label, total=total)
        yield bar


class _Console(Console):
    def on_broken_pipe(self) -> NoReturn:
        raise BrokenPipeError  # one rule for tables and lines alike, in session.py


def _cell(value: object) -> Text:
    if isinstance(value, int) and not isinstance(value, bool):
        return Text(f"{value:,}", justify="right")
    return Text("-" if value is None else printable(str(value)))


def _readable(data: bytes) -> str:
    try:
        return printable(data.decode())
    except UnicodeDecodeError:
        return repr(data)[2:-1]
