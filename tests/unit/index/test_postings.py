"""Postings: built from blocks, merged, looked up."""

from __future__ import annotations

import numpy as np
import pytest

from lamina.index.build import build
from lamina.index.composites import Composite, joined, with_composites
from lamina.index.postings import Postings, merge
from tests.unit.index.messages import NOW_US, block, row

LABELS = [{"app": "dm", "thread": "1"}, {"app": "dm"}, {}, {"app": "é", "thread": "1"}, {"thread": ""}]


def postings(first: int = 0) -> Postings:
    rows = [row(first + at, labels, topic=f"t{at % 2}", priority=at or None) for at, labels in enumerate(LABELS)]
    return build([block(rows, first)], 0, first, first + len(rows))


def found(postings: Postings, field: str, value: str) -> list[int]:
    return [int(at) for at in postings.find(field, value)]


def test_each_value_of_each_field_has_its_rows() -> None:
    index = postings()
    assert found(index, "label:app", "dm") == [0, 1]
    assert found(index, "label:app", "é") == [3]
    assert found(index, "label:thread", "1") == [0, 3]
    assert found(index, "label:thread", "") == [4]
    assert found(index, "topic", "t1") == [1, 3]
    assert found(index, "priority", "2") == [2]


@pytest.mark.parametrize(("field", "value"), [("label:app", "d"), ("label:app", "dmx"), ("label:none", "x"), ("x", "")])
def test_what_is_not_there_has_no_rows(field: str, value: str) -> None:
    assert found(postings(), field, value) == []


def test_a_large_dictionary_is_searched_as_exactly_as_a_small_one() -> None:
    rows = [row(at, {"user": f"user-{at % 3000}"}) for at in range(6000)]
    index = build([block(rows)], 0, 0, 6000)
    for number in (0, 1, 9, 10, 1500, 2999):
        assert found(index, "label:user", f"user-{number}") == [number, number + 3000]
    assert found(index, "label:user", "user-3000") == []
    assert found(index, "label:user", "") == []


def test_rows_with_any_value_of_a_field() -> None:
    index = postings()
    assert index.of_field("label:thread").tolist() == [0, 3, 4]
    assert index.mask("label:thread").tolist() == [True, False, False, True, True]
    assert index.of_field("label:none").tolist() == []


def test_merged_postings_answer_as_those_of_all_rows() -> None:
    merged = merge([postings(0), postings(5), postings(10)])
    assert found(merged, "label:app", "dm") == [0, 1, 5, 6, 10, 11]
    assert merged.terms("label:app") == ["dm", "é"]
    assert (merged.extent.first, merged.extent.end) == (0, 15)
    assert merged.extent.is_sorted
    assert merged.extent.ts_max == NOW_US + 14


def test_parts_that_go_back_in_time_are_not_sorted_together() -> None:
    late = build([block([row(50, {})], 0)], 0, 0, 1)
    early = build([block([row(10, {})], 1)], 0, 1, 2)
    assert late.extent.is_sorted
    assert not merge([late, early]).extent.is_sorted
    backwards = build([block([row(5, {}), row(4, {})])], 0, 0, 2)
    assert not backwards.extent.is_sorted


def test_a_slice_that_drags_its_dictionary_along_has_no_terms_of_others() -> None:
    whole = block([row(at, {"user": f"u{at}"}) for at in range(100)])
    index = build([whole.slice(10, 12)], 0, 10, 12)
    assert index.terms("label:user") == ["u10", "u11"]


def test_a_composite_holds_the_rows_that_have_all_keys() -> None:
    one = Composite("c1", "dm_thread", ("app", "thread"))
    index = with_composites(postings(), [one])
    assert found(index, "composite:c1", joined(["dm", "1"])) == [0]
    assert found(index, "composite:c1", joined(["é", "1"])) == [3]
    assert index.of_field("composite:c1").tolist() == [0, 3]
    assert index.composites == {"c1"}


def test_values_with_separators_do_not_collide_in_a_composite() -> None:
    # D0-9: (app "a/b", thread "c") and (app "a", thread "b/c").
    rows = [
        row(0, {"app": "a/b", "thread": "c"}),
        row(1, {"app": "a", "thread": "b/c"}),
        row(2, {"app": "1:", "thread": "a"}),
    ]
    index = with_composites(build([block(rows)], 0, 0, 3), [Composite("c", "n", ("app", "thread"))])
    assert found(index, "composite:c", joined(["a/b", "c"])) == [0]
    assert found(index, "composite:c", joined(["a", "b/c"])) == [1]
    assert joined(["1:", "a"]) != joined(["", "1:a"])


def test_a_composite_of_rows_without_its_keys_is_there_and_empty() -> None:
    index = with_composites(postings(), [Composite("c", "n", ("app", "none"))])
    assert index.composites == {"c"}
    assert index.of_field("composite:c").tolist() == []


def test_composites_come_and_go() -> None:
    first, second = Composite("c1", "a", ("app", "thread")), Composite("c2", "b", ("thread", "app"))
    index = with_composites(with_composites(postings(), [first]), [second])
    assert index.composites == {"c2"}
    assert "composite:c1" not in index.fields
    assert found(index, "composite:c2", joined(["1", "dm"])) == [0]


def test_merging_keeps_only_composites_that_every_part_has() -> None:
    one = Composite("c1", "a", ("app", "thread"))
    merged = merge([with_composites(postings(0), [one]), postings(5)])
    assert merged.composites == frozenset()
    assert "composite:c1" not in merged.fields


def test_a_composite_of_many_values_numbers_them_apart() -> None:
    chance = np.random.default_rng(1)
    pairs = [(f"a{a}", f"b{b}", f"c{c}") for a, b, c in chance.integers(0, 30, (2000, 3)).tolist()]
    rows = [row(at, dict(zip("abc", pair, strict=True))) for at, pair in enumerate(pairs)]
    index = with_composites(build([block(rows)], 0, 0, 2000), [Composite("c", "n", ("a", "b", "c"))])
    for at in range(0, 2000, 37):
        same = [other for other, pair in enumerate(pairs) if pair == pairs[at]]
        assert found(index, "composite:c", joined(pairs[at])) == same


def test_rows_without_any_priority_have_no_terms_of_it() -> None:
    with_some = block([row(0, {}, priority=1), row(1, {}), row(2, {})])
    index = build([with_some.slice(1, 3)], 0, 1, 3)
    assert "priority" not in index.fields
