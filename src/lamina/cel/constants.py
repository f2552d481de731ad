"""Constant parts of an expression: what they are worth before any message is looked at."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache

from lamina.cel import official
from lamina.cel.ast import Call, Const, ListOf, Node, walk
from lamina.cel.source import to_text

INT_MIN, INT_MAX = -(2**63), 2**63 - 1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_TIME_CALLS = frozenset({"timestamp", "duration", "_+_", "_-_"})


def text_of(node: Node) -> str | None:
    return node.value if isinstance(node, Const) and isinstance(node.value, str) else None


def int_of(node: Node) -> int | None:
    """The integer that a node without variables is worth; None if it is none, or an error."""
    match node:
        case Const("int", int(value)):
            return value
        case Call("-_", None, (operand,)):
            positive = int_of(operand)
            return None if positive is None else _in_range(-positive)
        case Call(function, None, (left, right)) if function in ("_+_", "_-_", "_*_", "_/_", "_%_"):
            a, b = int_of(left), int_of(right)
            return None if a is None or b is None else _computed(function, a, b)
    return None


def time_of(node: Node) -> int | None:
    """The microseconds of a timestamp without variables; None if it is none, an error, or finer than that."""
    if not _is_constant_time(node):
        return None
    value = _time_value(to_text(node))
    return (value - _EPOCH) // _MICROSECOND if isinstance(value, datetime) else None


def duration_of(node: Node) -> int | None:
    """The microseconds of a duration without variables; None if it is none, an error, or finer than that."""
    if not _is_constant_time(node):
        return None
    value = _time_value(to_text(node))
    return value // _MICROSECOND if isinstance(value, timedelta) else None


def ints_of(node: Node) -> tuple[int, ...] | None:
    """The integers of a constant list."""
    if not isinstance(node, ListOf):
        return None
    found = tuple(value for value in map(int_of, node.items) if value is not None)
    return found if len(found) == len(node.items) else None


def texts_of(node: Node) -> tuple[str, ...] | None:
    """The texts of a constant list."""
    if not isinstance(node, ListOf):
        return None
    found = tuple(value for value in map(text_of, node.items) if value is not None)
    return found if len(found) == len(node.items) else None


def _computed(function: str, a: int, b: int) -> int | None:
    match function:
        case "_+_":
            return _in_range(a + b)
        case "_-_":
            return _in_range(a - b)
        case "_*_":
            return _in_range(a * b)
    if b == 0 or (a == INT_MIN and b == -1):
        return None
    quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)  # towards zero, as the remainder has a's sign
    return quotient if function == "_/_" else a - b * quotient


def _in_range(value: int) -> int | None:
    return value if INT_MIN <= value <= INT_MAX else None


def _is_constant_time(node: Node) -> bool:
    if not isinstance(node, Call) or node.function not in _TIME_CALLS:
        return False
    return all(
        isinstance(part, Const) or (isinstance(part, Call) and (part.function in _TIME_CALLS or part.function == "-_"))
        for part in walk(node)
    )


@lru_cache(1024)
def _time_value(text: str) -> datetime | timedelta | None:
    """What the official runtime makes of it, if microseconds hold it exactly: CEL itself goes to nanoseconds."""
    value = official.constant(text)
    if isinstance(value, datetime):
        same = f'timestamp("{value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ").zfill(27)}")'
    elif isinstance(value, timedelta):
        same = f'duration("{value // _MICROSECOND}us")'
    else:
        return None
    return value if official.constant(f"{text} == {same}") is True else None
