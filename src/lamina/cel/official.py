"""The official CEL runtime, and the only place that knows it: parsing, type checks, and evaluation row by row.

It holds the interpreter lock throughout, and is some hundred times slower than the vector path; what it answers is
what CEL means.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Mapping
from functools import cache

from cel_expr_python import cel  # type: ignore[import-untyped]
from cel_expr_python.ext import ext_encoders, ext_strings  # type: ignore[import-untyped]

from lamina.cel.decode import Decoded, decode

VARIABLES = {
    "labels": cel.Type.Map(cel.Type.STRING, cel.Type.STRING),
    "topic": cel.Type.STRING,
    "key": cel.Type.BYTES,
    "timestamp": cel.Type.INT,
    "time": cel.Type.TIMESTAMP,
    "offset": cel.Type.INT,
    "partition": cel.Type.INT,
    "size": cel.Type.INT,
    "priority": cel.Type.INT,
    "ref": cel.Type.STRING,
    "expires_at": cel.Type.INT,
}
KEY_BASE64, TIME_TEXT = "key_base64", "time_text"
"""What programs know besides: the key and the time in forms that the binding passes on unchanged."""
_PROGRAMS_MAX = 1024
"""A program takes about 10 KB once it has run."""
_FAILURE = re.compile(r"ERROR: <input>:(-?\d+):(-?\d+): (.*)")
_NOISE = re.compile(r" (?:\[[A-Z_]+\]|\(in container ''\))")


class Refused(Exception):
    """What the compiler did not take: its first complaint and where, both counted from 1; 0 where it does not say."""

    def __init__(self, reason: str, line: int, column: int) -> None:
        super().__init__(reason)
        self.reason = reason
        self.line = line
        self.column = column


def check(text: str, *, has_strings: bool) -> tuple[Decoded, str]:
    """The checked tree and the name of its type; Refused if the text does not parse or its types do not fit."""
    try:
        expression = _environment(has_strings).compile(text)
    except RuntimeError as error:
        raise _refused(str(error)) from None
    return decode(expression.serialize()), str(expression.return_type().name())


class Programs:
    """Expressions ready to run, the ones used last. Any thread."""

    def __init__(self, count_max: int = _PROGRAMS_MAX) -> None:
        self._count_max = count_max
        self._lock = threading.Lock()
        self._ready: OrderedDict[str, cel.Expression] = OrderedDict()

    def truth(self, text: str, variables: Mapping[str, object]) -> bool | None:
        """Whether a checked boolean text is true; None for an error, a variable that is not given included."""
        program = self._program(text)
        try:
            value = program.eval(data=variables)
        except RuntimeError:  # too many steps, or a text that is not Unicode: an error that nothing absorbs
            return None
        # An error is a value too, and its text would be taken for true.
        return bool(value.value() is True) if value.type() == cel.Type.BOOL else None

    def _program(self, text: str) -> cel.Expression:
        with self._lock:
            program = self._ready.get(text)
            if program is not None:
                self._ready.move_to_end(text)
                return program
        try:
            program = _program_environment().compile(text)
        except RuntimeError as error:
            raise AssertionError(f"checked, and does not compile again: {text}") from error
        with self._lock:
            self._ready[text] = program
            while len(self._ready) > self._count_max:
                self._ready.popitem(last=False)
        return program


def constant(text: str) -> object:
    """The value of a text without variables; None if it is an error or of a type without a Python value."""
    try:
        value = _environment(True).compile(text).eval(data={})
    except RuntimeError:
        return None
    # A null is not asked for its value: each time would cost None a reference, and in the end the process.
    return None if value.type() in (cel.Type.ERROR, cel.Type.NULL) else value.value()


@cache
def _environment(has_strings: bool) -> cel.Env:
    return cel.NewEnv(variables=VARIABLES, extensions=[ext_strings.ExtStrings()] if has_strings else [])


@cache
def _program_environment() -> cel.Env:
    hidden = {KEY_BASE64: cel.Type.STRING, TIME_TEXT: cel.Type.STRING}
    extensions = [ext_strings.ExtStrings(), ext_encoders.ExtEncoders()]
    return cel.NewEnv(variables={**VARIABLES, **hidden}, extensions=extensions)


def _refused(answer: str) -> Refused:
    found = [(int(line), int(column), _NOISE.sub("", text)) for line, column, text in _FAILURE.findall(answer)]
    placed = [failure for failure in found if failure[0] > 0]
    if "recursion" in answer:
        return Refused("the expression is nested too deeply (at most 32 levels)", 0, 0)
    if placed:
        line, column, text = placed[0]
        return Refused(text, line, column)
    return Refused(_NOISE.sub("", found[0][2] if found else answer), 0, 0)
