"""Filters: a checked expression, ready to be planned, evaluated over columns, or asked about one message."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from lamina.cel import scalar
from lamina.cel.ast import Node
from lamina.cel.columns import Columns
from lamina.cel.complaints import warnings
from lamina.cel.kleene import Truth
from lamina.cel.lower import lower, slow_parts
from lamina.cel.plan import Plan
from lamina.cel.planner import plan
from lamina.cel.shapes import Shape, plan_of
from lamina.cel.template import Literal, filled

Mask = npt.NDArray[np.bool_]


class Filter:
    """A compiled filter. Immutable; any thread. What is not asked for is not worked out: many filters are only kept."""

    __slots__ = ("_ast", "_op", "_plan", "_shape", "_tree", "_warnings", "constants", "template", "text")

    def __init__(
        self, text: str, template: str, tree: Node, constants: tuple[Literal, ...], shape: Shape | None = None
    ) -> None:
        self.text = text
        self.template = template
        """The text with `$0`, `$1` … for those literals that were lifted out; filters may share it."""
        self.constants = constants
        """The literals of the template's holes."""
        self._tree: Node = tree
        self._shape = shape
        self._ast: Node | None = None
        self._plan: Plan | None = None
        self._op: Truth | None = None
        self._warnings: tuple[str, ...] | None = None

    @property
    def ast(self) -> Node:
        """The tree, as the official compiler checked it."""
        if self._ast is None:
            self._ast = filled(self._tree, self.constants)
        return self._ast

    @property
    def plan(self) -> Plan:
        """What indexes can answer of it, and what is left over: together exactly the filter."""
        if self._plan is None:
            self._plan = plan(self.ast) if self._shape is None else plan_of(self._shape, self.constants)
        return self._plan

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is allowed, and probably not meant."""
        if self._warnings is None:
            self._warnings = warnings(self.ast)
        return self._warnings

    def truth(self, columns: Columns) -> Mask:
        """The rows for which it is true."""
        return self._lowered().true(columns)

    def evaluate(self, columns: Columns) -> tuple[Mask, Mask]:
        """The rows for which it is true, and those for which it is an error; the others are false."""
        true, false = self._lowered().both(columns)
        return true, ~(true | false)

    def matches(self, variables: Mapping[str, object]) -> bool:
        """Whether it is true for one message; a variable that is missing is an error, and an error is no match."""
        return scalar.truth(self.ast, self.text if self.text.strip() else "true", variables) is True

    def explain(self) -> dict[str, object]:
        """The plan in plain values: groups with their conditions and residuals, and what runs message by message."""
        return {
            "filter": self.text,
            "template": self.template,
            "constants": list(self.constants),
            "groups": [group.describe() for group in self.plan.groups],
            "by_message": slow_parts(self._lowered()),
            "warnings": list(self.warnings),
        }

    def __repr__(self) -> str:
        return f"<Filter {self.text!r}>"

    def __reduce__(self) -> tuple[object, ...]:
        return Filter, (self.text, self.template, self._tree, self.constants, self._shape)

    def _lowered(self) -> Truth:
        if self._op is None:
            self._op = lower(self.ast)  # two threads may both do it, and get the same
        return self._op
