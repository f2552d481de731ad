"""What every command shares: the global options, the store they name, and the way a command ends.

A command is a function that takes a Session first and its own options after it; `command` adds the global options, so
that they may stand before or after the command's name.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from lamina.cli import failures
from lamina.errors import Conflict, FilterError, InvalidRequest, LaminaError, NotFound, Unavailable
from lamina.settings import Settings, load
from lamina.store import Store, open_store

DEFAULT_DATA = Path("lamina-data")
_PANEL = "Global options (before or after the command)"
_CHOICES = "lamina.cli.choices"

DataOption = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="The store's directory; ./lamina-data if not given.", rich_help_panel=_PANEL),
]
UrlOption = Annotated[
    str | None, typer.Option(metavar="URL", help="A server instead of a directory.", rich_help_panel=_PANEL)
]
ConfigOption = Annotated[Path | None, typer.Option(metavar="FILE", help="Settings in TOML.", rich_help_panel=_PANEL)]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, for machines.", rich_help_panel=_PANEL)]

_GLOBALS = {
    "data": (DataOption, None),
    "url": (UrlOption, None),
    "config": (ConfigOption, None),
    "as_json": (JsonOption, False),
}


@dataclass(frozen=True, slots=True)
class Choices:
    """The global options so far. A place and a URL that were typed go before those of the environment."""

    data: Path | None = None
    url: str | None = None
    config: Path | None = None
    as_json: bool = False
    data_typed: bool = False
    url_typed: bool = False

    @property
    def server(self) -> str | None:
        """The server to talk to, unless a directory was named more explicitly."""
        return None if self.data_typed and not self.url_typed else self.url


@dataclass(frozen=True, slots=True)
class Session:
    """One run of a command."""

    choices: Choices

    @property
    def as_json(self) -> bool:
        return self.choices.as_json

    @property
    def data(self) -> Path:
        return self.choices.data or DEFAULT_DATA

    def settings(self) -> Settings:
        """A settings file that is missing is a mistake in the call, like one with a wrong setting in it."""
        try:
            return load(self.choices.config)
        except NotFound as error:
            raise InvalidRequest(str(error)) from error

    def reading(self) -> Store:
        """The store, beside whoever owns it."""
        return self._open(read_only=True)

    def writing(self) -> Store:
        """The store as its only owner."""
        try:
            return self._open(read_only=False)
        except Conflict as error:
            reason = error.__cause__ or error
            raise Conflict(f"only one process can write to a store, and another one does: {reason}") from error

    def _open(self, *, read_only: bool) -> Store:
        if self.choices.data_typed and self.choices.url_typed:
            raise InvalidRequest("--data and --url name two stores; give one of them")
        if self.choices.server is not None:
            raise no_server()
        return open_store(self.data, read_only=read_only, settings=self.settings())


def no_server() -> Unavailable:
    return Unavailable("this version has no server yet; use --data")


def command(app: typer.Typer, name: str, function: Callable[..., None]) -> None:
    """Add `function(session, options…)` to the app as `name`, with the global options."""
    own = list(inspect.signature(function, eval_str=True).parameters.values())[1:]

    def run(context: typer.Context, **given: object) -> None:
        choices = note_choices(context, **{name: given.pop(name) for name in _GLOBALS})
        _run(function, Session(choices), given)

    _present(run, own, function.__doc__)
    app.command(name)(run)


def group(app: typer.Typer, name: str, summary: str) -> typer.Typer:
    """A noun whose verbs are commands; the global options may stand after it too."""
    made = typer.Typer(name=name, help=summary, no_args_is_help=True)

    def note(context: typer.Context, **given: object) -> None:
        note_choices(context, **given)

    _present(note, [], None)
    made.callback()(note)
    app.add_typer(made)
    return made


def note_choices(context: typer.Context, **given: object) -> Choices:
    """Lay the options given here over those given before the command."""
    known: Choices = context.meta.get(_CHOICES, Choices())
    typed = {name for name in given if _is_typed(context, name)}
    changes = {name: value for name, value in given.items() if value}
    changes |= {f"{name}_typed": True for name in ("data", "url") if name in typed}
    made: Choices = replace(known, **changes)  # type: ignore[arg-type]
    context.meta[_CHOICES] = made
    return made


def _is_typed(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _present(run: Callable[..., None], own: list[inspect.Parameter], doc: str | None) -> None:
    """Give `run` the signature that the command line shows: its own options, then the global ones."""
    keyword = inspect.Parameter.KEYWORD_ONLY
    context = inspect.Parameter("context", keyword, annotation=typer.Context)
    options = [parameter.replace(kind=keyword) for parameter in own]
    shared = [inspect.Parameter(n, keyword, annotation=kind, default=value) for n, (kind, value) in _GLOBALS.items()]
    parameters = [context, *options, *shared]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    run.__doc__ = doc


def _run(function: Callable[..., None], session: Session, given: dict[str, object]) -> None:
    try:
        function(session, **given)
        sys.stdout.flush()
    except LaminaError as error:
        kind, is_pointed = failures.kind_of(error).__name__, isinstance(error, FilterError)
        failures.report(kind, str(error), as_json=session.as_json, in_lines=is_pointed)
        raise typer.Exit(failures.exit_code(error)) from error
    except BrokenPipeError:
        # `lamina read | head -1`: the reader has all it wants. Nothing more can be written, so nothing is flushed.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(failures.ExitCode.OK) from None
