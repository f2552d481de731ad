"""Which rows of a Postings can match a group: array operations only, no message is looked at. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import product
from math import prod

import numpy as np
import numpy.typing as npt

from lamina.cel import Group
from lamina.index.composites import Composite, joined
from lamina.index.postings import NO_ROWS, PRIORITY, TOPIC, Postings, Rows, composite_field, label_field

_COMBINATIONS_MAX = 64
_ROW_MAX = 2**32 - 1
"""Behind every row: a segment has at most 2**32 - 1 of them."""
_FIRST_PIECE = 512
_COMMON = 16
_SPARSE = 8
"""Searching each row of a list in another one is quicker than marking if that is so many times longer."""


@dataclass(frozen=True, slots=True)
class Used:
    """One posting list that a query used, for people who ask why."""

    field: str
    values: int
    rows: int


@dataclass(slots=True)
class Access:
    """How a group is answered: rows must be in every list and mask, in none of those to be without."""

    postings: Postings
    lists: list[Rows] = field(default_factory=list)
    """Shortest first."""
    masks: list[npt.NDArray[np.bool_]] = field(default_factory=list)
    """Over the postings' rows, in place of lists that are much longer than the shortest."""
    present: list[str] = field(default_factory=list)
    absent: list[str] = field(default_factory=list)
    used: list[Used] = field(default_factory=list)

    def candidates(self, low: int, high: int, *, descending: bool, first_piece: int | None) -> Iterator[Rows]:
        """Rows of [low, high) in order, in pieces that grow from `first_piece`, or all at once."""
        if not self.lists:
            yield from self._without_lists(low, high, descending=descending, first_piece=first_piece)
            return
        shortest, *others = self.lists
        for piece in _pieces(within(shortest, low, high), descending=descending, first=first_piece):
            rows = reduce(intersect, others, piece)
            if len(rows):
                yield self._masked(rows)

    def count(self, low: int, high: int) -> int:
        """How many candidates there are."""
        if not self.lists and not self.masks and not self.present and not self.absent:
            return max(high - low, 0)
        return sum(len(rows) for rows in self.candidates(low, high, descending=False, first_piece=None))

    def _without_lists(self, low: int, high: int, *, descending: bool, first_piece: int | None) -> Iterator[Rows]:
        size = first_piece or max(high - low, 1)
        while low < high:
            start, end = (max(high - size, low), high) if descending else (low, min(low + size, high))
            rows = self._masked(np.arange(start, end, dtype=np.uint32))
            if len(rows):
                yield rows[::-1] if descending else rows
            low, high = (low, start) if descending else (end, high)
            size *= 4

    def _masked(self, rows: Rows) -> Rows:
        first = self.postings.extent.first
        for mask in self.masks:
            rows = rows[mask[rows - np.uint32(first)]]
        for key in self.present:
            rows = rows[self.postings.mask(label_field(key))[rows - first]]
        for key in self.absent:
            rows = rows[~self.postings.mask(label_field(key))[rows - first]]
        return rows


def access(group: Group, postings: Postings, composites: Sequence[Composite]) -> Access | None:
    """The cheapest way to the group's rows by the sizes of posting lists; None if there is no such row."""
    found = Access(postings)
    left = dict(group.labels)
    _use_composites(found, left, composites)
    single: dict[int, tuple[str, str]] = {}  # lists that are those of one value
    for key, wanted in left.items():
        if len(wanted) == 1:
            single[len(found.lists)] = (label_field(key), next(iter(wanted)))
        _use(found, label_field(key), sorted(wanted), f"label {key}")
    if group.topics is not None:
        _use(found, TOPIC, sorted(group.topics), TOPIC)
    if group.priorities is not None:
        _use(found, PRIORITY, sorted(map(str, group.priorities)), PRIORITY)
    if not all(map(len, found.lists)):
        return None
    if not found.lists and not postings.extent.is_dense:
        found.lists.append(postings.of_field(TOPIC))  # every message has one
    _prefer_masks(found, single)
    found.lists.sort(key=len)
    found.present = sorted(group.present)
    found.absent = sorted(group.absent)
    return found


