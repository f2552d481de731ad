"""From a tree to a plan, exactly: a message is in the plan if and only if the expression is true for it.

Two questions are asked of each part, when it is true and when it is false: an error is neither, so what holds for
one is not simply the opposite of the other. `a || b` gives groups side by side, `a && b` every pair of their groups.
"""

from __future__ import annotations

from collections.abc import Iterable

from lamina.cel.ast import AND, FALSE, TRUE, Call, Node, flat, negated
from lamina.cel.conditions import condition
from lamina.cel.plan import GROUPS_MAX, Group, Plan, add
from lamina.cel.residual import Leftover

_UNMERGED_MAX = 2 * GROUPS_MAX
"""Later groups may make earlier ones superfluous, but that is not waited for forever."""


def plan(node: Node) -> Plan:
    return Plan(tuple(_groups(node, True)))


def _groups(node: Node, wanted: bool) -> list[Group]:
    """The groups in which the node is true, or false."""
    found = _combined(node, wanted)
    return _left_over(node, wanted) if found is None else found


def _combined(node: Node, wanted: bool) -> list[Group] | None:
    """None if there would be more groups than any index should be asked."""
    if node in (TRUE, FALSE):
        return [Group()] if (node == TRUE) == wanted else []
    if isinstance(node, Call):
        match node.function:
            case "!_":
                return _groups(node.args[0], not wanted)
            case "_&&_" | "_||_":
                parts = flat(node.function, node)
                return _all(parts, wanted) if (node.function == AND) == wanted else _any(parts, wanted)
            case "_?_:_":
                return _branches(node, wanted)
    return condition(node, wanted)


def _any(parts: Iterable[Node], wanted: bool) -> list[Group] | None:
    return _together(group for part in parts for group in _groups(part, wanted))


def _all(parts: Iterable[Node], wanted: bool) -> list[Group]:
    """Every part; one that would make too many groups is evaluated instead, and the rest stays with the indexes."""
    each = sorted(((part, _groups(part, wanted)) for part in parts), key=lambda pair: len(pair[1]))
    found = each[0][1]
    for part, groups in each[1:]:
        met = _pairs(found, groups)
        if met is None:
            met = _pairs(found, _left_over(part, wanted))
            assert met is not None  # no more than there were before
        found = met
    return found


def _branches(node: Call, wanted: bool) -> list[Group] | None:
    test, then, otherwise = node.args
    yes = _pairs(_groups(test, True), _groups(then, wanted))
    no = _pairs(_groups(test, False), _groups(otherwise, wanted))
    return None if yes is None or no is None else _together([*yes, *no])


def _pairs(left: list[Group], right: list[Group]) -> list[Group] | None:
    met = (mine.meet(theirs) for mine in left for theirs in right)
    return _together(group for group in met if group is not None)


def _together(groups: Iterable[Group]) -> list[Group] | None:
    """The groups with those that can be made one, or None if there are too many."""
    found: list[Group] = []
    for group in groups:
        add(found, group)
        if len(found) > _UNMERGED_MAX:
            return None
    return found if len(found) <= GROUPS_MAX else None


def _left_over(node: Node, wanted: bool) -> list[Group]:
    return [Group(residual=(Leftover(node if wanted else negated(node)),))]
