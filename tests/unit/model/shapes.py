"""Arrow columns in the many shapes that people bring, and the plain Python reading of any of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from lamina.errors import InvalidRequest
from lamina.model import Message, Now, messages_of_batch, stored_batch

NOW = Now(1_700_000_000_000_000, 60_000_000)
Pairs = Sequence[tuple[str, str]]


def batch(**columns: pa.Array) -> pa.RecordBatch:
    """A batch with a topic and a value for every row, unless given."""
    count = len(next(iter(columns.values())))
    filled = {"topic": pa.array(["t"] * count), "value": pa.array([b"v"] * count)} | columns
    return pa.RecordBatch.from_arrays(list(filled.values()), names=list(filled))


def converted(source: pa.RecordBatch) -> list[Message]:
    """What a reader would see of the batch after it was stored."""
    found = stored_batch(source, NOW)
    return list(messages_of_batch(found, "s", 0, range(found.num_rows)))


def refusal(source: pa.RecordBatch) -> str:
    """Why the batch is not taken; fails if it is."""
    try:
        stored_batch(source, NOW)
    except InvalidRequest as error:
        return str(error)
    raise AssertionError(f"taken: {source}")


def coded(
    texts: Sequence[str | None], codes: Sequence[int | None], code_type: pa.DataType, text_type: pa.DataType
) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(codes, code_type), pa.array(texts, text_type))


def label_map(rows: Sequence[Pairs | None], key_type: pa.DataType, value_type: pa.DataType) -> pa.MapArray:
    """A map column; null rows and plain, large or dictionary texts."""
    flat = [pair for row in rows for pair in row or ()]
    offsets: list[int | None] = []
    at = 0
    for row in rows:
        offsets.append(None if row is None else at)
        at += len(row or ())
    offsets.append(at)
    keys = text_array([key for key, _ in flat], key_type)
    values = text_array([value for _, value in flat], value_type)
    return pa.MapArray.from_arrays(pa.array(offsets, pa.int32()), keys, values)


def text_array(texts: Sequence[str], kind: pa.DataType) -> pa.Array:
    if not pa.types.is_dictionary(kind):
        return pa.array(texts, kind)
    distinct = sorted(set(texts))
    codes = [distinct.index(text) for text in texts]
    return pa.DictionaryArray.from_arrays(pa.array(codes, kind.index_type), pa.array(distinct, kind.value_type))


def raw_text(*texts: bytes) -> pa.Array:
    """A utf8 array of bytes that nobody has checked."""
    offsets = np.cumsum([0, *(len(text) for text in texts)]).astype(np.int32)
    return pa.Array.from_buffers(
        pa.utf8(), len(texts), [None, pa.py_buffer(offsets.tobytes()), pa.py_buffer(b"".join(texts))]
    )
