"""`lamina config check`: every setting, its value and where that comes from."""

from __future__ import annotations

from lamina.cli import output
from lamina.cli.session import Session
from lamina.settings import SettingRow, describe


def check(session: Session) -> None:
    """Check the settings file (--config) and the environment; print every setting and where it comes from."""
    rows = describe(session.settings())
    if session.as_json:
        output.print_json([_document(row) for row in rows])
    else:
        output.print_table(("setting", "value", "from"), ((row.name, str(row.value), row.source) for row in rows))


def _document(row: SettingRow) -> dict[str, object]:
    return {"name": row.name, "value": row.value, "source": row.source.kind, "where": row.source.where}
