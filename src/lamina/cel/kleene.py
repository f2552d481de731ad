"""Truth over a batch: each row is true, false or neither, which is an error.

Whoever filters asks only for `true`, and most parts answer that without looking for errors: `a && b` is true where
both are, whatever an error would have done elsewhere. `not` swaps the questions, so nothing is lost under it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from lamina.cel.coded import Mask
from lamina.cel.columns import Columns

Both = tuple[Mask, Mask]


class Truth(ABC):
    """A boolean part of a filter. Immutable; any thread. The masks it gives belong to the caller."""

    is_slow = False
    """Whether it is evaluated message by message: then it is asked last, and only about rows still undecided."""
    parts: Sequence[Truth] = ()

    @abstractmethod
    def true(self, columns: Columns) -> Mask: ...

    @abstractmethod
    def false(self, columns: Columns) -> Mask: ...

    def both(self, columns: Columns) -> Both:
        """What is true and what is false, for less than asking twice where that can be."""
        return self.true(columns), self.false(columns)


class Always(Truth):
    def __init__(self, value: bool) -> None:
        self.value = value

    def true(self, columns: Columns) -> Mask:
        return np.full(len(columns), self.value)

    def false(self, columns: Columns) -> Mask:
        return np.full(len(columns), not self.value)


class Not(Truth):
    def __init__(self, part: Truth) -> None:
        self.part = part
        self.parts = (part,)
        self.is_slow = part.is_slow

    def true(self, columns: Columns) -> Mask:
        return self.part.false(columns)

    def false(self, columns: Columns) -> Mask:
        return self.part.true(columns)

    def both(self, columns: Columns) -> Both:
        true, false = self.part.both(columns)
        return false, true


class And(Truth):
    """True where all parts are; false where any is, even if others are errors."""

    def __init__(self, parts: Sequence[Truth]) -> None:
        self.parts = sorted(parts, key=lambda part: part.is_slow)
        self.is_slow = self.parts[-1].is_slow

    def true(self, columns: Columns) -> Mask:
        mask = self.parts[0].true(columns)
        for part in self.parts[1:]:
            if part.is_slow:
                rows = np.flatnonzero(mask)
                mask[rows] = part.true(columns.take(rows))
            elif not mask.any():
                break
            else:
                mask &= part.true(columns)
        return mask

    def false(self, columns: Columns) -> Mask:
        mask = self.parts[0].false(columns)
        for part in self.parts[1:]:
            if part.is_slow:
                rows = np.flatnonzero(~mask)
                mask[rows] = part.false(columns.take(rows))
            else:
                mask |= part.false(columns)
        return mask

    def both(self, columns: Columns) -> Both:
        true, false = self.parts[0].both(columns)
        for part in self.parts[1:]:
            if part.is_slow:
                rows = np.flatnonzero(~false)
                more_true, more_false = part.both(columns.take(rows))
                true[rows] &= more_true
                false[rows] = more_false
            else:
                more_true, more_false = part.both(columns)
                true &= more_true
                false |= more_false
        return true, false


def either(parts: Sequence[Truth]) -> Truth:
    """True where any part is, even if others are errors; false where all are: the mirror image of And."""
    return Not(And([negation(part) for part in parts]))


def negation(part: Truth) -> Truth:
    return part.part if isinstance(part, Not) else Not(part)


class Choice(Truth):
    """`test ? then : otherwise`; the branch that is not taken may be an error."""

    def __init__(self, test: Truth, then: Truth, otherwise: Truth) -> None:
        self.test, self.then, self.otherwise = self.parts = (test, then, otherwise)
        self.is_slow = test.is_slow or then.is_slow or otherwise.is_slow

    def true(self, columns: Columns) -> Mask:
        return self._chosen(columns, True)

    def false(self, columns: Columns) -> Mask:
        return self._chosen(columns, False)

    def _chosen(self, columns: Columns, wanted: bool) -> Mask:
        yes, no = self.test.both(columns)
        mask = np.zeros(len(columns), np.bool_)
        for where, branch in ((yes, self.then), (no, self.otherwise)):
            rows = np.flatnonzero(where)
            if len(rows):
                taken = columns.take(rows)
                mask[rows] = branch.true(taken) if wanted else branch.false(taken)
        return mask


class Same(Truth):
    """`a == b` of two truths: an error in either is an error."""

    def __init__(self, left: Truth, right: Truth) -> None:
        self.left, self.right = self.parts = (left, right)
        self.is_slow = left.is_slow or right.is_slow

    def true(self, columns: Columns) -> Mask:
        return self.both(columns)[0]

    def false(self, columns: Columns) -> Mask:
        return self.both(columns)[1]

    def both(self, columns: Columns) -> Both:
        left_true, left_false = self.left.both(columns)
        right_true, right_false = self.right.both(columns)
        return left_true & right_true | left_false & right_false, left_true & right_false | left_false & right_true


class Exactly(Truth):
    """How many parts are true is exactly one; an error in any is an error."""

    def __init__(self, parts: Sequence[Truth]) -> None:
        self.parts = parts
        self.is_slow = any(part.is_slow for part in parts)

    def true(self, columns: Columns) -> Mask:
        return self.both(columns)[0]

    def false(self, columns: Columns) -> Mask:
        return self.both(columns)[1]

    def both(self, columns: Columns) -> Both:
        count = np.zeros(len(columns), np.int32)
        known = np.ones(len(columns), np.bool_)
        for part in self.parts:
            true, false = part.both(columns)
            count += true
            known &= true | false
        return known & (count == 1), known & (count != 1)
