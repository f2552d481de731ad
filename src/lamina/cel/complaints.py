"""Errors about a filter's text: what is wrong, where, and what was probably meant."""

from __future__ import annotations

import difflib
import re
from datetime import UTC, datetime

from lamina.cel.ast import EQ, GE, GT, LE, LT, NE, Call, Ident, Node, walk
from lamina.cel.constants import int_of
from lamina.cel.official import VARIABLES, Refused
from lamina.cel.source import to_text
from lamina.errors import FilterError

_FUNCTIONS = (
    *("all", "contains", "duration", "endsWith", "exists", "exists_one", "filter", "getFullYear", "getHours", "has"),
    *("indexOf", "int", "lowerAscii", "map", "matches", "replace", "size", "split", "startsWith", "string"),
    *("substring", "timestamp", "trim", "upperAscii"),
)
_WINDOW = 100
_UNKNOWN = re.compile(r"undeclared reference to '([^']*)'")
_OVERLOAD = re.compile(r"found no matching overload for '([^']*)' applied to '\((.*)\)'")
_UNEXPECTED = re.compile(r"Syntax error: (?:extraneous|mismatched) input '(.*?)' expecting")
_UNREADABLE = re.compile(r"Syntax error: token recognition error at: '(.*)'")
_CURLY = ("\u201c", "\u201d", "\u2018", "\u2019")
_WORDS = {"and": "&&", "or": "||", "not": "!", "AND": "&&", "OR": "||", "NOT": "!", "=": "==", "&": "&&", "|": "||"}
_TYPES = {"google.protobuf.Timestamp": "timestamp", "google.protobuf.Duration": "duration", "null_type": "null"}
_COMPARISONS = {EQ: "==", NE: "!=", LT: "<", LE: "<=", GT: ">", GE: ">="}
_SECONDS, _MILLISECONDS, _MICROSECONDS, _NANOSECONDS = 10**8, 10**11, 10**14, 253_402_300_800_000_000
"""From here on a number looks like a time in that unit: 1973 and later, up to the year 9999."""


def complaint(text: str, reason: str, line: int, column: int, hint: str = "") -> FilterError:
    """The error with the source line and a mark under the place."""
    lines = text.split("\n")
    line = min(max(line, 1), len(lines))
    column = min(max(column, 1), len(lines[line - 1]) + 1)
    source, mark = _window(lines[line - 1].replace("\t", " "), column - 1)
    message = f"filter, line {line}, column {column}: {reason}\n  {source}\n  {' ' * mark}^"
    return FilterError(f"{message}\nhint: {hint}" if hint else message, line, column)


