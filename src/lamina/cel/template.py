"""Templates: a filter's text with its literals lifted out, so that filters that differ only in them share their tree.

Parsing and checking types depend on the kinds of literals, not on their values. Some stay in the template: patterns,
times and replacements, which are checked when compiled; numbers after a minus, which the parser makes part of the
literal; and label keys, which decide what a plan looks like.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from lamina.cel.ast import Call, Const, Hole, Node, rebuilt, walk
from lamina.cel.constants import INT_MAX

Literal = str | int

_LITERAL = re.compile(
    r"""//[^\n]*|"[^"\n\r]*"|'[^'\n\r]*'|(?<![A-Za-z0-9_.])(?:0x[0-9a-fA-F]+|[0-9]+)(?![A-Za-z0-9_.])"""
)
"""Comments are found too, so that what looks like a literal in them is not one."""
_ODD = re.compile(r"""[\\`\ue000]|\"\"\"|'''""")
"""Escapes and long texts are rare, and left to the compiler."""
_KEPT_CALLS = ("timestamp", "duration", "matches", "replace")
_IN = re.compile(r"\s*in\b")
_NUMBER = 9_111_111_111_000_000_000


@dataclass(frozen=True, slots=True)
class Lifted:
    """A template's text, with `$0` where the first literal was, and the literals."""

    pieces: tuple[str, ...]
    """The text before, between and behind the literals."""
    literals: tuple[Literal, ...]

    @property
    def text(self) -> str:
        return _woven(self.pieces, [f"${number}" for number in range(len(self.literals))])

    def stand_in(self) -> str:
        """A text with a different, typed literal in each hole, for the compiler."""
        marks = [_mark(literal, number) for number, literal in enumerate(self.literals)]
        return _woven(self.pieces, [str(mark) if isinstance(mark, int) else f'"{mark}"' for mark in marks])

    def tree(self, node: Node) -> Node | None:
        """The tree of the stand-in text with holes for its literals; None if one is where a literal was checked."""
        marks = {_constant(_mark(literal, number)): Hole(number) for number, literal in enumerate(self.literals)}
        tree = rebuilt(node, lambda part: marks.get(part) if isinstance(part, Const) else None)
        for part in walk(tree):
            if isinstance(part, Call) and part.function in _KEPT_CALLS and any(isinstance(a, Hole) for a in part.args):
                return None
        return tree


def lift(text: str) -> Lifted | None:
    """The template of a text; None if it has something that only the compiler should read."""
    if _ODD.search(text):
        return None
    pieces: list[str] = []
    literals: list[Literal] = []
    begin = 0
    for found in _LITERAL.finditer(text):
        start, end = found.span()
        token = found[0]
        if token[0] == "/":
            continue
        if token[0] in "\"'":
            if start and (text[start - 1].isalnum() or text[start - 1] == "_"):
                return None  # a raw text, or bytes
            literal: Literal = token[1:-1]
            if _IN.match(text, end):
                continue
        else:
            literal = int(token, 16 if token[:2] == "0x" else 10)
            if literal > INT_MAX:
                return None
        if not _is_kept(text, start):
            pieces.append(text[begin:start])
            literals.append(literal)
            begin = end
    pieces.append(text[begin:])
    return Lifted(tuple(pieces), tuple(literals))


def filled(node: Node, literals: Sequence[Literal]) -> Node:
    """A template's tree with literals in its holes."""
    if not literals:
        return node
    constants = [_constant(literal) for literal in literals]
    return rebuilt(node, lambda part: constants[part.number] if isinstance(part, Hole) else None)


def _is_kept(text: str, start: int) -> bool:
    """Whether what stands before a literal keeps it in the template."""
    at = start - 1
    while at >= 0 and text[at].isspace():
        at -= 1
    if at < 0:
        return False
    match text[at]:
        case "-":
            return True
        case "[":
            return text[:at].rstrip().endswith("labels")
        case "(":
            return text[:at].rstrip().endswith(_KEPT_CALLS)
    return False


def _woven(pieces: Sequence[str], between: Sequence[str]) -> str:
    return "".join(part for pair in zip(pieces, (*between, ""), strict=True) for part in pair)


def _mark(literal: Literal, number: int) -> Literal:
    return _NUMBER + number if isinstance(literal, int) else f"\ue000{number}\ue000"


def _constant(literal: Literal) -> Const:
    return Const("int" if isinstance(literal, int) else "string", literal)
