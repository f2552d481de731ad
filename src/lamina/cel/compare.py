"""Comparisons of columns, and membership in lists: the leaves of a filter."""

from __future__ import annotations

import operator
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lamina.cel.ast import EQ, FLIPPED, GE, GT, INVERSE, LE, LT, NE
from lamina.cel.coded import Coded, Mask
from lamina.cel.columns import Columns
from lamina.cel.kleene import Both, Truth
from lamina.cel.values import BytesOp, NumberOp, TextOp, Unsupported, bad_of, spread, without

COMPARE: dict[str, Callable[[Any, Any], Mask]] = {
    EQ: operator.eq,
    NE: operator.ne,
    LT: operator.lt,
    LE: operator.le,
    GT: operator.gt,
    GE: operator.ge,
}
_ARROW = {EQ: pc.equal, NE: pc.not_equal, LT: pc.less, LE: pc.less_equal, GT: pc.greater, GE: pc.greater_equal}
_FEW = 8

Value = NumberOp | TextOp | BytesOp


def comparison(sign: str, left: Value, right: Value) -> Truth:
    """`left sign right`; Unsupported if the two are not of one vectorised kind."""
    if isinstance(left, NumberOp) and isinstance(right, NumberOp) and left.kind == right.kind:
        return NumberComparison(sign, left, right)
    if isinstance(left, TextOp) and isinstance(right, TextOp):
        if right.constant is not None:
            return TextComparison(sign, left, right.constant)
        if left.constant is not None:
            return TextComparison(FLIPPED[sign], right, left.constant)
        return TextPair(sign, left, right)
    if isinstance(left, BytesOp) and isinstance(right, BytesOp):
        if left.constant is not None and right.constant is None:
            return BytesComparison(FLIPPED[sign], right, left)
        return BytesComparison(sign, left, right)
    raise Unsupported


class Leaf(Truth):
    """True and false from one mask and the rows that are errors."""

    @abstractmethod
    def answers(self, columns: Columns) -> tuple[Mask, Mask | bool | None]:
        """Where it would be true, and the rows that are errors; both are not changed by anyone."""

    def true(self, columns: Columns) -> Mask:
        mask, bad = self.answers(columns)
        return without(mask, bad)

    def false(self, columns: Columns) -> Mask:
        mask, bad = self.answers(columns)
        return without(~mask, bad)

    def both(self, columns: Columns) -> Both:
        mask, bad = self.answers(columns)
        return without(mask, bad), without(~mask, bad)


class NumberComparison(Leaf):
    def __init__(self, sign: str, left: NumberOp, right: NumberOp) -> None:
        self.compare = COMPARE[sign]
        self.left, self.right = left, right

    def answers(self, columns: Columns) -> tuple[Mask, Mask | bool | None]:
        a, b = self.left.run(columns), self.right.run(columns)
        return spread(self.compare(a.values, b.values), len(columns)), bad_of(a.bad, b.bad)


class NumberAmong(Leaf):
    """A number in a constant list."""

    def __init__(self, item: NumberOp, numbers: Sequence[int]) -> None:
        self.item = item
        self.numbers = np.array(sorted(set(numbers)), np.int64)

    def answers(self, columns: Columns) -> tuple[Mask, Mask | bool | None]:
        found = self.item.run(columns)
        values = np.broadcast_to(np.asarray(found.values), len(columns))
        if len(self.numbers) > _FEW:
            return np.isin(values, self.numbers), found.bad
        mask = np.zeros(len(columns), np.bool_)
        for number in self.numbers:
            mask |= values == number
        return mask, found.bad


class TextComparison(Truth):
    """A text column beside a constant: equality compares codes, order compares each distinct text once."""

    def __init__(self, sign: str, item: TextOp, constant: str) -> None:
        self.sign, self.item, self.constant = sign, item, constant

    def true(self, columns: Columns) -> Mask:
        return self._where(self.sign, self.item.run(columns))

    def false(self, columns: Columns) -> Mask:
        return self._where(INVERSE[self.sign], self.item.run(columns))

    def both(self, columns: Columns) -> Both:
        coded = self.item.run(columns)
        return self._where(self.sign, coded), self._where(INVERSE[self.sign], coded)

    def _where(self, sign: str, coded: Coded) -> Mask:
        if sign == EQ:
            return coded.equal(self.constant)
        if sign == NE:
            return ~(coded.equal(self.constant) | coded.missing)
        coded = coded.compact()
        return spread_table(coded, _ARROW[sign](coded.texts, self.constant))


class TextAmong(Truth):
    """A text in a constant list."""

    def __init__(self, item: TextOp, texts: Sequence[str]) -> None:
        self.item, self.texts = item, texts

    def true(self, columns: Columns) -> Mask:
        return self.item.run(columns).among(self.texts)

    def false(self, columns: Columns) -> Mask:
        coded = self.item.run(columns)
        return ~(coded.among(self.texts) | coded.missing)


class TextPair(Leaf):
    """Two text columns: their texts get ranks in one order, and the ranks are compared."""

    def __init__(self, sign: str, left: TextOp, right: TextOp) -> None:
        self.compare = COMPARE[sign]
        self.left, self.right = left, right

    def answers(self, columns: Columns) -> tuple[Mask, Mask | bool | None]:
        left, right = self.left.run(columns).compact(), self.right.run(columns).compact()
        ranks = pc.rank(pa.concat_arrays([left.texts, right.texts]), tiebreaker="dense").to_numpy().astype(np.int64)
        count = len(left.texts)
        a = np.append(ranks[:count], 0)[left.codes]
        b = np.append(ranks[count:], 0)[right.codes]
        return self.compare(a, b), left.missing | right.missing


class BytesComparison(Leaf):
    def __init__(self, sign: str, left: BytesOp, right: BytesOp) -> None:
        self.compare = _ARROW[sign]
        self.left, self.right = left, right

    def answers(self, columns: Columns) -> tuple[Mask, Mask | bool | None]:
        right = self.right.run(columns) if self.right.constant is None else pa.scalar(self.right.constant, pa.binary())
        return arrow_answers(self.compare(self.left.run(columns), right))


class BytesAmong(Leaf):
    def __init__(self, item: BytesOp, items: Sequence[bytes]) -> None:
        self.item = item
        self.items = pa.array(items, pa.binary())

    def answers(self, columns: Columns) -> tuple[Mask, Mask | bool | None]:
        found = self.item.run(columns)
        bad = found.is_null().to_numpy(zero_copy_only=False) if found.null_count else None
        return pc.is_in(found, self.items).to_numpy(zero_copy_only=False), bad


def arrow_answers(found: pa.BooleanArray) -> tuple[Mask, Mask | bool | None]:
    """A mask, and where Arrow had no answer."""
    if not found.null_count:
        return found.to_numpy(zero_copy_only=False), None
    bad = found.is_null().to_numpy(zero_copy_only=False)
    return found.fill_null(False).to_numpy(zero_copy_only=False), bad


def spread_table(coded: Coded, of_text: pa.BooleanArray) -> Mask:
    """An answer per row from one per text; rows without a text are not in it."""
    table = np.append(of_text.fill_null(False).to_numpy(zero_copy_only=False), False)
    return table[coded.codes]
