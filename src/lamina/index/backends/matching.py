"""Whether entries match, and which way to them is the shortest. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import product
from math import prod
from typing import NamedTuple

from lamina.cel import Group
from lamina.errors import Conflict, InvalidRequest
from lamina.index.backends.entry import Entry, Position, checked_name
from lamina.index.backends.seam import Composite
from lamina.model import check_text

COMBINATIONS_MAX = 64
"""Value combinations of a group that are looked up in a composite one by one."""
PROBE_POSITIONS = 64
"""Enough to tell a rare label from a common one, and cheaper than reading one page of the wrong one."""
_LABEL_KEY_BYTES_MAX = 256


def matches_labels(group: Group, entry: Entry) -> bool:
    labels = entry.labels
    return (
        all(labels.get(key) in values for key, values in group.labels.items())
        and labels.keys() >= group.present
        and group.absent.isdisjoint(labels)
    )


def matches_time(group: Group, timestamp: int) -> bool:
    return (group.start is None or group.start <= timestamp) and (group.end is None or timestamp < group.end)


def matches_pushed(group: Group, entry: Entry) -> bool:
    """Everything but the residual."""
    return matches_time(group, entry.timestamp) and matches_labels(group, entry)


def matches_whole(groups: Iterable[Group], entry: Entry) -> bool:
    """Any group, with its residual."""
    variables = None
    for group in groups:
        if not matches_pushed(group, entry):
            continue
        if not group.residual:
            return True
        variables = entry.variables() if variables is None else variables
        if all(residual.matches(variables) for residual in group.residual):
            return True
    return False


def best_composite(group: Group, composites: Iterable[Composite]) -> Composite | None:
    """The ready composite with the most keys, all of which the group fixes; None if there is none.

    One whose keys the group fixes only in part would miss entries that lack the others.
    """
    usable = [
        composite
        for composite in composites
        if composite.state == "ready"
        and group.labels.keys() >= set(composite.keys)
        and prod(len(group.labels[key]) for key in composite.keys) <= COMBINATIONS_MAX
    ]
    return max(usable, key=lambda composite: (len(composite.keys), composite.name), default=None)


def combinations(group: Group, keys: Sequence[str]) -> list[tuple[str, ...]]:
    """Every choice of one value for each key."""
    return list(product(*(sorted(group.labels[key]) for key in keys)))


def composite_values(keys: Sequence[str], entry: Entry) -> tuple[str, ...] | None:
    """The entry's values for the keys; None if it lacks one and so is not in the composite."""
    labels = entry.labels
    return tuple(labels[key] for key in keys) if all(key in labels for key in keys) else None


def check_composite(name: str, keys: Sequence[str], others: Collection[Composite]) -> Composite:
    """A new definition. The order of keys plays no part: two composites of one set would hold the same answers."""
    checked_name("name of a composite", name)
    if isinstance(keys, str) or not keys:
        raise InvalidRequest(f"composite {name!r} needs a list of one or more label keys, not {keys!r}")
    for key in keys:
        check_text("label key", key, _LABEL_KEY_BYTES_MAX)
    if len(set(keys)) != len(keys):
        raise InvalidRequest(f"composite {name!r} names a label key twice: {list(keys)}")
    for other in others:
        if other.name == name:
            raise Conflict(f"there is a composite {name!r} already, over {list(other.keys)}")
        if set(other.keys) == set(keys):
            raise Conflict(f"composite {other.name!r} is over the same label keys {sorted(keys)}")
    return Composite(name, tuple(keys), "building")


def describe(group: Group, way: str) -> str:
    """One line of an explanation: how a group is answered."""
    checked = [f"labels[{key!r}]" for key in sorted(group.labels)]
    checked += [f"{key!r} in labels" for key in sorted(group.present)]
    checked += [f"{key!r} not in labels" for key in sorted(group.absent)]
    if group.start is not None or group.end is not None:
        checked.append(f"time [{group.start}, {group.end})")
    return f"{way} -> {', '.join(checked) or 'every entry'}"


class Probe(NamedTuple):
    """The first few positions that have a label: all `seen` of them, or as far as `last`."""

    key: str
    seen: int
    last: Position | None


def best_label(probes: Sequence[Probe], *, descending: bool) -> str:
    """The key whose matches are fewest: it ends within the probe, or its probe reaches furthest."""
    ended = [probe for probe in probes if probe.last is None]
    if ended:
        return min(ended, key=lambda probe: (probe.seen, probe.key)).key
    reached = [(probe.last, probe.key) for probe in probes if probe.last is not None]
    return (min(reached) if descending else max(reached))[1]