def _window(source: str, at: int) -> tuple[str, int]:
    """The part of a line around a place, and the place in it."""
    first = max(0, min(at - _WINDOW // 2, len(source) - _WINDOW))
    shown = source[first : first + _WINDOW] + ("…" if first + _WINDOW < len(source) else "")
    return (f"…{shown}", at - first + 1) if first else (shown, at)


def from_refused(text: str, refused: Refused) -> FilterError:
    """The compiler's complaint, in words that say what to do."""
    reason, line, column, hint = refused.reason, refused.line, refused.column, ""
    if found := _UNKNOWN.search(reason):
        return _unknown(text, found[1], line, column)
    if found := _OVERLOAD.search(reason):
        reason, hint = _mismatch(found[1], [_TYPES.get(kind, kind) for kind in found[2].split(", ")])
    elif found := _UNREADABLE.search(reason):
        reason, hint = _unreadable(found[1])
    elif found := _UNEXPECTED.search(reason):
        reason, hint = _unexpected(found[1])
    elif "has() argument" in reason:
        reason, hint = "has() takes a label written with a dot", 'has(labels.app), or "app" in labels'
    elif "operand of a select" in reason:
        hint = 'a label whose key holds a dot is written labels["a.b"]'
    elif reason.startswith("reserved identifier"):
        hint = 'a label of that name is written labels["name"]'
    elif "no viable alternative" in reason:
        reason, hint = "this does not parse", 'a label with a reserved or unusual name is written labels["name"]'
    return complaint(text, reason.removeprefix("Syntax error: "), line, column, hint)


def at_position(text: str, reason: str, position: int | None, hint: str = "") -> FilterError:
    """The same for a place given as a code point of the text."""
    before = text[: position or 0]
    return complaint(text, reason, before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1, hint)


def warnings(node: Node) -> tuple[str, ...]:
    """Comparisons with times that look like another unit than microseconds."""
    found = []
    for part in walk(node):
        if isinstance(part, Call) and part.function in _COMPARISONS:
            left, right = part.args
            for name, constant in ((left, right), (right, left)):
                number = int_of(constant)
                if number is not None and name in (Ident("timestamp"), Ident("expires_at")):
                    found += _unit_warning(part, number)
    return tuple(dict.fromkeys(found))


def _unit_warning(part: Call, number: int) -> list[str]:
    if _SECONDS <= number < _MILLISECONDS:
        unit, meant = "seconds", number * 1_000_000
    elif _MILLISECONDS <= number < _MICROSECONDS:
        unit, meant = "milliseconds", number * 1000
    elif number >= _NANOSECONDS:
        unit, meant = "nanoseconds", number // 1000
    else:
        return []
    if meant >= _NANOSECONDS:
        return []
    when = datetime.fromtimestamp(meant // 1_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return [
        f"{to_text(part)}: times are microseconds, and {number} looks like {unit}; "
        f"{when} is {meant}, or time and timestamp({when!r})".replace("'", '"')
    ]


def _unknown(text: str, name: str, line: int, column: int) -> FilterError:
    root = name.split(".")[0]
    source = text.split("\n")[line - 1]
    if source[column - 1 : column] == "(":  # a function is reported at its parenthesis
        near = difflib.get_close_matches(name, _FUNCTIONS, 1, 0.6)
        hint = f"did you mean {near[0]!r}?" if near else ""
        if name in ("startsWith", "endsWith", "contains"):
            hint = f'it is written after the text: topic.{name}("...")'
        return complaint(text, f"unknown function {name!r}", line, column - len(name), hint)
    begin = source.rfind(root, 0, column - 1 + len(root))
    near = difflib.get_close_matches(root, VARIABLES, 1, 0.6)
    if near:
        hint = f"did you mean {near[0]!r}?"
    elif root in ("null", "nil", "None", "now"):
        hint = f"there is no {root!r}; a label that may be missing is asked for with has(labels.app)"
    else:
        hint = f'known are {", ".join(VARIABLES)}; text stands in quotes: "{root}"; a label is labels.{root}'
    return complaint(text, f"unknown variable {root!r}", line, begin + 1 if begin >= 0 else column, hint)


def _mismatch(function: str, kinds: list[str]) -> tuple[str, str]:
    sign = _COMPARISONS.get(function) or function.strip("_@")
    both = set(kinds)
    if function in _COMPARISONS:
        reason = f"{kinds[0]} {sign} {kinds[1]} does not compare"
    elif len(kinds) == 2:
        reason = f"{kinds[0]} {sign} {kinds[1]} is not possible"
    else:
        reason = f"{sign} does not take {', '.join(kinds)}"
    hints = {
        frozenset({"string", "int"}): 'text stands in quotes ("5"); a number in a label is int(labels["n"])',
        frozenset({"string", "bytes"}): 'bytes are written b"..."',
        frozenset({"int", "double"}): "write whole numbers without a point, or double(x)",
        frozenset({"int", "uint"}): "write numbers without u",
        frozenset({"timestamp", "int"}): "timestamp is a number of microseconds; time is a timestamp: "
        'time > timestamp("2024-01-01T00:00:00Z")',
        frozenset({"timestamp", "string"}): 'time > timestamp("2024-01-01T00:00:00Z")',
        frozenset({"string", "null"}): "a label that may be missing is asked for with has(labels.app)",
    }
    hint = hints.get(frozenset(both), "")
    if not hint and "null" in both:
        hint = "nothing is null here: what a message does not have is an error, and does not match"
    if function == "@in" and "string" in both:
        hint = 'x in ["a", "b"], or text.contains("part")'
    return reason, hint


def _unreadable(token: str) -> tuple[str, str]:
    token = token.strip()
    if token[:1] in ("'", '"'):
        return "this text is not closed", f"it ends with another {token[0]}"
    if token[:1] in _CURLY:
        return f"{token[:1]!r} is not a quote that CEL knows", "use \" or '"
    hint = f"did you mean {_WORDS[token]}?" if token in _WORDS else ""
    return f"{token!r} is not understood", hint


def _unexpected(token: str) -> tuple[str, str]:
    if token == "<EOF>":
        return "the filter ends too early", ""
    return f"{token!r} is not expected here", f"did you mean {_WORDS[token]}?" if token in _WORDS else ""
