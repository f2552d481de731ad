"""`lamina query`, `lamina segment explain` and `lamina index …`: questions about labels, and what answers them."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, TypedDict

import msgspec
import typer

from lamina.cli import output
from lamina.cli.arguments import parse_labels, parse_time
from lamina.cli.messages import StreamOption, print_message
from lamina.cli.session import Session
from lamina.clock import SystemClock

_POLL_SECONDS = 0.05
WhereArgument = Annotated[
    str | None,
    typer.Argument(metavar="CEL", help='The filter, e.g. \'labels["app"] == "dm"\'; everything if absent.'),
]
TopicOption = Annotated[str | None, typer.Option("--topic", "-t", help="Only this topic.")]
LabelOption = Annotated[
    list[str] | None, typer.Option("--label", "-l", metavar="KEY=VALUE", help="Only with this label; many times.")
]
SinceOption = Annotated[
    str | None, typer.Option(metavar="TIME", help="Not before this time: ISO-8601 or microseconds.")
]
UntilOption = Annotated[str | None, typer.Option(metavar="TIME", help="Before this time.")]
DescendingOption = Annotated[bool, typer.Option("--descending", help="Newest first.")]
LimitOption = Annotated[int, typer.Option("--limit", "-n", min=1, help="At most so many messages.")]


class Selection(TypedDict):
    """What a query selects by, beside its filter."""

    stream: str
    topic: str | None
    labels: dict[str, str]
    start: int | datetime | None
    end: int | datetime | None


def _selection(
    stream: str, topic: str | None, label: list[str] | None, since: str | None, until: str | None
) -> Selection:
    return Selection(
        stream=stream,
        topic=topic,
        labels=parse_labels(label or ()),
        start=parse_time("--since", since),
        end=parse_time("--until", until),
    )


def query(
    session: Session,
    where: WhereArgument = None,
    stream: StreamOption = "default",
    topic: TopicOption = None,
    label: LabelOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    limit: LimitOption = 100,
    cursor: Annotated[str | None, typer.Option(help="Go on behind the page that ended with this cursor.")] = None,
    descending: DescendingOption = False,
    include_expired: Annotated[bool, typer.Option("--include-expired", help="Show expired messages too.")] = False,
    count: Annotated[bool, typer.Option("--count", help="Only how many match, without any limit.")] = False,
) -> None:
    """Find messages by labels, topic and time, in the order of time.

    With --json the last line holds the page's cursor and whether there are more.
    """
    selection = _selection(stream, topic, label, since, until)
    with session.reading() as store:
        if count:
            found = store.count(where, **selection, include_expired=include_expired)
            if session.as_json:
                output.print_json({"count": found})
            else:
                print(found)
            return
        page = store.query(
            where,
            **selection,
            limit=limit,
            cursor=cursor,
            descending=descending,
            include_expired=include_expired,
        )
        for message in page:
            print_message(session, message)
    for warning in page.warnings:
        output.hint(f"warning: {warning}")
    if session.as_json:
        output.print_json({"cursor": page.cursor, "has_more": page.has_more})
    elif page.has_more:
        output.hint(f"there are more: add --cursor {page.cursor}")
    elif not len(page):
        output.hint(f"no message of stream {stream} matches; see what was looked at: lamina segment explain CEL")


def explain(
    session: Session,
    where: WhereArgument = None,
    stream: StreamOption = "default",
    topic: TopicOption = None,
    label: LabelOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    limit: LimitOption = 100,
    descending: DescendingOption = False,
) -> None:
    """Run a query and show how it was answered: what was pruned, which postings were used, what was looked at."""
    selection = _selection(stream, topic, label, since, until)
    with session.reading() as store:
        page = store.query(where, **selection, limit=limit, descending=descending)
    if session.as_json:
        output.print_json(page.explain())
    else:
        output.print_table(("what", "how"), _explained(page.explain()))


def add_composite(
    session: Session,
    name: Annotated[str, typer.Argument(metavar="NAME", help="A name of your choice.")],
    keys: Annotated[list[str], typer.Argument(metavar="KEY...", help="Label keys.")],
    stream: StreamOption = "default",
    wait: Annotated[bool, typer.Option(help="Wait until all messages are in it.")] = True,
) -> None:
    """Index the combined values of several labels; built while a process has the store open."""
    clock, pause = SystemClock(), threading.Event()
    with session.writing() as store, output.progress("building", None):
        created = store.create_composite(name, keys, stream)
        while wait and created.state != "ready":
            clock.wait(pause, _POLL_SECONDS)
            created = next(one for one in store.composites(stream) if one.uid == created.uid)
    if session.as_json:
        output.print_json(created)
    else:
        print(f"{created.name}: {created.state}")


def drop_composite(
    session: Session,
    name: Annotated[str, typer.Argument(metavar="NAME")],
    stream: StreamOption = "default",
) -> None:
    """Remove a composite index; messages are not touched."""
    with session.writing() as store:
        store.drop_composite(name, stream)


def list_composites(session: Session, stream: StreamOption = "default") -> None:
    """The composite indexes of a stream. Single labels, topics and priorities are always indexed."""
    with session.reading() as store:
        found = store.composites(stream)
    if session.as_json:
        output.print_json([msgspec.structs.asdict(one) for one in found])
    elif found:
        output.print_table(("name", "keys", "state"), [(one.name, ", ".join(one.keys), one.state) for one in found])
    else:
        output.hint("no composites; single labels, topics and priorities are always indexed")


def _explained(report: Mapping[str, object]) -> list[tuple[str, str]]:
    rows = []
    for name, value in report.items():
        if isinstance(value, Mapping):
            rows.append((name, _pairs(value)))
        elif isinstance(value, Sequence) and not isinstance(value, str):
            rows += [(name, _pairs(one) if isinstance(one, Mapping) else str(one)) for one in value] or [(name, "-")]
        else:
            rows.append((name, str(value)))
    return rows


def _pairs(values: Mapping[str, object]) -> str:
    return ", ".join(f"{key} {_shown(value)}" for key, value in values.items()) or "everything"


def _shown(value: object) -> str:
    if isinstance(value, Mapping):
        return "; ".join(f"{key} = {_shown(one)}" for key, one in value.items()) or "none"
    if isinstance(value, list):
        return " or ".join(map(str, value))
    return str(value)
