"""From what a caller asks to the groups that a backend answers. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from lamina.cel import Group, Plan
from lamina.cel import compile as compile_filter
from lamina.errors import InvalidRequest
from lamina.model import check_text

AnyOf = Sequence[Mapping[str, str] | Iterable[tuple[str, str]]]
"""Alternatives, each a mapping of labels or a list of (key, value); a key given two values cannot match."""

ALTERNATIVES_MAX = 1000
GROUPS_MAX = 256
"""Alternatives that differ in one value become one group; each group is a walk of its own along an index."""
_NO_LIMIT = 1 << 20  # a filter may name a text that no label can hold: then it finds nothing
_FOREIGN: dict[str, str] = {
    "topics": "topic",
    "priorities": "priority",
    "partitions": "partition",
    "offset_start": "offset",
    "offset_end": "offset",
}


def make_plan(
    text: str | None,
    labels: Mapping[str, str] | None,
    any_of: AnyOf | None,
    start: int | None,
    end: int | None,
) -> tuple[Group, ...]:
    """Groups in which everything the caller gave is met at once; none if nothing can match.

    The caller's labels are met into every group, so that no filter can widen them.
    """
    if start is not None and end is not None and start >= end:
        return ()
    plan = Plan((Group(labels=_one_each((labels or {}).items()), start=start, end=end),))
    if any_of:
        plan = plan.meet(Plan(tuple(_alternatives(any_of))))
    if text is not None:
        plan = plan.meet(compile_filter(text).plan)
    if len(plan.groups) > GROUPS_MAX:
        raise InvalidRequest(
            f"the query has {len(plan.groups)} groups of alternatives, at most {GROUPS_MAX} are allowed; split it"
        )
    for group in plan.groups:
        _refuse_foreign(group)
    return plan.groups


def time_span(groups: Collection[Group]) -> tuple[int | None, int | None]:
    """The narrowest bounds that hold all groups."""
    starts = [group.start for group in groups]
    ends = [group.end for group in groups]
    return (
        None if None in starts else min((start for start in starts if start is not None), default=None),
        None if None in ends else max((end for end in ends if end is not None), default=None),
    )


def _alternatives(any_of: AnyOf) -> Iterable[Group]:
    if isinstance(any_of, str | Mapping):
        raise InvalidRequest("any_of takes a list of alternatives, each a mapping of labels")
    if len(any_of) > ALTERNATIVES_MAX:
        raise InvalidRequest(f"any_of has {len(any_of)} alternatives, at most {ALTERNATIVES_MAX} are allowed")
    for alternative in any_of:
        pairs = list(alternative.items() if isinstance(alternative, Mapping) else alternative)
        if not pairs:
            raise InvalidRequest("an empty alternative in any_of would match every entry; leave any_of out instead")
        values: dict[str, set[str]] = {}
        for key, value in pairs:
            values.setdefault(key, set()).add(value)
        if all(len(choice) == 1 for choice in values.values()):
            yield Group(labels=_one_each(pairs))


def _one_each(pairs: Iterable[tuple[str, str]]) -> dict[str, frozenset[str]]:
    return {
        check_text("label key", key, _NO_LIMIT): frozenset([check_text(f"label {key!r}", value, _NO_LIMIT, empty=True)])
        for key, value in pairs
    }


def _refuse_foreign(group: Group) -> None:
    for name, variable in _FOREIGN.items():
        if getattr(group, name) is not None:
            raise InvalidRequest(
                f"an entry has no {variable!r}; filters over an index may use labels, timestamp, time, ref, expires_at"
            )
