"""Postings: for each value of each field, the rows of one segment that have it, as sorted arrays.

A field is the topic, the priority, a label key or a composite; a row is an offset relative to the segment's base.
All terms (field, value) lie sorted in one text column, their rows one after the other in one array, so that a look-up
is a binary search and its answer a view of mapped memory.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Rows = npt.NDArray[np.uint32]
NO_ROWS: Rows = np.empty(0, np.uint32)
_MASKS_KEPT = 8
_ASKED_KEPT = 64
_TERMS_REMEMBERED = 2048
"""The terms of a field with at most so many are kept in a dict: a binary search takes twenty times longer."""

TOPIC = "topic"
PRIORITY = "priority"


def label_field(key: str) -> str:
    return f"label:{key}"


def composite_field(uid: str) -> str:
    return f"composite:{uid}"


@dataclass(frozen=True, slots=True)
class Extent:
    """Which rows the postings speak of, and what is known of all of them."""

    first: int
    end: int
    ts_min: int
    ts_max: int
    is_sorted: bool
    """Whether timestamps never go back from row to row."""
    has_expiry: bool
    is_dense: bool = True
    """Whether every row of [first, end) is there."""


class Postings:
    """Immutable; any thread. `values`, `ends` and `rows` may lie in mapped memory."""

    __slots__ = (
        "_asked",
        "_data",
        "_masks",
        "_places",
        "_term_masks",
        "_text_ends",
        "composites",
        "ends",
        "extent",
        "fields",
        "rows",
        "values",
    )

    def __init__(
        self,
        extent: Extent,
        fields: Mapping[str, tuple[int, int]],
        values: pa.StringArray,
        ends: npt.NDArray[np.int64],
        rows: Rows,
        composites: frozenset[str] = frozenset(),
    ) -> None:
        self.composites = composites
        """Uids of the composites that are indexed here, also those without a row."""
        self.extent = extent
        self.fields = dict(fields)
        """Each field's terms: [first, end) of `values`."""
        self.values = values
        self.ends = ends
        """Rows of term i are rows[ends[i]:ends[i + 1]]."""
        self.rows = rows
        self._masks: dict[str, npt.NDArray[np.bool_]] = {}
        self._term_masks: dict[tuple[str, str], npt.NDArray[np.bool_]] = {}
        self._asked: set[tuple[str, str]] = set()
        self._places: dict[str, dict[str, int]] = {}
        _, text_ends, data = values.buffers()
        self._text_ends = memoryview(text_ends).cast("B").cast("i") if text_ends is not None else memoryview(b"")
        self._data = memoryview(data) if data is not None else memoryview(b"")

    def find(self, field: str, value: str) -> Rows:
        """The rows of one term, ascending."""
        term = self._term(field, value)
        return NO_ROWS if term is None else self.rows[self.ends[term] : self.ends[term + 1]]

    def of_field(self, field: str) -> Rows:
        """The rows that have any value of the field, ascending."""
        if field not in self.fields:
            return NO_ROWS
        first, end = self.fields[field]
        rows = self.rows[self.ends[first] : self.ends[end]]
        return rows if end - first == 1 else np.sort(rows)

    def mask(self, field: str) -> npt.NDArray[np.bool_]:
        """Which rows have the field, counted from the first of the extent. Remembered for a few fields."""
        known = self._masks.get(field)
        if known is None:
            first, end = self.fields.get(field, (0, 0))
            known = np.zeros(self.extent.end - self.extent.first, np.bool_)
            known[self.rows[self.ends[first] : self.ends[end]] - np.uint32(self.extent.first)] = True
            if len(self._masks) >= _MASKS_KEPT:
                self._masks.clear()
            self._masks[field] = known
        return known

    def term_mask(self, field: str, value: str) -> npt.NDArray[np.bool_] | None:
        """Which rows have a common value, if it has been asked for before: then a look at each row beats a search.

        Remembered for a few values; None the first time, since making a mask costs more than one search.
        """
        key = (field, value)
        known = self._term_masks.get(key)
        if known is None and key in self._asked:
            known = np.zeros(self.extent.end - self.extent.first, np.bool_)
            known[self.find(field, value) - np.uint32(self.extent.first)] = True
            if len(self._term_masks) >= _MASKS_KEPT:
                self._term_masks.clear()
            self._term_masks[key] = known
        if len(self._asked) >= _ASKED_KEPT:
            self._asked.clear()
        self._asked.add(key)
        return known

    def terms(self, field: str) -> list[str]:
        """The values of a field, sorted by their bytes."""
        first, end = self.fields.get(field, (0, 0))
        texts: list[str] = self.values.slice(first, end - first).to_pylist()
        return texts

    def _term(self, field: str, value: str) -> int | None:
        low, high = self.fields.get(field, (0, 0))
        if high - low <= _TERMS_REMEMBERED:
            places = self._places.get(field)
            if places is None:
                places = self._places[field] = {text: low + at for at, text in enumerate(self.terms(field))}
            return places.get(value)
        wanted, text_ends, data = value.encode(), self._text_ends, self._data
        end = high
        while low < high:
            middle = (low + high) // 2
            if data[text_ends[middle] : text_ends[middle + 1]].tobytes() < wanted:
                low = middle + 1
            else:
                high = middle
        if low < end and data[text_ends[low] : text_ends[low + 1]] == wanted:
            return low
        return None


