"""One way to run a command inside the test's process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from lamina.cli.app import app

Run = Callable[..., Result]
_ENVIRONMENT = {"LAMINA_DATA": None, "LAMINA_URL": None, "LAMINA_CONFIG": None}


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """`run("read", "--json")` on a store of this test; `stdin=` and `env=` as needed."""

    def invoke(*arguments: str, stdin: bytes | str = b"", env: dict[str, str | None] | None = None) -> Result:
        environment = _ENVIRONMENT | {"LAMINA_DATA": str(tmp_path / "store")} | (env or {})
        return CliRunner().invoke(app, arguments, input=stdin, env=environment, catch_exceptions=False)

    return invoke
