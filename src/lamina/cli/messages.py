"""`lamina publish` and `lamina read`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import datetime
from typing import Annotated, BinaryIO

import msgspec
import typer

from lamina.cli import output
from lamina.cli.arguments import parse_labels, parse_seconds, parse_time, typed_bytes
from lamina.cli.session import Session
from lamina.cli.window import Window
from lamina.clock import SystemClock
from lamina.errors import InvalidRequest
from lamina.model import MIB, Message
from lamina.store import Store

_VALUE_BYTES_READ_MAX = 17 * MIB  # more than a message may hold: the store refuses it and says why
_LINES_BYTES = 1 * MIB

StreamOption = Annotated[str, typer.Option("--stream", "-s", metavar="NAME", help="The stream.")]


class Draft(msgspec.Struct, frozen=True):
    """What the messages of one `publish` have in common."""

    stream: str
    topic: str
    key: bytes | None
    labels: dict[str, str]
    timestamp: int | datetime | None
    ttl: float | None
    priority: int | None

    def row(self, value: bytes, now_us: int) -> dict[str, object]:
        return {
            "topic": self.topic,
            "value": value,
            "key": self.key,
            "labels": self.labels,
            "timestamp": self.timestamp,
            "priority": self.priority,
            "expires_at": None if self.ttl is None else now_us + int(self.ttl * 1e6),
        }


def publish(
    session: Session,
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The subject, e.g. orders/eu.")],
    value: Annotated[
        str | None, typer.Argument(metavar="VALUE", help="The contents; - reads them from standard input.")
    ] = None,
    label: Annotated[
        list[str] | None, typer.Option("--label", "-l", metavar="KEY=VALUE", help="A label; may be given many times.")
    ] = None,
    key: Annotated[str | None, typer.Option(help="The key; the newest message of a key can be looked up.")] = None,
    stream: StreamOption = "default",
    ttl: Annotated[str | None, typer.Option(metavar="DURATION", help="Expires after this time: 30s, 5m, 7d.")] = None,
    priority: Annotated[int | None, typer.Option(help="0 to 127.")] = None,
    timestamp: Annotated[
        str | None, typer.Option(metavar="TIME", help="ISO-8601 or microseconds; now if absent.")
    ] = None,
    lines: Annotated[bool, typer.Option("--lines", help="Publish each line of standard input as a message.")] = False,
    tombstone: Annotated[bool, typer.Option("--tombstone", help="Publish no value: the key is gone.")] = False,
) -> None:
    """Publish a message, or one for each line of standard input."""
    if (value is not None) + lines + tombstone != 1:
        raise InvalidRequest("give one of VALUE, - (for standard input), --lines and --tombstone")
    draft = Draft(
        stream,
        topic,
        None if key is None else typed_bytes(key),
        parse_labels(label or ()),
        parse_time("--timestamp", timestamp),
        None if ttl is None else parse_seconds("--ttl", ttl),
        priority,
    )
    with session.writing() as store:
        if lines:
            _publish_lines(session, store, draft)
        else:
            _publish_one(session, store, draft, None if value is None else _value_of(value))


def read(
    session: Session,
    topic: Annotated[str | None, typer.Option("--topic", "-t", help="Only this topic.")] = None,
    stream: StreamOption = "default",
    partition: Annotated[int | None, typer.Option("--partition", "-p", help="Only this partition.")] = None,
    start: Annotated[int | None, typer.Option(help="The first offset.")] = None,
    end: Annotated[int | None, typer.Option(help="The offset before which to stop.")] = None,
    limit: Annotated[int | None, typer.Option("--limit", "-n", min=0, help="At most so many messages.")] = None,
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="Not before this time: ISO-8601 or microseconds.")
    ] = None,
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Before this time.")] = None,
    descending: Annotated[bool, typer.Option("--descending", help="Newest first.")] = False,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with new messages until interrupted.")] = False,
) -> None:
    """Read messages by offset or time, oldest first.

    A line holds ref, time, topic, key, labels and value. The messages of several partitions come in order of time.
    """
    window = Window(
        stream=stream,
        topic=topic,
        partition=partition,
        start=start,
        end=end,
        since=parse_time("--since", since),
        until=parse_time("--until", until),
    )
    if follow and (descending or end is not None or until is not None):
        raise InvalidRequest("--follow has no end: leave out --descending, --end and --until")
    with session.reading() as store:
        if follow:
            _print_followed(session, window.follow(store, SystemClock()), limit)
            return
        count = 0
        for message in window.messages(store, limit, descending=descending):
            if count == limit:
                break
            print_message(session, message)
            count += 1
    if count == 0 and not session.as_json:
        output.hint(f"no such messages in stream {stream}; publish one: lamina publish TOPIC VALUE --stream {stream}")


def _print_followed(session: Session, messages: Iterator[Message | None], limit: int | None) -> None:
    """An interrupt is how a person says that it is enough."""
    left = limit
    try:
        while left != 0:
            message = next(messages)
            if message is None:
                output.flush()
                continue
            print_message(session, message)
            left = None if left is None else left - 1
    except KeyboardInterrupt:
        output.flush()


def print_message(session: Session, message: Message) -> None:
    if session.as_json:
        output.print_json(output.message_document(message))
    else:
        print(output.message_line(message))


def _publish_one(session: Session, store: Store, draft: Draft, value: bytes | None) -> None:
    receipt = store.publish(
        draft.topic,
        value,
        key=draft.key,
        labels=draft.labels,
        timestamp=draft.timestamp,
        ttl=draft.ttl,
        priority=draft.priority,
        stream=draft.stream,
    )
    if session.as_json:
        output.print_json(msgspec.structs.asdict(receipt) | {"ref": receipt.ref})
    else:
        print(receipt.ref)


def _publish_lines(session: Session, store: Store, draft: Draft) -> None:
    clock = SystemClock()
    count, ranges = 0, dict[int, tuple[int, int]]()
    for values in _line_batches(sys.stdin.buffer):
        now_us = clock.now_us()
        try:
            receipt = store.publish_many([draft.row(value, now_us) for value in values], draft.stream)
        except InvalidRequest as error:
            raise InvalidRequest(f"{error} (counted after {count} lines that are published)") from error
        count += receipt.count
        for partition, (first, end) in receipt.ranges.items():
            ranges[partition] = (ranges.get(partition, (first, end))[0], end)
    if session.as_json:
        output.print_json({"stream": draft.stream, "count": count, "ranges": ranges})
    else:
        places = ", ".join(f"{draft.stream}/{number}/{first}" for number, (first, _) in ranges.items())
        print(f"published {count} messages" + (f" from {places} on" if places else ""))


def _value_of(text: str) -> bytes:
    return sys.stdin.buffer.read(_VALUE_BYTES_READ_MAX) if text == "-" else typed_bytes(text)


def _line_batches(source: BinaryIO) -> Iterator[list[bytes]]:
    """Lines without their ends, as many at a time as are there: a slow pipe is published line by line."""
    read = getattr(source, "read1", source.read)
    rest = b""
    while chunk := read(_LINES_BYTES):
        *lines, rest = (rest + chunk).split(b"\n")
        if len(rest) >= _VALUE_BYTES_READ_MAX:
            lines.append(rest)
            rest = b""
        if lines:
            yield lines
    if rest:
        yield [rest]