def _use_composites(found: Access, left: dict[str, frozenset[str]], composites: Sequence[Composite]) -> None:
    """Those that answer some of the labels, which are then no longer `left`; the ones with most keys first."""
    for composite in sorted(composites, key=lambda one: -len(one.keys)):
        # Only rows with all its keys are in a composite, so it answers only if the group asks for all of them.
        if composite.uid in found.postings.composites and all(key in left for key in composite.keys):
            values = [sorted(left[key]) for key in composite.keys]
            if prod(map(len, values)) <= _COMBINATIONS_MAX:
                texts = list(map(joined, product(*values)))
                _use(found, composite_field(composite.uid), texts, f"composite {composite.name}")
                for key in composite.keys:
                    del left[key]


def _prefer_masks(found: Access, single: Mapping[int, tuple[str, str]]) -> None:
    """Lists that hold a good part of all rows, beside a much shorter one, give way to masks where there are some."""
    if len(found.lists) < 2:
        return
    extent = found.postings.extent
    shortest = min(map(len, found.lists))
    kept = []
    for place, rows in enumerate(found.lists):
        is_common = len(rows) > _COMMON * shortest and len(rows) * _COMMON > extent.end - extent.first
        mask = found.postings.term_mask(*single[place]) if is_common and place in single else None
        if mask is None:
            kept.append(rows)
        else:
            found.masks.append(mask)
    found.lists = kept


def intersect(rows: Rows, other: Rows) -> Rows:
    """Those of `rows`, ascending or descending, that are in `other`, which is ascending."""
    if not len(rows) or not len(other):
        return NO_ROWS
    low, high = int(min(rows[0], rows[-1])), int(max(rows[0], rows[-1]))
    other = within(other, low, high + 1)
    if not len(other):
        return NO_ROWS
    if len(rows) * _SPARSE < len(other) or high - low > 64 * len(other):
        at = np.searchsorted(other, rows)
        at[at == len(other)] = 0
        is_in: npt.NDArray[np.bool_] = other[at] == rows
    else:
        marks = np.zeros(high - low + 1, np.bool_)
        marks[other - np.uint32(low)] = True
        is_in = marks[rows - np.uint32(low)]
    return rows[is_in]


def union(lists: Sequence[Rows]) -> Rows:
    """All rows of the lists once, ascending."""
    filled = [rows for rows in lists if len(rows)]
    if len(filled) <= 1:
        return filled[0] if filled else NO_ROWS
    merged = np.sort(np.concatenate(filled))
    return merged[np.concatenate(([True], merged[1:] != merged[:-1]))]


def within(rows: Rows, low: int, high: int) -> Rows:
    """Those of ascending rows that are in [low, high)."""
    if not len(rows) or (int(rows[0]) >= low and int(rows[-1]) < high):
        return rows
    # Bounds of the rows' own type: any other makes numpy convert all rows first.
    start = rows.searchsorted(np.uint32(min(max(low, 0), _ROW_MAX)))
    end = rows.searchsorted(np.uint32(min(max(high, 0), _ROW_MAX)))
    return rows[start:end]


def _use(found: Access, name: str, values: Sequence[str], shown: str) -> None:
    rows = union([found.postings.find(name, value) for value in values])
    found.lists.append(rows)
    found.used.append(Used(shown, len(values), len(rows)))


def _pieces(rows: Rows, *, descending: bool, first: int | None) -> Iterator[Rows]:
    if first is None or len(rows) <= first:
        yield rows[::-1] if descending else rows
        return
    size, count, done = max(first, _FIRST_PIECE), len(rows), 0
    while done < count:
        end = min(done + size, count)
        yield rows[count - end : count - done][::-1] if descending else rows[done:end]
        done, size = end, size * 4
