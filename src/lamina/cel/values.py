"""Values over a batch: numbers, texts and bytes, each with the rows that are errors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lamina.cel.coded import Coded, Mask
from lamina.cel.columns import Columns

Array = npt.NDArray[np.int64] | npt.NDArray[np.float64]
NumberKind = Literal["int", "double", "time", "duration"]
"""Times and durations are microseconds."""


class Unsupported(Exception):
    """This part of an expression has no vector form; the official runtime evaluates it."""


@dataclass(frozen=True, slots=True)
class Numbers:
    """A number per row, or one for all of them; `bad` rows are errors (None: none is, True: all are)."""

    values: Array | int | float
    bad: Mask | bool | None = None


@dataclass(frozen=True, slots=True)
class NumberOp:
    kind: NumberKind
    run: Callable[[Columns], Numbers]
    constant: int | float | None = None


@dataclass(frozen=True, slots=True)
class TextOp:
    run: Callable[[Columns], Coded]
    constant: str | None = None


@dataclass(frozen=True, slots=True)
class BytesOp:
    """A binary column; null is an error."""

    run: Callable[[Columns], pa.BinaryArray]
    constant: bytes | None = None


def number_constant(kind: NumberKind, value: int | float) -> NumberOp:
    numbers = Numbers(value)
    return NumberOp(kind, lambda _: numbers, value)


def number_column(kind: NumberKind, name: str) -> NumberOp:
    def run(columns: Columns) -> Numbers:
        values, missing = columns.ints(name)
        return Numbers(values, missing)

    return NumberOp(kind, run)


def bad_of(*parts: Mask | bool | None) -> Mask | bool | None:
    """Rows that are errors in any of the parts."""
    found: Mask | bool | None = None
    for part in parts:
        if part is True:
            return True
        if part is None or part is False:
            continue
        found = part if found is None else found | part
    return found


def without(mask: Mask, bad: Mask | bool | None) -> Mask:
    """The mask outside the bad rows."""
    if bad is None or bad is False:
        return mask
    if bad is True:
        return np.zeros(len(mask), np.bool_)
    return mask & ~bad


def spread(mask: Mask | np.bool_ | bool, count: int) -> Mask:
    """A mask for every row of what may be one answer for all."""
    return mask if isinstance(mask, np.ndarray) and mask.ndim else np.full(count, bool(mask))
