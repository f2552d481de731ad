"""Templates: filters that differ in literals share one compiled tree, and never each other's literals."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from lamina.cel import QUERY, SUBSCRIPTION, Compiler, official
from lamina.cel.template import lift
from lamina.errors import FilterError
from tests.unit.cel.batches import labelled


@pytest.mark.parametrize(
    ("text", "template", "literals"),
    [
        ('labels["app"]=="dm"&&timestamp>5', 'labels["app"]==$0&&timestamp>$1', ("dm", 5)),
        ("labels.app == 'dm' // a \"comment\" 5", 'labels.app == $0 // a "comment" 5', ("dm",)),
        ('"a" in labels && topic in ["a", "b"]', '"a" in labels && topic in [$0, $1]', ("a", "b")),
        ("timestamp > -5 && timestamp < 0x10", "timestamp > -5 && timestamp < $0", (16,)),
        ("timestamp > - 5 && size < 007", "timestamp > - 5 && size < $0", (7,)),
        ('topic.matches ( "a.b")', 'topic.matches ( "a.b")', ()),
        ('time > timestamp("2024-01-01T00:00:00Z")', 'time > timestamp("2024-01-01T00:00:00Z")', ()),
        (
            "1.5 > double(size) && 5u == uint(size) && a1.b2 && 1e3",
            "1.5 > double(size) && 5u == uint(size) && a1.b2 && 1e3",
            (),
        ),
        ('size("a(b" + topic) > 3', "size($0 + topic) > $1", ("a(b", 3)),
        ('topic == "// no comment 5" || size == 5', "topic == $0 || size == $1", ("// no comment 5", 5)),
        ("topic == \"it's 5\" || topic == ''", "topic == $0 || topic == $1", ("it's 5", "")),
    ],
)
def test_literals_are_lifted(text: str, template: str, literals: tuple[object, ...]) -> None:
    lifted = lift(text)
    assert lifted is not None
    assert (lifted.text, lifted.literals) == (template, literals)


@pytest.mark.parametrize(
    "text",
    [
        'topic == r"a"',
        'topic == "a\\n"',
        'key == b"a"',
        'topic == """a"""',
        "labels.`a` == topic",
        "size == 9223372036854775808",
    ],
)
def test_what_only_the_compiler_should_read_is_left_to_it(text: str) -> None:
    assert lift(text) is None


def test_a_known_template_does_not_ask_the_compiler_again(monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = Compiler()
    compiler.compile('labels.app == "dm" && timestamp > 5')

    def refuse(text: str, *, has_strings: bool) -> None:
        raise AssertionError(text)

    monkeypatch.setattr(official, "check", refuse)
    found = compiler.compile('labels.app == "web" && timestamp > 7')
    assert found.constants == ("web", 7)
    assert found.template == "labels.app == $0 && timestamp > $1"
    assert [group.describe() for group in found.plan.groups] == [{"labels": {"app": ["web"]}, "start": 8}]
    assert compiler.stats().hits == 1


def test_literals_are_not_mixed() -> None:
    compiler = Compiler()
    columns = labelled({"app": "a"}, {"app": "b"}, {})
    for text, expected in (("a", [True, False, False]), ("b", [False, True, False]), ("c", [False] * 3)):
        assert compiler.compile(f'labels.app == "{text}"').truth(columns).tolist() == expected
    assert compiler.compile('labels.app == "a" || labels.app == "b"').truth(columns).tolist() == [True, True, False]


def test_kinds_of_literals_are_not_mixed() -> None:
    compiler = Compiler()
    compiler.compile('labels.app == "5"')
    with pytest.raises(FilterError, match="string == int"):
        compiler.compile("labels.app == 5")


def test_profiles_are_not_mixed() -> None:
    compiler = Compiler()
    compiler.compile('labels.exists(k, k == "a")', QUERY)
    with pytest.raises(FilterError, match="not part of a subscription"):
        compiler.compile('labels.exists(k, k == "b")', SUBSCRIPTION)


def test_an_error_speaks_of_the_text_and_not_of_the_template() -> None:
    with pytest.raises(FilterError) as caught:
        Compiler().compile('topic == "some text" && lables.a == "x"')
    assert caught.value.column == 25
    assert "some text" in str(caught.value)


@pytest.mark.parametrize("text", ['matches(topic, "[")', 'matches(topic, "a") && matches(topic, "[")'])
def test_a_pattern_is_checked_wherever_it_stands(text: str) -> None:
    compiler = Compiler()
    assert compiler.compile('matches(topic, "a")').constants == ()
    with pytest.raises(FilterError, match="no RE2 regular expression"):
        compiler.compile(text)


def test_the_memory_is_bounded() -> None:
    compiler = Compiler(templates_max=4, filters_max=4)
    for number in range(20):
        compiler.compile(f'labels.a{number} == "x"')
    assert compiler.stats().templates == 4


@pytest.mark.slow
def test_many_threads_get_their_own_literals() -> None:
    compiler = Compiler(templates_max=3, filters_max=3)
    columns = labelled(*({"n": str(i)} for i in range(50)))

    def ask(number: int) -> bool:
        text = f'labels.n == "{number % 50}" && size + {number % 7} >= {number % 7}'
        found = compiler.compile(text)
        return found.truth(columns).nonzero()[0].tolist() == [number % 50] and found.matches(
            {"labels": {"n": str(number % 50)}, "size": 1}
        )

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(8) as pool:
            assert all(pool.map(ask, range(1200)))
    finally:
        sys.setswitchinterval(interval)
