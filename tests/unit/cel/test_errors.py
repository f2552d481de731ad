"""What is said about a text that is no filter, and about one that is probably not meant."""

from __future__ import annotations

import pickle

import pytest

from lamina.cel import QUERY, SUBSCRIPTION, Profile, compile
from lamina.errors import FilterError, InvalidRequest


def refused(text: str, profile: Profile = QUERY) -> FilterError:
    with pytest.raises(FilterError) as caught:
        compile(text, profile=profile)
    return caught.value


def test_an_error_shows_the_line_and_the_place() -> None:
    error = refused('topic == "a" &&\n  lables["app"] == "x"')
    assert (error.line, error.column) == (2, 3)
    assert str(error) == (
        "filter, line 2, column 3: unknown variable 'lables'\n"
        '    lables["app"] == "x"\n'
        "    ^\n"
        "hint: did you mean 'labels'?"
    )
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


@pytest.mark.parametrize(
    ("text", "column", "reason", "hint"),
    [
        ("lables.a.b == 1", 1, "unknown variable 'lables'", "did you mean 'labels'?"),
        ('topic == "a" && prioritty > 1', 17, "unknown variable 'prioritty'", "did you mean 'priority'?"),
        ("topic == abc", 10, "unknown variable 'abc'", 'text stands in quotes: "abc"'),
        ('topic.startswith("a")', 7, "unknown function 'startswith'", "did you mean 'startsWith'?"),
        ('startsWith(topic, "a")', 1, "unknown function 'startsWith'", "it is written after the text"),
        ("labels.a == 5", 10, "string == int does not compare", 'int(labels["n"])'),
        ("timestamp > 1.5", 11, "int > double does not compare", "write whole numbers"),
        ('time > "2024-01-01T00:00:00Z"', 6, "timestamp > string", 'time > timestamp("'),
        ("time > 5", 6, "timestamp > int", "timestamp is a number of microseconds"),
        ('key == "x"', 5, "bytes == string", 'b"..."'),
        ("labels.a == null", 10, "string == null", "has(labels.app)"),
        ('topic == "a" and true', 14, "'and' is not expected here", "did you mean &&?"),
        ('topic = "a"', 7, "'=' is not understood", "did you mean ==?"),
        ('topic == "a', 10, "this text is not closed", 'ends with another "'),
        ("topic ==", 9, "the filter ends too early", ""),
        ("topic == \u201ca\u201d", 10, "is not a quote that CEL knows", ""),
        ('has(labels["a"])', 11, "has() takes a label written with a dot", '"app" in labels'),
        ("labels.a", 1, "a filter is true or false, and this is string", "compare it with something"),
        ("dyn(true)", 1, "a filter is true or false, and this is dyn", ""),
        ('topic.matches("[a")', 15, "the pattern is no RE2 regular expression: missing ]", ""),
        ("topic.matches(topic)", 14, "the pattern of matches() is a literal", ""),
        ('time > timestamp("yesterday")', 18, "this is no timestamp", '"2024-01-31T12:00:00Z"'),
        ('time - duration("1d") > time', 17, "this is no duration", '"36h"'),
        ('topic == "a\\x00b"', 10, "holds a NUL character", ""),
        ("google.protobuf.Timestamp{} == time", 1, "cannot be made in a filter", ""),
        ('labels.map(k, k).exists(k, k == "x")', 24, "exists() runs over labels or a list of literals only", ""),
        ("9223372036854775808 == timestamp", 1, "invalid int literal", ""),
        ('labels.in == "x"', 8, "this does not parse", 'labels["name"]'),
    ],
)
def test_reasons_and_hints(text: str, column: int, reason: str, hint: str) -> None:
    error = refused(text)
    assert reason in str(error)
    assert hint in str(error)
    assert (error.line, error.column) == (1, column)


