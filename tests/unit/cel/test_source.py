"""From a tree back to text: the official compiler makes the same tree of it."""

from __future__ import annotations

import pytest

from lamina.cel.official import check
from lamina.cel.source import to_text
from tests.models.cel_expressions import Expressions


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('labels["a"]=="x"&&(size>1||!has(labels.b))', 'labels["a"] == "x" && (size > 1 || !has(labels.b))'),
        ("(1 - (2 - 3)) - size == -5", "1 - (2 - 3) - size == -5"),
        ("-(5) == size - -5", "-(5) == size - -5"),
        (
            "(true ? false : true) ? true : (false ? true : false)",
            "(true ? false : true) ? true : false ? true : false",
        ),
        ("labels.`a-b` == 'it\\'s \"é\"\\n\\x01'", 'labels.`a-b` == "it\'s \\"é\\"\\n\\u0001"'),
        ('labels.filter(k, k == "a") == []', 'labels.filter(k, k == "a") == []'),
        ('["a"].map(x, x == "b", x + "c") == [] ', '["a"].map(x, x == "b", x + "c") == []'),
        ('labels.exists_one(k, labels[k] == "a")', 'labels.exists_one(k, labels[k] == "a")'),
        ('["x"].exists(topic, .topic == "t")', '["x"].exists(topic, .topic == "t")'),
        ('key == b"\\x00\\xffa\\""', 'key == b"\\x00\\xffa\\x22"'),
        ('{"a": 1}["a"] == [1, 2][0]', '{"a": 1}["a"] == [1, 2][0]'),
        ("uint(size) > 5u && 1e300 > 1.5", "uint(size) > 5u && 1e+300 > 1.5"),
        ("(size > 1) == (size < 3)", "(size > 1) == (size < 3)"),
        ("size in [1, 2] && !(size in [3])", "size in [1, 2] && !(size in [3])"),
    ],
)
def test_text(text: str, expected: str) -> None:
    node = check(text, has_strings=True)[0].node
    assert to_text(node) == expected
    assert check(expected, has_strings=True)[0].node == node


@pytest.mark.slow
def test_random_expressions_come_back_the_same() -> None:
    expressions = Expressions(42)
    for _ in range(300):
        text = to_text(check(expressions.text(), has_strings=True)[0].node)
        assert to_text(check(text, has_strings=True)[0].node) == text
