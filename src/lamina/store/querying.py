"""From the arguments of `query` and `count` to a checked Query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from lamina.cel import Filter, Group, Plan, compile
from lamina.errors import InvalidRequest
from lamina.index import Cursor, Query
from lamina.model import check_label, partition_of, time_us
from lamina.store.streams import OpenStream

ANY_OF_MAX = 1024


def plan_query(
    stream: OpenStream,
    where: str | None,
    *,
    topic: str | None,
    labels: Mapping[str, str] | None,
    any_of: Sequence[Mapping[str, str]] | None,
    start: int | datetime | None,
    end: int | datetime | None,
    limit: int | None,
    cursor: str | None,
    descending: bool,
    include_expired: bool,
    now_us: int,
) -> tuple[Query, tuple[str, ...]]:
    """The query and what looks like a mistake in its filter. InvalidRequest or FilterError names what is wrong."""
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
        raise InvalidRequest(f"limit must be an int from 1 on, or None for no limit, not {limit!r}")
    filter_ = _compiled(where)
    plan = filter_.plan
    if (topic, labels, start, end) != (None, None, None, None):
        narrowed = Group(
            labels={key: frozenset((value,)) for key, value in _labels("labels", labels or {}).items()},
            topics=None if topic is None else frozenset((_topic(topic),)),
            start=None if start is None else time_us("start", start),
            end=None if end is None else time_us("end", end),
        )
        plan = plan.meet(Plan((narrowed,)))
    if any_of is not None:
        plan = plan.meet(_any_of(any_of))
    query = Query(
        _with_partitions(plan, stream),
        limit,
        None if cursor is None else Cursor.decode(cursor, stream.name, descending=bool(descending)),
        bool(descending),
        None if include_expired else now_us,
    )
    return query, filter_.warnings


def _compiled(where: str | None) -> Filter:
    if where is not None and not isinstance(where, str):
        raise InvalidRequest(f"a filter is a text or None, not {type(where).__name__}")
    return compile(where or "")


def _topic(topic: object) -> str:
    if not isinstance(topic, str):
        raise InvalidRequest(f"topic must be str or None, not {type(topic).__name__}")
    return topic


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
    choices = [_labels(f"any_of[{place}]", labels) for place, labels in enumerate(any_of)]
    keys = {tuple(labels) for labels in choices}
    if len(keys) == 1 and len(choices[0]) == 1:
        # One key, several values: a single group is answered by one union of posting lists.
        (key,) = choices[0]
        return Plan((Group(labels={key: frozenset(labels[key] for labels in choices)}),))
    return Plan(tuple(Group(labels={k: frozenset((v,)) for k, v in labels.items()}) for labels in choices))


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
