"""What indexes leave over: an expression that is evaluated row by row or as a whole column."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from lamina.cel import scalar
from lamina.cel.ast import Node
from lamina.cel.columns import Columns
from lamina.cel.kleene import Truth
from lamina.cel.lower import lower
from lamina.cel.source import to_text


class Leftover:
    """True for the rows for which its expression is true. Equal if the expressions are. Immutable; any thread."""

    __slots__ = ("_op", "_text", "node")

    def __init__(self, node: Node) -> None:
        self.node = node
        self._op: Truth | None = None
        self._text = ""

    def truth(self, columns: Columns) -> npt.NDArray[np.bool_]:
        return self._lowered().true(columns)

    def matches(self, variables: Mapping[str, object]) -> bool:
        return scalar.truth(self.node, str(self), variables) is True

    def __str__(self) -> str:
        if not self._text:
            self._text = to_text(self.node)
        return self._text

    def __repr__(self) -> str:
        return f"<{self}>"

    def __eq__(self, other: object) -> bool:
        return self.node == other.node if isinstance(other, Leftover) else NotImplemented

    def __reduce__(self) -> tuple[object, ...]:
        return Leftover, (self.node,)

    def __hash__(self) -> int:
        return hash(self.node)

    def _lowered(self) -> Truth:
        if self._op is None:
            self._op = lower(self.node)  # two threads may both do it, and get the same
        return self._op
