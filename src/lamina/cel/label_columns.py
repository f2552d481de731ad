"""Label columns: from the stored map of codes to one coded column per label key."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lamina.cel.coded import Coded, Codes, Mask, Rows, find

_SLOTS_TRIED = 2


class LabelColumns:
    """The labels of one batch. Racing first looks extract twice and see equal columns; any thread."""

    def __init__(self, offsets: npt.NDArray[np.int32], keys: Coded, items: Coded) -> None:
        self.offsets = offsets
        self.keys = keys
        """The key of every entry, row after row."""
        self.items = items
        """The value of every entry, row after row."""
        self._width = -1
        self._row_of_entry: npt.NDArray[np.int32] | None = None
        self._found: dict[str, Coded] = {}

    @classmethod
    def of(cls, column: pa.MapArray) -> LabelColumns:
        """Those of a map column. A slice has the `.keys` and `.items` of the whole: only its offsets are its own."""
        offsets = column.offsets.to_numpy()
        first, end = int(offsets[0]), int(offsets[-1])
        keys, items = column.keys, column.items
        return cls(
            offsets - first if first else offsets,
            Coded(_codes(keys, first, end), keys.dictionary),
            Coded(_codes(items, first, end), items.dictionary),
        )

    def take(self, rows: Rows) -> LabelColumns:
        """Only these rows, in this order."""
        starts = self.offsets[rows]
        counts = self.offsets[rows + 1] - starts
        offsets = np.zeros(len(rows) + 1, np.int32)
        np.cumsum(counts, out=offsets[1:])
        entries = np.repeat(starts - offsets[:-1], counts) + np.arange(offsets[-1], dtype=np.int32)
        return LabelColumns(offsets, self.keys.take(entries), self.items.take(entries))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def get(self, key: str) -> Coded:
        """The values of one key; code -1 where a row does not have it."""
        found = self._found.get(key)
        if found is None:
            found = self._found[key] = self._extract(key)
        return found

    def counts(self) -> npt.NDArray[np.int64]:
        """How many labels each row has."""
        return np.diff(self.offsets).astype(np.int64)

    def row_of_entry(self) -> npt.NDArray[np.int32]:
        if self._row_of_entry is None:
            rows = np.arange(len(self), dtype=np.int32)
            self._row_of_entry = np.repeat(rows, np.diff(self.offsets))
        return self._row_of_entry

    def _extract(self, key: str) -> Coded:
        wanted = find(self.keys.texts, key.encode())
        if width := self._period():
            pattern = self.keys.codes[:width].tolist()
            for slot, code in enumerate(pattern):
                if code in wanted:
                    return Coded(self.items.codes[slot::width], self.items.texts)
            wanted = []
        if not wanted:
            return Coded(np.full(len(self), -1, np.int32), self.items.texts)
        hits = self.keys.codes == wanted[0]
        for code in wanted[1:]:
            hits |= self.keys.codes == code
        count = int(np.count_nonzero(hits))
        if count == len(self):  # keys are unique within a row, so every row has it
            return Coded(self.items.codes[np.flatnonzero(hits)], self.items.texts)
        codes = self._by_slots(wanted[0], hits, count) if count and len(wanted) == 1 else None
        return Coded(self._by_entries(hits) if codes is None else codes, self.items.texts)

    def _by_slots(self, wanted: int, hits: Mask, left: int) -> Codes | None:
        """The same place in every row is looked at, then its neighbours; None if the key turns up all over.

        Rows are mostly written by one program, which has few ways to order its labels.
        """
        first = np.argmax(hits).astype(np.int32)  # of the offsets' type: else all of them would be converted
        starts, ends = self.offsets[:-1], self.offsets[1:]
        slot = int(first - starts[np.searchsorted(ends, first, side="right")])
        codes: Codes | None = None
        for tried in range(slot, slot + _SLOTS_TRIED):
            entries = starts + tried if tried else starts
            places = entries.astype(np.intp)  # as `take` wants them: it would convert them twice
            found = self.keys.codes.take(places, mode="clip") == wanted
            found &= entries < ends
            items = self.items.codes.take(places, mode="clip")
            # -1 has all bits set: with a mask of -1 and 0 this is where(found, items, -1), several times quicker.
            items |= found.view(np.int8) - np.int8(1)
            codes = items if codes is None else np.maximum(codes, items)
            left -= int(np.count_nonzero(found))
            if not left:
                return codes
        return None

    def _by_entries(self, hits: Mask) -> Codes:
        entries = np.flatnonzero(hits)
        codes = np.full(len(self), -1, np.int32)
        codes[self.row_of_entry()[entries]] = self.items.codes[entries]
        return codes

    def _period(self) -> int:
        """How many labels each row has if all rows have the same keys in the same order; else 0.

        Messages of one kind do, and then one key's values are every n-th entry: a view, nothing is moved.
        """
        if self._width < 0:
            self._width = self._find_period()
        return self._width

    def _find_period(self) -> int:
        rows, codes = len(self), self.keys.codes
        width = len(codes) // rows if rows else 0
        if not width or width * rows != len(codes) or int(self.offsets[1]) != width:
            return 0
        if not (np.diff(self.offsets) == width).all():
            return 0
        return width if np.array_equal(codes[width:], codes[:-width]) else 0


def _codes(column: pa.DictionaryArray, first: int, end: int) -> Codes:
    codes = column.indices
    if codes.null_count:
        codes = codes.fill_null(-1)
    return codes.to_numpy()[first:end]  # type: ignore[no-any-return]
