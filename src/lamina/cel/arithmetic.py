"""Arithmetic as CEL means it: 64-bit integers that do not wrap, division towards zero, times of the years 1 to 9999.

What overflows, or divides by zero, is an error in its own row and nothing in the others.
"""

from __future__ import annotations

import operator
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from lamina.cel.coded import Mask
from lamina.cel.columns import TIME_US_MAX, TIME_US_MIN, Columns
from lamina.cel.constants import INT_MAX, INT_MIN
from lamina.cel.values import Array, NumberKind, NumberOp, Numbers, Unsupported, bad_of

Ints = npt.NDArray[np.int64]
_INT_MIN = np.int64(INT_MIN)
_SECOND = 1_000_000
DURATION_US_MAX = 9_223_372_036_854_775


def arithmetic(function: str, left: NumberOp, right: NumberOp) -> NumberOp:
    """`left function right`; Unsupported for kinds that are not vectorised."""
    kinds = left.kind, right.kind
    if kinds == ("int", "int"):
        return _op("int", _INT_OPS[function], left, right)
    if kinds == ("double", "double") and function in _DOUBLE_OPS:
        return _op("double", _DOUBLE_OPS[function], left, right)
    result: dict[tuple[str, str, str], NumberKind] = {
        ("_-_", "time", "time"): "duration",
        ("_-_", "time", "duration"): "time",
        ("_+_", "time", "duration"): "time",
        ("_+_", "duration", "time"): "time",
    }
    kind = result.get((function, *kinds))
    if kind is None:
        raise Unsupported
    return _op(kind, _time_sum if kind == "time" else _difference, left, right, negate=function == "_-_")


def negative(operand: NumberOp) -> NumberOp:
    if operand.kind == "int":
        return arithmetic("_-_", NumberOp("int", lambda _: Numbers(0), 0), operand)
    if operand.kind != "double":
        raise Unsupported

    def run(columns: Columns) -> Numbers:
        numbers = operand.run(columns)
        return Numbers(-numbers.values, numbers.bad)

    return NumberOp("double", run)


def checked_time(numbers: Numbers) -> Numbers:
    """Times, of which those outside the years 1 to 9999 are errors."""
    values = np.asarray(numbers.values)
    outside = (values < TIME_US_MIN) | (values > TIME_US_MAX)
    return Numbers(numbers.values, bad_of(numbers.bad, _flag(outside)))


def time_of_seconds(seconds: NumberOp) -> NumberOp:
    """`timestamp(seconds)`."""

    def run(columns: Columns) -> Numbers:
        numbers = seconds.run(columns)
        values = np.asarray(numbers.values)
        outside = (values < TIME_US_MIN // _SECOND) | (values > TIME_US_MAX // _SECOND)
        return Numbers(np.where(outside, 0, values) * _SECOND, bad_of(numbers.bad, _flag(outside)))

    return NumberOp("time", run)


def _op(
    kind: NumberKind, compute: Callable[..., Numbers], left: NumberOp, right: NumberOp, **options: bool
) -> NumberOp:
    def run(columns: Columns) -> Numbers:
        a, b = left.run(columns), right.run(columns)
        with np.errstate(all="ignore"):
            result = compute(_wide(a.values), _wide(b.values), **options)
        return Numbers(result.values, bad_of(a.bad, b.bad, result.bad))

    return NumberOp(kind, run)


def _wide(value: Array | int | float) -> Array:
    """Python's integers do not wrap: numpy's are what the checks below are for."""
    return np.asarray(value, np.int64) if isinstance(value, int) else np.asarray(value)


def _add(a: Ints, b: Ints) -> Numbers:
    total = a + b
    if _fits(a, b, operator.add):
        return Numbers(total)
    return Numbers(total, _flag(((a ^ total) & (b ^ total)) < 0))


def _subtract(a: Ints, b: Ints) -> Numbers:
    rest = a - b
    if _fits(a, b, operator.sub):
        return Numbers(rest)
    return Numbers(rest, _flag(((a ^ b) & (a ^ rest)) < 0))


def _multiply(a: Ints, b: Ints) -> Numbers:
    product = a * b
    if _fits(a, b, operator.mul):
        return Numbers(product)
    safe = np.where(b == 0, 1, b)
    # INT_MIN * -1 wraps to INT_MIN, and so does the division that would find it out.
    edge = ((a == -1) & (b == _INT_MIN)) | ((b == -1) & (a == _INT_MIN))
    wrapped = (b != 0) & (np.where(edge, a + 1, product // np.where(edge, 1, safe)) != a)
    return Numbers(product, _flag(wrapped))


def _divide(a: Ints, b: Ints) -> Numbers:
    if _is_simple(a, b):
        return Numbers(a // b)
    quotient, _, bad = _divided(a, b)
    return Numbers(quotient, bad)


def _remainder(a: Ints, b: Ints) -> Numbers:
    if _is_simple(a, b):
        return Numbers(a - a // b * b)  # numpy divides by one number much quicker than it takes remainders
    _, rest, bad = _divided(a, b)
    return Numbers(rest, bad)


def _divided(a: Ints, b: Ints) -> tuple[Ints, Ints, Mask | bool | None]:
    bad = (b == 0) | ((a == _INT_MIN) & (b == -1))
    safe = np.where(bad, 1, b)
    down = a // safe
    rest = a - down * safe
    # numpy rounds down; CEL goes towards zero, so that the remainder has the sign of the dividend.
    off = (rest != 0) & ((a < 0) != (safe < 0))
    return down + off, np.where(off, rest - safe, rest), _flag(bad)


def _is_simple(a: Ints, b: Ints) -> bool:
    """Nothing negative and one divisor that is not zero: rounding down is rounding towards zero."""
    return not b.ndim and int(b) > 0 and a.ndim > 0 and a.size > 0 and int(a.min()) >= 0


def _fits(a: Ints, b: Ints, compute: Callable[[int, int], int]) -> bool:
    """Whether no row can overflow, by the smallest and largest numbers alone: mostly so, and cheap to know."""
    if not a.size or not b.size:
        return True
    ends = [compute(x, y) for x in (int(a.min()), int(a.max())) for y in (int(b.min()), int(b.max()))]
    return min(ends) >= INT_MIN and max(ends) <= INT_MAX


def _time_sum(a: Ints, b: Ints, *, negate: bool) -> Numbers:
    return checked_time(Numbers(a - b if negate else a + b))


def _difference(a: Ints, b: Ints, *, negate: bool) -> Numbers:
    """A duration is an error beyond 64 bits of nanoseconds, and so are its whole seconds alone."""
    seconds = a // _SECOND - b // _SECOND
    total = a - b
    return Numbers(total, _flag((np.abs(seconds) > DURATION_US_MAX // _SECOND) | (np.abs(total) > DURATION_US_MAX)))


def _flag(bad: Mask | np.bool_) -> Mask | bool | None:
    if isinstance(bad, np.ndarray) and bad.ndim:
        return bad if bad.any() else None
    return bool(bad) or None


_INT_OPS: dict[str, Callable[..., Numbers]] = {
    "_+_": _add,
    "_-_": _subtract,
    "_*_": _multiply,
    "_/_": _divide,
    "_%_": _remainder,
}
_DOUBLE_OPS: dict[str, Callable[..., Numbers]] = {
    "_+_": lambda a, b: Numbers(a + b),
    "_-_": lambda a, b: Numbers(a - b),
    "_*_": lambda a, b: Numbers(a * b),
    "_/_": lambda a, b: Numbers(a / b),
}
