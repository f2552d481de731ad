"""The plans of the simplest templates: one text for each of several labels, as most questions are.

Which hole goes to which label does not depend on what is in the holes, so such a plan is made once per template. The
planner itself tells whether a template is one: it is asked with a text in each hole that stands nowhere else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lamina.cel.ast import Node
from lamina.cel.plan import Group, Plan
from lamina.cel.planner import plan
from lamina.cel.template import Literal, filled

Shape = Mapping[str, int]
"""The number of the hole whose text each label must have."""


def shape_of(tree: Node, literals: Sequence[Literal]) -> Shape | None:
    """None if the plan is anything else, or depends on more than the texts' places."""
    if not literals or not all(isinstance(literal, str) for literal in literals):
        return None
    marks = [f"\ue000{number}" for number in range(len(literals))]
    groups = plan(filled(tree, marks)).groups
    if len(groups) != 1:
        return None
    labels = groups[0].labels
    if groups[0] != Group(labels=labels) or any(len(values) != 1 for values in labels.values()):
        return None
    places = {key: marks.index(value) for key, (value,) in labels.items() if value in marks}
    # Every label from a hole, and every hole in one: two holes for one label would be a contradiction only sometimes.
    return places if len(places) == len(labels) == len(literals) else None


def plan_of(shape: Shape, literals: Sequence[Literal]) -> Plan:
    return Plan((Group(labels={key: frozenset((str(literals[number]),)) for key, number in shape.items()}),))
