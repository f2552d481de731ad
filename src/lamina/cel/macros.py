"""Macros over columns: over a constant list they are written out, over labels they run on all entries at once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from lamina.cel.ast import Call, Const, Fold, Ident, ListOf, Node, rebuilt, walk
from lamina.cel.coded import Coded, Mask
from lamina.cel.columns import Columns, TakenColumns
from lamina.cel.folds import Macro, bind, macro_of
from lamina.cel.kleene import Always, And, Both, Exactly, Truth, either
from lamina.cel.values import Unsupported

KEY, ITEM = "@key", "@item"
"""What the key and the value of the entry at hand are called; no text can name them."""
_WRITTEN_NODES_MAX = 2048

Lower = Callable[[Node], Truth]


def macro_truth(fold: Fold, lower: Lower) -> Truth:
    """`exists`, `all` and `exists_one`; Unsupported for the others, and for what they run over."""
    try:
        macro = macro_of(fold)
    except ValueError:
        raise Unsupported from None
    if macro.name not in ("exists", "all", "exists_one"):
        raise Unsupported
    if isinstance(macro.over, ListOf) and all(isinstance(item, Const) for item in macro.over.items):
        return _written_out(macro, macro.over, lower)
    if macro.over == Ident("labels"):
        return OverLabels(macro.name, lower(_of_entry(macro)))
    raise Unsupported


def _written_out(macro: Macro, over: ListOf, lower: Lower) -> Truth:
    body = macro.args[0]
    if sum(1 for _ in walk(body)) * len(over.items) > _WRITTEN_NODES_MAX:
        raise Unsupported
    parts = [lower(bind(body, macro.variable, item)) for item in over.items]
    if macro.name == "exists_one":
        return Exactly(parts)
    if not parts:
        return Always(macro.name == "all")
    return And(parts) if macro.name == "all" else either(parts)


def _of_entry(macro: Macro) -> Node:
    """The body with the macro's variable, and the label it names, as those of one entry."""
    variable = macro.variable
    if variable == "labels":
        raise Unsupported

    def change(part: Node) -> Node | None:
        if isinstance(part, Call) and part.function == "_[_]" and part.args == (Ident("labels"), Ident(variable)):
            return Ident(ITEM)
        return None

    if any(isinstance(part, Fold) for part in walk(macro.args[0])):
        raise Unsupported
    return bind(rebuilt(macro.args[0], change), variable, Ident(KEY))


class OverLabels(Truth):
    """A macro over the labels of each message."""

    def __init__(self, name: str, body: Truth) -> None:
        self.name = name
        self.body = body
        self.parts = (body,)
        self.is_slow = body.is_slow

    def true(self, columns: Columns) -> Mask:
        return self.both(columns)[0]

    def false(self, columns: Columns) -> Mask:
        return self.both(columns)[1]

    def both(self, columns: Columns) -> Both:
        offsets = columns.labels.offsets
        entry_true, entry_false = self.body.both(EntryColumns(columns))
        true, false, count = _per_row(entry_true, offsets), _per_row(entry_false, offsets), np.diff(offsets)
        match self.name:
            case "exists":
                return true > 0, false == count
            case "all":
                return true == count, false > 0
        known = true + false == count
        return known & (true == 1), known & (true != 1)


class EntryColumns(TakenColumns):
    """Every label of every row as a row of its own, with the message's columns beside it."""

    def __init__(self, source: Columns) -> None:
        super().__init__(source, source.labels.row_of_entry())

    def texts(self, name: str) -> Coded:
        if name == KEY:
            return self._source.labels.keys
        if name == ITEM:
            return self._source.labels.items
        return super().texts(name)


def is_of_entry(node: Node) -> bool:
    """Whether a part can be understood only within a macro over labels."""
    return any(part in (Ident(KEY), Ident(ITEM)) for part in walk(node))


def _per_row(mask: Mask, offsets: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
    total = np.zeros(len(mask) + 1, np.int64)
    np.cumsum(mask, out=total[1:])
    return total[offsets[1:]] - total[offsets[:-1]]
