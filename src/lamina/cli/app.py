"""The whole command line: which nouns and verbs there are."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from lamina import __version__
from lamina.cli import config, demo, failures, messages, queries, segments, streams
from lamina.cli.session import JsonOption, command, group, note_choices

app = typer.Typer(
    name="lamina",
    no_args_is_help=True,
    pretty_exceptions_enable=False,  # a traceback would show the values of variables: messages
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        code = app(args=given, prog_name="lamina", standalone_mode=False)
    except typer.TyperException as error:
        # Typer's own complaints: unknown options, missing arguments. An empty one has shown the help instead.
        if message := error.format_message():
            failures.report("InvalidRequest", message, as_json=_wants_json(given))
        code = error.exit_code
    except typer.Abort:
        failures.report("Closed", "interrupted", as_json=_wants_json(given))
        code = failures.ExitCode.FAILED
    sys.exit(code)


def print_version(wanted: bool) -> None:
    if wanted:
        print(__version__)
        raise typer.Exit


@app.callback()
def globals_first(
    context: typer.Context,
    data: Annotated[
        Path | None,
        typer.Option(metavar="DIR", envvar="LAMINA_DATA", help="The store's directory; ./lamina-data if not given."),
    ] = None,
    url: Annotated[
        str | None, typer.Option(metavar="URL", envvar="LAMINA_URL", help="A server instead of a directory.")
    ] = None,
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", envvar="LAMINA_CONFIG", help="Settings in TOML.")
    ] = None,
    as_json: JsonOption = False,
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version.", callback=print_version, is_eager=True),
    ] = False,
) -> None:
    """A message store: publish, read and look after streams of messages.

    The options below may also stand after a command: lamina read --data ./shop --json
    """
    note_choices(context, data=data, url=url, config=config, as_json=as_json)


command(app, "demo", demo.demo)
command(app, "publish", messages.publish)
command(app, "read", messages.read)
command(app, "query", queries.query)

_stream = group(app, "stream", "Create, look at and change streams.")
command(_stream, "create", streams.create)
command(_stream, "list", streams.list_streams)
command(_stream, "describe", streams.describe)
command(_stream, "update", streams.update)
command(_stream, "delete", streams.delete)

command(group(app, "topic", "The topics inside a stream."), "list", streams.list_topics)

_segment = group(app, "segment", "The files that hold the messages.")
command(_segment, "list", segments.list_segments)
command(_segment, "verify", segments.verify)
command(_segment, "explain", queries.explain)

_index = group(app, "index", "Indexes over several labels.")
command(_index, "add", queries.add_composite)
command(_index, "drop", queries.drop_composite)
command(_index, "list", queries.list_composites)

command(group(app, "config", "The settings."), "check", config.check)


def _wants_json(arguments: list[str]) -> bool:
    """Asked of the bare arguments, since those could not be understood."""
    options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return "--json" in options
