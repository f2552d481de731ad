"""What a filter asks of an index: groups of conditions that indexes answer, each with what is left to evaluate.

A message matches the plan if it matches any group; it matches a group if every condition holds and the residual is
true. No group at all means that nothing can match.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from lamina.cel.columns import Columns

T = TypeVar("T")

GROUPS_MAX = 16
"""With more groups than this a part is evaluated instead: each group costs every index a look."""


class Residual(Protocol):
    """An expression that no index answers. Immutable; any thread."""

    def truth(self, columns: Columns) -> npt.NDArray[np.bool_]:
        """Which rows it is true for; an error is not true."""

    def matches(self, variables: Mapping[str, object]) -> bool:
        """Whether it is true for one message; a variable that is missing is an error, and an error is not true."""


@dataclass(frozen=True, slots=True)
class Group:
    """Conditions that must all hold. Bounds are half-open; None is unbounded, or any."""

    labels: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Each key is there with one of its values."""
    present: frozenset[str] = frozenset()
    absent: frozenset[str] = frozenset()
    topics: frozenset[str] | None = None
    priorities: frozenset[int] | None = None
    partitions: frozenset[int] | None = None
    start: int | None = None
    end: int | None = None
    """Timestamps, in microseconds."""
    offset_start: int | None = None
    offset_end: int | None = None
    residual: tuple[Residual, ...] = ()
    """All of these must be true as well."""

    def meet(self, other: Group) -> Group | None:
        """Both groups at once; None if no message can be in both."""
        labels = dict(self.labels)
        for key, values in other.labels.items():
            labels[key] = labels[key] & values if key in labels else values
        met = Group(
            labels=labels,
            present=(self.present | other.present) - labels.keys() if self.present or other.present else self.present,
            absent=self.absent | other.absent,
            topics=_both(self.topics, other.topics),
            priorities=_both(self.priorities, other.priorities),
            partitions=_both(self.partitions, other.partitions),
            start=_later(self.start, other.start),
            end=_earlier(self.end, other.end),
            offset_start=_later(self.offset_start, other.offset_start),
            offset_end=_earlier(self.offset_end, other.offset_end),
            residual=_all_of(self.residual, other.residual),
        )
        return None if met._is_contradiction() else met

    def covers(self, other: Group) -> bool:
        """Whether everything in the other group is in this one too, as far as the conditions tell."""
        return (
            all(key in other.labels and other.labels[key] <= values for key, values in self.labels.items())
            and self.present <= other.present | other.labels.keys()
            and self.absent <= other.absent
            and _is_wider(self.topics, other.topics)
            and _is_wider(self.priorities, other.priorities)
            and _is_wider(self.partitions, other.partitions)
            and _later(self.start, other.start) == other.start
            and _earlier(self.end, other.end) == other.end
            and _later(self.offset_start, other.offset_start) == other.offset_start
            and _earlier(self.offset_end, other.offset_end) == other.offset_end
            and all(test in other.residual for test in self.residual)
        )

    def joined(self, other: Group) -> Group | None:
        """One group for both, if they differ only in one set of values; else None."""
        if self.labels.keys() != other.labels.keys():
            return None
        changed: dict[str, frozenset[str]] = {k: v for k, v in other.labels.items() if self.labels[k] != v}
        if len(changed) == 1:
            key, values = changed.popitem()
            joined = replace(self, labels={**self.labels, key: self.labels[key] | values})
            return joined if replace(other, labels=joined.labels) == joined else None
        if changed:
            return None
        for name in ("topics", "priorities", "partitions"):
            mine, theirs = getattr(self, name), getattr(other, name)
            if mine is not None and theirs is not None and mine != theirs:
                joined = replace(self, **{name: mine | theirs})
                return joined if replace(other, **{name: mine | theirs}) == joined else None
        return None

    def describe(self) -> dict[str, object]:
        """The conditions in plain values, without those that there are none of."""
        found: dict[str, object] = {
            "labels": {key: sorted(values) for key, values in sorted(self.labels.items())},
            "present": sorted(self.present),
            "absent": sorted(self.absent),
            "residual": [str(test) for test in self.residual],
        }
        found = {name: value for name, value in found.items() if value}
        for name in ("topics", "priorities", "partitions"):
            if (choice := getattr(self, name)) is not None:
                found[name] = _shown(choice)
        for name in ("start", "end", "offset_start", "offset_end"):
            if (bound := getattr(self, name)) is not None:
                found[name] = bound
        return found

    def _is_contradiction(self) -> bool:
        return (
            not all(self.labels.values())
            or (bool(self.absent) and not self.absent.isdisjoint(self.present | self.labels.keys()))
            or (self.topics is not None and not self.topics)
            or (self.priorities is not None and not self.priorities)
            or (self.partitions is not None and not self.partitions)
            or _is_empty(self.start, self.end)
            or _is_empty(self.offset_start, self.offset_end)
        )


@dataclass(frozen=True, slots=True)
class Plan:
    """Any of the groups."""

    groups: tuple[Group, ...] = (Group(),)

    def meet(self, other: Plan) -> Plan:
        """What both plans let through: every pair of groups, without contradictions."""
        met: list[Group] = []
        for mine in self.groups:
            for theirs in other.groups:
                if (group := mine.meet(theirs)) is not None:
                    add(met, group)
        return Plan(tuple(met))


def add(groups: list[Group], new: Group) -> None:
    """One group more: into a group that it differs from in one set of values, or not at all if it adds nothing."""
    for place, group in enumerate(groups):
        if group.covers(new):
            return
        joined = group.joined(new)
        if joined is not None:
            del groups[place]
            add(groups, joined)
            return
    groups[:] = [group for group in groups if not new.covers(group)]
    groups.append(new)


def _shown(choice: frozenset[int] | frozenset[str]) -> list[object] | str:
    """A choice as a list, or from first to last if it is a long row of numbers."""
    numbers = [value for value in choice if isinstance(value, int)]
    if len(numbers) > 4 and max(numbers) - min(numbers) + 1 == len(numbers):
        return f"{min(numbers)}..{max(numbers)}"
    return [*sorted(numbers), *sorted(value for value in choice if isinstance(value, str))]


def _is_wider(left: frozenset[T] | None, right: frozenset[T] | None) -> bool:
    return left is None or (right is not None and right <= left)


def _both(left: frozenset[T] | None, right: frozenset[T] | None) -> frozenset[T] | None:
    if left is None or right is None:
        return right if left is None else left
    return left & right


def _all_of(left: tuple[Residual, ...], right: tuple[Residual, ...]) -> tuple[Residual, ...]:
    if not left or not right:
        return left or right
    return left + tuple(test for test in right if test not in left)


def _later(left: int | None, right: int | None) -> int | None:
    if left is None or right is None:
        return right if left is None else left
    return max(left, right)


def _earlier(left: int | None, right: int | None) -> int | None:
    if left is None or right is None:
        return right if left is None else left
    return min(left, right)


def _is_empty(start: int | None, end: int | None) -> bool:
    return start is not None and end is not None and start >= end
