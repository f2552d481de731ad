"""Plans: what indexes are asked, and what is left over."""

from __future__ import annotations

import pickle

import pytest

from lamina.cel import Group, Plan, compile

INT_MIN, INT_MAX = -(2**63), 2**63 - 1


def groups(text: str) -> tuple[Group, ...]:
    return compile(text).plan.groups


def only(text: str) -> Group:
    (group,) = groups(text)
    return group


def described(text: str) -> list[dict[str, object]]:
    return [group.describe() for group in groups(text)]


def test_a_label_and_a_time_are_pushed_down_wholly() -> None:
    group = only('labels["app"] == "dm" && timestamp > 1700000000')
    assert group == Group(labels={"app": frozenset({"dm"})}, start=1700000001)


def test_what_no_index_knows_is_left_over_and_the_rest_pushed_down() -> None:
    assert described('labels["app"] == "dm" && timestamp > 1700000000 && ref != "abc"') == [
        {"labels": {"app": ["dm"]}, "start": 1700000001, "residual": ['ref != "abc"']}
    ]


def test_unequal_asks_for_the_label_and_leaves_the_comparison() -> None:
    assert described('labels["app"] != "dm"') == [{"present": ["app"], "residual": ['labels["app"] != "dm"']}]
    assert described('!(labels["app"] == "dm")') == described('labels["app"] != "dm"')


@pytest.mark.parametrize(
    ("text", "bounds"),
    [
        ("timestamp > 5", {"start": 6}),
        ("timestamp >= 5", {"start": 5}),
        ("timestamp < 5", {"end": 5}),
        ("timestamp <= 5", {"end": 6}),
        ("timestamp == 5", {"start": 5, "end": 6}),
        ("5 < timestamp", {"start": 6}),
        ("5 >= timestamp", {"end": 6}),
        ("!(timestamp > 5)", {"end": 6}),
        ("!(5 <= timestamp)", {"end": 5}),
        ("timestamp > 1700000000 * 1000000", {"start": 1_700_000_000_000_001}),
        ("timestamp >= 0 && timestamp < 0 + 10 / 3", {"start": 0, "end": 3}),
        ("timestamp > 3 && timestamp >= 9 && timestamp < 20 && timestamp <= 15", {"start": 9, "end": 16}),
        ("offset >= 7 && offset < 9", {"offset_start": 7, "offset_end": 9}),
        ('time >= timestamp("2023-11-14T22:13:20Z")', {"start": 1_700_000_000_000_000}),
        ('timestamp("2023-11-14T22:13:20.000001Z") > time', {"end": 1_700_000_000_000_001}),
        ('time < timestamp("2023-11-14T22:13:20Z") - duration("1h")', {"end": 1_699_996_400_000_000}),
        ("time > timestamp(1700000000)", {"start": 1_700_000_000_000_001}),
    ],
)
def test_bounds_are_half_open_and_the_tightest_counts(text: str, bounds: dict[str, int]) -> None:
    assert described(text) == [bounds]


def test_zero_is_a_bound_like_any_other() -> None:
    assert only("timestamp < 0").end == 0
    assert only("timestamp >= 0").start == 0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"timestamp > {INT_MAX}", []),
        (f"timestamp >= {INT_MAX}", [{"start": INT_MAX}]),
        (f"timestamp <= {INT_MAX}", [{}]),
        (f"timestamp < {INT_MIN}", []),
        (f"timestamp >= {INT_MIN}", [{}]),
        (f"timestamp <= {INT_MIN}", [{"end": INT_MIN + 1}]),
        (f"timestamp == {INT_MAX}", [{"start": INT_MAX}]),
    ],
)
def test_the_ends_of_the_integers_do_not_wrap(text: str, expected: list[dict[str, int]]) -> None:
    assert described(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        'labels.a == "1" && labels.a == "2"',
        'labels.a == "1" && !("a" in labels)',
        "timestamp > 5 && timestamp < 6",
        'topic == "a" && topic == "b"',
        "priority > 127",
        "priority in []",
        "labels.a in []",
        'labels.a in ["x"] && labels.a in ["y", "z"]',
        "partition == 1 && partition == 2",
        "false",
        "true && !true",
    ],
)
def test_a_contradiction_has_no_group(text: str) -> None:
    assert groups(text) == ()


@pytest.mark.parametrize("text", ["", "true", "  ", 'true || labels.a == "x"', "!false"])
def test_everything_is_one_group_without_conditions(text: str) -> None:
    assert groups(text) == (Group(),)