@dataclass(frozen=True, slots=True)
class FieldTerms:
    """The postings of one field on their own: sorted distinct values, their ends (from 0) and their rows."""

    values: pa.StringArray
    ends: npt.NDArray[np.int64]
    rows: Rows

    @classmethod
    def of_codes(cls, codes: npt.NDArray[np.int64], rows: npt.NDArray[np.int64], ordered: pa.StringArray) -> FieldTerms:
        """From one (code, row) pair per posting; codes are places in `ordered`, the sorted texts."""
        if not len(codes):
            return NO_TERMS
        # Both in one number: sorting those is native, vectorised, and needs no second pass for the order.
        packed = np.sort(codes << 32 | rows)
        sorted_codes = packed >> 32
        starts = np.flatnonzero(np.concatenate(([True], sorted_codes[1:] != sorted_codes[:-1])))
        values = ordered.take(pa.array(sorted_codes[starts]))
        ends = np.concatenate((starts, [len(packed)])).astype(np.int64)
        return cls(values, ends, packed.astype(np.uint32))


NO_TERMS = FieldTerms(pa.array([], pa.utf8()), np.zeros(1, np.int64), NO_ROWS)


def assemble(extent: Extent, terms: Mapping[str, FieldTerms], composites: frozenset[str] = frozenset()) -> Postings:
    """One Postings of all fields."""
    fields: dict[str, tuple[int, int]] = {}
    values: list[pa.StringArray] = []
    ends: list[npt.NDArray[np.int64]] = [np.zeros(1, np.int64)]
    rows: list[Rows] = []
    first = total = 0
    for field in sorted(terms):
        one = terms[field]
        if not len(one.values):
            continue
        fields[field] = (first, first + len(one.values))
        first += len(one.values)
        values.append(one.values)
        ends.append(one.ends[1:] + total)
        rows.append(one.rows)
        total += len(one.rows)
    return Postings(
        extent,
        fields,
        pa.concat_arrays(values) if values else pa.array([], pa.utf8()),
        np.concatenate(ends),
        np.concatenate(rows) if rows else NO_ROWS,
        composites,
    )


def field_terms(postings: Postings, field: str) -> FieldTerms | None:
    """The postings of one field, taken out."""
    if field not in postings.fields:
        return None
    first, end = postings.fields[field]
    start = postings.ends[first]
    return FieldTerms(
        postings.values.slice(first, end - first),
        postings.ends[first : end + 1] - start,
        postings.rows[start : postings.ends[end]],
    )


def merge(parts: Sequence[Postings]) -> Postings:
    """One Postings for what several cover, one after the other; with the composites that all of them have."""
    if len(parts) == 1:
        return parts[0]
    composites = frozenset.intersection(*(part.composites for part in parts))
    terms: dict[str, FieldTerms] = {}
    for field in {field for part in parts for field in part.fields}:
        kind, _, uid = field.partition(":")
        if kind == "composite" and uid not in composites:
            continue
        found = [one for part in parts if (one := field_terms(part, field)) is not None]
        terms[field] = found[0] if len(found) == 1 else _merge_field(found)
    return assemble(_joined([part.extent for part in parts]), terms, composites)


def _merge_field(parts: list[FieldTerms]) -> FieldTerms:
    coded = pa.concat_arrays([part.values for part in parts]).dictionary_encode()
    ordered, places = sorted_texts(coded.dictionary)
    codes = places[coded.indices.to_numpy()]
    counts = np.concatenate([np.diff(part.ends) for part in parts])
    rows = np.concatenate([part.rows for part in parts]).astype(np.int64)
    return FieldTerms.of_codes(np.repeat(codes, counts), rows, ordered)


def sorted_texts(texts: pa.StringArray) -> tuple[pa.StringArray, npt.NDArray[np.int64]]:
    """The distinct texts in byte order, and where each one went."""
    order = pc.sort_indices(texts).to_numpy()
    places = np.empty(len(order), np.int64)
    places[order] = np.arange(len(order))
    return texts.take(pa.array(order)), places


def _joined(extents: list[Extent]) -> Extent:
    return Extent(
        first=extents[0].first,
        end=extents[-1].end,
        ts_min=min(one.ts_min for one in extents),
        ts_max=max(one.ts_max for one in extents),
        # Touching ends may be equal: rows of one time keep their order.
        is_sorted=all(one.is_sorted for one in extents)
        and all(left.ts_max <= right.ts_min for left, right in itertools.pairwise(extents)),
        has_expiry=any(one.has_expiry for one in extents),
        is_dense=all(one.is_dense for one in extents)
        and all(left.end == right.first for left, right in itertools.pairwise(extents)),
    )
