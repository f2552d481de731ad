"""From the arguments of `query` and `count` to a checked Query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from lamina.cel import Filter, Group, Plan, compile
from lamina.errors import InvalidRequest
from lamina.index import Cursor, Query
from lamina.model import TOPIC_BYTES_MAX, check_label, check_text, partition_of, time_us
from lamina.store.streams import OpenStream

ANY_OF_MAX = 1024
_EVERYTHING = Group()
Choice = Mapping[str, str] | Sequence[tuple[str, str]]
"""Labels that must all be there."""


def plan_query(
    stream: OpenStream,
    where: str | None,
    *,
    topic: str | None,
    labels: Mapping[str, str] | None,
    any_of: Sequence[Choice] | None,
    start: int | datetime | None,
    end: int | datetime | None,
    limit: int | None,
    cursor: str | None,
    descending: bool,
    include_expired: bool,
    now_us: int,
) -> tuple[Query, Filter]:
    """The query and its filter. InvalidRequest or FilterError names what is wrong."""
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
        raise InvalidRequest(f"limit must be an int from 1 on, or None for no limit, not {limit!r}")
    filter_ = _compiled(where)
    narrowed = Group(
        labels={} if labels is None else {k: frozenset((v,)) for k, v in _labels("labels", labels).items()},
        topics=None if topic is None else frozenset((check_text("topic", topic, TOPIC_BYTES_MAX),)),
        start=None if start is None else time_us("start", start),
        end=None if end is None else time_us("end", end),
    )
    alternatives = None if any_of is None else _any_of(any_of)
    plan = filter_.plan
    if narrowed != _EVERYTHING:
        plan = plan.meet(Plan((narrowed,)))
    if alternatives is not None:
        plan = plan.meet(alternatives)

    def asked() -> str:
        others = None if alternatives is None else [*map(_words, alternatives.groups)]
        return repr((stream.name, where, _words(narrowed), others, bool(include_expired)))

    query = Query(
        _with_partitions(plan, stream),
        limit,
        None if cursor is None else Cursor.decode(cursor, asked(), descending=bool(descending)),
        bool(descending),
        None if include_expired else now_us,
        asked,
    )
    return query, filter_


def _compiled(where: str | None) -> Filter:
    if where is not None and not isinstance(where, str):
        raise InvalidRequest(f"a filter is a text or None, not {type(where).__name__}")
    return compile(where or "")


def _words(group: Group) -> list[tuple[str, object]]:
    """A group's conditions, the same words for the same conditions."""
    return sorted(group.describe().items())


def _labels(name: str, labels: object) -> dict[str, str]:
    if not isinstance(labels, Mapping):
        raise InvalidRequest(f"{name} must be a mapping of str to str, not {type(labels).__name__}")
    return dict(check_label(key, value) for key, value in labels.items())


def _any_of(any_of: object) -> Plan:
    """An empty list is no condition."""
    if isinstance(any_of, Mapping | str) or not isinstance(any_of, Sequence):
        raise InvalidRequest(f"any_of must be a list of label mappings, not {type(any_of).__name__}")
    if len(any_of) > ANY_OF_MAX:
        raise InvalidRequest(f"any_of has {len(any_of)} entries, at most {ANY_OF_MAX} are allowed; ask in parts")
    if not any_of:
        return Plan()
    choices = [_pairs(f"any_of[{place}]", labels) for place, labels in enumerate(any_of)]
    if not all(choices):
        raise InvalidRequest("any_of holds an empty alternative, which every message meets; leave any_of out")
    keys = {key for pairs in choices for key, _ in pairs}
    if len(keys) == 1 and all(len(pairs) == 1 for pairs in choices):
        # One key, several values: a single group is answered by one union of posting lists.
        return Plan((Group(labels={keys.pop(): frozenset(value for ((_, value),) in choices)}),))
    groups = (_group(pairs) for pairs in choices)
    return Plan(tuple(group for group in groups if group is not None))


def _pairs(name: str, labels: object) -> list[tuple[str, str]]:
    """A mapping, or pairs: of two pairs with one key and different values none can match."""
    if isinstance(labels, Sequence) and not isinstance(labels, str):
        if not all(isinstance(pair, tuple) and len(pair) == 2 for pair in labels):
            raise InvalidRequest(f"{name} must be a mapping of str to str, or a list of such pairs")
        return [check_label(*pair) for pair in labels]
    return list(_labels(name, labels).items())


def _group(pairs: Sequence[tuple[str, str]]) -> Group | None:
    met: Group | None = Group()
    for key, value in pairs:
        met = None if met is None else met.meet(Group(labels={key: frozenset((value,))}))
    return met


def _with_partitions(plan: Plan, stream: OpenStream) -> Plan:
    """Where topics decide on partitions, a plan about topics needs only theirs."""
    count, by = stream.policy.partitions, stream.policy.partition_by
    if count == 1 or by != "topic":
        return plan
    groups = []
    for group in plan.groups:
        if group.topics is not None:
            wanted = Group(partitions=frozenset(partition_of(topic, None, count, by) for topic in group.topics))
            met = group.meet(wanted)
            if met is None:
                continue
            group = met
        groups.append(group)
    return Plan(tuple(groups))
