"""From the official compiler's serialized answer (a protobuf CheckedExpr) to our tree.

The wire is read directly: no package ships these descriptors, and the fields used are fixed by the public
`cel/expr/checked.proto` and `syntax.proto`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

from lamina.cel.ast import Call, Const, Fold, Ident, Kind, ListOf, MapOf, Node, Select

_CHECKED_EXPR = 4
_SOURCE_INFO = 5
_POSITIONS = 4
_KINDS: dict[int, Kind] = {1: "null", 2: "bool", 3: "int", 4: "uint", 5: "double", 6: "string", 7: "bytes"}

Wire = int | bytes
Fields = dict[int, list[Wire]]


@dataclass(slots=True)
class Decoded:
    """A tree, and where its nodes begin in the source, by the identity of the node."""

    node: Node
    _ids: dict[int, int] = field(default_factory=dict)
    _positions: dict[int, int] = field(default_factory=dict)

    def position(self, node: Node) -> int | None:
        """The code point of the source that the node stands for (an operator: the operator itself)."""
        return self._positions.get(self._ids.get(id(node), 0))


def decode(serialized: bytes) -> Decoded:
    """The tree of a serialized Any(CheckedExpr)."""
    checked = _grouped(_bytes(_grouped(serialized)[2][0]))
    reader = _Reader()
    node = reader.expression(_bytes(checked[_CHECKED_EXPR][0]))
    positions: dict[int, int] = {}
    for info in checked.get(_SOURCE_INFO, ()):
        for entry in _grouped(_bytes(info)).get(_POSITIONS, ()):
            pair = _grouped(_bytes(entry))
            positions[_signed(pair.get(1, [0])[0])] = _signed(pair.get(2, [0])[0])
    return Decoded(node, reader.ids, positions)


class _Reader:
    def __init__(self) -> None:
        self.ids: dict[int, int] = {}

    def expression(self, data: bytes) -> Node:
        number, kind, body = 0, 0, b""
        for tag, value in _fields(data):
            if tag == 2:
                number = _signed(value)
            else:
                kind, body = tag, _bytes(value)
        node = self._node(kind, body)
        self.ids[id(node)] = number
        return node

    def _node(self, kind: int, body: bytes) -> Node:
        if kind == 3:
            return _constant(body)
        parts = _grouped(body)
        match kind:
            case 4:
                return Ident(_text(parts, 1))
            case 5:
                return Select(self._one(parts, 1), _text(parts, 2), bool(parts.get(3, [0])[0]))
            case 6:
                target = self._one(parts, 1) if 1 in parts else None
                return Call(_text(parts, 2), target, self._all(parts, 3))
            case 7:
                return ListOf(self._all(parts, 1))
            case 8:
                return MapOf(_text(parts, 1), tuple(self._entry(_bytes(entry)) for entry in parts.get(2, ())))
            case 9:
                over, start, condition, step, result = (self._one(parts, tag) for tag in (2, 4, 5, 6, 7))
                return Fold(_text(parts, 1), over, _text(parts, 3), start, condition, step, result)
        raise ValueError(f"unknown kind of expression {kind}")

    def _one(self, parts: Fields, tag: int) -> Node:
        return self.expression(_bytes(parts[tag][0]))

    def _all(self, parts: Fields, tag: int) -> tuple[Node, ...]:
        return tuple(self.expression(_bytes(part)) for part in parts.get(tag, ()))

    def _entry(self, data: bytes) -> tuple[Node | str, Node]:
        parts = _grouped(data)
        return (self._one(parts, 3) if 3 in parts else _text(parts, 2)), self._one(parts, 4)


def _constant(body: bytes) -> Const:
    tag, value = next(_fields(body))
    kind = _KINDS[tag]
    match kind:
        case "null":
            return Const(kind, None)
        case "bool":
            return Const(kind, bool(value))
        case "int":
            return Const(kind, _signed(value))
        case "double":
            return Const(kind, float(struct.unpack("<d", _bytes(value))[0]))
        case "string":
            return Const(kind, _bytes(value).decode())
        case _:
            return Const(kind, value)


def _fields(data: bytes) -> Iterator[tuple[int, Wire]]:
    at, end = 0, len(data)
    while at < end:
        tag, at = _varint(data, at)
        match tag & 7:
            case 0:
                number, at = _varint(data, at)
                yield tag >> 3, number
            case 1:
                yield tag >> 3, data[at : at + 8]
                at += 8
            case 2:
                size, at = _varint(data, at)
                yield tag >> 3, data[at : at + size]
                at += size
            case wire_type:
                raise ValueError(f"unknown wire type {wire_type}")


def _grouped(data: bytes) -> Fields:
    parts: Fields = {}
    for tag, value in _fields(data):
        parts.setdefault(tag, []).append(value)
    return parts


def _varint(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number, at
        shift += 7


def _signed(value: Wire) -> int:
    assert isinstance(value, int)
    return value - (1 << 64) if value >> 63 else value


def _bytes(value: Wire) -> bytes:
    assert isinstance(value, bytes)
    return value


def _text(parts: Fields, tag: int) -> str:
    return _bytes(parts[tag][0]).decode() if tag in parts else ""
