"""The quick way to the plans of the simplest filters is the planner's own answer."""

from __future__ import annotations

import pytest

from lamina.cel import Group, Plan
from lamina.cel.ast import Node
from lamina.cel.compiler import Compiler
from lamina.cel.planner import plan

SHAPED = [
    ('labels["a"] == "x"', {"a": "x"}),
    ('labels.a == "x" && "y" == labels["b"]', {"a": "x", "b": "y"}),
    ('labels["a"] in ["x"] && labels["b"] == "x"', {"a": "x", "b": "x"}),
    ('(labels["a"] == "x" && labels["b"] == "y") && labels["c"] == ""', {"a": "x", "b": "y", "c": ""}),
]
OTHERS = [
    'labels["a"] == "x" && labels["a"] == "x"',
    'labels["a"] == "x" && labels["a"] == "y"',
    'labels["a"] == "x" || labels["b"] == "y"',
    'labels["a"] == "x" || labels["a"] == "x"',
    'labels["a"] in ["x", "y"]',
    'labels["a"] != "x"',
    '!(labels["a"] == "x")',
    'labels["a"] == "x" && topic == "t"',
    'labels["a"] == "x" && timestamp > 7',
    'labels["a"] == "x" && size > 7',
    'labels["a"] == "x" && "b" in labels',
    'labels["a"] == "x" && "x" == "x"',
    'labels["a"] == "x" && "x" == "y"',
    'labels["a"] == ("x" == "y" ? "p" : "q")',
    'labels[labels["a"]] == "x"',
]


def tree_of(text: str) -> Node:
    return Compiler().compile(text).ast


@pytest.mark.parametrize(("text", "labels"), SHAPED)
def test_a_simple_filter_has_a_shape_and_the_plan_of_the_planner(text: str, labels: dict[str, str]) -> None:
    compiled = Compiler().compile(text)
    assert compiled._shape is not None
    assert (
        compiled.plan == plan(tree_of(text)) == Plan((Group(labels={k: frozenset((v,)) for k, v in labels.items()}),))
    )


@pytest.mark.parametrize("text", OTHERS)
def test_any_other_filter_is_left_to_the_planner(text: str) -> None:
    compiled = Compiler().compile(text)
    assert compiled._shape is None
    assert compiled.plan == plan(tree_of(text))


def test_filters_of_one_template_have_plans_of_their_own() -> None:
    compiler = Compiler()
    first, second = (compiler.compile(f'labels["a"] == "{x}" && labels["b"] == "{y}"') for x, y in ("12", "34"))
    assert compiler.stats().hits == 1
    assert first.plan.groups[0].labels == {"a": frozenset("1"), "b": frozenset("2")}
    assert second.plan.groups[0].labels == {"a": frozenset("3"), "b": frozenset("4")}
