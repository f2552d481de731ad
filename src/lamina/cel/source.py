"""From a tree back to readable CEL text, which the official compiler takes and means the same by."""

from __future__ import annotations

import re

from lamina.cel.ast import AND, IF, IN, INDEX, NOT, OR, Call, Const, Fold, Hole, Ident, ListOf, MapOf, Node, Select
from lamina.cel.folds import macro_of

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_RESERVED = re.compile(
    "as|break|const|continue|else|false|for|function|if|import|in"
    "|let|loop|namespace|null|package|return|true|var|void|while"
)
_INFIX = {
    OR: ("||", 2),
    AND: ("&&", 3),
    "_==_": ("==", 4),
    "_!=_": ("!=", 4),
    "_<_": ("<", 4),
    "_<=_": ("<=", 4),
    "_>_": (">", 4),
    "_>=_": (">=", 4),
    IN: ("in", 4),
    "_+_": ("+", 5),
    "_-_": ("-", 5),
    "_*_": ("*", 6),
    "_/_": ("/", 6),
    "_%_": ("%", 6),
}
_CONDITION, _UNARY, _MEMBER = 1, 7, 8
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def to_text(node: Node) -> str:
    return _print(node, 0)


def _print(node: Node, level: int) -> str:
    """The text of a node where anything that binds less than `level` needs parentheses."""
    text, binds = _written(node)
    return f"({text})" if binds < level else text


def _written(node: Node) -> tuple[str, int]:
    """The text of a node, and how strongly its outermost operator binds."""
    match node:
        case Const(kind, value):
            binds = _UNARY if kind in ("int", "double") and str(value).startswith("-") else _MEMBER
            return _literal(node), binds
        case Hole(number):
            return f"${number}", _MEMBER
        case Ident(name):
            return name, _MEMBER
        case Select(operand, field, is_test):
            selected = f"{_print(operand, _MEMBER)}.{_field(field)}"
            return (f"has({selected})" if is_test else selected), _MEMBER
        case ListOf(items):
            return f"[{_listed(items)}]", _MEMBER
        case MapOf(type_name, entries):
            pairs = (f"{key if isinstance(key, str) else _print(key, 0)}: {_print(value, 0)}" for key, value in entries)
            return f"{type_name}{{{', '.join(pairs)}}}", _MEMBER
        case Fold():
            macro = macro_of(node)
            return f"{_print(node.over, _MEMBER)}.{macro.name}({macro.variable}, {_listed(macro.args)})", _MEMBER
        case Call():
            return _called(node)


def _called(node: Call) -> tuple[str, int]:
    function, args = node.function, node.args
    if function in _INFIX:
        sign, binds = _INFIX[function]
        # Chains of && and || mean the same however they are grouped; the others group to the left.
        left = binds + 1 if binds == 4 else binds
        right = binds if function in (AND, OR) else binds + 1
        return f"{_print(args[0], left)} {sign} {_print(args[1], right)}", binds
    if function == NOT:
        return f"!{_print(args[0], _MEMBER)}", _UNARY
    if function == "-_":
        return f"-({_print(args[0], 0)})", _UNARY  # without parentheses it would become part of a number
    if function == IF:
        condition, then, otherwise = args
        return f"{_print(condition, 2)} ? {_print(then, 2)} : {_print(otherwise, _CONDITION)}", _CONDITION
    if function == INDEX:
        return f"{_print(args[0], _MEMBER)}[{_print(args[1], 0)}]", _MEMBER
    before = "" if node.target is None else f"{_print(node.target, _MEMBER)}."
    return f"{before}{function}({_listed(args)})", _MEMBER


def _listed(nodes: tuple[Node, ...]) -> str:
    return ", ".join(_print(node, 0) for node in nodes)


def _field(name: str) -> str:
    return name if _WORD.fullmatch(name) and not _RESERVED.fullmatch(name) else f"`{name}`"


def _literal(node: Const) -> str:
    value = node.value
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return '"' + "".join(_ESCAPES.get(c) or (c if c.isprintable() else _escaped(c)) for c in value) + '"'
        case bytes():
            return 'b"' + "".join(chr(b) if 32 <= b < 127 and b not in b'"\\' else f"\\x{b:02x}" for b in value) + '"'
        case int():
            return f"{value}u" if node.kind == "uint" else str(value)
    return repr(value)


def _escaped(character: str) -> str:
    code = ord(character)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
