"""`lamina stream …` and `lamina topic list`."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Annotated

import msgspec
import typer

from lamina.cli import output
from lamina.cli.arguments import NONE, parse_bytes, parse_seconds
from lamina.cli.session import Session
from lamina.errors import Conflict, InvalidRequest
from lamina.store import PartitionInfo, StreamInfo

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The stream.")]
RetentionSeconds = Annotated[
    str | None,
    typer.Option("--retention-seconds", metavar="DURATION", help="Forget what is older: 3600, 7d; none keeps all."),
]
RetentionBytes = Annotated[
    str | None, typer.Option("--retention-bytes", metavar="SIZE", help="Keep so much: 500M, 10G; none keeps all.")
]
Durability = Annotated[
    str | None, typer.Option("--durability", help="local (synced to disk), flush (within 100 ms) or memory.")
]
Compaction = Annotated[str | None, typer.Option("--compaction", help="none, or latest: the newest of each key.")]
WindowSeconds = Annotated[
    str | None, typer.Option("--window-seconds", metavar="DURATION", help="The span of time for pruning.")
]


def create(
    session: Session,
    name: NameArgument,
    partitions: Annotated[int, typer.Option(help="How many logs; fixed for ever.")] = 1,
    durability: Durability = None,
    retention_seconds: RetentionSeconds = None,
    retention_bytes: RetentionBytes = None,
    compaction: Compaction = None,
    window_seconds: WindowSeconds = None,
    partition_by: Annotated[str, typer.Option(help="topic or key; fixed for ever.")] = "topic",
) -> None:
    """Create a stream. Succeeds if it exists and is the same."""
    policy = _changes(durability, retention_seconds, retention_bytes, compaction, window_seconds)
    with session.writing() as store:
        store.create_stream(name, partitions=partitions, partition_by=partition_by, **policy)  # type: ignore[arg-type]
        _print_changed(session, "created", store.stream(name))


def list_streams(session: Session) -> None:
    """All streams and how much they hold."""
    with session.reading() as store:
        infos = [store.stream(name) for name in store.streams()]
    if session.as_json:
        output.print_json(infos)
    elif infos:
        columns = ("stream", "partitions", "durability", "messages", "size")
        output.print_table(columns, (_row(info) for info in infos))
    else:
        output.hint("no streams; create one: lamina stream create NAME")


def describe(session: Session, name: NameArgument) -> None:
    """One stream: its policy and its partitions."""
    with session.reading() as store:
        info = store.stream(name)
    if session.as_json:
        output.print_json(info)
        return
    rows = [("messages", f"{info.messages:,}"), ("size", output.size_text(info.bytes))]
    rows += [(name, "-" if part is None else str(part)) for name, part in msgspec.structs.asdict(info.policy).items()]
    output.print_table((info.name, ""), rows)
    print()
    columns = ("partition", "earliest", "latest", "epoch", "messages", "size", "segments")
    output.print_table(columns, (_partition_row(partition) for partition in info.partitions))


def update(
    session: Session,
    name: NameArgument,
    durability: Durability = None,
    retention_seconds: RetentionSeconds = None,
    retention_bytes: RetentionBytes = None,
    compaction: Compaction = None,
    window_seconds: WindowSeconds = None,
) -> None:
    """Change the policy of a stream."""
    changes = _changes(durability, retention_seconds, retention_bytes, compaction, window_seconds)
    if not changes:
        raise InvalidRequest("nothing to change; name an option, e.g. --retention-seconds 7d")
    with session.writing() as store:
        store.update_stream(name, **changes)
        _print_changed(session, "updated", store.stream(name))


def delete(
    session: Session,
    name: NameArgument,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Delete a stream with all its messages."""
    if not yes and not sys.stdin.isatty():
        raise InvalidRequest("deleting a stream cannot be undone and nobody is there to ask; add --yes")
    with session.writing() as store:
        info = store.stream(name)
        question = f"Delete stream {name} with {info.messages:,} messages?"
        if not yes and not typer.confirm(question, err=True):
            raise Conflict(f"stream {name!r} was not deleted")
        store.delete_stream(name)
    if session.as_json:
        output.print_json({"deleted": name, "messages": info.messages})
    else:
        print(f"deleted stream {name} with {info.messages:,} messages")


def list_topics(
    session: Session,
    stream: Annotated[str, typer.Option("--stream", "-s", metavar="NAME", help="The stream.")] = "default",
    prefix: Annotated[str, typer.Option(help="Only topics that begin with this.")] = "",
) -> None:
    """The topics of a stream."""
    with session.reading() as store:
        topics = store.topics(stream, prefix)
    if session.as_json:
        output.print_json(topics)
    elif topics:
        _print_lines(topics)
    else:
        output.hint(f"no topics in stream {stream}; publish to one: lamina publish TOPIC VALUE --stream {stream}")


def _print_lines(texts: Iterable[str]) -> None:
    for text in texts:
        print(output.printable(text))


def _row(info: StreamInfo) -> tuple[object, ...]:
    return info.name, info.policy.partitions, info.policy.durability, info.messages, output.size_text(info.bytes)


def _partition_row(info: PartitionInfo) -> tuple[object, ...]:
    size = output.size_text(info.bytes)
    return info.partition, info.earliest, info.latest, info.epoch, info.messages, size, info.segments


def _print_changed(session: Session, verb: str, info: StreamInfo) -> None:
    if session.as_json:
        output.print_json(info)
    else:
        print(f"{verb} stream {info.name}")


def _changes(
    durability: str | None,
    retention_seconds: str | None,
    retention_bytes: str | None,
    compaction: str | None,
    window_seconds: str | None,
) -> dict[str, object]:
    """What was given, in the store's words."""
    changes: dict[str, object] = {}
    if durability is not None:
        changes["durability"] = durability
    if compaction is not None:
        changes["compaction"] = compaction
    if retention_seconds is not None:
        kept = None if retention_seconds == NONE else parse_seconds("--retention-seconds", retention_seconds)
        changes["retention_seconds"] = kept
    if retention_bytes is not None:
        changes["retention_bytes"] = (
            None if retention_bytes == NONE else parse_bytes("--retention-bytes", retention_bytes)
        )
    if window_seconds is not None:
        seconds = parse_seconds("--window-seconds", window_seconds)
        changes["window_seconds"] = int(seconds) if seconds == int(seconds) else seconds
    return changes
