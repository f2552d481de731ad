"""Templates: a filter's text with its literals lifted out, so that filters that differ only in them share their tree.

Parsing and checking types depend on the kinds of literals, not on their values. Some stay in the template: patterns
and times, which are checked when compiled; numbers after a minus, which the parser makes part of the literal; and
label keys, which decide what a plan looks like.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from lamina.cel.ast import Const, Hole, Node, rebuilt
from lamina.cel.constants import INT_MAX

Literal = str | int

_TOKEN = re.compile(
    r"""(?P<skip>\s+|//[^\n]*)
      | (?P<text>"[^"\n\r]*"|'[^'\n\r]*')
      | (?P<real>[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|\.[0-9]+(?:[eE][+-]?[0-9]+)?)
      | (?P<number>0x[0-9a-fA-F]+|[0-9]+)(?P<unsigned>[uU]?)
      | (?P<word>[A-Za-z_][A-Za-z0-9_]*)
      | (?P<sign>&&|\|\||==|!=|<=|>=|[-+*/%<>!?:.,()\[\]{}])""",
    re.VERBOSE,
)
_ODD = re.compile(r"""[\\`$\ue000]|\"\"\"|'''""")
"""Escapes, raw texts and bytes: rare, and left to the compiler."""
_KEPT_CALLS = frozenset({"timestamp", "duration", "matches"})
_NUMBER = 9_111_111_111_000_000_000


@dataclass(frozen=True, slots=True)
class Lifted:
    """A template's text, with `$0` where the first literal was, and the literals."""

    text: str
    literals: tuple[Literal, ...]

    def stand_in(self) -> str:
        """A text with a different, typed literal in each hole, for the compiler."""
        kinds = [type(literal) for literal in self.literals]
        return re.sub(r"\$([0-9]+)", lambda found: _mark(kinds[int(found[1])], int(found[1])), self.text)

    def tree(self, node: Node) -> Node:
        """The tree of the stand-in text with holes for its literals."""
        marks = {_constant(_value(type(literal), i)): Hole(i) for i, literal in enumerate(self.literals)}
        return rebuilt(node, lambda part: marks.get(part) if isinstance(part, Const) else None)


def lift(text: str) -> Lifted | None:
    """The template of a text; None if it has something that only the compiler should read."""
    if _ODD.search(text):
        return None
    return _Lifter(text).lifted()


def filled(node: Node, literals: tuple[Literal, ...]) -> Node:
    """A template's tree with literals in its holes."""
    if not literals:
        return node
    constants = [_constant(literal) for literal in literals]
    return rebuilt(node, lambda part: constants[part.number] if isinstance(part, Hole) else None)


class _Lifter:
    def __init__(self, text: str) -> None:
        self.text = text
        self.parts: list[str] = []
        self.literals: list[Literal] = []
        self.kept = [False]

    def lifted(self) -> Lifted | None:
        at = 0
        while at < len(self.text):
            found = _TOKEN.match(self.text, at)
            if found is None:
                return None
            at = found.end()
            if found.lastgroup == "skip":
                continue
            token = found[0]
            if found["word"] and self.text[at : at + 1] in ("'", '"'):
                return None
            literal = self._literal(found)
            if literal is not None and self._is_liftable(literal, at):
                self.parts.append(f"${len(self.literals)}")
                self.literals.append(literal)
                continue
            if token == "(":
                self.kept.append(self.kept[-1] or (bool(self.parts) and self.parts[-1] in _KEPT_CALLS))
            elif token == ")" and len(self.kept) > 1:
                self.kept.pop()
            self.parts.append(token)
        return Lifted(" ".join(self.parts), tuple(self.literals))

    @staticmethod
    def _literal(found: re.Match[str]) -> Literal | None:
        if found["text"] is not None:
            return found["text"][1:-1]
        if found["number"] is not None and not found["unsigned"]:
            return int(found["number"], 16 if found["number"].startswith("0x") else 10)
        return None

    def _is_liftable(self, literal: Literal, end: int) -> bool:
        if self.kept[-1] or self.parts[-1:] == ["-"] or self.parts[-2:] == ["labels", "["]:
            return False
        if isinstance(literal, int):
            return literal <= INT_MAX
        return re.match(r"\s*in\b", self.text[end : end + 16]) is None


def _value(kind: type, number: int) -> Literal:
    return _NUMBER + number if kind is int else f"\ue000{number}\ue000"


def _mark(kind: type, number: int) -> str:
    value = _value(kind, number)
    return str(value) if isinstance(value, int) else f'"{value}"'


def _constant(literal: Literal) -> Const:
    return Const("int" if isinstance(literal, int) else "string", literal)
