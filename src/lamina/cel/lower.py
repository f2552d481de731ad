"""From a tree to vector operations. What has no vector form is left to the official runtime, as small as it can be."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from lamina.cel import arithmetic, text_functions, times
from lamina.cel.ast import AND, EQ, IF, IN, NE, NOT, OR, Call, Const, Fold, Ident, ListOf, Node, Select, flat
from lamina.cel.coded import Mask, constant_texts
from lamina.cel.columns import Columns
from lamina.cel.compare import COMPARE, BytesAmong, NumberAmong, TextAmong, comparison
from lamina.cel.constants import duration_of, int_of, ints_of, texts_of, time_of
from lamina.cel.kleene import Always, And, Choice, Not, Same, Truth, either
from lamina.cel.macros import ITEM, KEY, is_of_entry, macro_truth
from lamina.cel.scalar import Slow
from lamina.cel.values import BytesOp, NumberOp, Numbers, TextOp, Unsupported, number_column, number_constant

_NUMBERS = frozenset({"timestamp", "offset", "partition", "size", "priority", "expires_at"})
_TEXTS = frozenset({"topic", "ref", KEY, ITEM})
_ARITHMETIC = frozenset({"_+_", "_-_", "_*_", "_/_", "_%_"})

Value = NumberOp | TextOp | BytesOp


def lower(node: Node) -> Truth:
    """The vector form of a boolean expression."""
    try:
        return _truth(node)
    except Unsupported:
        if is_of_entry(node):
            raise  # the official runtime knows no entries: the macro around it goes there as a whole
        return Slow(node)


def slow_parts(truth: Truth) -> list[str]:
    """The parts that are evaluated message by message, as text."""
    return [part.text for part in _walk(truth) if isinstance(part, Slow)]


def _walk(truth: Truth) -> Iterator[Truth]:
    yield truth
    for part in truth.parts:
        yield from _walk(part)


def _truth(node: Node) -> Truth:
    match node:
        case Const("bool", bool(value)):
            return Always(value)
        case Select(Ident("labels"), key, True):
            return Present(key)
        case Fold():
            return macro_truth(node, lower)
        case Call():
            return _truth_of_call(node)
    raise Unsupported


def _truth_of_call(node: Call) -> Truth:
    function, args = node.function, node.args
    if function == AND:
        return And([lower(part) for part in flat(AND, node)])
    if function == OR:
        return either([lower(part) for part in flat(OR, node)])
    if function == NOT:
        return Not(lower(args[0]))
    if function == IF:
        return Choice(*(lower(part) for part in args))
    if function == IN:
        return _among(*args)
    if function in COMPARE:
        return _compared(function, *args)
    if text_functions.is_test(function):
        item, constant = (_value(part) for part in (args if node.target is None else (node.target, *args)))
        if isinstance(item, TextOp) and isinstance(constant, TextOp):
            return text_functions.TextTest(function, item, constant)
    raise Unsupported


def _compared(sign: str, left: Node, right: Node) -> Truth:
    if _is_truth(left) and _is_truth(right) and sign in (EQ, NE):
        same = Same(lower(left), lower(right))
        return same if sign == EQ else Not(same)
    return comparison(sign, _value(left), _value(right))


def _among(item: Node, container: Node) -> Truth:
    if container == Ident("labels"):
        if isinstance(item, Const) and isinstance(item.value, str):
            return Present(item.value)
        raise Unsupported
    if not isinstance(container, ListOf):
        raise Unsupported
    value = _value(item)
    if isinstance(value, TextOp) and (texts := texts_of(container)) is not None:
        return TextAmong(value, texts)
    if isinstance(value, NumberOp) and value.kind == "int" and (numbers := ints_of(container)) is not None:
        return NumberAmong(value, numbers)
    if isinstance(value, BytesOp):
        items = [part.value for part in container.items if isinstance(part, Const) and isinstance(part.value, bytes)]
        if len(items) == len(container.items):
            return BytesAmong(value, items)
    raise Unsupported


def _is_truth(node: Node) -> bool:
    match node:
        case Const("bool") | Select(_, _, True):
            return True
        case Call(function):
            return function in {AND, OR, NOT, IN, *COMPARE} or text_functions.is_test(function)
    return False


def _value(node: Node) -> Value:
    constant = _constant(node)
    if constant is not None:
        return constant
    match node:
        case Ident("key"):
            return BytesOp(lambda columns: columns.keys)
        case Ident("time"):
            return times.message_time()
        case Ident(name) if name in _NUMBERS:
            return number_column("int", name)
        case Ident(name) if name in _TEXTS:
            return TextOp(lambda columns: columns.texts(name))
        case Select(Ident("labels"), key, False):
            return _label(key)
        case Call():
            return _value_of_call(node)
    raise Unsupported


def _value_of_call(node: Call) -> Value:
    match node:
        case Call("_[_]", None, (Ident("labels"), Const("string", str(key)))):
            return _label(key)
        case Call("size", None, (Ident("labels"),)) | Call("size", Ident("labels"), ()):
            return NumberOp("int", lambda columns: Numbers(columns.label_counts()))
    operands = [_value(part) for part in ((node.target,) if node.target is not None else ()) + node.args]
    match node.function, operands:
        case function, [NumberOp() as left, NumberOp() as right] if function in _ARITHMETIC:
            return arithmetic.arithmetic(function, left, right)
        case "_+_", [TextOp() as left, TextOp() as right]:
            return text_functions.concatenate(left, right)
        case "-_", [NumberOp() as operand]:
            return arithmetic.negative(operand)
        case function, [operand]:
            return _converted(function, operand)
    raise Unsupported


def _converted(function: str, operand: Value) -> Value:
    match function, operand:
        case ("size", TextOp()):
            return text_functions.text_size(operand)
        case ("size", BytesOp()):
            return text_functions.bytes_size(operand)
        case ("int", TextOp()):
            return text_functions.text_to_int(operand)
        case ("string", BytesOp()):
            return text_functions.bytes_to_text(operand)
        case ("lowerAscii" | "upperAscii", TextOp()):
            return text_functions.change_case(function, operand)
        case ("string", TextOp()):
            return operand
        case (_, NumberOp()):
            return times.converted(function, operand)
    raise Unsupported


def _constant(node: Node) -> Value | None:
    if (number := int_of(node)) is not None:
        return number_constant("int", number)
    if (time := time_of(node)) is not None:
        return number_constant("time", time)
    if (duration := duration_of(node)) is not None and abs(duration) <= arithmetic.DURATION_US_MAX:
        return number_constant("duration", duration)
    match node:
        case Const("string", str(text)):
            return TextOp(lambda columns: constant_texts(text, len(columns)), text)
        case Const("double", float(value)):
            return number_constant("double", value)
        case Const("bytes", bytes(data)):
            return BytesOp(lambda columns: pa.repeat(pa.scalar(data, pa.binary()), len(columns)), data)
    return None


def _label(key: str) -> TextOp:
    return TextOp(lambda columns: columns.label(key))


class Present(Truth):
    """Whether a row has the label; never an error."""

    def __init__(self, key: str) -> None:
        self.key = key

    def true(self, columns: Columns) -> Mask:
        return ~columns.label(self.key).missing

    def false(self, columns: Columns) -> Mask:
        return columns.label(self.key).missing.copy()
