"""Building postings from batches of messages, in native code throughout."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lamina.index.postings import (
    PRIORITY,
    TOPIC,
    Extent,
    FieldTerms,
    Postings,
    assemble,
    label_field,
    sorted_texts,
)
from lamina.log import Block
from lamina.model import flat_labels

Ints = npt.NDArray[np.int64]


def build(blocks: Sequence[Block], base: int, first: int, end: int) -> Postings:
    """Postings of the messages of these blocks: all that there are of the rows [first, end), and at least one."""
    batches = [block.stored() for block in blocks]
    rows = [block.offset_array() - base for block in blocks]
    pieces = _Pieces([], [])
    for batch, numbers in zip(batches, rows, strict=True):
        _take_topics(pieces, batch, numbers)
        _take_priorities(pieces, batch, numbers)
        _take_labels(pieces, batch, numbers)
    return assemble(_extent(batches, first, end), pieces.terms())


def nothing_between(first: int, end: int) -> Postings:
    """Postings of rows [first, end) of which none is there any more."""
    return assemble(Extent(first, end, 2**63 - 1, -(2**63), is_sorted=True, has_expiry=False, is_dense=False), {})


@dataclass(frozen=True, slots=True)
class _Piece:
    """Postings of one field in one batch: codes into the texts that begin at `texts_at`."""

    field: str
    codes: npt.NDArray[np.int32]
    rows: Ints
    texts_at: int


@dataclass(slots=True)
class _Pieces:
    """What all batches contribute, before it is sorted."""

    pieces: list[_Piece]
    texts: list[pa.StringArray]
    texts_count: int = 0

    def add_texts(self, texts: pa.StringArray) -> int:
        """Where in all texts these begin."""
        at = self.texts_count
        self.texts.append(texts)
        self.texts_count += len(texts)
        return at

    def terms(self) -> dict[str, FieldTerms]:
        """Texts are made one sorted dictionary, then each field is sorted on its own."""
        if not self.pieces:
            return {}
        coded = pa.concat_arrays(self.texts).dictionary_encode()
        ordered, places = sorted_texts(coded.dictionary)
        codes_of = places[coded.indices.to_numpy()]
        by_field: dict[str, list[_Piece]] = {}
        for piece in self.pieces:
            by_field.setdefault(piece.field, []).append(piece)
        return {
            field: FieldTerms.of_codes(
                np.concatenate([codes_of[piece.codes + piece.texts_at] for piece in pieces]),
                np.concatenate([piece.rows for piece in pieces]),
                ordered,
            )
            for field, pieces in by_field.items()
        }


def _take_topics(pieces: _Pieces, batch: pa.RecordBatch, rows: Ints) -> None:
    column = batch.column("topic")
    pieces.pieces.append(_Piece(TOPIC, column.indices.to_numpy(), rows, pieces.add_texts(column.dictionary)))


def _take_priorities(pieces: _Pieces, batch: pa.RecordBatch, rows: Ints) -> None:
    if PRIORITY not in batch.schema.names:
        return
    coded = batch.column(PRIORITY).cast(pa.utf8()).dictionary_encode()
    has_one = coded.indices.is_valid().to_numpy(zero_copy_only=False)
    codes = coded.indices.fill_null(0).to_numpy()[has_one]
    pieces.pieces.append(_Piece(PRIORITY, codes, rows[has_one], pieces.add_texts(coded.dictionary)))


def _take_labels(pieces: _Pieces, batch: pa.RecordBatch, rows: Ints) -> None:
    if "labels" not in batch.schema.names:
        return
    offsets, keys, items = flat_labels(batch.column("labels"))
    texts_at = pieces.add_texts(items.dictionary)
    key_codes, value_codes = keys.indices.to_numpy(), items.indices.to_numpy()
    fields = [label_field(key) for key in keys.dictionary.to_pylist()]
    each = int(offsets[1]) if len(offsets) > 1 else 0
    pattern = key_codes[:each]
    if each and len(key_codes) == each * len(rows) and (key_codes.reshape(-1, each) == pattern).all():
        # Every message has the same keys in the same order, as one producer's messages do.
        columns = value_codes.reshape(-1, each)
        pieces.pieces += [
            _Piece(fields[code], columns[:, place], rows, texts_at) for place, code in enumerate(pattern.tolist())
        ]
        return
    row_of = np.repeat(rows, np.diff(offsets))
    for code in np.unique(key_codes).tolist():
        here = key_codes == code
        pieces.pieces.append(_Piece(fields[code], value_codes[here], row_of[here], texts_at))


def _extent(batches: Sequence[pa.RecordBatch], first: int, end: int) -> Extent:
    times = np.concatenate([batch.column("timestamp").to_numpy() for batch in batches])
    return Extent(
        first=first,
        end=end,
        ts_min=int(times.min()),
        ts_max=int(times.max()),
        is_sorted=bool((times[1:] >= times[:-1]).all()),
        has_expiry=any("expires_at" in batch.schema.names for batch in batches),
        is_dense=end - first == len(times),
    )
