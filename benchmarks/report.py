"""The table for people and the JSON for machines."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

from rich.console import Console
from rich.table import Table

from benchmarks.bars import Bar
from benchmarks.results import Limit, Result, Unit

_WIDTH_WITHOUT_TERMINAL = 170


@dataclass(frozen=True, slots=True)
class Measured:
    """What became of one bar; `error` says why it has no results, or not all."""

    bar: Bar
    results: Sequence[Result]
    error: str | None = None


def print_report(measured: Sequence[Measured], machine: Mapping[str, str], *, is_quick: bool) -> None:
    console = Console()
    if not console.is_terminal:
        console = Console(width=_WIDTH_WITHOUT_TERMINAL)
    console.print(" · ".join(f"{name} {value}" for name, value in machine.items()), highlight=False, soft_wrap=True)
    console.print(_table(measured, is_quick=is_quick))
    for one in measured:
        if one.error is not None:
            console.print(f"{one.bar.name} FAILED: {one.error}", style="bold red", markup=False, highlight=False)


def as_json(measured: Sequence[Measured], machine: Mapping[str, str], *, is_quick: bool) -> str:
    """Figures are in the unit beside them, times in seconds."""
    bars = [
        {"bar": one.bar.name, "title": one.bar.title, "error": one.error, "results": [*map(_fields, one.results)]}
        for one in measured
    ]
    return json.dumps({"machine": dict(machine), "quick": is_quick, "bars": bars}, indent=2, ensure_ascii=False) + "\n"


def missed(measured: Iterable[Measured]) -> list[str]:
    """Names of the results that miss a target, and of the bars that failed."""
    names = [result.name for one in measured for result in one.results if result.is_kept is False]
    return names + [one.bar.name for one in measured if one.error is not None]


def format_figure(figure: float, unit: Unit) -> str:
    if unit == "s":
        scale, name = (1e6, "µs") if figure < 1e-3 else (1e3, "ms") if figure < 1 else (1, "s")
        return f"{_three_digits(figure * scale)} {name}"
    scale, prefix = next(((s, p) for s, p in ((1e9, "G"), (1e6, "M"), (1e3, "k")) if figure >= s), (1.0, ""))
    number = _three_digits(figure / scale)
    return f"{number} {prefix}{unit}" if unit.startswith("B") else f"{number}{prefix} {unit}"


def _table(measured: Sequence[Measured], *, is_quick: bool) -> Table:
    title = "Quick run: it only shows that everything works; the figures are NOT meaningful" if is_quick else None
    table = Table(title=title, title_style="bold red", title_justify="left")
    table.add_column("bar", ratio=5)
    table.add_column("figure", justify="right", no_wrap=True)
    table.add_column("rival or limit, same run", ratio=4)
    table.add_column("ratio", justify="right", no_wrap=True)
    table.add_column("target", no_wrap=True)
    table.add_column("", no_wrap=True)
    for one in measured:
        table.add_section()
        table.add_row(f"[bold]{one.bar.letter}  {one.bar.title}[/bold]")
        for result in one.results:
            table.add_row(*_cells(result))
    return table


def _cells(result: Result) -> Iterable[str]:
    yield f"   {result.name}"
    yield format_figure(result.figure, result.unit)
    yield "" if result.rival is None else f"{format_figure(result.rival.figure, result.unit)}  {result.rival.name}"
    yield "" if result.ratio is None else f"{_three_digits(result.ratio)} ×"
    yield ", ".join(_targets(result))
    yield {True: "[green]ok[/green]", False: "[bold red]MISSED[/bold red]", None: ""}[result.is_kept]


def _targets(result: Result) -> Iterable[str]:
    if (limit := result.target) is not None:
        yield f"{limit.kind} {format_figure(limit.value, result.unit)}"
    if (limit := result.ratio_target) is not None:
        yield f"{limit.kind} {limit.value:g} ×"


def _fields(result: Result) -> dict[str, object]:
    def text(limit: Limit | None) -> str | None:
        return None if limit is None else f"{limit.kind} {limit.value:g}"

    return asdict(result) | {
        "target": text(result.target),
        "ratio_target": text(result.ratio_target),
        "ratio": result.ratio,
        "ok": result.is_kept,
    }


def _three_digits(number: float) -> str:
    if number >= 100:
        return f"{number:,.0f}"
    return f"{number:.1f}" if number >= 10 else f"{number:.2f}" if number >= 0.1 else f"{number:.2g}"
