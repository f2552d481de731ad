"""A real process is killed while it publishes, again and again: every receipt that it wrote down holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.kill_rounds import KillRounds
from tests.models.ledger import SOAK


@pytest.mark.slow
def test_twenty_kills_lose_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    watching = KillRounds(tmp_path, seed=1)
    for _ in range(20 * SOAK):
        watching.round()
    assert watching.summary.acknowledged > 100
    assert len(watching.summary.segments) > 1, "no segment was ever rolled: the rounds prove too little"
