"""What the official runtime says about random expressions, and where we say something else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime

import numpy as np
import numpy.typing as npt
from cel_expr_python import cel  # type: ignore[import-untyped]
from cel_expr_python.ext import ext_strings  # type: ignore[import-untyped]

from lamina.cel import Compiler, Filter, Group
from lamina.cel.official import check
from lamina.errors import FilterError
from tests.models.cel_rows import Sample, Variables

_TYPES = {str: cel.Type.STRING, bytes: cel.Type.BYTES, int: cel.Type.INT, datetime: cel.Type.TIMESTAMP}
_KINDS = {
    **{"topic": str, "ref": str, "key": bytes, "time": datetime, "timestamp": int, "offset": int, "partition": int},
    **{"size": int, "priority": int, "expires_at": int},
}
Answers = list[bool | None]
Mask = npt.NDArray[np.bool_]


class Oracle:
    """The official runtime, message by message."""

    def __init__(self, samples: list[Sample]) -> None:
        labels = cel.Type.Map(cel.Type.STRING, cel.Type.STRING)
        kinds = {name: _TYPES[kind] for name, kind in _KINDS.items()}
        self.env = cel.NewEnv(variables={"labels": labels, **kinds}, extensions=[ext_strings.ExtStrings()])
        self.samples = samples
        self.activations = [[self.env.Activation(one) for one in sample.variables] for sample in samples]

    def answers(self, text: str) -> list[Answers] | None:
        """True, false or None for an error, per sample and message; None if the text does not compile."""
        try:
            program = self.env.compile(text)
        except RuntimeError:
            return None
        if program.return_type() != cel.Type.BOOL:
            return None
        found = []
        for sample, activations in zip(self.samples, self.activations, strict=True):
            answers: Answers = []
            for variables, activation in zip(sample.variables, activations, strict=True):
                exact = _with_literals(text, variables)
                answers.append(_answer(program if exact == text else self.env.compile(exact), activation))
            found.append(answers)
        return found


def _with_literals(text: str, variables: Variables) -> str:
    """The binding cuts bytes at a NUL and rounds far times to seconds, but leaves literals as they are."""
    key, time = variables.get("key"), variables["time"]
    assert isinstance(time, datetime)
    if isinstance(key, bytes) and b"\0" in key:
        text = re.sub(r"\bkey\b", 'b"' + "".join(f"\\\\x{byte:02x}" for byte in key) + '"', text)
    if time.year > 2200:
        text = re.sub(r"\btime\b", f'timestamp("{time:%Y-%m-%dT%H:%M:%S.%fZ}")', text)
    return text


def _answer(program: cel.Expression, activation: cel.Activation) -> bool | None:
    try:
        value = program.eval(activation)
    except RuntimeError:
        return None
    return bool(value.value() is True) if value.type() == cel.Type.BOOL else None


class Judge:
    """Compares everything a filter can be asked with the oracle."""

    def __init__(self, samples: list[Sample]) -> None:
        self.oracle = Oracle(samples)
        self.samples = samples
        self.compiler = Compiler(templates_max=64, filters_max=8)
        self.judged = self.refused = 0

    def differences(self, text: str, *, scalar_rows: int = 3) -> Iterator[str]:
        """One line per kind of question whose answer differs."""
        try:
            expression = self.compiler.compile(text)
        except FilterError:
            self.refused += 1
            return
        expected = self.oracle.answers(text)
        if expected is None:
            yield "compiles here, but not officially"
            return
        self.judged += 1
        if expression.ast != check(text, has_strings=True)[0].node:
            yield "the template's tree is not the text's"
        for number, (sample, answers) in enumerate(zip(self.samples, expected, strict=True)):
            # The plan is asked about one sample at a time, in turns: it does not depend on a batch's shape.
            is_planned = number == self.judged % len(self.samples)
            yield from _differences(expression, sample, answers, scalar_rows if is_planned else None)


def _differences(expression: Filter, sample: Sample, answers: Answers, scalar_rows: int | None) -> Iterator[str]:
    is_true = np.array([answer is True for answer in answers], np.bool_)
    is_error = np.array([answer is None for answer in answers], np.bool_)
    true, error = expression.evaluate(sample.columns)
    yield from _unequal("evaluate: true", true, is_true)
    yield from _unequal("evaluate: error", error, is_error)
    yield from _unequal("truth", expression.truth(sample.columns), is_true)
    if scalar_rows is None:
        return
    yield from _unequal("plan", planned(expression, sample), is_true)
    for row in range(0, len(answers), max(1, len(answers) // scalar_rows)):
        if expression.matches(sample.variables[row]) != is_true[row]:
            yield f"matches: row {row}"
        if planned_one(expression, sample.variables[row]) != is_true[row]:
            yield f"plan of one message: row {row}"


def planned(expression: Filter, sample: Sample) -> Mask:
    """The plan answered without any index: its conditions row by row, its residuals over the columns."""
    found = np.zeros(len(sample.variables), np.bool_)
    for group in expression.plan.groups:
        mask = np.array([_holds(group, variables) for variables in sample.variables], np.bool_)
        for residual in group.residual:
            mask &= residual.truth(sample.columns)
        found |= mask
    return found


def planned_one(expression: Filter, variables: Variables) -> bool:
    return any(
        _holds(group, variables) and all(residual.matches(variables) for residual in group.residual)
        for group in expression.plan.groups
    )


def _holds(group: Group, variables: Variables) -> bool:
    labels = variables["labels"]
    timestamp, offset = variables["timestamp"], variables["offset"]
    assert isinstance(labels, dict)
    assert isinstance(timestamp, int)
    assert isinstance(offset, int)
    return (
        all(labels.get(key) in values for key, values in group.labels.items())
        and group.present <= labels.keys()
        and group.absent.isdisjoint(labels)
        and (group.topics is None or variables["topic"] in group.topics)
        and (group.priorities is None or variables.get("priority") in group.priorities)
        and (group.partitions is None or variables["partition"] in group.partitions)
        and _within(timestamp, group.start, group.end)
        and _within(offset, group.offset_start, group.offset_end)
    )


def _within(value: int, start: int | None, end: int | None) -> bool:
    return (start is None or value >= start) and (end is None or value < end)


def _unequal(what: str, found: Mask, expected: Mask) -> Iterator[str]:
    if found.dtype != np.bool_ or len(found) != len(expected):
        yield f"{what}: {found.dtype} of {len(found)} rows"
    elif not np.array_equal(found, expected):
        yield f"{what}: rows {np.flatnonzero(found != expected).tolist()}"
