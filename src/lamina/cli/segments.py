"""`lamina segment …`: the files that hold the messages."""

from __future__ import annotations

from typing import Annotated

import typer

from lamina.cli import output
from lamina.cli.session import Session
from lamina.errors import Corrupt
from lamina.store import SegmentInfo, VerifyReport


def list_segments(
    session: Session,
    stream: Annotated[
        str | None, typer.Option("--stream", "-s", metavar="NAME", help="Only this stream; all if absent.")
    ] = None,
) -> None:
    """The segments, oldest first."""
    with session.reading() as store:
        names = store.streams() if stream is None else [stream]
        infos = [info for name in names for info in store.segments(name)]
    if session.as_json:
        output.print_json(infos)
    elif infos:
        columns = ("stream", "partition", "base", "end", "messages", "size", "state", "tier", "from", "to", "damage")
        output.print_table(columns, (_row(info) for info in infos))
    else:
        output.hint("no segments yet; publish a message: lamina publish TOPIC VALUE")


def verify(session: Session) -> None:
    """Check every byte of every segment against its checksums. Changes nothing."""
    with session.reading() as store, output.progress("verifying", 0) as bar:
        report = store.verify(lambda done, total: bar.update(bar.task_ids[0], completed=done, total=total))
    if session.as_json:
        output.print_json(_document(report))
    else:
        _print_report(report)
    if not report.ok:
        damaged = sum(not check.ok for check in report.checks)
        raise Corrupt(
            f"{damaged} of {len(report.checks)} segments have problems; keep the files and restore them from a copy"
        )


def _print_report(report: VerifyReport) -> None:
    size = output.size_text(sum(check.bytes for check in report.checks))
    if report.ok:
        print(f"ok: {len(report.checks)} segments with {size} are as they were written")
    else:
        rows = [
            (check.stream, check.partition, check.base, check.state, problem)
            for check in report.checks
            for problem in check.problems
        ]
        output.print_table(("stream", "partition", "base", "state", "problem"), rows)
    for name in report.foreign:
        output.hint(f"not a file of the store: {output.printable(name)}")


def _document(report: VerifyReport) -> dict[str, object]:
    return {
        "ok": report.ok,
        "segments": len(report.checks),
        "bytes": sum(check.bytes for check in report.checks),
        "problems": report.problems,
        "checks": report.checks,
        "foreign": report.foreign,
        "dropped_bytes": report.dropped_bytes,
        "rebuilt": report.rebuilt,
    }


def _row(info: SegmentInfo) -> tuple[object, ...]:
    return (
        info.stream,
        info.partition,
        info.base,
        info.end,
        info.messages,
        output.size_text(info.bytes),
        info.state,
        info.tier,
        output.time_text(info.timestamp_min),
        output.time_text(info.timestamp_max),
        info.damage,
    )
