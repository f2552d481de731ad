"""Single comparisons that indexes answer: labels, topics, priorities, partitions, times and offsets.

A condition is asked for when it is true or when it is false. A label that is missing and a priority that is not set
are errors, neither true nor false: the negation of such a comparison still requires them to be there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import eq, ge, gt, le, lt, ne

from lamina.cel.ast import (
    EQ,
    FLIPPED,
    GE,
    GT,
    IN,
    INVERSE,
    LE,
    LT,
    NE,
    Call,
    Const,
    Ident,
    Node,
    Select,
    call,
    negated,
)
from lamina.cel.constants import INT_MAX, INT_MIN, int_of, ints_of, text_of, texts_of, time_of
from lamina.cel.plan import Group
from lamina.cel.residual import Leftover

PRIORITIES = range(128)
"""What a message's priority may be."""
_COMPARE: dict[str, Callable[[int, int], bool]] = {EQ: eq, NE: ne, LT: lt, LE: le, GT: gt, GE: ge}
_ON_TEXT = frozenset({"startsWith", "endsWith", "contains", "matches"})


def condition(node: Node, wanted: bool) -> list[Group] | None:
    """The groups in which a comparison is true, or false; what no index answers is left in their residual."""
    if isinstance(node, Select):
        return _presence(node.operand, node.field, wanted) if node.is_test else None
    if not isinstance(node, Call):
        return None
    if node.function == IN:
        return _among(node, wanted)
    if node.function in FLIPPED:
        return _comparison(node, wanted)
    if node.function in _ON_TEXT and node.target is not None and (key := label_key(node.target)) is not None:
        return [Group(present=frozenset({key}), residual=_left(node, wanted))]
    return None


def label_key(node: Node) -> str | None:
    """The key of `labels["key"]` or `labels.key`."""
    match node:
        case Call("_[_]", None, (Ident("labels"), Const("string", str(key)))):
            return key
        case Select(Ident("labels"), key, False):
            return key
    return None


def _presence(operand: Node, key: str, wanted: bool) -> list[Group] | None:
    if operand != Ident("labels"):
        return None
    return [Group(present=frozenset({key})) if wanted else Group(absent=frozenset({key}))]


def _among(node: Call, wanted: bool) -> list[Group] | None:
    item, container = node.args
    if container == Ident("labels"):
        key = text_of(item)
        return None if key is None else _presence(container, key, wanted)
    texts, numbers = texts_of(container), ints_of(container)
    if texts is not None:
        if (key := label_key(item)) is not None:
            return _label_among(key, frozenset(texts), node, wanted)
        if item == Ident("topic") and wanted:
            return _if_any(texts, Group(topics=frozenset(texts)))
    if numbers is not None and isinstance(item, Ident):
        return _number_among(item.name, frozenset(numbers), node, wanted)
    return None


def _number_among(name: str, numbers: frozenset[int], node: Call, wanted: bool) -> list[Group] | None:
    if name == "priority":
        found = frozenset(p for p in PRIORITIES if (p in numbers) == wanted)
        return _if_any(found, Group(priorities=found))
    if not wanted:
        return None
    if name == "partition":
        return _if_any(numbers, Group(partitions=numbers))
    if name in ("timestamp", "offset"):
        if not numbers:
            return []
        hull = _bounds(name, GE, min(numbers)), _bounds(name, LE, max(numbers))
        met = [a.meet(b) for a in hull[0] for b in hull[1]]
        return [both.meet(Group(residual=_left(node, wanted))) or both for both in met if both is not None]
    return None


def _comparison(node: Call, wanted: bool) -> list[Group] | None:
    left, right = node.args
    if isinstance(left, Const) or (_is_constant(left) and not _is_constant(right)):
        return _compared(FLIPPED[node.function], right, left, node, wanted)
    return _compared(node.function, left, right, node, wanted)


def _compared(sign: str, left: Node, right: Node, node: Call, wanted: bool) -> list[Group] | None:
    """`left sign right`, where only the right side may be constant."""
    text = text_of(right)
    if text is not None:
        return _text_compared(sign, left, text, node, wanted)
    if not isinstance(left, Ident):
        return None
    if not wanted:
        sign = INVERSE[sign]  # no error is possible, or it is excluded below: false is the opposite of true
    if left.name == "time":
        time = time_of(right)
        return None if time is None or sign == NE else _bounds("timestamp", sign, time)
    number = int_of(right)
    if number is None:
        return None
    match left.name:
        case "priority":
            found = frozenset(p for p in PRIORITIES if _COMPARE[sign](p, number))
            return _if_any(found, Group(priorities=found))
        case "partition" if sign == EQ:
            return [Group(partitions=frozenset({number}))]
        case "timestamp" | "offset" if sign != NE:
            return _bounds(left.name, sign, number)
    return None


def _text_compared(sign: str, left: Node, text: str, node: Call, wanted: bool) -> list[Group] | None:
    is_equal = sign in (EQ, NE) and (sign == EQ) == wanted
    if (key := label_key(left)) is not None:
        if is_equal:
            return [Group(labels={key: frozenset({text})})]
        return [Group(present=frozenset({key}), residual=_left(node, wanted))]
    if left == Ident("topic") and is_equal:
        return [Group(topics=frozenset({text}))]
    if left == Ident("ref") and is_equal and (place := _place(text)) is not None:
        partition, offset = place
        at = Group(partitions=frozenset({partition}), residual=_left(node, wanted))
        met = (at.meet(bounds) for bounds in _bounds("offset", EQ, offset))
        return [group for group in met if group is not None]
    return None


def _label_among(key: str, values: frozenset[str], node: Call, wanted: bool) -> list[Group]:
    if wanted:
        return _if_any(values, Group(labels={key: values}))
    return [Group(present=frozenset({key}), residual=_left(node, wanted) if values else ())]


def _bounds(name: str, sign: str, number: int) -> list[Group]:
    """Half-open bounds; none at the end of the range, and no group where nothing can be."""
    start = {GE: number, EQ: number, GT: number + 1}.get(sign)
    end = {LT: number, LE: number + 1, EQ: number + 1}.get(sign)
    if (start is not None and start > INT_MAX) or (end is not None and end <= INT_MIN):
        return []
    start = None if start is None or start <= INT_MIN else start
    end = None if end is None or end > INT_MAX else end
    return [Group(start=start, end=end) if name == "timestamp" else Group(offset_start=start, offset_end=end)]


def _left(node: Call, wanted: bool) -> tuple[Leftover, ...]:
    """The comparison itself, to be evaluated; the opposite sign reads better than a negation and means the same."""
    if wanted:
        return (Leftover(node),)
    if node.function in (EQ, NE):
        return (Leftover(call(INVERSE[node.function], *node.args)),)
    return (Leftover(negated(node)),)


def _if_any(values: Iterable[object], group: Group) -> list[Group]:
    return [group] if values else []


def _is_constant(node: Node) -> bool:
    return int_of(node) is not None or time_of(node) is not None


def _place(ref: str) -> tuple[int, int] | None:
    """The partition and the offset of a ref, if it is written as refs are."""
    parts = ref.rsplit("/", 2)
    if len(parts) != 3:
        return None
    numbers = [int(part) for part in parts[1:] if part.isascii() and part.isdecimal() and str(int(part)) == part]
    return (numbers[0], numbers[1]) if len(numbers) == 2 and max(numbers) <= INT_MAX else None
