"""Texts under codes: one text per code, one code per row, so that work on texts is done once per distinct text."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Codes = npt.NDArray[np.integer]
Rows = npt.NDArray[np.integer]
Mask = npt.NDArray[np.bool_]

_FEW = 16
_SPARSE = 4
"""A dictionary of more than this many texts per row is cut down before each of its texts is worked on."""


class Coded:
    """A text per row; code -1 is a row without one, which evaluates to an error. Immutable; any thread."""

    __slots__ = ("_compact", "_missing", "codes", "texts")

    def __init__(self, codes: Codes, texts: pa.StringArray) -> None:
        self.codes = codes
        self.texts = texts
        self._missing: Mask | None = None
        self._compact: Coded | None = None

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def missing(self) -> Mask:
        """Rows without a text."""
        if self._missing is None:
            self._missing = self.codes < 0
        return self._missing

    def take(self, rows: Rows) -> Coded:
        return Coded(self.codes[rows], self.texts)

    def equal(self, text: str) -> Mask:
        """Rows that hold this very text."""
        found = find(self.texts, text.encode())
        if not found:
            return np.zeros(len(self.codes), np.bool_)
        mask: Mask = self.codes == found[0]
        for code in found[1:]:
            mask |= self.codes == code
        return mask

    def among(self, texts: Iterable[str]) -> Mask:
        """Rows that hold one of these texts."""
        wanted = list(texts)
        if len(wanted) > _FEW:
            table = np.append(pc.is_in(self.texts, pa.array(wanted, pa.utf8())).to_numpy(zero_copy_only=False), False)
            return table[self.codes]
        found = [code for text in wanted for code in find(self.texts, text.encode())]
        if len(found) <= _SPARSE:
            mask = np.zeros(len(self.codes), np.bool_)
            for code in found:
                mask |= self.codes == code
            return mask
        table = np.zeros(len(self.texts) + 1, np.bool_)
        table[found] = True
        return table[self.codes]

    def compact(self) -> Coded:
        """The same with only the texts in use, unless the dictionary is small beside the rows anyway."""
        if self._compact is None:
            self._compact = self._in_use()
        return self._compact

    def strings(self) -> pa.StringArray:
        """A text per row; null where there is none."""
        if len(self.codes) and int(self.codes.min()) < 0:
            return self.texts.take(pa.array(self.codes, mask=self.missing))
        return self.texts.take(pa.array(self.codes))

    def _in_use(self) -> Coded:
        count = len(self.texts)
        if count <= _FEW or count * _SPARSE <= len(self.codes):
            return self
        used = np.zeros(count + 1, np.bool_)
        used[self.codes] = True
        used[-1] = False
        kept = np.flatnonzero(used)
        table = np.full(count + 1, -1, np.int32)
        table[kept] = np.arange(len(kept), dtype=np.int32)
        return Coded(table[self.codes], self.texts.take(pa.array(kept)))


def constant_texts(text: str, count: int) -> Coded:
    return Coded(np.zeros(count, np.int32), pa.array([text], pa.utf8()))


def plain_texts(texts: pa.StringArray) -> Coded:
    """A column with its own text in each row; null is a row without one."""
    codes = np.arange(len(texts), dtype=np.int32)
    if texts.null_count:
        codes[texts.is_null().to_numpy(zero_copy_only=False)] = -1
    return Coded(codes, texts)


def find(texts: pa.StringArray, wanted: bytes) -> list[int]:
    """The codes of a text. There is one at most where the dictionary was made by Arrow; others are not relied on.

    Lengths and single bytes are compared as arrays: several times quicker than comparing texts, of which a
    dictionary shared by many label keys holds thousands.
    """
    count = len(texts)
    if not count:
        return []
    _, ends, data = texts.buffers()
    bounds = np.frombuffer(ends, np.int32, count + 1, texts.offset * 4)
    left = (bounds[1:] - bounds[:-1] == len(wanted)).nonzero()[0]
    if not len(left) or not wanted:
        return [int(code) for code in left]
    flat = np.frombuffer(data, np.uint8)
    starts = bounds[left]
    for place in range(len(wanted) - 1, -1, -1):
        if len(left) <= _FEW:
            break
        kept = flat[starts + place] == wanted[place]
        left, starts = left[kept], starts[kept]
    return [
        int(code)
        for code, start in zip(left.tolist(), starts.tolist(), strict=True)
        if flat[start : start + len(wanted)].tobytes() == wanted
    ]
