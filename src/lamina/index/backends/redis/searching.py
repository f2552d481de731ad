"""Queries as sorted sets: intersected and united inside Redis, read by rank."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from lamina.cel import Group
from lamina.clock import new_uid
from lamina.index.backends.matching import best_composite, combinations, describe
from lamina.index.backends.redis import layout
from lamina.index.backends.seam import Query

TEMPORARY_SECONDS = 300
"""How long a set made for one query outlives a process that dies; reading a page puts it off again."""


class Combine(NamedTuple):
    """Make the set `target` of several others; each of them is a score by ref, alike in all."""

    how: Literal["union", "intersection"]
    target: str
    sources: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Source:
    """The entries of some groups with the same time bounds: one sorted set, and the groups to check again."""

    set: str
    start: int | None
    end: int | None
    groups: tuple[Group, ...]

    @property
    def least(self) -> str:
        return "-inf" if self.start is None else str(_clamped(self.start))

    @property
    def past(self) -> str:
        return "+inf" if self.end is None else str(_clamped(self.end))


@dataclass(slots=True)
class Search:
    """What to make in Redis, what to read, and what it relied on."""

    sources: list[Source] = field(default_factory=list)
    combines: list[Combine] = field(default_factory=list)
    steps: list[str] = field(default_factory=list)
    is_exact: bool = True
    """Whether every member matches its groups, so that a count needs no entries."""
    composites: set[int] = field(default_factory=set)
    """The numbers of those it relies on: a name may be dropped and defined anew."""

    filled: list[str] = field(default_factory=list)
    """Sets that were made and are not empty: were one gone, its entries would be missing."""

    @property
    def temporaries(self) -> list[str]:
        return [combine.target for combine in self.combines]


def plan_search(query: Query, definitions: Mapping[str, layout.Definition], prefix: str) -> Search:
    """Groups with the same bounds are united in Redis; the others are merged by whoever reads."""
    search = Search()
    composites = [layout.composite_of(name, definition) for name, definition in definitions.items()]
    by_bounds: dict[tuple[int | None, int | None], list[Group]] = {}
    for group in query.groups:
        by_bounds.setdefault((group.start, group.end), []).append(group)
    namer = _names(prefix)
    for (start, end), groups in by_bounds.items():
        sets = []
        for group in groups:
            composite = best_composite(group, composites)
            parts: list[Sequence[str]] = []
            if composite is not None:
                number = definitions[composite.name].number
                search.composites.add(number)
                parts.append([layout.composite_name(number, chosen) for chosen in combinations(group, composite.keys)])
            used = frozenset(() if composite is None else composite.keys)
            for key in sorted(group.labels.keys() - used):
                parts.append([layout.label_name(key, value) for value in sorted(group.labels[key])])
            united = [_combine(search, "union", [prefix + name for name in names], namer) for names in parts]
            sets.append(_combine(search, "intersection", united or [prefix + "time"], namer))
            search.steps.append(describe(group, _way(None if composite is None else composite.name, group, used)))
            search.is_exact &= not (group.present | group.absent)
        search.sources.append(Source(_combine(search, "union", sets, namer), start, end, tuple(groups)))
    return search


def _combine(
    search: Search, how: Literal["union", "intersection"], sources: Sequence[str], namer: Iterator[str]
) -> str:
    if len(sources) == 1:
        return sources[0]
    combine = Combine(how, next(namer), tuple(sources))
    search.combines.append(combine)
    return combine.target


def _names(prefix: str) -> Iterator[str]:
    uid = new_uid().hex()
    number = 0
    while True:
        yield f"{prefix}{layout.TEMPORARY}{uid}:{number}"
        number += 1


def _way(composite: str | None, group: Group, used: frozenset[str]) -> str:
    ways = [] if composite is None else [f"composite {composite!r}"]
    ways += [f"label {key!r}" for key in sorted(group.labels.keys() - used)]
    return " and ".join(ways) or "time"


def _clamped(bound: int) -> int:
    return min(max(bound, -1), layout.SCORE_MAX + 1)  # all scores lie between
