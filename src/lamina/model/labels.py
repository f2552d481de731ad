"""Label columns of foreign batches: any reasonable shape in, coded and checked out."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lamina.errors import InvalidRequest
from lamina.model import limits
from lamina.model.schema import TEXT_CODES, compact_codes

Codes = npt.NDArray[np.int32]


def labels_column(column: pa.Array) -> pa.MapArray:
    """Labels as the stored map of codes; a null row has no labels. InvalidRequest names row and label."""
    offsets, keys, items = _flat(column)
    counts = np.diff(offsets)
    if len(counts) and int(counts.max()) > limits.LABELS_MAX:
        row = int(np.argmax(counts))
        raise InvalidRequest(
            f"row {row}, column 'labels': {counts[row]} labels, at most {limits.LABELS_MAX} are allowed"
        )
    coded_keys = _coded("label key", keys, offsets)
    coded_items = _coded("label value", items, offsets)
    check_dictionary("label key", coded_keys, limits.LABEL_KEY_BYTES_MAX, offsets, empty=False)
    check_dictionary("label value", coded_items, limits.LABEL_VALUE_BYTES_MAX, offsets, empty=True)
    _check_unique(coded_keys, offsets)
    return pa.MapArray.from_arrays(pa.array(offsets), coded_keys, coded_items)


def check_dictionary(
    what: str, column: pa.DictionaryArray, bytes_max: int, offsets: Codes | None, *, empty: bool
) -> None:
    """Look at each distinct text once: UTF-8, no NUL, within the limit. Unused entries may be anything."""
    dictionary = column.dictionary
    bad = _bad_text(dictionary, bytes_max, empty=empty)
    if bad is None:
        return
    for code, reason in bad:
        at = np.flatnonzero(column.indices.to_numpy() == code)
        if len(at):
            raise InvalidRequest(f"row {_row_of(int(at[0]), offsets)}: {what} {reason}")


def _bad_text(dictionary: pa.Array, bytes_max: int, *, empty: bool) -> list[tuple[int, str]] | None:
    try:
        dictionary.validate(full=True)
    except pa.ArrowInvalid:
        return _not_utf8(dictionary)
    sizes = pc.binary_length(dictionary)
    low, high = (bound.as_py() for bound in pc.min_max(sizes).values())
    if low is None:
        return None
    if high <= bytes_max and (empty or low > 0) and not _has_nul(dictionary):
        return None
    bad = []
    for code, text in enumerate(dictionary.to_pylist()):
        size = len(text.encode())
        if size > bytes_max:
            bad.append((code, f"has {size} bytes, at most {bytes_max} are allowed: {text!r:.40}…"))
        elif "\0" in text:
            bad.append((code, f"holds a NUL character: {text!r:.80}"))
        elif not text and not empty:
            bad.append((code, "is empty"))
    return bad


def _not_utf8(dictionary: pa.Array) -> list[tuple[int, str]]:
    bad = []
    for code, data in enumerate(dictionary.cast(pa.binary()).to_pylist()):
        try:
            data.decode()
        except UnicodeDecodeError as error:
            bad.append((code, f"is not valid UTF-8 at byte {error.start}: {data!r:.80}"))
    return bad


def _has_nul(dictionary: pa.Array) -> bool:
    data = dictionary.buffers()[2]
    # The buffer may hold more than this array's texts; a NUL there only sends us the slow way.
    return data is not None and not np.frombuffer(data, np.uint8).all()


def _flat(column: pa.Array) -> tuple[Codes, pa.Array, pa.Array]:
    kind = column.type
    if pa.types.is_struct(kind):
        return _flat_struct(column)
    is_pairs = (
        (pa.types.is_list(kind) or pa.types.is_large_list(kind))
        and pa.types.is_struct(kind.value_type)
        and [field.name for field in kind.value_type] == ["key", "value"]
    )
    if is_pairs:
        column = column.cast(pa.list_(kind.value_type))
        offsets = column.offsets.to_numpy()
        keys, items = column.values.flatten()  # unlike .field(), it carries the pairs' own nulls into their fields
    elif pa.types.is_map(kind):
        keys, items, offsets = column.keys, column.items, column.offsets.to_numpy()
    else:
        raise InvalidRequest(f"column 'labels': type {kind} is neither a map, a struct nor a list of (key, value)")
    # Views of texts know neither slices nor filters.
    keys = keys.cast(pa.utf8()) if pa.types.is_string_view(keys.type) else keys
    items = items.cast(pa.utf8()) if pa.types.is_string_view(items.type) else items
    first, end = int(offsets[0]), int(offsets[-1])
    keys, items, offsets = keys.slice(first, end - first), items.slice(first, end - first), offsets - offsets[0]
    return _without_null_rows(column, offsets.astype(np.int32, copy=False), keys, items)


def _without_null_rows(
    column: pa.Array, offsets: Codes, keys: pa.Array, items: pa.Array
) -> tuple[Codes, pa.Array, pa.Array]:
    """A null row may still span entries: they are not labels of anything."""
    if not column.null_count:
        return offsets, keys, items
    valid = column.is_valid().to_numpy(zero_copy_only=False)
    counts = np.diff(offsets)
    keep = pa.array(np.repeat(valid, counts))
    counts = np.where(valid, counts, 0)
    return _offsets_of(counts), keys.filter(keep), items.filter(keep)


def _flat_struct(column: pa.StructArray) -> tuple[Codes, pa.Array, pa.Array]:
    """A struct of texts: each field is a label, null is absent."""
    names = [field.name for field in column.type]
    fields = column.flatten()  # unlike .field(), it carries the struct's own nulls into its fields
    valid = np.column_stack([field.is_valid().to_numpy(zero_copy_only=False) for field in fields]) if fields else None
    if valid is None:
        return np.zeros(len(column) + 1, np.int32), pa.array([], pa.utf8()), pa.array([], pa.utf8())
    plain = [plain_text(f"column 'labels': label {name!r}", f) for name, f in zip(names, fields, strict=True)]
    rows, at = np.nonzero(valid)
    table = pa.concat_arrays(plain)
    keys = pa.DictionaryArray.from_arrays(pa.array(at.astype(np.int32)), pa.array(names, pa.utf8()))
    return _offsets_of(valid.sum(axis=1)), keys, table.take(pa.array(at * len(column) + rows))


def coded_texts(what: str, column: pa.Array) -> pa.DictionaryArray | int:
    """The texts under int32 codes, each text under one code; or the place of the first null."""
    if column.null_count:
        return int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
    if column.type == TEXT_CODES:
        column = compact_codes(column)
        if _is_sound(column.dictionary):
            return column
    plain = plain_text(what, column)
    return coded_texts(what, plain) if plain.null_count else plain.dictionary_encode()


def _is_sound(dictionary: pa.Array) -> bool:
    """Foreign dictionaries may hold nulls, a text twice, or bytes that are no text, used or not."""
    try:
        dictionary.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return not dictionary.null_count and pc.count_distinct(dictionary).as_py() == len(dictionary)


def plain_text(what: str, column: pa.Array) -> pa.Array:
    """The column as utf8 without codes; InvalidRequest if it is not text."""
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if pa.types.is_null(kind):
        return pa.nulls(len(column), pa.utf8())
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)):
        raise InvalidRequest(f"{what} has type {column.type}, which is not text")
    if pa.types.is_dictionary(column.type):
        return column.dictionary.cast(pa.utf8()).take(column.indices)
    return column.cast(pa.utf8())


def _coded(what: str, column: pa.Array, offsets: Codes) -> pa.DictionaryArray:
    coded = coded_texts(f"column 'labels': {what}", column)
    if isinstance(coded, int):
        row = _row_of(coded, offsets)
        raise InvalidRequest(f"row {row}, column 'labels': {what} is null; leave the label out instead")
    return coded


def _check_unique(keys: pa.DictionaryArray, offsets: Codes) -> None:
    codes = keys.indices.to_numpy()
    if len(codes) < 2:
        return
    rising = np.diff(codes) > 0
    starts = offsets[1:-1]
    rising[starts[(starts > 0) & (starts < len(codes))] - 1] = True  # a step into the next row says nothing
    if rising.all():
        return
    rows = np.repeat(np.arange(len(offsets) - 1, dtype=np.int64), np.diff(offsets))
    pairs = rows * len(keys.dictionary) + codes
    order = np.sort(pairs)
    twice = order[1:][order[1:] == order[:-1]]
    if len(twice):
        row, code = divmod(int(twice[0]), len(keys.dictionary))
        raise InvalidRequest(f"row {row}, column 'labels': label {keys.dictionary[code].as_py()!r} is there twice")


def _offsets_of(counts: npt.NDArray[np.int64]) -> Codes:
    offsets = np.zeros(len(counts) + 1, np.int32)
    np.cumsum(counts, out=offsets[1:])
    return offsets


def _row_of(entry: int, offsets: Codes | None) -> int:
    return entry if offsets is None else int(np.searchsorted(offsets, entry, side="right")) - 1
