"""Queries as SQL. Every value is a parameter; the text holds only names of our own tables and columns.

A group becomes one or more arms, each a walk along one index that stops at the limit; the arms of all groups are
joined by UNION, which shows an entry once. The first rows of the union are among the first rows of its arms.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from lamina.cel import Group
from lamina.index.backends.entry import Position
from lamina.index.backends.matching import PROBE_POSITIONS, Probe, best_composite, best_label, combinations, describe
from lamina.index.backends.seam import Query
from lamina.index.backends.sqlite.tables import Definition

ARMS_MAX = 400
"""SQLite takes 500 in one statement; a group of more values than its share sorts what it finds instead."""

_VALUES_PROBED = 8

Value = str | int | None
Probing = Callable[["Statement"], tuple[int, str] | None]
"""Runs a statement and gives its only row, if there is one."""


@dataclass(slots=True)
class Statement:
    """Text and the parameters for its question marks, in their order."""

    text: str
    parameters: list[Value] = field(default_factory=list)

    def add(self, text: str, *parameters: Value) -> None:
        self.text += text
        self.parameters += parameters

    def join(self, other: Statement) -> None:
        self.add(other.text, *other.parameters)


@dataclass(frozen=True, slots=True)
class Arms:
    """How one group is answered."""

    step: str
    arms: list[Statement]


def group_arms(query: Query, group: Group, definitions: Sequence[Definition], probe: Probing) -> Arms:
    """Arms of (ref, timestamp, expires_at, labels), not yet ordered nor limited."""
    most = ARMS_MAX // len(query.groups)
    composite = best_composite(group, [one.composite for one in definitions])
    chosen = [] if composite is None else combinations(group, composite.keys)
    if composite is not None and len(chosen) <= most:
        definition = next(one for one in definitions if one.name == composite.name)
        step, used = f"composite {composite.name!r}", set(composite.keys)
        arms = [_composite_arm(definition, values) for values in chosen]
    elif group.labels:
        key = _driving_label(query, group, probe)
        step, used = f"label {key!r}", {key}
        values = sorted(group.labels[key])
        arms = [_label_arm(key, [value]) for value in values] if len(values) <= most else [_label_arm(key, values)]
    else:
        step, arms, used = "time", [_time_arm()], set()
    for arm in arms:
        _narrow(arm, query, group, used)
    return Arms(describe(group, step), arms)


def page_statement(query: Query, arms: Sequence[Statement], limit: int) -> Statement:
    direction = "DESC" if query.descending else "ASC"
    whole = Statement("")
    for number, arm in enumerate(arms):
        whole.add("SELECT * FROM (" if number == 0 else " UNION SELECT * FROM (")
        whole.join(arm)
        whole.add(f" ORDER BY d.timestamp {direction}, d.ref {direction} LIMIT ?)", limit)
    if len(arms) > 1:
        whole.add(f" ORDER BY timestamp {direction}, ref {direction} LIMIT ?", limit)
    return whole


def count_statement(arms: Sequence[Statement]) -> Statement:
    """Of one arm its rows; of several the different refs."""
    whole = Statement("SELECT count(*) FROM (")
    for number, arm in enumerate(arms):
        whole.add("SELECT ref FROM (" if number == 0 else " UNION SELECT ref FROM (")
        whole.join(arm)
        whole.add(")")
    whole.add(")")
    return whole


def _driving_label(query: Query, group: Group, probe: Probing) -> str:
    if len(group.labels) == 1:
        return next(iter(group.labels))
    probes = [_probe(query, group, key, probe) for key in sorted(group.labels)]
    return best_label(probes, descending=query.descending)


def _probe(query: Query, group: Group, key: str, probe: Probing) -> Probe:
    """Value by value, since one walk over several would have to sort them all; a few tell enough."""
    direction = "DESC" if query.descending else "ASC"
    seen, reached = 0, []
    for value in sorted(group.labels[key])[:_VALUES_PROBED]:
        walk = Statement("SELECT timestamp, ref FROM labels AS d WHERE d.key = ? AND d.value = ?", [key, value])
        _bound(walk, query, group)
        last = Statement(walk.text, [*walk.parameters])
        last.add(f" ORDER BY timestamp {direction}, ref {direction} LIMIT 1 OFFSET ?", PROBE_POSITIONS - 1)
        row = probe(last)
        if row is not None:
            reached.append(Position(*row))
            continue
        amount = Statement("SELECT count(*), '' FROM (")
        amount.join(walk)
        amount.add(")")
        row = probe(amount)
        seen += 0 if row is None else row[0]
    if not reached:
        return Probe(key, seen, None)
    return Probe(key, PROBE_POSITIONS, max(reached) if query.descending else min(reached))


def _label_arm(key: str, values: Sequence[str]) -> Statement:
    # CROSS JOIN keeps this order: along the label first, then the entry of each.
    match = "d.value = ?" if len(values) == 1 else f"d.value IN ({', '.join('?' * len(values))})"
    return Statement(
        "SELECT d.ref, d.timestamp, e.expires_at, e.labels FROM labels AS d CROSS JOIN entries AS e ON e.ref = d.ref "
        f"WHERE d.key = ? AND {match}",
        [key, *values],
    )


def _composite_arm(definition: Definition, values: Sequence[str]) -> Statement:
    match = " AND ".join(f"d.{column} = ?" for column in definition.columns)
    return Statement(
        f"SELECT d.ref, d.timestamp, d.expires_at, d.labels FROM {definition.table} AS d WHERE {match}", list(values)
    )


def _time_arm() -> Statement:
    return Statement("SELECT d.ref, d.timestamp, d.expires_at, d.labels FROM entries AS d WHERE true")


def _narrow(arm: Statement, query: Query, group: Group, used: set[str]) -> None:
    """Everything that the walk itself does not know."""
    _bound(arm, query, group)
    table = "e" if " AS e " in arm.text else "d"
    if query.now_us is not None:
        arm.add(f" AND ({table}.expires_at IS NULL OR {table}.expires_at > ?)", query.now_us)
    for key in sorted(group.labels.keys() - used):
        values = sorted(group.labels[key])
        arm.add(
            " AND EXISTS (SELECT 1 FROM labels AS o WHERE o.key = ? "
            f"AND o.value IN ({', '.join('?' * len(values))}) AND o.timestamp = d.timestamp AND o.ref = d.ref)",
            key,
            *values,
        )
    for key in sorted(group.present - used):
        arm.add(f" AND EXISTS (SELECT 1 FROM json_each({table}.labels) AS j WHERE j.key = ?)", key)
    for key in sorted(group.absent):
        arm.add(f" AND NOT EXISTS (SELECT 1 FROM json_each({table}.labels) AS j WHERE j.key = ?)", key)


def _bound(arm: Statement, query: Query, group: Group) -> None:
    """One bound at each end: of two, SQLite would seek by one and read everything up to the other."""
    start, end, after = group.start, group.end, query.after
    if after is not None and not query.descending and (start is None or start <= after.timestamp):
        arm.add(" AND (d.timestamp, d.ref) > (?, ?)", *after)
    elif start is not None:
        arm.add(" AND d.timestamp >= ?", _clamped(start))
    if after is not None and query.descending and (end is None or end > after.timestamp):
        arm.add(" AND (d.timestamp, d.ref) < (?, ?)", *after)
    elif end is not None:
        arm.add(" AND d.timestamp < ?", _clamped(end))


def _clamped(bound: int) -> int:
    return min(max(bound, -1), 1 << 62)  # SQLite's integers end at 2^63, a filter's bound need not
