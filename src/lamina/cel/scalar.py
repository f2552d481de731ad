"""Message by message: the official runtime on one message's variables, and on those rows that need it."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

import numpy as np

from lamina.cel.ast import Call, Const, Fold, Ident, Node, Select, children
from lamina.cel.coded import Coded, Mask
from lamina.cel.columns import Columns, with_time
from lamina.cel.folds import replaced
from lamina.cel.kleene import Both, Truth
from lamina.cel.official import KEY_BASE64, TIME_TEXT, VARIABLES, Programs
from lamina.cel.source import to_text
from lamina.errors import InvalidRequest

_programs = Programs()
_EXACT_YEAR = 2200
"""Up to here a float of seconds tells microseconds apart."""


def truth(node: Node, text: str, variables: Mapping[str, object]) -> bool | None:
    """Whether the expression, given as a tree and as text, is true for one message; None for an error."""
    variables = with_time(variables)
    for name in ("labels", "topic", "ref"):
        _refuse_nul(name, variables.get(name))
    return _answer(node, text, variables)


def _answer(node: Node, text: str, variables: Mapping[str, object]) -> bool | None:
    key, time = variables.get("key"), variables.get("time")
    has_nul = isinstance(key, bytes) and b"\0" in key
    is_far = isinstance(time, datetime) and time.year > _EXACT_YEAR
    if has_nul or is_far:
        text, variables = _exact(node, variables)
    return _programs.truth(text, variables)


def _exact(node: Node, variables: Mapping[str, object]) -> tuple[str, Mapping[str, object]]:
    """The same question without what the binding changes: it cuts bytes at a NUL, and takes far times by float."""
    given = dict(variables)
    key, time = given.pop("key", None), given.pop("time", None)
    if isinstance(key, bytes):
        given[KEY_BASE64] = b64encode(key).decode()
        node = replaced(node, "key", Call("decode", Ident("base64"), (Ident(KEY_BASE64),)))
    if isinstance(time, datetime):
        given[TIME_TEXT] = time.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        node = replaced(node, "time", Call("timestamp", None, (Ident(TIME_TEXT),)))
    return to_text(node), given


class Slow(Truth):
    """A part that has no vector form: once per distinct combination of the texts it reads, else row by row."""

    is_slow = True

    def __init__(self, node: Node) -> None:
        self.node = node
        self.text = to_text(node)
        self.reads = frozenset(_reads(node, frozenset()))

    def true(self, columns: Columns) -> Mask:
        return self.both(columns)[0]

    def false(self, columns: Columns) -> Mask:
        return self.both(columns)[1]

    def both(self, columns: Columns) -> Both:
        if all(isinstance(read, tuple) or read == "topic" for read in self.reads):
            return self._by_texts(columns)
        names = {read if isinstance(read, str) else "labels" for read in self.reads} & VARIABLES.keys()
        rows = (columns.variables(row, names) for row in range(len(columns)))
        return _masks([_answer(self.node, self.text, variables) for variables in rows])

    def _by_texts(self, columns: Columns) -> Both:
        read = sorted(self.reads, key=str)
        coded = [columns.texts(one) if isinstance(one, str) else columns.label(one[0]) for one in read]
        combined = np.zeros(len(columns), np.int64)
        for column in coded:
            # Renumbered after each column, so that the product of all their sizes never overflows.
            _, combined = np.unique(combined * (len(column.texts) + 1) + column.codes + 1, return_inverse=True)
        _, first, inverse = np.unique(combined, return_index=True, return_inverse=True)
        rows = (_variables(read, coded, int(row)) for row in first)
        true, false = _masks([_answer(self.node, self.text, variables) for variables in rows])
        return true[inverse], false[inverse]


Read = str | tuple[str]
"""A variable, or (in a tuple) one label."""


def _reads(node: Node, bound: frozenset[str]) -> Iterator[Read]:
    """Which variables and labels a node reads; `labels` itself if more than single, constant keys are asked."""
    match node:
        case Ident(name):
            if name not in bound:
                yield name.removeprefix(".")
        case Call("_[_]", None, (Ident("labels"), Const("string", str(key)))) if "labels" not in bound:
            yield (key,)
        case Call("@in", None, (Const("string", str(key)), Ident("labels"))) if "labels" not in bound:
            yield (key,)
        case Select(Ident("labels"), key) if "labels" not in bound:
            yield (key,)
        case Fold():
            yield from _reads(node.over, bound)
            inner = bound | {node.variable, node.accumulator}
            for part in (node.start, node.condition, node.step, node.result):
                yield from _reads(part, inner)
        case _:
            for child in children(node):
                yield from _reads(child, bound)


def _variables(read: list[Read], coded: list[Coded], row: int) -> dict[str, object]:
    labels: dict[str, str] = {}
    found: dict[str, object] = {"labels": labels}
    for one, column in zip(read, coded, strict=True):
        code = int(column.codes[row])
        if code < 0:
            continue
        text = column.texts[code].as_py()
        if isinstance(one, str):
            found[one] = text
        else:
            labels[one[0]] = text
    return found


def _masks(answers: list[bool | None]) -> Both:
    true = np.fromiter((answer is True for answer in answers), np.bool_, len(answers))
    false = np.fromiter((answer is False for answer in answers), np.bool_, len(answers))
    return true, false


def _refuse_nul(name: str, value: object) -> None:
    texts = (*value, *value.values()) if isinstance(value, Mapping) else (value,)
    for text in texts:
        if isinstance(text, str) and "\0" in text:
            raise InvalidRequest(f"{name} holds a NUL character: {text!r:.80}")
