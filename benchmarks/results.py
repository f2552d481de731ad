"""A measured figure, what it is compared with, and whether it keeps its target."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Literal

Unit = Literal["msg/s", "B/s", "B", "s"]


@dataclass(frozen=True, slots=True)
class Limit:
    """A bound: at least, or at most, `value`."""

    kind: Literal["≥", "≤"]
    value: float

    def is_kept_by(self, figure: float) -> bool:
        return figure >= self.value if self.kind == "≥" else figure <= self.value


@dataclass(frozen=True, slots=True)
class Rival:
    """What the figure is compared with, in the same unit and from the same run."""

    name: str
    figure: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One row of the table. Without a target it is only reported."""

    name: str
    figure: float
    unit: Unit
    rival: Rival | None = None
    target: Limit | None = None
    ratio_target: Limit | None = None
    figures: tuple[float, ...] = field(default=())
    """One figure per repetition, in their order."""

    @property
    def ratio(self) -> float | None:
        """The figure in units of the rival's."""
        return None if self.rival is None or not self.rival.figure else self.figure / self.rival.figure

    @property
    def is_kept(self) -> bool | None:
        """Whether every target is kept; None if there is none."""
        checks = []
        if self.target is not None:
            checks.append(self.target.is_kept_by(self.figure))
        if self.ratio_target is not None and self.ratio is not None:
            checks.append(self.ratio_target.is_kept_by(self.ratio))
        return all(checks) if checks else None


def at_least(value: float) -> Limit:
    return Limit("≥", value)


def at_most(value: float) -> Limit:
    return Limit("≤", value)


def percentile(samples: Sequence[float], percent: float) -> float:
    """The smallest sample that at least `percent` of all samples do not exceed."""
    ordered = sorted(samples)
    return ordered[max(0, -int(-len(ordered) * percent // 100) - 1)]


def medians(runs: Iterable[Iterable[Result]]) -> list[Result]:
    """One result per name, in the order of the first run: the median of its figures and of its rival's."""
    found: defaultdict[str, list[Result]] = defaultdict(list)
    for run in runs:
        for result in run:
            found[result.name].append(result)
    return [_median(same) for same in found.values()]


def _median(same: Sequence[Result]) -> Result:
    first = same[0]
    rival = first.rival
    if rival is not None:
        rival = Rival(rival.name, median(result.rival.figure for result in same if result.rival is not None))
    figures = tuple(result.figure for result in same)
    return replace(first, figure=median(figures), rival=rival, figures=figures)
