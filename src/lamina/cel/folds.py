"""Macros: which one a fold was written as, and putting values in the place of variables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from lamina.cel.ast import OR, Call, Fold, Ident, ListOf, Node, rebuilt

MacroName = Literal["exists", "all", "exists_one", "map", "filter"]


@dataclass(frozen=True, slots=True)
class Macro:
    """`over.name(variable, *args)`."""

    name: MacroName
    over: Node
    variable: str
    args: tuple[Node, ...]


def macro_of(fold: Fold) -> Macro:
    """The macro that the official compiler expanded to this fold; ValueError for a fold that none makes."""
    step = fold.step
    if isinstance(step, Call):
        match step.function:
            case "_||_" | "_&&_":
                name: MacroName = "exists" if step.function == OR else "all"
                return Macro(name, fold.over, fold.variable, (step.args[1],))
            case "_+_":
                return Macro("map", fold.over, fold.variable, _element(step))
            case "_?_:_" if isinstance(fold.start, ListOf):
                kept, (element,) = step.args[0], _element(step.args[1])
                if element == Ident(fold.variable):
                    return Macro("filter", fold.over, fold.variable, (kept,))
                return Macro("map", fold.over, fold.variable, (kept, element))
            case "_?_:_":
                return Macro("exists_one", fold.over, fold.variable, (step.args[0],))
    raise ValueError(f"no macro makes {fold}")


def bind(body: Node, variable: str, value: Node) -> Node:
    """The body with a value in the place of a variable, except where an inner macro has one of that name."""

    def change(part: Node) -> Node | None:
        if part == Ident(variable):
            return value
        if isinstance(part, Fold) and part.variable == variable:
            over = rebuilt(part.over, change)
            return Fold(variable, over, part.accumulator, part.start, part.condition, part.step, part.result)
        return None

    return rebuilt(body, change)


def replaced(node: Node, variable: str, value: Node) -> Node:
    """The node with a value in the place of a message's variable; `.name` is that even where a macro hides it."""
    return bind(rebuilt(node, lambda part: value if part == Ident(f".{variable}") else None), variable, value)


def _element(node: Node) -> tuple[Node, ...]:
    """The `x` of `result + [x]`."""
    if isinstance(node, Call) and node.function == "_+_" and isinstance(node.args[1], ListOf):
        return node.args[1].items
    raise ValueError(f"no macro makes {node}")
