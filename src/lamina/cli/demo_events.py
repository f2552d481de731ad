"""The events of `lamina demo`: made in bulk, the same in every run, and known by their number alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

TOPICS = ("orders/eu", "orders/us", "payments/eu", "payments/us", "visits/web", "visits/app")
KEYS = 50_000
FIRST_US = 1_750_000_000_000_000
STEP_US = 1_000
_LABELS = {
    "app": ("shop", "billing", "site"),
    "region": ("eu", "us"),
    "level": ("info", "warning", "error"),
}


def event_batch(first: int, count: int) -> pa.RecordBatch:
    """Events first … first + count - 1."""
    numbers = np.arange(first, first + count, dtype=np.int64)
    topics = _codes(numbers, len(TOPICS), 1)
    columns = {
        "timestamp": pa.array(FIRST_US + numbers * STEP_US),
        "topic": pa.DictionaryArray.from_arrays(pa.array(topics), list(TOPICS)),
        "key": _keys(numbers),
        "value": _values(numbers),
        "labels": _labels(numbers),
    }
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def keys_of(numbers: Sequence[int]) -> list[bytes]:
    keys: list[bytes] = _keys(np.array(numbers, np.int64)).to_pylist()
    return keys


def values_of(numbers: Sequence[int]) -> list[bytes]:
    values: list[bytes] = _values(np.array(numbers, np.int64)).to_pylist()
    return values


def numbers_with(app: str, level: str, first: int, count: int) -> list[int]:
    """Those of the events first … first + count - 1 that have these two labels."""
    numbers = np.arange(first, first + count, dtype=np.int64)
    has_both = np.ones(count, np.bool_)
    for column, (key, choices) in enumerate(_LABELS.items()):
        wanted = {"app": app, "level": level}.get(key)
        if wanted is not None:
            has_both &= _codes(numbers, len(choices), 5 + column) == choices.index(wanted)
    found: list[int] = numbers[has_both].tolist()
    return found


def last_of_key(number: int, count: int) -> int:
    """The number of the newest of the first `count` events that has the key of event `number`."""
    return count - 1 - (count - 1 - number) % KEYS


def _keys(numbers: npt.NDArray[np.int64]) -> pa.Array:
    return _joined("customer-", _text(numbers % KEYS, 6)).cast(pa.binary())


def _values(numbers: npt.NDArray[np.int64]) -> pa.Array:
    """About 100 bytes of JSON."""
    cents = _scatter(numbers, 3) % 100_000
    return _joined(
        '{"event": "',
        _text(numbers, 10),
        '", "customer": "customer-',
        _text(numbers % KEYS, 6),
        '", "cents": "',
        _text(cents, 6),
        '", "note": "thank you, come again"}',
    ).cast(pa.binary())


def _labels(numbers: npt.NDArray[np.int64]) -> pa.MapArray:
    """Three labels for every event, as the codes that the store keeps."""
    texts = [text for choices in _LABELS.values() for text in choices]
    codes = np.empty((len(numbers), len(_LABELS)), np.int32)
    start = 0
    for column, choices in enumerate(_LABELS.values()):
        codes[:, column] = start + _codes(numbers, len(choices), 5 + column)
        start += len(choices)
    keys = np.tile(np.arange(len(_LABELS), dtype=np.int32), len(numbers))
    offsets = np.arange(len(numbers) + 1, dtype=np.int32) * np.int32(len(_LABELS))
    return pa.MapArray.from_arrays(
        pa.array(offsets),
        pa.DictionaryArray.from_arrays(pa.array(keys), list(_LABELS)),
        pa.DictionaryArray.from_arrays(pa.array(codes.reshape(-1)), texts),
    )


def _codes(numbers: npt.NDArray[np.int64], choices: int, salt: int) -> npt.NDArray[np.int32]:
    return (_scatter(numbers, salt) % choices).astype(np.int32)


def _scatter(numbers: npt.NDArray[np.int64], salt: int) -> npt.NDArray[np.int64]:
    """Numbers without order, but the same for the same event."""
    mixed = (numbers.astype(np.uint64) + np.uint64(salt)) * np.uint64(0x9E3779B97F4A7C15)
    return (mixed >> np.uint64(33)).astype(np.int64)


def _text(numbers: npt.NDArray[np.int64], width: int) -> pa.Array:
    return pc.utf8_lpad(pa.array(numbers).cast(pa.utf8()), width, "0")


def _joined(*parts: str | pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(*parts, "")
