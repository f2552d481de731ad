"""Composite indexes: postings of the combined values of several labels.

`<stream>/composites.json` keeps their definitions. A composite is known by its uid, so that one that was dropped and
made anew under its old name never answers from old postings.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Literal

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lamina.errors import Conflict, InvalidRequest, NotFound
from lamina.index.postings import (
    NO_TERMS,
    FieldTerms,
    Postings,
    assemble,
    composite_field,
    field_terms,
    label_field,
    sorted_texts,
)
from lamina.model import LABEL_KEY_BYTES_MAX, check_text

State = Literal["building", "ready"]
KEYS_MAX = 8
_JOINED_MAX = 64


class Composite(msgspec.Struct, frozen=True):
    """One definition. Only a ready one answers queries."""

    uid: str
    name: str
    keys: tuple[str, ...]
    state: State = "building"


class Composites(msgspec.Struct, frozen=True):
    """All definitions of a stream."""

    composites: tuple[Composite, ...] = ()

    def get(self, name: str) -> Composite | None:
        return next((one for one in self.composites if one.name == name), None)

    def with_new(self, uid: str, name: object, keys: object) -> Composites:
        """InvalidRequest for bad names and keys; Conflict if name or keys are taken."""
        if not isinstance(name, str) or not name or len(name) > 128 or "\0" in name:
            raise InvalidRequest(f"a composite's name is a text of 1 to 128 characters, not {name!r}")
        if isinstance(keys, str) or not isinstance(keys, Sequence):
            raise InvalidRequest(f"a composite's keys are a list of label keys, not {keys!r}")
        checked = tuple(check_text("label key", key, LABEL_KEY_BYTES_MAX) for key in keys)
        if not 1 <= len(checked) <= KEYS_MAX or len(set(checked)) < len(checked):
            raise InvalidRequest(f"a composite has 1 to {KEYS_MAX} different label keys, not {list(checked)}")
        for one in self.composites:
            if one.name == name:
                raise Conflict(
                    f"composite {name!r} exists, over {list(one.keys)}; drop it first or choose another name"
                )
            if set(one.keys) == set(checked):
                raise Conflict(f"composite {one.name!r} has the same keys {list(one.keys)}; use that one")
        return Composites((*self.composites, Composite(uid, name, checked)))

    def without(self, name: str) -> Composites:
        if self.get(name) is None:
            known = ", ".join(repr(one.name) for one in self.composites) or "none"
            raise NotFound(f"no composite {name!r}; there are: {known}")
        return Composites(tuple(one for one in self.composites if one.name != name))

    def with_ready(self, uids: Iterable[str]) -> Composites:
        done = set(uids)
        return Composites(
            tuple(msgspec.structs.replace(one, state="ready") if one.uid in done else one for one in self.composites)
        )


def joined(values: Iterable[str]) -> str:
    """One text for several values; lengths in front, so that ("a", "bc") and ("ab", "c") differ.

    A long one is hashed: a file must not hold every pair of long values in full.
    """
    text = "".join(f"{len(value)}:{value}" for value in values)
    return text if len(text) <= _JOINED_MAX else f"#{blake2b(text.encode(), digest_size=16).hexdigest()}"


def with_composites(postings: Postings, wanted: Iterable[Composite]) -> Postings:
    """The postings with exactly these composites, made from the postings of their labels."""
    definitions = {one.uid: one for one in wanted}
    if postings.composites == definitions.keys():
        return postings
    terms = {
        field: found
        for field in postings.fields
        if (_uid(field) is None or _uid(field) in definitions) and (found := field_terms(postings, field)) is not None
    }
    for uid, composite in definitions.items():
        if uid not in postings.composites:
            terms[composite_field(uid)] = _combine(postings, composite.keys)
    return assemble(postings.extent, terms, frozenset(definitions))


def _uid(field: str) -> str | None:
    kind, _, uid = field.partition(":")
    return uid if kind == "composite" else None


def _combine(postings: Postings, keys: Sequence[str]) -> FieldTerms:
    """Each row that has all the keys gets a number for its combination of values, and these their texts."""
    columns = [field_terms(postings, label_field(key)) for key in keys]
    if any(column is None for column in columns):
        return NO_TERMS
    found = [column for column in columns if column is not None]
    first, count = postings.extent.first, postings.extent.end - postings.extent.first
    combined: npt.NDArray[np.int64] = np.zeros(count, np.int64)
    codes = []
    for column in found:
        code = np.full(count, -1, np.int64)
        code[column.rows - first] = np.repeat(np.arange(len(column.values)), np.diff(column.ends))
        codes.append(code)
        # Numbered anew after each step: the product of all cardinalities may be more than 64 bits hold.
        _, combined = np.unique(combined * len(column.values) + code, return_inverse=True)
    rows = np.flatnonzero(np.logical_and.reduce([code >= 0 for code in codes]))
    if not len(rows):
        return NO_TERMS
    _, sample, number = np.unique(combined[rows], return_index=True, return_inverse=True)
    texts = [
        column.values.take(pa.array(code[rows[sample]])).to_pylist() for column, code in zip(found, codes, strict=True)
    ]
    ordered, places = sorted_texts(pa.array(list(map(joined, zip(*texts, strict=True))), pa.utf8()))
    return FieldTerms.of_codes(places[number], rows + first, ordered)