def test_alternatives_of_one_label_are_one_group() -> None:
    assert described('labels.t == "a" || labels.t == "b" || labels["t"] == "c"') == [{"labels": {"t": ["a", "b", "c"]}}]
    assert described('labels.t in ["a"] || labels.t == "b"') == [{"labels": {"t": ["a", "b"]}}]
    assert described('topic == "a" || topic in ["b", "c"]') == [{"topics": ["a", "b", "c"]}]


def test_alternatives_of_different_labels_are_groups() -> None:
    assert described('labels.a == "1" || labels.b == "2"') == [{"labels": {"a": ["1"]}}, {"labels": {"b": ["2"]}}]


def test_a_condition_beside_alternatives_is_in_every_group() -> None:
    text = 'labels.app == "dm" && (labels.a == "1" || labels.b == "2") && (labels.c == "3" || labels.d == "4")'
    found = described(text)
    assert len(found) == 4
    assert all({"app": ["dm"]}.items() <= group["labels"].items() for group in found)  # type: ignore[attr-defined]


def test_a_negated_conjunction_becomes_groups_that_need_their_labels() -> None:
    assert described('!(labels.a == "1" && labels.b == "2")') == [
        {"present": ["a"], "residual": ['labels.a != "1"']},
        {"present": ["b"], "residual": ['labels.b != "2"']},
    ]


def test_presence() -> None:
    assert described('"a" in labels && !has(labels.b)') == [{"present": ["a"], "absent": ["b"]}]


def test_priorities_are_sets_of_what_a_message_may_have() -> None:
    assert only("priority >= 125").priorities == frozenset({125, 126, 127})
    assert only("!(priority >= 3)").priorities == frozenset({0, 1, 2})
    assert only("priority != 0").priorities == frozenset(range(1, 128))
    assert only("priority in [3, 500]").priorities == frozenset({3})
    assert only("2 > priority").priorities == frozenset({0, 1})


def test_partitions() -> None:
    assert only("partition == 3").partitions == frozenset({3})
    assert only("partition in [1, 2]").partitions == frozenset({1, 2})
    assert described("partition != 3") == [{"residual": ["partition != 3"]}]


def test_a_ref_tells_partition_and_offset() -> None:
    assert described('ref == "s/1/42"') == [
        {"partitions": [1], "offset_start": 42, "offset_end": 43, "residual": ['ref == "s/1/42"']}
    ]
    assert described('ref == "s/01/42"') == [{"residual": ['ref == "s/01/42"']}]


def test_both_branches_of_a_choice_are_planned() -> None:
    assert described('has(labels.a) ? labels.a == "1" : topic == "t"') == [
        {"labels": {"a": ["1"]}},
        {"absent": ["a"], "topics": ["t"]},
    ]


def test_times_finer_than_microseconds_are_left_over() -> None:
    assert "residual" in described('time > timestamp("2023-11-14T22:13:20.0000005Z")')[0]


def test_too_many_groups_are_left_over_and_the_rest_stays() -> None:
    many = " || ".join(f'(labels.a{i} == "x" && labels.b{i} == "y")' for i in range(20))
    (group,) = groups(f'labels.app == "dm" && ({many})')
    assert group.labels == {"app": frozenset({"dm"})}
    assert len(group.residual) == 1


def test_a_long_list_of_alternatives_is_still_one_group() -> None:
    text = " || ".join(f'labels.t == "{i}"' for i in range(60))
    assert len(only(text).labels["t"]) == 60


def test_a_residual_keeps_its_parentheses_and_its_sign() -> None:
    assert described("!(size > 3 || size + 1 < offset) && (size == 1 ? true : size == 2)")[0]["residual"] == [
        "!(size > 3)",
        "!(size + 1 < offset)",
        "size == 1",
    ]


def test_plans_meet_without_losing_anything() -> None:
    secure = compile('labels.tenant == "a"').plan
    asked = compile('labels.tenant == "b" || labels.app == "dm"').plan
    assert [group.describe() for group in secure.meet(asked).groups] == [{"labels": {"tenant": ["a"], "app": ["dm"]}}]
    assert secure.meet(compile('labels.tenant == "b"').plan) == Plan(())
    assert [group.describe() for group in secure.groups] == [{"labels": {"tenant": ["a"]}}]


def test_plans_travel() -> None:
    plan = compile('labels.a != "x" && size > 3').plan
    assert pickle.loads(pickle.dumps(plan)) == plan


def test_macros_are_never_planned_inside() -> None:
    assert described('["x"].exists(labels, labels == "x")') == [{"residual": ['["x"].exists(labels, labels == "x")']}]