def test_the_mark_is_under_the_place() -> None:
    _, source, mark, _ = str(refused("timestamp > 1.5")).split("\n")
    assert source[mark.index("^")] == ">"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('topic == "' + "x" * 5000 + '"', "5011 bytes, at most 4096"),
        ("timestamp in [" + ", ".join(map(str, range(257))) + "]", "a list of 257 items, at most 256"),
        (" && ".join(["size > 1"] * 300), "parts, at most 256"),
        ("(" * 40 + "true" + ")" * 40, "nested too deeply"),
        ('topic.matches("' + "a" * 300 + '")', "300 bytes, at most 256"),
        ("labels.exists(a, labels.exists(b, labels.exists(c, a == b && b == c)))", "steps, at most 10000"),
    ],
)
def test_limits(text: str, reason: str) -> None:
    assert reason in str(refused(text))


@pytest.mark.parametrize("text", ['topic == "a\0b"', "\0", "topic == '\udfff'"])
def test_characters_that_no_message_holds(text: str) -> None:
    refused(text)


@pytest.mark.parametrize(
    "text",
    [
        'labels.a.replace("", labels.b).replace("", labels.c) == ""',
        'labels.a.split("").join(labels.b).split("").join(labels.c) == ""',
        'strings.quote(strings.quote(labels.a)) == ""',
        'labels.a.replace("a", "aa").replace("a", "aa") == ""',
        'labels.a.replace("b", labels.b.replace("x", labels.a)) == ""',
    ],
)
def test_texts_do_not_grow_without_bound(text: str) -> None:
    compile('labels.a.replace("b", "c").replace("-", "").replace("a", labels.b) == ""')
    assert "cannot be within each other" in str(refused(text))


def test_a_profile_decides_the_limits() -> None:
    small = Profile(name="test", depth_max=3, nodes_max=5, steps_max=3)
    compile("size > 1 && size < 9", profile=Profile(name="test", depth_max=3))
    assert "nested 4 deep, at most 3 in a test" in str(
        refused("size + 1 > 2 && size < 9", Profile(name="test", depth_max=3))
    )
    assert "7 parts, at most 5 in a test" in str(refused("size > 1 && size < 9", small))
    assert "take 4 steps, at most 3" in str(refused("[1, 2, 3, 4].exists(i, true)", small))


def test_a_filter_is_text() -> None:
    with pytest.raises(InvalidRequest, match="a filter is a str, not NoneType"):
        compile(None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('labels.exists(k, k == "x")', "exists() is not part of a subscription's filter"),
        ('["a"].all(k, k in labels)', "all() is not part of a subscription's filter"),
        ('dyn(labels.a) == "x"', "dyn() is not part of a subscription's filter"),
        ('key == b"x"', "bytes, and so the key, are not part of a subscription's filter"),
        ('labels.a.lowerAscii() == "x"', "unknown function 'lowerAscii'"),
    ],
)
def test_a_subscription_may_do_less(text: str, reason: str) -> None:
    compile(text)
    assert reason in str(refused(text, SUBSCRIPTION))


def test_subscriptions_keep_what_is_cheap() -> None:
    text = 'labels.app == "dm" && labels.t.startsWith("a") && labels.r.matches("^x[0-9]+$") && size > 10'
    compile(text, profile=SUBSCRIPTION)


@pytest.mark.parametrize(
    ("text", "unit", "meant"),
    [
        ("timestamp > 1700000000", "seconds", "1700000000000000"),
        ("1700000000000 <= timestamp", "milliseconds", "1700000000000000"),
        ("timestamp < 1700000000000000000", "nanoseconds", "1700000000000000"),
        ("expires_at > 1700000000", "seconds", "1700000000000000"),
        ('labels.a == "x" && !(timestamp > 1700000000)', "seconds", "2023-11-14T22:13:20Z"),
    ],
)
def test_another_unit_than_microseconds_is_warned_about(text: str, unit: str, meant: str) -> None:
    (warning,) = compile(text).warnings
    assert f"looks like {unit}" in warning
    assert meant in warning


@pytest.mark.parametrize(
    "text",
    ["timestamp > 1700000000000000", "timestamp > 0", "offset > 1700000000", "timestamp > 5", "size < 1700000000"],
)
def test_microseconds_are_not_warned_about(text: str) -> None:
    assert compile(text).warnings == ()
