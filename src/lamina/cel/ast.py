"""The tree of an expression, as the official compiler left it after expanding macros and checking types."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

Kind = Literal["null", "bool", "int", "uint", "double", "string", "bytes"]
Value = None | bool | int | float | str | bytes


@dataclass(frozen=True, slots=True)
class Const:
    """A literal. The kind tells 1 from 1u, 1.0 and true, which Python takes for equal."""

    kind: Kind
    value: Value


@dataclass(frozen=True, slots=True)
class Hole:
    """A place for a literal in the tree of a template."""

    number: int


@dataclass(frozen=True, slots=True)
class Ident:
    """A variable of the message, or of the macro around it."""

    name: str


@dataclass(frozen=True, slots=True)
class Select:
    """`operand.field`; with `is_test` it is `has(operand.field)`."""

    operand: Node
    field: str
    is_test: bool = False


@dataclass(frozen=True, slots=True)
class Call:
    """An operator, a function or, with a target, a method; operators are named as in `_&&_`."""

    function: str
    target: Node | None
    args: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class ListOf:
    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class MapOf:
    """`{key: value}`; with a type name it makes a message."""

    type_name: str
    entries: tuple[tuple[Node | str, Node], ...]


@dataclass(frozen=True, slots=True)
class Fold:
    """What a macro such as `exists` stands for: `step` runs for each item while `condition` is not false."""

    variable: str
    over: Node
    accumulator: str
    start: Node
    condition: Node
    step: Node
    result: Node


Node = Const | Hole | Ident | Select | Call | ListOf | MapOf | Fold

TRUE = Const("bool", True)
FALSE = Const("bool", False)
AND, OR, NOT, IF = "_&&_", "_||_", "!_", "_?_:_"
EQ, NE, LT, LE, GT, GE, IN, INDEX = "_==_", "_!=_", "_<_", "_<=_", "_>_", "_>=_", "@in", "_[_]"

FLIPPED = {EQ: EQ, NE: NE, LT: GT, LE: GE, GT: LT, GE: LE}
"""The sign that means the same with the sides exchanged."""
INVERSE = {EQ: NE, NE: EQ, LT: GE, GE: LT, GT: LE, LE: GT}
"""The sign that is true where the other is false; where sides have no order, as with NaN, it is not."""


def call(function: str, *args: Node) -> Call:
    return Call(function, None, args)


def negated(node: Node) -> Node:
    """`!node`; two negations are none, since the negation of an error is an error."""
    if isinstance(node, Call) and node.function == NOT:
        return node.args[0]
    return call(NOT, node)


def joined(function: str, nodes: list[Node]) -> Node:
    """A balanced tree of && or ||: the official runtime takes no more than some 50 levels."""
    if len(nodes) == 1:
        return nodes[0]
    middle = len(nodes) // 2
    return call(function, joined(function, nodes[:middle]), joined(function, nodes[middle:]))


def flat(function: str, node: Node) -> list[Node]:
    """The operands of a tree of one operator, from left to right."""
    if isinstance(node, Call) and node.function == function:
        return [leaf for arg in node.args for leaf in flat(function, arg)]
    return [node]


def children(node: Node) -> Iterator[Node]:
    match node:
        case Select(operand):
            yield operand
        case Call(_, target, args):
            if target is not None:
                yield target
            yield from args
        case ListOf(items):
            yield from items
        case MapOf(_, entries):
            for key, value in entries:
                if not isinstance(key, str):
                    yield key
                yield value
        case Fold():
            yield from (node.over, node.start, node.condition, node.step, node.result)
        case _:
            return


def walk(node: Node) -> Iterator[Node]:
    """The node and all below it, parents first."""
    yield node
    for child in children(node):
        yield from walk(child)


def rebuilt(node: Node, change: Callable[[Node], Node | None]) -> Node:
    """The tree with every node that `change` answers replaced by its answer; what did not change is shared."""
    changed = change(node)
    if changed is not None:
        return changed
    if isinstance(node, Call):
        target = None if node.target is None else rebuilt(node.target, change)
        args = _rebuilt_all(node.args, change)
        return node if target is node.target and args is node.args else Call(node.function, target, args)
    if isinstance(node, Select):
        operand = rebuilt(node.operand, change)
        return node if operand is node.operand else Select(operand, node.field, node.is_test)
    if isinstance(node, ListOf):
        items = _rebuilt_all(node.items, change)
        return node if items is node.items else ListOf(items)
    if isinstance(node, MapOf):
        keys = [key if isinstance(key, str) else rebuilt(key, change) for key, _ in node.entries]
        values = [rebuilt(value, change) for _, value in node.entries]
        return MapOf(node.type_name, tuple(zip(keys, values, strict=True)))
    if isinstance(node, Fold):
        over, start, condition, step, result = (rebuilt(child, change) for child in children(node))
        return Fold(node.variable, over, node.accumulator, start, condition, step, result)
    return node


def _rebuilt_all(nodes: tuple[Node, ...], change: Callable[[Node], Node | None]) -> tuple[Node, ...]:
    new = [rebuilt(node, change) for node in nodes]
    for old, made in zip(nodes, new, strict=True):
        if old is not made:
            return tuple(new)
    return nodes
