"""Random expressions over random messages: we say what the official runtime says, errors included."""

from __future__ import annotations

import pytest

from tests.models.cel_expressions import Expressions
from tests.models.cel_oracle import Judge
from tests.models.cel_rows import samples

EXPRESSIONS = 500


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_every_answer_is_the_official_one(seed: int) -> None:
    judge, expressions = Judge(samples(seed)), Expressions(seed)
    for _ in range(EXPRESSIONS):
        text = expressions.text()
        assert list(judge.differences(text)) == [], text
    assert judge.judged > 0.95 * EXPRESSIONS
