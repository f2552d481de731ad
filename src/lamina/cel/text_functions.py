"""Functions of texts and bytes. They run once per distinct text; the rows only look their answer up."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lamina.cel.coded import Coded, Mask, plain_texts
from lamina.cel.columns import Columns
from lamina.cel.compare import spread_table
from lamina.cel.constants import INT_MAX, INT_MIN
from lamina.cel.kleene import Truth
from lamina.cel.values import BytesOp, NumberOp, Numbers, TextOp, Unsupported

_INTEGER = re.compile(r"[ \t\n\v\f\r]*[+-]?[0-9]+[ \t\n\v\f\r]*")
_TESTS: dict[str, Callable[[pa.StringArray, str], pa.BooleanArray]] = {
    "startsWith": pc.starts_with,
    "endsWith": pc.ends_with,
    "contains": pc.match_substring,
    "matches": pc.match_substring_regex,
}
_CASES = {"lowerAscii": pc.ascii_lower, "upperAscii": pc.ascii_upper}


def is_test(function: str) -> bool:
    return function in _TESTS


class TextTest(Truth):
    """`item.startsWith(constant)` and its like."""

    def __init__(self, function: str, item: TextOp, constant: TextOp) -> None:
        if constant.constant is None:
            raise Unsupported
        self.test = _TESTS[function]
        self.item, self.constant = item, constant.constant

    def true(self, columns: Columns) -> Mask:
        coded = self.item.run(columns).compact()
        return spread_table(coded, self.test(coded.texts, self.constant))

    def false(self, columns: Columns) -> Mask:
        coded = self.item.run(columns).compact()
        return spread_table(coded, pc.invert(self.test(coded.texts, self.constant)))


def text_size(item: TextOp) -> NumberOp:
    """In code points."""

    def run(columns: Columns) -> Numbers:
        coded = item.run(columns).compact()
        return _looked_up(coded, pc.utf8_length(coded.texts).fill_null(0).to_numpy().astype(np.int64), None)

    return NumberOp("int", run)


def text_to_int(item: TextOp) -> NumberOp:
    """`int(item)`: decimal digits with a sign and blanks around, within 64 bits; anything else is an error."""

    def run(columns: Columns) -> Numbers:
        coded = item.run(columns).compact()
        numbers = [None if text is None else _integer(text) for text in coded.texts.to_pylist()]
        bad = np.fromiter((number is None for number in numbers), np.bool_, len(numbers))
        return _looked_up(coded, np.fromiter((number or 0 for number in numbers), np.int64, len(numbers)), bad)

    return NumberOp("int", run)


def int_to_text(item: NumberOp) -> TextOp:
    def run(columns: Columns) -> Coded:
        numbers = item.run(columns)
        values = np.array(np.broadcast_to(np.asarray(numbers.values), len(columns)))
        coded = plain_texts(pa.array(values).cast(pa.utf8()))
        if numbers.bad is not None:
            coded = Coded(np.where(numbers.bad, -1, coded.codes), coded.texts)
        return coded

    return TextOp(run)


def bytes_to_text(item: BytesOp) -> TextOp:
    """`string(item)`: bytes that are not UTF-8 are errors."""

    def run(columns: Columns) -> Coded:
        data = item.run(columns)
        try:
            return plain_texts(data.cast(pa.utf8()))
        except pa.ArrowInvalid:
            return plain_texts(pa.array(map(_decoded, data.to_pylist()), pa.utf8()))

    return TextOp(run)


def bytes_size(item: BytesOp) -> NumberOp:
    def run(columns: Columns) -> Numbers:
        sizes = pc.binary_length(item.run(columns))
        bad = sizes.is_null().to_numpy(zero_copy_only=False) if sizes.null_count else None
        return Numbers(sizes.fill_null(0).to_numpy().astype(np.int64), bad)

    return NumberOp("int", run)


def change_case(function: str, item: TextOp) -> TextOp:
    change = _CASES.get(function)
    if change is None:
        raise Unsupported

    def run(columns: Columns) -> Coded:
        coded = item.run(columns).compact()
        return Coded(coded.codes, change(coded.texts))

    return TextOp(run)


def concatenate(left: TextOp, right: TextOp) -> TextOp:
    def run(columns: Columns) -> Coded:
        if right.constant is not None:
            coded = left.run(columns).compact()
            return Coded(coded.codes, pc.binary_join_element_wise(coded.texts, right.constant, ""))
        if left.constant is not None:
            coded = right.run(columns).compact()
            return Coded(coded.codes, pc.binary_join_element_wise(left.constant, coded.texts, ""))
        return plain_texts(pc.binary_join_element_wise(left.run(columns).strings(), right.run(columns).strings(), ""))

    return TextOp(run)


def _looked_up(coded: Coded, of_text: np.ndarray[tuple[int], np.dtype[np.int64]], bad: Mask | None) -> Numbers:
    values = np.append(of_text, 0)[coded.codes]
    if bad is None or not bad.any():
        return Numbers(values, coded.missing if coded.missing.any() else None)
    return Numbers(values, np.append(bad, True)[coded.codes])


def _integer(text: str) -> int | None:
    if not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if INT_MIN <= number <= INT_MAX else None


def _decoded(data: bytes | None) -> str | None:
    try:
        return None if data is None else data.decode()
    except UnicodeDecodeError:
        return None
