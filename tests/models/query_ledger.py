"""A naive list of messages that answers queries by looking at each one, and filters both sides understand."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import lamina

NOW_US = 1_700_000_000_000_000
APPS = ["dm", "journal", "a/b", "é"]
THREADS = ["1", "2", "3", ""]
TOPICS = ["orders/eu", "orders/us", "log"]

Predicate = Callable[[lamina.Message], bool]


@dataclass(frozen=True, slots=True)
class Question:
    """A filter as CEL and as Python."""

    where: str
    holds: Predicate
    narrowed: dict[str, object]


def some_messages(count: int, chance: random.Random, *, start_us: int | None) -> list[lamina.Message]:
    """Timestamps do not go back from `start_us` on, several are equal; None: any order."""
    times = sorted(chance.randrange(max(count, 2) * 2) for _ in range(count))
    return [
        _message(chance, NOW_US + chance.randrange(-50, 50) if start_us is None else start_us + times[at])
        for at in range(count)
    ]


def _message(chance: random.Random, timestamp: int) -> lamina.Message:
    labels = {}
    if chance.random() < 0.9:
        labels["app"] = chance.choice(APPS)
    if chance.random() < 0.6:
        labels["thread"] = chance.choice(THREADS)
    if chance.random() < 0.1:
        labels[f"rare{chance.randrange(3)}"] = "x"
    return lamina.Message(
        topic=chance.choice(TOPICS),
        value=None if chance.random() < 0.1 else bytes(chance.randrange(20)),
        key=None if chance.random() < 0.5 else b"k%d" % chance.randrange(4),
        labels=labels,
        timestamp=timestamp,
        expires_at=None if chance.random() < 0.8 else NOW_US + chance.randrange(1, 1_000_000),
        priority=None if chance.random() < 0.5 else chance.randrange(10),
    )


def some_question(chance: random.Random) -> Question:
    """A filter of one or two conditions, and perhaps something given beside it."""
    makers = [_app, _thread, _either, _without, _present, _time, _topic, _size, _place, _residual]
    first, second = chance.choice(makers)(chance), chance.choice(makers)(chance)
    glue = chance.choice(["&&", "||", "", "!"])
    where, holds = _glued(glue, first, second)
    if chance.random() < 0.1:
        where, holds = _priority(chance)
    narrowed: dict[str, object] = {}
    checks: list[Predicate] = [holds]
    if chance.random() < 0.3:
        app = chance.choice(APPS)
        narrowed["labels"] = {"app": app}
        checks.append(lambda m: m.labels.get("app") == app)
    if chance.random() < 0.3:
        choices = [{"thread": t} for t in chance.sample(THREADS, 2)] + [{"app": "dm", "thread": "1"}]
        narrowed["any_of"] = choices
        checks.append(lambda m: any(all(m.labels.get(k) == v for k, v in choice.items()) for choice in choices))
    if chance.random() < 0.3:
        start, end = sorted(NOW_US + chance.randrange(-60, 200) for _ in range(2))
        narrowed |= {"start": start, "end": end}
        checks.append(lambda m: start <= (m.timestamp or 0) < end)
    if chance.random() < 0.2:
        topic = chance.choice(TOPICS)
        narrowed["topic"] = topic
        checks.append(lambda m: m.topic == topic)
    return Question(where, lambda m: all(check(m) for check in checks), narrowed)


Condition = tuple[str, Predicate]


def _glued(glue: str, first: Condition, second: Condition) -> Condition:
    # Every condition is written so that it is never an error: then Python's logic is CEL's.
    if glue == "&&":
        return f"({first[0]}) && ({second[0]})", lambda m: first[1](m) and second[1](m)
    if glue == "||":
        return f"({first[0]}) || ({second[0]})", lambda m: first[1](m) or second[1](m)
    if glue == "!":
        return f"!({first[0]})", lambda m: not first[1](m)
    return first


def _app(chance: random.Random) -> Condition:
    app = chance.choice(APPS)
    return f'"app" in labels && labels["app"] == "{app}"', lambda m: m.labels.get("app") == app


def _thread(chance: random.Random) -> Condition:
    thread = chance.choice(THREADS)
    return f'has(labels.thread) && labels.thread == "{thread}"', lambda m: m.labels.get("thread") == thread


def _either(chance: random.Random) -> Condition:
    one, two = chance.sample(THREADS, 2)
    return (
        f'"thread" in labels && labels["thread"] in ["{one}", "{two}"]',
        lambda m: m.labels.get("thread") in (one, two),
    )


def _without(chance: random.Random) -> Condition:
    return '!("thread" in labels)', lambda m: "thread" not in m.labels


def _present(chance: random.Random) -> Condition:
    key = chance.choice(["app", "rare1", "nowhere"])
    return f'"{key}" in labels', lambda m: key in m.labels


def _time(chance: random.Random) -> Condition:
    at = NOW_US + chance.randrange(-60, 200)
    return f"timestamp >= {at}", lambda m: (m.timestamp or 0) >= at


def _topic(chance: random.Random) -> Condition:
    topic = chance.choice([*TOPICS, "none"])
    return f'topic == "{topic}"', lambda m: m.topic == topic


def _size(chance: random.Random) -> Condition:
    least = chance.randrange(20)
    return f"size >= {least}", lambda m: len(m.value or b"") >= least


def _priority(chance: random.Random) -> Condition:
    # A message without one makes it an error, which the other side of the || must not need: so it stands alone.
    least = chance.randrange(10)
    return f"priority >= {least}", lambda m: m.priority is not None and m.priority >= least


def _place(chance: random.Random) -> Condition:
    offset, partition = chance.randrange(300), chance.randrange(3)
    return chance.choice(
        [
            (f"offset >= {offset}", lambda m: m.offset >= offset),
            (f"offset < {offset}", lambda m: m.offset < offset),
            (f"partition == {partition}", lambda m: m.partition == partition),
        ]
    )


def _residual(chance: random.Random) -> Condition:
    letter = chance.choice("aeoj")
    return (
        f'"app" in labels && labels["app"].contains("{letter}")',
        lambda m: letter in m.labels.get("app", ""),
    )


def expected(
    messages: Iterable[lamina.Message], question: Question, *, now_us: int | None, descending: bool
) -> list[str]:
    """Refs of what matches, in order; `now_us` None shows expired messages too."""
    found = [
        m for m in messages if question.holds(m) and (now_us is None or m.expires_at is None or m.expires_at > now_us)
    ]
    found.sort(key=lambda m: (m.timestamp or 0, m.partition, m.offset), reverse=descending)
    return [m.ref for m in found]


def paged(
    store: lamina.Store, stream: str, question: Question, limits: Sequence[int], *, descending: bool, expired: bool
) -> list[str]:
    """All pages, with the limits in turn; every page but the last is full."""
    refs: list[str] = []
    cursor = None
    turn = 0
    while True:
        limit = limits[turn % len(limits)]
        page = store.query(
            question.where,
            stream=stream,
            limit=limit,
            cursor=cursor,
            descending=descending,
            include_expired=expired,
            **question.narrowed,  # type: ignore[arg-type]
        )
        found = [m.ref for m in page]
        table = page.to_arrow()
        assert [f"{stream}/{p}/{o}" for p, o in zip(*map(table.column, ("partition", "offset")), strict=True)] == found
        refs += found
        turn += 1
        if not page.has_more:
            return refs
        assert len(found) == limit
        cursor = page.cursor
