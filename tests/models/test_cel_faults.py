"""Mistakes that were made on purpose: the fuzz finds each of them, so it would find them if we made them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lamina.cel import Columns, Group, arithmetic, conditions, kleene, label_columns, planner, text_functions
from lamina.cel.ast import EQ, GE, GT, Call, Node
from lamina.cel.coded import Coded, Mask
from lamina.cel.columns import Ints
from lamina.cel.residual import Leftover
from lamina.cel.values import NumberOp, Numbers, TextOp
from tests.models.cel_expressions import Expressions
from tests.models.cel_oracle import Judge
from tests.models.cel_rows import samples

EXPRESSIONS_MAX = 2500

Patch = pytest.MonkeyPatch


def no_absorption(patch: Patch) -> None:
    """`false && error` as an error."""

    def both(self: kleene.And, columns: Columns) -> kleene.Both:
        answers = [part.both(columns) for part in self.parts]
        known = np.logical_and.reduce([true | false for true, false in answers])
        true = np.logical_and.reduce([true for true, _ in answers])
        return true, known & ~true

    patch.setattr(kleene.And, "both", both)
    patch.setattr(kleene.And, "false", lambda self, columns: both(self, columns)[1])


def floor_division(patch: Patch) -> None:
    """-7 / 2 as -4."""

    def divided(a: Ints, b: Ints) -> tuple[Ints, Ints, Mask | bool | None]:
        bad = (b == 0) | ((a == -(2**63)) & (b == -1))
        safe = np.where(bad, 1, b)
        return a // safe, a % safe, arithmetic._flag(bad)

    patch.setattr(arithmetic, "_divided", divided)


def smallest_integer_negated(patch: Patch) -> None:
    """INT_MIN / -1 as a number."""
    original = arithmetic._divided

    def divided(a: Ints, b: Ints) -> tuple[Ints, Ints, Mask | bool | None]:
        quotient, rest, _ = original(a, b)
        return quotient, rest, arithmetic._flag(b == 0)

    patch.setattr(arithmetic, "_divided", divided)


def byte_length(patch: Patch) -> None:
    """The size of a text in bytes."""

    def text_size(item: TextOp) -> NumberOp:
        def run(columns: Columns) -> Numbers:
            coded = item.run(columns)
            sizes = pc.binary_length(coded.texts).fill_null(0).to_numpy().astype(np.int64)
            return Numbers(np.append(sizes, 0)[coded.codes], coded.missing)

        return NumberOp("int", run)

    patch.setattr(text_functions, "text_size", text_size)


def negated_label_without_presence(patch: Patch) -> None:
    """`!(labels.a == "x")` as if a message without the label were in it."""

    class Unless(Leftover):
        def truth(self, columns: Columns) -> Mask:
            return ~Leftover(self.node).truth(columns)

    original = conditions._text_compared

    def compared(sign: str, left: Node, text: str, node: Call, wanted: bool) -> list[Group] | None:
        if not wanted and sign == EQ and conditions.label_key(left) is not None:
            return [Group(residual=(Unless(node),))]
        return original(sign, left, text, node, wanted)

    patch.setattr(conditions, "_text_compared", compared)


def at_least_as_more_than(patch: Patch) -> None:
    """`timestamp >= c` as `timestamp > c`."""
    original = conditions._bounds
    patch.setattr(conditions, "_bounds", lambda name, sign, n: original(name, GT if sign == GE else sign, n))


def polarity_lost(patch: Patch) -> None:
    """What is left over of `!e` as `e`."""
    patch.setattr(planner, "_left_over", lambda node, wanted: [Group(residual=(Leftover(node),))])


def missing_label_as_empty(patch: Patch) -> None:
    """`labels.a == ""` for a message without it."""
    original = label_columns.LabelColumns.get

    def get(self: label_columns.LabelColumns, key: str) -> Coded:
        found = original(self, key)
        texts = pa.concat_arrays([found.texts, pa.array([""])])
        return Coded(np.where(found.codes < 0, len(found.texts), found.codes), texts)

    patch.setattr(label_columns.LabelColumns, "get", get)


def missing_priority_as_zero(patch: Patch) -> None:
    original = Columns._ints

    def ints(self: Columns, name: str) -> tuple[Ints, Mask | None]:
        values, missing = original(self, name)
        return values, None if name == "priority" else missing

    patch.setattr(Columns, "_ints", ints)


def slice_ignored(patch: Patch) -> None:
    """The labels of a sliced batch from its first row on."""
    original = label_columns.LabelColumns.of.__func__  # type: ignore[attr-defined]

    def of(cls: type[label_columns.LabelColumns], column: pa.MapArray) -> label_columns.LabelColumns:
        offsets = column.offsets.to_numpy()
        whole = pa.MapArray.from_arrays(pa.array(offsets - offsets[0]), column.keys, column.items)
        found = original(cls, whole)
        assert isinstance(found, label_columns.LabelColumns)
        return found

    patch.setattr(label_columns.LabelColumns, "of", classmethod(of))


def unchecked_product(patch: Patch) -> None:
    """Products that wrap around."""
    patch.setitem(arithmetic._INT_OPS, "_*_", lambda a, b: Numbers(a * b))


FAULTS: tuple[Callable[[Patch], None], ...] = (
    no_absorption,
    floor_division,
    smallest_integer_negated,
    byte_length,
    negated_label_without_presence,
    at_least_as_more_than,
    polarity_lost,
    missing_label_as_empty,
    missing_priority_as_zero,
    slice_ignored,
    unchecked_product,
)


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_the_fuzz_finds_the_fault(fault: Callable[[Patch], None], monkeypatch: Patch) -> None:
    fault(monkeypatch)
    judge, expressions = Judge(samples(0)), Expressions(0)
    texts = (expressions.text() for _ in range(EXPRESSIONS_MAX))
    assert any(True for text in texts for _ in judge.differences(text))
