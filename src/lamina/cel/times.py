"""Times and conversions of numbers: `time`, the parts of a timestamp in UTC, and casts."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from lamina.cel.arithmetic import checked_time, time_of_seconds
from lamina.cel.columns import Columns
from lamina.cel.text_functions import int_to_text
from lamina.cel.values import NumberKind, NumberOp, Numbers, TextOp, Unsupported, number_column

Ints = npt.NDArray[np.int64]
_SECOND = 1_000_000
_DAY = 86_400 * _SECOND


def message_time() -> NumberOp:
    """`time`: the timestamp, as long as CEL can hold it."""
    timestamp = number_column("int", "timestamp")
    return NumberOp("time", lambda columns: checked_time(timestamp.run(columns)))


def converted(function: str, operand: NumberOp) -> NumberOp | TextOp:
    """A function of one number."""
    match function, operand.kind:
        case ("string", "int"):
            return int_to_text(operand)
        case ("int", "int") | ("double", "double") | ("timestamp", "time") | ("duration", "duration"):
            return operand
        case ("timestamp", "int"):
            return time_of_seconds(operand)
        case ("double", "int"):
            return _mapped("double", operand, lambda values: values.astype(np.float64))
        case ("int", "time"):
            return _mapped("int", operand, lambda values: values // _SECOND)
        case (_, "time") if function in _PARTS:
            return _mapped("int", operand, _PARTS[function])
    raise Unsupported


def _mapped(kind: NumberKind, operand: NumberOp, change: Callable[[Ints], npt.NDArray[np.generic]]) -> NumberOp:
    def run(columns: Columns) -> Numbers:
        numbers = operand.run(columns)
        return Numbers(change(np.asarray(numbers.values)), numbers.bad)  # type: ignore[arg-type]

    return NumberOp(kind, run)


def _calendar(values: Ints, unit: str, within: str) -> Ints:
    """How many units lie between the start of the larger one that a time is in, and the time."""
    times = values.astype("datetime64[us]")
    return times.astype(f"datetime64[{unit}]").astype(np.int64) - times.astype(f"datetime64[{within}]").astype(
        f"datetime64[{unit}]"
    ).astype(np.int64)


_PARTS: dict[str, Callable[[Ints], Ints]] = {
    "getFullYear": lambda values: values.astype("datetime64[us]").astype("datetime64[Y]").astype(np.int64) + 1970,
    "getMonth": lambda values: _calendar(values, "M", "Y"),
    "getDate": lambda values: _calendar(values, "D", "M") + 1,
    "getDayOfMonth": lambda values: _calendar(values, "D", "M"),
    "getDayOfYear": lambda values: _calendar(values, "D", "Y"),
    "getDayOfWeek": lambda values: (values // _DAY + 4) % 7,
    "getHours": lambda values: values % _DAY // (3600 * _SECOND),
    "getMinutes": lambda values: values % (3600 * _SECOND) // (60 * _SECOND),
    "getSeconds": lambda values: values % (60 * _SECOND) // _SECOND,
    "getMilliseconds": lambda values: values % _SECOND // 1000,
}
"""Months and the days of a year count from 0, Sunday is 0; `getDate` counts from 1."""
